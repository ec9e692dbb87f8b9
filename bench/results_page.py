#!/usr/bin/env python3
"""docs/explanation/results.md, and README's tables and chart, written from what is recorded under bench/results/.

    results_page.py             writes them
    results_page.py --check     exits with 1 and the names of those that are not what the records say
"""
import json
import re
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace

import chart
import frontier_page
import local_steps
import papers
import readme_tables

ROOT = Path(__file__).resolve().parent.parent

INTRO = """# Results

Written by `./run bench` from the records under [bench/results](../../bench/results); each table links its record, which has every command, the machine and
the commit. The data is not part of the project: `LACONIC_DATA` names a folder with `shakespeare.txt` (tiny Shakespeare) and `sst2/` (SST-2 of GLUE);
Fashion-MNIST is Debian's package `dataset-fashion-mnist`. Runs are short (minutes on two cores), so the losses are those of young models: what is
compared is how the optimizers do on the same budget, not how far a model can go. ± is the standard deviation over seeds.
"AdamW's quality" is within 1 % of its last accuracy, or of its last validation loss where the task has no accuracy.

Learning rates: the same budget for every optimizer, three values each, one short run per value. `bench/tune.py` and `laconic compare --tune`
choose on a tenth of the training data that is held out (`data.validate_on=tuning`); the rates that models and methods come with were chosen before
that, by the validation loss of such runs. A method's
own rates are in its file under `laconic/optim/methods/`, those of each model in `app/training/tuned.cc`. Everything else is equal: data order, batch, schedule (5 % warm-up, cosine), no weight decay.

`zero-one-adam` is 0/1 Adam with its default schedule in the frontiers and in the run of 500 steps, and with the published one in all other tables: they are older than
[`schedule = short`](../design/0015-a-short-schedule-of-0-1-adam.md), the default of runs of up to 10,000 steps.
"""


def number(value, digits=4):
    return "not reached" if value is None else f"{value:.{digits}g}"


def pair(row, name, scale=1.0, digits=2):
    return f"{scale * row[name + '_mean']:.{digits}f} ± {scale * row[name + '_spread']:.{digits}f}"


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def quality(rows, metric):
    header = ["optimizer", "lr", "validation loss", metric, "bits/parameter/step", "rounds", "sent per rank", "steps to AdamW's quality"]
    percent = metric.startswith("accuracy")
    return table(header, [[row["optimizer"], f"{row['lr']:g}", pair(row, "final_loss", digits=4),
                           pair(row, "final_metric", 100 if percent else 1, 2 if percent else 3), f"{row['bits_per_parameter_per_step']:.3f}", row["rounds"],
                           size(row["bytes_sent_per_rank"]), row["steps_to_baseline"] or "not reached"] for row in rows])


def distances(rows, best, name, points):
    """One sentence per arm: how far it is from the best dense one."""
    far_from = []
    for row in rows:
        if row["optimizer"] in ("one-bit-adam", "zero-one-adam", "birder"):
            value, base = row[name + "_mean"], best[name + "_mean"]
            far = f"{100 * (value - base):+.2f} points" if points else f"{100 * (value / base - 1):+.2f} %"
            far_from.append(f"{row['optimizer']} {far}")
    return f"Against {best['optimizer']}: " + ", ".join(far_from) + ".\n"


def fashion_mnist(rows):
    dense = max((row for row in rows if row["optimizer"] in ("adamw", "sgdm")), key=lambda row: row["final_metric_mean"])
    return ("ResNet-20 of half width (8, 16, 32 channels), 4 ranks, 64 images per step, 800 steps, 3 seeds.\n\n" + quality(rows, "accuracy, %") + "\n"
            + distances(rows, dense, "final_metric", True))


def text(rows):
    return ("GPT-2 mini (1.04 M parameters, bytes), 4 ranks, 1,024 bytes per step, 500 steps, 3 seeds.\n\n" + quality(rows, "perplexity") + "\n"
            + distances(rows, rows[0], "final_loss", False))


def tuned(rows):
    """How the rates of a comparison were chosen."""
    budget = {len(row["tuning"]["tried"]) for row in rows}
    most = f"{min(budget)} to {max(budget)}" if len(budget) > 1 else f"{max(budget)}"
    return (f"Each method's learning rate is the best of {most} (a further one where the best is at an end) after {rows[0]['tuning']['steps']} steps, by the loss on a tenth "
            "of the training data that is held out for it; the validation set has no part in it.")


SMALL_TASKS = {
    True: "A ResNet-8 of width 8 (19,074 parameters), 4 ranks, batch 16 each, 600 steps, 3 seeds.",
    False: "A character GPT (2 layers of width 64, 124,928 parameters) on tiny Shakespeare, 4 ranks, 4 rows of 64 each, 1,000 steps, 3 seeds.",
}


def coded(metric, name, points):
    """Codecs and methods beside the one that each replaces."""
    replaced = {"distributed-lion": "lion", "one-bit-lamb": "lamb", "one-bit-adam": "adamw", "zero-one-adam": "adamw"}

    def section(rows):
        by_name = {row["optimizer"]: row for row in rows}
        lines = []
        for row in rows:
            base = by_name[replaced.get(row["optimizer"].split(":")[0], row["optimizer"].split(":")[0].removesuffix("-bf16"))]
            far = row[name + "_mean"] - base[name + "_mean"]
            far = f"{100 * far:+.2f} points" if points else f"{100 * far / base[name + '_mean']:+.2f} %"
            lines.append([row["optimizer"].replace(":", " "), f"{row['lr']:g}", pair(row, "final_loss", digits=4), pair(row, "final_metric", 100 if points else 1, 2 if points else 3),
                          "" if base is row else f"{far} against {base['optimizer']}", f"{row['bits_per_parameter_per_step']:.3f}", row["rounds"]])
        return (f"{SMALL_TASKS[points]} {tuned(rows)}\n\n"
                + table(["method", "lr", "validation loss", metric, "difference", "bits/parameter/step", "rounds"], lines))
    return section


def birder_forms(rows):
    return ("The same text, 4 ranks, 500 steps, one seed. Bits are those on the wire, with the headers and the bits that mark active words.\n\n"
            + table(["form", "validation loss", "bits/parameter/step", "rounds", "sent per rank"],
                    [[row["form"], f"{row['final_loss']:.4f}", f"{row['bits_per_parameter_per_step']:.3f}", row["rounds"], size(row["bytes_sent_per_rank"])] for row in rows]))


def bert(rows):
    lines = [[row["optimizer"], f"{row['pretraining_loss']:.4f} ± {row['pretraining_loss_spread']:.4f}",
              f"{100 * row['accuracy']:.2f} ± {100 * row['accuracy_spread']:.2f}", ", ".join(f"{100 * one:.1f}" for one in row["accuracies"]),
              f"{row['bits_per_parameter_per_step']:.3f}"] for row in rows]
    return ("BERT mini (2 layers of width 64): 400 steps of masked-language-model pre-training on SST-2's sentences and tiny Shakespeare with each "
            "optimizer, then 400 steps of SST-2 with AdamW from "
            "there (learning rate 3e-3, the best of three for all); accuracy on 6,735 held-out training sentences, 5 seeds.\n\n"
            + table(["pre-trained by", "masked-LM loss", "SST-2 accuracy, %", "of each seed", "bits/parameter/step"], lines)
            + "\n" + distances([{**row, "accuracy_mean": row["accuracy"]} for row in rows], {**rows[0], "accuracy_mean": rows[0]["accuracy"]}, "accuracy", True))


def network(rows):
    lines = [[row["optimizer"], f"{1e3 * row['step_seconds']:.0f} ms", f"{row['step_seconds'] / row['compute_seconds']:.2f}",
              f"{1e3 * row['exposed_seconds']:.0f} ms", "not reached" if row["seconds_to_baseline"] is None else f"{row['seconds_to_baseline']:.1f} s",
              "" if row["speed_up"] is None else f"{row['speed_up']:.2f}"] for row in rows]
    return table(["optimizer", "step", "of compute alone", "exposed", "time to AdamW's quality", "times faster than fp32"], lines)


def overlap(rows):
    row = rows[0]
    return (f"GPT-2 mini in {row['buckets']} buckets, 2 ranks, dense fp32, at the rate ({row['rate_mbit']} Mbit/s) where the exchange takes as long as "
            f"backward ({1e3 * row['exchange_seconds']:.0f} ms): {1e3 * row['exposed_seconds']:.0f} ms of it stay exposed, "
            f"{100 * row['exposed_share']:.0f} %. An exchange that begins with each bucket as soon as both ranks have it, and waits for nothing else, "
            f"would leave {100 * row['bound_share']:.0f} %: the last buckets (the embedding, the first layer) have their gradients only when backward ends.\n")


def python_overlap(rows):
    alone = rows[0]
    lines = [[row["name"], *(f"{1e3 * row[name]:.0f} ms" for name in ("forward_seconds", "backward_seconds", "update_seconds", "seconds", "exposed_seconds")),
              f"{100 * row['exposed_share']:.0f} %"] for row in rows]
    return (f"The same model in PyTorch, {alone['buckets']} buckets, 2 ranks on two hosts (network namespaces, Gloo) with {alone['rate_mbit']} Mbit/s between them, where an exchange "
            f"of fp32 takes {1e3 * alone['exchange_seconds']:.0f} ms, as backward does. Exposed is what a step takes beyond one that exchanges nothing: what `step()` (under "
            "DistributedDataParallel of torch: backward) waits for when backward is over, and what the exchange takes from forward and backward. Both ranks share the two cores of one "
            f"machine, so the threads that exchange, and the network itself, have no core of their own. Medians of {alone['repeats']} steps in turns.\n\n"
            + table(["optimizer", "forward", "backward", "step()", "all", "exposed", "of the exchange"], lines))


def loop(rows):
    return table(["model", "batch", "plain LibTorch loop", "laconic, one rank", "ratio"],
                 [[row["model"], row["batch"], f"{1e3 * row['plain_seconds']:.1f} ms", f"{1e3 * row['seconds']:.1f} ms", f"{row['ratio']:.3f}"] for row in rows])


def gpt2(rows):
    def kinds(row):
        return ", ".join(f"{kind} {one['step_seconds']:.2f} s" for kind, one in row["seconds_by_kind"].items())

    return (f"GPT-2 small as published (12 layers, width 768, 50,257 tokens, of which the data here use 260): {rows[0]['parameters']:,} parameters. "
            f"2 ranks as threads of one process, {rows[0]['steps']} steps, of which the last {rows[0]['timed_steps']} are timed: the first ones touch their memory for the first time. "
            "Times are medians; memory is that of both ranks together.\n\n"
            + table(["optimizer", "loss of step 1", f"of step {rows[0]['steps']}", "first step", "step", "by kind of step", "peak memory"],
                    [[row["optimizer"].replace(":", " "), f"{row['loss_first']:.3f}", f"{row['loss_last']:.3f}", f"{row['first_step_seconds']:.2f} s", f"{row['step_seconds']:.2f} s",
                      kinds(row), f"{row['peak_memory_gib_both_ranks']:.1f} GiB"] for row in rows]))


def advised(group):
    """As `laconic plan` advises: the fastest exact one, unless a coded one gains 3 %."""
    dense, coded = (min((row for row in group if row["optimizer"].startswith("adamw") == exact), key=lambda row: row["predicted_seconds"]) for exact in (True, False))
    return dense if dense["predicted_seconds"] < 1.03 * coded["predicted_seconds"] else coded


def settings(rows):
    """The rows of each (model, ranks, rate); the first of them is AdamW's."""
    groups = {}
    for row in rows:
        groups.setdefault((row["model"], row["ranks"], row["rate"]), []).append(row)
    return groups


def lost_by_advice(group):
    """(the fastest row, the advised one, how much longer that takes)."""
    best, named = min(group, key=lambda row: row["measured_seconds"]), advised(group)
    return best, named, named["measured_seconds"] / best["measured_seconds"] - 1


def auto_longer(group, row):
    """How much longer `--exchange auto` takes than the better of exact and coded."""
    return row["auto_seconds"] / min(group[0]["measured_seconds"], row["measured_seconds"]) - 1


def forecast(rows):
    errors = [abs(row["error"]) for row in rows]
    groups = settings(rows).values()
    return SimpleNamespace(median_error=statistics.median(errors), worst_error=max(errors), lost=max(lost_by_advice(group)[2] for group in groups),
                           auto_longer=max(auto_longer(group, row) for group in groups for row in group if "auto_seconds" in row))


def plan(rows):
    lines = [[row["model"], row["ranks"], row["rate"], row["optimizer"], f"{1e3 * row['compute_seconds']:.1f}", f"{1e3 * row['measured_seconds']:.1f}",
              f"{1e3 * row['predicted_seconds']:.1f}", f"{100 * row['error']:+.1f} %", "held out" if row["held_out"] else ""] for row in rows]

    def errors(held_out):
        found = [abs(row["error"]) for row in rows if row["held_out"] in held_out]
        return f"{100 * statistics.median(found):.1f} % (worst {100 * max(found):.1f} %)"

    best, never_slower = [], []
    for name, group in settings(rows).items():
        measured, named, lost = lost_by_advice(group)
        best.append([*name, measured["optimizer"], named["optimizer"], f"{100 * lost:.1f} %"])
        for row in group:
            if "auto_seconds" in row:
                times = (group[0]["measured_seconds"], row["measured_seconds"], row["auto_seconds"])
                never_slower.append([*name, row["optimizer"], *(f"{1e3 * seconds:.1f}" for seconds in times), "; ".join(row["auto_takes"]),
                                     f"{100 * auto_longer(group, row):+.1f} %"])
    wrong = sum(row["bytes"] != row["bytes_predicted"] for row in rows)
    return (f"Median error of the predicted step time over all {len(rows)} settings: {errors((True, False))}; over the held-out ones: {errors((True,))}. "
            f"Two numbers were fitted, on the others: a message costs {1e6 * rows[0]['message_seconds']:.0f} µs, and coding runs at {rows[0]['coding_factor']:.2f} of the probed speed. "
            f"Bytes differ from the counted ones in {wrong} settings. `bench/forecast.py` has the procedure.\n\n"
            + table(["model", "nodes x ranks", "rate", "optimizer", "compute, ms", "measured, ms", "predicted, ms", "error", ""], lines)
            + "\nThe method that it names best (an exact one, unless a coded one gains 3 %), and what is lost by following it:\n\n"
            + table(["model", "nodes x ranks", "rate", "measured best", "named best", "lost"], best)
            + "\nNever slower: the same steps with `--exchange auto`, after the first 20, in which it tries what there is, against the exact mean of AdamW and the optimizer's "
            "own coded one:\n\n"
            + table(["model", "nodes x ranks", "rate", "optimizer", "exact, ms", "coded, ms", "auto, ms", "auto takes", "against the better"], never_slower))


def counters(rows):
    lines = [[row["mean"], f"{row['bytes_forecast']:,.0f}", f"{row['bytes_sent']:,}", f"{row['bytes_on_device']:,.0f}",
              f"{100 * (row['bytes_on_device'] / row['bytes_sent'] - 1):+.2f} %"] for row in rows]
    return (f"One exchange of {rows[0]['elements']:,} elements between two hosts (network namespaces with a device each, torch.distributed over Gloo). "
            "What the devices count has the headers of TCP and IP in it, and acknowledgements.\n\n"
            + table(["mean", "forecast, bytes", "counted by laconic", "counted by the device", "device against laconic"], lines))


def local(body):
    return lambda rows: body(rows, table)


def local_losses(metric, points):
    """Local steps beside AdamW, which exchanges in every step."""
    def section(rows):
        base = rows[0]
        name = "final_metric" if points else "final_loss"
        lines = []
        for row in rows:
            far = row[name + "_mean"] - base[name + "_mean"]
            far = f"{100 * far:+.2f} points" if points else f"{100 * far / base[name + '_mean']:+.2f} %"
            lines.append([row["optimizer"].replace(":", " "), f"{row['lr']:g}", pair(row, "final_loss", digits=4),
                          pair(row, "final_metric", 100 if points else 1, 2 if points else 3), "" if row is base else far,
                          f"{row['bits_per_parameter_per_step']:.3f}", row["rounds"]])
        return (f"{SMALL_TASKS[points]} {tuned(rows)} `every` is the number of steps from one exchange to the next; difference is against AdamW, which exchanges "
                "in every step.\n\n"
                + table(["method", "lr", "validation loss", metric, "difference", "bits/parameter/step", "rounds"], lines))
    return section


def sharded(rows):
    lines = [[row["link"], row["name"], f"{1e3 * row['seconds']:.0f} ms", f"{row['speed_against_hsdp_fp32']:.2f}", f"{row['bytes_between_nodes']:,.0f}",
              f"{row['bytes_by_formula']:,}" if "bytes_by_formula" in row else ""] for row in rows]
    return (f"A GPT-2 of {rows[0]['parameters']:,} parameters on 2 nodes of 2 shards, which are network namespaces: FSDP2 inside a node, its own all-reduce (HSDP) or "
            "laconic between nodes. All take turns in one run. What the device counts has the headers of TCP and IP in it, and acknowledgements; all nodes ended with equal bytes.\n\n"
            + table(["link", "between nodes", "step", "speed against HSDP in fp32", "sent by a node, bytes", "by the formula"], lines))


def sweep(rows, theirs):
    """Means of many lengths beside the all-reduce named `theirs`, each codec as a share of its time at that length."""
    codecs = list(dict.fromkeys(row["codec"] for row in rows))
    lines = []
    for elements in dict.fromkeys(row["elements"] for row in rows):
        here = {row["codec"]: row for row in rows if row["elements"] == elements}
        least = min(row["all_reduce_seconds"] for row in here.values())
        times = {codec: row["seconds"] / row["all_reduce_seconds"] for codec, row in here.items()}  # taken in turns
        cells = [f"{took:.2f}" + ("*" if took > times["fp32"] else "") for took in times.values()]
        most = max(min(took, times["fp32"]) for took in times.values())
        lines.append([f"{elements:,}", f"{1e3 * least:.3f}", *cells, f"{most:.2f}"])
    return (f"2 ranks on this machine, without a slow link: {theirs} of fp32 in milliseconds, then the time of our mean with each codec against it "
            "(below 1: quicker; *: our exact mean, fp32, is quicker at this length). Bytes cost next to nothing here, so coding them does not pay before a vector "
            "outgrows the caches; `exchange = auto` takes the exact mean there, and the last column is the most that any codec then takes. Medians of 15.\n\n"
            + table(["elements", theirs, *codecs, "at most, with auto"], lines))


def sweep_mpi(rows):
    return sweep([{**row, "all_reduce_seconds": row["mpi_allreduce_seconds"]} for row in rows], "MPI_Allreduce")


def sweep_gloo(rows):
    theirs = {row["elements"]: row["seconds"] for row in rows if row["name"].startswith("torch all_reduce")}
    ours = [row for row in rows if not row["name"].startswith("torch all_reduce")]
    return sweep([{**row, "codec": row["name"], "all_reduce_seconds": theirs[row["elements"]]} for row in ours], "all_reduce over Gloo")


def against_papers(rows):
    return papers.section(rows, table)


def with_table(section):
    return lambda rows: section(rows, table)


SECTIONS = (
    ("fashion_mnist", "Fashion-MNIST, ResNet-20-like", fashion_mnist),
    ("text", "Text, GPT-2 mini", text),
    ("fashion_mnist_coded", "Codecs and votes on Fashion-MNIST", coded("accuracy, %", "final_metric", True)),
    ("text_coded", "Codecs and votes on text", coded("perplexity", "final_loss", False)),
    ("fashion_mnist_local", "Local steps on Fashion-MNIST", local_losses("accuracy, %", True)),
    ("text_local", "Local steps on text", local_losses("perplexity", False)),
    ("birder_forms", "Forms of Birder's exchange", birder_forms),
    ("bert", "Masked LM, then SST-2, BERT mini", bert),
    ("network_text_100mbit", "GPT-2 mini on an emulated 100 Mbit/s network, 4 ranks", network),
    ("network_text_1gbit", "GPT-2 mini at 1 Gbit/s", network),
    ("network_fashion_mnist_100mbit", "ResNet-20-like at 100 Mbit/s", network),
    ("network_fashion_mnist_1gbit", "ResNet-20-like at 1 Gbit/s", network),
    ("overlap", "Overlap with backward", overlap),
    ("python_overlap", "Overlap with backward in PyTorch", python_overlap),
    ("loop", "Overhead on one rank", loop),
    ("gpt2", "GPT-2 small takes real steps", gpt2),
    ("plan", "The cost model against measurement", plan),
    ("plan_local", "The cost model of local steps against measurement", local(local_steps.plan_section)),
    ("local_delay", "Exchanges beside training at 100 Mbit/s and 50 ms", local(local_steps.delay_section)),
    ("wide_area", "Wide-area networks, predicted", local(local_steps.wide_section)),
    ("sharded", "Sharded inside nodes, coded between them", sharded),
    ("sweep_mpi", "Means from 1 Ki to 64 Mi elements over MPI", sweep_mpi),
    ("sweep_gloo", "Means from 1 Ki to 64 Mi elements over Gloo", sweep_gloo),
    ("counters", "Bytes by the counters of network devices", counters),
    ("papers", "Against the papers", against_papers),
    *((name, f"Frontier: {title}", with_table(frontier_page.section(name))) for name, (_, title) in frontier_page.TASKS.items()),
    ("text_500", "Character GPT in 500 steps", with_table(frontier_page.short)),
    ("ranks", "From 1 to 32 ranks", with_table(frontier_page.ranks)),
)


def read(folder):
    """The rows of each record, by its name."""
    return {path.stem: [row for run in json.loads(path.read_text())["runs"] for row in run["rows"]] for path in sorted(folder.glob("*.json"))}


def render(records):
    parts = [INTRO, frontier_page.what_to_choose(records)]
    for name, title, body in SECTIONS:
        if name in records:
            parts.append(f"## {title}\n\n{body(records[name])}\n[{name}](../../bench/results/{name}.json)\n")
        else:
            parts.append(f"## {title}\n\nNot recorded yet: `./run bench {name}`.\n")
    return "\n".join(parts)


def between_marks(text, name, content):
    """The text with what stands between the marks of `name` replaced."""
    begin, end = f"<!-- {name}: written by bench/results_page.py -->\n", f"<!-- end of {name} -->"
    found = re.sub(f"({re.escape(begin)}).*?({re.escape(end)})", lambda match: match[1] + content + match[2], text, flags=re.S)
    if begin not in text or end not in text:
        sys.exit(f"results_page: README.md has no marks of {name}")
    return found


def readme(text, records):
    text = between_marks(text, "quality", readme_tables.quality(records, table))
    return between_marks(text, "speed", readme_tables.speed(records, table, forecast(records["plan"])))


def pages(root):
    """{path: what it should hold}."""
    records = read(root / "bench/results")
    return {
        root / "docs/explanation/results.md": render(records),
        root / "docs/time-to-quality.svg": chart.time_to_quality(records["network_text_100mbit"]),
        root / "README.md": readme((root / "README.md").read_text(), records),
        **frontier_page.charts(records, root / "docs"),
    }


def write(root=ROOT):
    for path, text in pages(root).items():
        path.write_text(text)


def main():
    if "--check" not in sys.argv:
        return write()
    stale = [str(path.relative_to(ROOT)) for path, text in pages(ROOT).items() if path.read_text() != text]
    if stale:
        print(f"{' and '.join(stale)}: not what bench/results says; run bench/results_page.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
