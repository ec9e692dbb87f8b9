#!/usr/bin/env python3
"""Compares the speed of two builds of the command: each benchmark is run by both in turns, on one machine, and each row's
ratio is that of the best times, which a loaded machine disturbs least. Records bench/results/before_after.json.

    before_after.py BEFORE AFTER [--rounds N] [--record] [NAME...]    BEFORE and AFTER are paths of the command
"""
import argparse
import collections
import json
import pathlib
import subprocess

import record

MI = 1 << 20
SUITES = {
    "kernels": [f"bench kernels --elements {16 * MI} --repeats 5"],
    "mean": [f"bench mean --kind {kind} --elements {8 * MI} --ranks 2 --repeats 9" for kind in record.KINDS],
    "step": [f"bench step --elements {16 * MI} --repeats 7"],
    "loop": ["bench loop --task text --model gpt2-mini --batch 4 --repeats 20"],
}


def rows_of(command, suite_line):
    rows = json.loads(subprocess.run([command, *suite_line.split(), "--json"], check=True, capture_output=True, text=True).stdout)
    return rows if isinstance(rows, list) else [rows]


def time_of(row):
    return float(row.get("seconds_least", row["seconds"]))


def name_of(line, row):
    words = [str(row[name]) for name in ("name", "what", "model", "elements") if name in row]
    return f"{line.split()[1]}: {' '.join(words)}"


def compared(before, after, names, rounds):
    best = collections.defaultdict(lambda: [float("inf"), float("inf")])
    for name in names:
        for line in SUITES[name]:
            for _ in range(rounds):
                for side, command in enumerate((before, after)):
                    for row in rows_of(command, line):
                        times = best[name_of(line, row)]
                        times[side] = min(times[side], time_of(row))
    return [{"what": what, "before": old, "after": new, "ratio": round(new / old, 3)} for what, (old, new) in best.items()
            if old < float("inf") and new < float("inf")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("names", nargs="*", default=list(SUITES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_intermixed_args()
    rows = compared(options.before, options.after, options.names or list(SUITES), options.rounds)
    for row in sorted(rows, key=lambda row: row["ratio"]):
        print(f"{row['ratio']:6.3f}  {row['what']}")
    if options.record:
        path = pathlib.Path(__file__).parent / "results/before_after.json"
        command = f"bench/before_after.py BEFORE AFTER --rounds {options.rounds} {' '.join(options.names)}".strip()
        path.write_text(json.dumps({**record.facts(), "runs": [{"command": command, "rows": rows}]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
