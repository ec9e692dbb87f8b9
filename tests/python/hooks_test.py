"""Comm hooks of DistributedDataParallel: the means that they compute, how they go on, and what they refuse."""
import gc
import re
import warnings
import weakref

import numpy as np
import pytest
import torch
import torch.distributed as dist
from faults_test import ranks_of
from launch import over
from models import flat, hooked, loss_of, network, train
from reference_means import DenseMean, IntegerMean, Layout, OneBitMean
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic
from laconic import _core, transport

def same_on_all_ranks(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor)
    return all(torch.equal(other, every[0]) for other in every)


def gradients_of(ranks, steps=5):
    """Of nn.Linear(300, 7) without bias whose outputs are added up: (inputs, gradient) of each rank, step by step."""
    for step in range(1, steps + 1):
        rows = [torch.randn(5, 300, generator=torch.Generator().manual_seed(10 * step + r)) for r in range(ranks)]
        yield rows, np.stack([(torch.ones(5, 7).t() @ row).reshape(-1).numpy() for row in rows])


MEANS = {
    "fp32": (dict(codec="fp32"), lambda n: DenseMean(Layout(2100, n, 4096))),
    "int8": (dict(codec="int8", feedback="full"), lambda n: IntegerMean(Layout(2100, n, 256), 8)),
    "int4": (dict(codec="int4", feedback="ema", feedback_reset=3), lambda n: IntegerMean(Layout(2100, n, 256), 4, "ema", 3)),
    "int2": (dict(codec="int2", feedback="none", quant_block=64), lambda n: IntegerMean(Layout(2100, n, 64), 2, "none")),
    "sign": (dict(codec="sign", feedback="full", scale_block=64), lambda n: OneBitMean(Layout(2100, n, 64), "l2")),
}


@over(1, 2, 3)
def test_gradients_become_the_mean_of_the_codec(rank, ranks):
    for name, (options, mean_of) in MEANS.items():
        model = nn.Linear(300, 7, bias=False)
        nn.init.zeros_(model.weight)
        wrapped, _ = hooked(model, **options)
        reference = mean_of(ranks)
        for step, (rows, gradients) in enumerate(gradients_of(ranks), start=1):
            model.weight.grad = None
            wrapped(rows[rank]).sum().backward()
            expected = reference.reduce(gradients, np.ones(2100, bool))
            assert (model.weight.grad.reshape(-1).numpy() == expected).all(), (name, step)


@over(2)
def test_every_codec_is_the_cores_mean(rank, ranks):
    over_ranks, group = transport.connect()
    for codec in _core.gradient_codecs():
        options = {} if codec in ("fp32", "bf16") else {"feedback": "decay", "feedback_decay": 0.5}
        model = nn.Linear(300, 7, bias=False)
        wrapped, _ = hooked(model, codec, **options)
        mean = _core.Mean(codec, 2100, over_ranks, **options)
        for rows, gradients in gradients_of(ranks, 3):
            model.weight.grad = None
            wrapped(rows[rank]).sum().backward()
            values = torch.from_numpy(gradients[rank].copy())
            mean.reduce(values)
            assert torch.equal(model.weight.grad.reshape(-1), values), codec
    group.close()


@over(2)
def test_the_kernels_of_gpus_give_the_cpus_means(rank, ranks):
    for codec in _core.gradient_codecs():
        of = []
        for device in ("cpu", "emulated"):
            model = nn.Linear(300, 7, bias=False)
            nn.init.zeros_(model.weight)
            wrapped, state = hooked(model, codec, device=device)
            means = []
            for rows, _ in gradients_of(ranks, 3):
                model.weight.grad = None
                wrapped(rows[rank]).sum().backward()
                means.append(model.weight.grad.clone())
            assert ("on emulated" in state.describe()) == (device == "emulated")
            of.append((means, [part for both in state.state_dict()["residuals"] for part in both]))
        assert all(torch.equal(a, b) for one in zip(*of) for a, b in zip(*one)), codec


@over(2)
def test_low_precision_gradients_are_averaged_in_float32(rank, ranks):
    over_ranks, group = transport.connect()
    for dtype in (torch.bfloat16, torch.float16):
        model = nn.Linear(300, 7, bias=False, dtype=dtype)
        wrapped, _ = hooked(model, feedback="full")
        mean = _core.Mean("int4", 2100, over_ranks)
        for rows, _ in gradients_of(ranks, 3):
            inputs = rows[rank].to(dtype)
            [own] = torch.autograd.grad(model(inputs).sum(), [model.weight])
            model.weight.grad = None
            wrapped(inputs).sum().backward()
            values = own.reshape(-1).float()
            mean.reduce(values)
            found = model.weight.grad.reshape(-1)
            assert found.dtype == dtype and torch.equal(found, values.to(dtype)), dtype
    group.close()


@over(2)
def test_a_model_learns_as_it_does_with_exact_means(rank, ranks):
    ends = {}
    for codec, make in (("exact", torch.optim.AdamW), ("int8", torch.optim.AdamW), ("int4", torch.optim.AdamW), ("sign", torch.optim.SGD)):
        model = network()
        wrapped = DDP(model) if codec == "exact" else hooked(model, codec)[0]
        first = loss_of(model, 1, 0, 256).item()
        train(wrapped, make(model.parameters(), lr=0.1 if make is torch.optim.SGD else 1e-2), 60, rank)
        assert same_on_all_ranks(flat(model)), codec
        ends[codec] = loss_of(model, 1, 0, 256).item()
        assert ends[codec] < 0.8 * first, codec
    assert abs(ends["int8"] - ends["exact"]) < 0.05 and abs(ends["int4"] - ends["exact"]) < 0.1, ends


@over(2)
def test_blocks_that_are_not_finite_are_counted(rank, ranks):
    wrapped, state = hooked(nn.Linear(64, 64, bias=False), quant_block=64)
    inputs = torch.ones(1, 64)
    inputs[0, 0] = float("inf") if rank == 1 else 1.0
    wrapped(inputs).sum().backward()
    assert state.bad_blocks == (64 if rank == 1 else 0)
    assert torch.isfinite(wrapped.module.weight.grad).all()


# What is refused.


@over(1, 2)
def test_options_that_make_no_sense_are_errors(rank, ranks):
    for options, wrong in (
        (dict(codec="int3"), r"no codec `int3` of gradients: fp32, bf16, int8, int4, int2, sign"),
        (dict(codec="random-sign"), r"no codec `random-sign` of gradients: fp32"),
        (dict(feedback="some"), r"feedback='some': it must be full, ema, decay or none"),
        (dict(quant_block=65), r"integer block 65: it must be a multiple of 64"),
        (dict(quant_block=-64), r"quant_block=-64: it must be a whole number >= 0"),
        (dict(scale_norm="l3"), r"scale_norm='l3': it must be l1 or l2"),
        (dict(feedback_beta=1.5), r"feedback beta 1.5: it must be in \[0, 1\)"),
        (dict(ranks_per_node="two"), r"ranks_per_node='two': give a number from 1, \"auto\", or None"),
    ):
        with pytest.raises(laconic.InvalidArgument, match=wrong):
            laconic.CodecState(**options)
    if ranks > 1:
        with pytest.raises(laconic.InvalidArgument, match="2 ranks do not divide into nodes of 5"):
            laconic.CodecState(ranks_per_node=5)
    laconic.CodecState(quant_block=np.int64(128), feedback_reset=10.0)


@over(2)
def test_ranks_that_ask_for_different_means_are_named(rank, ranks):
    for options, wrong in (
        (dict(codec=("int4", "int8")[rank]), "rank 1 has codec=int8 where rank 0 has codec=int4: make the same state"),
        (dict(codec=("int4", "nonsense")[rank]), "rank 1 has codec=nonsense where rank 0 has codec=int4"),
        (dict(feedback_reset=100 + rank), "rank 1 has feedback_reset=101 where rank 0 has feedback_reset=100"),
        (dict(ranks_per_node=(None, 2)[rank]), "rank 1 has ranks_per_node=2 where rank 0 has ranks_per_node=None"),
    ):
        with pytest.raises(laconic.InvalidArgument, match=wrong):
            laconic.CodecState(**options)


@over(1, 2)
def test_a_state_serves_one_module(rank, ranks):
    state = laconic.CodecState()
    models = [DDP(network(seed)) for seed in (1, 2)]
    for model in models:
        model.register_comm_hook(state, laconic.codec_hook)
    loss_of(models[0], 1, rank).backward()
    with pytest.raises(laconic.InvalidArgument, match="CodecState serves two modules.*one state for each"):
        loss_of(models[1], 1, rank).backward()
    state = laconic.CodecState()
    models = [DDP(network(seed)) for seed in (1, 2)]
    for model in models:
        model.register_comm_hook(state, laconic.codec_hook)
    with pytest.raises(laconic.InvalidArgument, match="CodecState serves two modules"):
        (loss_of(models[0], 1, rank) + loss_of(models[1], 1, rank)).backward()


@over(1)
def test_sign_under_an_optimizer_that_squares_warns_once(rank, ranks):
    for make, state, warned in (
        (torch.optim.Adam, laconic.OneBitState, 1),
        (torch.optim.RMSprop, lambda: laconic.CodecState("sign"), 1),
        (torch.optim.SGD, laconic.OneBitState, 0),
        (torch.optim.AdamW, laconic.CodecState, 0),
    ):
        model = DDP(network())
        model.register_comm_hook(state(), laconic.codec_hook)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(model, make(model.parameters(), lr=1e-3), 3, rank)
        found = [str(one.message) for one in caught if "squares gradients" in str(one.message)]
        assert len(found) == warned, (make, found)


@over(2)
def test_a_dropped_state_leaves_nothing_behind(rank, ranks):
    state = laconic.CodecState()
    group, gone = state._group, weakref.ref(state)
    gc.disable()
    try:
        del state
        assert gone() is None and group._group is None
    finally:
        gc.enable()


@over(2)
def test_what_runs_is_described(rank, ranks):
    assert laconic.CodecState().describe() == "int4 mean of gradients with ema feedback, 2 ranks over gloo"
    assert laconic.CodecState("bf16").describe() == "bf16 mean of gradients, 2 ranks over gloo"
    assert laconic.CodecState("int8", feedback="none").describe().startswith("int8 mean of gradients without feedback")
    assert "1 nodes of 2" in laconic.CodecState(ranks_per_node=2).describe()


def test_a_rank_that_dies_inside_the_hook_is_named():
    ranks = ranks_of(2, "hooked")
    out, errors = ranks[0].communicate(timeout=120)
    ranks[1].communicate(timeout=120)
    assert re.search(r"RankMissing: rank 1 died, left or did not arrive", out), out + errors
