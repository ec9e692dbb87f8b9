"""What users give to optimizers and hooks, as the core reads it."""

from __future__ import annotations

from typing import Any

from . import _core
from .errors import InvalidArgument

_WHOLE = {o["name"] for method in _core.methods() for o in method["options"] if o["type"] == "integer"}


def plain(name: str, value: Any) -> Any:
    """Scalars of numpy and torch, lists and whole floats as what Python has for them."""
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1:
        return tuple(plain(name, one) for one in value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if name in _WHOLE and isinstance(value, float):
        if not value.is_integer():
            raise InvalidArgument(f"{name}={value}: it must be a whole number")
        return int(value)
    return value


def text(name: str, value: Any) -> str:
    """The value of an option as the registry spells it."""
    value = plain(name, value)
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def nodes(ranks_per_node: int | str | None) -> int:
    """As means take it: 0 for None (flat), -1 for "auto"."""
    if ranks_per_node is None:
        return 0
    if ranks_per_node == "auto":
        return -1
    number = plain("ranks_per_node", ranks_per_node)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidArgument(f'ranks_per_node={ranks_per_node!r}: give a number from 1, "auto", or None for no nodes')
    return number
