"""The state of the torch optimizer inside of local steps, as numbers that can be saved and averaged over ranks.

A plan lists the leaves of inner.state_dict()["state"] on all ranks; each is one number, 1 where this rank has it, and then its
elements. So the mean of these numbers over any ranks is the state that they have in common: a leaf is its sum divided by
how many have it. Of a tensor that is sharded as its parameter is (laconic.shards) a rank has its part.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Iterator

import torch
from torch import Tensor

from .errors import InvalidArgument
from .shards import as_part_of, is_shard, local_of
from .transport import Group

if TYPE_CHECKING:
    from torch.optim import Optimizer

_LARGEST = 2**53  # whole numbers that a double holds exactly
_EMPTY: dict[str, Callable[[], Any]] = {"NoneType": lambda: None, "dict": dict, "list": list, "tuple": list}  # without elements
_SCALARS: dict[str, Callable[[float], Any]] = {"float": float, "int": round, "bool": lambda value: value >= 0.5}
PART = "part of "  # before the type of what is sharded

Leaf = tuple[str, str, list[int]]  # where it lies, its type, its shape


def _leaves(value: Any, path: list) -> Iterator[tuple[list, Any]]:
    if isinstance(value, (dict, list, tuple)) and value:
        kind, parts = ("dict", value.items()) if isinstance(value, dict) else ("list", enumerate(value))
        for key, part in parts:
            yield from _leaves(part, [*path, [kind, key]])
    else:
        yield path, value


def parameters_of(inner: Optimizer) -> list[Any]:
    """In the order of the keys of their states."""
    return [parameter for group in inner.param_groups for parameter in group["params"]]


def _leaf(path: list, value: Any, parameters: list[Any]) -> Leaf:
    if isinstance(value, Tensor) and value.layout is torch.strided and not value.is_complex():
        if is_shard(value):
            _check_part(path, value, parameters[path[0][1]])
        return json.dumps(path), (PART if is_shard(value) else "") + str(value.dtype), list(local_of(value).shape)
    if type(value).__name__ in (*_SCALARS, *_EMPTY):
        return json.dumps(path), type(value).__name__, []
    where = ".".join(str(key) for _, key in path)
    raise InvalidArgument(
        f"the inner optimizer's state {where} is {type(value).__name__}, and only dense tensors, numbers and None are saved for "
        "other ranks: save state_dict() of each rank"
    )


def _check_part(path: list, value: Any, parameter: Any) -> None:
    if (value.shape, value.placements) != (parameter.shape, parameter.placements):
        raise InvalidArgument(
            f"the inner optimizer's state {'.'.join(str(key) for _, key in path)} is sharded otherwise than its parameter, "
            f"{tuple(value.shape)} as {value.placements}: save state_dict() of each rank"
        )


def _own(inner: Optimizer) -> dict[str, tuple[Leaf, Any]]:
    state, parameters = inner.state_dict()["state"], parameters_of(inner)
    found = (leaf for key, value in state.items() for leaf in _leaves(value, [["dict", key]]))
    return {leaf[0]: (leaf, value) for leaf, value in ((_leaf(path, value, parameters), value) for path, value in found)}


def plan(inner: Optimizer, group: Group | None) -> list[Leaf]:
    """The leaves that any rank has. Collective."""
    mine = [leaf for leaf, _ in _own(inner).values()]
    texts = [json.dumps(mine).encode()] if group is None else group.gather_bytes(json.dumps(mine).encode())
    all_leaves: dict[str, Leaf] = {}
    for rank, text in enumerate(texts):
        for path, kind, shape in json.loads(text):
            known = all_leaves.setdefault(path, (path, kind, shape))
            if known[1:] != (kind, shape):
                raise InvalidArgument(
                    f"the inner optimizer's state {path} is {kind} {shape} on rank {rank} and {known[1]} {known[2]} on another: "
                    "make the same optimizer on every rank"
                )
    return list(all_leaves.values())


def _count(leaf: Leaf) -> int:
    _, kind, shape = leaf
    return 1 + (0 if kind in _EMPTY else torch.Size(shape).numel())


def count(leaves: list[Leaf]) -> int:
    return sum(map(_count, leaves))


def numbers(inner: Optimizer, leaves: list[Leaf]) -> Tensor:
    """What this rank has of them."""
    out, at, own = torch.zeros(count(leaves), dtype=torch.float64), 0, _own(inner)
    for leaf in leaves:
        if leaf[0] in own:
            value = own[leaf[0]][1]
            out[at] = 1
            if leaf[1] not in _EMPTY:
                out[at + 1 : at + _count(leaf)] = _numbers(leaf, value)
        at += _count(leaf)
    return out


def _numbers(leaf: Leaf, value: Any) -> Tensor:
    values = local_of(value).detach().reshape(-1) if isinstance(value, Tensor) else torch.tensor([value], dtype=torch.float64)
    whole = not values.is_floating_point() or isinstance(value, int)
    if whole and values.numel() and float(values.double().abs().max()) > _LARGEST:
        raise InvalidArgument(f"the inner optimizer's state {leaf[0]} is beyond {_LARGEST}: save state_dict() of each rank")
    return values


def of_all(inner: Optimizer, group: Group | None) -> dict[str, Any]:
    """The mean over all ranks, leaf by leaf, so that no rank holds those of all. Collective."""
    leaves = plan(inner, group)
    mine = numbers(inner, leaves)
    if group is not None and leaves:
        mine = torch.cat([group.gather(part).mean(0) for _, part in split(leaves, mine)])
    return as_dict(leaves, mine, inner, inner.state_dict()["param_groups"])


def split(leaves: list[Leaf], values: Tensor) -> list[tuple[Leaf, Tensor]]:
    """Each with its numbers."""
    return list(zip(leaves, torch.split(values, [_count(leaf) for leaf in leaves])))


def as_dict(leaves: list[Leaf], values: Tensor, inner: Optimizer, groups: list[dict]) -> dict[str, Any]:
    """What the numbers stand for, as inner.load_state_dict() takes it."""
    parameters = parameters_of(inner)
    state: dict[Any, Any] = {}
    for leaf, own in split(leaves, values):
        have = float(own[0])
        if have > 0:
            path, value = json.loads(leaf[0]), _value(leaf, own[1:] / have)
            _put(state, path, as_part_of(parameters[path[0][1]], value) if leaf[1].startswith(PART) else value)
    return {"state": state, "param_groups": groups}


def found_in(saved: dict[str, Any], inner: Optimizer) -> dict[str, Any]:
    """The inner optimizer's part of a saved state: as it is, or as numbers."""
    leaves = saved.get("laconic", {}).get("inner")
    if leaves is not None:
        return as_dict(leaves, saved["state"]["inner"], inner, saved["param_groups"])
    if "inner" not in saved:
        raise InvalidArgument("the state has no `inner`, the inner optimizer's: it is no state of local steps around one")
    return saved["inner"]


def _value(leaf: Leaf, own: Tensor) -> Any:
    _, kind, shape = leaf
    if kind in _EMPTY:
        return _EMPTY[kind]()
    if kind in _SCALARS:
        return _SCALARS[kind](own.item())
    dtype = getattr(torch, kind.removeprefix(PART).removeprefix("torch."))
    whole = own if dtype.is_floating_point else own.round()
    return whole.to(dtype).reshape(shape)


def _put(place: Any, path: list, value: Any) -> None:
    (kind, key), rest = path[0], path[1:]
    if kind == "list" and key >= len(place):
        key = len(place)
        place.append(None)
    elif kind == "dict":
        place.setdefault(key, None)
    if place[key] is None:
        place[key] = value if not rest else {} if rest[0][0] == "dict" else []
    if rest:
        _put(place[key], rest, value)
