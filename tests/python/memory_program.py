"""Prints what each optimizer needs at its peak, in bytes per parameter that a rank holds: memory_program.py ELEMENTS [SHARDS]

It is the mean of the peaks of all ranks, weights and gradient included. With SHARDS the ranks are nodes of so many, and
FSDP shards the layers over a node. Layers and buckets are small, so that what is whole for a moment, or under way, counts
for little.
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

LAYERS, STEPS = 128, 2
OPTIONS = dict(
    SGD=dict(momentum=0.9),
    AdamW={},
    LAMB={},
    Lion={},
    Birder={},
    DistributedLion={},
    OneBitAdam=dict(freeze_step=1),
    OneBitLAMB=dict(freeze_step=1),
    ZeroOneAdam=dict(variance_freeze_step=1, variance_kappa=1, double_every=8),
)


def make(name, parameters, group):
    shared = dict(process_group=group, bucket_mb=0.25)
    if name == "LocalSteps":
        return laconic.LocalSteps(torch.optim.AdamW(parameters, lr=1e-3), every=2, **shared)
    return getattr(laconic, name)(parameters, lr=1e-3, **OPTIONS[name], **shared)


def resident(what):
    """VmRSS or VmHWM, its peak, in bytes."""
    return int(re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


class Layer(nn.Module):
    def __init__(self, elements):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(elements).add_(0.1))

    def forward(self, x):
        return x + self.weight.sum()


def model_of(elements, mesh, count):
    layers = []
    for _ in range(count):  # one after the other: the whole model is never there
        layer = Layer(elements // count)
        layers.append(layer if mesh is None else fully_shard(layer, mesh=mesh["shard"]))
    model = nn.Sequential(*layers)
    return model if mesh is None else fully_shard(model, mesh=mesh["shard"])


def train(name, elements, mesh, layers=LAYERS):
    model = model_of(elements, mesh, layers)
    optimizer = make(name, list(model.parameters()), None if mesh is None else mesh["node"].get_group())
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(torch.zeros(1, requires_grad=True)) * (1.0 + dist.get_rank())).sum().backward()
        optimizer.step()


def measured(name, elements, mesh):
    train(name, 128, mesh, layers=2)  # whatever its first use loads
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    train(name, elements, mesh)
    peak = torch.tensor(float(resident("VmHWM") - before))
    gc.collect()
    dist.all_reduce(peak)
    return peak.item() / dist.get_world_size()


def main(elements, shards=0):
    laconic.init_process_group()
    shape = (dist.get_world_size() // max(1, shards), shards)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("node", "shard")) if shards else None
    train("SGD", elements, mesh)  # Python's own memory of so many layers
    for name in [*OPTIONS, "LocalSteps"]:
        peak = measured(name, elements, mesh) / (elements / max(1, shards))
        if dist.get_rank() == 0:
            print(f"{name}: {peak:.2f} bytes", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # a thread of Gloo that is late to drop the tensor of all_reduce would end in an abort at exit


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
