"""The optimizers over torch.distributed follow the NumPy reference bit for bit, and C++ with ranks as threads."""
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from launch import over

import compare
import laconic

CLASSES = {
    "sgdm": laconic.SGD, "adamw": laconic.AdamW, "one-bit-adam": laconic.OneBitAdam,
    "zero-one-adam": laconic.ZeroOneAdam, "birder": laconic.Birder,
}  # fmt: skip


def made(case, parameters):
    """The optimizer of a case, by the names that Python's users write."""
    config = dict(case["config"])
    if "beta1" in config or "beta2" in config:
        config["betas"] = (config.pop("beta1", 0.9), config.pop("beta2", 0.999))
    if "epsilon" in config:
        config["eps"] = config.pop("epsilon")
    return CLASSES[case["algorithm"]](parameters, lr=1e-3, **config)


def trace(case, weights, gradients, rank):
    """This rank's weights and the synchronized ones after each step."""
    parameter = torch.nn.Parameter(torch.from_numpy(weights.copy()))
    optimizer = made(case, [parameter])
    x, synced = [], []
    for t, lr in enumerate(case["lr"], 1):
        parameter.grad = torch.from_numpy(gradients[t - 1, rank].copy())
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        optimizer.zero_grad()
        if t in case["synchronize_at"]:
            optimizer.synchronize()
        x.append(parameter.detach().numpy().copy())
        with optimizer.synced():
            synced.append(parameter.detach().numpy().copy())
    return np.array(x)[:, None], np.array(synced)[:, None]


def inputs(number, case):
    random = np.random.default_rng(1000 + number)
    weights = random.standard_normal(case["elements"]).astype(np.float32)
    gradients = compare.random_gradients(random, case["ranks"], case["elements"])
    return weights, compare.spoil(gradients) if case["bad"] else gradients


@over(1, 2, 4)
def test_every_case_follows_the_reference_bit_for_bit(rank, ranks):
    wrong = []
    for number, case in enumerate(compare.every_case()):
        if case["ranks"] != ranks:
            continue
        weights, gradients = inputs(number, case)
        x, synced = trace(case, weights, gradients, rank)
        with np.errstate(invalid="ignore", over="ignore"):
            expected_x, expected_synced = compare.run_reference(case, weights, gradients)
        found = compare.first_difference(x, expected_x[:, rank : rank + 1], "x")
        found = found or compare.first_difference(synced, expected_synced, "synced")
        wrong += [f"{case['name']}: {found}"] if found else []
    return "\n".join(wrong)
