#!/usr/bin/env python3
"""100,000 steps on 4 thread ranks and on 2 MPI ranks, of 1-bit Adam and of local steps with a delay: memory stays flat, replicas equal, steps as quick as at first.

    soak.py [--steps N] [--build build] [--record]     --record writes bench/results/soak.json; exits with 1 if one does not hold

How quick a machine is changes within minutes. So a second run, just begun, does its second tenth in turns of a quarter of a second with the first
one's last tenth, and these two are compared.
"""
import argparse
import contextlib
import statistics
import subprocess
import sys

from campaign import ROOT, record  # which makes bench/ known
from launchers import mpi_environment
from turns import Program, records

ELEMENTS = 100_000
TURN = 0.25  # seconds
LEAST = 20_000  # steps
GROWTH, SLOWER = 2.0, 5.0  # percent: of resident memory after the first tenth; of a step, the last tenth against the second
COMMANDS = {"threads": ["{}/soak", "4"], "mpi": ["mpirun", "-n", "2", "{}/soak_mpi", "2"]}
DELAYED = "local-steps"  # an exchange is always under way, on a thread of its own
RUNS = {**{engine: (engine, []) for engine in COMMANDS}, **{f"{engine}, {DELAYED}": (engine, [DELAYED]) for engine in COMMANDS}}


class Run:
    """A soak that goes on for a turn at a time."""

    def __init__(self, command, path, steps, stack):
        self.steps, self.path = steps, path
        self.program = stack.enter_context(Program(command, env=mpi_environment(), stdout=stack.enter_context(path.open("w"))))

    def blocks(self):
        return records(self.path)

    def until(self, tenths):
        while not (done := self.blocks()) or done[-1]["step"] < tenths * self.steps / 10:
            self.program.go(TURN)

    def after(self, tenths):
        return [block for block in self.blocks() if block["step"] > tenths * self.steps / 10]


def milliseconds(blocks):
    return statistics.median(block["ms"] for block in blocks)


def soak(name, build, steps, work):
    engine, method = RUNS[name]
    command = [word.format(f"{build}/tests") for word in COMMANDS[engine]] + [str(steps), str(ELEMENTS), *method]
    with contextlib.ExitStack() as stack:
        old = Run(command, work / f"{engine}{len(method)}-old", steps, stack)
        old.until(9)
        young = Run(command, work / f"{engine}{len(method)}-young", steps, stack)
        young.until(1)
        while old.program.go(TURN):
            young.program.go(TURN)
        last, second = milliseconds(old.after(9)), milliseconds(young.after(1))
        settled = old.after(1)
    growth = max(max(block["resident"][rank] for block in settled) / settled[0]["resident"][rank] - 1 for rank in range(len(settled[0]["resident"])))
    own_second = milliseconds(block for block in settled if block["step"] <= steps / 5)
    return {"engine": name, "ranks": len(settled[0]["resident"]), "steps": settled[-1]["step"], "elements": ELEMENTS, "replica_checks": steps // 100, "drift": 0,
            "rss_mib": settled[0]["resident"][0] / 2**20, "rss_growth_percent": 100 * growth, "step_ms_second_tenth": second, "step_ms_last_tenth": last,
            "slower_percent": 100 * (last / second - 1), "step_ms_second_tenth_at_its_time": own_second}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.steps < LEAST:
        parser.error(f"--steps {options.steps}: a tenth of it is too short to be timed, give at least {LEAST}")
    work, rows = ROOT / ".run/soak", []
    work.mkdir(parents=True, exist_ok=True)
    for name in RUNS:
        try:
            rows.append(soak(name, options.build, options.steps, work))
        except subprocess.CalledProcessError as error:
            sys.exit(f"soak: {name} ended with {error.returncode}")
        print(rows[-1], flush=True)
    if options.record:
        record("soak", "./run faults soak", rows)
    bad = [row["engine"] for row in rows if row["rss_growth_percent"] > GROWTH or row["slower_percent"] > SLOWER]
    sys.exit(f"soak: {' and '.join(bad)} do not hold what is promised" if bad else 0)


if __name__ == "__main__":
    main()
