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


COUNT = torch.arange(32)


class Small(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        shape = dict(n_positions=32, n_embd=64, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        self.model = GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=0, eos_token_id=0, **shape)).train()

    def on_train_start(self):
        self.first = self.global_step

    def training_step(self, batch, index):
        # Lightning does not find its place in the data again; rows that depend on the step need none.
        random = torch.Generator().manual_seed(1000 * self.global_step + self.global_rank)
        rows = (torch.randint(64, (8, 1), generator=random) + COUNT) % 64  # rows that count on
        return self.model(rows, labels=rows).loss

    def validation_step(self, batch, index):
        rows = (torch.arange(64)[:, None] + COUNT) % 64
        self.log("validation_loss", self.model(rows, labels=rows).loss, sync_dist=True)

    def configure_optimizers(self):
        optimizer = laconic.ZeroOneAdam(self.parameters(), lr=3e-3, total_steps=STEPS, max_grad_norm=1.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1, (t + 1) / 10, (STEPS - t) / (STEPS / 2)))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


callbacks = [LaconicCallback()]
if FOLDER:
    callbacks.append(ModelCheckpoint(FOLDER, "{step}", every_n_train_steps=STEPS // 2, save_top_k=-1, enable_version_counter=False))
trainer = pl.Trainer(
    accelerator="cpu", devices=int(os.environ.get("WORLD_SIZE", 1)), strategy="ddp", max_steps=STEPS, logger=False,
    enable_checkpointing=bool(FOLDER), enable_progress_bar=False, enable_model_summary=False, callbacks=callbacks,
    val_check_interval=STEPS // 2, num_sanity_val_steps=0, log_every_n_steps=10,
)  # fmt: skip
model = Small()
half = f"{FOLDER}/step={STEPS // 2}.ckpt"
last = half if FOLDER and os.path.exists(half) else None
data = [torch.utils.data.DataLoader(torch.zeros(rows), batch_size=8) for rows in (100_000, 16)]
trainer.fit(model, *data, ckpt_path=last, weights_only=False)
costs = ", ".join(f"{name} {value:.4g}" for name, value in trainer.callback_metrics.items() if name.startswith("laconic"))
[found] = trainer.validate(model, data[1], verbose=False)
weights = sum(p.double().sum().item() for p in model.parameters())
ends = f"final loss {found['validation_loss']:.4f}, sum of weights {weights:.12f}, from step {model.first}"
print(f"rank {trainer.global_rank}: {ends}, {costs}", flush=True)
