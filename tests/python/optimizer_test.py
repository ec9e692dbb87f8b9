"""The conventions of torch.optim, alone in the world."""
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from models import flat, loss_of, network, train
from torch import nn

import laconic
from laconic import _core, arena

ROOT = Path(__file__).parents[2]
MODULES = [name for _, name, _ in pkgutil.iter_modules(laconic.__path__, "laconic.") if not name.endswith("_core")]


@pytest.mark.parametrize("name", ["laconic", *MODULES])
def test_examples_in_docstrings_run(name):
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert done.failed == 0


def test_everything_public_has_an_example():
    for name in laconic.__all__:
        if name != "Optimizer":
            assert ">>> " in (getattr(laconic, name).__doc__ or ""), name


def test_the_package_is_typed_and_is_not_the_folder_of_cpp():
    for arguments in (["-c", "import laconic; print(laconic.__file__)"], ["-m", "pytest", "--version"]):
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    done = subprocess.run(
        [sys.executable, "-c", "import laconic; print(laconic.__file__)"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folder = Path(done.stdout.strip()).parent
    assert folder != ROOT / "laconic" and (folder / "py.typed").exists()


def every(parameters, **more):
    return {
        "zero-one-adam": lambda: laconic.ZeroOneAdam(
            parameters(), lr=1e-2, variance_freeze_step=4, variance_kappa=2, double_every=3, max_interval=4, **more
        ),
        "one-bit-adam": lambda: laconic.OneBitAdam(parameters(), lr=1e-2, freeze_step=4, **more),
        "birder": lambda: laconic.Birder(parameters(), lr=1e-2, **more),
        "lion": lambda: laconic.Lion(parameters(), lr=3e-3, **more),
        "distributed-lion": lambda: laconic.DistributedLion(parameters(), lr=3e-3, form="count", **more),
        "adamw": lambda: laconic.AdamW(parameters(), lr=1e-2, **more),
        "lamb": lambda: laconic.LAMB(parameters(), lr=1e-2, **more),
        "one-bit-lamb": lambda: laconic.OneBitLAMB(parameters(), lr=1e-2, freeze_step=4, **more),
        "sgd": lambda: laconic.SGD(parameters(), lr=1e-2, momentum=0.9, **more),
    }


NAMES = list(every(list))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_may_be_zeroed_dropped_or_given_by_hand(name):
    ends = []
    for way in ("zeroed", "dropped", "by hand", "closure"):
        model = network()
        optimizer = every(model.parameters)[name]()
        for step in range(1, 13):
            optimizer.zero_grad(set_to_none=way != "zeroed")
            if way == "closure":

                def closure():
                    optimizer.zero_grad()
                    loss = loss_of(model, step, 0)
                    loss.backward()
                    return loss

                assert optimizer.step(closure).item() > 0
                continue
            loss = loss_of(model, step, 0)
            if way == "by hand":
                for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
                    p.grad = g
            else:
                loss.backward()
            optimizer.step()
        ends.append(flat(model))
    assert all(torch.equal(end, ends[0]) for end in ends)


def test_groups_and_schedulers_follow_torch():
    def groups(model):
        weights = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim == 1]
        return [{"params": weights, "weight_decay": 0.1}, {"params": others, "lr": 3e-2, "weight_decay": 0.0}]

    ends = []
    for make in (laconic.AdamW, torch.optim.AdamW):
        model = network()
        optimizer = make(groups(model), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda t: 1 / (1 + t), lambda t: min(1, t / 5)])
        for step in range(1, 31):
            train(model, optimizer, 1, 0, step)
            scheduler.step()
        ends.append(flat(model))
    assert ((ends[0] - ends[1]).abs() / (1 + ends[1].abs())).max() < 1e-6


def test_a_group_that_rests_keeps_its_weights_and_learns_later():
    model = network()
    resting = model[0].weight.detach().clone()
    rest = [p for p in model.parameters() if p is not model[0].weight]
    optimizer = laconic.ZeroOneAdam(
        [{"params": [model[0].weight], "lr": 0.0}, {"params": rest}], lr=1e-2,
        variance_freeze_step=4, double_every=3, max_interval=4,
    )  # fmt: skip
    train(model, optimizer, 20, 0)
    assert torch.equal(model[0].weight, resting)
    optimizer.param_groups[0]["lr"] = 1e-2
    train(model, optimizer, 20, 0, 21)
    assert not torch.equal(model[0].weight, resting) and flat(model).isfinite().all()


def test_momentum_that_a_scheduler_turns_is_an_error():
    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=10)
    with pytest.raises(laconic.InvalidArgument, match="cycle_momentum=False"):
        train(model, optimizer, 1, 0)
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=10, cycle_momentum=False)
    train(model, optimizer, 1, 0)


def test_hooks_of_steps_are_called():
    model = network()
    optimizer = laconic.SGD(model.parameters(), lr=1e-2)
    called = []
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    train(model, optimizer, 1, 0)
    assert called == ["before", "after"]


def test_groups_are_added_before_the_first_step_only():
    model, whole = network(), network()
    optimizer = laconic.AdamW(model[0].parameters(), lr=1e-2)
    optimizer.add_param_group({"params": [*model[2].parameters(), *model[4].parameters()], "compress": False})
    reference = laconic.AdamW(whole.parameters(), lr=1e-2)
    train(model, optimizer, 5, 0)
    train(whole, reference, 5, 0)
    assert torch.equal(flat(model), flat(whole))
    with pytest.raises(laconic.InvalidArgument, match="after the first step"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})


def test_bf16_weights_have_a_float32_master():
    weight = nn.Parameter(torch.ones(200, dtype=torch.bfloat16))
    optimizer = laconic.SGD([weight], lr=1e-4)
    for _ in range(50):  # each step is too small to show in bf16
        optimizer.zero_grad()
        weight.float().sum().backward()
        optimizer.step()
    assert torch.allclose(optimizer._arena.weights, torch.tensor(0.995), atol=1e-5)
    assert torch.equal(weight, optimizer._arena.weights.bfloat16())
    with torch.no_grad():
        weight.fill_(2)
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert torch.equal(optimizer._arena.weights, torch.full((200,), 2.0))


def test_autocast():
    model = network()
    optimizer = every(model.parameters)["zero-one-adam"]()
    first = loss_of(model, 1, 0, 256).item()
    for step in range(1, 60):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, step, 0)
        loss.backward()
        optimizer.step()
    assert loss_of(model, 1, 0, 256).item() < first


def test_parameters_with_gaps_are_packed():
    weight = nn.Parameter(torch.randn(6, 8)[:, ::2].t())
    before = weight.detach().clone()
    optimizer = laconic.SGD([weight], lr=1.0)
    assert torch.equal(weight, before) and weight.is_contiguous()
    weight.grad = torch.ones(6, 4).t()
    optimizer.step()
    assert torch.equal(weight, before - 1)


def test_frozen_parameters_stay():
    model = network()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2, weight_decay=0.5)
    train(model, optimizer, 3, 0)
    assert torch.equal(model[0].weight, before)
    assert optimizer.stats()["parameters"] == sum(p.numel() for p in model[2:].parameters())


class FakeDTensor(nn.Parameter):
    placements = ("Shard(0)",)


def test_what_cannot_be_trained_is_refused():
    def refused(match, *parameters, **options):
        with pytest.raises(laconic.InvalidArgument, match=match):
            laconic.AdamW(parameters, **options)

    refused("float64", nn.Parameter(torch.zeros(3, dtype=torch.float64)))
    refused("meta", nn.Parameter(torch.zeros(3, device="meta")))
    refused("is sharded", FakeDTensor(torch.zeros(3)))
    refused("nothing to train", nn.Parameter(torch.zeros(3), requires_grad=False))
    refused("lr|learning rate", nn.Parameter(torch.zeros(3)), lr=-1.0)
    refused("torch.distributed is not initialised", nn.Parameter(torch.zeros(3)), process_group="group")
    with pytest.raises(laconic.InvalidArgument, match="no CUDA kernels yet"):
        arena.check_parameter(SimpleNamespace(device=torch.device("cuda:0")), "parameter 0")
    embedding = nn.Embedding(10, 3, sparse=True)
    optimizer = laconic.AdamW(embedding.parameters())
    with pytest.raises(laconic.InvalidArgument, match="sparse=False"):
        embedding(torch.tensor([1])).sum().backward()
        optimizer.step()


def test_neither_total_steps_nor_what_follows_from_it_is_an_error():
    weight = nn.Parameter(torch.zeros(3))
    with pytest.raises(laconic.InvalidArgument, match="variance_freeze_step nor total_steps"):
        laconic.ZeroOneAdam([weight])
    with pytest.raises(laconic.InvalidArgument, match="freeze_step nor total_steps"):
        laconic.OneBitAdam([weight])
    with pytest.raises(laconic.InvalidArgument, match="two-round, single-round, count or auto"):
        laconic.Birder([weight], lr=1, exchange="three-round")
    with pytest.raises(TypeError, match="variance_kapa"):
        laconic.ZeroOneAdam([weight], total_steps=10, variance_kapa=1)


def test_parameters_that_moved_away_come_back_or_are_found():
    model, other = network(), network()
    optimizer, reference = laconic.AdamW(model.parameters(), lr=1e-2), laconic.AdamW(other.parameters(), lr=1e-2)
    for step in range(1, 5):
        for p in model.parameters():
            p.data = p.data.clone()
        train(model, optimizer, 1, 0, step)
        train(other, reference, 1, 0, step)
    assert torch.equal(flat(model), flat(other))
    thief = laconic.AdamW(model.parameters(), lr=1e-2)
    train(model, thief, 1, 0)
    with pytest.raises(laconic.InvalidArgument, match="no longer lies in the optimizer's memory"):
        train(model, optimizer, 1, 0)


def test_what_is_written_between_syncs_is_not_lost_silently():
    model = network()
    optimizer = every(model.parameters)["zero-one-adam"]()
    train(model, optimizer, 10, 0)
    with torch.no_grad():
        model[0].weight.mul_(0.5)
    with pytest.raises(laconic.InvalidArgument, match="would undo it"):
        train(model, optimizer, 1, 0, 11)


def test_arrays_are_never_converted():
    good = torch.zeros(8)
    alone = _core.alone()
    for bad in (good.bfloat16(), good.double(), torch.zeros(16)[::2], torch.zeros(2, 4), torch.zeros(8, dtype=torch.int32)):
        for arguments in ((bad, good), (good, bad)):
            with pytest.raises(TypeError):
                _core.Optimizer({"algorithm": "adamw"}, *arguments, [], [], False, True, alone)
        with pytest.raises(TypeError):
            _core.hash64(bad)
        with pytest.raises(TypeError):
            _core.Mean("sign", 8, alone).reduce(bad)
        optimizer = _core.Optimizer({"algorithm": "adamw"}, good, torch.zeros(8), [], [], False, True, alone)
        with pytest.raises(TypeError):
            optimizer.synced_weights(bad)
        with pytest.raises(TypeError):
            optimizer.redistribute(0, {"m": bad})


def test_stats_tell_what_was_done():
    model = network()
    optimizer = every(model.parameters, shadow_every=1)["zero-one-adam"]()
    train(model, optimizer, 14, 0)
    stats = optimizer.stats()
    totals = stats["totals"]
    assert totals["steps"] == 14 == totals["dense"] + totals["coded"] + totals["silent"]
    assert totals["silent"] > 0 and totals["dense"] > 0 and stats["step"] == 14
    assert "zero-one-adam" in optimizer.describe() and "alone" in repr(optimizer)
