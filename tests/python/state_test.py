"""State: exact resumes, other numbers of ranks, torch.distributed.checkpoint."""
import io
import tempfile

import pytest
import torch
import torch.distributed as dist
from launch import over
from models import flat, network, train

import laconic


def makers(**more):
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


def through_file(saved):
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@over(1, 2)
def test_a_resume_is_exact_in_the_middle_of_an_interval(rank, ranks):
    for name, make in makers(bucket_mb=1 / 256).items():
        for stop in (3, 7, 12, 13):
            whole, first, second = network(), network(), network()
            straight = make(whole.parameters())
            train(whole, straight, 20, rank)
            before = make(first.parameters())
            train(first, before, stop, rank)
            model_state, state = through_file(first.state_dict()), through_file(before.state_dict())
            if ranks > 1 and name == "zero-one-adam":  # models are often saved by rank 0 alone
                model_state = through_file({k: _of_rank_0(v) for k, v in model_state.items()})
            after = make(second.parameters())
            second.load_state_dict(model_state)
            after.load_state_dict(state)
            train(second, after, 20 - stop, rank, stop + 1)
            assert torch.equal(flat(whole), flat(second)), (name, stop)


def _of_rank_0(tensor):
    tensor = tensor.clone()
    dist.broadcast(tensor, 0)
    return tensor


@over(1)
def test_learning_rates_and_masters_are_part_of_the_state(rank, ranks):
    model = network().bfloat16()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.5
    other = network(2).bfloat16()
    resumed = laconic.AdamW(other.parameters(), lr=1e-2)
    resumed.load_state_dict(through_file(optimizer.state_dict()))
    assert resumed.param_groups[0]["lr"] == 0.5
    assert torch.equal(resumed._arena.weights, optimizer._arena.weights)
    assert torch.equal(flat(model), flat(other))


@over(1)
def test_state_that_does_not_fit_changes_nothing(rank, ranks):
    model = network()
    optimizer = makers()["zero-one-adam"](model.parameters())
    train(model, optimizer, 5, rank)

    def refused(match, saved, optimizer=optimizer):
        before = {name: value.clone() for name, value in optimizer.state_dict()["state"].items()}
        with pytest.raises(laconic.InvalidArgument, match=match):
            optimizer.load_state_dict(saved)
        now = optimizer.state_dict()["state"]
        assert all(torch.equal(before[name], now[name]) for name in before)

    refused(r"\(48, 16\) in the state and \(32, 16\) here", makers()["zero-one-adam"](network(width=48).parameters()).state_dict())
    refused("algorithm is adamw in the state", makers()["adamw"](network().parameters()).state_dict())
    published = laconic.ZeroOneAdam(network().parameters(), total_steps=100, schedule="published").state_dict()
    refused("beta2 is 0.999 in the state and 0.95 here.*schedule is published in the state and short here", published, laconic.ZeroOneAdam(network().parameters(), total_steps=100))
    refused("no state of a laconic optimizer", torch.optim.AdamW(network().parameters()).state_dict())
    refused("2 parameters, this optimizer has 6", laconic.AdamW(network()[0].parameters()).state_dict())
    saved = optimizer.state_dict()
    refused("rank 3 of 4, here is rank 0 of 1", {**saved, "laconic": {**saved["laconic"], "rank": 3, "ranks": 4}})
    cut = {**saved["state"], "bucket0/m": torch.zeros(3)}
    refused(r"`bucket0/m` is \(3,\) in the state", {**saved, "state": cut})


def on_two(group, rank, make, seed=1):
    """An optimizer over ranks 0 and 1 only."""
    model = network(seed)
    return (model, make(model.parameters(), group)) if rank < 2 else (model, None)


def makers_in_groups():
    return {
        "zero-one-adam": lambda p, g=None: laconic.ZeroOneAdam(
            p, lr=1e-2, variance_freeze_step=6, variance_kappa=2, double_every=4, max_interval=4, process_group=g
        ),
        "one-bit-adam": lambda p, g=None: laconic.OneBitAdam(p, lr=1e-2, freeze_step=6, process_group=g),
        "birder": lambda p, g=None: laconic.Birder(p, lr=1e-2, seed=3, process_group=g),
        "distributed-lion": lambda p, g=None: laconic.DistributedLion(p, lr=3e-3, process_group=g),
        "adamw": lambda p, g=None: laconic.AdamW(p, lr=1e-2, process_group=g),
    }


@over(4)
def test_another_number_of_ranks_goes_on_three_ways_alike(rank, ranks):
    import torch.distributed.checkpoint as dcp

    two = dist.new_group([0, 1])
    for name, make in makers_in_groups().items():
        for steps in (9, 14):
            model = network()
            optimizer = make(model.parameters())
            train(model, optimizer, steps, rank)
            with tempfile.TemporaryDirectory() as mine:
                folders = [mine]
                dist.broadcast_object_list(folders)
                path = folders[0]
                whole = laconic.consolidate(optimizer)
                laconic.save(path + "/ours", optimizer, {"step": str(steps)})
                dcp.save({"optimizer": laconic.Sharded(optimizer)}, checkpoint_id=path + "/dcp")
                ends = []
                if rank < 2:
                    for way in ("consolidated", "ours", "dcp"):
                        other, resumed = on_two(two, rank, make, seed=2)
                        if way == "consolidated":
                            resumed.load_state_dict(through_file(whole))
                        elif way == "ours":
                            assert laconic.resume(path + "/ours", resumed) == {"step": str(steps)}
                        else:
                            sharded = laconic.Sharded(resumed, saved_in=path + "/dcp")
                            dcp.load({"optimizer": sharded}, checkpoint_id=path + "/dcp", process_group=two)
                        assert resumed.stats()["step"] == steps
                        train(other, resumed, 6, rank, steps + 1)
                        resumed.synchronize()
                        ends.append(flat(other))
                    assert all(torch.equal(end, ends[0]) for end in ends), (name, steps)
                    assert ends[0].isfinite().all()
                    every = [torch.empty_like(ends[0]) for _ in range(2)]
                    dist.all_gather(every, ends[0], group=two)
                    assert torch.equal(*every)
                dist.barrier()


@over(2)
def test_checkpoints_of_torch_resume_exactly_with_the_same_ranks(rank, ranks):
    import torch.distributed.checkpoint as dcp

    whole, first, second = network(), network(), network(2)
    make = makers()["zero-one-adam"]
    train(whole, make(whole.parameters()), 20, rank)
    optimizer = make(first.parameters())
    train(first, optimizer, 13, rank)
    with tempfile.TemporaryDirectory() as mine:
        folders = [mine]
        dist.broadcast_object_list(folders)
        dcp.save({"model": first.state_dict(), "optimizer": laconic.Sharded(optimizer)}, checkpoint_id=folders[0])
        resumed = make(second.parameters())
        wanted = {"model": second.state_dict(), "optimizer": laconic.Sharded(resumed, saved_in=folders[0])}
        dcp.load(wanted, checkpoint_id=folders[0])
        train(second, resumed, 7, rank, 14)
        dist.barrier()
    assert torch.equal(flat(whole), flat(second))


@over(2)
def test_each_rank_loads_its_own(rank, ranks):
    model = network()
    optimizer = makers()["zero-one-adam"](model.parameters())
    train(model, optimizer, 9, rank)
    saved = [through_file(optimizer.state_dict())]
    dist.broadcast_object_list(saved)
    if rank == 1:
        with pytest.raises(laconic.InvalidArgument, match="rank 0 of 2, here is rank 1 of 2.*consolidate"):
            optimizer.load_state_dict(saved[0])
