"""The examples of FSDP, Accelerate, Trainer and Lightning learn, evaluate, and go on from their own checkpoints."""
import re
import shutil

import pytest
from launch import ROOT, started

import laconic

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
    first, began = ends_of(started(ranks, EXAMPLES / name, STEPS, tmp_path / "folder"))
    again, went_on = ends_of(started(ranks, EXAMPLES / name, STEPS, tmp_path / "folder"))
    assert (began, went_on) == (0, STEPS // 2)
    assert set(first) == set(range(ranks)) and first == again
    assert all(loss < 3.5 for loss, _ in first.values()), first
    assert len({weights for _, weights in first.values()}) == 1  # byte-equal after the last step, which syncs


# Put in front of an example: what the ranks evaluate with, compared.
COMPARED = """
import torch
import torch.distributed as dist


def compare(model):
    mine = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    print("weights", "equal" if all(torch.equal(one, mine) for one in every) else "different", flush=True)


"""


@pytest.mark.parametrize("name, changes", [
    ("trainer.py", [
        ("class Counting", "class Compared(Trainer):\n    def prediction_step(self, model, *rest, **more):\n        compare(model)\n"
         "        return super().prediction_step(model, *rest, **more)\n\n\nclass Counting"),
        ("trainer = Trainer(", "trainer = Compared("), ("eval_steps=STEPS // 2", "eval_steps=STEPS // 2 + 1"),
    ]),
    ("lightning_gpt2.py", [
        ("        rows = (torch.arange(64)", "        compare(self)\n        rows = (torch.arange(64)"),
        ("val_check_interval=STEPS // 2", "val_check_interval=STEPS // 2 + 1"),
    ]),
])  # fmt: skip
def test_ranks_evaluate_with_equal_weights_and_log_costs(name, changes, tmp_path):
    """Between two syncs, where each has others of its own."""
    pytest.importorskip("lightning" if "lightning" in name else "transformers")
    text = (EXAMPLES / name).read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (tmp_path / name).write_text(COMPARED + text)
    done = started(2, tmp_path / name, STEPS)
    assert "weights equal" in done.stdout and "weights different" not in done.stdout, done.stdout
    for entry in ("laconic/bits_per_parameter", "laconic/rounds", "laconic/exposed_seconds"):
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
    done = started(2, script, "4", check=False)
    assert done.returncode and "which clips by the norm over all ranks" in done.stderr, done.stderr[-2000:]
    shutil.rmtree(tmp_path)


def test_the_trainer_takes_a_method_by_name(tmp_path):
    pytest.importorskip("transformers")
    script = tmp_path / "trainer.py"
    text = (EXAMPLES / "trainer.py").read_text()
    made = "optimizers=(optimizer, schedule),"
    assert made in text and "disable_tqdm=True," in text
    text = text.replace(made, 'optimizer_cls_and_kwargs=optim("zero-one-adam", arguments),')
    text = text.replace("import LaconicCallback", "import LaconicCallback, optim")
    text = text.replace("disable_tqdm=True,", 'disable_tqdm=True, learning_rate=3e-3, optim_args="double_every=5,max_grad_norm=1.0",')
    script.write_text(text.replace("optimizer.describe()", "trainer.optimizer.optimizer.describe()"))
    done = started(2, script, "20")
    assert "in place of DistributedDataParallel's all-reduce" in done.stdout


def test_names_have_the_settings_of_training_arguments(tmp_path):
    transformers = pytest.importorskip("transformers")
    from laconic.integrations.transformers import optim

    def arguments(**given):
        return transformers.TrainingArguments(tmp_path, use_cpu=True, report_to=[], learning_rate=0.25, **given)

    given = arguments(optim_args="freeze_step=auto, overlap=false,threads=2", max_steps=9, adam_beta2=0.98)
    expected = dict(lr=0.25, betas=(0.9, 0.98), total_steps=9, freeze_step="auto", overlap=False, threads=2)
    assert optim("one-bit-adam", given) == (laconic.OneBitAdam, expected)
    assert optim("lion", arguments()) == (laconic.Lion, {"lr": 0.25})  # its own betas
    assert optim("sgdm", arguments(adam_epsilon=1e-6)) == (laconic.SGD, {"lr": 0.25})
    for name, options, wrong in (
        ("zero_one_adam", {}, "no method `zero_one_adam`: .*zero-one-adam"),
        ("diloco", {}, "exchanges no gradients"),
        ("adamw", {"optim_args": "fused"}, "write name=value"),
    ):
        with pytest.raises(laconic.InvalidArgument, match=wrong):
            optim(name, arguments(**options))
    with pytest.raises(ValueError, match="not a valid OptimizerNames"):  # why the name is not there
        arguments(optim="zero-one-adam")
