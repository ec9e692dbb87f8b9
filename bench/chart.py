"""SVGs written from records: README's, time until each optimizer reached AdamW's quality, and the frontiers of results.md."""
import math
import statistics

from frontier import COSTS

WIDTH, LEFT, TOP, ROW, BAR = 760, 130, 64, 34, 20
EXACT, CODED, INK, FAINT = "#8a8f98", "#2f6db5", "#1f2328", "#d0d7de"
LABELS = {"adamw": "AdamW, fp32", "adamw-bf16": "AdamW, bf16", "one-bit-adam": "1-bit Adam", "zero-one-adam": "0/1 Adam", "birder": "Birder"}


def text(x, y, content, size=13, anchor="start", weight="normal", fill=INK):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">{content}</text>'


def bar(row, y, scale, baseline):
    seconds = row["seconds_to_baseline"]
    label = text(LEFT - 10, y + 15, LABELS.get(row["optimizer"], row["optimizer"]), anchor="end")
    if seconds is None:
        return [label, text(LEFT + 6, y + 15, "not reached")]
    fill = EXACT if row["optimizer"].startswith("adamw") else CODED
    times = "" if row["speed_up"] in (None, baseline) else f", {row['speed_up']:.1f} times as fast"
    return [label, f'<rect x="{LEFT}" y="{y}" width="{seconds * scale:.1f}" height="{BAR}" rx="3" fill="{fill}"/>',
            text(LEFT + seconds * scale + 8, y + 15, f"{seconds:.0f} s{times}")]


def time_to_quality(rows):
    """Horizontal bars, one per optimizer."""
    longest = max(row["seconds_to_baseline"] or 0 for row in rows)
    scale = (WIDTH - LEFT - 70) / longest
    height = TOP + ROW * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
        "<title>Seconds of training at 100 Mbit/s until each optimizer reached AdamW's quality</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(16, 26, "Training time to AdamW's quality at 100 Mbit/s", 16, weight="600"),
        text(16, 46, "GPT-2 mini (1.04 M parameters), 4 ranks on two cores, emulated network; shorter is better", 12, fill="#57606a"),
        f'<line x1="{LEFT}" y1="{TOP - 6}" x2="{LEFT}" y2="{height - 24}" stroke="{FAINT}"/>',
    ]
    for number, row in enumerate(rows):
        parts += bar(row, TOP + ROW * number, scale, rows[0]["speed_up"])
    parts.append(text(16, height - 10, "Quality: validation loss within 1 % of AdamW's last one. Written from bench/results/network_text_100mbit.json.", 11, fill="#57606a"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def ticks_of(low, high):
    """1, 2 and 5 of each power of ten between."""
    power = math.floor(math.log10(low))
    found = [m * 10.0 ** e for e in range(power, math.ceil(math.log10(high)) + 1) for m in (1, 2, 5) if low <= m * 10.0 ** e <= high]
    return found if len(found) < 9 else [tick for tick in found if f"{tick:e}".startswith("1")]


def name_of(row):
    """The arm as people read it: "1-bit Adam, dense_codec int4"."""
    method, *options = row["optimizer"].split(":")
    return ", ".join([LABELS.get(method, method), *(option.replace("=", " ") for option in options)])


def frontier(rows, cost, title, subtitle, axis, source):
    """Validation loss against a cost (log axis): a point each; those that no other beats in both have their names."""
    width, height, left, right, top, bottom = 760, 430, 60, 24, 70, 64
    xs, ys = [row[cost] for row in rows], [row["final_loss_mean"] for row in rows]
    low_x, high_x = min(xs) / 1.4, max(xs) * 1.4
    # One that failed must not flatten the others: it stays at the upper edge.
    low, high = min(ys), min(max(ys), min(ys) + 3 * (statistics.median(ys) - min(ys)) or max(ys))
    pad = 0.1 * (high - low or 1)
    low, high = low - pad, high + pad

    def x(value):
        return left + (width - left - right) * math.log(value / low_x) / math.log(high_x / low_x)

    def y(value):
        return max(top, height - bottom - (height - bottom - top) * (value - low) / (high - low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
        f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(16, 26, title, 16, weight="600"), text(16, 46, subtitle, 12, fill="#57606a"),
    ]
    for tick in ticks_of(low_x, high_x):
        parts += [f'<line x1="{x(tick):.1f}" y1="{top}" x2="{x(tick):.1f}" y2="{height - bottom}" stroke="{FAINT}" stroke-width="0.6"/>',
                  text(x(tick), height - bottom + 18, f"{tick:g}", 11, "middle", fill="#57606a")]
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 6)
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        parts += [f'<line x1="{left}" y1="{y(number * step):.1f}" x2="{width - right}" y2="{y(number * step):.1f}" stroke="{FAINT}" stroke-width="0.6"/>',
                  text(left - 8, y(number * step) + 4, f"{number * step:.4g}", 11, "end", fill="#57606a")]
    parts.append(text((left + width - right) / 2, height - bottom + 38, axis, 12, "middle"))
    wanted = {value: name for name, value in COSTS.items()}[cost]
    last = -math.inf
    for row in sorted(rows, key=lambda one: (wanted in one["frontier"], -one["final_loss_mean"])):
        on = wanted in row["frontier"]
        cx, cy = x(row[cost]), y(row["final_loss_mean"])
        color = EXACT if row["optimizer"].split(":")[0] in ("adamw", "adamw-bf16") and ":" not in row["optimizer"] else CODED
        spread = row["final_loss_spread"]
        parts += [f'<line x1="{cx:.1f}" y1="{y(row["final_loss_mean"] - spread):.1f}" x2="{cx:.1f}" y2="{y(row["final_loss_mean"] + spread):.1f}" stroke="{color}"/>',
                  f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="4.5" fill="{color if on else "#ffffff"}" stroke="{color}" stroke-width="1.6"><title>{name_of(row)}</title></circle>']
        if on:  # names go down the page, and do not lie on each other
            last = max(cy - 8, last + 13)
            parts.append(text(cx + (8 if cx < 0.6 * width else -8), last, name_of(row), 11, "start" if cx < 0.6 * width else "end"))
    parts.append(text(16, height - 8, f"Named: no other is as cheap and as good. Bars: standard deviation over seeds. Written from bench/results/{source}.json.", 11, fill="#57606a"))
    return "\n".join([*parts, "</svg>"]) + "\n"
