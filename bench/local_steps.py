"""Ranks that train alone for a while: what a delay hides, what the cost model forecasts of it, and what it forecasts of wide-area networks.

Each study returns rows for a record, and has a section of docs/explanation/results.md beside it.
"""
import itertools
import json
import statistics
import subprocess

import forecast

MODEL = "gpt2-mini"
RANKS, STEPS, REPEATS = 4, 61, 3
SILENT = "local-adamw:every=1000000"
SLOW = "100mbit,50ms"
# Without a delay; with one, in int4, in fp32, and in fragments.
DELAYED = ("local-adamw:every=20:codec=int4", "local-adamw:every=20:codec=int4:delay=10", "co2:every=20", "streaming-diloco:every=20")
# Links, one for all nodes or one for each, and what is trained there.
LINKS = ("20mbit,20ms", SLOW, "1gbit,5ms", "20mbit,20ms/100mbit,50ms/1gbit,5ms/1gbit,1ms")
FORECAST = ("local-adamw:every=10", "local-adamw:every=10:codec=int4", "local-adamw:every=20:codec=int4:delay=10", "streaming-diloco:every=20")


def line(laconic, arm, out, emulate="", ranks=RANKS):
    return (f"{laconic} train {forecast.OPTIONS[MODEL]} {forecast.COMMON} --ranks {ranks} --threads 1 --optimizer {arm} --steps {STEPS} "
            + (f"--emulate {emulate} " if emulate else "") + f"--out {out} --overwrite")


def trained(run, commands, laconic, arm, out, emulate=""):
    """The steps of a run but for the first, and its summary. What is finished is kept, so a study can be cut off and go on."""
    run(commands, line(laconic, arm, out, emulate), done=(out / "summary.json").exists())
    steps = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    return steps[1:], json.loads((out / "summary.json").read_text())


def mean_seconds(steps):
    """Without the last one, which exchanges whatever is left."""
    return statistics.mean(step["step_seconds"] for step in steps[:-1])


def alone(laconic, folder, commands):
    """As many trainings of one rank each at once as there are ranks: nothing is shared but the machine."""
    lines = [line(laconic, "adamw", folder / f"alone{rank}", ranks=1) + f" --seed {rank + 1}" for rank in range(RANKS)]
    commands.append(" & ".join(lines))
    missing = not all((folder / f"alone{rank}/summary.json").exists() for rank in range(RANKS))
    programs = [subprocess.Popen(one.split(), stdout=subprocess.DEVNULL) for one in lines] if missing else []
    if any([program.wait() for program in programs]):
        raise subprocess.CalledProcessError(1, lines[0])
    return statistics.mean(mean_seconds([json.loads(text) for text in (folder / f"alone{rank}/metrics.jsonl").read_text().splitlines()][1:])
                           for rank in range(RANKS))


def expected(arm, **given):
    """What the cost model says of an arm ("diloco:every=20")."""
    from laconic import plan

    name, *options = arm.split(":")
    return plan.predict(name, options=dict(option.split("=") for option in options), **given)


def delay(run, laconic, folder, commands):
    """Speed at 100 Mbit/s and 50 ms against ranks that exchange nothing. The runs take turns, since a machine's speed changes."""
    seconds = {arm: [] for arm in (SILENT, *DELAYED)}
    waited, sent, separate = {}, {}, []
    for repeat in range(REPEATS):
        separate.append(alone(laconic, folder / str(repeat), commands))
        for arm in seconds:
            steps, summary = trained(run, commands, laconic, arm, folder / str(repeat) / arm.replace(":", "-"), "" if arm == SILENT else SLOW)
            seconds[arm].append(mean_seconds(steps))
            waited[arm] = sum(step.get("waited_seconds", 0) for step in steps[:-1]) / len(steps[:-1])
            sent[arm] = summary["bytes_sent_per_rank"], summary["parameters"]
    rows = []
    for arm, found in seconds.items():
        given = {"parameters": sent[arm][1], "step_seconds": found[0], "nodes": RANKS, "bucket_elements": bucket(), "slices": 32, "total_steps": STEPS}
        rows.append({"optimizer": arm, "step_seconds": statistics.median(found), "waited_seconds": waited[arm],
                     "speed": statistics.median(silent / one for silent, one in zip(seconds[SILENT], found)),
                     "speed_against_separate": statistics.median(one / other for one, other in zip(separate, found)),
                     "bytes_sent_per_rank": sent[arm][0], "bytes_forecast": round(STEPS * expected(arm, **given)["bytes_between_nodes"])})
    return rows


def bucket():
    return int(forecast.OPTIONS[MODEL].split("bucket_elements=")[1])


def plan_local(run, laconic, folder, commands):
    """The cost model beside measurement, on links of different rates and on unequal ones. Nothing is fitted: what a message costs and how fast
    coding is come from the record of `plan`, the compute time from ranks that exchange nothing."""
    fitted = json.loads(open("bench/results/plan.json").read())["runs"][0]["rows"][0]
    machine = forecast.Machine(run, laconic, folder, commands)
    slower = max(1.0, RANKS / machine.cores)
    rows = []
    for number, links in enumerate(LINKS):
        pairs = {arm: [] for arm in FORECAST}
        for repeat, arm in itertools.product(range(REPEATS), FORECAST):
            out = folder / f"links{number}-{repeat}"
            silent, summary = trained(run, commands, laconic, SILENT, out / "silent")
            steps, summary = trained(run, commands, laconic, arm, out / arm.replace(":", "-"), links)
            update = machine.speeds["local_steps_local"] * summary["parameters"] * slower
            given = {"parameters": summary["parameters"], "step_seconds": mean_seconds(silent) - update, "nodes": RANKS,
                     "inter": links.split("/") if "/" in links else links, "bucket_elements": bucket(), "shares_cores": True,
                     "threads": fitted["coding_factor"] / slower, "slices": 32, "total_steps": STEPS - 1,
                     "speeds": {**machine.speeds, "message": fitted["message_seconds"]}}
            pairs[arm].append((mean_seconds(steps), expected(arm, **given)["seconds"]))
        for arm, found in pairs.items():
            measured, predicted = (statistics.median(one[i] for one in found) for i in (0, 1))
            rows.append({"links": links, "optimizer": arm, "measured_seconds": measured, "predicted_seconds": predicted,
                         "error": statistics.median(one[1] / one[0] - 1 for one in found)})
    return rows


# Wide-area networks: four regions of 8 nodes of 8 ranks, whose 64 ranks share the region's link to the others.
REGIONS, RANKS_OF_REGION = 4, 64
WITHIN = "25gbit,10us"  # of each rank, inside its region
RATES, LATENCIES = ("100mbit", "1gbit", "10gbit"), ("1ms", "10ms", "100ms")
MODELS = {"110M": 110_000_000, "350M": 350_000_000, "1.3B": 1_300_000_000, "7B": 7_000_000_000}
BUCKET = 1 << 26  # long ones, since each waits for the latency
FLOPS, TOKENS = 120e12, 16_384  # of a rank: what it computes per second, and tokens of a step
WIDE = ("local-adamw:every=100", "local-adamw:every=100:codec=int4", "streaming-diloco:every=100", "local-adamw:every=100:codec=sign:delay=50")


def wide_area(commands):
    """Predictions: nothing is measured here."""
    rows = []
    for (model, parameters), rate, latency in itertools.product(MODELS.items(), RATES, LATENCIES):
        given = {"parameters": parameters, "step_seconds": 6 * parameters * TOKENS / FLOPS, "nodes": REGIONS, "per_node": RANKS_OF_REGION,
                 "inter": f"{rate},{latency}", "intra": WITHIN, "threads": 8, "total_steps": 10_000, "bucket_elements": BUCKET}
        times = {"adamw all-reduce bf16": expected("adamw", exchange="all-reduce", bf16=True, **given)["seconds"]}
        for arm in WIDE:
            times[arm] = expected(arm, exchange="nodes", **given)["seconds"]
        rows.append({"model": model, "parameters": parameters, "rate": rate, "latency": latency, "compute_seconds": given["step_seconds"], "seconds": times})
    commands.append("laconic.plan.predict: bench/local_steps.py, wide_area")
    return rows


def delay_section(rows, table):
    lines = [[row["optimizer"].replace(":", " "), f"{1e3 * row['step_seconds']:.0f} ms", f"{row['speed']:.3f}", f"{row['speed_against_separate']:.3f}",
              f"{row['bytes_sent_per_rank']:,}", f"{row['bytes_forecast']:,}"] for row in rows]
    return (f"GPT-2 mini, {RANKS} ranks that share two cores, an emulated 100 Mbit/s with 50 ms, {STEPS} steps. Speed is against ranks that exchange nothing (the "
            f"first row, without a network), and against {RANKS} trainings of one rank each at once.\n\n"
            + table(["method", "step", "speed", "against separate trainings", "sent per rank, bytes", "by the formula"], lines))


def plan_section(rows, table):
    errors = [abs(row["error"]) for row in rows]
    lines = [[row["links"].replace("/", ", then "), row["optimizer"].replace(":", " "), f"{1e3 * row['measured_seconds']:.1f}", f"{1e3 * row['predicted_seconds']:.1f}",
              f"{100 * row['error']:+.1f} %"] for row in rows]
    return (f"Mean step of GPT-2 mini on {RANKS} ranks, one per node, on an emulated network. Nothing was fitted here. Median error "
            f"{100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %.\n\n"
            + table(["links", "method", "measured, ms", "predicted, ms", "error"], lines))


def wide_section(rows, table):
    arms = list(rows[0]["seconds"])
    lines = [[row["model"], row["rate"], row["latency"], f"{row['compute_seconds']:.2f} s",
              *(f"{row['seconds'][arm]:.2f} s ({100 * row['compute_seconds'] / row['seconds'][arm]:.0f} %)" for arm in arms)] for row in rows]
    return (f"**Predictions** of the cost model, not measurements: {REGIONS} regions of 8 nodes of 8 ranks. The {RANKS_OF_REGION} ranks of a region share its link to the others; inside, each "
            f"has {WITHIN.replace(',', ' and ')}. A rank computes {TOKENS:,} tokens per step at {FLOPS / 1e12:.0f} TFLOP/s (6 operations per parameter and token) and encodes with 8 cores, in buckets of {BUCKET // 10**6} M. "
            "Ranks hold whole models; what would not fit into their memory is not considered. In brackets: the share of a step that computes. "
            "What a step learns differs between methods.\n\n"
            + table(["model", "between regions", "latency", "compute", *(arm.replace(":", " ") for arm in arms)], lines))
