#!/usr/bin/env python3
"""Runs the fuzz targets, as many at a time as there are cores, and records what came of it in bench/results/fuzz.{json,md}.

    fuzz.py [SECONDS [TARGET...]]    600 seconds each, all targets; run from the project's root, after building the preset `fuzz`.
                                     Of targets that are not named the record keeps what it has.

What is found lies in .run/fuzz; exits with 1 then.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import record

PROGRAMS = pathlib.Path("build-fuzz/tests/fuzz")
SEEDS = pathlib.Path("tests/fuzz/seeds")
WORK = pathlib.Path(".run/fuzz")


def command_of(target, seconds):
    corpus = WORK / target
    corpus.mkdir(parents=True, exist_ok=True)
    return [str(PROGRAMS / f"fuzz_{target}"), f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=256",
            "-print_final_stats=1", f"-artifact_prefix={WORK}/{target}-", str(corpus), str(SEEDS / target)]


def last(pattern, text):
    return int(([0] + re.findall(pattern, text))[-1])


def fuzz(target, seconds):
    fast = {"TMPDIR": "/dev/shm"} if os.access("/dev/shm", os.W_OK) else {}
    ended = subprocess.run(command_of(target, seconds), env=os.environ | fast, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace")
    (WORK / f"{target}.log").write_text(ended.stderr)
    found = re.findall(r"Test unit written to (\S+)", ended.stderr)
    result = "clean" if ended.returncode == 0 else f"found {', '.join(found) or 'something'}, see {WORK}/{target}.log"
    row = {"target": target, "seconds": last(r"Done \d+ runs in (\d+) second", ended.stderr) or seconds,
           "executions": last(r"number_of_executed_units:\s+(\d+)", ended.stderr), "coverage": last(r"cov: (\d+)", ended.stderr),
           "features": last(r" ft: (\d+)", ended.stderr), "seeds": len(list((SEEDS / target).iterdir())), "result": result}
    print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return row


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    targets = sys.argv[2:] or sorted(path.name for path in SEEDS.iterdir())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda target: fuzz(target, seconds), targets))
    machine = record.machine() | {"compiler": record.output_of("clang++-14", "--version").splitlines()[0]}
    kept = pathlib.Path("bench/results/fuzz.json")
    before = json.loads(kept.read_text())["runs"][0]["rows"] if kept.exists() else []
    rows = sorted(rows + [row for row in before if row["target"] not in targets], key=lambda row: row["target"])
    commands = "\n".join(" ".join(command_of(row["target"], seconds)) for row in rows)
    record.write("fuzz", {**record.facts(), "machine": machine, "runs": [{"command": commands, "rows": rows}]})
    return 0 if all(row["result"] == "clean" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
