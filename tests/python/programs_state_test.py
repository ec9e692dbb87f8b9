"""Ordinary programs that save, resume, copy, join, stop and fail: what each of them gets."""
import copy
import io
import pickle
import re
import shutil
import signal
import tempfile
import warnings
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from faults_test import ranks_of
from launch import HERE, ROOT, over, started
from models import batch, flat, loss_of, network, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic

ZERO_ONE = dict(lr=1e-2, variance_freeze_step=6, variance_kappa=2, double_every=4, max_interval=4)


@contextmanager
def shared_folder():
    """A folder that all ranks see."""
    with tempfile.TemporaryDirectory() as mine:
        names = [mine]
        dist.broadcast_object_list(names)
        yield names[0]
        dist.barrier()


def from_rank_0(value):
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def same_on_all_ranks(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor)
    return all(torch.equal(other, every[0]) for other in every)


# Hugging Face's Trainer.


def test_a_trainer_resumes_bit_for_bit_and_refuses_what_needs_the_callback_without_it(tmp_path):
    program = HERE / "trainer_program.py"
    straight = started(2, program, tmp_path)
    for run in ("adamw", "zero-one", "forgetful"):
        shutil.rmtree(tmp_path / run / "checkpoint-20")  # so the last one is of step 14, where 0/1 Adam's weights differ
    resumed = started(2, program, tmp_path, "resumed", check=False)
    ended = r"rank \d: \w+ with \w+ ends with [0-9a-f]{64}"
    ends = sorted(re.findall(ended, straight.stdout))
    assert len(ends) == 6 and sorted(re.findall(ended, resumed.stdout)) == ends
    assert resumed.returncode and "give Trainer callbacks=[LaconicCallback()]" in resumed.stderr


@over(2, 3)
def test_a_state_that_is_the_same_on_all_ranks_loads_on_any(rank, ranks):
    makers = {
        "AdamW": lambda p: laconic.AdamW(p, lr=1e-2),
        "SGD": lambda p: laconic.SGD(p, lr=1e-2, momentum=0.9),
        "OneBitAdam, still exact": lambda p: laconic.OneBitAdam(p, lr=1e-2, freeze_step=9),
    }
    for name, make in makers.items():
        whole, first, second = network(), network(), network()
        train(whole, make(whole.parameters()), 12, rank)
        optimizer = make(first.parameters())
        train(first, optimizer, 5, rank)
        resumed = make(second.parameters())
        second.load_state_dict(first.state_dict())
        resumed.load_state_dict(from_rank_0(optimizer.state_dict()))
        train(second, resumed, 7, rank, 6)
        assert torch.equal(flat(whole), flat(second)), name


# DistributedDataParallel.


@over(2)
def test_a_module_whose_optimizer_was_dropped_averages_again(rank, ranks):
    model, reference = DDP(network()), DDP(network())
    optimizer = laconic.AdamW(model.parameters(), lr=0.0)
    laconic.ddp(model, optimizer)
    train(model, optimizer, 2, rank)
    del optimizer
    one, two = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(model, one, 5, rank)
    assert sum("averages them again" in str(warning.message) for warning in caught) == 1
    train(reference, two, 5, rank)
    assert torch.equal(flat(model), flat(reference))


@over(2)
def test_another_optimizer_may_not_step_with_gradients_that_were_handed_over(rank, ranks):
    model = DDP(network())
    mine = laconic.AdamW(model.parameters(), lr=1e-3)
    laconic.ddp(model, mine)
    other, elsewhere = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(network().parameters(), lr=0.1)
    loss_of(model, 1, rank).backward()
    before = flat(model).clone()
    with pytest.raises(laconic.InvalidArgument, match="SGD steps with gradients that laconic.ddp handed to another"):
        other.step()
    assert torch.equal(flat(model), before)
    elsewhere.step()
    mine.step()
    assert same_on_all_ranks(flat(model))


@over(2)
def test_a_notebook_cell_that_hands_a_module_over_runs_twice(rank, ranks):
    inner, plain = network(), network()
    wrapped = DDP(inner)
    for first in (1, 7):
        optimizer, reference = (laconic.AdamW(m.parameters(), lr=1e-2) for m in (inner, plain))
        wrapped = laconic.ddp(wrapped, optimizer)
        train(wrapped, optimizer, 6, rank, first)
        train(plain, reference, 6, rank, first)
    assert torch.equal(flat(inner), flat(plain))


@over(2)
def test_join_is_refused_where_steps_would_be_missed(rank, ranks):
    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-3)
    model = laconic.ddp(model, optimizer)
    with pytest.raises(laconic.InvalidArgument, match="join.*the same number of batches"):
        with model.join():
            train(model, optimizer, 2 + rank, rank)


# State.


@over(1)
def test_a_schedule_goes_on_after_load_state_dict(rank, ranks):
    ends = []
    for make in (laconic.AdamW, torch.optim.AdamW):
        model = network()
        optimizer = make(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
        optimizer.param_groups[0]["note"] = "mine"
        for step in range(1, 5):
            train(model, optimizer, 1, rank, step)
            schedule.step()
        again = make(network().parameters(), lr=0.5)
        again.load_state_dict(optimizer.state_dict())
        assert again.param_groups[0]["note"] == "mine"
        resumed = torch.optim.lr_scheduler.StepLR(again, 5, last_epoch=3)
        resumed.step()
        ends.append((resumed.get_last_lr(), again.param_groups[0]["lr"], again.param_groups[0]["initial_lr"]))
    assert ends[0] == ends[1]


@over(1)
def test_hooks_of_states_are_called(rank, ranks):
    optimizer = laconic.AdamW(network().parameters(), lr=1e-2)
    called = []
    optimizer.register_state_dict_pre_hook(lambda o: called.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "mine": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, saved: called.append(saved["mine"]))
    optimizer.register_load_state_dict_post_hook(lambda o: called.append("after loading"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert called == ["before saving", 1, "after loading"]


@over(2)
def test_a_state_dict_inside_a_distributed_checkpoint_holds_every_rank(rank, ranks):
    for make in (lambda p: laconic.ZeroOneAdam(p, **ZERO_ONE), lambda p: laconic.AdamW(p, lr=1e-2)):
        for stop in (7, 12, 13):
            whole, first, second = network(), network(), network(2)
            train(whole, make(whole.parameters()), 20, rank)
            optimizer, resumed = make(first.parameters()), make(second.parameters())
            train(first, optimizer, stop, rank)
            with shared_folder() as folder:
                dcp.save({"model": first.state_dict(), "optim": optimizer.state_dict()}, checkpoint_id=folder)
                read = {"model": second.state_dict(), "optim": resumed.state_dict()}
                dcp.load(read, checkpoint_id=folder)
                second.load_state_dict(read["model"])
                resumed.load_state_dict(read["optim"])
            train(second, resumed, 20 - stop, rank, stop + 1)
            assert torch.equal(flat(whole), flat(second))


@over(2)
def test_torchs_conversions_of_states_name_sharded(rank, ranks):
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
    for convert in (
        lambda: get_optimizer_state_dict(model, optimizer),
        lambda: set_optimizer_state_dict(model, optimizer, {"state": {}, "param_groups": []}),
    ):
        with pytest.raises(laconic.InvalidArgument, match=r"laconic\.Sharded\(optimizer\)"):
            convert()
    assert optimizer.stats()["step"] == 0


@over(1)
def test_copies_and_pickles_of_an_optimizer_name_its_state_dict(rank, ranks):
    optimizer = laconic.AdamW(network().parameters(), lr=1e-2)
    ways = (copy.deepcopy, copy.copy, pickle.dumps, lambda o: torch.save(o, io.BytesIO()))
    for way in ways:
        with pytest.raises(laconic.InvalidArgument, match=r"cannot be copied or pickled.*state_dict\(\)"):
            way(optimizer)


@over(2)
def test_plain_values_are_saved_beside_the_optimizer(rank, ranks):
    optimizer = laconic.AdamW(network().parameters(), lr=1e-2)
    values = {"epoch": 3, "loss": 0.1, "best": True, "name": "3", "note": "true", "nothing": None, "big": 2**70}
    with shared_folder() as folder:
        laconic.save(folder + "/plain", optimizer, values)
        found = laconic.resume(folder + "/plain", optimizer)
        assert found == values and [type(found[name]) for name in values] == [type(value) for value in values.values()]
        laconic.save(folder + "/text", optimizer, {"epoch": "3"})
        assert laconic.resume(folder + "/text", optimizer) == {"epoch": "3"}
        with pytest.raises(laconic.InvalidArgument, match="extra has 'weights'"):
            laconic.save(folder + "/odd", optimizer, {"weights": torch.zeros(2)})


# What else ordinary programs do.


@over(2)
def test_every_scale_shrinks_when_one_rank_finds_an_infinity(rank, ranks):
    for unscales in (False, True):
        model = network()
        optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)  # wraps step()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(1, 5):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, step, rank)).backward()
            if step == 3 and rank == 1:
                model[0].weight.grad[0, 0] = float("inf")
            if unscales:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            assert scaler.get_scale() == (512 if step >= 3 else 1024)
        assert optimizer.stats()["step"] == 3


@over(2)
def test_buffers_of_batch_norm_are_made_equal_by_the_lines_of_the_documentation(rank, ranks):
    text = (ROOT / "docs/reference/python.md").read_text()
    [lines] = re.findall(r"```python\n(for buffer in model\.buffers\(\):\n.*?)```", text, re.DOTALL)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, 3, rank)
    mean = model[1].running_mean.clone()
    assert not same_on_all_ranks(mean)
    dist.all_reduce(mean)
    exec(lines, {"model": model, "dist": dist})
    assert same_on_all_ranks(model[1].running_var)
    assert torch.allclose(model[1].running_mean, mean / ranks)
    assert model[1].num_batches_tracked == 3


@pytest.mark.parametrize("overlap", ["overlap", "plain"])
def test_ctrl_c_ends_a_step_that_waits_for_a_late_rank(overlap):
    ranks = ranks_of(2, "interrupted", overlap)
    (out, errors), _ = (rank.communicate(timeout=120) for rank in ranks)
    assert "the first step: KeyboardInterrupt" in out, out + errors
    assert re.search("the second step: KeyboardInterrupt came in the middle.*make another optimizer", out), out + errors
    assert ranks[0].returncode == -signal.SIGINT, errors
