"""Steps of optimizers without exchange, in turns, against torch.optim.AdamW(fused=True)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import laconic

from .timing import Case, measure, row


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
    cases = [_case(name, make, elements, warm) for name, make, warm in makers if only in name or "torch" in name]
    measured = measure(cases, repeats)
    baseline = row(measured[0], elements)["seconds"]
    threads = {"threads": torch.get_num_threads()}
    return [row(c, elements, **threads) | {"speed_against_torch": baseline / row(c, elements)["seconds"]} for c in measured]
