"""State of an optimizer over shards: its names, and the same state for another sharding."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import inner_state
from .errors import InvalidArgument
from .shards import box_of, is_shard, piece_of

if TYPE_CHECKING:
    from .optimizer import Optimizer

Part = tuple[dict[str, Tensor], dict[str, Any]]  # state and header of one saved shard

_KEPT = (
    "the weights are kept: torch.distributed.checkpoint loads a model into any sharding. Moments and residuals are kept for "
    "whole parameters and for shards that are boxes of one"
)


def prefix(optimizer: Optimizer) -> str:
    """Of the names of all that a shard has."""
    return "" if optimizer._shards is None else f"shard{optimizer._shards.rank}/"


def header(optimizer: Optimizer) -> dict[str, Any]:
    """How the model is sharded. `numbers` are the places of parameters among those that were given."""
    if optimizer._shards is None:
        return {}
    given = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad]
    numbers = {id(parameter): i for i, parameter in enumerate(given)}
    parameters = optimizer._arena.parameters
    return {
        "shards": optimizer._shards.size,
        "pieces": [piece_of(p) for p in parameters],
        "boxes": [box_of(p) for p in parameters],
        "whole_shapes": [tuple(p.shape) for p in parameters],
        "numbers": [numbers[id(p)] for p in parameters],
    }


def check(there: dict[str, Any], here: dict[str, Any]) -> None:
    """A state is loaded by the shard that it is of."""
    for own, saved in zip(here.get("pieces", []), there.get("pieces", [])):
        if own != saved:
            raise InvalidArgument(f"the state is of the part {saved}, here is {own}: {_HOW}")
    if here.get("shards", 1) != there.get("shards", 1):
        raise InvalidArgument(f"the state is of {there.get('shards', 1)} shards, here are {here.get('shards', 1)}: {_HOW}")


_HOW = (
    "each rank loads its own state_dict(). For another sharding save and load laconic.Sharded(optimizer) with "
    "torch.distributed.checkpoint"
)


def refuse(optimizer: Optimizer, what: str) -> None:
    if optimizer._shards is not None and optimizer._shards.size > 1:
        raise InvalidArgument(
            f"{what} of a sharded model: a folder holds whole models; give laconic.Sharded(optimizer) to "
            "torch.distributed.checkpoint, beside the model's state_dict()"
        )


def wanted(optimizer: Optimizer, saved: set[str | None]) -> tuple[str | None, bool]:
    """Which of the saved shards this rank reads, and whether that is all that it needs."""
    own = None if optimizer._shards is None else str(optimizer._shards.rank)
    size = 1 if optimizer._shards is None else optimizer._shards.size
    return own, own in saved and len(saved) == size


def fits(optimizer: Optimizer, saved: dict[str, Any]) -> bool:
    mine = header(optimizer)
    return saved.get("pieces") == mine.get("pieces") and saved.get("shards") == mine.get("shards")


def recut(optimizer: Optimizer, parts: list[Part], weights: str, apart: tuple[str, ...]) -> Part:
    """The state of this rank, from that of all shards of another sharding. No element is lost, nor is any made up."""
    first = parts[0][1]
    own = _geometry(optimizer, first)
    if len(parts) != first.get("shards", 1):
        raise InvalidArgument(f"{len(parts)} shards of {first.get('shards', 1)} were read: {_KEPT}")
    geometries = [_geometry(optimizer, saved) for _, saved in parts]
    flats = [_flat(tensors, saved, geometry) for (tensors, saved), geometry in zip(parts, geometries)]
    lengths = [count for _, count in optimizer._core.buckets]
    tensors: dict[str, Tensor] = {}
    spreads = {name.split("/", 1)[1]: spread for name, (spread, _) in first["places"].items() if "/" in name}
    for name in flats[0]:
        whole = _whole([flat.get(name, torch.empty(0)) for flat in flats], geometries)
        mine = torch.cat([whole[number][box].reshape(-1) for number, box in _boxes(optimizer)] + [torch.empty(0)])
        if name == weights:
            tensors[weights] = mine
        elif name == _RESTING:
            tensors |= _first_of_pieces(mine, [math.prod(shape) for shape in optimizer._arena.shapes], lengths)
        else:
            tensors |= {f"bucket{b}/{name}": part.clone() for b, part in enumerate(mine.split(lengths))}
    tensors |= _others(optimizer, parts[0], flats[0], own)
    named = [name for name in tensors if "/" in name and spreads.get(name.split("/", 1)[1]) in apart]
    fresh = {"consolidated": True, "whole": named, "shapes": optimizer._arena.shapes}
    if optimizer._inner is not None:
        tensors["inner"], fresh["inner"] = _inner(optimizer, parts, geometries)
    return tensors, {key: first[key] for key in first if key not in _SHAPED} | fresh | header(optimizer)


_RESTING = "resting"  # a number for each piece, which is what a bucket has of a parameter
_SHAPED = ("shards", "pieces", "boxes", "whole_shapes", "numbers", "strides", "places")


def _geometry(optimizer: Optimizer, saved: dict[str, Any]) -> list[tuple[int, tuple, tuple[slice, ...]]]:
    """Of each parameter in its order: number, whole shape, box."""
    if saved.get("strides") or optimizer._arena.layouts():
        raise InvalidArgument(f"parameters with strides of their own cannot be sharded anew: {_KEPT}")
    shapes = saved.get("whole_shapes", saved["shapes"])
    boxes = saved.get("boxes", [None] * len(shapes))
    numbers = saved.get("numbers", range(len(shapes)))
    found: list[tuple[int, tuple, tuple[slice, ...]]] = []
    for number, shape, box, piece in zip(numbers, shapes, boxes, saved.get("pieces", ["whole"] * len(shapes))):
        if box is None and piece != "whole":
            raise InvalidArgument(f"a parameter is cut as {piece}, which is no box: {_KEPT}")
        found.append((number, tuple(shape), _slices(box, shape)))
    return found


def _slices(box: Any, shape: tuple) -> tuple[slice, ...]:
    if box is None:
        return tuple(slice(0, size) for size in shape)
    return tuple(slice(begin, begin + size) for begin, size in zip(*box))


def _boxes(optimizer: Optimizer) -> list[tuple[int, tuple[slice, ...]]]:
    mine = header(optimizer)
    if not mine:
        return [(i, tuple(slice(0, n) for n in p.shape)) for i, p in enumerate(optimizer._arena.parameters)]
    return [(number, _slices(box, shape)) for number, box, shape in zip(mine["numbers"], mine["boxes"], mine["whole_shapes"])]


def _pieces(sizes: list[int], lengths: list[int]) -> list[list[int]]:
    """Elements of the pieces of each bucket; a parameter that a rank has nothing of is none."""
    ends = list(itertools.accumulate(sizes))
    found, begin = [], 0
    for length in lengths:
        cuts = [min(end, begin + length) - max(end - size, begin) for end, size in zip(ends, sizes)]
        found.append([cut for cut in cuts if cut > 0])
        begin += length
    return found


def _first_of_pieces(flat: Tensor, sizes: list[int], lengths: list[int]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for b, (pieces, part) in enumerate(zip(_pieces(sizes, lengths), flat.split(lengths))):
        if pieces:
            found[f"bucket{b}/{_RESTING}"] = part[list(itertools.accumulate([0, *pieces[:-1]]))].double()
    return found


def _flat(tensors: dict[str, Tensor], saved: dict[str, Any], geometry: list) -> dict[str, Tensor]:
    """What has a value for each element of the shard, by name without its bucket."""
    lengths, found = saved["buckets"], {}
    names = {name.split("/", 1)[1] for name in tensors if name.startswith("bucket")}
    for name in names:
        parts = [tensors.get(f"bucket{b}/{name}") for b in range(len(lengths))]
        if all(part is not None and part.dtype == torch.float32 and part.numel() == n for part, n in zip(parts, lengths)):
            found[name] = torch.cat([*parts, torch.empty(0)])
    if _RESTING in names:
        sizes = [math.prod(cut.stop - cut.start for cut in box) for _, _, box in geometry]
        values = [tensors.get(f"bucket{b}/{_RESTING}", torch.zeros(0)).float() for b in range(len(lengths))]
        parts = [value.repeat_interleave(torch.tensor(cut)) for value, cut in zip(values, _pieces(sizes, lengths)) if cut]
        found[_RESTING] = torch.cat([*parts, torch.empty(0)])
    if "weights" in tensors:
        found["weights"] = tensors["weights"]
    return dict(sorted(found.items()))


def _whole(flats: list[Tensor], geometries: list[list]) -> dict[int, Tensor]:
    """Whole parameters, by number."""
    wholes: dict[int, Tensor] = {}
    for flat, geometry in zip(flats, geometries):
        at = 0
        for number, shape, box in geometry:
            place = wholes.setdefault(number, torch.zeros(shape, dtype=flat.dtype))[box]
            place.copy_(flat[at : at + place.numel()].view(place.shape))
            at += place.numel()
    return wholes


def _others(optimizer: Optimizer, part: Part, flat: dict[str, Tensor], own: list) -> dict[str, Tensor]:
    """Counters of the model, of buckets (which are alike) and of parameters, which may be in another order now."""
    tensors, found = part[0], {}
    order = {number: i for i, (number, _, _) in enumerate(own)}
    for name, values in tensors.items():
        bucket, _, rest = name.rpartition("/")
        if not bucket:
            if name not in ("weights", "inner"):
                same = values.numel() == len(own) and name != "counters"
                found[name] = values[[order[number] for number, _ in _boxes(optimizer)]] if same else values
        elif rest not in flat and bucket == "bucket0":
            found |= {f"bucket{b}/{rest}": values for b in range(len(optimizer._core.buckets))}
    return found


def _inner(optimizer: Optimizer, parts: list[Part], geometries: list[list]) -> tuple[Tensor, list[inner_state.Leaf]]:
    """What the inner optimizer has for each element of a parameter is cut as the parameter is; its counters are alike."""
    given: list[Any] = inner_state.parameters_of(optimizer._inner)  # type: ignore[arg-type]
    trained = [i for i, parameter in enumerate(given) if parameter.requires_grad]
    boxes, numbers = dict(_boxes(optimizer)), {i: number for number, i in enumerate(trained)}
    leaves: list[inner_state.Leaf] = []
    found = [torch.zeros(0, dtype=torch.float64)]
    for one in zip(*(inner_state.split(saved["inner"], tensors["inner"]) for tensors, saved in parts)):
        (path, kind, shape), values = one[0]
        if shape:
            key = json.loads(path)[0][1]
            number = numbers.get(key, -1)
            places = [[place for place in geometry if place[0] == number] for geometry in geometries]
            _check_elements([leaf for leaf, _ in one], places)
            mine = _whole([own[1:] for _, own in one], places)[number][boxes[number]]
            values, shape = torch.cat([values[:1], mine.reshape(-1)]), list(mine.shape)
            kind = (inner_state.PART if is_shard(given[key]) else "") + kind.removeprefix(inner_state.PART)
        leaves.append((path, kind, shape))
        found.append(values)
    return torch.cat(found), leaves


def _check_elements(leaves: list[inner_state.Leaf], places: list[list]) -> None:
    """A state of all shards has one value for each element of a parameter."""
    for (path, _, shape), place in zip(leaves, places):
        sizes = [cut.stop - cut.start for cut in place[0][2]] if place else None
        if path != leaves[0][0] or shape != sizes:
            raise InvalidArgument(f"the inner optimizer's state {path} is {shape}, its parameter {sizes} in a shard: {_KEPT}")
