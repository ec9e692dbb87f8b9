#!/usr/bin/env python3
"""Records torch.optim's AdamW and SGD into torch_golden.json beside this file. Needs torch 2.13; the tests do not.

The gradient of element k at step t needs no file: with s(rank, step) the uniform numbers of stream "data" (3),
bucket 0, key (2025, step), it is (s(0, t) + s(1, 0)/4) * 2^-(k % 7), and 0 where k % 16 is 15. All of it is exact in fp32.
"""
import json
from pathlib import Path

import numpy as np

from reference_means import DATA, f32, uniform

ELEMENTS, STEPS, SEED = 257, 200, 2025
SAVED = (1, 2, 5, 10, 50, 100, 200)
CASES = {
    "adamw": {"algorithm": "adamw", "config": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.1}},
    "adam": {"algorithm": "adamw", "config": {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.0}},
    "sgdm": {"algorithm": "sgdm", "config": {"momentum": 0.9, "weight_decay": 0.0}},
}


def golden_gradient(t, elements=ELEMENTS):
    k = np.arange(elements)
    sum_ = uniform(DATA, 0, elements, (SEED, t)) + uniform(DATA, 1, elements, (SEED, 0)) * f32(0.25)
    return np.where(k % 16 == 15, f32(0), sum_ * np.exp2(-(k % 7)).astype(f32))


def learning_rates():
    """Linear warm-up over 20 steps, then linear decay."""
    return [1e-2 * min(t / 20, 1 - (t - 20) / 200) for t in range(1, STEPS + 1)]


def make(torch, case, x):
    config = case["config"]
    if case["algorithm"] == "sgdm":
        return torch.optim.SGD([x], lr=1.0, momentum=config["momentum"], dampening=0, weight_decay=0, nesterov=False)
    betas = (config["beta1"], config["beta2"])
    return torch.optim.AdamW([x], lr=1.0, betas=betas, eps=config["epsilon"], weight_decay=config["weight_decay"])


def record(torch, case, weights, lrs):
    x = torch.nn.Parameter(torch.from_numpy(weights.copy()))
    optimizer, saved = make(torch, case, x), {}
    for t, lr in enumerate(lrs, 1):
        optimizer.param_groups[0]["lr"] = lr
        x.grad = torch.from_numpy(golden_gradient(t))
        optimizer.step()
        if t in SAVED:
            saved[str(t)] = shortest(x.detach().numpy())
    return case | {"x": saved}


def shortest(values):
    """The shortest decimals that read back as the same fp32."""
    return [float(str(value)) for value in values]


def main():
    import torch

    if not torch.__version__.startswith("2.13."):
        raise SystemExit(f"torch is {torch.__version__}; the golden file records 2.13: pip install torch==2.13.0")
    torch.set_num_threads(1)
    weights, lrs = uniform(DATA, 2, ELEMENTS, (SEED, 0)), learning_rates()
    golden = {
        "torch": torch.__version__.split("+")[0],
        "seed": SEED,
        "lr": lrs,
        "weights": shortest(weights),
        "cases": {name: record(torch, case, weights, lrs) for name, case in CASES.items()},
    }
    text = json.dumps(golden, separators=(",", ":")).replace('],"', '],\n"').replace('},"', '},\n"')
    Path(__file__).with_name("torch_golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
