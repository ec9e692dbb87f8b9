"""One job of a campaign: a small training that is hurt, started again, and must end as if nothing had happened."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import launchers
from launchers import COMES_BACK, EVERY, FILE_CALLS, STEPS, results

TIMEOUT, MARGIN = 3, 12  # seconds: of a silent rank; for the rest, on a machine with more ranks than cores
ASLEEP = 5  # that a rank is stopped for after the others' timeout, which begins when they wait for it
PATIENT = 120  # the timeout of legs that nothing happens to
ERRORS = {"full disk": ("ENOSPC", ("write", "fsync", "open")), "read-only folder": ("EROFS", ("open", "rename"))}
MOUNTED = ("full disk, tmpfs", "read-only mount")


class Leg:
    """One start of a job, with at most one fault, until all its processes are gone."""

    def __init__(self, job, fault=None):
        self.job, self.fault = job, fault
        self.tag = f"{job.folder}/{job.legs}"
        self.mark = job.folder.parent / f"{job.folder.name}.mark{job.legs}"
        self.output = job.folder.parent / f"{job.folder.name}.out{job.legs}"
        self.pid, self.began = None, time.time()
        job.legs += 1

    def environment(self):
        own = launchers.mpi_environment() | {"FAULT_JOB": self.tag}
        if self.fault and "call" in self.fault:
            own |= {"LD_PRELOAD": self.job.tools.calls, "FAULT_CALL": self.fault["call"], "FAULT_FOLDER": str(self.job.folder),
                    "FAULT_MARK": str(self.mark)}  # fmt: skip
            if self.job.launcher.name != "threads":
                own["FAULT_RANK"] = str(self.fault["rank"])
        return own

    def run(self):
        """The exit codes; None: it had to be ended."""
        timeout = TIMEOUT if self.fault and self.fault["kind"] not in ("slow link", COMES_BACK) else PATIENT
        with self.output.open("w") as output:
            processes = [
                subprocess.Popen(command, env=self.environment() | more, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                 cwd=self.job.folder.parent, start_new_session=True)
                for command, more in self.job.launcher.commands(self.job.folder, timeout, self.fault["kind"] if self.fault else "")
            ]  # fmt: skip
            hung = not self.watch(processes)
            self.ended = time.time()
            for process in processes:
                if hung:
                    process.kill()
            codes = [process.wait() for process in processes]
        return None if self.left_behind() or hung else codes

    def watch(self, processes):
        """Hurts the job when it is time; False when it outlives its limit."""
        limit = self.began + PATIENT
        while any(process.poll() is None for process in processes):
            now = time.time()
            if self.fault and not self.mark.exists() and self.due():
                self.hurt()
            if self.mark.exists():
                limit = self.struck() + TIMEOUT + self.job.launcher.grace + MARGIN + self.to_come_back()
                if self.fault.get("release") and now > self.struck() + TIMEOUT + self.job.launcher.grace + ASLEEP:
                    self.release()
            if now > limit:
                return False
            time.sleep(0.005)
        return True

    def to_come_back(self):
        """Seconds for the rest of the training, where the launcher itself starts the job again."""
        return 60 if self.fault["kind"] == COMES_BACK or self.job.launcher.name == "threads" else 0

    def struck(self):
        return self.mark.stat().st_mtime

    def due(self):
        if "after" not in self.fault:
            return False
        metrics = self.job.folder / "metrics.jsonl"
        return metrics.exists() and metrics.stat().st_mtime >= self.began and metrics.read_bytes().count(b"\n") >= self.fault["after"]

    def hurt(self):
        time.sleep(self.fault["delay"])
        if self.fault["kind"] == "cut link":
            self.job.launcher.net.cut()
        else:
            self.pid = launchers.ranks_of(self.tag)[0].get(self.fault["rank"])
            if self.pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGSTOP if self.fault["kind"] == "stop" else signal.SIGKILL)
        self.mark.touch()

    def release(self):
        """A rank that was stopped wakes up, or dies, when the others have long given it up."""
        number = self.fault.pop("release")
        pid = launchers.ranks_of(self.tag)[0].get(self.fault["rank"])
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def left_behind(self):
        """Whether a process is still there some seconds later; it is ended then."""
        until = time.time() + 5
        while launchers.ranks_of(self.tag)[1] and time.time() < until:
            time.sleep(0.05)
        left = launchers.ranks_of(self.tag)[1]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(left)

    def text(self):
        return self.output.read_text(errors="replace")


class Job:
    def __init__(self, tools, launcher, folder, reference):
        self.tools, self.launcher, self.folder, self.reference, self.legs = tools, launcher, folder, reference, 0

    def prepare(self, kind, source):
        """What exactly happens: who is hurt, and when."""
        done = results(self.folder)[1]
        fault = {"kind": kind, "launcher": self.launcher.name, "shape": self.launcher.shape, "ranks": self.launcher.ranks,
                 "rank": source.randrange(self.launcher.ranks)}  # fmt: skip
        if kind == "stop":
            fault["release"] = source.choice((signal.SIGCONT, signal.SIGKILL))
        if kind in ("kill at a moment", "cut link") or kind == "stop" and source.random() < 0.3:
            fault |= {"after": source.randint(done + 1, STEPS - 1), "delay": source.uniform(0, 0.03)}
            return fault
        if kind in ERRORS:
            action, calls = ERRORS[kind]
        else:
            action = "stop" if kind == "stop" else "kill"
            calls = FILE_CALLS if kind == "kill in a checkpoint" else [c for c in self.launcher.calls if c not in FILE_CALLS]
        if kind not in MOUNTED and kind != "slow link":
            rank = "" if self.launcher.name == "threads" else str(fault["rank"])
            call = source.choice([call for call in calls if self.reference["counts"][rank].get(call)])
            most = self.reference["counts"][rank][call] * (STEPS - done) // STEPS
            fault["call"] = f"{call}:{source.randint(1, max(1, most))}:{action}"
        return fault

    @contextlib.contextmanager
    def surroundings(self, kind, source):
        """What is wrong around the job while it runs."""
        if kind == "slow link":
            self.launcher.net.slow("2mbit")
        if kind == "full disk, tmpfs":
            filler = self.folder / "filler"
            filler.write_bytes(bytes(max(0, shutil.disk_usage(self.folder).free - source.randrange(200_000))))
        if kind == "read-only mount":
            subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)
        yield
        if kind == "full disk, tmpfs":
            filler.unlink()
        if kind == "read-only mount":
            subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)

    def suffer(self, kind, source):
        """One fault. Returns its line of the log; None when the job ended before it happened."""
        before, fault = results(self.folder)[1], self.prepare(kind, source)
        leg = Leg(self, fault)
        with self.surroundings(kind, source):
            if kind in MOUNTED:
                leg.mark.touch()
            codes = leg.run()
        steps, saved, _ = results(self.folder)
        whole = max(before, EVERY * ((steps[-1] - 1) // EVERY) if steps else 0)
        if kind == "slow link":
            told, seconds = codes == [0] * len(codes or ()), leg.ended - leg.began
        elif not leg.mark.exists() or self.over_before(fault, codes, saved):
            return None
        else:
            told = codes is not None and self.launcher.told(kind, fault["rank"], codes, leg.text())
            seconds = leg.ended - leg.struck()
        fault.pop("release", None)
        verdict = "hung" if codes is None else "lost" if saved < whole else "right" if told else "wrong"
        line = fault | {"verdict": verdict, "codes": codes, "seconds": round(seconds, 2), "step": steps[-1] if steps else 0, "saved": saved}
        if verdict != "right":
            line["said"] = leg.text()[-3000:]
        return line

    @staticmethod
    def over_before(fault, codes, saved):
        """Whether the job had nothing left to do that the fault could hinder: a script of its own goes on after our last word."""
        if fault["launcher"] in ("torchrun", "hosts") and saved == STEPS:
            return True
        return codes is not None and not any(codes) and fault["launcher"] != "threads" and ("after" in fault or fault["kind"] in MOUNTED)

    def finish(self):
        """Goes on to the end. What is wrong, or nothing."""
        leg = Leg(self)
        codes = leg.run()
        if codes != [0] * len(codes or ()) or codes is None:
            return "lost", f"the restart ended with {codes}\n{leg.text()[-3000:]}"
        steps, _, found = results(self.folder)
        if steps != list(range(1, STEPS + 1)):
            return "wrong", f"metrics.jsonl has the steps {steps}"
        if found != self.reference["hash"]:
            return "wrong", f"the weights are {found}, not {self.reference['hash']}"
        return None
