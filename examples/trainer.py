"""Hugging Face's Trainer with 0/1 Adam on a small GPT-2:

    torchrun --nproc-per-node 2 examples/trainer.py [STEPS [FOLDER]]

Trainer wraps the model in DistributedDataParallel, whose all-reduce the optimizer must take over: that is TakeOver.
It saves the optimizer of rank 0 only, so LaconicCallback saves and resumes that of every rank. With a FOLDER, which all
ranks share, a checkpoint is written every 20 steps, and another call goes on from the last one.
Trainer would clip each rank's gradient by itself, so max_grad_norm is the optimizer's.
"""
import contextlib
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import laconic
from laconic.integrations.transformers import LaconicCallback

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None


class TakeOver(TrainerCallback):
    """Hands the gradients to laconic once Trainer has wrapped the model."""

    def on_train_begin(self, arguments, state, control, **parts):
        laconic.ddp(trainer.model_wrapped, trainer.optimizer)


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
        disable_tqdm=True,
    )  # fmt: skip
    torch.manual_seed(0)
    shape = dict(n_positions=32, n_embd=64, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **shape))
    optimizer = laconic.ZeroOneAdam(model.parameters(), lr=3e-3, total_steps=STEPS, max_grad_norm=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1, (t + 1) / 10, (STEPS - t) / (STEPS / 2)))
    callbacks = [TakeOver(), LaconicCallback()]
    trainer = Trainer(model, arguments, train_dataset=Counting(), optimizers=(optimizer, schedule), callbacks=callbacks)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
if trainer.is_world_process_zero():
    print(f"final loss {trainer.state.log_history[-2]['loss']}, {optimizer.describe()}")
