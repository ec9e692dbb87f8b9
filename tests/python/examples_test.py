"""The examples run, alone and under torchrun."""
import json
import re
import shutil
import subprocess
import sys

import pytest
from launch import ROOT, torchrun

EXAMPLES = ROOT / "examples"


def test_the_first_example_is_short():
    assert len((EXAMPLES / "train.py").read_text().splitlines()) < 40


def test_the_first_example_runs_alone_and_on_two_ranks():
    alone = subprocess.run([sys.executable, EXAMPLES / "train.py", "100"], capture_output=True, text=True, check=True)
    together = torchrun(2, EXAMPLES / "train.py", "100")
    for done in (alone, together):
        assert float(re.search(r"loss ([\d.]+)", done.stdout)[1]) < 1.8
    bits = float(re.search(r"([\d.]+) bits per parameter", together.stdout)[1])
    assert 0 < bits < 8


def test_local_steps_learn_and_go_on_from_a_folder(tmp_path):
    alone = subprocess.run([sys.executable, EXAMPLES / "local_steps.py", "120"], capture_output=True, text=True, check=True)
    straight = torchrun(2, EXAMPLES / "local_steps.py", "120", tmp_path)
    shutil.rmtree(tmp_path / "100")
    resumed = torchrun(2, EXAMPLES / "local_steps.py", "120", tmp_path)
    assert (tmp_path / "100").is_dir()
    assert re.search(r".*% right", resumed.stdout)[0] == re.search(r".*% right", straight.stdout)[0]
    rights = [float(re.search(r"([\d.]+)% right", done.stdout)[1]) for done in (alone, straight)]
    assert min(rights) > 60, rights
    assert 0 < float(re.search(r"([\d.]+) bits per parameter", straight.stdout)[1]) < 0.5
    assert "AdamW alone, nesterov every 10 steps, applied 5 steps later" in straight.stdout


def test_a_trainer_that_nobody_told_is_found_at_the_first_step(tmp_path):
    pytest.importorskip("transformers")
    script = tmp_path / "trainer.py"
    script.write_text((EXAMPLES / "trainer.py").read_text().replace("callbacks=[LaconicCallback()]", "callbacks=[]"))
    done = torchrun(2, script, "10", check=False)
    assert done.returncode and "DistributedDataParallel has averaged them" in done.stderr


def test_measurements_give_a_row_for_everything():
    done = torchrun(2, "-m", "laconic.bench", "--elements", "100000", "--repeats", "3", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    for name in (
        "laconic one-bit", "laconic random-sign", "laconic dense fp32", "torch all_reduce float32", "torch all_reduce bfloat16",
        "packed bytes alone", "one-bit as a chain of torch operations", "backward under DDP, plain",
        "backward under DDP, PowerSGD hook", "backward under DDP, laconic.one_bit_hook",
    ):  # fmt: skip
        assert rows[name]["seconds"] > 0 and rows[name]["ranks"] == 2, name
    assert rows["laconic one-bit"]["bytes_sent_per_rank"] < 1.2 * rows["packed bytes alone"]["bytes_sent_per_rank"]
    steps = [sys.executable, "-m", "laconic.bench", "steps", "--elements", "100000", "--repeats", "3"]
    assert "laconic.ZeroOneAdam" in subprocess.run(steps, capture_output=True, text=True, check=True).stdout


def test_steps_with_overlap_stand_beside_steps_that_exchange_nothing():
    done = torchrun(2, "-m", "laconic.bench", "overlap", "--buckets", "4", "--repeats", "3", "--json")
    alone, *others = json.loads(done.stdout)
    assert alone["name"] == "no exchange" and alone["bytes_sent"] == alone["exposed_seconds"] == 0
    assert {row["name"] for row in others} == {
        "torch AdamW under DDP", "laconic.AdamW", "laconic.AdamW, no overlap", "laconic.AdamW under DDP",
    }  # fmt: skip
    for row in others:
        assert row["bytes_sent"] == 4 * row["elements"] and row["buckets"] == 4
        assert 0 < row["backward_seconds"] < row["seconds"]
    refused = subprocess.run([sys.executable, "-m", "laconic.bench", "overlap"], capture_output=True, text=True)
    assert refused.returncode and "torchrun --nproc-per-node 2 -m laconic.bench overlap" in refused.stderr


def test_the_trainer_goes_on_from_its_folder(tmp_path):
    pytest.importorskip("transformers")
    torchrun(2, EXAMPLES / "trainer.py", "40", tmp_path)
    shutil.rmtree(tmp_path / "checkpoint-40")
    done = torchrun(2, EXAMPLES / "trainer.py", "40", tmp_path)
    assert (tmp_path / "checkpoint-40/laconic").is_dir() and "final loss" in done.stdout


def test_the_trainer_of_hugging_face_learns():
    pytest.importorskip("transformers")
    done = torchrun(2, EXAMPLES / "trainer.py", "60")
    assert "2 ranks" in done.stdout
    assert "in place of DistributedDataParallel's all-reduce" in done.stdout
    assert float(re.search(r"final loss '?([\d.]+)", done.stdout)[1]) < 2.5, done.stdout
