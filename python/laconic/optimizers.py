"""The optimizers: one class per registered method, made from its description in C++ (laconic/optim/methods)."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from . import _core
from .arguments import plain
from .errors import InvalidArgument
from .local_steps import AroundInner
from .optimizer import Optimizer

_POSITIONAL = ("betas", "eps", "momentum", "beta", "weight_decay")  # after lr: torch's names, in torch's order
_TORCH = {"beta1": "betas", "beta2": "betas", "epsilon": "eps", "outer_beta1": "outer_betas", "outer_beta2": "outer_betas"}  # torch's names of options that have another one
# Shared options that Optimizer.__init__ has in another form (None, bucket_mb), or that Python does not have.
_OTHERWISE = {"ranks_per_node", "max_grad_norm", "threads", "bucket_elements", "skip", "guard"}
# What a torch optimizer has itself, and what needs gradients that are exchanged.
_OF_INNER = {"inner", "beta1", "beta2", "epsilon", "bias_correction", "momentum", "weight_decay", "exchange", "strict"}
_OF_GRADIENTS = {"max_grad_norm", "exchange", "overlap"}
_NONE = {"unset", "default"}  # words that are None in Python
_BASE = inspect.signature(Optimizer.__init__).parameters
_SHARED = {name: one for name, one in _BASE.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}

_HELP = {  # of what is Python's own
    "inner": "the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact means)",
    "params": "parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)",
    "lr": "learning rate",
    "process_group": "of the ranks that train together; None: all",
    "ranks_per_node": "exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine; None: coded "
    "between all ranks",
    "bucket_mb": "MiB of float32 values that are exchanged at once",
    "overlap": "let exchanges begin while backward is running",
    "threads": "threads of each rank; None: torch.get_num_threads()",
    "timeout": "a timedelta; None: the process group's",
}
_EXAMPLE = """
    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.{python}([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

_LOCAL_EXAMPLE = """
    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.{python}(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """


def methods() -> list[dict[str, Any]]:
    """All methods with their options, as `laconic methods --json` prints them.

    >>> import laconic
    >>> {method["name"]: method["python"] for method in laconic.methods()}["adamw"]
    'AdamW'
    """
    return _core.methods()


def _value(option: dict[str, Any], text: str) -> Any:
    """Text of the registry as Python's value."""
    if text in option["words"]:
        return {"unset": None, "default": None, "true": True, "false": False}.get(text, text)
    return {"number": float, "integer": int}.get(option["type"], str)(text)


def _annotation(option: dict[str, Any]) -> str:
    kind = {"number": "float", "integer": "int", "boolean": "bool", "choice": ""}.get(option["type"], "str")
    words = [f'"{word}"' for word in option["words"] if not word.isdigit() and word not in _NONE and kind != "bool"]
    literal = f"Literal[{', '.join(words)}]" if words else ""
    return " | ".join(part for part in (kind, literal, "None" if _NONE.intersection(option["words"]) else "") if part)


def _signature(method: dict[str, Any]) -> inspect.Signature:
    """Torch's arguments by position, then keywords: the method's own, and those of all optimizers."""
    own: dict[str, inspect.Parameter] = {}

    def add(name: str, annotation: str, default: Any) -> None:
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD if name in ("lr", *_POSITIONAL) else inspect.Parameter.KEYWORD_ONLY
        own[name] = inspect.Parameter(name, place, annotation=annotation, default=default)

    lr = method["python_defaults"].get("lr", "1e-3")
    add("lr", "float | Tensor", float(lr) if lr else inspect.Parameter.empty)
    values = {}
    for option in method["options"]:
        name = option["name"]
        values[name] = _value(option, method["python_defaults"].get(name, option["default"]))
        if name not in _OTHERWISE:
            add(_TORCH.get(name, name), _annotation(option), values[name])
    if "betas" in own:
        add("betas", "tuple[float, float]", (values["beta1"], values["beta2"]))
    first = [own.pop(name) for name in ("lr", *_POSITIONAL) if name in own]
    rest = [parameter for name, parameter in _SHARED.items() if name not in own]
    return inspect.Signature([_BASE["self"], _BASE["params"], *first, *own.values(), *rest])


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Under the registry's names."""
    options = {{"eps": "epsilon"}.get(name, name): value for name, value in given.items()}
    for name in ("betas", "outer_betas"):
        if name not in options:
            continue
        betas = options.pop(name)
        both = plain(name, betas)
        if not isinstance(both, tuple) or len(both) != 2:
            raise InvalidArgument(f"{name}={betas}: give two numbers")
        options |= {f"{name[:-1]}1": both[0], f"{name[:-1]}2": both[1]}
    return options


def _doc(method: dict[str, Any], names: list[str], example: str = _EXAMPLE) -> str:
    about: dict[str, str] = {}
    for option in method["options"]:
        name = _TORCH.get(option["name"], option["name"])
        about[name] = f"{about[name]}; {option['help']}" if name in about else option["help"]
    about = {"exchange": "for methods that code"} | about | _HELP
    lines = [f"{name}: {about[name]}".replace("unset:", "None:").replace("; default:", "; None:") for name in names]
    if method["aliases"]:
        lines += ["", "DeepSpeed's names: " + ", ".join(f"{a} ({name})" for a, name in method["aliases"].items())]
    wrap = textwrap.TextWrapper(116, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)
    title, summary = method["title"], method["summary"]
    text = [f"{summary if summary.startswith(title) else f'{title}: {summary}'}.", "", f"    {method['paper']}.", "", "    Args:"]
    return "\n".join([*text, *(wrap.fill(line) for line in lines)]) + "\n" + example.format(**method)


def _class_of(method: dict[str, Any]) -> type[Optimizer]:
    signature = _signature(method)
    by_default = {option["name"] for option in method["options"] if "default" in option["words"]}

    def __init__(self, *args: Any, **given: Any) -> None:
        for alias, name in method["aliases"].items():
            if alias in given:
                given[name] = given.pop(alias)
        bound = signature.bind(self, *args, **given)
        bound.apply_defaults()
        values = bound.arguments
        params, lr = values["params"], values["lr"]
        shared = {name: values[name] for name in _SHARED}
        own = {name: value for name, value in values.items() if name not in ("self", "params", "lr", *_SHARED)}
        own = {name: value for name, value in own.items() if value is not None or name not in by_default}
        defaults = {"lr": lr} | {name: own[name] for name in _POSITIONAL if name in own}
        Optimizer.__init__(self, params, defaults, {"algorithm": method["name"], **_options(own)}, **shared)

    __init__.__signature__ = signature
    doc = _doc(method, list(signature.parameters)[1:])
    body = {"__init__": __init__, "__doc__": doc, "__module__": __name__, "_method": method}
    return type(method["python"], (Optimizer,), body)


def _local_signature(method: dict[str, Any]) -> inspect.Signature:
    """The inner optimizer, then keywords: the method's own, and those of all optimizers that concern no gradients."""
    own: dict[str, inspect.Parameter] = {}
    values = {option["name"]: _value(option, option["default"]) for option in method["options"]}
    for option in method["options"]:
        name = option["name"]
        if name in _OF_INNER | _OTHERWISE:
            continue
        annotation, default, name = _annotation(option), values[name], _TORCH.get(name, name)
        if name == "outer_betas":
            annotation, default = "tuple[float, float]", (values["outer_beta1"], values["outer_beta2"])
        own[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
    rest = [parameter for name, parameter in _SHARED.items() if name not in own and name not in _OF_GRADIENTS]
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    inner = inspect.Parameter("inner", place, annotation="torch.optim.Optimizer")
    return inspect.Signature([_BASE["self"], inner, *own.values(), *rest])


def _local_class_of(method: dict[str, Any], base: type) -> type[Optimizer]:
    """Around an optimizer that the user gives; presets are classes of their method's."""
    signature = _local_signature(method)

    def __init__(self, *args: Any, **given: Any) -> None:
        bound = signature.bind(self, *args, **given)
        values = {name: value for name, value in bound.arguments.items() if name != "self" and value is not None}
        inner = values.pop("inner", None)
        shared = {name: values.pop(name) for name in _SHARED if name in values}
        AroundInner.__init__(self, inner, {"algorithm": method["name"], **_options(values)}, **shared)

    __init__.__signature__ = signature
    doc = _doc(method, list(signature.parameters)[1:], _LOCAL_EXAMPLE)
    body = {"__init__": __init__, "__doc__": doc, "__module__": __name__, "_method": method}
    return type(method["python"], (base,), body)


def _classes() -> dict[str, type[Optimizer]]:
    found: dict[str, type[Optimizer]] = {}
    of_method: dict[str, type] = {"": AroundInner}
    for method in _core.methods():
        if not method["python"]:
            continue
        around = any(option["name"] == "inner" for option in method["options"])
        made = _local_class_of(method, of_method[method["preset_of"]]) if around else _class_of(method)
        found[method["python"]] = of_method[method["name"]] = made
    return found


_CLASSES = _classes()
globals().update(_CLASSES)

__all__ = [*_CLASSES, "methods"]
