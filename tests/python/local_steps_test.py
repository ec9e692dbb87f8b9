"""Local steps around torch optimizers in one process: what a program may do with them, and what is refused."""
import copy
import io
import pickle
import warnings

import pytest
import torch
from models import flat, loss_of, network, train
from torch import nn

import laconic


class Plain(torch.optim.Optimizer):
    """A user's own: no momentum, two roundings per element."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        loss = None if closure is None else closure()  # in whatever mode the caller is
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.sub_(p.grad * group["lr"])
        return loss


INNER = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    "SGD": lambda p: torch.optim.SGD(p, lr=1e-1, momentum=0.9, nesterov=True),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, centered=True),
    "a user's own": Plain,
}


def through_file(saved):
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", INNER)
def test_any_inner_optimizer_trains_alone_where_its_parameters_are(name):
    ours, theirs = network(), network()
    inner, alone = INNER[name](ours.parameters()), INNER[name](theirs.parameters())
    places = [p.data_ptr() for p in ours.parameters()]
    optimizer = laconic.LocalSteps(inner, every=5)
    assert isinstance(optimizer, torch.optim.Optimizer) and isinstance(optimizer, laconic.Optimizer)
    for step in range(1, 13):
        train(ours, optimizer, 1, 0, step)
        train(theirs, alone, 1, 0, step)
        assert (optimizer.stats()["kind"] == "dense") == (step % 5 == 0)
        if step < 5:
            assert torch.equal(flat(ours), flat(theirs)), step
    assert torch.allclose(flat(ours), flat(theirs), rtol=1e-4, atol=1e-5)  # alone, the outer rule only rounds
    assert [p.data_ptr() for p in ours.parameters()] == places
    assert type(inner).__name__ + " alone" in optimizer.describe()


def test_presets_are_defaults_of_one_method():
    def config(cls, **options):
        return cls(torch.optim.AdamW([nn.Parameter(torch.zeros(640))]), **options)._core.config()

    assert issubclass(laconic.DiLoCo, laconic.LocalSteps)
    found = config(laconic.DiLoCo)
    assert (found["every"], found["outer"], found["outer_lr"], found["inner"]) == ("500", "nesterov", "0.7", "none")
    assert config(laconic.DiLoCo, outer_lr=0.4, every=30)["outer_lr"] == "0.4"
    found = config(laconic.StreamingDiLoCo, every=40)
    assert (found["fragments"], found["delay"], found["codec"], found["merge"]) == ("4", "5", "int4", "0.5")
    assert config(laconic.CO2, every=6)["delay"] == "6"
    assert config(laconic.DSM, outer_betas=(0.5, 0.75))["outer_beta2"] == "0.75"
    assert (config(laconic.SparseLoCo)["codec"], config(laconic.SparseLoCo)["feedback"]) == ("top-k", "decay")
    assert config(laconic.StreamingDiLoCo, merge=None, feedback=None)["merge"] == "0.5"  # None: the method's own
    with pytest.raises(laconic.InvalidArgument, match="outer_betas=0.5: give two numbers"):
        config(laconic.DSM, outer_betas=0.5)


def test_groups_are_the_inner_optimizers_own_dictionaries():
    model = network()
    inner = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}], lr=0.1)
    optimizer = laconic.LocalSteps(inner, every=2)
    assert all(a is b for a, b in zip(optimizer.param_groups, inner.param_groups))
    assert optimizer.inner is inner and optimizer.state is inner.state and optimizer.defaults is inner.defaults
    optimizer.add_param_group({"params": model[4].parameters(), "lr": 0.25})
    assert [group["lr"] for group in inner.param_groups] == [0.5, 0.1, 0.25] and len(optimizer._arena.parameters) == 6
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": model[4].parameters()})
    train(model, optimizer, 3, 0)
    assert len(inner.param_groups) == 3
    with pytest.raises(laconic.InvalidArgument, match="after the first step"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    assert len(inner.param_groups) == 3
    optimizer.load_state_dict(optimizer.state_dict())  # torch makes new dictionaries then
    assert all(a is b for a, b in zip(optimizer.param_groups, inner.param_groups))


def test_groups_that_the_inner_optimizer_got_before_the_first_step_count():
    model = network()
    inner = torch.optim.SGD(model[0].parameters(), lr=0.1)
    optimizer = laconic.LocalSteps(inner, every=2)
    inner.add_param_group({"params": model[2].parameters()})
    model[4].requires_grad_(False)
    inner.add_param_group({"params": model[4].parameters()})
    train(model, optimizer, 1, 0)
    assert len(optimizer._arena.parameters) == 4
    inner.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(laconic.InvalidArgument, match="has 7 parameters, the first other one at 6, where it had 6"):
        optimizer.step()


def test_schedulers_turn_the_inner_optimizers_rates():
    def lrs(make):
        model = network()
        optimizer, inner = make(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        schedulers = [
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + t)),
            torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=20),
        ]
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(1, 8):
                train(model, optimizer, 1, 0, step)
                found.append((inner.param_groups[0]["lr"], inner.param_groups[0]["momentum"]))
                for one in schedulers:
                    one.step()
        return found, flat(model)

    ours, mine = lrs(lambda inner: (laconic.LocalSteps(inner, every=100), inner))
    theirs, plain = lrs(lambda inner: (inner, inner))
    assert ours == theirs and len(set(ours)) == 7 and torch.equal(mine, plain)


def test_a_rate_of_the_sign_rule_is_the_mean_of_the_interval():
    weight = nn.Parameter(torch.zeros(4))
    inner = Plain([weight], lr=0.0)
    optimizer = laconic.LocalSteps(inner, every=2, outer="sign", outer_lr=3.0)
    for lr in (0.1, 0.3, 0.0, 0.0):
        inner.param_groups[0]["lr"] = torch.tensor(lr)
        weight.grad = torch.tensor([1.0, -1.0, 2.0, 0.0])
        optimizer.step()
        if lr == 0.3:
            moved = weight.detach().clone()
    assert torch.allclose(moved, torch.tensor([-0.6, 0.6, -0.6, 0.0]))
    assert torch.equal(weight.detach(), moved)  # at a rate of 0 x_sync stays


def test_closures():
    for make in (Plain, lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=3)):
        ours, theirs = network(), network()
        optimizer, alone = laconic.LocalSteps(make(ours.parameters()), every=50), make(theirs.parameters())
        losses = []
        for model, one in ((ours, optimizer), (theirs, alone)):
            for step in range(1, 7):

                def closure():
                    one.zero_grad()
                    loss = loss_of(model, step, 0)
                    loss.backward()
                    return loss

                losses.append(float(one.step(closure).detach()))
        assert losses[:6] == losses[6:] and torch.equal(flat(ours), flat(theirs))
        assert optimizer.stats()["step"] == 6


def test_a_closure_that_fails_leaves_an_optimizer_that_goes_on():
    model = network()
    optimizer = laconic.LocalSteps(Plain(model.parameters()), every=2)
    train(model, optimizer, 1, 0)

    def closure():
        raise KeyError("no more data")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    train(model, optimizer, 1, 0, 2)
    assert (optimizer.stats()["step"], optimizer.stats()["kind"]) == (2, "dense")


def test_gradients_accumulate_and_are_cleared():
    ours, theirs = network(), network()
    optimizer, alone = laconic.LocalSteps(Plain(ours.parameters()), every=9), Plain(theirs.parameters())
    for model, one in ((ours, optimizer), (theirs, alone)):
        for step in range(1, 5):
            for part in range(3):
                (loss_of(model, 3 * step + part, 0) / 3).backward()
            one.step()
            one.zero_grad(set_to_none=step % 2 == 0)
            assert all(p.grad is None if step % 2 == 0 else not p.grad.any() for p in model.parameters())
    assert torch.equal(flat(ours), flat(theirs))


@pytest.mark.parametrize("name", ["AdamW", "AdamW, fused", "SGD", "a user's own"])
def test_a_step_that_a_grad_scaler_skips_still_counts(name):
    ours, theirs = network(), network()
    optimizer, alone = laconic.LocalSteps(INNER[name](ours.parameters()), every=50), INNER[name](theirs.parameters())
    for model, one in ((ours, optimizer), (theirs, alone)):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(1, 7):
            one.zero_grad()
            loss = loss_of(model, step, 0) * (float("inf") if step in (2, 5) else 1.0)
            scaler.scale(loss).backward()
            if step == 3:
                scaler.unscale_(one)
            scaler.step(one)
            scaler.update()
        assert scaler.get_scale() == 256.0
    assert torch.equal(flat(ours), flat(theirs))
    assert optimizer.stats()["step"] == 6 and optimizer.stats()["totals"]["skipped"] == 2
    assert not hasattr(optimizer.inner, "found_inf")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_parameters_keep_their_type_and_place(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)).to(dtype)
    model[1].float()
    places = [p.data_ptr() for p in model.parameters()]
    optimizer = laconic.LocalSteps(Plain(model.parameters(), lr=0.1), every=3, outer="nesterov", delay=1)
    for step in range(1, 12):
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        optimizer.step()
        if step % 3 == 2:  # silent
            expected = [(b - p.grad * 0.1) for b, p in zip(before, model.parameters())]
            assert all(torch.equal(p.detach(), e) for p, e in zip(model.parameters(), expected))
        saved = [p.detach().clone() for p in model.parameters()]
        with optimizer.synced():
            shown = torch.cat([p.detach().float().reshape(-1) for p in model.parameters()])
        assert all(torch.equal(a, p.detach()) for a, p in zip(saved, model.parameters())), step
        rounded = optimizer._arena.weights.clone()
        optimizer._core.synced_weights(rounded)
        assert torch.equal(rounded[:136].to(dtype).float(), shown[:136]) and torch.equal(rounded[136:], shown[136:])
    assert [p.dtype for p in model.parameters()] == [dtype] * 2 + [torch.float32] * 2
    assert [p.data_ptr() for p in model.parameters()] == places


def test_an_element_that_rests_in_low_precision_does_not_move():
    """What rounding took from it is no displacement: a rule by signs would move it."""
    weight = nn.Parameter(torch.full((128,), 0.1, dtype=torch.bfloat16))
    optimizer = laconic.LocalSteps(Plain([weight], lr=0.5), every=1, outer="sign", outer_lr=0.013, outer_betas=(0, 0))
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    common, later = torch.zeros(128), torch.zeros(128)
    optimizer._core.synced_weights(common)
    assert bool((common != weight.detach().float()).all())
    for _ in range(5):
        weight.grad = torch.cat([torch.ones(64), torch.zeros(64)]).bfloat16()
        optimizer.step()
    optimizer._core.synced_weights(later)
    assert torch.equal(later[64:], common[64:]) and bool((later[:64] < common[:64]).all())


def test_tied_frozen_strided_and_empty_parameters():
    torch.manual_seed(0)
    tied = nn.Linear(8, 8, bias=False)
    frozen = nn.Linear(4, 4).requires_grad_(False)
    conv = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
    turned = nn.Parameter(torch.randn(6, 10).t())
    empty = nn.Parameter(torch.zeros(0, 3))
    parameters = [*nn.ModuleList([tied, tied, frozen, conv]).parameters(), turned, empty]
    reference = [p.detach().clone() for p in parameters]
    places, strides = [p.data_ptr() for p in parameters], [p.stride() for p in parameters]
    optimizer = laconic.LocalSteps(Plain(parameters), every=2, codec="int8")
    for step in range(1, 5):
        for p, r in zip(parameters, reference):
            p.grad = torch.ones_like(p) if p.requires_grad else None
            if step < 2 and p.requires_grad:
                r -= 0.1
        optimizer.step()
        if step < 2:
            assert all(torch.equal(p.detach(), r) for p, r in zip(parameters, reference))
    assert len(optimizer._arena.parameters) == 5
    assert [p.data_ptr() for p in parameters] == places and [p.stride() for p in parameters] == strides
    assert all(torch.equal(p, r) for p, r in zip(frozen.parameters(), reference[1:3]))
    for p, begin in zip(optimizer._arena.parameters, optimizer._arena.begins):  # every element has its own place
        own = optimizer._arena.weights.as_strided(p.shape, p.stride(), begin)
        assert torch.equal(own, p.detach())


def test_a_parameter_without_gradient_rests():
    """Neither a weight decay of the outer rule nor its momentum moves it."""
    used, unused = (nn.Parameter(torch.ones(100)) for _ in range(2))
    optimizer = laconic.LocalSteps(Plain([used, unused], lr=0.1), every=2, outer="sign", outer_weight_decay=0.5)
    unused.grad = torch.ones(100)
    for step in range(1, 9):
        used.grad = torch.ones(100)
        optimizer.step()
        if step == 2:
            after = unused.detach().clone()
            unused.grad = None
    assert bool((after != 1).all()) and torch.equal(unused.detach(), after) and bool((used < after).all())


def test_a_parameter_that_the_inner_optimizer_moves_without_gradient_does_not_rest():
    weight = nn.Parameter(torch.ones(100))
    inner = Plain([weight])
    inner.register_step_post_hook(lambda *_: weight.data.mul_(0.5))
    optimizer = laconic.LocalSteps(inner, every=2)
    for _ in range(4):
        optimizer.step()
    with optimizer.synced():
        assert torch.allclose(weight.detach(), torch.tensor(0.5**4))


@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize("delay", [0, 2])
def test_a_resume_is_exact_at_every_step(name, delay):
    options = dict(every=4, outer="nesterov", codec="int4", delay=delay, fragments=2)
    whole = network()
    straight = laconic.LocalSteps(INNER[name](whole.parameters()), **options)
    saved = {}
    for step in range(1, 16):
        train(whole, straight, 1, 0, step)
        saved[step] = through_file({"model": whole.state_dict(), "optimizer": straight.state_dict()})
    for step in range(1, 12):
        model = network(seed=5)
        optimizer = laconic.LocalSteps(INNER[name](model.parameters()), **options)
        model.load_state_dict(saved[step]["model"])
        optimizer.load_state_dict(saved[step]["optimizer"])
        train(model, optimizer, 15 - step, 0, step + 1)
        assert torch.equal(flat(model), flat(whole)), step
        assert optimizer.stats()["step"] == 15


def test_saving_changes_nothing_and_loading_takes_a_copy():
    one, two = network().bfloat16(), network().bfloat16()
    first, second = (laconic.DiLoCo(torch.optim.AdamW(m.parameters(), lr=1e-2), every=4, delay=2) for m in (one, two))

    def go(model, optimizer, step):
        optimizer.zero_grad()
        (model(torch.full((2, 16), 0.1 * step, dtype=torch.bfloat16)).float().square().sum()).backward()
        optimizer.step()

    for step in range(1, 14):
        go(one, first, step)
        go(two, second, step)
        saved = copy.deepcopy(second.state_dict())
        second.load_state_dict(saved)
        with second.synced():
            second.state_dict()
        assert torch.equal(flat(one), flat(two)), step
    before = copy.deepcopy(saved["inner"]["state"][0]["exp_avg"])
    go(two, second, 14)
    assert torch.equal(saved["inner"]["state"][0]["exp_avg"], before)


def test_a_state_that_does_not_fit_changes_nothing():
    model = network()
    optimizer = laconic.LocalSteps(torch.optim.AdamW(model.parameters()), every=4)
    train(model, optimizer, 3, 0)
    state = copy.deepcopy(optimizer.state_dict())
    other = laconic.LocalSteps(torch.optim.AdamW(network().parameters()), every=8)
    with pytest.raises(laconic.InvalidArgument, match="every is 8 in the state and 4 here"):
        optimizer.load_state_dict(other.state_dict())
    with pytest.raises(laconic.InvalidArgument, match="no `inner`"):
        optimizer.load_state_dict({k: v for k, v in state.items() if k != "inner"})
    with pytest.raises(laconic.InvalidArgument, match=r"parameter 0 is \(8, 16\) in the state and \(32, 16\) here"):
        optimizer.load_state_dict(laconic.LocalSteps(torch.optim.AdamW(network(width=8).parameters()), every=4).state_dict())
    now = optimizer.state_dict()
    assert torch.equal(now["inner"]["state"][0]["exp_avg"], state["inner"]["state"][0]["exp_avg"])
    assert all(torch.equal(now["state"][name], value) for name, value in state["state"].items())
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(laconic.InvalidArgument, match="cannot be copied"):
            make(optimizer)


def test_the_last_exchange_is_at_total_steps_or_by_hand():
    for options in (dict(total_steps=7), {}):
        model = network()
        optimizer = laconic.LocalSteps(Plain(model.parameters()), every=4, outer="momentum", delay=2, fragments=2, **options)
        train(model, optimizer, 7, 0)
        if not options:
            with optimizer.synced():
                assert not torch.equal(flat(model), optimizer._arena.weights)
            optimizer.synchronize()
        own = flat(model).clone()
        with optimizer.synced():
            assert torch.equal(flat(model), own)
        optimizer.synchronize()
        assert torch.equal(flat(model), own)


def test_evaluation_shows_the_common_weights():
    model = network()
    first = flat(model).clone()
    optimizer = laconic.LocalSteps(Plain(model.parameters()), every=3)
    with optimizer.synced():
        assert torch.equal(flat(model), first)
    train(model, optimizer, 2, 0)
    own = flat(model).clone()
    with pytest.raises(ZeroDivisionError):
        with optimizer.synced():
            assert torch.equal(flat(model), first)
            with pytest.raises(laconic.InvalidArgument, match=r"step\(\) inside synced\(\)"):
                optimizer.step()
            1 / 0
    assert torch.equal(flat(model), own)
    train(model, optimizer, 1, 0, 3)
    assert optimizer.stats()["kind"] == "dense"


# What is refused, and that nothing is lost by it.


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(every=4, delay=5), "delay = 5 with every = 4.*at most 4"),
        (dict(every=4, delay=3, fragments=2), "delay = 3 with every = 4 and fragments = 2.*at most 2"),
        (dict(every=0), "every = 0.*>= 1"),
        (dict(every=2.5), "every=2.5: it must be a whole number"),
        (dict(every=4, fragments=5), "fragments = 5 with every = 4"),
        (dict(merge=0.5), "merge = 0.5 with delay = 0"),
        (dict(outer="adam"), "outer.*adam"),
        (dict(codec="int3"), "codec.*int3"),
        (dict(gap_penalty=0.5), "gap_penalty = 0.5"),
    ],
)
def test_settings_that_do_not_fit(options, words):
    model = network()
    before = flat(model).clone()
    with pytest.raises(laconic.InvalidArgument, match=words):
        laconic.LocalSteps(torch.optim.AdamW(model.parameters()), **options)
    assert torch.equal(flat(model), before)


def test_an_inner_optimizer_that_is_none():
    weight = nn.Parameter(torch.zeros(3))
    with pytest.raises(laconic.InvalidArgument, match="laconic's AdamW, which exchanges by itself"):
        laconic.LocalSteps(laconic.AdamW([weight], lr=0.1))
    with pytest.raises(laconic.InvalidArgument, match="inner optimizer is list: give a torch.optim.Optimizer"):
        laconic.LocalSteps([weight])
    with pytest.raises(TypeError, match="lr"):
        laconic.LocalSteps(torch.optim.SGD([weight]), lr=0.1)
    with pytest.raises(laconic.InvalidArgument, match="float64"):
        laconic.LocalSteps(torch.optim.SGD([nn.Parameter(torch.zeros(3, dtype=torch.float64))]))
    rateless = Plain([weight])
    rateless.param_groups[0]["lr"] = None
    laconic.LocalSteps(rateless)
    with pytest.raises(laconic.InvalidArgument, match="outer=sign.*group 0 of Plain has none"):
        laconic.LocalSteps(rateless, outer="sign")
    twin = nn.Parameter(weight.data)
    with pytest.raises(laconic.InvalidArgument, match="parameter 1 lies in the memory of parameter 0"):
        laconic.LocalSteps(torch.optim.SGD([weight, twin]))
    with pytest.raises(laconic.InvalidArgument, match="exchanges no gradients"):
        laconic.LocalSteps(Plain([twin]))._take_over({})


@pytest.mark.parametrize("write", [lambda p: p.mul_(2), lambda p: p.data.mul_(2), lambda p: setattr(p, "data", p.data * 2)])
def test_weights_that_are_written_between_steps(write):
    model, reference = network(), network()
    optimizer = laconic.LocalSteps(Plain(model.parameters()), every=3)
    other = laconic.LocalSteps(Plain(reference.parameters()), every=3)
    with torch.no_grad():
        write(model[2].weight)  # before the first step a write counts
        write(reference[2].weight)
    for step in range(1, 3):
        train(model, optimizer, 1, 0, step)
        train(reference, other, 1, 0, step)
    own, gradient = model[2].weight.detach().clone(), model[2].weight.grad.clone()
    with torch.no_grad():
        write(model[2].weight)
    for call in (optimizer.step, optimizer.synchronize, optimizer.state_dict, optimizer.synced().__enter__):
        with pytest.raises(laconic.InvalidArgument, match=r"parameter 2 was written to between step 2 and 3.*synchronize\(\)"):
            call()
    assert torch.equal(model[2].weight.grad, gradient) and torch.equal(model[2].weight.detach(), own * 2)
    with torch.no_grad():
        model[2].weight.copy_(own)  # undone: nothing was lost
    train(model, optimizer, 1, 0, 3)
    train(reference, other, 1, 0, 3)
    assert torch.equal(flat(model), flat(reference))
    with torch.no_grad():
        write(model[2].weight)  # in sync a write counts
        write(reference[2].weight)
    written = flat(model).clone()
    with optimizer.synced():
        assert torch.equal(flat(model), written)
    train(model, optimizer, 3, 0, 4)
    train(reference, other, 3, 0, 4)
    assert torch.equal(flat(model), flat(reference))


def test_parameters_that_changed_or_moved():
    model = network()
    inner = Plain(model.parameters())
    optimizer = laconic.LocalSteps(inner, every=3)
    model.bfloat16()  # before the first step
    inputs = torch.ones(2, 16)
    model(inputs.bfloat16()).sum().backward()
    optimizer.step()
    assert optimizer._arena.parameters[0].dtype == torch.bfloat16
    place = model[0].weight.data_ptr()
    model.share_memory()  # other memory, the same values
    assert model[0].weight.data_ptr() != place
    optimizer.step()
    model.float()
    with pytest.raises(laconic.InvalidArgument, match=r"\(32, 16\) torch.float32 on cpu and was \(32, 16\) torch.bfloat16"):
        optimizer.step()
    model.bfloat16()
    model.zero_grad()
    optimizer.step()
    assert optimizer.stats()["step"] == 3
    kept = model[0].weight.data
    model[0].weight.data = torch.zeros(3, 16, dtype=torch.bfloat16)
    with pytest.raises(laconic.InvalidArgument, match=r"parameter 0 is \(3, 16\).*and was \(32, 16\)"):
        optimizer.step()
    model[0].weight.data = kept
    group = inner.param_groups[0]["params"]
    other, group[1] = group[1], nn.Parameter(torch.zeros(32))
    with pytest.raises(laconic.InvalidArgument, match="has 6 parameters, the first other one at 1"):
        optimizer.step()
    group[1] = other
    optimizer.step()
    assert optimizer.stats()["step"] == 4


def test_an_unfrozen_parameter_is_named():
    model = network()
    model[0].requires_grad_(False)
    optimizer = laconic.LocalSteps(Plain(model.parameters()), every=3)
    train(model, optimizer, 2, 0)
    model[0].requires_grad_(True)
    with pytest.warns(UserWarning, match="parameter 0, parameter 1 needed no gradient"):
        optimizer.step()


def test_a_checkpoint_folder_holds_the_inner_state(tmp_path):
    for name, make in {**INNER, "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=4)}.items():
        models = [network(seed=s) for s in (1, 7)]
        optimizers = [laconic.LocalSteps(make(m.parameters()), every=4, codec="int8", delay=1) for m in models]

        def go(k, first, last):
            for step in range(first, last):

                def closure():
                    optimizers[k].zero_grad()
                    loss = loss_of(models[k], step, 0)
                    loss.backward()
                    return loss

                optimizers[k].step(closure)

        go(0, 1, 6)
        laconic.save(tmp_path / name, optimizers[0], {"epoch": 3})
        assert laconic.resume(tmp_path / name, optimizers[1]) == {"epoch": 3}
        go(0, 6, 12)
        go(1, 6, 12)
        assert torch.equal(flat(models[0]), flat(models[1])), name
    with pytest.raises(laconic.InvalidArgument, match="laconic.inner"):
        laconic.save(tmp_path / "x", optimizers[0], {"laconic.inner": "mine"})


def test_an_inner_state_that_cannot_be_averaged_is_named(tmp_path):
    model = network()
    inner = Plain(model.parameters())
    inner.state[model[0].weight]["mood"] = "sunny"
    with pytest.raises(laconic.InvalidArgument, match="0.mood is str"):
        laconic.save(tmp_path / "x", laconic.LocalSteps(inner, every=4))
    inner.state[model[0].weight]["mood"] = 2**60
    with pytest.raises(laconic.InvalidArgument, match="mood.*beyond"):
        laconic.consolidate(laconic.LocalSteps(inner, every=4))


def test_hooks_of_both_optimizers_are_called():
    model, calls = network(), []
    inner = Plain(model.parameters())
    optimizer = laconic.LocalSteps(inner, every=2)
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    inner.register_step_post_hook(lambda *_: calls.append("inner"))
    optimizer.register_state_dict_post_hook(lambda opt, saved: calls.append("saved"))
    optimizer.register_load_state_dict_post_hook(lambda opt: calls.append("loaded"))
    train(model, optimizer, 1, 0)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "inner", "after", "saved", "loaded"]
