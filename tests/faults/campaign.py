#!/usr/bin/env python3
"""Injects faults into real jobs, and shows that nothing hangs, nothing is lost and no bit differs in the end.

    campaign.py --laconic build/laconic --calls build/tests/libfaulty_calls.so [--python .venv/bin/python]
                [--count N] [--seconds S] [--jobs N] [--seed S] [--only LAUNCHER,...] [--work FOLDER] [--record]

A job is a small training in a folder of its own. It suffers one to three faults, is started again after each, and must
end with the weights of a job that nothing happened to. After each fault: the job ends within its timeout and a margin,
with the exit code and message that are documented (the launcher's where it ends the ranks first); no process is left;
no checkpoint that was whole is gone. FOLDER/log.jsonl has a line a fault. --record writes bench/results/faults.json.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import hosts
import launchers
from jobs import MOUNTED, PATIENT, Job
from launchers import STEPS, results

RECORDED = 200  # faults that a campaign must have to be recorded
ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

# What happens, how often. A deck is dealt, so that a short campaign has the same mixture.
DECKS = {
    "mpirun": {"kill at a moment": 4, "kill in an exchange": 6, "kill in a checkpoint": 6, "kill, mpirun looks away": 2, "stop": 4,
               "full disk": 3, "full disk, tmpfs": 1, "read-only folder": 2, "read-only mount": 1},
    "threads": {"kill at a moment": 3, "kill in a checkpoint": 3, "full disk": 1, "read-only folder": 1},
    "torchrun": {"kill at a moment": 2, "kill in an exchange": 3, "kill in a checkpoint": 2, "kill, --max-restarts": 1, "stop": 2,
                 "full disk": 1},
    "hosts": {"cut link": 2, "kill at a moment": 1, "slow link": 1},
}  # fmt: skip
LAUNCHERS = {"mpirun": 11, "threads": 4, "torchrun": 4, "hosts": 2}


class Deck:
    def __init__(self, cards, source):
        self.cards, self.source, self.left = cards, source, []

    def deal(self):
        if not self.left:
            self.left = [card for card, count in self.cards.items() for _ in range(count)]
            self.source.shuffle(self.left)
        return self.left.pop()


class Failed(Exception):
    """A job that did not do what it should without any fault."""


class Campaign:
    def __init__(self, tools, options):
        self.tools, self.options, self.source = tools, options, random.Random(options.seed)
        weights = {name: LAUNCHERS[name] for name in options.only.split(",")}
        self.launchers = Deck(weights, self.source)
        self.kinds = {name: Deck(DECKS[name], self.source) for name in weights}
        self.work = Path(options.work)
        self.references, self.lines, self.lock = {}, [], threading.Lock()
        self.until, self.number = time.time() + options.seconds, 0
        self.can_mount, self.can_join = self.try_mount(), hosts.available()

    def try_mount(self):
        with tempfile.TemporaryDirectory() as folder:
            return os.geteuid() == 0 and self.mount(folder) and subprocess.run(["umount", folder]).returncode == 0

    @staticmethod
    def mount(folder):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True).returncode == 0

    def launcher(self, name, source):
        if name == "mpirun":
            return launchers.Mpirun(self.tools, source.choice(list(launchers.SHAPES)), source.choice((2, 3)))
        if name == "threads":
            return launchers.Threads(self.tools, source.choice(list(launchers.SHAPES)))
        return {"torchrun": launchers.Torchrun, "hosts": launchers.OnHosts}[name](self.tools, "torch")

    def reference(self, launcher):
        """The hash of a job that nothing happened to, and how often each rank called what."""
        key = launcher.name.replace("hosts", "torchrun"), launcher.shape, launcher.ranks
        with self.lock:
            if key not in self.references:
                plain = launcher if launcher.name != "hosts" else launchers.Torchrun(self.tools, "torch")
                self.references[key] = self.measure(plain, self.work / "-".join(map(str, key)))
            return self.references[key]

    def measure(self, launcher, folder):
        counts = folder.parent / f"{folder.name}.counts"
        for one in (folder, counts):
            one.mkdir(parents=True)
        own = {"LD_PRELOAD": self.tools.calls, "FAULT_COUNTS": str(counts), "FAULT_FOLDER": str(folder)}
        [(command, more)] = launcher.commands(folder, PATIENT, "")
        done = subprocess.run(command, env=launchers.mpi_environment() | more | own, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Failed(f"{shlex.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        ranks = {path.name.removeprefix("rank"): dict(line.split() for line in path.read_text().splitlines()) for path in counts.iterdir()}
        return {"hash": results(folder)[2], "counts": {r: {k: int(v) for k, v in found.items()} for r, found in ranks.items()}}

    def deal(self):
        """The next job: its number, launcher and faults; None: it is enough."""
        with self.lock:
            if len(self.lines) >= self.options.count or time.time() > self.until:
                return None
            name = self.launchers.deal()
            count = 1 if name == "threads" else self.source.randint(1, 3)
            self.number += 1
            return self.number, name, [self.kinds[name].deal() for _ in range(count)]

    def note(self, line):
        with self.lock:
            self.lines.append(line)
            with (self.work / "log.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")
            if line["verdict"] != "right":
                print(json.dumps({k: v for k, v in line.items() if k != "said"}), line.get("said", ""), flush=True)
            elif len(self.lines) % 20 == 0:
                print(f"{len(self.lines)} faults", flush=True)

    def work_on(self):
        while dealt := self.deal():
            number, name, kinds = dealt
            source = random.Random(f"{self.options.seed}/{number}")
            launcher = self.launcher(name, source)
            with contextlib.ExitStack() as stack:
                if name == "hosts" and not self.can_join or not self.can_mount and set(kinds) & set(MOUNTED):
                    for kind in kinds:
                        self.note({"kind": kind, "launcher": name, "job": number, "verdict": "skipped"})
                    continue
                if name == "hosts":
                    launcher.net = stack.enter_context(hosts.joined())
                self.one_job(number, launcher, kinds, source, stack)

    def one_job(self, number, launcher, kinds, source, stack):
        folder = self.work / f"job{number}"
        folder.mkdir()
        if set(kinds) & set(MOUNTED):
            self.mount(folder)
            stack.callback(subprocess.run, ["umount", "-l", str(folder)])
        job = Job(self.tools, launcher, folder, self.reference(launcher))
        lines = []
        for kind in kinds:
            if results(folder)[1] == STEPS:
                break
            if line := job.suffer(kind, source):
                lines.append(line | {"job": number})
            if kind == "cut link":
                launcher.net = stack.enter_context(hosts.joined())
        wrong = job.finish()
        if wrong and lines and lines[-1]["verdict"] == "right":
            lines[-1] |= {"verdict": wrong[0], "said": wrong[1]}
        for line in lines:
            self.note(line)
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for done in [pool.submit(self.work_on) for _ in range(self.options.jobs)]:
                done.result()

    def table(self):
        cells = sorted({(line["kind"], line["launcher"]) for line in self.lines})
        rows = [self.row(*cell, [line for line in self.lines if (line["kind"], line["launcher"]) == cell]) for cell in cells]
        shapes = [shape for shape in launchers.SHAPES if any(line.get("shape") == shape for line in self.lines)]
        rows += [self.row(f"all, {launchers.SHAPES[shape][1]}", "", [line for line in self.lines if line.get("shape") == shape]) for shape in shapes]
        return [*rows, self.row("all", "", self.lines)]

    @staticmethod
    def row(kind, launcher, lines):
        verdicts = Counter(line["verdict"] for line in lines)
        counts = {"count": len(lines) - verdicts["skipped"], **{name: verdicts[name] for name in ("lost", "hung", "wrong", "skipped")}}
        longest = max((line["seconds"] for line in lines if "seconds" in line), default=0.0)
        return {"fault": kind, "launcher": launcher, **counts, "longest_seconds": longest}


def record(name, command, rows):
    import record as records

    records.write(name, {**records.facts(), "runs": [{"command": command, "rows": rows}]})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laconic", default=str(ROOT / "build/laconic"))
    parser.add_argument("--calls", default=str(ROOT / "build/tests/libfaulty_calls.so"))
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--count", type=int, default=240, help="faults")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new job is started after so long")
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(LAUNCHERS), help="launchers")
    parser.add_argument("--work", default="", help="a folder for jobs and the log (default: a temporary one)")
    parser.add_argument("--record", action="store_true", help="write bench/results/faults.json")
    return parser.parse_args()


def main():
    options = parse()
    with contextlib.ExitStack() as stack:
        if not options.work:
            options.work = stack.enter_context(tempfile.TemporaryDirectory(prefix="laconic-faults-"))
        elif Path(options.work).exists():
            shutil.rmtree(options.work)
        Path(options.work).mkdir(parents=True, exist_ok=True)
        for name in ("work", "laconic", "calls"):
            setattr(options, name, str(Path(getattr(options, name)).resolve()))
        campaign = Campaign(options, options)
        try:
            campaign.run()
        except Failed as error:
            sys.exit(f"campaign: {error}")
        rows = campaign.table()
        for row in rows:
            print("  ".join(f"{value:<22}" if isinstance(value, str) else f"{key} {value:<6}" for key, value in row.items()))
        if options.record and rows[-1]["count"] >= RECORDED:
            record("faults", f"./run faults --count {options.count} --seed {options.seed} --jobs {options.jobs}", rows)
        total = rows[-1]
        sys.exit(1 if total["lost"] + total["hung"] + total["wrong"] or not total["count"] else 0)


if __name__ == "__main__":
    main()
