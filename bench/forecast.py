"""What `laconic plan`'s cost model says of a training step, beside what it took: 24 settings on this machine.

The ranks are threads of one process that share this machine's cores, on an emulated network. What the model is given, the same for every setting
of a model and a number of ranks, is measured without a network: the compute time of a step from silent steps (all ranks compute at once and say
nothing), the coding speed by `laconic plan --probe` on all cores at once, slowed by ranks/cores where there are more ranks than cores. Coding takes
turns with the backward pass (`shares_cores`). When buckets are ready follows from the layers' multiplications. Two numbers are fitted, on 16 of the
settings: what a message costs a rank whatever its length, and one factor on the coding speed. The other 8, every third, are never looked at.

How quick a machine is changes within seconds, here by a third. So all trainings of a model and a number of ranks are started, and take turns of one second
each; a step in which a training was stopped does not count. Two processes that do the same differ by some percent, too, so all of it is done three times.
"""
import contextlib
import json
import math
import os
import shlex
import statistics
import subprocess

import turns

OPTIONS = {
    "gpt2-mini": "--task text --data generated --model gpt2-mini --batch 4 --set optimizer.bucket_elements=131072",
    "resnet20": "--task fashion-mnist --data generated --model resnet20 --batch 16 --set optimizer.bucket_elements=32768",
}
COMMON = "--set run.validate_every=100000 --set run.validation_examples=16 --set optimizer.weight_decay=0"
# Model, ranks, ranks of a node, rate of a node's card.
GROUPS = (("gpt2-mini", 2, 1, "100mbit"), ("gpt2-mini", 2, 1, "1gbit"), ("gpt2-mini", 4, 2, "1gbit"), ("gpt2-mini", 4, 1, None),
          ("resnet20", 4, 1, "100mbit"), ("resnet20", 2, 1, "10gbit"))
# As trained, and as the model calls it.
METHODS = (("adamw", {"optimizer": "adamw"}), ("adamw-bf16", {"optimizer": "adamw", "bf16": True}),
           ("one-bit-adam --set optimizer.freeze_step=1", {"optimizer": "one-bit-adam"}), ("birder", {"optimizer": "birder"}))
SILENT = "zero-one-adam --set optimizer.variance_freeze_step=1 --set optimizer.double_every=1 --set optimizer.max_interval=1024"
LATENCY = "50us"
TURN, SECONDS, STARTS = 1, 130, 3  # seconds of a turn; of all turns of the trainings that are compared; how often that is done
TRIES = 20  # steps in which --exchange auto tries what there is
MESSAGES = [1e-6 * 1.25**k for k in range(30)]
FACTORS = [0.5 * 1.05**k for k in range(30)]


def layers(model):
    """(parameters, multiplications) in the order of memory."""
    if model == "gpt2-mini":
        width, length, tokens = 128, 128, 260
        block = 12 * width * width + 13 * width
        return [(width * tokens, 0), (width * length, 0)] + 5 * [(block, 12 * width * width + 2 * width * length)] + [(2 * width, 0)]
    found, before, side = [(9 * 16 + 32, 9 * 16 * 28 * 28)], 16, 28
    for stage, channels in enumerate((16, 32, 64)):
        side = 28 >> stage
        for _ in range(6):
            found.append((9 * before * channels + 2 * channels, 9 * before * channels * side * side))
            before = channels
    return [*found, (650, 640)]


def ready(model, bucket):
    """The share of backward after which each bucket is complete, first exchanged first."""
    all_layers = layers(model)
    total = sum(work for _, work in all_layers)
    ends, done = [], 0.0  # (first element of a layer, share of backward when it is done)
    at = sum(count for count, _ in all_layers)
    length = at
    for count, work in reversed(all_layers):
        at -= count
        done += work / total
        ends.append((at, done))
    begins = range((length - 1) // bucket * bucket, -1, -bucket)
    return [next(share for start, share in ends if start <= begin) for begin in begins], length


def median(steps, field):
    return statistics.median(step[field] for step in steps)


class Machine:
    """What is measured."""

    def __init__(self, run, laconic, folder, commands):
        self.run, self.laconic, self.folder, self.commands = run, laconic, folder, commands
        self.cores = len(os.sched_getaffinity(0))
        self.speeds = self.probe()
        self.steps = {}  # by the name of a training

    def probe(self):
        out = self.folder / "probe.json"
        line = f"mpirun -n {self.cores} {self.laconic} plan --params 1000000 --nodes 2 --inter 1gbit --step-ms 1 --probe --json"
        self.run(self.commands, line, out)
        return json.loads(out.read_text())["speeds"]

    def line(self, name, model, ranks, optimizer, extra=""):
        return (f"{self.laconic} train {OPTIONS[model]} --ranks {ranks} --threads 1 --optimizer {optimizer} --steps 100000 {COMMON} {extra} "
                f"--out {self.folder / name} --overwrite")

    def measure(self, trainings):
        """{name: (kind of steps, steps that are not counted, what `line` is given)}"""
        lines, steps = {name: self.line(name, *given) for name, (_, _, *given) in trainings.items()}, {name: [] for name in trainings}
        self.commands += lines.values()
        for _ in range(STARTS):
            self.take_turns(lines.values())
            for name, (kind, skipped, *_) in trainings.items():
                found = turns.records(self.folder / name / "metrics.jsonl")[skipped:]
                steps[name] += [step for step in found if step["kind"] == kind and step["step_seconds"] < TURN]  # others were stopped meanwhile
        self.steps |= steps

    @staticmethod
    def take_turns(lines):
        with contextlib.ExitStack() as stack:
            programs = []
            for line in lines:
                print(f"+ {line}", flush=True)
                programs.append(stack.enter_context(turns.Program(shlex.split(line), stdout=subprocess.DEVNULL)))
                programs[-1].go(TURN)
            for _ in range(SECONDS // (TURN * len(lines)) - 1):
                for program in programs:
                    program.go(TURN)


def silent(model, ranks):
    """The training that says nothing."""
    return f"{model}-{ranks}"


def network(per_node, rate):
    """Options of train."""
    return (f"--emulate {rate},{LATENCY} " if rate else "") + (f"--ranks-per-node {per_node}" if per_node > 1 else "")


def inputs(machine, model, ranks, per_node, rate, method):
    bucket = int(OPTIONS[model].split("bucket_elements=")[1])
    shares, parameters = ready(model, bucket)
    slower = max(1.0, ranks / machine.cores)
    update = machine.speeds["zero_one_adam_local"] * parameters * slower
    return {**method, "parameters": parameters, "step_seconds": median(machine.steps[silent(model, ranks)], "step_seconds") - update, "nodes": ranks // per_node, "per_node": per_node,
            "inter": f"{rate},{LATENCY}" if rate else None, "exchange": "nodes" if per_node > 1 else "flat", "bucket_elements": bucket, "ready": shares,
            "shares_cores": True, "threads": 1 / slower, "slices": 32, "total_steps": 100}


def forecast(plan, given, speeds, message, factor):
    given = dict(given)
    found = plan.predict(given.pop("optimizer"), speeds={**speeds, "message": message}, **{**given, "threads": given["threads"] * factor})
    return found["steps"].get("coded") or found["steps"]["dense"]


def fit(plan, rows, speeds):
    """The cost of a message and the factor on coding speed with the least squared error of the logarithm."""
    def loss(pair):
        return sum(math.log(forecast(plan, row["given"], speeds, *pair)["seconds"] / row["measured_seconds"]) ** 2 for row in rows if not row["held_out"])
    return min(((message, factor) for message in MESSAGES for factor in FACTORS), key=loss)


def measure(machine):
    settings = [(*group, *method) for group in GROUPS for method in METHODS]
    for family in dict.fromkeys(group[:2] for group in GROUPS):
        trainings = {silent(*family): ("silent", 4, *family, SILENT)}
        for index, (model, ranks, per_node, rate, optimizer, _) in enumerate(settings):
            if (model, ranks) == family:
                kind = "dense" if optimizer.startswith("adamw") else "coded"
                trainings[str(index)] = (kind, 4, *family, optimizer, network(per_node, rate))
                if kind == "coded":
                    trainings[f"{index}-auto"] = (kind, TRIES, *family, optimizer, "--exchange auto " + network(per_node, rate))
        machine.measure(trainings)
    rows = []
    for index, (model, ranks, per_node, rate, optimizer, method) in enumerate(settings):
        steps = machine.steps[str(index)]
        rows.append({"model": model, "ranks": f"{ranks // per_node} x {per_node}", "rate": rate or "unshaped", "optimizer": optimizer.split()[0],
                     "held_out": index % 3 == 2, "measured_seconds": median(steps, "step_seconds"), "bytes": median(steps, "bytes"),
                     "given": inputs(machine, model, ranks, per_node, rate, method)})
        if auto := machine.steps.get(f"{index}-auto"):
            rows[-1] |= {"auto_seconds": median(auto, "step_seconds"), "auto_takes": sorted({step["exchange"] for step in auto})}
    return rows


def study(run, laconic, folder, commands):
    from laconic import plan

    machine = Machine(run, laconic, folder, commands)
    rows = measure(machine)
    message, factor = fit(plan, rows, machine.speeds)
    for row in rows:
        cost = forecast(plan, row["given"], machine.speeds, message, factor)
        row["compute_seconds"] = row.pop("given")["step_seconds"]
        row["predicted_seconds"] = cost["seconds"]
        row["error"] = cost["seconds"] / row["measured_seconds"] - 1
        row["bytes_predicted"] = cost["bytes_inside_node"] + cost["bytes_between_nodes"]
        row["message_seconds"], row["coding_factor"] = message, factor
    return rows


# Means of `laconic.bench`, and the steps that make them.
COUNTED = {"laconic one-bit": {"optimizer": "one-bit-adam"}, "laconic random-sign": {"optimizer": "birder", "form": "single-round"},
           "laconic dense fp32": {"optimizer": "adamw"}, "laconic dense bf16": {"optimizer": "adamw", "bf16": True}}


def counters(run, folder, commands):
    """Bytes of an exchange as forecast, as counted by us, and as the network devices of two hosts (namespaces) count them."""
    from laconic import plan

    out = folder / "counters.json"
    run(commands, "bench/cluster --ranks 2 --rates unshaped --json -- --only laconic --repeats 3 --device eth0", out)
    rows = []
    for row in json.loads(out.read_text()):
        given = dict(COUNTED[row["name"]])
        found = plan.predict(given.pop("optimizer"), parameters=row["elements"], step_seconds=0, nodes=row["ranks"], bucket_elements=row["elements"], **given)
        step = found["steps"].get("coded") or found["steps"]["dense"]
        rows.append({"mean": row["name"].removeprefix("laconic "), "elements": row["elements"], "bytes_forecast": step["bytes_between_nodes"],
                     "bytes_sent": row["bytes_sent_per_rank"], "bytes_on_device": row["bytes_on_device"]})
    return rows
