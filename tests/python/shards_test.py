"""Sharded parameters: every method on FSDP's shards and on tensor-parallel ones, clipping, refusals, codec hooks."""
import pytest
import torch
import torch.distributed as dist
from launch import over
from models import batch, flat, loss_of, network
from sharded import CODED, EXACT, LOCAL, close, equal_everywhere, make, meshes, sharded, train, uneven, whole
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import laconic
import laconic.plan


@over(4)
def test_exact_methods_agree_with_the_plain_run(rank, ranks):
    for make_model in (network, uneven):
        for name, options in EXACT.items():
            model, mesh = sharded(make_model)
            train(model, make(name, model, mesh), 10, rank)
            plain = make_model()
            train(plain, getattr(laconic, name)(plain.parameters(), **options), 10, rank)
            assert close(whole(model), flat(plain)), (make_model.__name__, name, (whole(model) - flat(plain)).abs().max())


@over(4)
def test_coded_methods_end_with_byte_equal_nodes(rank, ranks):
    for make_model in (network, uneven):
        for name in (*CODED, *LOCAL):
            model, mesh = sharded(make_model)
            optimizer = make(name, model, mesh, verify_every=1)
            before = loss_of(model, 100, 0, 64).item()
            train(model, optimizer, 24, rank)
            optimizer.synchronize()
            assert equal_everywhere(whole(model)), name
            if make_model is network:
                assert loss_of(model, 100, 0, 64).item() < before, name


@over(4)
def test_a_bias_of_five_over_four_ranks_has_an_empty_shard(rank, ranks):
    mesh = meshes(1, 4)
    model, _ = sharded(uneven, mesh)
    assert {p.to_local().numel() for p in model.parameters()} >= {0, 1} or rank < 2
    for name in ("ZeroOneAdam", "AdamW"):
        optimizer = make(name, model, mesh)
        train(model, optimizer, 6, rank)
        assert "shard %d of 4" % (rank + 1) in optimizer.describe()
    plain = uneven()
    model, _ = sharded(uneven, mesh)
    train(model, make("AdamW", model, mesh), 8, rank)
    train(plain, laconic.AdamW(plain.parameters(), **EXACT["AdamW"]), 8, rank)
    assert close(whole(model), flat(plain))


@over(4)
def test_the_shards_are_the_flat_memory(rank, ranks):
    """An even shard lies in the optimizer's memory, made before or after the first forward, and FSDP reads it there."""
    for early in (True, False):
        model, mesh = sharded(network)
        if not early:
            model(batch(1, rank)[0])
        optimizer = make("SGD", model, mesh)
        train(model, optimizer, 2, rank)
        homes = optimizer._arena._homes
        assert [p.to_local().data_ptr() for p in optimizer._arena.parameters] == homes[: len(optimizer._arena.parameters)]
        seen = model(batch(1, rank)[0])
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(0)
        assert bool(seen.any()) and not bool(model(batch(1, rank)[0]).any())


@over(4)
def test_clipping_is_by_the_norm_of_the_whole_model(rank, ranks):
    for make_model in (network, uneven):
        model, mesh = sharded(make_model)
        plain = make_model()
        ends = []
        for one, group in ((model, mesh["node"].get_group()), (plain, None)):
            optimizer = laconic.AdamW(one.parameters(), lr=1e-2, max_grad_norm=0.05, process_group=group)
            train(one, optimizer, 5, rank)
            ends.append(optimizer.stats()["grad_norm"])
        assert ends[0] > 0.05 and ends[0] == pytest.approx(ends[1], rel=1e-5)
        assert close(whole(model), flat(plain))
        for name in ("ZeroOneAdam", "OneBitAdam"):
            model, mesh = sharded(make_model)
            optimizer = make(name, model, mesh, max_grad_norm=0.05)
            for step in range(1, 10):
                train(model, optimizer, 1, rank, step)
                norm = torch.tensor([optimizer.stats()["grad_norm"]], dtype=torch.float64)
                silent = optimizer.stats()["kind"] == "silent"
                every = [torch.empty_like(norm) for _ in range(4)]
                dist.all_gather(every, norm)
                assert every[0] == every[1] and every[2] == every[3] and (silent or every[0] == every[2]), every


@over(4)
def test_coded_clipping_uses_the_mean_over_nodes_of_the_whole_norms(rank, ranks):
    model, mesh = sharded(network)
    optimizer = make("OneBitAdam", model, mesh, max_grad_norm=1e-3)
    optimizer.zero_grad()
    loss_of(model, 1, rank).backward()
    squares = sum(p.grad.to_local().square().sum() for p in model.parameters())
    dist.all_reduce(squares)
    optimizer.step()
    assert optimizer.stats()["grad_norm"] == pytest.approx((squares / 2).sqrt().item(), rel=1e-5)


@over(4)
def test_lamb_takes_norms_of_whole_tensors(rank, ranks):
    model, mesh = sharded(uneven)
    train(model, make("OneBitLAMB", model, mesh, freeze_step=100), 8, rank)
    plain = uneven()
    train(plain, laconic.OneBitLAMB(plain.parameters(), lr=1e-2, freeze_step=100), 8, rank)
    assert close(whole(model), flat(plain))


@over(4)
def test_the_freeze_is_decided_over_all_shards(rank, ranks):
    model, mesh = sharded(network)
    optimizer = laconic.OneBitAdam(
        model.parameters(), lr=1e-3, betas=(0.9, 0.8), freeze_step="auto", process_group=mesh["node"].get_group()
    )
    kinds = []
    for step in range(1, 41):
        train(model, optimizer, 1, rank, step)
        kinds.append(optimizer.stats()["kind"])
    every = [None] * 4
    dist.all_gather_object(every, kinds)
    assert all(other == kinds for other in every) and "coded" in kinds


# What is refused.


@over(4)
def test_a_group_that_overlaps_with_the_mesh_is_refused_with_the_line_to_write(rank, ranks):
    model, mesh = sharded(network)
    for group in (None, dist.group.WORLD, mesh["shard"].get_group()):
        with pytest.raises(laconic.InvalidArgument, match=r'process_group=mesh\["node"\].get_group\(\)'):
            laconic.AdamW(model.parameters(), lr=1e-3, process_group=group)
    hybrid = network()
    fully_shard(hybrid, mesh=mesh)
    with pytest.raises(laconic.InvalidArgument, match="average between nodes by itself"):
        laconic.AdamW(hybrid.parameters(), lr=1e-3, process_group=mesh["node"].get_group())


@over(4)
def test_nodes_that_exchange_other_shards_are_refused(rank, ranks):
    model, mesh = sharded(network)
    crossed = [dist.new_group([0, 3]), dist.new_group([1, 2])]
    with pytest.raises(laconic.InvalidArgument, match="of 2"):
        laconic.AdamW(model.parameters(), lr=1e-3, process_group=crossed[0 if rank in (0, 3) else 1])


@over(4)
def test_a_whole_parameter_beside_shards_is_refused_where_its_gradients_differ(rank, ranks):
    mesh = meshes()
    for name in ("AdamW", "LocalSteps"):
        model = network()
        ignored = {model[4].bias}
        fully_shard(model, mesh=mesh["shard"], ignored_params=ignored)
        optimizer = make(name, model, mesh)
        loss_of(model, 1, rank).backward()
        with pytest.raises(laconic.InvalidArgument, match="nobody averages it over the shards' mesh"):
            optimizer.step()


# Tensor-parallel placements.


def tensor_parallel(mesh):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 4))
    plan = {"0": ColwiseParallel(output_layouts=Replicate()), "3": RowwiseParallel(input_layouts=Replicate())}
    parallelize_module(model, mesh, plan)
    model[1].weight = nn.Parameter(distribute_tensor(model[1].weight.detach(), mesh, [Replicate()]))
    model[1].bias = nn.Parameter(distribute_tensor(model[1].bias.detach(), mesh, [Replicate()]))

    def enter(module, inputs):
        return tuple(DTensor.from_local(x, mesh, [Replicate()], run_check=False) for x in inputs)

    def leave(module, inputs, output):
        return output.to_local()

    model[1].register_forward_pre_hook(enter)
    model[1].register_forward_hook(leave)
    return model


@over(4)
def test_replicated_parameters_stay_equal_over_their_mesh(rank, ranks):
    """Ranks of a tensor-parallel mesh see the same data."""
    mesh = meshes()
    node = rank // 2
    for name in ("ZeroOneAdam", "Birder", "OneBitAdam", "DistributedLion", "DiLoCo", "AdamW"):
        model = tensor_parallel(mesh["shard"])
        optimizer = make(name, model, mesh, verify_every=1)
        assert len(optimizer._numbers) == 2  # shards, and what is replicated
        train(model, optimizer, 16, node)
        optimizer.synchronize()
        assert equal_everywhere(whole(model)), name
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 4))
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    train(plain, laconic.AdamW(plain.parameters(), process_group=pairs[rank % 2], **EXACT["AdamW"]), 16, node)
    assert close(whole(model), flat(plain), 1e-5)


@over(4)
def test_a_replica_that_parts_is_found(rank, ranks):
    mesh = meshes()
    model = tensor_parallel(mesh["shard"])
    optimizer = make("AdamW", model, mesh, verify_every=1)
    train(model, optimizer, 2, rank // 2)
    with torch.no_grad():
        model[1].weight.to_local().add_(rank % 2)
    with pytest.raises(laconic.Error, match="of the shards' mesh hold"):
        train(model, optimizer, 1, rank // 2, 3)


@over(4)
def test_clipping_counts_what_is_replicated_once(rank, ranks):
    mesh = meshes()
    model = tensor_parallel(mesh["shard"])
    optimizer = make("AdamW", model, mesh, max_grad_norm=1e-3)
    optimizer.zero_grad()
    loss_of(model, 1, 7).backward()  # the same on both nodes but for the refusal of equal gradients
    full = [p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for p in model.parameters()]
    norm = torch.cat([g.reshape(-1) for g in full]).norm()
    with torch.no_grad():
        for p in model.parameters():
            p.grad.mul_(1.5 if rank // 2 else 0.5)
    optimizer.step()
    assert optimizer.stats()["grad_norm"] == pytest.approx(norm.item(), rel=1e-5)


@over(4)
def test_two_dimensional_meshes_train(rank, ranks):
    """FSDP and tensor parallelism in one node of four ranks."""
    cube = init_device_mesh("cpu", (1, 2, 2), mesh_dim_names=("node", "fsdp", "tensor"))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    parallelize_module(model, cube["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=cube["fsdp"])
    optimizer = laconic.AdamW(model.parameters(), process_group=cube["node"].get_group(), verify_every=1, **EXACT["AdamW"])
    train(model, optimizer, 8, rank // 2)
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    train(plain, laconic.AdamW(plain.parameters(), process_group=pairs[rank % 2], **EXACT["AdamW"]), 8, rank // 2)
    assert close(whole(model), flat(plain), 1e-5)


@over(4)
def test_a_choice_by_time_is_refused_where_a_part_is_held_twice(rank, ranks):
    mesh = meshes()
    with pytest.raises(laconic.InvalidArgument, match="exchange=auto"):
        make("ZeroOneAdam", tensor_parallel(mesh["shard"]), mesh, exchange="auto")
    model, _ = sharded(network, mesh)
    train(model, make("ZeroOneAdam", model, mesh, exchange="auto"), 4, rank)


# Codec hooks.


@over(4)
def test_fsdp_averages_between_nodes_by_a_codec(rank, ranks):
    ends = {}
    for codec in ("fp32", "int8", "int4", None):
        model, mesh = sharded(uneven) if codec else (uneven(), meshes())
        if codec:
            laconic.fsdp_hook(model, laconic.CodecState(codec, feedback="full", process_group=mesh["node"].get_group()))
        else:
            model = nn.parallel.DistributedDataParallel(model)
        train(model, torch.optim.SGD(model.parameters(), lr=0.05), 12, rank)
        ends[codec] = whole(model)
        assert equal_everywhere(ends[codec]), codec
    assert close(ends["fp32"], ends[None]) and close(ends["int8"], ends[None], 0.01) and close(ends["int4"], ends[None], 0.1)
    model, mesh = sharded(uneven)
    state = laconic.CodecState("int4", feedback="full", process_group=mesh["node"].get_group(), device="emulated")
    train(laconic.fsdp_hook(model, state), torch.optim.SGD(model.parameters(), lr=0.05), 12, rank)
    assert torch.equal(whole(model), ends["int4"])


@over(4)
def test_a_codec_hook_of_fsdp_accumulates_and_resumes(rank, ranks):
    """The outermost module has no parameters of its own, and the unused one gets no gradient."""
    mesh = meshes()

    class Partly(nn.Module):
        def __init__(self, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.unused, self.used = nn.Linear(16, 7), uneven(seed)

        def forward(self, x):
            return self.used(x)

    def make_model(seed=1):
        model = Partly(seed)
        for layer in (model.unused, *model.used[::2], model.used[5]):
            fully_shard(layer, mesh=mesh["shard"])
        fully_shard(model, mesh=mesh["shard"])
        state = laconic.CodecState("int4", feedback="full", process_group=mesh["node"].get_group())
        return laconic.fsdp_hook(model, state), torch.optim.SGD(model.parameters(), lr=0.05), state

    def go(model, optimizer, first):
        for step in range(first, first + 4):
            optimizer.zero_grad()
            for part in range(2):
                model.set_requires_gradient_sync(part == 1)
                (loss_of(model, 2 * step + part, rank) / 2).backward()
            optimizer.step()

    model, optimizer, state = make_model()
    go(model, optimizer, 1)
    saved = state.state_dict()
    assert any(bool(worker.any()) for worker, _ in saved["residuals"])
    again, other, restored = make_model(2)
    again.load_state_dict(model.state_dict())
    restored.load_state_dict(saved)
    go(model, optimizer, 5)
    go(again, other, 5)
    assert torch.equal(whole(model), whole(again)) and equal_everywhere(whole(model))
    plain = nn.parallel.DistributedDataParallel(uneven())
    one = torch.optim.SGD(plain.parameters(), lr=0.05)
    for step in range(1, 9):
        one.zero_grad()
        for part in range(2):
            (loss_of(plain, 2 * step + part, rank) / 2).backward()
        one.step()
    assert close(whole(model.used), flat(plain), 0.1)


@over(4)
def test_codec_hooks_of_fsdp_refuse_what_they_cannot_do(rank, ranks):
    mesh = meshes()
    state = laconic.CodecState("int4", process_group=mesh["node"].get_group())
    with pytest.raises(laconic.InvalidArgument, match="is not sharded"):
        laconic.fsdp_hook(network(), state)
    model, _ = sharded(network, mesh)
    with pytest.raises(laconic.InvalidArgument, match="are in both"):
        laconic.fsdp_hook(model, laconic.CodecState("int4"))
    policy = MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)
    model, _ = sharded(network, mesh, mp_policy=policy)
    laconic.fsdp_hook(model, state)
    with pytest.raises(laconic.InvalidArgument, match="reduce_dtype=torch.float32"):
        loss_of(model, 1, rank).backward()


# Bytes.


@over(4)
def test_bytes_between_nodes_are_those_of_the_plan(rank, ranks):
    model, mesh = sharded(lambda: network(width=256))
    parameters = sum(p.numel() for p in model.parameters())
    for name, method, kind in (("OneBitAdam", "one-bit-adam", "coded"), ("AdamW", "adamw", "dense")):
        optimizer = make(name, model, mesh)
        train(model, optimizer, 6, rank)
        stats = optimizer.stats()
        planned = laconic.plan.predict(method, parameters=parameters, shards=2, nodes=2, step_seconds=0.1)["steps"][kind]
        sent = stats["bytes_inside"] + stats["bytes_between"]
        assert stats["kind"] == kind and 0 <= sent - planned["bytes_between_nodes"] <= 64, (name, sent, planned)
