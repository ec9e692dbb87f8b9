"""Folders as `laconic train` and `laconic compare` write them, with invented numbers, for tests of the report."""
import json
import math
import random

PARAMETERS = 272_474
ARMS = {  # name: (bits a step, seconds a step, seconds exposed, excess of the final loss)
    "adamw": (32.0, 0.185, 0.131, 0.0),
    "adamw-bf16": (16.0, 0.112, 0.058, 0.001),
    "one-bit-adam": (5.66, 0.071, 0.019, 0.002),
    "zero-one-adam": (0.62, 0.058, 0.006, -0.004),
    "birder": (1.02, 0.061, 0.008, 0.035),
}
MACHINE = "2 × Some CPU, 8 GiB, Linux 6.1"


def write_run(folder, arm, seed, steps, task="fashion-mnist", model="resnet20", emulate="100mbit,1ms", diverge_at=None):
    bits, step_seconds, exposed, excess = ARMS[arm]
    folder.mkdir(parents=True)
    noise = random.Random(f"{arm}{seed}")
    total, seconds, loss, accuracy = 0, 0.0, None, None
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, steps + 1):
            coded = bits >= 1 or step % 8 == 0
            sent = int(PARAMETERS * bits * 1.5 / 8 * (1 if bits >= 1 else 8)) if coded else 0
            total += sent
            seconds += step_seconds * noise.uniform(0.95, 1.1)
            clean = 0.28 + excess + 2.05 * math.exp(-6 * step / steps) + 0.25 * math.exp(-1.5 * step / steps)
            record = {"step": step, "loss": clean + noise.gauss(0, 0.06), "lr": 0.001, "kind": "coded" if coded else "silent",
                      "bytes": sent, "bytes_total": total, "seconds": seconds, "step_seconds": step_seconds,
                      "exposed_seconds": exposed, "bad_blocks": 0}
            if diverge_at and step >= diverge_at:
                record["loss"] = None
            if step % max(1, steps // 25) == 0:
                loss = None if record["loss"] is None else clean + 0.03 + noise.gauss(0, 0.004)
                accuracy = None if loss is None else 0.925 - 0.25 * (loss - 0.35)
                record |= {"validation_loss": loss, "validation_metric": accuracy}
            file.write(json.dumps(record) + "\n")
    summary = {"optimizer": arm, "task": task, "model": model, "parameters": PARAMETERS, "ranks": 4, "steps": steps, "seed": seed,
               "batch": 64, "lr": 0.001, "final_loss": loss, "final_metric": accuracy, "metric": "accuracy",
               "bits_per_parameter_per_step": bits, "rounds": 2 * steps if bits >= 1 else steps // 4,
               "bytes_sent_per_rank": total, "skipped_steps": 0, "seconds": seconds, "weights_hash": "c0ffee", "emulate": emulate,
               "engine": "threads", "describe": f"{arm}: {PARAMETERS} parameters in 3 buckets, 4 ranks as threads, seed {seed}",
               "command": f"laconic train --task {task} --model {model} --optimizer {arm} --seed {seed}",
               "version": "0.1.0", "torch": "2.13.0", "threads": 1, "machine": MACHINE}
    (folder / "summary.json").write_text(json.dumps(summary))
    return summary


def write_comparison(folder, arms=tuple(ARMS), seeds=(1, 2, 3), steps=2000, **changes):
    """`changes`: fields of an arm that are other than what its runs say, {arm: {field: value}}."""
    result = []
    for arm in arms:
        names = [f"{arm}-seed{seed}" for seed in seeds]
        runs = [write_run(folder / name, arm, seed, steps) for name, seed in zip(names, seeds)]
        losses, metrics = [r["final_loss"] for r in runs], [r["final_metric"] for r in runs]
        reached = arm != "birder"
        result.append(runs[0] | {
            "final_loss_mean": sum(losses) / len(losses), "final_loss_spread": (max(losses) - min(losses)) / 2,
            "final_metric_mean": sum(metrics) / len(metrics), "final_metric_spread": (max(metrics) - min(metrics)) / 2,
            "step_seconds": ARMS[arm][1], "exposed_seconds": ARMS[arm][2], "training_seconds": runs[0]["seconds"],
            "seconds_to_baseline": runs[0]["seconds"] * 0.97 if reached else None,
            "steps_to_baseline": int(steps * 0.97) if reached else None, "runs": names} | changes.get(arm.replace("-", "_"), {}))
    frontier = {cost: [one["optimizer"] for one in result if not any(
        other[field] <= one[field] and other["final_loss_mean"] <= one["final_loss_mean"] and other is not one for other in result)]
        for cost, field in (("bits", "bits_per_parameter_per_step"), ("rounds", "rounds"), ("seconds", "training_seconds"))}
    (folder / "summary.json").write_text(json.dumps({
        "task": "fashion-mnist", "model": "resnet20", "ranks": 4, "steps": steps, "seeds": list(seeds), "emulate": "100mbit,1ms",
        "frontier": frontier, "baseline": "adamw", "command": f"laconic compare --optimizers {','.join(arms)} --seeds {len(seeds)} --ranks 4 --emulate 100mbit,1ms",
        "version": "0.1.0", "torch": "2.13.0", "machine": MACHINE, "arms": result}))
