"""What the optimizers do among other ranks, with plain modules and under DistributedDataParallel."""
import gc
import os

import numpy as np
import pytest
import torch
import torch.distributed as dist
from launch import over
from models import batch, flat, loss_of, network, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic

SMALL = 1 / 256  # MiB a bucket: 1024 parameters


def makers(**more):
    """One optimizer of each kind."""
    zero_one = dict(lr=1e-2, variance_freeze_step=6, variance_kappa=2, double_every=4, max_interval=4)
    return {
        "zero-one-adam": lambda p: laconic.ZeroOneAdam(p, **zero_one, **more),
        "one-bit-adam": lambda p: laconic.OneBitAdam(p, lr=1e-2, freeze_step=6, **more),
        "birder": lambda p: laconic.Birder(p, lr=1e-2, seed=3, **more),
        "lion": lambda p: laconic.Lion(p, lr=3e-3, **more),
        "distributed-lion": lambda p: laconic.DistributedLion(p, lr=3e-3, momentum_sync_every=5, **more),
        "adamw": lambda p: laconic.AdamW(p, lr=1e-2, **more),
        "lamb": lambda p: laconic.LAMB(p, lr=1e-2, **more),
        "one-bit-lamb": lambda p: laconic.OneBitLAMB(p, lr=1e-2, freeze_step=6, **more),
        "sgd": lambda p: laconic.SGD(p, lr=1e-2, momentum=0.9, **more),
    }


def same_on_all_ranks(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor)
    return all(torch.equal(other, every[0]) for other in every)


@over(2, 3)
def test_adamw_and_sgd_equal_torch_under_ddp(rank, ranks):
    for ours, theirs in (
        (lambda p: laconic.AdamW(p, lr=3e-3, weight_decay=0.1), lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.1)),
        (lambda p: laconic.SGD(p, lr=3e-2, momentum=0.9), lambda p: torch.optim.SGD(p, lr=3e-2, momentum=0.9)),
    ):
        model, reference = network(), DDP(network())
        optimizer, other = ours(model.parameters()), theirs(reference.parameters())
        for step in range(1, 101):
            train(model, optimizer, 1, rank, step)
            train(reference, other, 1, rank, step)
        expected = flat(reference)
        assert ((flat(model) - expected).abs() / (1 + expected.abs())).max() <= 1e-6


@over(2)
def test_overlap_with_backward_changes_no_bit(rank, ranks):
    for name, make in makers(bucket_mb=SMALL).items():
        plain, overlapped = network(width=64), network(width=64)
        one, two = make(plain.parameters()), make(overlapped.parameters())
        one.overlap = False
        started = 0
        for step in range(1, 21):
            train(plain, one, 1, rank, step)
            two.zero_grad()
            loss_of(overlapped, step, rank).backward()
            started += two._begun
            two.step()
        assert len(two._core.buckets) > 3
        assert started == 20 - 4, f"{name}: overlapped in {started} steps"
        assert torch.equal(flat(plain), flat(overlapped)), name


@over(2)
def test_the_way_of_the_exchange_may_be_left_to_measurement(rank, ranks):
    model = network()
    optimizer = laconic.OneBitAdam(model.parameters(), lr=1e-3, freeze_step=1, exchange="auto", strict=True)
    train(model, optimizer, 4, rank)
    assert optimizer.stats()["exchange"] in ("coded", "dense")
    assert same_on_all_ranks(flat(model))


@over(2)
def test_the_codec_may_be_left_to_measurement(rank, ranks):
    for make in (laconic.AdamW, laconic.SGD, laconic.Lion, laconic.LAMB):
        model = network()
        optimizer = make(model.parameters(), lr=1e-3, exchange="auto")
        train(model, optimizer, 8, rank)
        path = optimizer.stats()["exchange"]
        buckets = len(optimizer._core.buckets)
        named = {part.split(" in ")[0] for part in path.split(", ")}
        assert named and named <= {"fp32", "bf16", "int8", "int4"}, path
        assert buckets > 1 or path in ("fp32", "bf16", "int8", "int4")
        assert same_on_all_ranks(flat(model))
    with pytest.raises(laconic.InvalidArgument, match="strict"):
        laconic.AdamW(network().parameters(), lr=1e-3, exchange="auto", strict=True)


@over(2)
def test_ddp_hands_its_gradients_over(rank, ranks):
    for views in (False, True):
        for name, make in makers(bucket_mb=SMALL).items():
            plain, inner = network(width=64), network(width=64)
            one, two = make(plain.parameters()), make(inner.parameters())
            wrapped = laconic.ddp(DDP(inner, gradient_as_bucket_view=views, bucket_cap_mb=SMALL), two)
            assert "in place of DistributedDataParallel's all-reduce" in two.describe()
            started = 0
            for step in range(1, 16):
                train(plain, one, 1, rank, step)
                two.zero_grad()
                loss_of(wrapped, step, rank).backward()
                started += two._begun
                two.step()
            assert torch.equal(flat(plain), flat(inner)), (name, views)
            assert started >= 10, (name, views, started)


@over(2)
def test_ddp_wraps_what_is_not_wrapped(rank, ranks):
    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-3)
    assert isinstance(laconic.ddp(model, optimizer), DDP)


@over(2)
def test_ddp_with_accumulation(rank, ranks):
    plain, inner = network(), network()
    make = makers()["zero-one-adam"]
    one, two = make(plain.parameters()), make(inner.parameters())
    wrapped = laconic.ddp(DDP(inner), two)
    for step in range(1, 12):
        one.zero_grad()
        two.zero_grad()
        for part in range(3):
            (loss_of(plain, 3 * step + part, rank) / 3).backward()
        with wrapped.no_sync():
            for part in range(2):
                (loss_of(wrapped, 3 * step + part, rank) / 3).backward()
        (loss_of(wrapped, 3 * step + 2, rank) / 3).backward()
        one.step()
        two.step()
    assert torch.equal(flat(plain), flat(inner))


@over(2)
def test_gradients_that_ddp_has_averaged_are_an_error(rank, ranks):
    model = DDP(network())
    optimizer = laconic.OneBitAdam(model.parameters(), lr=1e-3, freeze_step=5)
    loss_of(model, 1, rank).backward()
    with pytest.raises(laconic.InvalidArgument, match=r"equal on all ranks.*laconic\.ddp\(model, optimizer\)"):
        optimizer.step()


@over(2)
def test_a_parameter_that_nobody_would_average_is_an_error(rank, ranks):
    model = network()
    optimizer = laconic.AdamW(model[0].parameters(), lr=1e-3)
    with pytest.raises(laconic.InvalidArgument, match="2.weight is not in the optimizer"):
        laconic.ddp(DDP(model), optimizer)
    with pytest.raises(laconic.InvalidArgument, match="Adam is no optimizer of laconic"):
        laconic.ddp(DDP(model), torch.optim.Adam(model.parameters()))


@over(2)
def test_micro_batches_equal_a_larger_batch(rank, ranks):
    for overlap in (False, True):
        small, large = network(), network()
        one = laconic.AdamW(small.parameters(), lr=1e-2, overlap=overlap)
        two = laconic.AdamW(large.parameters(), lr=1e-2)
        for step in range(1, 13):
            inputs, labels = batch(step, rank, 12)
            one.zero_grad()
            for a, b in zip(inputs.split(4), labels.split(4)):
                (nn.functional.cross_entropy(small(a), b) / 3).backward()
            one.step()
            two.zero_grad()
            nn.functional.cross_entropy(large(inputs), labels).backward()
            two.step()
        assert torch.allclose(flat(small), flat(large), atol=1e-5)


@over(2)
def test_clipping_by_hand_keeps_the_exchange_out_of_backward(rank, ranks):
    clipped, reference = network(), DDP(network())
    one, two = laconic.SGD(clipped.parameters(), lr=1e-1), torch.optim.SGD(reference.parameters(), lr=1e-1)
    for step in range(1, 11):
        one.zero_grad()
        loss_of(clipped, step, rank).backward()
        assert not one._begun
        with torch.no_grad():
            for p in clipped.parameters():
                p.grad.mul_(0.5)
        one.step()
        two.zero_grad()
        (loss_of(reference, step, rank) * 0.5).backward()
        two.step()
    assert torch.allclose(flat(clipped), flat(reference), atol=1e-6)


@over(2)
def test_clipping_over_all_ranks_equals_torch_under_ddp(rank, ranks):
    model, reference = network(), DDP(network())
    one, two = laconic.SGD(model.parameters(), lr=1e-1, max_grad_norm=0.1), torch.optim.SGD(reference.parameters(), lr=1e-1)
    for step in range(1, 11):
        train(model, one, 1, rank, step)
        two.zero_grad()
        loss_of(reference, step, rank).backward()
        nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        two.step()
    assert torch.allclose(flat(model), flat(reference), atol=1e-6)


@over(2)
def test_ranks_agree_on_skipping_before_any_state_is_touched(rank, ranks):
    model = network()
    optimizer = makers()["zero-one-adam"](model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def scaled(step, spoil=False):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step, rank)).backward()
        if spoil:
            model[0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()

    for step in range(1, 9):
        scaled(step)
    before = {name: value.clone() for name, value in optimizer.state_dict()["state"].items()}
    weights = flat(model).clone()
    scaled(9, spoil=rank == 1)
    after = optimizer.state_dict()["state"]
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(weights, flat(model))
    assert optimizer.stats()["totals"]["skipped"] == 1
    scaled(10)
    assert optimizer.stats()["step"] == 9


@over(2)
def test_a_scale_changes_no_bit_when_it_is_a_power_of_two(rank, ranks):
    plain, scaled = network(), network()
    make = makers()["one-bit-adam"]
    one, two = make(plain.parameters()), make(scaled.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for step in range(1, 13):
        train(plain, one, 1, rank, step)
        two.zero_grad()
        scaler.scale(loss_of(scaled, step, rank)).backward()
        if step % 2:
            scaler.unscale_(two)
        scaler.step(two)
        scaler.update()
    assert torch.equal(flat(plain), flat(scaled))


@over(2)
def test_different_models_are_found_at_construction(rank, ranks):
    model = nn.Linear(4, 3 + rank)
    with pytest.raises(laconic.InvalidArgument, match=r"rank 1 has .*\(4, 4\).* where rank 0 has .*\(3, 4\)"):
        laconic.AdamW(model.parameters(), lr=1e-3)
    with pytest.raises(laconic.InvalidArgument, match="beta1|weight_decay|pass the same configuration"):
        laconic.AdamW(network().parameters(), lr=1e-3, betas=(0.9 - rank / 10, 0.99))
    with pytest.raises(laconic.InvalidArgument, match="first weights"):
        torch.manual_seed(rank)
        model = nn.Linear(4, 3)
        optimizer = laconic.AdamW(model.parameters(), lr=1e-3)
        model.weight.grad = torch.randn(3, 4)
        optimizer.step()


@over(2)
def test_process_groups(rank, ranks):
    groups = [dist.new_group([0]), dist.new_group([1])]
    model = network()
    alone = laconic.AdamW(model.parameters(), lr=1e-3, process_group=groups[rank])
    assert alone.stats()["ranks"] == 1
    with pytest.raises(laconic.InvalidArgument, match="process_group"):
        laconic.AdamW(model.parameters(), lr=1e-3, process_group=groups[1 - rank])
    both = dist.new_group([0, 1])
    dist.barrier()  # the other rank may still be connecting
    dist.destroy_process_group(both)
    with pytest.raises(laconic.InvalidArgument, match="process_group"):
        laconic.AdamW(model.parameters(), lr=1e-3, process_group=both)


@over(2)
def test_collectives_of_the_user_may_come_between(rank, ranks):
    plain, busy = network(), network()
    make = makers(bucket_mb=SMALL)["zero-one-adam"]
    one, two = make(plain.parameters()), make(busy.parameters())
    for step in range(1, 13):
        train(plain, one, 1, rank, step)
        two.zero_grad()
        loss = loss_of(busy, step, rank)
        loss.backward()
        total = torch.ones(1000)
        works = [dist.all_reduce(total, async_op=True)]
        if rank == 0:
            dist.send(torch.ones(10), 1)
        else:
            dist.recv(torch.empty(10), 0)
        two.step()
        works[0].wait()
        assert total[0] == ranks
    assert torch.equal(flat(plain), flat(busy))


@over(2)
def test_two_optimizers_work_side_by_side(rank, ranks):
    models = [network(seed) for seed in (1, 2)]
    optimizers = [makers()[name](model.parameters()) for name, model in zip(("birder", "zero-one-adam"), models)]
    for step in range(1, 13):
        for optimizer in optimizers:
            optimizer.zero_grad()
        sum(loss_of(model, step, rank) for model in models).backward()
        for optimizer in optimizers:
            optimizer.step()
    for optimizer, model in zip(optimizers, models):
        optimizer.synchronize()
        assert same_on_all_ranks(flat(model))


@over(2)
def test_a_dropped_optimizer_leaves_nothing_behind(rank, ranks):
    model = network()
    gc.collect()
    threads = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        optimizer = makers()["adamw"](model.parameters())
        train(model, optimizer, 8, rank)
        group = optimizer._group
        del optimizer
        gc.collect()
        assert group._group is None
        assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    dist.barrier()
    now = len(os.listdir("/proc/self/task"))
    assert now <= threads + 2, f"{threads} threads before, {now} after"


@over(2)
def test_dropping_in_the_middle_of_an_exchange_does_not_hang(rank, ranks):
    model = network()
    optimizer = makers()["adamw"](model.parameters())
    train(model, optimizer, 6, rank)
    if rank == 0:  # rank 1 never comes
        optimizer.zero_grad()
        loss_of(model, 7, rank).backward()
        assert optimizer._begun
    del optimizer
    gc.collect()
    dist.barrier()


@over(2)
def test_the_comm_hook_is_the_one_bit_mean_with_error_feedback(rank, ranks):
    from reference_means import Layout, OneBitMean

    model = nn.Linear(300, 7, bias=False)
    nn.init.zeros_(model.weight)
    wrapped = DDP(model)
    wrapped.register_comm_hook(laconic.OneBitState(scale_block=64), laconic.one_bit_hook)
    reference = OneBitMean(Layout(2100, ranks, 64), "l2")
    for step in range(1, 6):
        rows = [torch.randn(5, 300, generator=torch.Generator().manual_seed(10 * step + r)) for r in range(ranks)]
        model.weight.grad = None
        wrapped(rows[rank]).sum().backward()
        exact = np.stack([(torch.ones(5, 7).t() @ row).reshape(-1).numpy() for row in rows])
        expected = reference.reduce(exact, np.ones(2100, bool))
        assert (model.weight.grad.reshape(-1).numpy() == expected).all(), step


@over(2)
def test_the_comm_hook_trains(rank, ranks):
    model = DDP(network(), bucket_cap_mb=SMALL)
    model.register_comm_hook(laconic.OneBitState(), laconic.one_bit_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = loss_of(model, 1, 0, 256).item()
    train(model, optimizer, 60, rank)
    assert loss_of(model, 1, 0, 256).item() < 0.8 * first
    assert same_on_all_ranks(flat(model))


@over(4)
def test_nodes_are_found_and_told(rank, ranks):
    model = network()
    optimizer = makers(ranks_per_node=2)["zero-one-adam"](model.parameters())
    train(model, optimizer, 12, rank)
    assert "2 nodes of 2 ranks" in optimizer.describe()
    optimizer.synchronize()
    assert same_on_all_ranks(flat(model))
    one_node = makers(ranks_per_node="auto")["one-bit-adam"](network().parameters())
    assert "1 nodes of 4" in one_node.describe() or "exact" in one_node.describe()


@over(2)
def test_every_step_proves_that_replicas_are_equal(rank, ranks):
    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2, verify_every=1)
    train(model, optimizer, 3, rank)
    if rank == 1:
        with torch.no_grad():
            model[2].weight[0, 0] += 1e-3
    with pytest.raises(laconic.Error, match="replicas differ after step 4.*rank\\(s\\) 1") as raised:
        train(model, optimizer, 1, rank, 4)
    assert raised.value.code == "replicas differ"


@over(2)
def test_an_exchange_that_is_over_right_after_a_look_has_not_failed(rank, ranks):
    """Waits look up every second, and torch ends each look with an error."""
    from laconic.transport import connect

    class Work:
        def __init__(self, fails):
            self.fails, self.looks = fails, 0

        def is_completed(self):
            return self.looks > 0

        def wait(self, timeout):
            self.looks += 1
            if self.fails or self.looks == 1:
                raise RuntimeError("broken pipe" if self.fails and self.looks > 1 else "Operation timed out!")

    _, group = connect()
    group._others_gave_up = lambda: False  # a rank that has failed below would end the other's looks
    late, broken = Work(fails=False), Work(fails=True)
    group._wait(late)
    assert late.looks == 2
    with pytest.raises(laconic.Error, match="broken pipe"):
        group._wait(broken)
    group.close()
