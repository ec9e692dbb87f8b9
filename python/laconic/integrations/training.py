"""What every training loop of others needs: who owns the gradients, who clips, and what a run costs."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from ..ddp import ddp
from ..errors import InvalidArgument
from ..optimizer import Optimizer


def inner(optimizer: Any, who: str) -> Optimizer:
    """laconic's optimizer inside what a library wrapped around it."""
    found = getattr(optimizer, "optimizer", getattr(optimizer, "_optimizer", optimizer))
    if not isinstance(found, Optimizer):
        raise InvalidArgument(f"{who} is for laconic's optimizers, this is {type(found).__name__}")
    return found


def hand_over(model: torch.nn.Module, optimizer: Optimizer) -> None:
    """If the model is wrapped in DistributedDataParallel, `optimizer` exchanges its gradients from now on."""
    wrapped = model if isinstance(model, DistributedDataParallel) else _wrapper_of(model)
    if wrapped is not None:
        ddp(wrapped, optimizer)


def _wrapper_of(model: torch.nn.Module) -> DistributedDataParallel | None:
    """Callbacks are given the module that was wrapped, and it does not know its wrapper."""
    every = [one for one in gc.get_objects() if type(one) is DistributedDataParallel and one.module is model]
    if len(every) > 1:
        raise InvalidArgument(f"{len(every)} DistributedDataParallel wrap this {type(model).__name__}: keep one")
    return every[0] if every else None


def refuse_clipping(norm: float | None, optimizer: Optimizer, where: str, off: str) -> None:
    """A library clips what each rank has by itself; ranks would be clipped by other factors, or twice."""
    if norm:
        raise InvalidArgument(
            f"{where} would clip each rank's own gradient to {norm:g}: write {off} and give max_grad_norm={norm:g} to "
            f"{type(optimizer).__name__}, which clips by the norm over all ranks"
        )


class Meter:
    """Costs of steps: bits per parameter and step, rounds, and the seconds that step() takes after backward."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._seconds, self._steps, self._began = 0.0, 0, 0.0
        self._hooks = [optimizer.register_step_pre_hook(self._begin), optimizer.register_step_post_hook(self._end)]

    def _begin(self, _: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """A closure, in which Lightning runs forward and backward, does not count."""
        self._began = time.perf_counter()

        def timed(closure: Any) -> Any:
            result = closure()
            self._began = time.perf_counter()
            return result

        def around(value: Any) -> Any:
            return (lambda: timed(value)) if callable(value) and not isinstance(value, Optimizer) else value

        return tuple(map(around, args)), {name: around(value) for name, value in kwargs.items()}

    def _end(self, *_: Any) -> None:
        self._seconds += time.perf_counter() - self._began
        self._steps += 1

    def take(self) -> dict[str, float]:
        """Since the last call; bits and rounds since the start."""
        optimizer = self._optimizer()
        if optimizer is None:
            return {}
        stats, seconds = optimizer.stats(), self._seconds / max(1, self._steps)
        self._seconds, self._steps = 0.0, 0
        return {
            "laconic/bits_per_parameter": stats["bits_per_parameter_per_step"],
            "laconic/rounds": stats["totals"]["rounds"],
            "laconic/exposed_seconds": seconds,
        }
