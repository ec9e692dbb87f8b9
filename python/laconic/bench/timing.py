"""Measuring things in turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
import torch.distributed as dist


@dataclass
class Case:
    """Something to measure. `check` is called once before, and raises when the result is wrong."""

    name: str
    run: Callable[[], Any]
    check: Callable[[], None] | None = None
    bytes_sent: Callable[[], int] | None = None
    repeats: int = 0
    seconds: list[float] = field(default_factory=list)
    refused: str = ""


def together(value: float) -> float:
    """The largest over the ranks."""
    if not dist.is_initialized():
        return value
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.item()


def attempt(case: Case, work: Callable[[], Any]) -> float | None:
    """Seconds until all ranks are done; None when it does not run on some rank, which is then left out."""
    if dist.is_initialized():
        dist.barrier()
    begin = time.perf_counter()
    try:
        work()
        failed = 0.0
    except (RuntimeError, TypeError, NotImplementedError, ValueError) as error:
        case.refused = (str(error).splitlines() or [type(error).__name__])[0]
        failed = 1.0
    seconds = time.perf_counter() - begin
    return None if together(failed) else together(seconds)


def measure(cases: list[Case], repeats: int, seconds_a_case: float = 20.0) -> list[Case]:
    """Fills in the seconds of each case; slow ones are repeated less. Returns those that run."""
    running = []
    for case in cases:
        if attempt(case, case.check or case.run) is None:
            continue
        warm = attempt(case, case.run)
        if warm is not None:
            case.repeats = max(3, min(repeats, int(seconds_a_case / max(warm, 1e-6))))
            running.append(case)
    for turn in range(repeats):
        for case in running:
            seconds = attempt(case, case.run) if turn < case.repeats else None
            if seconds is not None:
                case.seconds.append(seconds)
    return running


def row(case: Case, elements: int, **more: Any) -> dict[str, Any]:
    median = statistics.median(case.seconds)
    low, high = min(case.seconds), max(case.seconds)
    return {"name": case.name, "elements": elements, "seconds": median, "fastest": low, "slowest": high,
            "repeats": len(case.seconds), **more}  # fmt: skip


def sweep_table(rows: list[dict[str, Any]]) -> str:
    """One line per size, microseconds of each case; the first one is the backend's own, fp32 our exact mean."""
    theirs = rows[0]["name"]
    lines = []
    for size in dict.fromkeys(one["elements"] for one in rows):
        seconds = {one["name"]: one["seconds"] for one in rows if one["elements"] == size}
        exact = seconds.get("fp32", float("inf"))
        marks = {name: "*" if took > exact and name != theirs else "" for name, took in seconds.items()}
        lines.append({"elements": size, "bytes": 4 * size} | {name: f"{1e6 * took:.4g}{marks[name]}" for name, took in seconds.items()})
    return table(lines) + "\n# *: the exact mean, fp32, is quicker at this length: exchange=auto takes it"


def table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for one in rows for name in one))
    cells = [columns] + [[_cell(one.get(name, "")) for name in columns] for one in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in cells)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
