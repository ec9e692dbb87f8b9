"""Hugging Face's Accelerate with 0/1 Adam on a small GPT-2:

    torchrun --nproc-per-node 2 examples/accelerate_gpt2.py [STEPS [FOLDER]]

laconic.integrations.accelerate.prepare is accelerator.prepare, and hands DistributedDataParallel's gradients over. With a
FOLDER, which all ranks share, accelerator.save_state is called after half of the steps, and another call goes on from there.
"""
import os
import sys

import torch
from accelerate import Accelerator
from transformers import GPT2Config, GPT2LMHeadModel

import laconic
from laconic.integrations.accelerate import meter, prepare

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
shape = dict(n_positions=32, n_embd=64, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **shape))
zero_one = laconic.ZeroOneAdam(model.parameters(), lr=3e-3, total_steps=STEPS, max_grad_norm=1.0)
schedule = torch.optim.lr_scheduler.LambdaLR(zero_one, lambda t: min(1, (t + 1) / 10, (STEPS - t) / (STEPS / 2)))
model, optimizer, schedule = prepare(accelerator, model, zero_one, schedule)
schedule.split_batches = True  # one step of the schedule per step, however many ranks there are
costs = meter(optimizer)

first = 0
if FOLDER and os.path.isdir(f"{FOLDER}/laconic"):
    accelerator.load_state(FOLDER)
    first = zero_one.stats()["step"]
for step in range(first, STEPS):
    random = torch.Generator().manual_seed(1000 * step + accelerator.process_index)
    rows = (torch.randint(64, (8, 1), generator=random) + torch.arange(32)) % 64  # rows that count on
    loss = model(rows, labels=rows).loss
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    schedule.step()
    if FOLDER and step + 1 == STEPS // 2:
        accelerator.save_state(FOLDER)
with zero_one.synced(), torch.no_grad():
    rows = (torch.arange(64)[:, None] + torch.arange(32)) % 64
    loss = accelerator.unwrap_model(model)(rows, labels=rows).loss.item()
weights = sum(p.double().sum().item() for p in model.parameters())
text = ", ".join(f"{name} {value:.4g}" for name, value in costs.take().items())
ends = f"final loss {loss:.4f}, sum of weights {weights:.12f}, from step {first}"
print(f"rank {accelerator.process_index}: {ends}, {text}, {zero_one.describe()}", flush=True)
accelerator.wait_for_everyone()
