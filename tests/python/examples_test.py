"""The examples run, alone and under torchrun."""
import re
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
    bits = float(re.search(r"([\d.]+) bits a parameter", together.stdout)[1])
    assert 0 < bits < 8


def test_the_trainer_of_hugging_face_learns():
    pytest.importorskip("transformers")
    done = torchrun(2, EXAMPLES / "trainer.py", "60")
    assert "2 ranks" in done.stdout
    assert "in place of DistributedDataParallel's all-reduce" in done.stdout
    assert float(re.search(r"final loss '?([\d.]+)", done.stdout)[1]) < 2.5, done.stdout
