"""Means of gradients in buckets, whose residuals go with their parameters from bucket to bucket."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _core, accelerator
from .errors import InvalidArgument
from .transport import Group

Residuals = tuple[Tensor, Tensor]  # of one parameter: the worker's and the owner's


class Cut(NamedTuple):
    """Parameters that are exchanged together, by place, and how far their mean has come."""

    places: list[int]
    exchanges: int
    scalars: dict[str, list[float]]
    ranges: dict[str, list[int]]  # begin and count of what this rank holds, by how a residual lies over the ranks


class _Bucket:
    """The mean of parameters that lie one behind the other. `scalars` are its memory."""

    def __init__(self, places: list[int], sizes: list[int], mean: _core.Mean) -> None:
        self.places, self.sizes, self.mean = places, sizes, mean
        self.exchanges = 0
        self.holders = 0  # ranks that hold a worker residual of an element
        self.scalars: dict[str, Tensor] = {}
        for name, spread, _, values, _ in mean.state():
            if spread == "scalar":
                self.scalars[name] = torch.from_dlpack(values)
        self.ranges = {spread: [begin, values.numel()] for spread, (begin, values) in self._parts().items()}

    def _parts(self) -> dict[str, tuple[int, Tensor]]:
        """Begin and values of residuals, by how they lie over the ranks; what is written counts after restored()."""
        every = self.mean.state()
        return {spread: (begin, torch.from_dlpack(v)) for _, spread, begin, v, _ in every if spread != "scalar"}

    def reduce(self, values: Tensor) -> None:
        if values.device.type == "cpu":
            self.mean.reduce(values)
        else:
            self.mean.reduce(values.data_ptr(), values.numel(), accelerator.current_stream(values.device))
        self.exchanges += 1

    def cut(self) -> Cut:
        scalars = {name: values.tolist() for name, values in self.scalars.items()}
        return Cut(self.places, self.exchanges, scalars, self.ranges)

    def residuals(self) -> dict[int, Residuals]:
        """Of each parameter, by place; 0 where this rank holds nothing."""
        if not self.ranges:
            return {}
        whole = {spread: torch.zeros(sum(self.sizes)) for spread in ("mean", "owned")}
        for spread, (begin, values) in self._parts().items():
            whole[spread][begin : begin + values.numel()] = values
        return dict(zip(self.places, zip(whole["mean"].split(self.sizes), whole["owned"].split(self.sizes))))

    def take(self, worker: Tensor, server: Tensor) -> None:
        """What this rank holds of these residuals of the whole bucket."""
        for spread, (begin, values) in self._parts().items():
            whole = worker if spread == "mean" else server
            values.copy_(whole[begin : begin + values.numel()])
        self.mean.restored()


class BucketMeans:
    """The means of DDP's buckets, however DDP cuts them; parameters are known by their place, a number.

    `group` is the Python side of `transport`; `options` are those of a mean. Gradients of a GPU are averaged there, those
    of the CPU on `device`.
    """

    def __init__(
        self, transport: _core.Transport, group: Group | None, codec: str, options: dict[str, Any], device: str = "cpu"
    ) -> None:
        self._transport, self._group, self._codec, self._options = transport, group, codec, options
        self._asked, self._device = device, ""  # the latter from the first exchange on
        self._side = accelerator.SideStream()
        self.ranks = 1 if group is None else group.size
        self.rank = 0 if group is None else group.rank
        self._buckets: dict[tuple[int, ...], _Bucket] = {}  # by places
        # What is in no bucket: it was loaded, or DDP cut its buckets anew.
        self._residuals: dict[int, Residuals] = {}
        self._cuts: list[Cut] = []
        self._holders = 1
        self._keeps_cuts = False
        self._bad = 0

    def make(self, elements: int) -> _core.Mean:
        """A mean of so many elements. Collective."""
        return _core.Mean(self._codec, elements, self._transport, device=self._device or self._asked, **self._options)

    @property
    def where(self) -> str:
        """The device, where that is not the CPU."""
        device = next((bucket.mean.device for bucket in self._buckets.values()), "")
        return f", on {device}" if device else ""

    def reduce(self, places: list[int], sizes: list[int], buffer: Tensor, mark: Any = None) -> None:
        """The gradients of a bucket become their mean, in place. Collective. `mark`: accelerator.SideStream.mark()."""
        self._check_device(buffer)
        with self._side.after(mark, buffer.device):
            self._reduce(places, sizes, buffer)

    def _check_device(self, buffer: Tensor) -> None:
        now = accelerator.name_for(self._asked, buffer.device)
        if self._device not in ("", now):
            raise InvalidArgument(
                f"gradients are on {now} and were on {self._device} in the exchange before: move the model before its first "
                "one, or load this state into another one"
            )
        self._device = now

    def _reduce(self, places: list[int], sizes: list[int], buffer: Tensor) -> None:
        buckets = self._buckets_of(places, sizes)
        if [bucket.places for bucket in buckets] == [places]:
            values = buffer if buffer.dtype == torch.float32 else buffer.float()
            buckets[0].reduce(values)
            if values is not buffer:
                buffer.copy_(values)
            return
        pieces = dict(zip(places, buffer.split(sizes)))
        for bucket in buckets:
            values = torch.cat([pieces[place] for place in bucket.places]).float()
            bucket.reduce(values)
            for place, mean in zip(bucket.places, values.split(bucket.sizes)):
                pieces[place].copy_(mean)

    @property
    def bad_blocks(self) -> int:
        return self._bad + sum(bucket.mean.bad_blocks for bucket in self._buckets.values())

    def state(self) -> dict[str, Any]:
        held, cuts = self._held()
        residuals = [tuple(part.clone() for part in held[place]) for place in sorted(held)]
        buckets = [cut._asdict() for cut in cuts]
        return {"holders": self._holders, "places": sorted(held), "residuals": residuals, "buckets": buckets}

    def load(self, state: dict) -> None:
        """Goes on with what state() gave, in buckets that are cut as they were, until DDP has cut its own so."""
        self._buckets.clear()
        residuals = state["residuals"]
        self._residuals = dict(zip(state.get("places", range(len(residuals))), residuals))  # without places: before they were kept
        self._holders = state["holders"]
        self._cuts = [Cut(**cut) for cut in state.get("buckets", [])]
        self._keeps_cuts = bool(self._cuts)

    def _buckets_of(self, places: list[int], sizes: list[int]) -> list[_Bucket]:
        """One, which DDP cut; or several, where DDP begins a resumed run with one for all."""
        known = self._buckets.get(tuple(places))
        if known is not None:
            self._keeps_cuts = False
            return [known]
        if self._keeps_cuts:
            every = [*self._buckets, *(tuple(cut.places) for cut in self._cuts)]
            inside = [list(cut) for cut in every if not set(places).isdisjoint(cut)]
            if sorted(itertools.chain(*inside)) == sorted(places):
                size_of = dict(zip(places, sizes))
                return [self._bucket(cut, [size_of[place] for place in cut]) for cut in inside]
            self._keeps_cuts = False
        self._take_back(set(places))
        return [self._bucket(places, sizes)]

    # Residuals go with their parameters from bucket to bucket.

    def _take_back(self, places: set[int]) -> None:
        """When one of these parameters is in another bucket now, all were cut anew."""
        if any(not places.isdisjoint(bucket.places) for bucket in self._buckets.values()):
            self._bad = self.bad_blocks
            self._residuals, self._cuts = self._held()
            self._buckets.clear()

    def _held(self) -> tuple[dict[int, Residuals], list[Cut]]:
        held, cuts = dict(self._residuals), list(self._cuts)
        for bucket in self._buckets.values():
            held |= bucket.residuals()
            cuts.append(bucket.cut())
            self._holders = bucket.holders
        return held, cuts

    def _bucket(self, places: list[int], sizes: list[int]) -> _Bucket:
        """The mean of these parameters, which goes on from what was left out of them. Collective when it is new."""
        known = self._buckets.get(tuple(places))
        if known is not None:
            return known
        bucket = _Bucket(places, sizes, self.make(sum(sizes)))
        before = [cut for cut in self._cuts if not set(places).isdisjoint(cut.places)]
        as_it_was = self._agree_on(bucket, before)
        for cut in before[:1]:
            for name, values in cut.scalars.items():
                bucket.scalars[name].copy_(torch.tensor(values, dtype=torch.float64))
        self._carry(bucket, as_it_was)
        self._buckets[tuple(places)] = bucket
        taken = set(itertools.chain(*self._buckets))
        self._cuts = [cut for cut in self._cuts if not taken.issuperset(cut.places)]
        return bucket

    def _agree_on(self, bucket: _Bucket, before: list[Cut]) -> bool:
        """Whether each rank holds the same parts as before, with the same parameters in the same order."""
        bucket.exchanges = max((cut.exchanges for cut in before), default=0)
        parts = bucket.cut()
        same = [cut.places for cut in before] == [parts.places] and before[0].ranges == parts.ranges
        coded = parts.ranges.get("mean", [0, 0])[1]
        rows = self._every(torch.tensor([coded, int(same), bucket.exchanges]))
        for rank, exchanges in enumerate(rows[:, 2].tolist()):
            if exchanges != rows[0, 2]:
                raise InvalidArgument(
                    f"rank {rank} goes on after {exchanges} exchanges, rank 0 after {int(rows[0, 2])}: load states that "
                    "were saved together"
                )
        bucket.holders = int(rows[:, 0].sum()) // max(1, sum(bucket.sizes))
        return bool(rows[:, 1].all())

    def _carry(self, bucket: _Bucket, as_it_was: bool) -> None:
        carried = [self._residuals.pop(place, None) for place in bucket.places]
        if not bucket.ranges or not any(carried):
            return
        for place, size, both in zip(bucket.places, bucket.sizes, carried):
            if both is not None and both[0].numel() != size:
                raise InvalidArgument(f"parameter {place} has {both[0].numel()} residuals and {size} elements")
        nothing = [(torch.zeros(size), torch.zeros(size)) for size in bucket.sizes]
        worker, server = (torch.cat(both) for both in zip(*(c or n for c, n in zip(carried, nothing))))
        if not as_it_was:
            if bucket.holders != self.ranks or self._holders != self.ranks:  # each holds that of a node
                worker = self._sum(worker) / self._holders
            server = self._sum(server)
        bucket.take(worker, server)

    def _every(self, mine: Tensor) -> Tensor:
        return mine[None] if self._group is None else self._group.gather(mine)

    def _sum(self, mine: Tensor) -> Tensor:
        """Over the ranks, in pieces that cost little memory."""
        return torch.cat([self._every(piece).sum(0) for piece in mine.split(2**20)])
