"""Programs of the kind that people really run; each ends with the weights of DistributedDataParallel and torch's AdamW."""
import copy

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from beside import batch, loss_of, net, same
from launch import over

STEPS = 12


def rank_of():
    return torch.distributed.get_rank()


def train(model, optimizer, parallel, steps=range(STEPS), rows=8):
    for t in steps:
        optimizer.zero_grad()
        loss_of(parallel, t, rank_of(), rows).backward()
        optimizer.step()


@over(2)
def test_a_gan_trains_two_modules_in_turns(rank, ranks):
    def build():
        torch.manual_seed(0)
        return nn.ModuleDict({"g": nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)), "d": nn.Linear(16, 1)})

    def program(model, optimizer_of, parallel):
        g, d = parallel(model["g"]), parallel(model["d"])
        of_g, of_d = optimizer_of(model["g"].parameters(), lr=1e-3), optimizer_of(model["d"].parameters(), lr=1e-3)
        for t in range(STEPS):
            real = batch(t, rank)[0]
            fake = g(batch(t + 100, rank)[0])
            of_d.zero_grad()
            (model["d"](fake.detach()).mean() - d(real).mean()).backward()
            of_d.step()
            of_g.zero_grad()
            for p in model["d"].parameters():
                p.requires_grad_(False)
            (-model["d"](fake).mean()).backward()
            for p in model["d"].parameters():
                p.requires_grad_(True)
            of_g.step()
        return model

    same(build, program)


@over(2)
def test_an_average_of_the_weights_is_kept_beside(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer, average = optimizer_of(model.parameters()), copy.deepcopy(model)
        for t in range(STEPS):
            train(model, optimizer, parallel(model), [t])
            with torch.no_grad():
                for kept, now in zip(average.parameters(), model.parameters()):
                    kept.lerp_(now, 0.1)
        return average

    same(net, program)


@over(2)
def test_stochastic_weight_averaging_ends_with_the_average(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer, average = optimizer_of(model.parameters()), AveragedModel(model)
        for t in range(STEPS):
            train(model, optimizer, parallel(model), [t])
            if t >= 6:
                average.update_parameters(model)
        return average.module

    same(net, program)


class LowRank(nn.Module):
    """A frozen linear layer with a trained correction of rank 2."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.base, self.down, self.up = nn.Linear(16, 4), nn.Linear(16, 2, bias=False), nn.Linear(2, 4, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


@over(2)
def test_low_rank_adapters_train_beside_a_frozen_base(rank, ranks):
    def program(model, optimizer_of, parallel):
        before = model.base.weight.clone()
        train(model, optimizer_of(model.parameters()), parallel(model))
        assert torch.equal(model.base.weight, before)
        return model

    same(LowRank, program)


@over(2)
def test_gradients_may_be_probed_between_steps(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        for t in range(STEPS):
            train(model, optimizer, parallel(model), [t])
            probe = torch.autograd.grad(loss_of(model, 50 + t, rank), list(model.parameters()))
            assert all(torch.isfinite(g).all() for g in probe)
            assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
        return model

    same(net, program)


@over(2)
def test_a_curriculum_changes_the_size_of_batches(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        for t in range(STEPS):
            train(model, optimizer, parallel(model), [t], rows=2 + t // 3)
        return model

    same(net, program)


@over(2)
def test_training_in_two_stages_with_an_optimizer_each(rank, ranks):
    def program(model, optimizer_of, parallel):
        model[0].requires_grad_(False)
        head = optimizer_of([p for p in model.parameters() if p.requires_grad])
        inner = parallel(model)
        for t in range(6):
            train(model, head, inner, [t])
        del head
        return model

    def second(model, optimizer_of, parallel):
        first = copy.deepcopy(program(model, optimizer_of, parallel))  # as read from a file
        first.requires_grad_(True)
        train(first, optimizer_of(first.parameters(), lr=1e-3), parallel(first), range(6, 14))
        return first

    same(net, second)


@over(2)
def test_evaluation_inside_training_changes_nothing(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        for t in range(STEPS):
            train(model, optimizer, parallel(model), [t])
            model.eval()
            with torch.no_grad():
                loss_of(model, 99, rank)
            model.train()
        return model

    same(net, program)


@over(2)
def test_a_notebook_cell_that_makes_the_optimizer_is_run_again(rank, ranks):
    def program(model, optimizer_of, parallel):
        inner = parallel(model)
        for cell in range(3):
            optimizer = optimizer_of(model.parameters())
            train(model, optimizer, inner, range(5 * cell, 5 * cell + 5))
        return model

    same(net, program)


@over(2)
def test_accumulation_with_a_shorter_last_step(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer, inner = optimizer_of(model.parameters()), parallel(model)
        for t in range(10):
            optimizer.zero_grad()
            for k in range(1 if t in (4, 9) else 3):
                (loss_of(inner, 10 * t + k, rank) / 3).backward()
            optimizer.step()
        return model

    same(net, program)


@over(2)
def test_schedulers_of_torch_set_the_rates(rank, ranks):
    def with_scheduler(make):
        def program(model, optimizer_of, parallel):
            optimizer = optimizer_of(model.parameters())
            scheduler = make(optimizer)
            for t in range(STEPS):
                train(model, optimizer, parallel(model), [t])
                scheduler.step(*([1.0] if isinstance(scheduler, ReduceLROnPlateau) else []))
            return model

        return program

    same(net, with_scheduler(lambda o: CosineAnnealingLR(o, STEPS)))
    same(net, with_scheduler(lambda o: OneCycleLR(o, 1e-2, total_steps=STEPS + 1, cycle_momentum=False)))
    same(net, with_scheduler(lambda o: ReduceLROnPlateau(o, patience=2)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.last.weight = self.first.weight
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        return self.out(self.last(torch.tanh(self.first(x))))


@over(2)
def test_tied_weights_are_one_parameter(rank, ranks):
    def program(model, optimizer_of, parallel):
        train(model, optimizer_of(model.parameters()), parallel(model))
        assert model.first.weight is model.last.weight
        return model

    same(Tied, program)


@over(2)
def test_groups_have_rates_of_their_own_that_change(rank, ranks):
    def program(model, optimizer_of, parallel):
        groups = [dict(params=model[0].parameters(), lr=1e-3), dict(params=model[2:].parameters(), weight_decay=0.1)]
        optimizer = optimizer_of(groups)
        for t in range(STEPS):
            if t == 7:
                optimizer.param_groups[1]["lr"], optimizer.param_groups[0]["weight_decay"] = 3e-3, 0.2
            train(model, optimizer, parallel(model), [t])
        return model

    same(net, program)


@over(2)
def test_step_with_a_closure(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer, inner = optimizer_of(model.parameters()), parallel(model)
        for t in range(STEPS):

            def closure(t=t):
                optimizer.zero_grad()
                loss = loss_of(inner, t, rank)
                loss.backward()
                return loss

            assert optimizer.step(closure) > 0
        return model

    same(net, program)


@over(2)
def test_pretrained_weights_are_loaded_after_the_optimizer_was_made(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        torch.manual_seed(5)
        model.load_state_dict({name: torch.randn_like(value) / 4 for name, value in model.state_dict().items()})
        train(model, optimizer, parallel(model))
        return model

    same(net, program)


@over(2)
def test_a_layer_is_initialised_anew_in_the_middle(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        for t in range(STEPS):
            if t == 7:
                torch.manual_seed(3)
                model[4].reset_parameters()
            train(model, optimizer, parallel(model), [t])
        return model

    same(net, program)


@over(2)
def test_a_run_goes_on_from_its_saved_states_in_new_objects(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        train(model, optimizer, parallel(model), range(6))
        states = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        model = net()
        model.load_state_dict(states[0])
        optimizer = optimizer_of(model.parameters())
        optimizer.load_state_dict(states[1])
        train(model, optimizer, parallel(model), range(6, STEPS))
        return model

    same(net, program)


class Routed(nn.Module):
    """One of three experts per step, another one on each rank."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.experts, self.out, self.step = nn.ModuleList(nn.Linear(16, 8) for _ in range(3)), nn.Linear(8, 4), 0

    def forward(self, x):
        expert = self.experts[(self.step * self.step + rank_of()) % 3]
        self.step += 1
        return self.out(torch.tanh(expert(x)))


@over(2, 3)
def test_experts_that_are_used_now_and_then(rank, ranks):
    def program(model, optimizer_of, parallel):
        train(model, optimizer_of(model.parameters()), parallel(model))
        return model

    same(Routed, program)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net()

    def forward(self, x):
        return self.inner[4](checkpoint(self.inner[:4], x, use_reentrant=False))


@over(2)
def test_activations_are_computed_again_in_backward(rank, ranks):
    def program(model, optimizer_of, parallel):
        train(model, optimizer_of(model.parameters()), parallel(model))
        return model

    same(Checkpointed, program)


@over(2)
def test_hooks_scale_gradients(rank, ranks):
    def program(model, optimizer_of, parallel):
        model[2].weight.register_hook(lambda g: g * 0.5)
        train(model, optimizer_of(model.parameters()), parallel(model))
        return model

    same(net, program)


@over(2)
def test_weights_are_clamped_after_every_step(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer = optimizer_of(model.parameters())
        for t in range(STEPS):
            train(model, optimizer, parallel(model), [t])
            for p in model.parameters():
                p.data.clamp_(-0.2, 0.2)
        return model

    same(net, program)


@over(2)
def test_gradients_are_zeroed_in_place_by_the_module(rank, ranks):
    def program(model, optimizer_of, parallel):
        optimizer, inner = optimizer_of(model.parameters()), parallel(model)
        for t in range(STEPS):
            model.zero_grad(set_to_none=False)
            loss_of(inner, t, rank).backward()
            optimizer.step()
        return model

    same(net, program)


@over(2)
def test_losses_of_two_heads_are_added(rank, ranks):
    def build():
        torch.manual_seed(0)
        return nn.ModuleDict({"body": nn.Linear(16, 8), "a": nn.Linear(8, 4), "b": nn.Linear(8, 4)})

    class Both(nn.Module):
        def __init__(self, parts):
            super().__init__()
            self.parts = parts

        def forward(self, x):
            hidden = torch.tanh(self.parts["body"](x))
            return self.parts["a"](hidden), self.parts["b"](hidden)

    def program(model, optimizer_of, parallel):
        both = Both(model)
        optimizer, inner = optimizer_of(both.parameters()), parallel(both)
        for t in range(STEPS):
            optimizer.zero_grad()
            (x, y), (one, two) = batch(t, rank), inner(batch(t, rank)[0])
            ((one - y).square().mean() + 0.1 * (two + y).abs().mean()).backward()
            optimizer.step()
        return model

    same(build, program)
