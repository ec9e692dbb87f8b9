"""A small training under torchrun that comes back by itself: torch_job.py FOLDER STEPS CHECKPOINT_EVERY TIMEOUT

Leaves in FOLDER what `laconic train` leaves: checkpoint/, a line a step in metrics.jsonl, weights_hash in summary.json.
"""
import hashlib
import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import laconic


def loss_of(model, step, rank):
    """Of data that are the same in every run."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(8, 16, generator=random)
    return nn.functional.cross_entropy(model(inputs), (inputs[:, :4] > 0).float().argmax(1))


def steps_done(folder, optimizer):
    try:
        laconic.resume(folder / "checkpoint", optimizer)
    except laconic.Error as error:
        if error.code != "file" or "there is no checkpoint" not in str(error):
            raise
        return 0
    return optimizer.stats()["step"]


def hash_of(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]


def main(folder, steps, every, timeout):
    laconic.init_process_group(timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = laconic.ZeroOneAdam(
        model.parameters(), lr=1e-2, variance_freeze_step=6, double_every=4, max_interval=4, bucket_mb=1 / 128,
        timeout=timedelta(seconds=timeout),
    )  # fmt: skip
    done = steps_done(folder, optimizer)
    metrics = folder / "metrics.jsonl"
    if rank == 0:
        kept = metrics.read_text().splitlines(keepends=True)[:done] if metrics.exists() else []
        metrics.write_text("".join(kept))
    for step in range(done + 1, steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model, step, rank)
        loss.backward()
        optimizer.step()
        if rank == 0:
            with metrics.open("a") as lines:
                lines.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")
        if step == steps:
            optimizer.synchronize()
        if step % every == 0 or step == steps:
            laconic.save(folder / "checkpoint", optimizer)
    if rank == 0:
        (folder / "summary.json").write_text(json.dumps({"weights_hash": hash_of(model), "steps": steps}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:4]), float(sys.argv[4]))
