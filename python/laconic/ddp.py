"""DistributedDataParallel: its all-reduce taken over by an optimizer."""

import logging
import warnings
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

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
    inner: Any = getattr(optimizer, "optimizer", optimizer)  # as accelerate wraps it
    if not isinstance(inner, Optimizer):
        raise InvalidArgument(f"{type(inner).__name__} is no optimizer of laconic: it needs DDP's own all-reduce")
    optimizer = inner
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
        "optimizer's steps; give all ranks the same number of batches, or use laconic.codec_hook, which may join"
    )
