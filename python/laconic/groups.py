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

OF_GROUPS = {"lr", "weight_decay"}  # what groups may have of their own, and schedulers may change
_NOT_NUMBERS = {"params", "param_names"}


def plain_group(group: dict[str, Any]) -> dict[str, Any]:
    """Numbers as Python has them. A learning rate may stay a tensor, which schedulers then write to."""
    kept = {name for name, value in group.items() if name == "lr" and isinstance(value, torch.Tensor)}
    return {name: value if name in kept | _NOT_NUMBERS else plain(name, value) for name, value in group.items()}


class Members:
    """The parameters of groups that need a gradient, in order, and those that need none."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.parameters: list[Tensor] = []
        self.names: list[str] = []
        self.sizes: list[tuple[str, int, bool]] = []  # of each group: name, elements, whether they are coded
        self.frozen: list[tuple[Tensor, str]] = []
        for number, group in enumerate(groups):
            mine = [p for p in group["params"] if p.requires_grad]
            self._add(group)
            self.sizes.append((_name(number, mine), sum(p.numel() for p in mine), bool(group["compress"])))
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
