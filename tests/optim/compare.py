#!/usr/bin/env python3
"""Compares the optimizers with the NumPy reference, bit for bit and step by step, and with what torch computed.

    compare.py OPTIM_TRACE [--only PART] [--keep DIR] [--list]

Each case is a folder: weights.f32, gradients.f32 (steps x ranks x P) and case.json go in; OPTIM_TRACE case.json FOLDER
writes x.f32 (steps x ranks x P) and synced.f32 (steps x P), a step's rows after a synchronize() that follows it.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import reference
from reference_local import LocalSteps
from reference_means import f32
from torch_golden import golden_gradient

ALGORITHMS = reference.ALGORITHMS | {"local-steps": LocalSteps}
STEPS = 100


def learning_rates(kind, steps=STEPS, peak=3e-3):
    span = range(1, steps + 1)
    return {
        "constant": [peak for t in span],
        "warm-up": [peak * min(t / 20, (steps + 1 - t) / (steps - 20)) for t in span],
        "drop": [peak if t <= 60 else peak / 10 for t in span],
        "early drop": [peak if t <= 17 else peak / 10 for t in span],
        "restarts": [peak * (0.51 + 0.49 * math.cos(math.pi * (t % 25) / 25)) for t in span],
        "decay": [peak * 0.95 ** max(0, t - 40) for t in span],
        "zeros": [0.0 if t in (1, 5, 34, 57, 58, steps) or 20 <= t <= 22 else peak for t in span],
    }[kind]


def random_gradients(random, ranks, elements, steps=STEPS):
    """A common part and noise, in mixed magnitudes; elements, words and blocks seen never, late, or on one rank only."""
    magnitude = 10.0 ** random.uniform(-2, 0, elements)
    magnitude[random.random(elements) < 0.05] *= 1e-6
    common = random.standard_normal(elements)
    g = random.standard_normal((steps, ranks, elements), f32)
    g = ((g + common.astype(f32)) * magnitude.astype(f32)).astype(f32)
    if elements == 1:
        return g
    kind = random.random(elements)
    g[:, :, kind < 0.04] = 0
    g[:25, :, (0.04 <= kind) & (kind < 0.08)] = 0
    g[:70, :, (0.08 <= kind) & (kind < 0.12)] = 0
    g[:, 1:, (0.12 <= kind) & (kind < 0.16)] = 0
    words = np.arange(elements) // 64
    g[:, :, (words >= 8) & (words < 16)] = 0
    g[:66, :, (words >= 16) & (words < 24)] = 0
    g[:, 0, (words == 1) | (words == 40)] = 0
    seldom = (words % 5 == 2)[None, None, :] & (random.random((steps, ranks, 1)) < 0.7)
    return np.where(seldom, f32(0), g)


def spoil(g):
    """Values that are not finite, on every kind of step."""
    last = g.shape[1] - 1
    for step, rank, k, value in (
        (4, last, 70, np.nan), (19, 0, 5, np.inf), (42, last, 130, -np.inf), (52, 0, 71, 1e17), (55, last, 72, np.nan),
    ):  # fmt: skip
        g[step - 1, rank, k] = value
    return g


def case(algorithm, ranks, elements, lr="constant", synchronize_at=(), bad=False, note="", ranges=None, **config):
    options = " ".join(f"{key}={value}" for key, value in config.items())
    name = f"{algorithm} n={ranks} P={elements} lr={lr} {options} {note}".strip()
    return {
        "name": name, "algorithm": algorithm, "ranks": ranks, "elements": elements, "steps": STEPS, "config": config,
        "lr": learning_rates(lr), "synchronize_at": list(synchronize_at), "bad": bad, "ranges": ranges or [],
    }  # fmt: skip


def zero_one_cases():
    def zero_one(*place, **config):
        usual = {"weight_decay": 0.01, "variance_freeze_step": 33, "variance_kappa": 16, "double_every": 15}
        return case("zero-one-adam", *place, **(usual | {"max_interval": 16, "scale_block": 4096} | config))

    for place, block, norm, lr in (
        ((1, 1), 4096, "l2", "constant"), ((2, 1), 64, "l1", "warm-up"), ((4, 1), 0, "l2", "drop"),
        ((1, 63), 64, "l2", "warm-up"), ((3, 63), 4096, "l1", "restarts"), ((4, 63), 0, "l2", "constant"),
        ((1, 200), 64, "l1", "drop"), ((2, 200), 64, "l2", "restarts"), ((3, 200), 256, "l2", "warm-up"),
        ((4, 200), 0, "l1", "warm-up"), ((1, 4097), 0, "l2", "constant"), ((2, 4097), 4096, "l2", "warm-up"),
        ((3, 4097), 256, "l1", "drop"), ((4, 4097), 64, "l2", "restarts"), ((1, 9000), 0, "l1", "restarts"),
        ((2, 9000), 0, "l2", "drop"), ((3, 9000), 4096, "l2", "constant"), ((4, 9000), 256, "l2", "warm-up"),
        ((1, 9000), 4096, "l2", "warm-up"),
    ):  # fmt: skip
        yield zero_one(*place, scale_block=block, scale_norm=norm, lr=lr)
    small = {"scale_block": 64, "scale_norm": "l2"}
    yield zero_one(3, 200, **small, lr="zeros")
    yield zero_one(2, 4097, **small, lr="zeros", double_every=3)
    yield zero_one(3, 200, **small, bias_correction=False)
    yield zero_one(4, 4097, **small, variance_floor=0.0)
    yield zero_one(2, 200, **small, variance_floor=0.1, variance_freeze_step=29, beta1=0.8, beta2=0.95, epsilon=1e-6, variance_kappa=4)
    yield zero_one(3, 4097, **small, double_every=1, max_interval=16, weight_decay=0.3)
    yield zero_one(3, 200, **small, double_every=4, max_interval=6)
    yield zero_one(2, 200, **small, variance_freeze_step=1, double_every=20)
    yield zero_one(3, 4097, **small, synchronize_at=(10, 33, 34, 50, 55, 77, 78, 100), note="synchronize")
    yield zero_one(4, 9000, lr="decay", double_every="auto")
    yield zero_one(3, 200, **small, lr="drop", double_every="auto", max_interval=8)
    yield zero_one(2, 4097, **small, lr="restarts", double_every="auto")
    yield zero_one(2, 200, **small, variance_freeze_step=40, note="freeze between variance steps")
    early = {"lr": "early drop", "variance_freeze_step": 17, "double_every": "auto"}
    yield zero_one(2, 200, **small, **early, note="a variance step before a long interval")
    yield zero_one(3, 200, **small, total_steps=100, double_every=4, note="the last step syncs")
    yield zero_one(1, 4097, **small, dense_codec="int8", lr="zeros")
    yield zero_one(2, 9000, dense_codec="int4", lr="drop", variance_freeze_step=70, variance_kappa=8)
    yield zero_one(4, 200, **small, dense_codec="int4", quant_block=64, lr="restarts")


def one_bit_cases():
    def one_bit(*place, **config):
        return case("one-bit-adam", *place, **({"weight_decay": 0.01, "freeze_step": 30} | config))

    for place, block, norm, lr in (
        ((1, 1), 4096, "l2", "constant"), ((4, 1), 64, "l1", "drop"), ((2, 63), 0, "l2", "warm-up"),
        ((1, 200), 64, "l2", "restarts"), ((3, 200), 64, "l1", "warm-up"), ((2, 4097), 4096, "l2", "warm-up"),
        ((3, 4097), 0, "l2", "drop"), ((4, 4097), 256, "l1", "constant"), ((1, 9000), 0, "l2", "warm-up"),
        ((2, 9000), 64, "l2", "zeros"), ((3, 9000), 4096, "l1", "restarts"), ((4, 9000), 0, "l2", "warm-up"),
    ):  # fmt: skip
        yield one_bit(*place, scale_block=block, scale_norm=norm, lr=lr)
    yield one_bit(3, 200, scale_block=64, bias_correction=False)
    yield one_bit(2, 4097, scale_block=256, variance_floor=0.0)
    yield one_bit(2, 200, scale_block=64, freeze_step=1)
    yield one_bit(2, 200, scale_block=64, freeze_step=1000, note="never freezes")
    yield one_bit(3, 200, scale_block=64, freeze_step="auto", beta2=0.9, lr="warm-up")
    yield one_bit(1, 200, scale_block=64, dense_codec="int4", quant_block=64)
    yield one_bit(2, 9000, dense_codec="int8", lr="warm-up")
    yield one_bit(3, 4097, scale_block=256, dense_codec="int4", freeze_step="auto", beta2=0.9)


def birder_cases():
    def birder(*place, **config):
        return case("birder", *place, **({"beta": 0.9, "weight_decay": 0.01} | config))

    for exchange in ("two-round", "single-round", "count"):
        yield birder(1, 63, exchange=exchange, seed=1)
        yield birder(2, 4097, exchange=exchange, seed=2, lr="warm-up")
        yield birder(3, 9000, exchange=exchange, seed=3, beta=0.95, lr="restarts")
        yield birder(4, 200, exchange=exchange, seed=4294967295, lr="zeros")
    yield birder(4, 1, exchange="two-round", seed=5)
    yield birder(4, 1, exchange="single-round", seed=6)


def dense_cases():
    yield case("adamw", 1, 200, lr="warm-up", weight_decay=0.1)
    yield case("adamw", 3, 4097, lr="zeros", weight_decay=0.1)
    yield case("adamw", 4, 63, weight_decay=0.0, bias_correction=False, beta1=0.8, beta2=0.95)
    yield case("sgdm", 1, 63, lr="warm-up", momentum=0.9, weight_decay=0.0)
    yield case("sgdm", 3, 4097, lr="drop", momentum=0.8, weight_decay=0.1)


def integer_cases():
    yield case("adamw", 1, 200, lr="warm-up", weight_decay=0.1, codec="int8")
    yield case("adamw", 2, 4097, lr="restarts", weight_decay=0.1, codec="int4", quant_block=64)
    yield case("adamw", 3, 9000, weight_decay=0.1, codec="int4", feedback="ema", feedback_reset=23)
    yield case("adamw", 4, 63, weight_decay=0.1, codec="int8", feedback="none", bias_correction=False)
    yield case("sgdm", 4, 4097, lr="drop", momentum=0.8, weight_decay=0.1, codec="int4", feedback="ema")
    yield case("sgdm", 2, 200, lr="zeros", momentum=0.9, codec="int8", feedback="full")


def tensor_cases():
    """Tensors that span buckets, and several in one."""
    few = [(0, 90), (90, 30), (120, 80)]
    many = [(0, 5003), (5003, 1), (5004, 3700), (8704, 296)]
    yield case("lamb", 1, 200, lr="warm-up", weight_decay=0.1)
    yield case("lamb", 3, 200, weight_decay=0.1, ranges=few, bucket_elements=64)
    yield case("lamb", 2, 9000, lr="zeros", weight_decay=0.1, ranges=many, bucket_elements=4100)
    yield case("lamb", 4, 200, weight_decay=0.0, bias_correction=False, beta1=0.8, beta2=0.95, ranges=few, min_trust=0.9, max_trust=1.2)
    yield case("lamb", 3, 9000, lr="restarts", weight_decay=0.1, codec="int4", feedback="ema", ranges=many, bucket_elements=3000)
    one_bit = {"weight_decay": 0.01, "freeze_step": 30}
    yield case("one-bit-lamb", 1, 1, **one_bit)
    yield case("one-bit-lamb", 3, 200, scale_block=64, ranges=few, bucket_elements=70, **one_bit)
    yield case("one-bit-lamb", 2, 9000, scale_block=256, lr="warm-up", ranges=many, bucket_elements=4100, **one_bit)
    yield case("one-bit-lamb", 4, 9000, scale_block=0, scale_norm="l1", ranges=many, lr="zeros", **one_bit)
    yield case("one-bit-lamb", 2, 4097, scale_block=256, variance_floor=0.0, **one_bit)
    yield case("one-bit-lamb", 3, 200, scale_block=64, ranges=few, freeze_step="auto", beta2=0.9, lr="warm-up")
    yield case("one-bit-lamb", 2, 200, scale_block=64, freeze_step=1, weight_decay=0.01, bias_correction=False)


def lion_cases():
    yield case("lion", 1, 200, lr="warm-up", weight_decay=0.1)
    yield case("lion", 3, 4097, lr="zeros", weight_decay=0.1, beta1=0.95, beta2=0.98)
    yield case("lion", 4, 63, lr="drop", weight_decay=0.01, codec="int8", feedback="ema", feedback_reset=23)
    yield case("lion", 2, 4097, lr="restarts", codec="int4", quant_block=64)

    def voting(*place, **config):
        return case("distributed-lion", *place, **({"weight_decay": 0.01} | config))

    for form in ("vote", "count"):
        yield voting(1, 63, form=form)
        yield voting(2, 4097, form=form, lr="warm-up")
        yield voting(3, 9000, form=form, lr="restarts", beta1=0.95, beta2=0.98)
        yield voting(4, 200, form=form, lr="zeros", momentum_sync_every=7)
        yield voting(4, 9000, form=form, ranks_per_node=2, note="nodes")
        yield voting(6, 4097, form=form, ranks_per_node=3, note="nodes")
        yield voting(3, 200, form=form, ranks_per_node=3, note="one node")
        yield voting(3, 200, form=form, scale_block=64, bad=True, note="bad blocks")
        yield voting(4, 200, form=form, ranks_per_node=2, scale_block=64, bad=True, note="bad blocks on nodes")
    yield voting(4, 1)
    yield voting(2, 4097, momentum_sync_every=1, lr="drop")


def local_cases():
    def local(*place, **config):
        return case("local-steps", *place, **({"weight_decay": 0.01, "scale_block": 64, "quant_block": 64} | config))

    yield local(1, 200, every=7)
    yield local(2, 4097, lr="warm-up", every=10, outer="nesterov", codec="int4")
    yield local(3, 200, inner="sgdm", every=1, momentum=0.8, outer="momentum", outer_momentum=0.5, codec="int8")
    yield local(3, 4097, lr="zeros", every=10, outer="sign", outer_weight_decay=0.1, outer_lr=2.0)
    yield local(2, 200, every=20, outer="sign", outer_beta1=0.9, outer_beta2=0.95, codec="sign", clip=0.01)
    yield local(4, 4097, lr="drop", every=5, codec="sign", scale_block=4096)
    yield local(3, 9000, lr="warm-up", every=6, outer="nesterov", codec="sign", scale_block=256)
    yield local(4, 63, every=4, outer="nesterov", codec="int2", feedback="ema", feedback_reset=7)
    yield local(2, 200, every=4, codec="int4", feedback="none", outer="momentum", gap_penalty=2.5, clip=0.001)
    yield local(3, 200, every=9, codec="int4", feedback="decay", feedback_decay=0.6, total_steps=100)
    yield local(2, 4097, lr="restarts", every=12, fragments=5, codec="int4")
    yield local(3, 200, every=8, fragments=8, outer="nesterov", total_steps=100, note="a fragment per step")
    yield local(2, 4097, every=12, delay=12, outer="momentum", note="the next one begins as it is applied")
    yield local(3, 200, lr="drop", every=12, delay=4, outer="sign")
    yield local(4, 9000, every=16, fragments=4, delay=3, outer="nesterov", codec="int4", total_steps=95)
    yield local(3, 4097, every=8, fragments=2, delay=2, merge=0.5, codec="sign", total_steps=100)
    yield local(2, 9000, lr="warm-up", every=6, codec="top-k", feedback="decay", top_k=100)
    yield local(3, 4097, every=5, codec="top-k", codec_down="int4", outer="nesterov", fragments=2, delay=2, top_k=40)
    yield local(4, 200, every=4, codec="int4", codec_down="int8", feedback="decay")
    yield local(2, 4097, every=8, inner="lion", beta2=0.98, outer="nesterov", codec="int8")
    yield local(3, 200, lr="zeros", every=5, inner="lion", fragments=3, outer="momentum")
    synced = (3, 8, 9, 30, 31, 33, 100)
    yield local(2, 200, every=8, outer="nesterov", codec="int8", synchronize_at=synced, note="synchronize")
    yield local(3, 4097, every=8, fragments=2, delay=3, outer="nesterov", codec="int4", synchronize_at=synced, note="synchronize")


def bad_cases():
    block = {"scale_block": 64, "weight_decay": 0.01, "bad": True, "note": "bad blocks"}
    yield case("adamw", 2, 200, **block)
    yield case("adamw", 3, 200, codec="int4", quant_block=64, **block)
    yield case("sgdm", 2, 200, momentum=0.9, codec="int8", feedback="ema", quant_block=128, **block)
    yield case("one-bit-adam", 3, 200, freeze_step=30, **block)
    tensors = {"ranges": [(0, 90), (90, 30), (120, 80)]}
    yield case("lamb", 2, 200, **tensors, **block)
    yield case("lamb", 3, 200, codec="int8", quant_block=64, bucket_elements=128, **tensors, **block)
    yield case("one-bit-lamb", 3, 200, freeze_step=30, bucket_elements=128, **tensors, **block)
    yield case("one-bit-adam", 3, 200, freeze_step=30, dense_codec="int8", quant_block=64, **block)
    policy = {"variance_freeze_step": 33, "variance_kappa": 16, "double_every": 10, "max_interval": 4}
    yield case("zero-one-adam", 3, 200, **policy, **block)
    yield case("zero-one-adam", 2, 200, **policy, dense_codec="int4", quant_block=128, **block)
    yield case("birder", 3, 200, exchange="two-round", seed=7, **block)
    yield case("lion", 2, 200, **block)
    yield case("local-steps", 3, 200, every=5, fragments=2, outer="nesterov", codec="int4", quant_block=64, **block)


def every_case():
    for cases in (zero_one_cases, one_bit_cases, birder_cases, dense_cases, integer_cases, tensor_cases, lion_cases, local_cases, bad_cases):
        yield from cases()


def run_program(program, folder, case, weights, gradients):
    """Every rank's weights (steps, n, P) and the synchronized ones (steps, P), as the program under test has them."""
    folder.mkdir(parents=True, exist_ok=True)
    weights.astype("<f4").tofile(folder / "weights.f32")
    gradients.astype("<f4").tofile(folder / "gradients.f32")
    text = {key: value for key, value in case.items() if key not in ("name", "bad")}
    (folder / "case.json").write_text(json.dumps(text, indent=1))
    done = subprocess.run([program, folder / "case.json", folder], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    shape = (case["steps"], case["ranks"], case["elements"])
    return read(folder / "x.f32", shape), read(folder / "synced.f32", (shape[0], 1, shape[2]))


def read(path, shape):
    values = np.fromfile(path, "<f4")
    if values.size != math.prod(shape):
        raise RuntimeError(f"{path.name} holds {values.size} values, not {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def run_reference(case, weights, gradients):
    shape = {"ranges": case["ranges"]} if case["ranges"] else {}
    optimizer = ALGORITHMS[case["algorithm"]](weights, case["ranks"], **shape, **case["config"])
    x, synced = [], []
    for t, (g, lr) in enumerate(zip(gradients, case["lr"]), 1):
        optimizer.step(g, lr)
        if t in case["synchronize_at"]:
            optimizer.synchronize()
        x.append(optimizer.x)
        synced.append(optimizer.synced[None])
    return np.array(x), np.array(synced)


def first_difference(got, expected, what):
    """Where the bits first differ, as text; None where they never do."""
    different = got.view(np.uint32) != expected.view(np.uint32)
    if not different.any():
        return None
    step, rank, element = (int(i) for i in np.argwhere(different)[0])
    a, b = got[step, rank, element], expected[step, rank, element]
    where = f"{what} step {step + 1} rank {rank} element {element}"
    values = f"program {a!r} ({a.view(np.uint32):08x}), reference {b!r} ({b.view(np.uint32):08x})"
    return f"{where}: {values}; {different[step].sum()} of {different[step].size} values of that step differ"


def compare_case(program, folder, number, case):
    random = np.random.default_rng(1000 + number)
    weights = random.standard_normal(case["elements"]).astype(f32)
    gradients = random_gradients(random, case["ranks"], case["elements"])
    gradients = spoil(gradients) if case["bad"] else gradients
    x, synced = run_program(program, folder, case, weights, gradients)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = run_reference(case, weights, gradients)
    found = (first_difference(x, expected[0], "x"), first_difference(synced, expected[1], "synced"))
    return next((text for text in found if text), None)


def compare_torch(program, folder, golden, name, ranks):
    """All ranks have torch's gradient, so the mean is exact; 1e-6 * (1 + |x|) is the tolerance."""
    recorded, weights = golden["cases"][name], np.array(golden["weights"], f32)
    steps, elements = len(golden["lr"]), len(weights)
    gradients = np.array([[golden_gradient(t, elements)] * ranks for t in range(1, steps + 1)], f32)
    case = {key: recorded[key] for key in ("algorithm", "config")}
    case |= {"ranks": ranks, "elements": elements, "steps": steps, "lr": golden["lr"], "synchronize_at": []}
    x, _ = run_program(program, folder, case, weights, gradients)
    for step, values in recorded["x"].items():
        error = np.abs(x[int(step) - 1] - np.array(values)) / (1 + np.abs(values))
        if not error.max() <= 1e-6:
            rank, element = np.unravel_index(error.argmax(), error.shape)
            a, b = x[int(step) - 1, rank, element], values[element]
            return f"x step {step} rank {rank} element {element}: program {a!r}, torch {b!r}"
    return None


def jobs(program, folder):
    """(name, a function that returns the first difference or None)."""
    for number, case in enumerate(every_case()):
        yield case["name"], lambda: compare_case(program, folder / f"{number:03d}", number, case)
    golden = json.loads(Path(__file__).with_name("torch_golden.json").read_text())
    for name in golden["cases"]:
        for ranks in (1, 2):
            there = folder / f"torch-{name}-{ranks}"
            yield f"torch {name} n={ranks}", lambda: compare_torch(program, there, golden, name, ranks)


def attempt(job):
    try:
        return job()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="optim_trace")
    parser.add_argument("--only", default="", help="run the cases whose name holds this")
    parser.add_argument("--keep", help="keep the cases' folders here")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    program = Path(arguments.program).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        count = failed = 0
        for name, job in jobs(program, Path(arguments.keep or scratch)):
            if arguments.only not in name:
                continue
            begin = time.monotonic()
            wrong = None if arguments.list else attempt(job)
            count, failed = count + 1, failed + bool(wrong)
            print(f"{'DIFFERS' if wrong else 'same'}  {time.monotonic() - begin:5.2f} s  {name}", flush=True)
            if wrong:
                print(f"         {wrong}", flush=True)
    print(f"{count} cases, {failed} differ")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
