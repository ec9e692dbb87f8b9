"""State of optimizers: of each rank, put together for another number of ranks, and for torch.distributed.checkpoint."""

from __future__ import annotations

import copy
import io
import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import _core, inner_state, resharding
from .errors import InvalidArgument

if TYPE_CHECKING:
    from .optimizer import Optimizer

_KEPT = {"params", "param_names", "compress"}  # what a group has from its construction
_WEIGHTS = "weights"
_APART = ("mean", "owned")  # how state lies over the ranks, where each has its own
_RANK = re.compile(r"(?:^|\.)((?:shard(\d+)/)?rank(\d+)/(.*))$")
_SHARD = re.compile(r"^shard\d+/")


class _Part:
    """One named piece of the core's state; `values` is its memory."""

    def __init__(self, name: str, spread: str, begin: int, values: Tensor, optional: bool) -> None:
        self.name, self.spread, self.begin, self.values, self.optional = name, spread, begin, values, optional


def _parts(optimizer: Optimizer) -> list[_Part]:
    pieces = optimizer._core.state()
    return [_Part(name, spread, begin, torch.from_dlpack(values), optional) for name, spread, begin, values, optional in pieces]


def _groups(optimizer: Optimizer) -> list[dict]:
    packed, first = [], 0
    for group in optimizer.param_groups:
        numbers = list(range(first, first + len(group["params"])))
        packed.append({name: value for name, value in group.items() if name != "params"} | {"params": numbers})
        first += len(numbers)
    return packed


def _header(optimizer: Optimizer) -> dict[str, Any]:
    return {
        "config": optimizer._core.config(),
        "runs": optimizer.describe(),
        "rank": optimizer._transport.rank,
        "ranks": optimizer._transport.size,
        "shapes": optimizer._arena.shapes,
        "strides": optimizer._arena.layouts(),
        **resharding.header(optimizer),
    }


def of_rank(optimizer: Optimizer) -> dict[str, Any]:
    """What only this rank has is named after it, so that torch.distributed.checkpoint keeps that of each."""
    parts = _parts(optimizer)
    shard = resharding.prefix(optimizer)
    own = shard + (f"rank{optimizer._transport.rank}/" if optimizer._transport.size > 1 else "")
    tensors = {(own if part.spread in (*_APART, "rank") else shard) + part.name: part.values for part in parts}
    # torch.distributed.checkpoint loads into these tensors. The first step, and loading the model, would undo that.
    if optimizer._core.stats()["step"] == 0:
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    if synced_weights(optimizer):  # between syncs the model's own state_dict does not have this rank's weights
        tensors[own + _WEIGHTS] = optimizer._arena.weights.cpu().clone()
    elif any(p.dtype != torch.float32 for p in optimizer._arena.parameters):
        tensors[shard + _WEIGHTS] = optimizer._arena.weights.cpu().clone()
    saved = {"state": tensors, "param_groups": _groups(optimizer), "laconic": _header(optimizer)}
    return saved if optimizer._inner is None else saved | {"inner": optimizer._inner.state_dict()}


def elsewhere(optimizer: Optimizer, where: str) -> dict[str, Any]:
    """What stands for a state that laconic.save wrote to another place: settings of groups only."""
    return {"state": {}, "param_groups": _groups(optimizer), "laconic": _header(optimizer) | {"elsewhere": where}}


def _is_synced(optimizer: Optimizer, name: str) -> bool:
    kept = optimizer._method["synced_weights"]
    return kept != "" and name.endswith(f"/{kept}")


def synced_weights(optimizer: Optimizer) -> list[Tensor]:
    """The weights of the last sync, bucket by bucket, where the method keeps them beside the model's."""
    return [part.values for part in _parts(optimizer) if _is_synced(optimizer, part.name)]


def _without_ranks(saved: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors under their own names, and whose they are."""
    header, tensors = dict(saved["laconic"]), {}
    for name, tensor in saved["state"].items():
        found = _RANK.match(name)
        if found:
            header["rank"] = int(found[3])
        tensors[found[4] if found else _SHARD.sub("", name)] = tensor
    return header, tensors


def load(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """After an error everything is as it was."""
    inner = optimizer._inner
    if inner is None or "elsewhere" in saved.get("laconic", {}):
        return _load(optimizer, saved)
    before = inner.state_dict()
    inner.load_state_dict(copy.deepcopy(inner_state.found_in(saved, inner)))
    try:
        _load(optimizer, saved)
    except InvalidArgument:
        inner.load_state_dict(before)
        raise


def _load(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    _check(optimizer, saved)
    header, tensors = _without_ranks(saved)
    if "elsewhere" in header:
        _load_groups(optimizer, saved["param_groups"])
        optimizer._awaits = f"the state that was loaded lies elsewhere: {header['elsewhere']}"
        return
    parts = _parts(optimizer)
    same_rank = header["rank"] == optimizer._transport.rank and header["ranks"] == optimizer._transport.size
    if not header.get("consolidated", False) and not same_rank:
        _refuse_specific(optimizer, parts, header, tensors)
        lengths = _lengths(optimizer)
        nothing = {part.name: torch.zeros(lengths[_bucket_of(part.name)]) for part in parts if part.spread in _APART}
        tensors |= nothing
        header |= {"consolidated": True, "whole": list(nothing)}
    whole = header.get("consolidated", False)
    taken = [part for part in parts if not whole or part.spread not in _APART]
    _check_tensors(taken, tensors)
    for part in taken:
        if part.name in tensors:
            part.values.copy_(tensors[part.name])
        else:
            part.values.zero_()
    _load_weights(optimizer, tensors)
    if whole:
        for bucket in range(len(optimizer._core.buckets)):
            prefix = f"bucket{bucket}/"
            names = [name for name in header["whole"] if name.startswith(prefix)]
            optimizer._core.redistribute(bucket, {name[len(prefix) :]: tensors[name] for name in names})
    finish_load(optimizer, saved["param_groups"])


def _refuse_specific(optimizer: Optimizer, parts: list[_Part], header: dict, tensors: dict[str, Tensor]) -> None:
    """Another rank's state is as good as one's own where ranks hold nothing for themselves."""
    apart = [tensors[part.name] for part in parts if part.spread in _APART and part.name in tensors]
    synced = [tensors[part.name] for part in parts if _is_synced(optimizer, part.name) and part.name in tensors]
    moved = bool(synced) and _WEIGHTS in tensors and not torch.equal(torch.cat(synced), tensors[_WEIGHTS])
    alone = optimizer._inner is not None and bool(optimizer._inner.state)  # moments are each rank's own
    if not moved and not alone and not any(bool(values.any()) for values in apart):
        return
    raise InvalidArgument(
        f"this state is of rank {header['rank']} of {header['ranks']}, here is rank {optimizer._transport.rank} of "
        f"{optimizer._transport.size}: each rank loads its own; for another number of ranks save "
        "laconic.consolidate(optimizer); for Hugging Face's Trainer use laconic.integrations.transformers.LaconicCallback"
    )


def finish_load(optimizer: Optimizer, groups: list[dict] | None) -> None:
    optimizer._follow()
    optimizer._core.restored()
    optimizer._first = optimizer._core.stats()["step"] == 0
    optimizer._awaits = None
    optimizer._arena.publish()
    _load_groups(optimizer, groups or [])


def _load_groups(optimizer: Optimizer, groups: list[dict]) -> None:
    kept = _KEPT.union(optimizer._fixed)  # those are part of the configuration, which was compared
    for group, saved in zip(optimizer.param_groups, groups):
        group.update({name: copy.deepcopy(value) for name, value in saved.items() if name not in kept})


def _load_weights(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    weights = optimizer._arena.weights
    optimizer._arena.take_home(started=False)
    if _WEIGHTS in tensors:
        weights.copy_(tensors[_WEIGHTS])
    elif synced := synced_weights(optimizer):
        weights.copy_(torch.cat(synced))
    else:
        optimizer._arena.read_back(optimizer._arena.written())
    optimizer._follow()


def _check(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Another model or configuration is an error, and nothing is changed."""
    if "laconic" not in saved:
        raise InvalidArgument("this is no state of a laconic optimizer: it has no entry `laconic`")
    header, here = saved["laconic"], _header(optimizer)
    resharding.check(header, here)
    shapes, mine = [tuple(shape) for shape in header["shapes"]], here["shapes"]
    if len(shapes) != len(mine):
        raise InvalidArgument(f"the state is of {len(shapes)} parameters, this optimizer has {len(mine)}")
    for i, (there, own) in enumerate(zip(shapes, mine)):
        if there != own:
            raise InvalidArgument(f"{optimizer._arena.names[i]} is {there} in the state and {own} here")
        there, own = (h.get("strides", {}).get(i, "contiguous") for h in (header, here))
        if own != (there if isinstance(there, str) else tuple(there)):
            raise InvalidArgument(
                f"the elements of {optimizer._arena.names[i]} have strides {there} in the state and {own} here: give it "
                "the same memory format before the optimizer is made"
            )
    if len(saved["param_groups"]) != len(optimizer.param_groups):
        counts = f"{len(saved['param_groups'])} groups, this optimizer {len(optimizer.param_groups)}"
        raise InvalidArgument(f"the state has {counts}")
    method = next(one for one in _core.methods() if one["name"] == here["config"]["algorithm"])
    # What an option was before it existed.
    defaults = {one["name"]: one["default"] for one in method["options"] if not one["may_change"]}
    fixed = set(defaults)
    if header["ranks"] == here["ranks"]:
        fixed.add("ranks_per_node")  # where the parts of the state lie
    if (algorithm := header["config"].get("algorithm")) != method["name"]:
        raise InvalidArgument(f"algorithm is {algorithm} in the state and {method['name']} here: resume with the same")
    others = []  # all of them: one may be the reason of the rest
    for field in sorted(fixed):
        there, value = header["config"].get(field, defaults.get(field)), here["config"][field]
        follows = field not in header["config"] and there == "default"  # from others, and differs where they do
        if there != value and not follows:
            others.append(f"{field} is {there} in the state and {value} here")
    if others:
        raise InvalidArgument("; ".join(others) + ": resuming would change results")


def _check_tensors(parts: list[_Part], tensors: dict[str, Tensor]) -> None:
    for part in parts:
        if part.name not in tensors and part.optional:
            continue
        if part.name not in tensors:
            raise InvalidArgument(f"the state has no `{part.name}`")
        if tensors[part.name].shape != part.values.shape:
            shapes = f"{tuple(tensors[part.name].shape)} in the state and {tuple(part.values.shape)} here"
            raise InvalidArgument(f"`{part.name}` is {shapes}")


def consolidate(optimizer: Optimizer) -> dict[str, Any]:
    """One state for all ranks, which any number of ranks can load; the same on every rank. Collective.

    What ranks hold for themselves is averaged or put together and finds its place when it is loaded, so nothing is
    lost, but the run does not go on bit for bit: for that each rank saves its own state_dict().

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(10))
    >>> optimizer = laconic.OneBitAdam([weight], lr=0.1, freeze_step=2)
    >>> optimizer.load_state_dict(laconic.consolidate(optimizer))
    """
    optimizer._take_up_weights()
    tensors, whole = {}, []
    lengths = _lengths(optimizer)
    for part in _parts(optimizer):
        if part.spread not in _APART:
            tensors[part.name] = part.values.clone()
        else:
            tensors[part.name] = _together(_every(optimizer, part), part.spread, lengths[_bucket_of(part.name)])
            whole.append(part.name)
    synced = torch.empty(optimizer._arena.elements)
    optimizer._core.synced_weights(synced)
    tensors[_WEIGHTS] = synced
    header = _header(optimizer) | {"consolidated": True, "whole": whole, "rank": 0}
    saved = {"state": tensors, "param_groups": _groups(optimizer), "laconic": header}
    return saved if optimizer._inner is None else saved | {"inner": inner_state.of_all(optimizer._inner, optimizer._group)}


def _lengths(optimizer: Optimizer) -> list[int]:
    return [count for _, count in optimizer._core.buckets]


def _bucket_of(name: str) -> int:
    return int(name.split("/")[0].removeprefix("bucket"))


def _every(optimizer: Optimizer, part: _Part) -> list[tuple[int, Tensor]]:
    """(begin, values) of each rank, in the order of ranks."""
    if optimizer._group is None:
        return [(part.begin, part.values)]
    places = optimizer._group.gather(torch.tensor([part.begin, part.values.numel()])).tolist()
    longest = max(count for _, count in places)
    padded = torch.zeros(longest)
    padded[: part.values.numel()] = part.values
    rows = optimizer._group.gather(padded)
    return [(begin, row[:count]) for (begin, count), row in zip(places, rows)]


def _together(every: list[tuple[int, Tensor]], spread: str, length: int) -> Tensor:
    """Means over the ranks that hold an element, summed in the order of ranks; what is owned lies side by side."""
    total, holders = torch.zeros(length), torch.zeros(length)
    for begin, values in every:
        end = begin + values.numel()
        total[begin:end] += values
        holders[begin:end] += 1
    return total * (1 / holders.clamp(min=1).double()).float() if spread == "mean" else total


class Sharded:
    """An optimizer's state for torch.distributed.checkpoint, saved by all ranks and loaded by any number of them.

    With the same ranks a resume is exact; with others each part of the state is put in its place, as
    laconic.consolidate does. `saved_in` names the checkpoint that is to be loaded.

        dcp.save({"model": model.state_dict(), "optimizer": laconic.Sharded(optimizer)}, checkpoint_id=path)
        dcp.load({"optimizer": laconic.Sharded(optimizer, saved_in=path)}, checkpoint_id=path)

    >>> import torch, laconic
    >>> optimizer = laconic.SGD([torch.nn.Parameter(torch.zeros(10))], lr=0.1)
    >>> sorted(laconic.Sharded(optimizer).state_dict())
    ['rank0/bucket0/m', 'rank0/counters', 'rank0/header', 'rank0/rested', 'rank0/touched', 'rank0/weights']
    """

    def __init__(self, optimizer: Optimizer, saved_in: Any = None) -> None:
        self._optimizer = optimizer
        self._saved_in = saved_in

    def state_dict(self) -> dict[str, Any]:
        if self._saved_in is not None:
            return self._asked()
        self._optimizer._take_up_weights()
        optimizer, parts = self._optimizer, _parts(self._optimizer)
        places = {part.name: (part.spread, part.begin) for part in parts}
        header = _header(optimizer) | {"places": places, "param_groups": _groups(optimizer), "buckets": _lengths(optimizer)}
        tensors = {part.name: part.values for part in parts}
        if optimizer._inner is not None:
            header["inner"] = leaves = inner_state.plan(optimizer._inner, optimizer._group)
            tensors["inner"] = inner_state.numbers(optimizer._inner, leaves)
        tensors |= {_WEIGHTS: optimizer._arena.weights.cpu(), "header": _packed(header)}
        own = f"{resharding.prefix(optimizer)}rank{optimizer._transport.rank}/"
        return {own + name: tensor for name, tensor in tensors.items()}

    def _asked(self) -> dict[str, Any]:
        """Empty places for what this rank must read: its own part, or those of all ranks that saved."""
        from torch.distributed.checkpoint import FileSystemReader

        known = FileSystemReader(self._saved_in).read_metadata().state_dict_metadata
        matches = [(match, about) for key, about in known.items() if (match := _RANK.search(key))]
        found = {match[1]: (match[2], int(match[3]), about) for match, about in matches}
        own, size = self._optimizer._transport.rank, self._optimizer._transport.size
        exact = len({rank for _, rank, _ in found.values()}) == size
        shard, as_saved = resharding.wanted(self._optimizer, {shard for shard, _, _ in found.values()})
        return {
            key: torch.empty(about.size, dtype=about.properties.dtype)
            for key, (of_shard, rank, about) in found.items()
            if not as_saved or of_shard == shard and (rank == own or not exact)
        }

    def load_state_dict(self, read: dict[str, Any]) -> None:
        shards: dict[int, dict[int, dict[str, Tensor]]] = {}
        for key, tensor in read.items():
            found = _RANK.search(key)
            if found:
                shards.setdefault(int(found[2] or 0), {}).setdefault(int(found[3]), {})[found[4]] = tensor
        if not shards:
            raise InvalidArgument("the checkpoint holds no state of a laconic optimizer")
        read_parts = [self._of_shard(ranks) for _, ranks in sorted(shards.items())]
        tensors, header = read_parts[0]
        if len(read_parts) > 1 or not resharding.fits(self._optimizer, header):
            tensors, header = resharding.recut(self._optimizer, read_parts, _WEIGHTS, _APART)
        load(self._optimizer, {"state": tensors, "param_groups": header["param_groups"], "laconic": header})

    def _of_shard(self, ranks: dict[int, dict[str, Tensor]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """State and header of one shard: of this rank, or what all ranks held put together."""
        headers = {rank: _unpacked(tensors.pop("header")) for rank, tensors in ranks.items()}
        first = headers[min(headers)]
        if len(ranks) == 1 and first["ranks"] == self._optimizer._transport.size:
            return next(iter(ranks.values())), first
        whole = [name for name, (spread, _) in first["places"].items() if spread in _APART]
        return self._put_together(ranks, headers), first | {"consolidated": True, "whole": whole}

    def _put_together(self, ranks: dict[int, dict[str, Tensor]], headers: dict[int, dict]) -> dict[str, Tensor]:
        lengths = headers[0].get("buckets") or _lengths(self._optimizer)
        tensors = dict(ranks[0])
        for name, (spread, _) in headers[0]["places"].items():
            if spread in _APART:
                every = [(headers[rank]["places"][name][1], ranks[rank][name]) for rank in sorted(ranks)]
                tensors[name] = _together(every, spread, lengths[_bucket_of(name)])
        if "inner" in tensors:
            tensors["inner"] = torch.stack([ranks[rank]["inner"] for rank in sorted(ranks)]).mean(0)
        synced = [tensor for name, tensor in tensors.items() if _is_synced(self._optimizer, name)]
        if synced:
            tensors[_WEIGHTS] = torch.cat(synced)
        return tensors


def _packed(header: dict[str, Any]) -> Tensor:
    file = io.BytesIO()
    torch.save(header, file)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def _unpacked(header: Tensor) -> dict[str, Any]:
    return torch.load(io.BytesIO(header.numpy().tobytes()), weights_only=True)
