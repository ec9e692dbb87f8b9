"""Checkpoint folders that all ranks share, in the C++ library's format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from . import _core, inner_state, resharding
from .errors import InvalidArgument
from .state import finish_load

if TYPE_CHECKING:
    from .optimizer import Optimizer

_PLAIN = (bool, int, float, type(None))  # beside text, of what save takes
_JSON = "laconic.json"  # names those of `extra` that are no text
_INNER = "laconic.inner"  # lists the inner optimizer's state, which each rank saves as numbers
_RUNS = "laconic.runs"  # what ran: the device, and how it was checked


def save(path: Any, optimizer: Optimizer, extra: dict[str, Any] | None = None) -> None:
    """Writes a checkpoint folder that all ranks share, weights included; the one before stays until it is whole.

    `extra` is text, numbers, truth values and None of your own, by name. The same files as the C++ library's, in
    safetensors format. Collective.

    >>> import tempfile, torch, laconic
    >>> optimizer = laconic.SGD([torch.nn.Parameter(torch.ones(10))], lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     laconic.save(folder + "/checkpoint", optimizer, {"epoch": 3})
    ...     laconic.resume(folder + "/checkpoint", optimizer)
    {'epoch': 3}
    """
    resharding.refuse(optimizer, "laconic.save")
    optimizer._take_up_weights()
    text, own = _as_text(extra or {}) | {_RUNS: optimizer.describe()}, torch.zeros(0, dtype=torch.float64)
    if optimizer._inner is not None:
        leaves = inner_state.plan(optimizer._inner, optimizer._group)
        text[_INNER], own = json.dumps(leaves), inner_state.numbers(optimizer._inner, leaves)
    _core.save_checkpoint(str(path), optimizer._core, text, own)


def _as_text(extra: dict[str, Any]) -> dict[str, str]:
    for name, value in extra.items():
        if not isinstance(name, str) or name in (_JSON, _INNER, _RUNS) or not isinstance(value, (str, *_PLAIN)):
            wanted = "names are text, values text, numbers, True, False or None"
            raise InvalidArgument(f"extra has {name!r}: {value!r}; {wanted}")
    others = [name for name, value in extra.items() if not isinstance(value, str)]
    text = {name: json.dumps(value) if name in others else value for name, value in extra.items()}
    return text | ({_JSON: json.dumps(others)} if others else {})


def _from_text(extra: dict[str, str]) -> dict[str, Any]:
    others = json.loads(extra.pop(_JSON, "[]"))
    return extra | {name: json.loads(extra[name]) for name in others}


def resume(path: Any, optimizer: Optimizer) -> dict[str, Any]:
    """Loads what save() wrote, with the same ranks exactly, with others as consolidate() does; returns `extra`.

    >>> import laconic
    >>> laconic.resume.__name__
    'resume'
    """
    resharding.refuse(optimizer, "laconic.resume")
    optimizer._arena.take_home(started=False)
    optimizer._follow()
    inner = optimizer._inner
    leaves = [] if inner is None else json.loads(_core.checkpoint_extra(str(path)).get(_INNER, "[]"))
    own = torch.zeros(inner_state.count(leaves), dtype=torch.float64)
    _core.load_checkpoint(str(path), optimizer._core, own)
    if inner is not None:
        inner.load_state_dict(inner_state.as_dict(leaves, own, inner, inner.state_dict()["param_groups"]))
    finish_load(optimizer, None)
    extra = _core.checkpoint_extra(str(path))
    return _from_text({name: value for name, value in extra.items() if name not in (_INNER, _RUNS)})
