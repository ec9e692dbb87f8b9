"""The optimizers over torch.distributed follow the NumPy reference bit for bit, and C++ with ranks as threads."""
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from launch import over

import compare
import laconic

CLASSES = {
    "sgdm": laconic.SGD, "adamw": laconic.AdamW, "lamb": laconic.LAMB, "one-bit-adam": laconic.OneBitAdam,
    "one-bit-lamb": laconic.OneBitLAMB, "zero-one-adam": laconic.ZeroOneAdam, "birder": laconic.Birder,
    "lion": laconic.Lion, "distributed-lion": laconic.DistributedLion,
}  # fmt: skip


def made(case, parameters):
    """The optimizer of a case, by the names that Python's users write."""
    config = dict(case["config"])
    if "beta1" in config or "beta2" in config:
        config["betas"] = (config.pop("beta1", 0.9), config.pop("beta2", 0.999))
    if "epsilon" in config:
        config["eps"] = config.pop("epsilon")
    if "bucket_elements" in config:
        config["bucket_mb"] = config.pop("bucket_elements") / 2**18
    return CLASSES[case["algorithm"]](parameters, lr=1e-3, **config)


def trace(case, weights, gradients, rank):
    """This rank's weights and the synchronized ones after each step. A parameter per range."""
    places = [slice(begin, begin + count) for begin, count in case.get("ranges") or [(0, len(weights))]]
    parameters = [torch.nn.Parameter(torch.from_numpy(weights[place].copy())) for place in places]
    optimizer = made(case, parameters)
    x, synced = [], []
    for t, lr in enumerate(case["lr"], 1):
        for parameter, place in zip(parameters, places):
            parameter.grad = torch.from_numpy(gradients[t - 1, rank, place].copy())
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        optimizer.zero_grad()
        if t in case["synchronize_at"]:
            optimizer.synchronize()
        x.append(np.concatenate([parameter.detach().numpy() for parameter in parameters]))
        with optimizer.synced():
            synced.append(np.concatenate([parameter.detach().numpy() for parameter in parameters]))
    return np.array(x)[:, None], np.array(synced)[:, None]


def inputs(number, case):
    random = np.random.default_rng(1000 + number)
    weights = random.standard_normal(case["elements"]).astype(np.float32)
    gradients = compare.random_gradients(random, case["ranks"], case["elements"])
    return weights, compare.spoil(gradients) if case["bad"] else gradients


def gathered(mine):
    """All ranks' arrays, joined along the axis of ranks."""
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return np.concatenate(every, axis=1)


@over(1, 2, 4)
def test_every_case_follows_the_reference_bit_for_bit(rank, ranks):
    wrong = []
    cases = [(number, case) for number, case in enumerate(compare.every_case()) if case["ranks"] == ranks and case["algorithm"] in CLASSES]
    for at, (number, case) in enumerate(cases):
        weights, gradients = inputs(number, case)
        x, synced = trace(case, weights, gradients, rank)
        x = gathered(x)
        if at % ranks != rank:  # another rank computes the reference
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            expected = compare.run_reference(case, weights, gradients)
        found = compare.first_difference(x, expected[0], "x")
        found = found or compare.first_difference(synced, expected[1], "synced")
        wrong += [f"{case['name']}: {found}"] if found else []
    return "\n".join(wrong)


def larger_cases():
    """Several buckets, hierarchies, clipping."""
    zero_one = dict(variance_freeze_step=33, double_every=15, weight_decay=0.01)
    for config in (
        {"bucket_elements": 8192}, {"bucket_elements": 8192, "ranks_per_node": 2}, {"max_grad_norm": 1.0}, {"bf16": True},
    ):  # fmt: skip
        yield compare.case("zero-one-adam", 4, 30000, lr="warm-up", **zero_one, **config)
        yield compare.case("one-bit-adam", 4, 30000, lr="warm-up", freeze_step=30, **config)
        yield compare.case("birder", 4, 30000, exchange="single-round", seed=9, **config)
        yield compare.case("adamw", 4, 30000, weight_decay=0.1, **config)


@over(4)
def test_cpp_with_threads_gives_the_same_weights(rank, ranks):
    program = os.environ.get("LACONIC_OPTIM_TRACE")
    if program is None:
        return None
    wrong = []
    for number, case in enumerate(larger_cases()):
        weights, gradients = inputs(number, case)
        x, synced = trace(case, weights, gradients, rank)
        x = gathered(x)
        if number % ranks != rank:
            continue
        with tempfile.TemporaryDirectory() as folder:
            expected = compare.run_program(Path(program).resolve(), Path(folder), case, weights, gradients)
        found = compare.first_difference(x, expected[0], "x")
        found = found or compare.first_difference(synced, expected[1], "synced")
        wrong += [f"{case['name']}: {found}"] if found else []
    return "\n".join(wrong)
