"""Optimizers from DeepSpeed's configuration files."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import warnings
from typing import Any, Iterable

from . import optimizers
from .errors import InvalidArgument
from .local_steps import AroundInner
from .optimizer import Optimizer

_NAMES = (one["python"] for one in optimizers.methods() if one["python"])
_CLASSES = {name: cls for name in _NAMES if not issubclass(cls := getattr(optimizers, name), AroundInner)}
# What DeepSpeed takes where its configuration does not give them. Its other defaults are ours.
_DEFAULTS = {"freeze_step": 100_000, "var_freeze_step": 100_000, "local_step_scaler": 32_678}
_WITHOUT_MEANING = {"cuda_aware", "comm_backend_name", "eps_inside_sqrt"}  # the last one has no effect in DeepSpeed either
# How DeepSpeed's 1-bit LAMB scales its frozen ratios. Here they are computed in every step.
_OF_FROZEN_RATIOS = {"coeff_beta", "factor_max", "factor_min", "factor_threshold"}
_OTHER_SECTIONS = {
    "scheduler": "use torch.optim.lr_scheduler",
    "fp16": "use torch.autocast and torch.amp.GradScaler, or weights in half precision",
    "bf16": "use torch.autocast, or weights in bfloat16",
    "zero_optimization": "every rank keeps whole weights",
    "gradient_accumulation_steps": "call backward that many times before step()",
}


def from_deepspeed(config: dict[str, Any] | str | os.PathLike, params: Iterable[Any], **options: Any) -> Optimizer:
    """The optimizer that the `optimizer` section of a DeepSpeed configuration (a dictionary, or the path of a JSON file) names.

    `gradient_clipping` becomes `max_grad_norm`. `options` come before what the configuration has: `lr=1e-3` where it has "auto",
    `total_steps=...` to derive schedules instead of taking DeepSpeed's defaults. Keys without a meaning here are named in a
    warning; unknown ones are an error. docs/tutorial/from-deepspeed.md has all keys, and what is computed differently.

    >>> import torch, laconic
    >>> config = {"optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-3, "freeze_step": 400}}, "gradient_clipping": 1.0}
    >>> type(laconic.from_deepspeed(config, [torch.nn.Parameter(torch.zeros(10))])).__name__
    'OneBitAdam'
    """
    if not isinstance(config, dict):
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    if not isinstance(config, dict):
        raise InvalidArgument(f"the configuration is no object but a {type(config).__name__}")
    section = config.get("optimizer")
    if not isinstance(section, dict) or "type" not in section:
        raise InvalidArgument('the configuration has no section "optimizer" with a "type"')
    cls = _class_named(section["type"])
    given = _checked(cls, section.get("params", {}))
    given |= _clipping(config, given)
    aliases = cls._method["aliases"]
    known = {*inspect.signature(cls).parameters, *aliases}
    if "total_steps" not in {*given, *options}:
        names = {aliases.get(name, name) for name in {*given, *options}}
        given |= {key: value for key, value in _DEFAULTS.items() if key in known and aliases.get(key, key) not in names}
    replaced = {aliases.get(name, name) for name in options}
    given = {key: value for key, value in given.items() if aliases.get(key, key) not in replaced}
    automatic = {option["name"] for option in cls._method["options"] if "auto" in option["words"]}
    for key, value in given.items():
        if value == "auto" and aliases.get(key, key) not in automatic:
            raise InvalidArgument(f'{key} is "auto", which Hugging Face\'s Trainer fills in: give from_deepspeed(..., {key}=...)')
    _warn(config, section.get("params", {}))
    return cls(params, **given, **options)


def _class_named(text: str) -> type[Optimizer]:
    classes = {name.lower(): cls for name, cls in _CLASSES.items()}
    if text.lower() in classes:
        return classes[text.lower()]
    names = ", ".join(_CLASSES)
    raise InvalidArgument(f'laconic has no optimizer "{text}"{_nearest(text, _CLASSES)}: there are {names}')


def _nearest(text: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(text, names, 1, 0.85)
    return f', did you mean "{found[0]}"?' if found else ""


def _checked(cls: type[Optimizer], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the section that the class takes."""
    known = {*inspect.signature(cls).parameters, *cls._method["aliases"]} - {"params"}
    ignored = _WITHOUT_MEANING | (_OF_FROZEN_RATIOS if {"max_coeff", "freeze_step"} <= known else set())
    for key in params:
        if key not in known | ignored | {"amsgrad"}:
            raise InvalidArgument(f'{cls.__name__} has no parameter "{key}"{_nearest(key, known)}')
    if params.get("amsgrad"):
        raise InvalidArgument(f"amsgrad is true: {cls.__name__} has no such variant, nor has DeepSpeed's")
    return {key: value for key, value in params.items() if key in known}


def _clipping(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    clipping, own = config.get("gradient_clipping") or 0, given.get("max_grad_norm") or 0
    if clipping and own and clipping != own:
        raise InvalidArgument(f"gradient_clipping is {clipping} and max_grad_norm {own}: give one of them")
    return {"max_grad_norm": clipping or own}


def _in_use(value: Any) -> bool:
    """Whether a section asks for something."""
    if isinstance(value, dict):
        return bool(value.get("enabled", value.get("stage", value)))
    return value not in (1, None, "auto")


def _warn(config: dict[str, Any], params: dict[str, Any]) -> None:
    without = sorted((_WITHOUT_MEANING | _OF_FROZEN_RATIOS) & params.keys())
    texts = [f"{', '.join(without)}: no meaning here"] if without else []
    texts += [f"{key}: {text}" for key, text in _OTHER_SECTIONS.items() if key in config and _in_use(config[key])]
    if texts:
        warnings.warn(f"laconic.from_deepspeed does not use {'; '.join(texts)}", stacklevel=3)
