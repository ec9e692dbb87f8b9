"""The examples of FSDP, Accelerate, Trainer and Lightning learn, evaluate, and go on from their own checkpoints."""
import re
import shutil

import pytest
from launch import ROOT, torchrun

EXAMPLES = ROOT / "examples"
STEPS = 40


def ends_of(done):
    """Final loss and sum of weights of each rank, and the step that they began after."""
    found = re.findall(r"rank (\d+): final loss ([\d.]+), sum of weights (-?[\d.]+), from step (\d+)", done.stdout)
    [first] = {first for _, _, _, first in found}
    return {int(rank): (float(loss), weights) for rank, loss, weights, _ in found}, int(first)


@pytest.mark.parametrize("name, ranks, library", [
    ("fsdp.py", 4, "transformers"), ("accelerate_gpt2.py", 2, "accelerate"), ("lightning_gpt2.py", 2, "lightning"),
])  # fmt: skip
def test_an_example_learns_and_resumes_bit_for_bit(name, ranks, library, tmp_path):
    pytest.importorskip(library)
    first, began = ends_of(torchrun(ranks, EXAMPLES / name, STEPS, tmp_path / "folder"))
    again, went_on = ends_of(torchrun(ranks, EXAMPLES / name, STEPS, tmp_path / "folder"))
    assert (began, went_on) == (0, STEPS // 2)
    assert set(first) == set(range(ranks)) and first == again
    assert all(loss < 3.5 for loss, _ in first.values()), first
    assert len({weights for _, weights in first.values()}) == 1  # byte-equal after the last step, which syncs


def test_the_trainer_logs_costs_and_evaluates(tmp_path):
    pytest.importorskip("transformers")
    done = torchrun(2, EXAMPLES / "trainer.py", STEPS)
    for entry in ("laconic/bits_per_parameter", "laconic/rounds", "laconic/exposed_seconds", "evaluated"):
        assert entry in done.stdout, done.stdout
    assert 0 < float(re.search(r"bits_per_parameter ([\d.]+)", done.stdout)[1]) < 20


@pytest.mark.parametrize("name, before, after", [
    ("trainer.py", "max_grad_norm=0,", "max_grad_norm=1.0,"),
    ("lightning_gpt2.py", "max_steps=STEPS,", "max_steps=STEPS, gradient_clip_val=1.0,"),
    ("accelerate_gpt2.py", "    optimizer.step()", "    accelerator.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()"),
])  # fmt: skip
def test_clipping_by_the_library_is_refused(name, before, after, tmp_path):
    pytest.importorskip("transformers")
    script = tmp_path / name
    text = (EXAMPLES / name).read_text()
    assert before in text
    script.write_text(text.replace(before, after))
    done = torchrun(2, script, "4", check=False)
    assert done.returncode and "which clips by the norm over all ranks" in done.stderr, done.stderr[-2000:]
    shutil.rmtree(tmp_path)


def test_a_class_and_its_options_serve_the_trainer_too(tmp_path):
    pytest.importorskip("transformers")
    script = tmp_path / "trainer.py"
    text = (EXAMPLES / "trainer.py").read_text()
    made = "optimizers=(optimizer, schedule),"
    assert made in text
    options = "optimizer_cls_and_kwargs=(laconic.ZeroOneAdam, dict(lr=3e-3, total_steps=STEPS)),"
    text = text.replace(made, options).replace("optimizer.describe()", "trainer.optimizer.optimizer.describe()")
    script.write_text(text)
    done = torchrun(2, script, "20")
    assert "in place of DistributedDataParallel's all-reduce" in done.stdout
