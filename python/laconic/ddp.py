"""DistributedDataParallel: its all-reduce taken over by an optimizer, or replaced by the one-bit mean of gradients."""

import logging
import warnings
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import _core, transport
from .errors import InvalidArgument
from .optimizer import Optimizer

log = logging.getLogger("laconic")


class _HandOver:
    """What the hook of one DistributedDataParallel knows: whose its gradients are. Does not keep the optimizer alive."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.warned = False

    def give_to(self, optimizer: Optimizer, parameters: set[int]) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.parameters = parameters
        self.unaveraged = False  # gradients lie in the parameters that only the optimizer can average


_hand_overs: weakref.WeakKeyDictionary[DistributedDataParallel, _HandOver] = weakref.WeakKeyDictionary()


def ddp(model: torch.nn.Module, optimizer: Optimizer, **options: Any) -> torch.nn.Module:
    """Hands the gradients of DistributedDataParallel to `optimizer`, which exchanges them instead of its all-reduce.

    A module that is not wrapped yet is wrapped, with `options`. Returns the wrapped module; in a world of one, the
    module itself. May be called again with another optimizer. When the optimizer is dropped the module averages again.

    >>> import torch, laconic
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = laconic.AdamW(model.parameters(), lr=1e-3)
    >>> model = laconic.ddp(model, optimizer)
    """
    optimizer = getattr(optimizer, "optimizer", optimizer)  # as accelerate wraps it
    if not isinstance(optimizer, Optimizer):
        raise InvalidArgument(f"{type(optimizer).__name__} is no optimizer of laconic: it needs DDP's own all-reduce")
    if not isinstance(model, DistributedDataParallel):
        if not dist.is_initialized():
            return model
        model = DistributedDataParallel(model, **options)
    index = {id(parameter): i for i, parameter in enumerate(optimizer._arena.parameters)}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in index:
            raise InvalidArgument(f"{name} is not in the optimizer: nobody would average its gradient")
    optimizer._take_over(index)
    if model not in _hand_overs:
        _watch_steps()
        _hand_overs[model] = _HandOver(model.process_group)
        model.register_comm_hook(_hand_overs[model], _hand_over)
        model.join_hook = _refuse_join
    _hand_overs[model].give_to(optimizer, {id(parameter) for parameter in model.parameters()})
    log.info("laconic: DistributedDataParallel averages no gradients any more, the optimizer does: %s", optimizer.describe())
    return model


# DDP looks at the annotations of hooks, so in this file they are types, not text.
def _hand_over(state: _HandOver, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    optimizer = state.optimizer()
    if optimizer is None:
        if not state.warned:
            state.warned = True
            warnings.warn(
                "the optimizer that laconic.ddp gave this module's gradients to is gone: DistributedDataParallel "
                "averages them again",
                stacklevel=2,
            )
        return allreduce_hook(state.group, bucket)
    state.unaveraged = True
    optimizer._bucket_came(bucket.parameters())
    done: torch.futures.Future = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


_watching = False


def _watch_steps() -> None:
    global _watching
    if not _watching:
        register_optimizer_step_pre_hook(_refuse_unaveraged)
    _watching = True


def _refuse_unaveraged(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Another optimizer would step with this rank's own gradients, and replicas would part without a word."""
    for state in list(_hand_overs.values()):
        if not state.unaveraged:
            continue
        if optimizer is state.optimizer():
            state.unaveraged = False
        elif any(id(p) in state.parameters for group in optimizer.param_groups for p in group["params"]):
            raise InvalidArgument(
                f"{type(optimizer).__name__} steps with gradients that laconic.ddp handed to another optimizer and "
                "that nobody has averaged: replicas would differ; step that optimizer, or drop it before backward"
            )


def _refuse_join(**_: Any) -> None:
    raise InvalidArgument(
        "join() of a module whose gradients laconic.ddp handed over: a rank that has no data left would miss the "
        "optimizer's steps; give all ranks the same number of batches, or use laconic.one_bit_hook, which may join"
    )


class _Bucket(NamedTuple):
    places: list[int]  # of its parameters
    sizes: list[int]
    mean: _core.Mean
    holders: int  # ranks that hold a worker residual of an element

    def residuals(self) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        """Of each parameter what the workers and what the owner did not say; 0 where this rank holds nothing."""
        whole = {name: torch.zeros(sum(self.sizes)) for name in ("worker_residual", "server_residual")}
        for name, _, begin, values, _ in self.mean.state():
            part = torch.from_dlpack(values)
            whole[name][begin : begin + part.numel()] = part
        both = (vector.split(self.sizes) for vector in whole.values())
        return dict(zip(self.places, zip(*both)))


class OneBitState:
    """What laconic.one_bit_hook remembers: residuals of each parameter. One for each DistributedDataParallel.

    Collective over `process_group`. Each rank saves and loads its own state_dict().

    >>> import laconic
    >>> laconic.OneBitState().describe()
    'one-bit mean of gradients with error feedback, alone'
    """

    def __init__(
        self,
        process_group=None,
        *,
        scale_block: int = 4096,
        scale_norm: str = "l2",
        ranks_per_node: int | str | None = None,
        timeout=None,
    ) -> None:
        self._transport, self._group = transport.connect(process_group, timeout)
        nodes = {None: 0, "auto": -1}.get(ranks_per_node, ranks_per_node)
        self._options = dict(scale_block=scale_block, scale_norm=scale_norm, ranks_per_node=nodes)
        self._buckets: dict[int, _Bucket] = {}
        # A parameter's place is the order in which DDP first gave it, the same on all ranks and in every run.
        self._places: dict[int, int] = {}
        self._residuals: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by place, of those in no bucket
        self._holders = 1  # of these
        # One thread, so that buckets are exchanged in the order in which DDP gives them, which is the same everywhere.
        self._queue = ThreadPoolExecutor(1, thread_name_prefix="laconic")
        self._closer = weakref.finalize(self, _close, self._queue, self._group)
        self._backward = -1
        self._outcomes: list[Future] = []

    def describe(self) -> str:
        where = "alone" if self._group is None else f"{self._group.size} ranks over {self._group.backend}"
        return f"one-bit mean of gradients with error feedback, {where}"

    # What happens to a bucket.

    def _submit(self, bucket: dist.GradBucket) -> torch.futures.Future:
        self._watch_backward()
        outcome = self._queue.submit(self._reduce, bucket.index(), bucket.parameters(), bucket.buffer())
        self._outcomes.append(outcome)
        done: torch.futures.Future = torch.futures.Future()
        outcome.add_done_callback(done.set_result)
        return done.then(lambda ended: ended.value().result())

    def _watch_backward(self) -> None:
        """Before DDP takes the results, which would lose the type of errors, backward waits for them here."""
        backward = torch._C._current_graph_task_id()  # -1 on ranks that have joined: there is none
        if backward != self._backward or backward < 0:
            self._outcomes = []
            if backward >= 0:
                torch.autograd.Variable._execution_engine.queue_callback(self._raise_errors)
        self._backward = backward

    def _raise_errors(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            outcome.result()

    def _reduce(self, index: int, parameters: list[torch.Tensor], buffer: torch.Tensor) -> torch.Tensor:
        values = buffer if buffer.dtype == torch.float32 else buffer.float()
        self._mean_of(index, parameters).reduce(values)
        return buffer if values is buffer else buffer.copy_(values)

    def _mean_of(self, index: int, parameters: list[torch.Tensor]) -> _core.Mean:
        places = [self._places.setdefault(id(parameter), len(self._places)) for parameter in parameters]
        known = self._buckets.get(index)
        if known is None or known.places != places:  # DDP cuts its buckets anew after the first step
            self._take_back(set(places))
            known = self._buckets[index] = self._make(index, places, [parameter.numel() for parameter in parameters])
        return known.mean

    # Residuals go with their parameters from bucket to bucket.

    def _take_back(self, places: set[int]) -> None:
        """When one of these parameters is in another bucket now, all were cut anew."""
        if any(not places.isdisjoint(bucket.places) for bucket in self._buckets.values()):
            self._residuals = self._held()
            self._buckets.clear()

    def _held(self) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        held = dict(self._residuals)
        for bucket in self._buckets.values():
            held |= bucket.residuals()
            self._holders = bucket.holders
        return held

    def _make(self, index: int, places: list[int], sizes: list[int]) -> _Bucket:
        mean = _core.Mean("one-bit", sum(sizes), self._transport, bucket=index, **self._options)
        parts = {name: (begin, torch.from_dlpack(values)) for name, _, begin, values, _ in mean.state()}
        coded = parts["worker_residual"][1].numel() if parts else 0
        holders = int(self._sum(torch.tensor([coded]))) // max(1, sum(sizes))
        carried = [self._residuals.pop(place, None) for place in places]
        if parts and any(carried):
            for place, size, both in zip(places, sizes, carried):
                if both is not None and both[0].numel() != size:
                    raise InvalidArgument(f"parameter {place} has {both[0].numel()} residuals and {size} elements")
            nothing = [(torch.zeros(size), torch.zeros(size)) for size in sizes]
            worker, server = (torch.cat(both) for both in zip(*(c or n for c, n in zip(carried, nothing))))
            if holders != self._size or self._holders != self._size:  # each speaks for a node
                worker = self._sum(worker) / self._holders
            for name, whole in (("worker_residual", worker), ("server_residual", self._sum(server))):
                begin, part = parts[name]
                part.copy_(whole[begin : begin + part.numel()])
        return _Bucket(places, sizes, mean, holders)

    @property
    def _size(self) -> int:
        return 1 if self._group is None else self._group.size

    def _sum(self, mine: torch.Tensor) -> torch.Tensor:
        """Over the ranks, in pieces that cost little memory."""
        if self._group is None:
            return mine
        return torch.cat([self._group.gather(piece).sum(0) for piece in mine.split(2**20)])

    def state_dict(self) -> dict[str, Any]:
        """This rank's residuals, by parameter in the order in which DDP gives them."""
        held = self._queue.submit(self._held).result()
        residuals = [tuple(part.clone() for part in held[place]) for place in sorted(held)]
        rank = 0 if self._group is None else self._group.rank
        return {"rank": rank, "ranks": self._size, "holders": self._holders, "residuals": residuals}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on with what this rank's state_dict() held; all ranks load theirs."""
        rank = 0 if self._group is None else self._group.rank
        there = state_dict["rank"], state_dict["ranks"]
        if there != (rank, self._size):
            raise InvalidArgument(
                f"these residuals are of rank {there[0]} of {there[1]}, here is rank {rank} of {self._size}: each rank "
                "loads its own; with another number of ranks start without"
            )

        def replace() -> None:
            self._buckets.clear()
            self._residuals = dict(enumerate(state_dict["residuals"]))
            self._holders = state_dict["holders"]

        self._queue.submit(replace).result()


def _close(queue: ThreadPoolExecutor, group: transport.Group | None) -> None:
    queue.shutdown(wait=False)
    if group is not None:
        group.close()


def one_bit_hook(state: OneBitState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A comm hook for those who keep their own optimizer: gradients become their one-bit mean with error feedback.

        ddp.register_comm_hook(laconic.OneBitState(), laconic.one_bit_hook)

    >>> import laconic
    >>> callable(laconic.one_bit_hook)
    True
    """
    return state._submit(bucket)
