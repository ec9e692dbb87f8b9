"""Weights that others wrote between steps: they count, or are an error before anything was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .errors import InvalidArgument

if TYPE_CHECKING:
    from .optimizer import Optimizer


@torch.no_grad()
def take_up(optimizer: Optimizer) -> None:
    """Masters take what was written to low-precision weights, and the core what was written to its own."""
    arena = optimizer._arena
    arena.take_home(started=not optimizer._first)
    if optimizer._begun and not optimizer._core.defers:
        return _refuse_touched(optimizer)
    written = arena.written()
    if written:
        arena.read_back(written)
        arena.note()
    if optimizer._begun or optimizer._shows_synced:
        return
    optimizer._core.take_up_weights()
    if arena.on_gpu:  # where the core would need a copy of all weights to notice
        touched = arena.touched()
        if touched:  # one stands for all: the core takes up every weight
            optimizer._core.written(touched[0])
            arena.note()


def _refuse_touched(optimizer: Optimizer) -> None:
    arena = optimizer._arena
    touched = arena.touched()
    if touched:
        arena.note()
        raise InvalidArgument(
            f"{arena.names[touched[0]]} was written to between backward and step(), after its exchange had "
            "started: write after step(), or set optimizer.overlap = False before training"
        )
