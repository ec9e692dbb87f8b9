"""A classifier on several ranks: torchrun --nproc-per-node 2 examples/train.py [STEPS]"""
import sys

import torch
import torch.distributed as dist
from torch import nn

import laconic

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
laconic.init_process_group()  # torchrun, mpirun, srun, or alone
rank = dist.get_rank() if dist.is_initialized() else 0

torch.manual_seed(0)  # the same model on every rank
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
teacher = torch.randn(64, 10)
optimizer = laconic.ZeroOneAdam(model.parameters(), lr=3e-3, total_steps=steps)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, cycle_momentum=False)

random = torch.Generator().manual_seed(1 + rank)  # other data on every rank
for step in range(steps):
    inputs = torch.randn(64, 64, generator=random)
    loss = nn.functional.cross_entropy(model(inputs), (inputs @ teacher).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

if rank == 0:
    stats = optimizer.stats()
    print(f"loss {loss.item():.3f}, {stats['bits_per_parameter_per_step']:.2f} bits per parameter and step, {optimizer.describe()}")
