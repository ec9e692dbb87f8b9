"""Ordinary programs: what happens between backward and step(), and to parameters without a gradient."""
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn

import laconic
from beside import EXACT, both, loss_of, net, overlapped
from launch import over

CODED = {
    laconic.ZeroOneAdam: dict(variance_freeze_step=4, variance_kappa=2, double_every=3, max_interval=4),
    laconic.OneBitAdam: dict(freeze_step=4),
    laconic.Birder: dict(),
}


def equal_on_all(model, ranks):
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    every = [torch.empty_like(flat) for _ in range(ranks)]
    dist.all_gather(every, flat)
    return all(torch.equal(one, flat) for one in every)


def step(model, optimizer, forward, t, rank):
    optimizer.zero_grad()
    loss_of(forward, t, rank).backward()
    optimizer.step()


# Parameters without a gradient.


@over(2, 3)
def test_a_layer_that_is_frozen_in_the_middle_stays(rank, ranks):
    def program(model, optimizer, forward):
        for t in range(20):
            if t in (7, 15):
                model[2].requires_grad_(t == 15)
                frozen = model[2].weight.clone()
            step(model, optimizer, forward, t, rank)
            assert t < 7 or t >= 15 or torch.equal(model[2].weight, frozen)

    for make in (laconic.AdamW, laconic.SGD):
        both(program, make)


@over(2)
def test_a_frozen_layer_stays_with_every_coded_optimizer(rank, ranks):
    for make, options in CODED.items():
        model = net()
        optimizer = make(model.parameters(), lr=1e-2, weight_decay=0.1, bucket_mb=0.001, **options)
        for t in range(24):
            if t in (6, 14):
                optimizer.synchronize()
                model[2].requires_grad_(t == 14)
                frozen = model[2].weight.clone()
            step(model, optimizer, model, t, rank)
            assert t < 6 or t >= 14 or torch.equal(model[2].weight, frozen), (make, t)
        assert not torch.equal(model[2].weight, frozen)
        optimizer.synchronize()
        assert equal_on_all(model, ranks)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right, self.head = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(8, 4)
        self.taken = "both"

    def forward(self, x):
        sides = {"left": [self.left], "right": [self.right], "both": [self.left, self.right]}[self.taken]
        return self.head(sum(torch.tanh(side(x)) for side in sides))


@over(2, 3)
def test_a_branch_that_no_rank_takes_rests_and_one_that_some_take_learns(rank, ranks):
    def program(model, optimizer, forward):
        for t in range(16):
            model.taken = "both" if t < 6 else "left" if t < 10 or rank else "right"
            before = model.right.weight.clone()
            step(model, optimizer, forward, t, rank)
            assert torch.equal(model.right.weight, before) == (6 <= t < 10)

    for make in (laconic.AdamW, laconic.SGD):
        both(program, make, build=Branches)


@over(2)
def test_step_without_backward_moves_nothing(rank, ranks):
    def program(model, optimizer, forward):
        for t in range(12):
            optimizer.zero_grad()
            before = model[0].weight.clone()
            if t % 3:
                loss_of(forward, t, rank).backward()
            optimizer.step()
            assert torch.equal(model[0].weight, before) == (t % 3 == 0)

    both(program)


# A batch that is skipped.


def skipping(drop):
    """A loop that gives up some batches after backward, in the way that `drop` says."""

    def run(rank):
        def program(model, optimizer, forward):
            for t in range(20):
                optimizer.zero_grad()
                loss_of(forward, t, rank).backward()
                if t in (3, 9, 14):
                    drop(model, optimizer)
                    continue
                optimizer.step()

        return program

    return run


def zero_grad(model, optimizer):
    optimizer.zero_grad()


def zero_grad_in_place(model, optimizer):
    optimizer.zero_grad(set_to_none=False)


def module_zero_grad(model, optimizer):
    model.zero_grad()


def module_zero_grad_in_place(model, optimizer):
    model.zero_grad(set_to_none=False)


@over(2, 3)
def test_a_skipped_batch_leaves_no_trace(rank, ranks):
    for drop in (zero_grad, zero_grad_in_place, module_zero_grad, module_zero_grad_in_place):
        for make in (laconic.AdamW, laconic.SGD):
            optimizer = both(skipping(drop)(rank), make)
            assert optimizer.overlap


@over(2)
def test_a_batch_that_only_one_rank_skips_is_skipped_on_all(rank, ranks):
    model = net()
    optimizer = laconic.AdamW(model.parameters(), **EXACT)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for t in range(12):
            optimizer.zero_grad()
            loss_of(model, t, rank).backward()
            before = model[0].weight.clone()
            if t == 8 and rank == 1:
                assert overlapped(optimizer)
                optimizer.zero_grad()
            else:
                optimizer.step()
            assert torch.equal(model[0].weight, before) == (t == 8)
    assert any("skipped on all ranks" in str(one.message) for one in seen) == (rank == 0)
    assert equal_on_all(model, ranks)


@over(2)
def test_a_backward_that_fails_half_way_can_be_skipped(rank, ranks):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, grad):
            raise RuntimeError("out of memory")

    def program(model, optimizer, forward):
        first = model[0].forward
        for t in range(14):
            model[0].forward = first if t not in (2, 9) else lambda x: Fails.apply(first(x))
            optimizer.zero_grad()
            try:
                loss_of(forward, t, rank).backward()
            except RuntimeError:
                optimizer.zero_grad()
                continue
            optimizer.step()

    model = net()
    optimizer = laconic.AdamW(model.parameters(), **EXACT)
    program(model, optimizer, model)
    plain = net()
    other = laconic.AdamW(plain.parameters(), overlap=False, **EXACT)
    program(plain, other, plain)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters()))
    assert equal_on_all(model, ranks)


@over(2)
def test_coded_optimizers_say_that_a_batch_counts_and_live_on(rank, ranks):
    def by_optimizer(model, optimizer, t):
        optimizer.zero_grad()

    def by_model(model, optimizer, t):
        model.zero_grad()
        loss_of(model, t, rank).backward()  # only here can it be noticed

    for drop in (by_optimizer, by_model):
        for make, options in CODED.items():
            model = net()
            optimizer = make(model.parameters(), lr=1e-3, bucket_mb=0.001, **options)
            raised = []
            for t in range(24):
                optimizer.zero_grad()
                loss_of(model, t, rank).backward()
                before = model[0].weight.clone()
                if t in (10, 15):
                    try:
                        drop(model, optimizer, t)
                    except laconic.Error as error:
                        assert "dropped before step()" in str(error) and "overlap = False" in str(error)
                        raised.append(t)
                    assert t == 10 or torch.equal(model[0].weight, before)
                    continue
                optimizer.step()
            assert raised == [10]  # then overlap is off, and a step can be skipped
            assert not optimizer.overlap
            assert optimizer.stats()["step"] == 23
            optimizer.synchronize()
            assert equal_on_all(model, ranks)


@over(2)
def test_a_coded_step_that_one_rank_drops_too_late_is_taken_on_all(rank, ranks):
    for make, options in CODED.items():
        model = net()
        optimizer = make(model.parameters(), lr=1e-3, bucket_mb=0.001, **options)
        for t in range(24):
            optimizer.zero_grad()
            loss_of(model, t, rank).backward()
            if t == 10 and rank == 1:
                with pytest.raises(laconic.Error, match="the batch counts"):
                    optimizer.zero_grad()
            else:
                optimizer.step()
        assert optimizer.stats()["step"] == 24
        optimizer.synchronize()
        assert equal_on_all(model, ranks)


# What changes between backward and step() for the first time late in a run.


@over(2, 3)
def test_a_learning_rate_set_after_backward_is_used(rank, ranks):
    def program(model, optimizer, forward):
        for t in range(20):
            optimizer.zero_grad()
            loss_of(forward, t, rank).backward()
            if t >= 12:
                for group in optimizer.param_groups:
                    group["lr"] = 1e-2 / (t - 10)
            optimizer.step()

    for make in (laconic.AdamW, laconic.SGD):
        assert both(program, make).overlap


@over(2)
def test_a_gradient_that_is_changed_after_its_exchange_is_exchanged_again(rank, ranks):
    def program(model, optimizer, forward):
        for t in range(20):
            optimizer.zero_grad()
            loss_of(forward, t, rank).backward()
            if t in (12, 13, 18):
                for p in model.parameters():
                    p.grad.mul_(0.25)
            optimizer.step()

    for make in (laconic.AdamW, laconic.SGD):
        both(program, make)


@over(2)
def test_a_step_with_more_backward_passes_counts_them_all(rank, ranks):
    def program(model, optimizer, forward):
        for t in range(24):
            optimizer.zero_grad()
            for k in range(3 if t in (8, 9, 16) else 1):
                loss_of(forward, 100 * k + t, rank).backward()
            optimizer.step()

    for make in (laconic.AdamW, laconic.SGD):
        both(program, make)


@over(2)
def test_coded_optimizers_finish_a_step_that_changed_late_and_warn_once(rank, ranks):
    def lr(model, optimizer, t):
        optimizer.param_groups[0]["lr"] = 5e-4

    def clip(model, optimizer, t):
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)

    def more(model, optimizer, t):
        loss_of(model, 100 + t, rank).backward()

    for change in (lr, clip, more):
        for make, options in CODED.items():
            model = net()
            optimizer = make(model.parameters(), lr=1e-3, bucket_mb=0.001, **options)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for t in range(24):
                    optimizer.zero_grad()
                    loss_of(model, t, rank).backward()
                    if t in (12, 17):
                        change(model, optimizer, t)
                    optimizer.step()
            assert sum("uses what was exchanged" in str(one.message) for one in seen) == 1, (change, make)
            assert not optimizer.overlap
            optimizer.synchronize()
            assert equal_on_all(model, ranks)
