"""Prints how many MiB a run of an optimizer needs at its peak, weights included: memory_program.py NAME ELEMENTS [SHARDS]

With SHARDS the ranks are nodes of so many, and FSDP shards LAYERS layers, of which it has a few whole at a time.
"""
import gc
import os
import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import laconic

LAYERS = 32
OPTIMIZERS = {
    "AdamW": lambda p, g: laconic.AdamW(p, lr=1e-3, process_group=g),
    "SGD": lambda p, g: laconic.SGD(p, lr=1e-3, momentum=0.9, process_group=g),
    "Birder": lambda p, g: laconic.Birder(p, lr=1e-3, process_group=g),
    "OneBitAdam": lambda p, g: laconic.OneBitAdam(p, lr=1e-3, freeze_step=2, process_group=g),
    "ZeroOneAdam": lambda p, g: laconic.ZeroOneAdam(
        p, lr=1e-3, variance_freeze_step=2, variance_kappa=2, double_every=2, process_group=g
    ),
}


def resident(what):
    return int(re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


class Layer(nn.Module):
    def __init__(self, elements):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(elements).add_(0.1))

    def forward(self, x):
        return x + self.weight.sum()


def model_of(elements, shards):
    """The model, and the group that exchanges."""
    if not shards:
        return Layer(elements), None
    mesh = init_device_mesh("cpu", (dist.get_world_size() // shards, shards), mesh_dim_names=("node", "shard"))
    layers = []
    for _ in range(LAYERS):  # one after the other: a whole model is never there
        layers.append(fully_shard(Layer(elements // LAYERS), mesh=mesh["shard"]))
    return fully_shard(nn.Sequential(*layers), mesh=mesh["shard"]), mesh["node"].get_group()


def train(make, elements, rank, shards):
    model, group = model_of(elements, shards)
    optimizer = make(list(model.parameters()), group)
    for _ in range(5):
        optimizer.zero_grad()
        (model(torch.zeros(1, requires_grad=True)) * (1.0 + rank)).sum().backward()
        optimizer.step()


def main(name, elements, shards="0"):
    laconic.init_process_group()
    rank = dist.get_rank()
    train(OPTIMIZERS[name], 64 * LAYERS, rank, int(shards))  # whatever the first use loads
    gc.collect()
    before = resident("VmRSS")
    train(OPTIMIZERS[name], int(elements), rank, int(shards))
    peak = torch.tensor(resident("VmHWM") - before)
    dist.all_reduce(peak, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"peak {peak.item():.0f} MiB", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # a thread of Gloo that is late to drop the tensor of all_reduce would end in an abort at exit


if __name__ == "__main__":
    main(*sys.argv[1:])
