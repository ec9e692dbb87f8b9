"""Python under DistributedDataParallel and the command, which trains with LibTorch, reach the same loss."""
import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from launch import HERE, torchrun

STEPS = 80


def test_gpt2_reaches_the_loss_of_the_command(tmp_path):
    command = os.environ.get("LACONIC_COMMAND")
    if not command or not os.path.exists(command):
        pytest.skip("LACONIC_COMMAND names no laconic")
    pytest.importorskip("transformers")
    text = tmp_path / "text.txt"
    # Of one kind, so that its end is like the rest, and not of this project, which changes from day to day.
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-b]*.py"))
    text.write_bytes(b"\n".join(path.read_bytes() for path in sources))
    losses = []
    for seed in ("1", "2"):
        out = tmp_path / f"seed{seed}"
        arguments = ["--task", "text", "--data", text, "--model", "gpt2-mini", "--optimizer", "zero-one-adam", "--ranks", "2"]
        sizes = ["--batch", "8", "--lr", "0.002", "--set", "data.context=64", "--set", "optimizer.weight_decay=0"]
        more = ["--steps", str(STEPS), "--seed", seed, "--threads", "1", "--out", out]
        subprocess.run([command, "train", *arguments, *sizes, *more], check=True, capture_output=True, timeout=300)
        summary = json.loads((out / "summary.json").read_text())
        losses.append(summary["final_loss"])
    done = torchrun(2, HERE / "gpt2.py", text, tmp_path / "seed1/metrics.jsonl", STEPS)
    found = re.search(r"parameters (\d+) validation loss ([\d.]+)", done.stdout)
    assert abs(int(found[1]) - summary["parameters"]) < 0.01 * summary["parameters"]
    noise = max(0.05, abs(losses[0] - losses[1]))
    assert min(losses) - 2 * noise < float(found[2]) < max(losses) + 2 * noise, (losses, found[2])
