"""DiLoCo around torch's AdamW, with exchanges of four bits per parameter that overlap with training:

    torchrun --nproc-per-node 2 examples/local_steps.py [STEPS [FOLDER]]

With a FOLDER, which all ranks share, a checkpoint is written every 50 steps, and another call goes on from the last one.
"""
import math
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

import laconic

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
folder = sys.argv[2] if len(sys.argv) > 2 else None
laconic.init_process_group()  # torchrun, mpirun, srun, or alone
rank = dist.get_rank() if dist.is_initialized() else 0

torch.manual_seed(0)  # the same model on every rank
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
teacher = torch.randn(64, 10)
groups = [{"params": model.parameters(), "lr": 3e-3, "initial_lr": 3e-3}]
inner = torch.optim.AdamW(groups, fused=True)  # your optimizer, whatever it is
optimizer = laconic.DiLoCo(inner, every=10, delay=5, codec="int4", total_steps=steps)

saved = [int(name) for name in os.listdir(folder) if name.isdigit()] if folder and os.path.isdir(folder) else []
first = laconic.resume(f"{folder}/{max(saved)}", optimizer)["step"] if saved else 0
cosine = lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))  # noqa: E731
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine, last_epoch=first - 1)
for step in range(first, steps):
    random = torch.Generator().manual_seed(2 * step + rank)  # other data on every rank and in every step
    inputs = torch.randn(64, 64, generator=random)
    loss = nn.functional.cross_entropy(model(inputs), (inputs @ teacher).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # AdamW's; every 10th starts an exchange, which is applied 5 steps later
    schedule.step()
    if folder and (step + 1) % 50 == 0:
        laconic.save(f"{folder}/{step + 1}", optimizer, {"step": step + 1})

with optimizer.synced(), torch.no_grad():  # the weights that all ranks have in common
    inputs = torch.randn(1000, 64, generator=torch.Generator().manual_seed(1))
    right = (model(inputs).argmax(1) == (inputs @ teacher).argmax(1)).float().mean()
if rank == 0:
    stats = optimizer.stats()
    bits, waited = stats["bits_per_parameter_per_step"], stats["totals"]["waited_seconds"]
    print(f"{right:.1%} right, {bits:.3f} bits per parameter and step, waited {waited:.2f} s: {optimizer.describe()}")
