"""Hugging Face's Trainer, saving every 7 steps of 20: trainer_program.py FOLDER [resumed]

Trains three times, as importing takes longer than training, and prints each rank's weights as a hash. `resumed` goes on from the
last checkpoints, then from one of 0/1 Adam without the callback, which must fail.
"""
import hashlib
import sys

import torch
import torch.distributed as dist
from models import flat
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import laconic
from laconic.integrations.transformers import LaconicCallback

MAKERS = {
    "AdamW": lambda p: laconic.AdamW(p, lr=3e-3),
    "ZeroOneAdam": lambda p: laconic.ZeroOneAdam(p, lr=3e-3, variance_freeze_step=4, double_every=4, max_interval=4),
}


class Forgetful(TrainerCallback):
    """Without what ours saves."""

    def on_train_begin(self, arguments, state, control, **parts):
        laconic.ddp(self.trainer.model_wrapped, self.trainer.optimizer)


class Counting(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        row = (i * 7919 + torch.arange(8)) % 16
        return {"input_ids": row, "labels": row}


def train(name, callback, folder, resumed):
    arguments = TrainingArguments(
        folder, max_steps=20, per_device_train_batch_size=4, max_grad_norm=0, use_cpu=True, report_to=[], save_steps=7,
        ddp_find_unused_parameters=False, disable_tqdm=True,
    )  # fmt: skip
    torch.manual_seed(0)
    shape = dict(n_positions=8, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, bos_token_id=0, eos_token_id=0, **shape))
    optimizer = MAKERS[name](model.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + t / 10))
    callback.trainer = trainer = Trainer(model, arguments, train_dataset=Counting(), optimizers=(optimizer, schedule), callbacks=[callback])
    trainer.train(resume_from_checkpoint=resumed)
    ended = hashlib.sha256(flat(model).numpy().tobytes()).hexdigest()
    print(f"rank {dist.get_rank()}: {name} with {type(callback).__name__} ends with {ended}", flush=True)
    dist.barrier()


def main(folder, *how):
    train("AdamW", LaconicCallback(), f"{folder}/adamw", "resumed" in how)
    train("ZeroOneAdam", LaconicCallback(), f"{folder}/zero-one", "resumed" in how)
    train("AdamW", Forgetful(), f"{folder}/forgetful", "resumed" in how)
    if "resumed" in how:
        train("ZeroOneAdam", Forgetful(), f"{folder}/zero-one", True)


main(*sys.argv[1:])
