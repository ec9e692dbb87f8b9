"""Hugging Face's Trainer with 0/1 Adam on a small GPT-2:

    torchrun --nproc-per-node 2 examples/trainer.py [STEPS [FOLDER]]

Trainer wraps the model in DistributedDataParallel and saves the optimizer of rank 0 only. LaconicCallback lets the
optimizer take over the gradients, saves and resumes the state of every rank, evaluates with the synced weights, and logs
what the exchanges cost. With a FOLDER, which all ranks share, a checkpoint is written every 20 steps, and another call goes
on from the last one. Trainer would clip each rank's gradient by itself, so max_grad_norm is the optimizer's.
"""
import contextlib
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import laconic
from laconic.integrations.transformers import LaconicCallback

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None


class Counting(torch.utils.data.Dataset):
    """Rows that count on from a random start."""

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        row = (i * 7919 + torch.arange(32)) % 64
        return {"input_ids": row, "labels": row}


with contextlib.nullcontext(FOLDER) if FOLDER else tempfile.TemporaryDirectory() as folder:
    os.makedirs(folder, exist_ok=True)
    arguments = TrainingArguments(  # first: it joins the ranks, and the optimizer must know of them
        folder, max_steps=STEPS, per_device_train_batch_size=8, max_grad_norm=0, use_cpu=True, report_to=[],
        logging_steps=10, save_strategy="steps" if FOLDER else "no", save_steps=20, ddp_find_unused_parameters=False,
        disable_tqdm=True, eval_strategy="steps", eval_steps=STEPS // 2,
    )  # fmt: skip
    torch.manual_seed(0)
    shape = dict(n_positions=32, n_embd=64, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **shape))
    optimizer = laconic.ZeroOneAdam(model.parameters(), lr=3e-3, total_steps=STEPS, max_grad_norm=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1, (t + 1) / 10, (STEPS - t) / (STEPS / 2)))
    trainer = Trainer(
        model, arguments, train_dataset=Counting(), eval_dataset=torch.utils.data.Subset(Counting(), range(64)),
        optimizers=(optimizer, schedule), callbacks=[LaconicCallback()],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
if trainer.is_world_process_zero():
    last = {name: value for entry in trainer.state.log_history for name, value in entry.items()}
    costs = ", ".join(f"{name} {value:.4g}" for name, value in last.items() if name.startswith("laconic/"))
    print(f"final loss {last['loss']}, evaluated {last['eval_loss']}, {costs}, {optimizer.describe()}")
