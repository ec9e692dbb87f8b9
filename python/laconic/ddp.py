"""DistributedDataParallel: its all-reduce taken over by an optimizer, or replaced by the one-bit mean of gradients."""

import logging
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import _core, transport
from .errors import InvalidArgument
from .optimizer import Optimizer

log = logging.getLogger("laconic")


def ddp(model: torch.nn.Module, optimizer: Optimizer, **options: Any) -> torch.nn.Module:
    """Hands the gradients of DistributedDataParallel to `optimizer`, which exchanges them instead of its all-reduce.

    A module that is not wrapped yet is wrapped, with `options`. Returns the wrapped module; in a world of one, the
    module itself.

    >>> import torch, laconic
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = laconic.Birder(model.parameters(), lr=1e-3)
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
    model.register_comm_hook(weakref.ref(optimizer), _hand_over)
    log.info("laconic: DistributedDataParallel averages no gradients any more, the optimizer does: %s", optimizer.describe())
    return model


# DDP looks at the annotations of hooks, so in this file they are types, not text.
def _hand_over(optimizer: weakref.ref, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    here = optimizer()
    if here is not None:
        here._bucket_came(bucket.parameters())
    done: torch.futures.Future = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class OneBitState:
    """What laconic.one_bit_hook remembers: residuals of each bucket. One for each DistributedDataParallel.

    Collective over `process_group`.

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
        self._means: dict[int, tuple[int, _core.Mean]] = {}
        # One thread, so that buckets are exchanged in the order in which DDP gives them, which is the same everywhere.
        self._queue = ThreadPoolExecutor(1, thread_name_prefix="laconic")
        self._closer = weakref.finalize(self, _close, self._queue, self._group)

    def describe(self) -> str:
        where = "alone" if self._group is None else f"{self._group.size} ranks over {self._group.backend}"
        return f"one-bit mean of gradients with error feedback, {where}"

    def _mean_of(self, index: int, elements: int) -> _core.Mean:
        known = self._means.get(index)
        if known is None or known[0] != elements:  # DDP cuts its buckets anew after the first step
            known = elements, _core.Mean("one-bit", elements, self._transport, bucket=index, **self._options)
            self._means[index] = known
        return known[1]

    def _reduce(self, index: int, buffer: torch.Tensor, done: torch.futures.Future) -> None:
        try:
            values = buffer if buffer.dtype == torch.float32 else buffer.float()
            self._mean_of(index, values.numel()).reduce(values)
            done.set_result(buffer if values is buffer else buffer.copy_(values))
        except Exception as error:
            done.set_exception(error)


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
    done: torch.futures.Future = torch.futures.Future()
    state._queue.submit(state._reduce, bucket.index(), bucket.buffer(), done)
    return done
