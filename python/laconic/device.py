"""Compares a GPU with the CPU, bit for bit.

    python -m laconic.device               the first GPU
    python -m laconic.device --name cuda:1
    python -m laconic.device --emulated    the GPU's kernels on the CPU, where there is no GPU

Every kernel runs on awkward values: not finite, denormal, zeros of both signs, dead blocks, ragged ends. One differing
bit, and laconic does not use the device. Exits with 1 then, and with 2 where the device cannot be opened.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import _core
from .errors import Error


def check(name: str = "cuda") -> dict[str, Any]:
    """What every kernel did: the keys are device, identity, kernels (kernel, with, elements, equal, difference), equal,
    gb_per_second (of GPUs: measured, the device's own copy first)."""
    return _core.check_device(name)


def _text(report: dict[str, Any]) -> str:
    lines = [report["identity"]]
    for name in dict.fromkeys(row["kernel"] for row in report["kernels"]):
        rows = [row for row in report["kernels"] if row["kernel"] == name]
        bad = [row for row in rows if not row["equal"]]
        elements = sum(row["elements"] for row in rows)
        lines.append(f"  {name:<24}{len(rows):>4} cases{elements:>9} elements  {'DIFFERS' if bad else 'equal'}")
        lines += [f"    {row['with']}: {row['difference']}" for row in bad]
    lines += [f"  {name:<24}{speed:>9.1f} GB/s" for name, speed in report["gb_per_second"].items()]
    lines.append("every bit is the CPU's" if report["equal"] else "attach this to an issue; the device is not used")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m laconic.device", description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="cuda", help="cuda, cuda:1, … (default cuda)")
    parser.add_argument("--emulated", action="store_true", help="the GPU's kernels on the CPU")
    parser.add_argument("--json", action="store_true", help="an object instead of text")
    options = parser.parse_args(arguments)
    try:
        report = check("emulated" if options.emulated else options.name)
    except Error as error:
        print(f"laconic: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2) if options.json else _text(report))
    return 0 if report["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
