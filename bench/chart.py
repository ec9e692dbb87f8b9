"""README's chart, an SVG written from the record of GPT-2 mini at 100 Mbit/s: time until each optimizer reached AdamW's quality."""

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
