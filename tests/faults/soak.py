#!/usr/bin/env python3
"""100,000 steps on 4 thread ranks and on 2 MPI ranks: memory stays flat, replicas equal, steps as quick as at first.

    soak.py [--steps N] [--build build] [--record]     --record writes bench/results/soak.*; exits with 1 if one does not hold
"""
import argparse
import json
import subprocess
import sys

from campaign import ROOT, record
from launchers import mpi_environment

ELEMENTS = 50_000
GROWTH, SLOWER = 2.0, 5.0  # percent: of resident memory after the first tenth; of a step, the last tenth against the second


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    folder, rest, rows = f"{options.build}/tests", [str(options.steps), str(ELEMENTS)], []
    for engine, command in (("threads", [f"{folder}/soak", "4"]), ("mpi", ["mpirun", "-n", "2", f"{folder}/soak_mpi", "2"])):
        done = subprocess.run([*command, *rest], env=mpi_environment(), stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"soak: {engine} ended with {done.returncode}")
        rows.append({"engine": engine, **json.loads(done.stdout)})
        print(rows[-1], flush=True)
    if options.record:
        record("soak", "./run faults soak", rows)
    bad = [row["engine"] for row in rows if row["rss_growth_percent"] > GROWTH or row["slower_percent"] > SLOWER]
    sys.exit(f"soak: {' and '.join(bad)} do not hold what is promised" if bad else 0)


if __name__ == "__main__":
    main()
