"""Trains the command's gpt2-mini on bytes of a text under DDP: gpt2.py TEXT METRICS STEPS prints the validation loss.

The learning rates are those that the command wrote to METRICS.
"""
import json
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import GPT2Config, GPT2LMHeadModel

import laconic

CONTEXT, BATCH = 64, 8


def loss_of(model, rows):
    logits = model(rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def main(text, metrics, steps):
    laconic.init_process_group()
    rank = dist.get_rank()
    with open(text, "rb") as file:
        tokens = torch.tensor(list(file.read()))
    with open(metrics) as file:
        rates = [json.loads(line)["lr"] for line in file]
    cut = len(tokens) - len(tokens) // 10
    train, validation = tokens[:cut], tokens[cut:]
    torch.manual_seed(1)
    shape = dict(n_positions=CONTEXT, n_embd=128, n_layer=5, n_head=4)
    still = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=260, bos_token_id=256, eos_token_id=256, **shape, **still))
    for name, parameter in model.named_parameters():  # narrow models start wider, as the command's do
        if parameter.dim() == 2:
            deviation = 128**-0.5 if "wte" in name or "wpe" in name else 0.02 * (768 / 128) ** 0.5
            torch.nn.init.normal_(parameter, 0, deviation / (10**0.5 if "c_proj" in name else 1))
    optimizer = laconic.ZeroOneAdam(model.parameters(), lr=1.0, total_steps=int(steps), max_grad_norm=None)
    wrapped = laconic.ddp(DDP(model), optimizer)
    random = torch.Generator().manual_seed(1 + rank)
    for lr in rates[: int(steps)]:
        begins = torch.randint(len(train) - CONTEXT, (BATCH,), generator=random)
        rows = torch.stack([train[b : b + CONTEXT + 1] for b in begins])
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        loss_of(wrapped, rows).backward()
        optimizer.step()
    with optimizer.synced(), torch.no_grad():
        windows = validation[: (len(validation) - 1) // CONTEXT * CONTEXT + 1].unfold(0, CONTEXT + 1, CONTEXT)
        losses = [loss_of(model, part).item() * len(part) for part in windows.split(64)]
    if rank == 0:
        print(f"parameters {optimizer.stats()['parameters']} validation loss {sum(losses) / len(windows):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
