"""Local steps among other ranks: against the specification's program in NumPy, the C++ method, and torch under DDP."""
import contextlib
import tempfile
from collections import Counter
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from launch import over
from local_steps_test import Plain, through_file
from models import flat, loss_of, network, train
from reference_local import LocalSteps as Reference
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import laconic
from laconic import _core, transport

SMALL = 1 / 256  # MiB a bucket: 1024 parameters
INNER = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}
CASES = [
    dict(every=1),
    dict(every=3, outer="nesterov"),
    dict(every=4, outer="momentum", codec="int4", delay=4, gap_penalty=1.5, clip=0.02),
    dict(every=4, outer="sign", outer_lr=2.0, outer_weight_decay=0.1, outer_beta1=0.5, outer_beta2=0.75, delay=1),
    dict(every=6, outer="nesterov", codec="sign", fragments=2, delay=3, merge=0.5),
    dict(every=4, fragments=4, codec="int8", feedback="ema", feedback_reset=2),
    dict(every=3, codec="top-k", top_k=64, feedback="decay", codec_down="int8"),
    dict(every=5, outer="momentum", codec="int2", total_steps=13, delay=2),
]


def gradients(t, ranks, elements):
    random = np.random.default_rng(t)
    return (random.standard_normal(elements) + random.standard_normal((ranks, elements))).astype(np.float32)


def same_on_all_ranks(tensor):
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor)
    return all(torch.equal(other, every[0]) for other in every)


class Replayed(Reference):
    """The specification's program whose inner updates are those of torch optimizers, one for each rank."""

    def __init__(self, make, weights, ranks, **config):
        super().__init__(weights, ranks, **config)
        self.parameters = [nn.Parameter(torch.zeros(len(weights))) for _ in range(ranks)]
        self.inner = [make([p]) for p in self.parameters]

    def inner_step(self, rows, lr):
        for r, (p, inner) in enumerate(zip(self.parameters, self.inner)):
            inner.param_groups[0]["lr"] = lr
            p.data.copy_(torch.from_numpy(self.x[r]))
            p.grad = torch.from_numpy(rows[r]).clone()
            inner.step()
            self.x[r] = p.detach().numpy()


@over(1, 2, 3)
def test_every_step_is_that_of_the_specification(rank, ranks):
    elements = 5000
    first = np.random.default_rng(7).standard_normal(elements).astype(np.float32)
    for config in CASES:
        for name, make in INNER.items():
            weight = nn.Parameter(torch.from_numpy(first.copy()))
            inner = make([weight])
            betas = {"outer_betas": (config["outer_beta1"], config["outer_beta2"])} if "outer_beta1" in config else {}
            given = {k: v for k, v in config.items() if not k.startswith("outer_beta")} | betas
            optimizer = laconic.LocalSteps(inner, **given)
            reference = Replayed(make, first, ranks, **config)
            for t in range(1, 14):
                rows, lr = gradients(t, ranks, elements), 0.1 / t
                inner.param_groups[0]["lr"] = lr
                weight.grad = torch.from_numpy(rows[rank].copy())
                optimizer.step()
                reference.step(rows, lr)
                assert (weight.detach().numpy() == reference.x[rank]).all(), (config, name, t)
                with optimizer.synced():
                    assert (weight.detach().numpy() == reference.synced).all(), (config, name, t)
            optimizer.synchronize()
            reference.synchronize()
            assert (weight.detach().numpy() == reference.x[rank]).all(), (config, name)


class AsInCpp(torch.optim.Optimizer):
    """AdamW with one rounding per operation, as the core's."""

    def __init__(self, params, lr=0.01, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "t": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["t"] += 1
            (b1, b2), t, lr = group["betas"], group["t"], group["lr"]
            for p in group["params"]:
                own = self.state[p]
                m, v = (own.setdefault(name, torch.zeros_like(p)) for name in "mv")
                m.copy_(m * b1 + p.grad * (1.0 - b1))
                v.copy_(v * b2 + (p.grad * p.grad) * (1.0 - b2))
                root = np.sqrt((v * (1.0 / (1.0 - b2**t))).numpy())  # torch's own differs in the last bit
                p.sub_((m * (lr / (1.0 - b1**t))) / (torch.from_numpy(root) + group["eps"]))


@over(2)
def test_the_method_in_cpp_makes_the_same_weights(rank, ranks):
    elements = 3000
    for name, make, options in (
        ("sgdm", lambda p: Plain(p, lr=0.01), {"momentum": "0"}),
        ("adamw", AsInCpp, {}),
    ):
        common = {"every": "4", "outer": "nesterov", "codec": "int4", "fragments": "2", "delay": "1"}
        weight = nn.Parameter(torch.linspace(-1, 1, elements))
        flat_weights, gradient = weight.detach().clone(), torch.zeros(elements)
        wire, group = transport.connect()
        config = {"algorithm": "local-steps", "inner": name, **options, **common}
        inside = _core.Optimizer(config, flat_weights, gradient, [("all", elements, True, 0)], [("w", 0, elements)], False, False, wire)
        around = laconic.LocalSteps(make([weight]), every=4, outer="nesterov", codec="int4", fragments=2, delay=1)
        for t in range(1, 15):
            gradient.copy_(torch.from_numpy(gradients(t, ranks, elements)[rank]))
            weight.grad = gradient.clone()
            inside.begin([(0.01, 0.0)])
            inside.step()
            around.step()
            assert torch.equal(weight.detach(), flat_weights), (name, t)
        del inside
        group.close()


@contextlib.contextmanager
def counted():
    """What goes over the wire inside: exchanges of the core, and what the package itself gathers."""
    calls = Counter()

    def counting(name, real):
        def call(self, *args):
            calls[name] += 1
            return real(self, *args)

        return call

    with contextlib.ExitStack() as patches:
        for name in ("post", "gather"):
            patches.enter_context(mock.patch.object(transport.Group, name, counting(name, getattr(transport.Group, name))))
        yield calls


@over(2, 3)
def test_nothing_is_sent_between_exchanges_and_an_exchange_costs_the_mean(rank, ranks):
    for delay in (0, 2):
        for codec, bits in (("fp32", 32), ("int8", 8 + 32 / 256)):
            with counted() as calls:
                weight = nn.Parameter(torch.zeros(64 * 256 * ranks))
                optimizer = laconic.LocalSteps(torch.optim.AdamW([weight]), every=4, codec=codec, delay=delay)
                mean = 2 * (ranks - 1) / ranks * weight.numel() * bits / 8
                for t in range(1, 14):
                    weight.grad = torch.randn(weight.numel())
                    before = Counter(calls)
                    optimizer.step()
                    if delay and t % 4 == 0:
                        optimizer._core.state()  # waits for what is under way
                    new, stats = calls - before, optimizer.stats()
                    sent = stats["bytes_inside"] + stats["bytes_between"]
                    if t == 1:  # compares weights
                        continue
                    assert (new["post"] > 0) == (t % 4 == 0) and not new["gather"], (delay, codec, t, new)
                    if t >= 4 and t % 4 == delay:
                        assert 0 <= sent - mean <= 0.01 * mean, (delay, codec, t, sent, mean)  # headers, a byte for what rests
                    else:  # that byte is of the step that begins the exchange
                        assert sent <= (ranks if t % 4 == 0 else 0), (delay, codec, t, sent)
                assert optimizer.stats()["totals"]["rounds"] == 3


@over(2, 3)
def test_averaged_in_every_step_is_data_parallel_sgd(rank, ranks):
    model, reference = network(), DDP(network())
    one, two = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference))
    one = laconic.LocalSteps(one, every=1)
    for step in range(1, 31):
        train(model, one, 1, rank, step)
        train(reference, two, 1, rank, step)
        assert ((flat(model) - flat(reference)).abs() / (1 + flat(reference).abs())).max() <= 2e-6, step
        assert same_on_all_ranks(flat(model))


@over(2)
def test_a_delay_of_nothing_and_one_fragment_are_the_plain_form(rank, ranks):
    weights = []
    for options in ({}, dict(delay=0), dict(fragments=1), dict(delay=0, fragments=1, merge=None)):
        model = network()
        optimizer = laconic.DiLoCo(torch.optim.AdamW(model.parameters(), lr=1e-2), every=3, codec="int4", **options)
        train(model, optimizer, 10, rank)
        weights.append(flat(model).clone())
    assert all(torch.equal(other, weights[0]) for other in weights)


def emulated(seconds):
    """Makes optimizers on a link with this latency."""
    real = transport.connect

    def connect(*args):
        wire, group = real(*args)
        return _core.emulated(wire, 1e9, seconds), group

    return mock.patch.object(transport, "connect", connect)


@over(2)
def test_a_delayed_result_does_not_depend_on_the_network(rank, ranks):
    near, far = network(), network()
    options = dict(every=4, outer="nesterov", codec="int4", delay=2, bucket_mb=SMALL)
    one = laconic.LocalSteps(torch.optim.AdamW(near.parameters(), lr=1e-2), **options)
    with emulated(0.2):
        two = laconic.LocalSteps(torch.optim.AdamW(far.parameters(), lr=1e-2), **options)
    for step in range(1, 16):
        train(near, one, 1, rank, step)
        train(far, two, 1, rank, step)
        assert torch.equal(flat(near), flat(far)), step
        assert (two.stats()["waited_seconds"] > 0) == (step > 4 and step % 4 == 2), (step, two.stats()["waited_seconds"])
    assert two.stats()["totals"]["waited_seconds"] > 0.05


@over(2)
def test_one_rank_that_skips_stays_with_the_others(rank, ranks):
    model = network()
    optimizer = laconic.LocalSteps(torch.optim.AdamW(model.parameters(), lr=1e-2), every=4, delay=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(1, 14):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step, rank) * (float("nan") if rank == 1 and step in (3, 4) else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
    optimizer.synchronize()
    assert same_on_all_ranks(flat(model)) and bool(flat(model).isfinite().all())
    assert optimizer.stats()["step"] == 13 and optimizer.stats()["totals"]["skipped"] == 2 * rank


@over(2)
def test_a_parameter_rests_where_no_rank_has_a_gradient(rank, ranks):
    for delay in (0, 1):
        both, one, none = (nn.Parameter(torch.ones(100)) for _ in range(3))
        optimizer = laconic.LocalSteps(
            Plain([both, one, none], lr=0.1), every=2, outer="sign", outer_weight_decay=0.5, codec="int8", delay=delay
        )
        for t in range(1, 9):
            both.grad = torch.ones(100)
            one.grad = torch.ones(100) if rank == 0 and t % 2 else None
            optimizer.step()
        optimizer.synchronize()
        assert torch.equal(none.detach(), torch.ones(100)), delay
        assert bool((one < 1).all()) and same_on_all_ranks(one.detach()) and same_on_all_ranks(both.detach())


def delayed(model, **more):
    options = dict(every=4, outer="nesterov", codec="int4", delay=2, fragments=2, bucket_mb=SMALL) | more
    return laconic.LocalSteps(torch.optim.AdamW(model.parameters(), lr=1e-2), **options)


@contextlib.contextmanager
def shared_folder():
    with tempfile.TemporaryDirectory() as mine:
        names = [mine]
        dist.broadcast_object_list(names)
        yield names[0]
        dist.barrier()


@over(2)
def test_a_resume_is_exact_at_every_step_with_an_exchange_under_way(rank, ranks):
    whole = network()
    straight = delayed(whole)
    saved = {}
    with shared_folder() as folder:
        for step in range(1, 17):
            train(whole, straight, 1, rank, step)
            if 3 <= step <= 10:
                saved[step] = through_file({"model": whole.state_dict(), "optimizer": straight.state_dict()})
                laconic.save(f"{folder}/{step}", straight)
                dcp.save({"optimizer": laconic.Sharded(straight)}, checkpoint_id=f"{folder}/dcp{step}")
        for step in saved:
            for how in ("state_dict", "folder", "torch.distributed.checkpoint"):
                model = network(seed=9)
                optimizer = delayed(model)
                if how == "state_dict":
                    model.load_state_dict(saved[step]["model"])
                    optimizer.load_state_dict(saved[step]["optimizer"])
                elif how == "folder":
                    laconic.resume(f"{folder}/{step}", optimizer)
                else:
                    path = f"{folder}/dcp{step}"
                    dcp.load({"optimizer": laconic.Sharded(optimizer, saved_in=path)}, checkpoint_id=path)
                train(model, optimizer, 16 - step, rank, step + 1)
                assert torch.equal(flat(model), flat(whole)), (how, step)


@over(3)
def test_another_number_of_ranks_goes_on(rank, ranks):
    """From the mean of the saved weights; one state for all ranks has the common ones only."""
    two = dist.new_group([0, 1])
    with shared_folder() as folder:
        common, moments = [None], [None]
        if rank < 2:
            model = network()
            optimizer = delayed(model, process_group=two)
            train(model, optimizer, 7, rank)
            with optimizer.synced():
                common = [flat(model).clone()]
            own = optimizer.inner.state[model[0].weight]["exp_avg"].clone()
            dist.all_reduce(own, group=two)
            moments = [own / 2]
            laconic.save(f"{folder}/two", optimizer)
            dcp.save({"optimizer": laconic.Sharded(optimizer)}, checkpoint_id=f"{folder}/dcp", process_group=two)
            one = [through_file(laconic.consolidate(optimizer))]
        else:
            one = [None]
        dist.broadcast_object_list(one)
        dist.broadcast_object_list(common)
        dist.broadcast_object_list(moments)
        ends = []
        for how in ("folder", "torch.distributed.checkpoint", "consolidate"):
            model = network(seed=9)
            optimizer = delayed(model)
            if how == "folder":
                laconic.resume(f"{folder}/two", optimizer)
            elif how == "consolidate":
                optimizer.load_state_dict(one[0])
            else:
                dcp.load({"optimizer": laconic.Sharded(optimizer, saved_in=f"{folder}/dcp")}, checkpoint_id=f"{folder}/dcp")
            assert optimizer.stats()["step"] == 7
            assert torch.allclose(optimizer.inner.state[model[0].weight]["exp_avg"], moments[0], atol=1e-7), how
            assert float(optimizer.inner.state[model[0].weight]["step"]) == 7
            assert same_on_all_ranks(flat(model)), how
            train(model, optimizer, 9, rank, 8)
            optimizer.synchronize()
            assert same_on_all_ranks(flat(model)), how
            ends.append(flat(model).clone())
        assert torch.allclose(ends[1], ends[2], atol=1e-5)


@over(3)
def test_other_ranks_begin_at_the_mean_of_the_saved_weights(rank, ranks):
    two = dist.new_group([0, 1])
    with shared_folder() as folder:
        mean = [None]
        if rank < 2:
            model = network()
            optimizer = delayed(model, process_group=two, delay=0)
            train(model, optimizer, 7, rank)
            own = flat(model).clone()
            dist.all_reduce(own, group=two)
            mean = [own / 2]
            laconic.save(f"{folder}/two", optimizer)
        dist.broadcast_object_list(mean)
        model = network(seed=9)
        optimizer = delayed(model, delay=0)
        laconic.resume(f"{folder}/two", optimizer)
        assert torch.allclose(flat(model), mean[0], atol=1e-6)
        assert same_on_all_ranks(flat(model))


@over(2)
def test_a_state_of_another_rank_is_refused(rank, ranks):
    model = network()
    optimizer = laconic.LocalSteps(torch.optim.AdamW(model.parameters(), lr=1e-2), every=4)
    train(model, optimizer, 4, rank)  # in sync: only the moments are each rank's own
    every = [None, None]
    dist.all_gather_object(every, through_file(optimizer.state_dict()))
    before = flat(model).clone()
    with pytest.raises(laconic.InvalidArgument, match=f"state is of rank {1 - rank} of 2, here is rank {rank} of 2"):
        optimizer.load_state_dict(every[1 - rank])
    assert torch.equal(flat(model), before)
    optimizer.load_state_dict(every[rank])
    train(model, optimizer, 4, rank, 5)
    assert same_on_all_ranks(flat(model))


@over(4)
def test_ddp_inside_nodes_and_local_steps_between(rank, ranks):
    nodes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    node, place = divmod(rank, 2)
    for codec in ("fp32", "int4"):
        model, lone = DDP(network(), process_group=nodes[node]), network()
        optimizer, pair = (
            laconic.DiLoCo(torch.optim.SGD(m.parameters(), lr=0.1), every=4, codec=codec, delay=1, process_group=across[place])
            for m in (model, lone)
        )
        assert optimizer.stats()["ranks"] == 2
        for step in range(1, 20):
            train(model, optimizer, 1, rank, step)
            pair.zero_grad()
            sum(loss_of(lone, step, 2 * node + k) / 2 for k in (0, 1)).backward()  # a node as one rank with both batches
            pair.step()
            every = [torch.empty_like(flat(model)) for _ in range(4)]
            dist.all_gather(every, flat(model))
            assert torch.equal(every[0], every[1]) and torch.equal(every[2], every[3]) and not torch.equal(every[0], every[2])
        if codec == "fp32":
            assert torch.allclose(flat(model), flat(lone), atol=1e-5)
        optimizer.synchronize()
        assert same_on_all_ranks(flat(model))


@over(4)
def test_nodes_of_two_ranks(rank, ranks):
    model = network()
    optimizer = laconic.LocalSteps(torch.optim.AdamW(model.parameters(), lr=1e-2), every=3, codec="sign", ranks_per_node=2)
    first = loss_of(model, 1, 0, 256).item()
    train(model, optimizer, 60, rank)
    assert loss_of(model, 1, 0, 256).item() < 0.7 * first and same_on_all_ranks(flat(model))


@over(2)
def test_ranks_that_differ_are_named(rank, ranks):
    model = network()
    before = flat(model).clone()
    with pytest.raises(laconic.InvalidArgument, match="every = 12.*every = 8|every = 8.*every = 12"):
        laconic.LocalSteps(torch.optim.AdamW(model.parameters()), every=8 + 4 * rank)
    kinds = (torch.optim.AdamW, torch.optim.SGD)
    with pytest.raises(laconic.InvalidArgument, match="LocalSteps around SGD where rank 0 has LocalSteps around AdamW"):
        laconic.LocalSteps(kinds[rank](model.parameters()), every=8)
    other = network(seed=1 + rank)
    optimizer = laconic.LocalSteps(Plain(other.parameters()), every=8)
    loss_of(other, 1, rank).backward()
    mine = flat(other).clone()
    with pytest.raises(laconic.InvalidArgument, match="rank 1 has parameter 0 with weights of hash .* where rank 0 has parameter 0"):
        optimizer.step()
    assert torch.equal(flat(other), mine) and torch.equal(flat(model), before)
    with torch.no_grad():
        for p in other.parameters():
            dist.broadcast(p, 0)
    optimizer.step()
    assert optimizer.stats()["step"] == 1


@over(2)
def test_a_rank_that_diverged_follows_the_others(rank, ranks):
    weight = nn.Parameter(torch.ones(500))
    optimizer = laconic.LocalSteps(Plain([weight], lr=0.1), every=4, codec="int8")
    for t in range(1, 13):
        weight.grad = torch.full((500,), float("nan") if rank == 1 and t == 6 else 0.1)
        optimizer.step()
    assert bool(weight.isfinite().all()) and same_on_all_ranks(weight.detach())
    assert (optimizer.stats()["totals"]["bad_blocks"] > 0) == (rank == 1)


@over(2)
def test_all_kinds_learn(rank, ranks):
    for cls in (laconic.LocalSteps, laconic.DiLoCo, laconic.StreamingDiLoCo, laconic.DSM, laconic.CO2, laconic.SparseLoCo):
        model = network()
        first = loss_of(model, 1, 0, 256).item()
        more = {"outer_lr": 5.0} if cls is laconic.DSM else {"outer_momentum": 0.5} if cls is laconic.CO2 else {}
        optimizer = cls(torch.optim.AdamW(model.parameters(), lr=1e-2), every=5, total_steps=120, verify_every=1, **more)
        if cls is laconic.StreamingDiLoCo:
            assert optimizer._core.config()["fragments"] == "4"
        train(model, optimizer, 120, rank)
        assert same_on_all_ranks(flat(model)), cls
        assert loss_of(model, 1, 0, 256).item() < (0.85 if cls is laconic.DSM else 0.75) * first, (cls, first, loss_of(model, 1, 0, 256).item())
