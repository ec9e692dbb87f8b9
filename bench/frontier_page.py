"""The parts of docs/explanation/results.md that are written from the records of frontier.py, and what to choose.

Every sentence is made from rows that are recorded, and must be true whichever way their numbers go.
"""
import chart
from frontier import is_finite

TASKS = {
    "frontier_text_small": ("text-small", "Character GPT of 0.12 M parameters on text"),
    "frontier_text": ("text", "GPT-2 mini (1.04 M parameters) on text"),
    "frontier_fashion": ("fashion", "ResNet-8-like on Fashion-MNIST"),
    "frontier_bert": ("bert", "BERT mini, SST-2"),
}
NEAR = 0.01  # of AdamW's loss: as good, for what is chosen; or twice its spread over seeds, where that is more


def finite(rows):
    return [row for row in rows if is_finite(row)]


def far(row, base):
    """Signed: a validation loss against another, in percent."""
    return f"{100 * (row['final_loss_mean'] / base['final_loss_mean'] - 1):+.2f} %"


def tuning_text(row):
    tuning = row.get("tuning")
    return f"{row['lr']:g} (of {len(tuning['tried'])})" if tuning else f"{row['lr']:g}"


def score(row, base):
    """The first cells of an arm's line: its name, rate and loss, and that against AdamW's."""
    return [row["optimizer"].replace(":", " "), tuning_text(row), f"{row['final_loss_mean']:.4f} ± {row['final_loss_spread']:.4f}", "" if row is base else far(row, base)]


def section(name):
    """A function of the rows of the record `name`, as SECTIONS wants it. `table` writes a table."""
    def body(rows, table):
        good = finite(rows)
        base = good[0]
        accuracy = base["metric"] == "accuracy"
        lines = [[*score(row, base), f"{100 * row['final_metric_mean']:.2f} ± {100 * row['final_metric_spread']:.2f}" if accuracy else f"{row['final_metric_mean']:.3f} ± {row['final_metric_spread']:.3f}",
                  f"{row['bits_per_parameter_per_step']:.3f}", row["rounds"], f"{row['network_seconds']:.0f} s", ", ".join(row["frontier"])] for row in good]
        budget = f" Rates: for each arm three, or up to five where the best was at an end, of {base['tuning']['steps']} steps each, chosen on a tenth of the training data that was held out." if base.get("tuning") else ""
        lost = "".join(f" {row['optimizer']} diverged." for row in rows if row.get("diverged"))
        return (f"{base['parameters']:,} parameters, {base['ranks']} ranks, {base['steps']:,} steps, {base['seeds']} seeds; time is computed for {base['network']}, from steps of each kind on an "
                f"emulated network.{budget} The last column names the costs by which no other arm is as cheap and as good.{lost}\n\n"
                f"![Loss against bits](../frontier-{TASKS[name][0]}.svg)\n\n"
                + table(["arm", "lr", "validation loss", "against adamw", "accuracy, %" if accuracy else "perplexity", "bits/parameter/step", "rounds", "time", "on the frontier of"], lines))
    return body


def short(rows, table):
    """A run too short for a frontier: against AdamW, each at its own best rate."""
    good = finite(rows)
    base = good[0]
    lines = [[*score(row, base), f"{row['bits_per_parameter_per_step']:.3f}"] for row in good]
    return (f"{base['parameters']:,} parameters, {base['ranks']} ranks, {base['steps']:,} steps, {base['seeds']} seeds; rates as in the frontiers, of {base['tuning']['steps']} steps each.\n\n"
            + table(["arm", "lr", "validation loss", "against adamw", "bits/parameter/step"], lines))


def charts(records, docs):
    """{path: SVG} of the frontiers that are recorded."""
    found = {}
    for name, (short, title) in TASKS.items():
        if name in records:
            rows = finite(records[name])
            found[docs / f"frontier-{short}.svg"] = chart.frontier(
                rows, "bits_per_parameter_per_step", f"{title}: loss against bits", f"{rows[0]['steps']:,} steps, {rows[0]['ranks']} ranks, {rows[0]['seeds']} seeds; lower and further left is better",
                "bits per parameter and step", name)
    return found


def ranks(rows, table):
    """Against AdamW with as many ranks, for each method."""
    arms = list(dict.fromkeys(row["optimizer"] for row in rows))
    by_place = {(row["batch"], row["ranks"], row["optimizer"]): row for row in rows}
    parts = ["0.12 M parameters, text, 300 steps, 3 seeds, ranks as threads; one learning rate (0.003) for all, which nobody tuned. The number behind Birder's forms is the variance of its update that theory predicts, against that of one rank."]
    for batch, title in (("global", "One global batch that all ranks share"), ("per rank", "One batch for each rank, so that the global one grows")):
        lines = []
        for count in sorted({row["ranks"] for row in rows}):
            base = by_place[batch, count, arms[0]]
            cells = []
            for arm in arms:
                row = by_place[batch, count, arm]
                cell = f"{row['final_loss_mean']:.4f} ± {row['final_loss_spread']:.4f}"
                cell += "" if arm == arms[0] else f" ({far(row, base)})"
                cells.append(cell + (f", {row['predicted_variance']:.3g}" if row["predicted_variance"] else ""))
            lines.append([count, *cells])
        parts.append(f"{title}:\n\n" + table(["ranks", *arms], lines))
    return "\n\n".join(parts)


def near(rows):
    """Arms as good as AdamW."""
    good = finite(rows)
    base = good[0]
    most = base["final_loss_mean"] + max(NEAR * base["final_loss_mean"], 2 * base["final_loss_spread"])
    return [row for row in good if row["final_loss_mean"] <= most]


def least(rows, cost, shown):
    """One sentence: the cheapest of those that are as good as the first row."""
    base = finite(rows)[0]
    best = min(near(rows), key=lambda row: row[cost])
    if best is base:
        return f"{base['optimizer']} itself: none that cost less came near its loss"
    return f"`{best['optimizer']}`, {shown(best[cost])} against {shown(base[cost])}, at {far(best, base)} of its loss"


def spread(rows):
    """Of AdamW itself over seeds."""
    base = finite(rows)[0]
    return f"{100 * base['final_loss_spread'] / base['final_loss_mean']:.1f} % of its loss"


def pairs(rows, wanted):
    """(row, the row that it is compared with) of the arms of `wanted` that are there."""
    by_name = {row["optimizer"]: row for row in finite(rows)}
    return [(by_name[one], by_name[other]) for one, other in wanted if one in by_name and other in by_name]


def listed(sentences):
    return "".join(f"- {one}\n" for one in sentences)


def from_frontiers(records):
    tasks = [(title, records[name]) for name, (_, title) in TASKS.items() if name in records]
    if not tasks:
        return []
    parts = ["What follows is of the frontiers below. AdamW itself differs from seed to seed; differences of that size show nothing:\n\n"
             + listed(f"{task}: by {spread(rows)}." for task, rows in tasks)]
    for title, cost, shown in ((f"**Every byte counts** (metered or very slow links). Of the arms within {100 * NEAR:.0f} % of AdamW's loss, or twice its spread, the fewest bits have:", "bits_per_parameter_per_step", lambda x: f"{x:.2f} bits per parameter and step"),
                               ("**Every message counts** (long distances). The fewest rounds have:", "rounds", lambda x: f"{x:,} rounds"),
                               (f"**Time counts, on {finite(tasks[0][1])[0]['network']}.** The least time (computed) have:", "network_seconds", lambda x: f"{x:.0f} s")):
        parts.append(title + "\n\n" + listed(f"{task}: {least(rows, cost, shown)}." for task, rows in tasks))
    for title, wanted in (
            ("**Exact rounds in few bits** (`dense_codec`). Against the same method with fp32 rounds:",
             [(f"{method}:dense_codec={codec}", method) for method in ("one-bit-adam", "zero-one-adam") for codec in ("int8", "int4")]),
            ("**A freeze that is found while training** (`freeze_step=auto`), against the fixed share:", [("one-bit-adam:freeze_step=auto", "one-bit-adam")]),
            ("**0/1 Adam's default in runs of up to 10,000 steps** (`schedule=short`), against the published schedule:", [("zero-one-adam", "zero-one-adam:schedule=published")])):
        sentences = [f"{task}: `{one['optimizer']}` {far(one, other)} of loss, {one['bits_per_parameter_per_step']:.2f} bits for {other['bits_per_parameter_per_step']:.2f}"
                     + (": it never froze." if one["bits_per_parameter_per_step"] >= 32 else ".")
                     for task, rows in tasks for one, other in pairs(rows, wanted)]
        if sentences:
            parts.append(title + "\n\n" + listed(sentences))
    behind = [f"{task}: " + ", ".join(f"`{row['optimizer']}` {far(row, finite(rows)[0])}" for row in finite(rows) if row not in near(rows)) + "." for task, rows in tasks
              if len(near(rows)) < len(finite(rows))]
    if behind:
        parts.append(f"**What fell behind** by more than {100 * NEAR:.0f} % of AdamW's loss and twice its spread, each at its own best rate:\n\n" + listed(behind))
    return parts


def from_networks(records):
    """The fastest to AdamW's quality, of the studies with time on an emulated network."""
    parts = []
    for rate, shown in (("100mbit", "100 Mbit/s"), ("1gbit", "1 Gbit/s")):
        sentences = []
        for study, task in (("text", "GPT-2 mini on text"), ("fashion_mnist", "the ResNet on Fashion-MNIST")):
            rows = [row for row in records.get(f"network_{study}_{rate}", []) if row["seconds_to_baseline"]]
            if not rows:
                continue
            best = min(rows, key=lambda row: row["seconds_to_baseline"])
            sentences.append(f"{task}: `{best['optimizer']}`, {best['seconds_to_baseline']:.1f} s, {best['speed_up']:.2f} times as fast as fp32 "
                             f"([network_{study}_{rate}](../../bench/results/network_{study}_{rate}.json)).")
        if sentences:
            parts.append(f"**A link of {shown}.** First to AdamW's quality was, on\n\n" + listed(sentences))
    return parts


def what_to_choose(records):
    parts = [*from_networks(records), *from_frontiers(records)]
    if not parts:
        return ""
    intro = "Each line is a row of a table below. For your own model and network ask `laconic plan`, then `laconic compare --frontier` with your data: these are small models and short runs."
    return "## What to choose\n\n" + "\n\n".join([intro, *(part.rstrip("\n") for part in parts)]) + "\n"
