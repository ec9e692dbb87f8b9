"""Models that FSDP shards inside nodes, for tests on four ranks: two nodes of two shards, if nothing else is said."""
import torch
import torch.distributed as dist
from models import loss_of, network
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import laconic

CODED = dict(
    ZeroOneAdam=dict(lr=1e-2, variance_freeze_step=4, variance_kappa=2, double_every=4, max_interval=4),
    OneBitAdam=dict(lr=1e-2, freeze_step=4),
    Birder=dict(lr=1e-2, seed=3),
    DistributedLion=dict(lr=1e-3),
    OneBitLAMB=dict(lr=1e-2, freeze_step=4),
)
EXACT = dict(
    AdamW=dict(lr=1e-2, weight_decay=0.1),
    SGD=dict(lr=1e-2, momentum=0.9),
    Lion=dict(lr=1e-3),
    LAMB=dict(lr=1e-2),
)
LOCAL = dict(
    LocalSteps=dict(every=3),
    DiLoCo=dict(every=4, outer_lr=0.9, codec="int4", delay=2),
)


def meshes(nodes=2, shards=2):
    return init_device_mesh("cpu", (nodes, shards), mesh_dim_names=("node", "shard"))


def uneven(seed=1):
    """Shards of other sizes, empty ones among them."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1), nn.Linear(1, 4))


def sharded(make=network, mesh=None, layers=True, **options):
    model = make()
    mesh = mesh if mesh is not None else meshes()
    if layers:
        for layer in model.children():
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh["shard"], **options)
    fully_shard(model, mesh=mesh["shard"], **options)
    return model, mesh


def whole(model):
    return torch.cat([(p.full_tensor() if isinstance(p, DTensor) else p).detach().float().reshape(-1) for p in model.parameters()])


def train(model, optimizer, steps, rank, first=1, size=8):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step, rank, size).backward()
        optimizer.step()


def equal_everywhere(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor.contiguous())
    return all(torch.equal(other, every[0]) for other in every)


def close(mine, theirs, within=2e-6):
    return bool(((mine - theirs).abs() <= within * (1 + theirs.abs())).all())


def make(name, model, mesh, **more):
    options = {**CODED, **EXACT, **LOCAL}[name] | more
    given = torch.optim.AdamW(model.parameters(), lr=1e-2) if name in LOCAL else model.parameters()
    return getattr(laconic, name)(given, process_group=mesh["node"].get_group(), **options)
