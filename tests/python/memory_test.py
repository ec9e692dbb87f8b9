"""Peaks of processes are those that docs/explanation/memory.md has, plain and sharded."""
import re

import pytest
from launch import HERE, ROOT, torchrun

# What is freed goes back to the system at once, so that a peak is not that of pages which are kept for later.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
_ELEMENTS = 8_388_608


def documented(heading):
    """Of each optimizer: bytes by the formula, and as measured, per parameter that a rank holds."""
    text = (ROOT / "docs/explanation/memory.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`.*\| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    return {name: (float(total), float(peak)) for name, total, peak in rows}


def peaks(ranks, *arguments):
    done = torchrun(ranks, HERE / "memory_program.py", *arguments, environment=_ENVIRONMENT, timeout=600)
    return {name: float(peak) for name, peak in re.findall(r"(\w+): ([\d.]+) bytes", done.stdout)}


@pytest.mark.parametrize("heading, ranks, arguments", [
    ("PyTorch", 2, (_ELEMENTS,)), ("Sharded models", 4, (_ELEMENTS, 2)),
])  # fmt: skip
def test_every_optimizer_needs_the_documented_memory_at_its_peak(heading, ranks, arguments):
    found, known = peaks(ranks, *arguments), documented(heading)
    assert set(found) == set(known) and len(found) == 10
    for name, (formula, recorded) in known.items():
        assert formula - 0.25 < found[name] < formula + 1.5, (name, found[name], formula)
        assert abs(found[name] - recorded) < 1, (name, found[name], recorded)
