#!/usr/bin/env python3
"""One step of a Chrome trace (laconic train --trace FILE) as an SVG: backward, encode, wire and decode of every bucket.

    timeline.py record TRACE STEP COMMAND     keeps that step of the trace, which COMMAND wrote, as bench/results/timeline.json
    timeline.py                               writes docs/timeline.svg from that record
"""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD, PICTURE = ROOT / "bench/results/timeline.json", ROOT / "docs/timeline.svg"
WIDTH, LEFT, TOP, ROW, BAR = 860, 150, 74, 22, 16
FILLS = {"forward": "#c9ced6", "backward": "#8a8f98", "step waits": "#d1495b", "encode": "#2f6db5", "combine": "#6aa5e3", "decode": "#1b998b", "share": "#6aa5e3", "wire": "#e3b23c"}
INK, FAINT = "#1f2328", "#d0d7de"


def spans_of(trace, step):
    """[{name, row, bucket, begin, end}] of one step, in milliseconds from its beginning."""
    spans = [one for one in trace["traceEvents"] if one["ph"] == "X" and one["args"]["step"] == step]
    if not spans:
        sys.exit(f"timeline: the trace has no step {step}")
    first = min(one["ts"] for one in spans)
    return [{"name": one["name"], "row": one["tid"], "bucket": one["args"]["bucket"], "begin": round((one["ts"] - first) / 1e3, 4),
             "end": round((one["ts"] - first + one["dur"]) / 1e3, 4)} for one in spans]


def text(x, y, content, size=12, anchor="start", weight="normal", fill=INK):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">{content}</text>'


def picture(record):
    spans = record["runs"][0]["rows"]
    rows = sorted({one["row"] for one in spans})
    length = max(one["end"] for one in spans)
    scale = (WIDTH - LEFT - 20) / length
    height = TOP + ROW * len(rows) + 62
    names = {0: "forward, backward", 1: "encode, decode"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
        "<title>When each bucket of one step was computed, encoded, sent and decoded</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(16, 26, record["title"], 15, weight="600"),
        text(16, 46, record["subtitle"], fill="#57606a"),
    ]
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        parts.append(text(LEFT - 10, y + 12, names.get(row, f"messages {row - 1}"), anchor="end"))
        for one in (one for one in spans if one["row"] == row):
            width = max(0.6, (one["end"] - one["begin"]) * scale)
            parts.append(f'<rect x="{LEFT + one["begin"] * scale:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{FILLS[one["name"]]}">'
                         f'<title>{one["name"]}, bucket {one["bucket"]}: {one["end"] - one["begin"]:.2f} ms</title></rect>')
            if row == 0 and one["bucket"] >= 0 and width > 14:
                parts.append(text(LEFT + one["begin"] * scale + width / 2, y + 12, one["bucket"], 9, "middle", fill="#ffffff"))
    y = TOP + ROW * len(rows) + 8
    parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 20}" y2="{y}" stroke="{FAINT}"/>')
    step = next(unit for unit in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000) if length / unit <= 12)
    for tick in range(0, int(length) + 1, step):
        parts.append(text(LEFT + tick * scale, y + 14, f"{tick} ms", 10, "middle", fill="#57606a"))
    x = LEFT
    for name in dict.fromkeys(one["name"] for one in spans):
        parts += [f'<rect x="{x}" y="{y + 28}" width="11" height="11" fill="{FILLS[name]}"/>', text(x + 16, y + 38, name, 11)]
        x += 34 + 7 * len(name)
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    if sys.argv[1:2] == ["record"]:
        import record

        trace, step, command = sys.argv[2:]
        found = spans_of(json.loads(Path(trace).read_text()), int(step))
        buckets = len({one["bucket"] for one in found if one["bucket"] >= 0})
        waited = sum(one["end"] - one["begin"] for one in found if one["name"] == "step waits")
        RECORD.write_text(json.dumps({
            **record.facts(), "step": int(step), "title": f"One step in {buckets} buckets: exchanges run under backward",
            "subtitle": f"Rank 0 of 2, emulated network; step() waits {waited:.1f} ms. Written from bench/results/timeline.json.",
            "runs": [{"command": command, "rows": found}]}, indent=1) + "\n")
    PICTURE.write_text(picture(json.loads(RECORD.read_text())))
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
