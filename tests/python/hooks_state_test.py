"""What comm hooks keep: residuals that stay with their parameters, and runs that go on from a saved state."""
import io

import pytest
import torch
import torch.distributed as dist
from launch import over
from models import Crossed, flat, hooked, loss_of, network, train
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic

SMALL = 16 * 17 * 4 * 2 / 2**20  # MiB per bucket: two layers of Crossed


def same_on_all_ranks(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor)
    return all(torch.equal(other, every[0]) for other in every)


@over(2)
def test_ranks_with_fewer_batches_may_join(rank, ranks):
    for make in (laconic.OneBitState, laconic.CodecState):
        model = DDP(network())
        model.register_comm_hook(make(), laconic.codec_hook)
        with model.join():
            train(model, torch.optim.SGD(model.parameters(), lr=0.1), 4 + 3 * rank, rank)
        assert same_on_all_ranks(flat(model))


def left_out(state, parameters):
    """What the ranks' residuals hold of each parameter: the mean of the workers' and the owners'."""
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, state.state_dict()["residuals"])
    return [sum(own[i][0] for own in every) / len(every) + sum(own[i][1] for own in every) for i in range(parameters)]


def exact_means(model, step, rank):
    gradients = torch.autograd.grad(loss_of(model, step, rank), list(model.parameters()))
    for gradient in gradients:
        dist.all_reduce(gradient)
    return [gradient / dist.get_world_size() for gradient in gradients]


@over(2, 3)
def test_residuals_stay_with_their_parameters_when_ddp_reorders_its_buckets(rank, ranks):
    for state in (laconic.OneBitState(scale_block=64), laconic.CodecState("int2", feedback="full", quant_block=64)):
        model = Crossed()
        parameters = list(model.parameters())
        wrapped = DDP(model, bucket_cap_mb=SMALL)
        orders = []

        def hook(state: laconic.CodecState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            orders[-1].append([next(i for i, p in enumerate(parameters) if p is q) for q in bucket.parameters()])
            return laconic.codec_hook(state, bucket)

        wrapped.register_comm_hook(state, hook)
        sent = [torch.zeros_like(p) for p in parameters]
        wanted = [torch.zeros_like(p) for p in parameters]
        for step in range(1, 6):
            for total, mean in zip(wanted, exact_means(model, step, rank)):
                total += mean
            wrapped.zero_grad()
            orders.append([])
            loss_of(wrapped, step, rank).backward()
            for total, p in zip(sent, parameters):
                total += p.grad
            first = [i for bucket in orders[0] for i in bucket]  # places, in the order of the first step
            left = dict(zip(first, left_out(state, len(parameters))))
            for i in range(len(parameters)):
                assert torch.allclose(sent[i].reshape(-1) + left[i], wanted[i].reshape(-1), atol=1e-5), (step, i)
        assert orders[0] != orders[1] == orders[4] and len(orders[1]) > 2


# A run that is resumed equals one that was not interrupted, though DDP begins it with other buckets.

RUNS = {
    "int4 ema": dict(codec="int4", feedback="ema", feedback_reset=4, quant_block=64),
    "int8 decay": dict(codec="int8", feedback="decay", quant_block=64),
    "sign full": dict(codec="sign", feedback="full", scale_block=64),
    "bf16": dict(codec="bf16"),
}


def resumed_equals_uninterrupted(rank, options, save_at, steps=9):
    def start():
        model = Crossed()
        wrapped, state = hooked(model, wrap=dict(bucket_cap_mb=SMALL, gradient_as_bucket_view=save_at % 2 == 0), **options)
        return model, wrapped, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9), state

    model, wrapped, optimizer, state = start()
    file = io.BytesIO()
    for step in range(1, steps + 1):
        train(wrapped, optimizer, 1, rank, step)
        if step == save_at:
            torch.save({"model": model.state_dict(), "own": optimizer.state_dict(), "hook": state.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again, wrapped, optimizer, resumed = start()
    again.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["own"])
    resumed.load_state_dict(saved["hook"])
    train(wrapped, optimizer, steps - save_at, rank, save_at + 1)
    assert len(state.state_dict()["buckets"]) > 2, "DDP has not cut several buckets"
    assert torch.equal(flat(model), flat(again)), (options, save_at)
    one, other = state.state_dict(), resumed.state_dict()
    assert len(one["residuals"]) == len(other["residuals"])
    for mine, theirs in zip(one["residuals"], other["residuals"]):
        assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1], theirs[1]), (options, save_at)


@over(1, 2, 3)
def test_a_resumed_run_equals_an_uninterrupted_one(rank, ranks):
    for options in RUNS.values():
        for save_at in (2, 5):
            resumed_equals_uninterrupted(rank, options, save_at)


@over(4)
def test_a_resumed_run_equals_an_uninterrupted_one_on_nodes(rank, ranks):
    resumed_equals_uninterrupted(rank, dict(RUNS["int4 ema"], ranks_per_node=2), 5)


@over(2)
def test_a_state_that_was_loaded_can_be_saved_at_once(rank, ranks):
    wrapped, state = hooked(Crossed(), wrap=dict(bucket_cap_mb=SMALL))
    train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), 3, rank)
    saved = state.state_dict()
    _, fresh = hooked(Crossed(), wrap=dict(bucket_cap_mb=SMALL))
    fresh.load_state_dict(saved)
    again = fresh.state_dict()
    assert again["buckets"] == saved["buckets"] and again["options"] == saved["options"]
    assert all(torch.equal(a, b) for one, two in zip(again["residuals"], saved["residuals"]) for a, b in zip(one, two))


@over(2)
def test_the_count_of_exchanges_survives_new_buckets(rank, ranks):
    wrapped, state = hooked(Crossed(), wrap=dict(bucket_cap_mb=SMALL), feedback="ema", feedback_reset=5)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for step in range(1, 6):
        train(wrapped, optimizer, 1, rank, step)
        buckets = state.state_dict()["buckets"]
        assert [bucket["exchanges"] for bucket in buckets] == [step] * len(buckets)
        assert [bucket["scalars"] for bucket in buckets] == [{"feedback_exchanges": [float(step)]}] * len(buckets)
        left = any(part.any() for both in state.state_dict()["residuals"] for part in both)
        assert left == (step < 5), "residuals are 0 after every fifth exchange"
    assert len(buckets) > 2


@over(2)
def test_a_state_of_another_codec_rank_or_time_is_an_error(rank, ranks):
    wrapped, state = hooked(network())
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    train(wrapped, optimizer, 2, rank)
    saved = state.state_dict()
    with pytest.raises(laconic.InvalidArgument, match="codec is int4 in the state and int8 here"):
        laconic.CodecState("int8").load_state_dict(saved)
    with pytest.raises(laconic.InvalidArgument, match=f"rank {1 - rank} of 2, here is rank {rank} of 2"):
        laconic.CodecState().load_state_dict({**saved, "rank": 1 - rank})
    train(wrapped, optimizer, 3, rank, 3)
    fresh, other = hooked(network())
    other.load_state_dict(state.state_dict() if rank == 1 else saved)
    with pytest.raises(laconic.InvalidArgument, match="rank 1 goes on after 5 exchanges, rank 0 after 2"):
        loss_of(fresh, 6, rank).backward()
