"""Ordinary programs on sharded models: precision, accumulation, overlap, state."""
import tempfile
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from launch import over
from models import Checkpointed, batch, flat, loss_of, network
from sharded import CODED, EXACT, LOCAL, close, equal_everywhere, make, meshes, sharded, train, uneven, whole
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

import laconic


# Programs.


@over(4)
def test_mixed_precision_tied_frozen_and_kept_unsharded(rank, ranks):
    def tied():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
        model[2].weight = model[0].weight
        model[4].bias.requires_grad_(False)
        return model

    ends = {}
    for keep in (True, False):
        model, mesh = sharded(tied, layers=False, reshard_after_forward=keep)
        frozen = model[4].bias.full_tensor().clone()
        train(model, make("AdamW", model, mesh), 8, rank)
        assert torch.equal(model[4].bias.full_tensor(), frozen)
        ends[keep] = whole(model)
    assert torch.equal(*ends.values())
    plain = tied()
    train(plain, laconic.AdamW(plain.parameters(), **EXACT["AdamW"]), 8, rank)
    assert close(ends[True], flat(plain))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model, mesh = sharded(network, mp_policy=policy)
    optimizer = make("ZeroOneAdam", model, mesh)
    for step in range(1, 13):
        inputs, labels = batch(step, rank)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs.bfloat16()).float(), labels).backward()
        optimizer.step()
    optimizer.synchronize()
    assert all(p.dtype == torch.float32 for p in model.parameters()) and equal_everywhere(whole(model))


@over(4)
def test_a_model_of_bf16_has_fp32_masters(rank, ranks):
    model, mesh = sharded(lambda: uneven().bfloat16())
    optimizer = make("ZeroOneAdam", model, mesh)
    for step in range(1, 9):
        inputs, labels = batch(step, rank)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs.bfloat16()).float(), labels).backward()
        optimizer.step()
    optimizer.synchronize()
    assert equal_everywhere(whole(model))
    arena = optimizer._arena
    assert all(torch.equal(arena._masters[i].bfloat16(), p.to_local()) for i, p in enumerate(arena.parameters))


@over(4)
def test_micro_batches_without_gradient_sync_are_one_batch(rank, ranks):
    model, mesh = sharded(network)
    optimizer = make("AdamW", model, mesh)
    for step in range(1, 9):
        optimizer.zero_grad()
        for part in range(2):
            model.set_requires_gradient_sync(part == 1)
            (loss_of(model, 2 * step + part, rank) / 2).backward()
        optimizer.step()
    plain = network()
    other = laconic.AdamW(plain.parameters(), **EXACT["AdamW"])
    for step in range(1, 9):
        other.zero_grad()
        for part in range(2):
            (loss_of(plain, 2 * step + part, rank) / 2).backward()
        other.step()
    assert close(whole(model), flat(plain))


@over(4)
def test_micro_batches_that_fsdp_reduces_each_add_up(rank, ranks):
    model, mesh = sharded(uneven)
    optimizer = make("AdamW", model, mesh)
    plain = uneven()
    other = laconic.AdamW(plain.parameters(), **EXACT["AdamW"])
    for step in range(1, 9):
        for one, its in ((model, optimizer), (plain, other)):
            its.zero_grad()
            for part in range(2):
                (loss_of(one, 2 * step + part, rank) / 2).backward()
            its.step()
    assert close(whole(model), flat(plain))


@over(4)
def test_a_grad_scaler_skips_on_all_shards_and_nodes(rank, ranks):
    model, mesh = sharded(network)
    optimizer = make("ZeroOneAdam", model, mesh)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(1, 7):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step, rank)).backward()
        if step == 3 and rank == 2:  # in one shard of one node
            optimizer._arena.parameters[0].grad.to_local().view(-1)[0] = torch.inf
        scaler.step(optimizer)
        scaler.update()
    optimizer.synchronize()
    assert optimizer.stats()["totals"]["skipped"] == 1 and optimizer.stats()["step"] == 5
    assert scaler.get_scale() == 512.0 and equal_everywhere(whole(model))


@over(4)
def test_a_grad_scaler_skips_local_steps_on_all_shards_of_a_node(rank, ranks):
    model, mesh = sharded(network)
    optimizer = make("LocalSteps", model, mesh)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(1, 7):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step, rank)).backward()
        if step == 2 and rank == 2:
            optimizer._arena.parameters[0].grad.to_local().view(-1)[0] = torch.inf
        scaler.step(optimizer)
        scaler.update()
    assert (optimizer.stats()["totals"]["skipped"], optimizer.stats()["step"]) == (rank // 2, 6)
    assert optimizer.stats()["kind"] == "dense" and equal_everywhere(whole(model))


@over(4)
def test_local_steps_of_shards_are_those_of_whole_models(rank, ranks):
    """Against DistributedDataParallel inside a node; an outer rule, and accumulation as FSDP does it."""
    for make_model in (network, uneven):
        model, mesh = sharded(make_model)
        plain = nn.parallel.DistributedDataParallel(make_model(), process_group=mesh["shard"].get_group())
        for one in (model, plain):
            options = dict(every=3, outer="nesterov", process_group=mesh["node"].get_group())
            optimizer = laconic.LocalSteps(torch.optim.AdamW(one.parameters(), lr=1e-2), **options)
            for step in range(1, 10):
                optimizer.zero_grad()
                for part in range(2):
                    if one is model:
                        model.set_requires_gradient_sync(part == 1)
                    (loss_of(one, 2 * step + part, rank) / 2).backward()
                optimizer.step()
        assert close(whole(model), flat(plain), 1e-5), make_model.__name__


@over(4)
def test_the_exchange_starts_during_backward(rank, ranks):
    """The bucket of the last layer is under way before the first layer has its gradient, in every method."""
    for name in ("AdamW", "ZeroOneAdam", "OneBitAdam", "Birder"):
        model, mesh = sharded(network)
        optimizer = make(name, model, mesh, bucket_mb=0.001)
        started, inside, start = [], [False], optimizer._start
        first_layer = optimizer._arena.parameters[0]

        def note(bucket, started=started, inside=inside, start=start, first_layer=first_layer):
            started.append((bucket, inside[0], first_layer.grad is None))
            start(bucket)

        optimizer._start = note
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(1, 9):
                optimizer.zero_grad()
                loss = loss_of(model, step, rank)
                inside[0] = True
                loss.backward()
                inside[0] = False
                optimizer.step()
        assert started and all(during for _, during, _ in started), name
        assert len(optimizer._buckets) > 1 and {bucket for bucket, _, _ in started} == set(range(len(optimizer._buckets)))
        early = {bucket for bucket, _, before in started if before}
        assert len(optimizer._buckets) - 1 in early and 0 not in early


@over(4)
def test_activation_checkpointing_overlaps(rank, ranks):
    model = Checkpointed()
    mesh = meshes()
    fully_shard(model, mesh=mesh["shard"])
    optimizer = make("ZeroOneAdam", model, mesh)
    train(model, optimizer, 8, rank)
    plain, _ = sharded(network, mesh, layers=False)
    other = make("ZeroOneAdam", plain, mesh)
    train(plain, other, 8, rank)
    assert torch.equal(whole(model), whole(plain))
    assert optimizer._overlap.active


@over(4)
def test_an_evaluation_with_synced_weights_changes_nothing(rank, ranks):
    """FSDP leaves a module whole after a forward pass without backward; it must not train on with what it showed."""
    for name in ("ZeroOneAdam", "DiLoCo"):
        ends = []
        for evaluates in (True, False):
            model, mesh = sharded(network, layers=False)
            optimizer = make(name, model, mesh)
            for step in range(1, 16):
                train(model, optimizer, 1, rank, step)
                if evaluates:
                    with torch.no_grad():
                        model(batch(100, 0)[0])  # with its own weights
                    with optimizer.synced(), torch.no_grad():
                        shown = model(batch(100, 0)[0])
                    assert equal_everywhere(shown)
            model.reshard()
            ends.append(whole(model))
        assert torch.equal(*ends) and optimizer.stats()["totals"]["silent"] > 0, name


# State.


def folder_of_all(rank):
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    return folder[0]


@over(4)
def test_a_checkpoint_of_model_and_optimizer_resumes_exactly(rank, ranks):
    for name in (*CODED, *LOCAL, "AdamW"):
        model, mesh = sharded(uneven)
        optimizer = make(name, model, mesh)
        train(model, optimizer, 7, rank)
        folder = folder_of_all(rank)
        dcp.save({"model": model.state_dict(), "optimizer": laconic.Sharded(optimizer)}, checkpoint_id=folder)
        train(model, optimizer, 6, rank, 8)
        again, _ = sharded(lambda: uneven(seed=2), mesh)
        other = make(name, again, mesh)
        state = again.state_dict()
        dcp.load({"model": state, "optimizer": laconic.Sharded(other, saved_in=folder)}, checkpoint_id=folder)
        train(again, other, 6, rank, 8)
        assert torch.equal(whole(model), whole(again)), name
        own, _ = sharded(uneven, mesh)
        third = make(name, own, mesh)
        own.load_state_dict(model.state_dict())
        third.load_state_dict(optimizer.state_dict())
        for one, its in ((model, optimizer), (own, third)):
            train(one, its, 3, rank, 14)
        assert torch.equal(whole(model), whole(own)), name


@over(4)
def test_another_number_of_nodes_and_another_sharding_go_on(rank, ranks):
    """Two nodes of two shards, then one node of four, then plain ranks: nothing is lost."""
    for name in ("AdamW", "ZeroOneAdam", "OneBitAdam", "Birder", *LOCAL):
        model, mesh = sharded(uneven)
        optimizer = make(name, model, mesh)
        train(model, optimizer, 8, rank)
        folder = folder_of_all(rank)
        dcp.save({"model": model.state_dict(), "optimizer": laconic.Sharded(optimizer)}, checkpoint_id=folder)
        with optimizer.synced():
            saved = whole(model)
        for shape in ((1, 4), (4, 1)):
            cut = meshes(*shape)
            again, _ = sharded(lambda: uneven(seed=2), cut)
            other = make(name, again, cut)
            dcp.load({"optimizer": laconic.Sharded(other, saved_in=folder)}, checkpoint_id=folder)
            if name == "AdamW":
                assert torch.equal(whole(again), saved)
                mine, theirs = (moments(one) for one in (other, optimizer))
                assert all(torch.equal(mine[i], theirs[i]) for i in theirs)
            elif name in LOCAL:  # moments of nodes differ: their mean goes on
                mine, theirs = (inner_moments(one) for one in (other, optimizer))
                assert all(close(mine[i], theirs[i]) and bool(mine[i].any()) for i in theirs), name
            elif name != "ZeroOneAdam":
                assert torch.equal(whole(again), saved), name
            train(again, other, 8, rank, 9)
            other.synchronize()
            assert equal_everywhere(whole(again)) and other.stats()["step"] == 16
        plain = uneven(seed=2)
        given = torch.optim.AdamW(plain.parameters(), lr=1e-2) if name in LOCAL else plain.parameters()
        other = getattr(laconic, name)(given, **{**CODED, **EXACT, **LOCAL}[name])
        dcp.load({"optimizer": laconic.Sharded(other, saved_in=folder)}, checkpoint_id=folder)
        train(plain, other, 4, rank, 9)
        other.synchronize()
        assert equal_everywhere(flat(plain))


def inner_moments(optimizer):
    """The mean over ranks of each whole moment of the inner AdamW."""
    found = [state["exp_avg_sq"].full_tensor() for state in optimizer.inner.state.values()]
    for moment in found:
        dist.all_reduce(moment)
    return {i: moment / dist.get_world_size() for i, moment in enumerate(found)}


def moments(optimizer):
    """m of whole parameters, by number; collective over the shards."""
    flat_m = torch.cat([torch.from_dlpack(v) for n, _, _, v, _ in optimizer._core.state() if n.endswith("/m")])
    arena, found = optimizer._arena, {}
    given = [id(p) for group in optimizer.param_groups for p in group["params"]]
    for i, parameter in enumerate(arena.parameters):
        begin, end = arena.range(i)
        local = flat_m[begin:end].view(arena.gradients[i].shape)
        whole_one = DTensor.from_local(
            local, parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape, stride=parameter.stride()
        )
        found[given.index(id(parameter))] = whole_one.full_tensor()
    return found


@over(4)
def test_a_state_of_another_shard_is_refused_and_folders_name_the_way(rank, ranks):
    model, mesh = sharded(network)
    optimizer = make("AdamW", model, mesh)
    train(model, optimizer, 2, rank)
    states = [None] * 4
    dist.all_gather_object(states, optimizer.state_dict())
    with pytest.raises(laconic.InvalidArgument, match="the state is of the part"):
        optimizer.load_state_dict(states[rank ^ 1])
    with pytest.raises(laconic.InvalidArgument, match=r"laconic.Sharded\(optimizer\)"):
        laconic.save(folder_of_all(rank), optimizer)
