#!/usr/bin/env python3
"""AdamW against torch.optim.AdamW(fused=True), one thread each, in turns. Needs torch 2.13.0 and ./run build.

    torch_adamw.py [--elements N] [--turns K] [--json]
"""
import argparse
import json
import statistics
import subprocess
import time

import torch


def torch_seconds(optimizer, parameter, repeats):
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def laconic_seconds(elements, repeats):
    command = ["build/laconic", "bench", "step", "--only", "adamw", "--elements", str(elements), "--repeats", str(repeats), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=64 << 20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    parameter = torch.nn.Parameter(torch.randn(options.elements))
    parameter.grad = torch.randn(options.elements) * 0.1
    optimizer = torch.optim.AdamW([parameter], lr=1e-4, fused=True)
    optimizer.step()
    turns = [(laconic_seconds(options.elements, 3), torch_seconds(optimizer, parameter, 3)) for _ in range(options.turns)]
    ours, theirs = (statistics.median(column) for column in zip(*turns))
    row = {"name": "adamw", "elements": options.elements, "turns": options.turns, "seconds": ours, "torch_fused_seconds": theirs,
           "speed_against_torch": statistics.median(b / a for a, b in turns), "torch": torch.__version__}
    print(json.dumps([row], indent=1) if options.json else "\n".join(f"{k}: {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
