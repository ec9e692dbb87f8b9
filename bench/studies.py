"""Trainings that docs/results.md is made of. Each study is a function that runs commands and returns rows for a table.

Runs go to .run/studies/<study>, and what is finished there is kept: a study that was cut off goes on where it was.
"""
import json
import os
import pathlib
import shlex
import statistics
import subprocess

LACONIC = "build/laconic"
RUNS = pathlib.Path(".run/studies")
ARMS = "adamw,one-bit-adam,zero-one-adam,birder"
FIELDS = ("optimizer", "lr", "final_loss_mean", "final_loss_spread", "final_metric_mean", "final_metric_spread", "bits_per_parameter_per_step",
          "rounds", "bytes_sent_per_rank", "step_seconds", "exposed_seconds", "steps_to_baseline", "seconds_to_baseline")


class MissingData(Exception):
    pass


def data(name):
    """A file of the folder that LACONIC_DATA names: shakespeare.txt, sst2/."""
    path = pathlib.Path(os.environ.get("LACONIC_DATA", "data")) / name
    if not path.exists():
        raise MissingData(f"{path} is not there: set LACONIC_DATA to a folder with {name}")
    return str(path)


def run(commands, line):
    """Runs a command line, and remembers it as people would type it."""
    shown = line.replace(os.environ.get("LACONIC_DATA", "data") + "/", "$LACONIC_DATA/")
    print(f"+ {shown}", flush=True)
    subprocess.run(shlex.split(line), check=True, stdout=subprocess.DEVNULL)
    commands.append(shown)


def compare(commands, study, options, arms=ARMS):
    out = RUNS / study
    run(commands, f"{LACONIC} compare {options} --optimizers {arms} --out {out} --resume")
    summary = json.loads((out / "summary.json").read_text())
    return [{field: arm.get(field) for field in FIELDS} for arm in summary["arms"]]


def fashion_mnist(commands):
    return compare(commands, "fashion_mnist", "--task fashion-mnist --model resnet20 --ranks 4 --seeds 3", "adamw,sgdm,one-bit-adam,zero-one-adam,birder")


def text(commands):
    return compare(commands, "text", f"--task text --data {data('shakespeare.txt')} --model gpt2-mini --ranks 4 --seeds 3")


def network(rate, model):
    """Step time and time to AdamW's quality on an emulated network. Bits do not depend on it, so one seed tells the time."""
    def study(commands):
        task = {"resnet20": "--task fashion-mnist", "gpt2-mini": "--task text --data "}[model]
        if model == "gpt2-mini":
            task += data("shakespeare.txt")
        rows = compare(commands, f"network_{model}_{rate}", f"{task} --model {model} --ranks 4 --emulate {rate},100us")
        alone = statistics.median(row["step_seconds"] - row["exposed_seconds"] for row in rows)
        return [{**row, "compute_seconds": alone} for row in rows]
    return study


def bert(commands, seeds=5):
    """Pre-training by each optimizer, fine-tuning by AdamW: accuracy on held-out training sentences."""
    sentences = data("sst2")
    common = f"--data {sentences} --model bert-mini --ranks 2 --set data.tokenizer=bpe --set data.context=48 --set data.held_out=6735"
    rows = []
    for arm in ARMS.split(","):
        losses, accuracies, bits = [], [], []
        for seed in range(1, seeds + 1):
            folder = RUNS / "bert" / f"{arm}-seed{seed}"
            for task, optimizer, extra in (("mlm", arm, ""), ("sst2", "adamw", f"--init {folder}/mlm/model.safetensors --lr 5e-4 --steps 300")):
                if not (folder / task / "summary.json").exists():
                    run(commands, f"{LACONIC} train --task {task} {common} --optimizer {optimizer} --seed {seed} {extra} --out {folder}/{task} --overwrite")
            pre, fine = (json.loads((folder / task / "summary.json").read_text()) for task in ("mlm", "sst2"))
            losses.append(pre["final_loss"])
            accuracies.append(fine["final_metric"])
            bits.append(pre["bits_per_parameter_per_step"])
        rows.append({"optimizer": arm, "pretraining_loss": statistics.mean(losses), "pretraining_loss_spread": statistics.stdev(losses),
                     "accuracy": statistics.mean(accuracies), "accuracy_spread": statistics.stdev(accuracies), "bits_per_parameter_per_step": bits[0]})
    return rows


def medians(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()][3:]
    return {name: statistics.median(line[name] for line in lines) for name in ("step_seconds", "exposed_seconds")}


def overlap(commands):
    """A model of 8 buckets and more, at the rate where its dense exchange takes as long as backward."""
    options = f"{LACONIC} train --task text --data generated --model gpt2-mini --optimizer adamw --ranks 2 --steps 25 --set optimizer.bucket_elements=65536"
    out = RUNS / "overlap"
    run(commands, f"{options} --out {out}/free --overwrite")
    summary = json.loads((out / "free/summary.json").read_text())
    free = medians(out / "free")
    backward = (free["step_seconds"] - free["exposed_seconds"]) * 2 / 3
    sent = summary["bytes_sent_per_rank"] / summary["steps"]
    rate = int(sent * 8 / backward / 1e6)
    run(commands, f"{options} --emulate {rate}mbit --out {out}/slow --overwrite")
    slow = medians(out / "slow")
    exchange = sent * 8 / (rate * 1e6)
    return [{"buckets": -(-summary["parameters"] // 65536), "rate_mbit": rate, "backward_seconds": backward, "exchange_seconds": exchange,
             "exposed_seconds": slow["exposed_seconds"], "exposed_share": slow["exposed_seconds"] / exchange,
             "step_seconds": slow["step_seconds"], "step_seconds_without_network": free["step_seconds"]}]


def gpt2(commands):
    """GPT-2 small (124 M parameters) takes real steps with every optimizer."""
    rows = []
    for optimizer in ("sgdm", *ARMS.split(",")):
        out = RUNS / "gpt2" / optimizer
        run(commands, f"{LACONIC} train --task text --data generated --model gpt2 --optimizer {optimizer} --ranks 2 --batch 1 --steps 3 "
                      f"--set data.context=64 --set run.validation_examples=2 --set model.dropout=0 --out {out} --overwrite")
        summary = json.loads((out / "summary.json").read_text())
        steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        rows.append({"optimizer": optimizer, "parameters": summary["parameters"], "loss_first": steps[0]["loss"], "loss_last": steps[-1]["loss"],
                     "step_seconds": statistics.median(step["step_seconds"] for step in steps), "peak_memory_gib_both_ranks": summary["peak_memory_bytes"] / 2**30})
    return rows


STUDIES = {
    "fashion_mnist": fashion_mnist,
    "text": text,
    "bert": bert,
    **{f"network_{model}_{rate}": network(rate, model) for model in ("gpt2-mini", "resnet20") for rate in ("100mbit", "1gbit")},
    "overlap": overlap,
    "gpt2": gpt2,
}
