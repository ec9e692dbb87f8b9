"""Parameter groups: what they hold, and what they may have of their own."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
from torch import Tensor

from .arena import by_strides, check_parameter
from .arguments import plain
from .errors import InvalidArgument
from .mesh import Shards
from .shards import local_of

OF_GROUPS = {"lr", "weight_decay"}  # what groups may have of their own, and schedulers may change
_NOT_NUMBERS = {"params", "param_names"}


def plain_group(group: dict[str, Any]) -> dict[str, Any]:
    """Numbers as Python has them. A learning rate may stay a tensor, which schedulers then write to."""
    kept = {name for name, value in group.items() if name == "lr" and isinstance(value, torch.Tensor)}
    return {name: value if name in kept | _NOT_NUMBERS else plain(name, value) for name, value in group.items()}


class Members:
    """The parameters of groups that need a gradient, in order, and those that need none. Collective over `shards`.

    Of a group over shards, parameters that are held by the same ranks become a group of the core: what several ranks
    hold then shares no block with what one rank has, and has the same place and the same random numbers on each.
    """

    def __init__(self, groups: list[dict[str, Any]], shards: Shards | None = None) -> None:
        self.parameters: list[Tensor] = []
        self.names: list[str] = []
        self.sizes: list[tuple[str, int, bool, int]] = []  # of each of the core's: name, elements, coded, first holder
        self.holders: list[int] = []  # of each parameter: the first shard that holds the same part
        self.numbers: list[int] = []  # of each of the core's: whose settings it has
        self.frozen: list[tuple[Tensor, str]] = []
        self.held_twice = False  # several ranks hold the same part
        for number, group in enumerate(groups):
            first = len(self.parameters)
            self._add(group)
            mine, names = self.parameters[first:], self.names[first:]
            held = shards.holders(mine, names) if shards is not None else [(0,)] * len(mine)
            by_holders = sorted(range(len(mine)), key=lambda i: held[i])
            self.parameters[first:], self.names[first:] = [mine[i] for i in by_holders], [names[i] for i in by_holders]
            self.held_twice |= any(len(set(holders)) < len(holders) for holders in held)
            at = shards.rank if shards is not None else 0
            self.holders += [held[i][at] for i in by_holders]
            for holders in sorted(set(held)) or [(0,) * (at + 1)]:
                part = [p for p, of in zip(mine, held) if of == holders]
                name = _name(number, part) + (f", held by {holders}" if len(set(held)) > 1 else "")
                elements = sum(local_of(p).numel() for p in part)
                self.sizes.append((name, elements, bool(group["compress"]), holders[at]))
                self.numbers.append(number)
        if not self.parameters:
            raise InvalidArgument("no parameter requires a gradient: there is nothing to train")

    def _add(self, group: dict[str, Any]) -> None:
        first = len(self.names) + len(self.frozen)
        given = group.get("param_names") or [f"parameter {first + i}" for i in range(len(group["params"]))]
        for parameter, name in zip(group["params"], given):
            check_parameter(parameter, name)
            if parameter.requires_grad:
                self.parameters.append(parameter)
                self.names.append(name)
            else:
                self.frozen.append((parameter, name))


def rates(groups: list[dict[str, Any]], fixed: dict[str, Any]) -> list[tuple[float, float]]:
    """Learning rate and weight decay of each group; `fixed` is what all groups have alike."""
    for group in groups:
        for name, value in fixed.items():
            if name in group and group[name] != value:
                raise InvalidArgument(
                    f"a group has {name}={group[name]}, the optimizer {value}: {name} is the same for "
                    "all groups and steps (OneCycleLR: cycle_momentum=False)"
                )
    return [(float(group["lr"]), float(group["weight_decay"])) for group in groups]


def check_rates(given: list[tuple[float, float]]) -> None:
    for lr, weight_decay in given:
        if not 0 <= lr < math.inf or not 0 <= weight_decay < math.inf:
            raise InvalidArgument(f"lr={lr} and weight_decay={weight_decay}: both must be finite and at least 0")


def _name(number: int, parameters: list[Tensor]) -> str:
    """Checkpoints compare names: elements in another order belong to another group."""
    layouts = "".join(f"{i}{by_strides(p)}\n" for i, p in enumerate(parameters) if by_strides(p))
    return f"group {number}, strided {hashlib.sha256(layouts.encode()).hexdigest()[:8]}" if layouts else f"group {number}"
