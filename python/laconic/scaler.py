"""A GradScaler's steps: unscaled in one pass, and skipped on all ranks or on none."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING

import torch

from .errors import InvalidArgument

if TYPE_CHECKING:
    from .optimizer import Optimizer


def skips(optimizer: Optimizer) -> bool:
    """At step(), for a GradScaler: divides the gradient by its scale. True: all ranks must skip this step."""
    found = getattr(optimizer, "found_inf", None)
    if found is None:
        return False
    if optimizer._begun:
        raise InvalidArgument(
            "a GradScaler is used after steps without one, and an exchange has started: set "
            "optimizer.overlap = False before training"
        )
    optimizer._overlap.disturbed()  # the next gradients are scaled too
    bad = torch.tensor([float(found)])
    of_shards = None if optimizer._shards is None else optimizer._shards.group
    for group in (optimizer._group, of_shards):
        if group is not None:
            bad = group.gather(bad).max().reshape(1)
    if bool(bad > 0):
        _found_inf_everywhere(optimizer)
        return True
    scale = getattr(optimizer, "grad_scale", None)
    if scale is not None:
        optimizer._arena.gradient.mul_(1.0 / float(scale))
    return False


def _found_inf_everywhere(optimizer: Optimizer) -> None:
    """The scaler of every rank must see it, or their scales differ; what it gave as found_inf is a copy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not torch.amp.GradScaler.step.__code__:
        frame = frame.f_back
    if frame is not None:
        for found in frame.f_locals["self"]._found_inf_per_device(optimizer).values():
            found.fill_(1.0)
