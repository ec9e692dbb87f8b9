"""Lightning with 0/1 Adam on a small GPT-2:

    torchrun --nproc-per-node 2 examples/lightning_gpt2.py [STEPS [FOLDER]]

LaconicCallback hands DistributedDataParallel's gradients over, and puts every rank's state into Lightning's checkpoints.
With a FOLDER, which all ranks share, a checkpoint is written after half of the steps, and another call goes on from there.
"""
import os
import sys
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from transformers import GPT2Config, GPT2LMHeadModel

import laconic
from laconic.integrations.lightning import LaconicCallback

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None
warnings.filterwarnings("ignore", module="lightning")


class Counting(torch.utils.data.Dataset):
    """Rows that count on from a start."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return (i * 7919 + torch.arange(32)) % 64


class Small(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        shape = dict(n_positions=32, n_embd=64, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        self.model = GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **shape)).train()

    def training_step(self, rows, index):
        return self.model(rows, labels=rows).loss

    def validation_step(self, rows, index):
        self.log("validation_loss", self.model(rows, labels=rows).loss, sync_dist=True)

    def configure_optimizers(self):
        optimizer = laconic.ZeroOneAdam(self.parameters(), lr=3e-3, total_steps=STEPS, max_grad_norm=1.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1, (t + 1) / 10, (STEPS - t) / (STEPS / 2)))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


callbacks = [LaconicCallback()]
if FOLDER:
    callbacks.append(ModelCheckpoint(FOLDER, "half", every_n_train_steps=STEPS // 2, save_top_k=-1, enable_version_counter=False))
trainer = pl.Trainer(
    accelerator="cpu", devices=int(os.environ.get("WORLD_SIZE", 1)), strategy="ddp", max_steps=STEPS, logger=False,
    enable_checkpointing=bool(FOLDER), enable_progress_bar=False, enable_model_summary=False, callbacks=callbacks,
    val_check_interval=STEPS // 2, num_sanity_val_steps=0, log_every_n_steps=10,
)  # fmt: skip
model = Small()
last = f"{FOLDER}/half.ckpt" if FOLDER and os.path.exists(f"{FOLDER}/half.ckpt") else None
data = [torch.utils.data.DataLoader(Counting(rows), batch_size=8) for rows in (100_000, 64)]
trainer.fit(model, *data, ckpt_path=last, weights_only=False)
costs = ", ".join(f"{name} {value:.4g}" for name, value in trainer.callback_metrics.items() if name.startswith("laconic"))
[found] = trainer.validate(model, data[1], verbose=False)
weights = sum(p.double().sum().item() for p in model.parameters())
print(f"rank {trainer.global_rank}: final loss {found['validation_loss']:.4f}, sum of weights {weights:.12f}, {costs}")
