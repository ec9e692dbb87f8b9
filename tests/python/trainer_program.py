"""Hugging Face's Trainer, saving every 7 steps of 20: trainer_program.py OPTIMIZER FOLDER [resumed] [forgetful]

Prints each rank's weights as a hash. `resumed` goes on from the last checkpoint in FOLDER, `forgetful` has no callback.
"""
import hashlib
import sys

import torch
import torch.distributed as dist
from models import flat
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import laconic
from laconic.integrations.transformers import LaconicCallback

name, folder, how = sys.argv[1], sys.argv[2], sys.argv[3:]
MAKERS = {
    "AdamW": lambda p: laconic.AdamW(p, lr=3e-3),
    "ZeroOneAdam": lambda p: laconic.ZeroOneAdam(p, lr=3e-3, variance_freeze_step=4, double_every=4, max_interval=4),
}


class TakeOver(TrainerCallback):
    def on_train_begin(self, arguments, state, control, **parts):
        laconic.ddp(trainer.model_wrapped, trainer.optimizer)


class Counting(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        row = (i * 7919 + torch.arange(8)) % 16
        return {"input_ids": row, "labels": row}


arguments = TrainingArguments(
    folder, max_steps=20, per_device_train_batch_size=4, max_grad_norm=0, use_cpu=True, report_to=[], save_steps=7,
    ddp_find_unused_parameters=False, disable_tqdm=True,
)  # fmt: skip
torch.manual_seed(0)
shape = dict(n_positions=8, n_embd=16, n_layer=1, n_head=2)
model = GPT2LMHeadModel(GPT2Config(vocab_size=16, bos_token_id=0, eos_token_id=0, **shape))
optimizer = MAKERS[name](model.parameters())
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + t / 10))
callbacks = [TakeOver()] if "forgetful" in how else [LaconicCallback()]
trainer = Trainer(model, arguments, train_dataset=Counting(), optimizers=(optimizer, schedule), callbacks=callbacks)
trainer.train(resume_from_checkpoint="resumed" in how)
print(f"rank {dist.get_rank()} ends with {hashlib.sha256(flat(model).numpy().tobytes()).hexdigest()}", flush=True)
dist.barrier()
