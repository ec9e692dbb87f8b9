#!/usr/bin/env python3
"""Runs the benchmarks and trainings and records them under bench/results/, with the command, the machine and the commit;
then writes docs/explanation/results.md, README's tables and its chart from all that is recorded.

    record.py [NAME...] [--resume] [--minutes N]      all of SUITES and of studies.py, or the named ones; `frontier`: all studies
                                                      of frontier.py. Run from the project's root after ./run build

--resume leaves out what is recorded already. --minutes ends what is under way after so long, at a step from which the same
command goes on: trainings of studies keep what is finished, and a checkpoint of what is not.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import signal
import subprocess
import sys
import threading

import frontier
import results_page
import studies

MEAN = "build/laconic bench mean"
PYTHON = ".venv/bin/python -m"
KINDS = ("dense", "one-bit", "random-sign --form two-round", "random-sign --form single-round", "random-sign --form count")
MI = 1 << 20


def on_targets(command):
    """Once for each instruction set that users have and this CPU too: the best may hide what costs the others."""
    flags = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    return [f"{command} --target {name}" for name, flag in (("avx512", "avx512bw"), ("avx2", "avx2")) if f" {flag} " in flags] or [command]


SUITES = {
    "kernels": on_targets("build/laconic bench kernels"),
    "step": on_targets("build/laconic bench step"),
    "mean_threads": [f"{MEAN} --kind {kind} --elements {25 * MI} --ranks 2" for kind in KINDS],
    "mean_mpi": [f"mpirun -n 2 {MEAN} --kind {kind} --elements {25 * MI} --ranks 2 --transport mpi --repeats 15" for kind in KINDS],
    "mean_100mbit": [f"{MEAN} --kind {kind} --elements {size * MI} --ranks 4 --emulate 100mbit"
                     for size in (4, 25) for kind in ("dense", "one-bit")],
    "mean_1gbit": [f"{MEAN} --kind {kind} --elements {25 * MI} --ranks 2 --emulate 1gbit" for kind in ("dense", "one-bit")],
    "loop": [f"build/laconic bench loop --task text --model gpt2-mini --batch {batch}" for batch in (4, 8)]
            + ["build/laconic bench loop --task fashion-mnist --model resnet20 --batch 32"],
    "mean_nodes": [f"{MEAN} --kind {kind} --elements {4 * MI} --ranks 4 --ranks-per-node {per_node} --emulate 1gbit"
                   for kind in ("dense", "one-bit") for per_node in (1, 2)],
    "python_means": [f"{PYTHON} torch.distributed.run --standalone --nproc-per-node=2 -m laconic.bench --repeats 15"],
    "sweep_mpi": [f"mpirun -n 2 {MEAN} --sweep --ranks 2 --transport mpi --repeats 15"],
    "sweep_gloo": [f"{PYTHON} torch.distributed.run --standalone --nproc-per-node=2 -m laconic.bench --sweep --repeats 15"],
    "python_steps": [f"{PYTHON} laconic.bench steps --repeats 15"],
    "python_cluster": ["bench/cluster --ranks 2"],
    "sharded": [f"bench/sharded --rates {rate}" for rate in ("100mbit", "1gbit")],
}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def machine():
    def field(path, name):
        lines = pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else []
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "unknown")

    return {"cpu": field("/proc/cpuinfo", "model name"), "cores": os.cpu_count(), "memory": field("/proc/meminfo", "MemTotal"),
            "system": f"{platform.system()} {platform.release()}", "compiler": output_of("g++", "--version").splitlines()[0]}


def commit():
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return output_of("git", "rev-parse", "HEAD") + (" with changes" if changed else "")


def run(command):
    print(f"+ {command}", flush=True)
    out = output_of(*shlex.split(command), "--json")
    rows = json.loads(out)
    return {"command": command, "rows": rows if isinstance(rows, list) else [rows]}


def facts():
    """What every record says beside its rows."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return {"date": date, "commit": commit(), "machine": machine()}


def record_of(name):
    if name in SUITES:
        return {**facts(), "runs": [run(command) for command in SUITES[name]]}
    commands = []
    rows = studies.STUDIES[name](commands)
    return {**facts(), "runs": [{"command": "\n".join(dict.fromkeys(commands)), "rows": rows}]}


def write(name, record):
    folder = pathlib.Path("bench/results")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(folder / f"{name}.json")


def wanted_names(given):
    names = [*SUITES, *studies.STUDIES]
    groups = {"frontier": list(frontier.studies(studies))}
    unknown = set(given) - set(names) - set(groups)
    if unknown:
        sys.exit(f"record: no suite named {', '.join(sorted(unknown))}; there are: {', '.join([*names, *groups])}")
    return [name for one in given or names for name in groups.get(one, [one])]


def stop_after(minutes):
    """Asks the training that is under way to stop, as Ctrl-C would; it leaves a checkpoint."""
    def stop():
        print(f"record: {minutes:g} minutes are over", flush=True)
        studies.stop(signal.SIGTERM)
    timer = threading.Timer(60 * minutes, stop)
    timer.daemon = True
    timer.start()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--minutes", type=float)
    options = parser.parse_args()
    names = wanted_names(options.names)
    if options.minutes:
        stop_after(options.minutes)
    for name in names:
        if options.resume and pathlib.Path(f"bench/results/{name}.json").exists():
            continue
        try:
            record = record_of(name)
        except studies.MissingData as error:
            print(f"record: {name} is left out: {error}")
            continue
        except studies.Stopped:
            print(f"record: {name} is not finished; --resume goes on with it")
            break
        write(name, record)
    results_page.write()
    print("docs/explanation/results.md, its charts and README.md")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"record: {shlex.join(error.cmd)} ended with {error.returncode}\n{error.stderr}")
