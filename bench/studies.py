"""Trainings that docs/explanation/results.md is made of. Each study is a function that runs commands and returns rows for a table.

Runs go to .run/studies/<study>, and what is finished there is kept: a study that was cut off goes on where it was.
"""
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys

import forecast
import frontier
import local_steps
import papers

LACONIC = "build/laconic"
RUNS = pathlib.Path(".run/studies")
WARM = 2  # first steps of a run, which are not timed
ARMS = "adamw,one-bit-adam,zero-one-adam,birder"
# Gradients in few bits, and votes, beside what they replace. Coded exact rounds are among the frontier's.
CODED = ("adamw,adamw:codec=int8,adamw:codec=int4,adamw:codec=int4:feedback=ema,adamw:codec=int4:quant_block=64,lion,distributed-lion,distributed-lion:form=count,"
         "lamb,one-bit-lamb")
FIELDS = ("optimizer", "lr", "tuning", "final_loss_mean", "final_loss_spread", "final_metric_mean", "final_metric_spread", "bits_per_parameter_per_step",
          "rounds", "bytes_sent_per_rank", "step_seconds", "exposed_seconds", "steps_to_baseline", "seconds_to_baseline")
PATIENT = "--set run.timeout=3600"  # long studies may be stopped for a while
FASHION_MNIST = "--task fashion-mnist --model resnet20 --set model.width=8 --ranks 4 --batch 16"
# Many methods on models that are small enough for three seeds of each; a third split chooses their rates. Runs that are much shorter than
# those they choose for take rates that are too high, above all of methods that move by signs.
SMALL_IMAGES = f"{FASHION_MNIST.replace('resnet20', 'resnet8')} --threads 1 --steps 600 --seeds 3 --set run.validate_every=200 {PATIENT}"
MASKED = "--model bert-mini --set model.depth=2 --set model.width=64 --ranks 2 --batch 32 --set data.tokenizer=bpe --set data.context=32 --set data.held_out=6735"


class MissingData(Exception):
    pass


class Stopped(Exception):
    """By stop(): the command that was under way left a checkpoint."""


under_way = None  # the process of run()
stopped = False


def stop(number):
    global stopped
    stopped = True
    if under_way:
        under_way.send_signal(number)


def data(name):
    """A file of the folder that LACONIC_DATA names: shakespeare.txt, sst2/."""
    path = pathlib.Path(os.environ.get("LACONIC_DATA", "data")) / name
    if not path.exists():
        raise MissingData(f"{path} is not there: set LACONIC_DATA to a folder with {name}")
    return str(path)


def run(commands, line, out=None, done=False):
    """Runs a command line unless it is done, its output into the file `out` if there is one, and remembers it as people would type it."""
    shown = line.replace(os.environ.get("LACONIC_DATA", "data") + "/", "$LACONIC_DATA/")
    if done:
        return commands.append(shown)
    global under_way
    print(f"+ {shown}", flush=True)
    with open(out or os.devnull, "w") as file:
        under_way = subprocess.Popen(shlex.split(line), stdout=file)
        if stopped:
            stop(signal.SIGTERM)
        code = under_way.wait()
    if stopped and code:
        raise Stopped
    if code:
        raise subprocess.CalledProcessError(code, shlex.split(line))
    commands.append(shown)


def compare(commands, study, options, arms=ARMS):
    out = RUNS / study
    run(commands, f"{LACONIC} compare {options} --optimizers {arms} --out {out} --resume")
    summary = json.loads((out / "summary.json").read_text())
    return [{field: arm.get(field) for field in FIELDS} for arm in summary["arms"]]


def text_options():
    return f"--task text --data {data('shakespeare.txt')} --model gpt2-mini --ranks 4 --batch 2"


def small_text():
    return (f"--task text --data {data('shakespeare.txt')} {frontier.SMALL} --ranks 4 --threads 1 --batch 4 --set run.validation_examples=400 "
            f"--steps 1000 --seeds 3 --set run.validate_every=250 {PATIENT}")


def masked_corpus():
    return f"{data('sst2')},{data('shakespeare.txt')}"


def fashion_mnist(commands):
    return compare(commands, "fashion_mnist", f"{FASHION_MNIST} --steps 800 --seeds 3 --set run.validate_every=100", "adamw,sgdm,one-bit-adam,zero-one-adam,birder")


def text(commands):
    return compare(commands, "text", f"{text_options()} --steps 500 --seeds 3 --set run.validate_every=50 --set run.validation_examples=200")


def coded_fashion_mnist(commands):
    return compare(commands, "fashion_mnist_coded", f"{SMALL_IMAGES} --tune 300", CODED)


def coded_text(commands):
    return compare(commands, "text_coded", f"{small_text()} --tune 500", CODED)


# Local steps: how often ranks exchange and in how many bits; on text the published methods too, at intervals that suit short runs.
LOCAL = ",".join(["adamw", *(f"local-adamw:every={every}:codec={codec}" for every in (5, 10, 25, 100) for codec in ("fp32", "int4", "sign"))])
PUBLISHED = ("local-steps:outer=momentum:outer_momentum=0.5:every=10:codec=int4,diloco:every=25,diloco:every=25:codec=int4,streaming-diloco:every=24,"
             "dsm:every=10,co2:every=10,sparse-loco:every=10")


def local_fashion_mnist(commands):
    return compare(commands, "fashion_mnist_local", f"{SMALL_IMAGES} --tune 200", LOCAL)


def local_text(commands):
    return compare(commands, "text_local", f"{small_text()} --tune 300", f"{LOCAL},{PUBLISHED}")


def seconds_by_kind(folder):
    """The median time of a step of each kind, and of what it leaves exposed, without the first ones."""
    kinds = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines()[WARM:]:
        step = json.loads(line)
        kinds.setdefault(step["kind"], []).append(step)
    return {kind: {name: statistics.median(step[name] for step in steps) for name in ("step_seconds", "exposed_seconds")} for kind, steps in kinds.items()}


def network(study, options, rate):
    """Step time and time to AdamW's quality on an emulated network. What is computed does not depend on the network, bit for bit, so
    40 steps tell the time of each kind of step, and the runs of `study` tell which kinds it took to get there."""
    def measure(commands):
        summary = json.loads((RUNS / study / "summary.json").read_text())
        rows = []
        for arm in summary["arms"]:
            name = arm["optimizer"]
            out = RUNS / f"network_{study}_{rate}" / name
            run(commands, f"{LACONIC} train {options()} --optimizer {name} --steps 40 --emulate {rate},100us --set run.validate_every=100000 --out {out} --overwrite")
            times = seconds_by_kind(out)
            kinds = [json.loads(line)["kind"] for line in (RUNS / study / arm["runs"][0] / "metrics.jsonl").read_text().splitlines()]
            reached = arm["steps_to_baseline"]
            total = [times[kind]["step_seconds"] for kind in kinds]
            rows.append({"optimizer": name, "step_seconds": sum(total) / len(total),
                         "exposed_seconds": sum(times[kind]["exposed_seconds"] for kind in kinds) / len(kinds),
                         "steps_to_baseline": reached, "seconds_to_baseline": sum(total[:reached]) if reached else None})
        alone = min(row["step_seconds"] - row["exposed_seconds"] for row in rows)
        base = rows[0]["seconds_to_baseline"]
        for row in rows:
            row["compute_seconds"] = alone
            row["speed_up"] = base / row["seconds_to_baseline"] if row["seconds_to_baseline"] else None
        return rows
    return measure


def bert(commands, seeds=5):
    """Pre-training by each optimizer, fine-tuning by AdamW: accuracy on held-out training sentences."""
    corpus = masked_corpus()
    common = f"{MASKED} --set data.tokenizer_data={corpus} --set run.validate_every=100000"
    rows = []
    for arm in ARMS.split(","):
        losses, accuracies, bits = [], [], []
        for seed in range(1, seeds + 1):
            folder = RUNS / "bert" / f"{arm}-seed{seed}"
            for task, optimizer, extra in (("mlm", arm, f"--data {corpus} --lr 3e-3 --steps 400"),
                                           ("sst2", "adamw", f"--data {data('sst2')} --init {folder}/mlm/model.safetensors --lr 3e-3 --steps 400")):
                line = f"{LACONIC} train --task {task} {common} --optimizer {optimizer} --seed {seed} {extra} --out {folder}/{task} --overwrite"
                run(commands, line, done=(folder / task / "summary.json").exists())
            pre, fine = (json.loads((folder / task / "summary.json").read_text()) for task in ("mlm", "sst2"))
            losses.append(pre["final_loss"])
            accuracies.append(fine["final_metric"])
            bits.append(pre["bits_per_parameter_per_step"])
        rows.append({"optimizer": arm, "pretraining_loss": statistics.mean(losses), "pretraining_loss_spread": statistics.stdev(losses),
                     "accuracy": statistics.mean(accuracies), "accuracy_spread": statistics.stdev(accuracies), "bits_per_parameter_per_step": bits[0], "accuracies": accuracies})
    return rows


def birder_forms(commands):
    """The forms of Birder's exchange, and what each sends."""
    rows = []
    for form in ("two-round", "single-round", "count"):
        out = RUNS / "birder_forms" / form
        run(commands, f"{LACONIC} train {text_options()} --optimizer birder --exchange {form} --steps 500 --set run.validate_every=100000 "
                      f"--set run.validation_examples=200 --out {out} --overwrite")
        summary = json.loads((out / "summary.json").read_text())
        rows.append({"form": form, **{name: summary[name] for name in ("final_loss", "bits_per_parameter_per_step", "rounds", "bytes_sent_per_rank")}})
    return rows


def overlap(commands, steps=25):
    """A model of 8 buckets and more, at the rate where its dense exchange takes as long as backward: what stays of it after the last rank's backward."""
    options = (f"{LACONIC} train --task text --data generated --model gpt2-mini --optimizer adamw --ranks 2 --batch 16 --steps {steps} "
               "--set run.validation_examples=16 --set optimizer.bucket_elements=65536")
    out = folder("overlap")
    run(commands, f"{options} --trace {out}/free.json --out {out}/free --overwrite")
    summary = json.loads((out / "free/summary.json").read_text())
    free = backward_and_rest(out / "free.json", steps, 0)
    sent = summary["bytes_sent_per_rank"] / summary["steps"]
    rate = int(sent * 8 / free["backward"] / 1e6)
    run(commands, f"{options} --emulate {rate}mbit --trace {out}/slow.json --out {out}/slow --overwrite")
    exchange = sent * 8 / (rate * 1e6)
    slow = backward_and_rest(out / "slow.json", steps, exchange)
    return [{"buckets": -(-summary["parameters"] // 65536), "rate_mbit": rate, "backward_seconds": slow["backward"], "exchange_seconds": exchange,
             "first_bucket_seconds": slow["first"], "exposed_seconds": slow["rest"], "exposed_share": slow["rest"] / exchange,
             "bound_seconds": slow["bound"], "bound_share": slow["bound"] / exchange,
             "step_seconds": slow["step"], "step_seconds_without_network": free["step"]}]


def backward_and_rest(trace, steps, exchange):
    """Medians over the steps of both ranks' time lines: a phase begins and ends with the last rank. `first`: until the first bucket is complete.

    `bound`: what stays of an exchange of so many seconds that begins with each bucket as soon as it is complete, and never waits for anything else.
    """
    ranks = [json.loads(path.read_text())["traceEvents"] for path in (trace, trace.with_suffix(".rank1.json"))]
    found = {"backward": [], "first": [], "rest": [], "bound": [], "step": []}
    for step in range(WARM + 1, steps + 1):
        spans = [[one for one in rank if one["ph"] == "X" and one["args"]["step"] == step] for rank in ranks]

        def last(pick, name, spans=spans):
            return max(pick(one["ts"] + one["dur"] for one in rank if one["name"] == name) for rank in spans) / 1e6

        began, first, ended, over = last(max, "forward"), last(min, "backward"), last(max, "backward"), last(max, "step waits")
        found["backward"].append(ended - began)
        found["first"].append(first - began)
        found["rest"].append(over - ended)
        ready = {}
        for rank in spans:
            for one in rank:
                if one["name"] == "backward" and one["args"]["bucket"] >= 0:
                    ready[one["args"]["bucket"]] = max(ready.get(one["args"]["bucket"], 0), (one["ts"] + one["dur"]) / 1e6)
        found["bound"].append(max(at + exchange * (bucket + 1) / len(ready) for bucket, at in ready.items()) - ended)
        found["step"].append(over - min(one["ts"] for rank in spans for one in rank) / 1e6)
    return {name: statistics.median(values) for name, values in found.items()}


def python_overlap(commands):
    """The same in Python: first without a slow link, which tells backward's time, then at the rate where the exchange takes as long."""
    def steps(rate):
        out = folder("python_overlap") / f"{rate}.json"
        run(commands, f"bench/cluster --ranks 2 --rates {rate} --json -- overlap --repeats 25", out)
        return json.loads(out.read_text())
    alone, *others = steps("unshaped")
    sent = others[0]["bytes_sent"]
    rate = int(sent * 8 / alone["backward_seconds"] / 1e6)
    rows = steps(f"{rate}mbit")
    exchange = sent * 8 / (rate * 1e6)
    return [{**row, "rate_mbit": rate, "exchange_seconds": exchange, "exposed_share": row["exposed_seconds"] / exchange} for row in rows]


def gpt2(commands, steps=12):
    """GPT-2 small (124 M parameters) takes real steps with every method; the first ones, which touch memory for the first time, are not timed."""
    rows = []
    text = folder("gpt2") / "text.txt"  # short: the last validation takes all that is held out
    text.write_text("".join(f"The {n} of {n * n % 997} is {n * n * n % 991}.\n" for n in range(1000)))
    for optimizer in ("sgdm", "adamw", "lion", "lamb", "one-bit-adam", "one-bit-lamb", "zero-one-adam", "birder", "distributed-lion", "local-adamw:every=4"):
        out = RUNS / "gpt2" / optimizer.replace(":", "-")
        run(commands, f"{LACONIC} train --task text --data {text} --model gpt2 --optimizer {optimizer} --ranks 2 --batch 1 --steps {steps} "
                      f"--set model.vocabulary=50257 --set data.context=64 --set run.validation_examples=2 --set model.dropout=0 --out {out} --overwrite")
        summary = json.loads((out / "summary.json").read_text())
        every = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        rows.append({"optimizer": optimizer, "parameters": summary["parameters"], "steps": steps, "timed_steps": steps - WARM, "loss_first": every[0]["loss"],
                     "loss_last": every[-1]["loss"], "first_step_seconds": every[0]["step_seconds"],
                     "step_seconds": statistics.median(step["step_seconds"] for step in every[WARM:]), "seconds_by_kind": seconds_by_kind(out),
                     "peak_memory_gib_both_ranks": summary["peak_memory_bytes"] / 2**30})
    return rows


def folder(study):
    path = RUNS / study
    path.mkdir(parents=True, exist_ok=True)
    return path


def plan(commands):
    return forecast.study(run, LACONIC, folder("plan"), commands)


def plan_local(commands):
    return local_steps.plan_local(run, LACONIC, folder("plan_local"), commands)


def local_delay(commands):
    return local_steps.delay(run, LACONIC, folder("local_delay"), commands)


def counters(commands):
    return forecast.counters(run, folder("counters"), commands)


STUDIES = {
    "fashion_mnist": fashion_mnist,
    "text": text,
    "fashion_mnist_coded": coded_fashion_mnist,
    "text_coded": coded_text,
    "fashion_mnist_local": local_fashion_mnist,
    "text_local": local_text,
    "birder_forms": birder_forms,
    "bert": bert,
    **{f"network_{study}_{rate}": network(study, options, rate)
       for study, options in (("text", text_options), ("fashion_mnist", lambda: FASHION_MNIST)) for rate in ("100mbit", "1gbit")},
    "overlap": overlap,
    "python_overlap": python_overlap,
    "gpt2": gpt2,
    "plan": plan,
    "plan_local": plan_local,
    "local_delay": local_delay,
    "wide_area": local_steps.wide_area,
    "counters": counters,
    "papers": papers.study,
    **frontier.studies(sys.modules[__name__]),
}
