"""What must be the same on all ranks, or must not be, before the first exchange."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from . import _core
from .arena import by_strides
from .errors import InvalidArgument
from .shards import lines_of
from .transport import Group


def initialised() -> bool:
    return dist.is_available() and dist.is_initialized()


def agree(group: Group | None, lines: list[str], remedy: str) -> None:
    """Collective: an error, the same on all ranks, with the first line in which a rank differs from the first one."""
    if group is None:
        return
    mine = "\n".join(lines).encode()
    digests = group.gather(torch.tensor(list(hashlib.sha256(mine).digest()), dtype=torch.uint8))
    if bool((digests == digests[0]).all()):
        return
    every = [text.decode().split("\n") for text in group.gather_bytes(mine)]
    for rank, other in enumerate(every):
        for a, b in zip(other + ["nothing"], every[0] + ["nothing"]):
            if a != b:
                here, there = group.ranks[rank], group.ranks[0]
                raise InvalidArgument(f"rank {here} has {a} where rank {there} has {b}: {remedy}")


def same_model(group: Group | None, optimizer: str, parameters: list[Any], names: list[str]) -> None:
    """Different models are found here, and both shapes named. Collective."""
    lines = [f"{name} {line}{by_strides(p)}" for p, name, line in zip(parameters, names, lines_of(parameters))]
    agree(group, [optimizer, *lines], "build the same model, in the same order, on every rank")


def refuse_averaged(group: Group | None, gradient: Tensor) -> None:
    """Gradients that are equal on all ranks were averaged by somebody else, or all ranks see the same data."""
    if group is None:
        return
    gradient = gradient.cpu()
    some = any(bool(piece.any()) for piece in gradient.split(2**20))  # any() of all makes a byte for each element
    mine = [_core.hash64(gradient) & (2**62 - 1), int(some)]
    every = group.gather(torch.tensor(mine))
    if bool((every == every[0]).all()) and bool(every[0, 1]):
        raise InvalidArgument(
            "gradients are equal on all ranks before the first exchange: DistributedDataParallel has averaged them "
            "(hand it over with laconic.ddp(model, optimizer)), or every rank has the same data"
        )


def refuse_loneliness() -> None:
    """Of an optimizer that was made before there were process groups."""
    if initialised() and dist.get_world_size() > 1:
        raise InvalidArgument(
            f"the optimizer was made before init_process_group and knows nothing of the {dist.get_world_size()} "
            "ranks: make it afterwards"
        )
