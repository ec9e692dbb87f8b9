"""Prints how many MiB a run of an optimizer needs at its peak, weights included: memory_program.py NAME ELEMENTS."""
import gc
import os
import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import laconic

OPTIMIZERS = {
    "AdamW": lambda p: laconic.AdamW(p, lr=1e-3),
    "SGD": lambda p: laconic.SGD(p, lr=1e-3, momentum=0.9),
    "Birder": lambda p: laconic.Birder(p, lr=1e-3),
    "OneBitAdam": lambda p: laconic.OneBitAdam(p, lr=1e-3, freeze_step=2),
    "ZeroOneAdam": lambda p: laconic.ZeroOneAdam(p, lr=1e-3, variance_freeze_step=2, variance_kappa=2, double_every=2),
}


def resident(what):
    return int(re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def train(make, elements, rank):
    weight = nn.Parameter(torch.zeros(elements).add_(0.1))
    optimizer = make([weight])
    for _ in range(5):
        optimizer.zero_grad()
        (weight.sum() * (1.0 + rank)).backward()
        optimizer.step()


def main(name, elements):
    laconic.init_process_group()
    rank = dist.get_rank()
    train(OPTIMIZERS[name], 1000, rank)  # whatever the first use loads
    gc.collect()
    before = resident("VmRSS")
    train(OPTIMIZERS[name], int(elements), rank)
    peak = torch.tensor(resident("VmHWM") - before)
    dist.all_reduce(peak, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"peak {peak.item():.0f} MiB", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # a thread of Gloo that is late to drop the tensor of all_reduce would end in an abort at exit


if __name__ == "__main__":
    main(*sys.argv[1:])
