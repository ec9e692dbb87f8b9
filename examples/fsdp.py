"""FSDP inside nodes, 0/1 Adam between them, on a small GPT-2; four ranks as two nodes of two:

    torchrun --nproc-per-node 4 examples/fsdp.py [STEPS [FOLDER]]

FSDP shards the model over the ranks of a node and averages gradients there. laconic exchanges each rank's shard between
nodes. With a FOLDER, which all ranks share, model and optimizer are saved after half of the steps, and another call goes
on from there.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel

import laconic

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None

laconic.init_process_group()
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("node", "shard"))
torch.manual_seed(0)
shape = dict(n_positions=32, n_embd=64, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **shape))
for block in model.transformer.h:
    fully_shard(block, mesh=mesh["shard"])
fully_shard(model, mesh=mesh["shard"])
group = mesh["node"].get_group()
optimizer = laconic.ZeroOneAdam(model.parameters(), lr=3e-3, total_steps=STEPS, max_grad_norm=1.0, process_group=group)

first = 0
if FOLDER and os.path.exists(f"{FOLDER}/.metadata"):
    saved = {"model": model.state_dict(), "optimizer": laconic.Sharded(optimizer, saved_in=FOLDER)}
    dcp.load(saved, checkpoint_id=FOLDER)
    first = optimizer.stats()["step"]
for step in range(first, STEPS):
    optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 10, (STEPS - step) / (STEPS / 2))
    starts = torch.randint(64, (8, 1), generator=torch.Generator().manual_seed(1000 * step + rank))
    rows = (starts + torch.arange(32)) % 64  # rows that count on from a random start
    loss = model(rows, labels=rows).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if FOLDER and step + 1 == STEPS // 2:
        dcp.save({"model": model.state_dict(), "optimizer": laconic.Sharded(optimizer)}, checkpoint_id=FOLDER)
with optimizer.synced(), torch.no_grad():
    rows = (torch.arange(64)[:, None] + torch.arange(32)) % 64
    loss = model(rows, labels=rows).loss.item()
    model.reshard()  # without a backward pass FSDP leaves the outermost module whole
    weights = torch.cat([p.full_tensor().reshape(-1) for p in model.parameters()])
ends = f"final loss {loss:.4f}, sum of weights {weights.double().sum().item():.12f}"
print(f"rank {rank}: {ends}, from step {first}, {optimizer.describe()}", flush=True)
dist.barrier()
