"""The same program with laconic's optimizer, and with DistributedDataParallel and torch's own."""
import copy
import functools

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import laconic

OWN = {laconic.AdamW: torch.optim.AdamW, laconic.SGD: torch.optim.SGD}


def net():
    """Three layers in several buckets (of 0.001 MiB, see EXACT)."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 4))


EXACT = dict(lr=1e-2, weight_decay=0.01, bucket_mb=0.001)


def batch(step, rank, rows=8):
    """The batch of a step on a rank: inputs and targets."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(rows, 16, generator=generator), torch.randn(rows, 4, generator=generator)


def loss_of(model, step, rank, rows=8):
    x, y = batch(step, rank, rows)
    return (model(x) - y).square().mean()


def both(program, make=laconic.AdamW, build=net, **options):
    """Runs program(module, optimizer, forward) twice; `forward` is what the batch goes through.

    Returns laconic's optimizer. The weights of both runs agree as rounding allows.
    """
    options = {**EXACT, **options}
    if make is laconic.SGD:
        options = {**options, "weight_decay": 0.0, "momentum": 0.9}  # torch couples weight decay, laconic does not
    ours = build()
    theirs = copy.deepcopy(ours)
    optimizer = make(ours.parameters(), **options)
    program(ours, optimizer, ours)
    options.pop("bucket_mb")
    wrapped = DistributedDataParallel(theirs, find_unused_parameters=True)
    program(theirs, OWN[make](theirs.parameters(), **options), wrapped)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters()):
        worst = ((a - b).abs() / (1 + b.abs())).max().item()
        assert worst < 2e-6, f"{name} differs by {worst}"
    return optimizer


def overlapped(optimizer):
    """Whether the next step will begin its exchange during backward."""
    return optimizer._overlap.active


def run(build, program, ours):
    """program(model, optimizer_of, parallel) -> model: with laconic's optimizers, or with DDP and torch's.

    optimizer_of(parameters, **options) makes an AdamW; parallel(module) is what batches go through.
    """
    model = build()
    if ours:
        options = {"bucket_mb": 0.001}
        return program(model, lambda p, **own: laconic.AdamW(p, **{"lr": 1e-2, **options, **own}), lambda module: module)
    wrap = functools.lru_cache(None)(lambda module: DistributedDataParallel(module, find_unused_parameters=True))
    return program(model, lambda p, **own: torch.optim.AdamW(p, **{"lr": 1e-2, **own}), wrap)


def same(build, program):
    """The program ends with the same weights both ways, as rounding allows."""
    a, b = run(build, program, True), run(build, program, False)
    for (name, one), other in zip(a.named_parameters(), b.parameters()):
        worst = ((one - other).abs() / (1 + other.abs())).max().item()
        assert worst < 3e-6, f"{name} differs by {worst}"
