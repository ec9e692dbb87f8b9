"""Programs that take turns on this machine: one goes on while the others are stopped. What disturbs the machine for longer than
a turn then meets all of them alike, and their times can be compared."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess


def records(path):
    """The JSON lines that a program has written so far, without one that it is still writing or was stopped in."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


class Program:
    """A command with all processes that it starts."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, start_new_session=True, **options)

    def go(self, seconds):
        """One turn. False: it has ended."""
        self.signal(signal.SIGCONT, self.workers())
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGSTOP, self.workers())
            return True
        if self.process.returncode:
            raise subprocess.CalledProcessError(self.process.returncode, self.process.args)
        return False

    @staticmethod
    def signal(number, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def members(self):
        """{pid: parent}. Launchers give their ranks process groups of their own, but not sessions."""
        found = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                _, parent, _, session, *_ = stat.read_text().rsplit(")", 1)[1].split()
                if int(session) == self.process.pid:
                    found[int(stat.parent.name)] = int(parent)
        return found

    def workers(self):
        """Not the launchers."""
        found = self.members()
        return found.keys() - found.values()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.signal(signal.SIGKILL, self.members())
        self.process.wait()
