"""Ordinary programs: what people do with models and optimizers between and around steps."""
import copy
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from launch import over
from models import batch, flat, loss_of, network, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic

OVERLAPPED = 6  # steps after which exchanges start during backward


def zero_one(parameters, **more):
    """Synchronises on every step until it is told otherwise."""
    options = dict(lr=1e-2, variance_freeze_step=4, variance_kappa=2, double_every=1000, max_interval=1) | more
    return laconic.ZeroOneAdam(parameters, **options)


def close(mine, theirs):
    return bool(((mine - theirs).abs() <= 1e-6 * (1 + theirs.abs())).all())


def same_on_all_ranks(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor.contiguous())
    return all(torch.equal(other, every[0]) for other in every)


def beside_ddp(program, make=network, **more):
    """Runs a program with laconic.AdamW, overlap on and off, and under DDP with torch.optim.AdamW; all must agree."""
    options = dict(lr=1e-2, weight_decay=0.1) | more
    ends = []
    for overlap in (True, False):
        model = make()
        program(model, laconic.AdamW(model.parameters(), **options, overlap=overlap), model)
        ends.append(flat(model))
    model = make()
    wrapped = DDP(model)
    program(wrapped, torch.optim.AdamW(model.parameters(), **options), model)
    assert torch.equal(*ends)
    assert close(ends[0], flat(model))


# Saving.


@over(2)
def test_accelerate_saves_every_tensor_of_the_model(rank, ranks):
    from accelerate import Accelerator
    from safetensors.torch import load_file

    accelerator = Accelerator(cpu=True)
    model = network()
    model, optimizer = accelerator.prepare(model, laconic.AdamW(model.parameters(), lr=1e-2))
    laconic.ddp(model, optimizer)
    for step in range(1, 4):
        optimizer.zero_grad()
        accelerator.backward(loss_of(model, step, rank))
        optimizer.step()
    inner = accelerator.unwrap_model(model)
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    accelerator.save_model(model, folder[0])
    dist.barrier()
    saved = load_file(Path(folder[0]) / "model.safetensors")
    assert saved.keys() == inner.state_dict().keys()
    assert all(torch.equal(saved[name], value) for name, value in inner.state_dict().items())


@over(2)
def test_safetensors_saves_and_loads_the_whole_model(rank, ranks):
    from safetensors.torch import load_model, save_model

    model, other = network(), network(seed=2)
    train(model, laconic.AdamW(model.parameters(), lr=1e-2), 3, rank)
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            save_model(model, f"{folder}/model.safetensors")
        assert load_model(other, f"{folder}/model.safetensors") == (set(), [])
    assert torch.equal(flat(other), flat(model))


@over(2)
def test_a_small_head_is_saved_as_a_small_file(rank, ranks):
    model = nn.Sequential(nn.Linear(16, 4000), nn.Linear(4000, 4))
    torch.manual_seed(1)
    for p in model.parameters():
        nn.init.normal_(p)
    train(model, laconic.AdamW(model.parameters(), lr=1e-2), 2, rank)
    for tensors in (model[1].bias, {"bias": model[1].bias.detach()}, {"grad": model[1].bias.grad}):
        file = io.BytesIO()
        torch.save(tensors, file)
        assert len(file.getvalue()) < 4000
    assert copy.deepcopy(model[1]).bias.untyped_storage().nbytes() == 16


# Memory that is replaced under the optimizer.


@over(2)
def test_a_model_whose_memory_is_shared_trains_on(rank, ranks):
    def program(model, optimizer, inner):
        for step in range(1, 11):
            if step in (1, 3, OVERLAPPED + 2):
                inner.share_memory()
            train(model, optimizer, 1, rank, step)

    beside_ddp(program)


@over(2)
def test_a_queue_takes_the_weights_and_gradients_of_a_model_that_trains_on(rank, ranks):
    def program(model, optimizer, inner):
        queue = mp.get_context("spawn").SimpleQueue()
        for step in range(1, 11):
            train(model, optimizer, 1, rank, step)
            queue.put((inner.state_dict(), [p.grad for p in inner.parameters()]))
            sent = queue.get()[0]
            assert torch.equal(sent["0.weight"], inner[0].weight)

    beside_ddp(program)


@over(2)
def test_a_queue_takes_the_state_of_an_optimizer_that_goes_on(rank, ranks):
    ends = []
    for share in (True, False):
        model = network()
        optimizer = zero_one(model.parameters(), max_interval=4, double_every=2)
        for step in range(1, 13):
            train(model, optimizer, 1, rank, step)
            if share:
                for tensor in optimizer.state_dict()["state"].values():
                    tensor.share_memory_()
        ends.append(flat(model))
    assert torch.equal(*ends)


@over(2)
def test_gradients_written_after_they_were_shared_count(rank, ranks):
    def program(model, optimizer, inner):
        for step in range(1, 4):
            optimizer.zero_grad()
            loss_of(model, step, rank).backward()
            with torch.no_grad():
                for p in inner.parameters():
                    p.grad.share_memory_()
                    p.grad.mul_(0.5)
            optimizer.step()

    beside_ddp(program)


# Weights that are written between steps.


def clamp(model):
    with torch.no_grad():
        for p in model.parameters():
            p.clamp_(-0.1, 0.1)


def clamp_data(model):
    for p in model.parameters():
        p.data.clamp_(-0.1, 0.1)


def halve(model):
    model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})


@over(2)
def test_weights_are_clamped_or_loaded_between_steps(rank, ranks):
    def program(model, optimizer, inner):
        for step in range(1, 13):
            train(model, optimizer, 1, rank, step)
            {7: clamp, 8: clamp_data, 10: halve}.get(step, lambda _: None)(inner)

    beside_ddp(program)


@over(2, 3)
def test_zero_one_adam_goes_on_from_what_was_written_after_a_sync(rank, ranks):
    for write in (clamp, clamp_data, halve):
        ends = []
        for overlap in (True, False):
            model = network()
            optimizer = zero_one(model.parameters(), overlap=overlap)
            for step in range(1, 13):
                train(model, optimizer, 1, rank, step)
                before = flat(model)
                if step >= OVERLAPPED:
                    write(model)
                    written = flat(model)
                    assert not torch.equal(before, written)
                    with optimizer.synced():
                        assert torch.equal(flat(model), written)
            assert (flat(model) - written).abs().max() <= 0.1
            train(model, optimizer, 1, rank, 13)
            assert (flat(model) - written).abs().max() <= 0.1  # one step away, not back at the weights of before
            ends.append(flat(model))
        assert torch.equal(*ends) and same_on_all_ranks(ends[0])


@over(2)
def test_a_write_that_zero_one_adam_would_undo_is_an_error_before_anything_is_sent(rank, ranks):
    for overlap in (True, False):
        model = network()
        optimizer = zero_one(model.parameters(), double_every=2, max_interval=4, overlap=overlap)
        step = 0
        while step < OVERLAPPED or optimizer.stats()["kind"] != "silent":
            step += 1
            train(model, optimizer, 1, rank, step)
        kept = copy.deepcopy(optimizer.state_dict())
        clamp_data(model)
        for use in (optimizer.synchronize, optimizer.state_dict, lambda: train(model, optimizer, 1, rank, step + 1)):
            sent = optimizer.stats()["totals"]["bytes_sent"]
            with pytest.raises(laconic.InvalidArgument, match="0.weight|parameter 0.*would undo it"):
                use()
            assert optimizer.stats()["totals"]["bytes_sent"] == sent
        optimizer.load_state_dict(kept)
        optimizer.synchronize()
        clamp_data(model)  # now it counts
        written = flat(model)
        optimizer.synchronize()
        assert torch.equal(flat(model), written) and same_on_all_ranks(written)


@over(2)
def test_bf16_weights_written_between_steps_count_with_overlap_as_without(rank, ranks):
    def zero(model):
        model[2].weight.data.zero_()

    for make in (laconic.AdamW, laconic.SGD, zero_one):
        for write in (clamp, clamp_data, zero):
            ends = []
            for overlap in (True, False):
                model = network().bfloat16()
                optimizer = make(model.parameters(), lr=1e-3, overlap=overlap)
                for step in range(1, 12):
                    optimizer.zero_grad()
                    inputs, labels = batch(step, rank)
                    nn.functional.cross_entropy(model(inputs.bfloat16()).float(), labels).backward()
                    optimizer.step()
                    if step in (2, OVERLAPPED + 2):
                        write(model)
                        written = flat(model)
                    if step in (3, OVERLAPPED + 3):
                        assert (flat(model) - written).abs().max() <= 0.02
                ends.append(optimizer._arena.weights.clone())
            assert torch.equal(*ends)


@over(2)
def test_elements_of_bf16_weights_that_were_not_written_keep_their_masters(rank, ranks):
    weight = nn.Parameter(torch.ones(200, dtype=torch.bfloat16))
    optimizer = laconic.SGD([weight], lr=1e-4)
    for step in range(10):  # each step is too small to show in bf16
        if step == 5:
            weight.data[:100] = 3
        optimizer.zero_grad()
        (weight.float().sum() * (1 + rank)).backward()
        optimizer.step()
    expected = torch.cat([torch.full((100,), 3 - 5 * 1.5e-4), torch.full((100,), 1 - 1.5e-3)])
    assert close(optimizer._arena.weights, expected)


@over(2)
def test_a_write_after_a_coded_exchange_has_started_is_an_error(rank, ranks):
    for dtype, write in ((torch.float32, clamp), (torch.bfloat16, clamp), (torch.bfloat16, clamp_data)):
        torch.manual_seed(1)
        model = nn.Linear(16, 4).to(dtype)
        optimizer = laconic.OneBitAdam(model.parameters(), lr=0.0, freeze_step=1)
        for _ in range(OVERLAPPED):
            train_on(model, optimizer, torch.full((2, 16), 1.0 + rank, dtype=dtype))
        with pytest.raises(laconic.InvalidArgument, match="between backward and step.*overlap = False"):
            train_on(model, optimizer, torch.full((2, 16), 1.0 + rank, dtype=dtype), lambda: write(model))
        optimizer.step()  # and can go on


@over(2)
def test_a_write_between_backward_and_step_counts_with_exact_methods(rank, ranks):
    for dtype, write in ((torch.float32, clamp), (torch.float32, clamp_data), (torch.bfloat16, clamp), (torch.bfloat16, clamp_data)):
        torch.manual_seed(1)
        model = nn.Linear(16, 4).to(dtype)
        optimizer = laconic.AdamW(model.parameters(), lr=0.0)
        for _ in range(OVERLAPPED):
            train_on(model, optimizer, torch.full((2, 16), 1.0 + rank, dtype=dtype))
        expected = copy.deepcopy(model)
        write(expected)
        train_on(model, optimizer, torch.full((2, 16), 1.0 + rank, dtype=dtype), lambda: write(model))
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), expected.parameters()))


def train_on(model, optimizer, inputs, then=lambda: None):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    then()
    optimizer.step()


# Graphs that outlive a step.


@over(2)
def test_a_backward_through_weights_that_a_step_has_moved_is_an_error(rank, ranks):
    for steps in (0, OVERLAPPED):
        for make in (laconic.AdamW, zero_one):
            model = network()
            optimizer = make(model.parameters(), lr=1e-2)
            train(model, optimizer, steps, rank)
            optimizer.zero_grad()
            hidden = model[:3](batch(steps + 1, rank)[0])
            one, two = model[3:](hidden).square().mean(), model[3:](hidden).mean()
            one.backward(retain_graph=True)
            optimizer.step()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                two.backward()


@over(2)
def test_a_graph_that_still_needs_a_weight_whose_coded_exchange_started_is_an_error(rank, ranks):
    torch.manual_seed(1)
    first, second = nn.Parameter(torch.randn(8, 16)), nn.Parameter(torch.randn(8, 8))
    optimizer = laconic.Birder([first, second], lr=1e-2, bucket_mb=1e-6)
    inputs = batch(1, rank)[0].t()

    def loss():
        hidden = second.detach() @ (first @ inputs)  # needs `second` after its gradient has come
        return (second @ hidden).square().mean()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        for _ in range(OVERLAPPED):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
    assert dist.get_world_size() == ranks


# Layers that are frozen first.


@over(2)
def test_a_layer_that_is_unfrozen_before_the_first_step_is_trained(rank, ranks):
    def frozen():
        model = network()
        model[2].requires_grad_(False)
        return model

    def program(model, optimizer, inner):
        inner[2].requires_grad_(True)
        if isinstance(model, DDP):  # which looks at parameters once
            model = DDP(inner)
        train(model, optimizer, 10, rank)

    beside_ddp(program, frozen)


@over(2)
def test_a_layer_that_is_unfrozen_later_is_named_in_a_warning(rank, ranks):
    model = network()
    model[2].requires_grad_(False)
    before = model[2].weight.clone()
    optimizer = laconic.AdamW(model.named_parameters(), lr=1e-2)
    train(model, optimizer, 1, rank)
    model[2].requires_grad_(True)
    with pytest.warns(UserWarning, match="2.weight, 2.bias .*will not be trained"):
        train(model, optimizer, 1, rank, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, OVERLAPPED, rank, 3)  # once
    assert torch.equal(model[2].weight, before)


# Numbers.


@over(2)
def test_numbers_of_numpy_and_torch_are_numbers(rank, ranks):
    ends = []
    for options in (
        dict(lr=1e-2, betas=(0.9, 0.99), weight_decay=0.5, total_steps=50, max_interval=2, max_grad_norm=1.0, seed=3),
        dict(
            lr=torch.tensor(1e-2, dtype=torch.float64), betas=[np.float64(0.9), 0.99], weight_decay=np.float32(0.5),
            total_steps=100 / 2, max_interval=np.int64(2), max_grad_norm=torch.tensor(1.0), seed=np.uint8(3),
        ),
    ):  # fmt: skip
        model = network()
        train(model, laconic.ZeroOneAdam(model.parameters(), **options), 20, rank)
        ends.append(flat(model))
    assert torch.equal(*ends)
    with pytest.raises(laconic.InvalidArgument, match="total_steps=50.5.*whole number"):
        laconic.ZeroOneAdam(network().parameters(), total_steps=50.5)
    with pytest.raises(laconic.InvalidArgument, match="betas=.*two numbers"):
        laconic.AdamW(network().parameters(), betas=[0.9])


# Layouts.


def convolutions():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 2), nn.Flatten())
    net = net.to(memory_format=torch.channels_last)
    net.append(nn.Linear(4, 4))
    net[-1].weight = nn.Parameter(net[-1].weight.detach().t().contiguous().t())
    return net


@over(2)
def test_channels_last_and_transposed_weights_keep_their_layout(rank, ranks):
    def program(model, optimizer, inner):
        strides = [p.stride() for p in convolutions().parameters()]
        train(model, optimizer, 10, rank)
        assert [p.stride() for p in inner.parameters()] == strides
        assert inner[3].weight.is_contiguous(memory_format=torch.channels_last)
        if isinstance(optimizer, laconic.AdamW):
            assert [p.grad.stride() for p in inner.parameters()] == strides

    beside_ddp(program, convolutions)


@over(2)
def test_a_state_of_another_layout_is_an_error_that_names_both(rank, ranks):
    model, plain = convolutions(), convolutions().to(memory_format=torch.contiguous_format)
    optimizer, other = (laconic.AdamW(m.parameters(), lr=1e-2) for m in (model, plain))
    train(model, optimizer, 2, rank)
    train(plain, other, 2, rank)
    for target, state in ((other, optimizer.state_dict()), (optimizer, other.state_dict())):
        with pytest.raises(laconic.InvalidArgument, match="strides .*in the state and .* here") as error:
            target.load_state_dict(state)
        assert "contiguous" in str(error.value) and "(24, 1, 12, 6)" in str(error.value)
    usual = laconic.AdamW(network().parameters())
    without = usual.state_dict()
    del without["laconic"]["strides"]  # as states were before
    usual.load_state_dict(without)
    resumed = convolutions()
    resumed.load_state_dict(model.state_dict())
    again = laconic.AdamW(resumed.parameters(), lr=1e-2)
    again.load_state_dict(optimizer.state_dict())
    train(model, optimizer, 3, rank, 3)
    train(resumed, again, 3, rank, 3)
    assert torch.equal(flat(model), flat(resumed))
    with tempfile.TemporaryDirectory() as mine:
        folder = [mine]
        dist.broadcast_object_list(folder)
        laconic.save(folder[0] + "/checkpoint", optimizer)
        with pytest.raises(laconic.InvalidArgument, match="group 0"):
            laconic.resume(folder[0] + "/checkpoint", other)
        laconic.resume(folder[0] + "/checkpoint", again)
        dist.barrier()
