"""Steps of optimizers without exchange, in turns, against torch.optim.AdamW(fused=True)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

import laconic

from .timing import Case, measure, row

FRESH = 5  # times that everybody gets new arrays: where they lie in the machine can decide more than the code


def _case(name: str, make, elements: int, warm: int) -> Case:
    weight = nn.Parameter(torch.randn(elements))
    optimizer = make([weight])
    weight.grad = torch.randn(elements) * 0.1
    for _ in range(warm):
        optimizer.step()
    return Case(name, lambda: optimizer.step())


def rows(elements: int, repeats: int, only: str = "") -> list[dict[str, Any]]:
    forever: dict[str, Any] = dict(variance_freeze_step=1, double_every=1, max_interval=1 << 40)
    makers = [
        ("torch.optim.AdamW(fused=True)", lambda p: torch.optim.AdamW(p, lr=1e-4, fused=True), 1),
        ("laconic.AdamW", lambda p: laconic.AdamW(p, lr=1e-4), 1),
        ("laconic.ZeroOneAdam, silent steps", lambda p: laconic.ZeroOneAdam(p, lr=1e-4, **forever), 12),
    ]
    wanted = [maker for maker in makers if only in maker[0] or "torch" in maker[0]]
    seconds: dict[str, list[float]] = {}
    for turn in range(FRESH):
        turned = wanted[turn % len(wanted) :] + wanted[: turn % len(wanted)]
        for case in measure([_case(name, make, elements, warm) for name, make, warm in turned], math.ceil(repeats / FRESH)):
            seconds.setdefault(case.name, []).extend(case.seconds)
    timed = [Case(name, lambda: None, seconds=seconds[name]) for name, _, _ in wanted if name in seconds]
    found = [row(case, elements, threads=torch.get_num_threads()) for case in timed]
    return [one | {"speed_against_torch": found[0]["seconds"] / one["seconds"]} for one in found]
