"""What the command promises of ranks that train alone between exchanges, and while one is under way.

    local_train_test.py path/to/laconic [mpirun]
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import train_test
from train_test import TEXT, Command, environment

DELAYED = "streaming-diloco:every=8:fragments=2:delay=3"
ARMS = ("local-adamw:every=4", DELAYED, "co2:every=5")
SAME = ("weights_hash", "final_loss", "rounds")


class Local(Command):
    def cut(self, name, arm, *arguments, after):
        """A run that is killed once it has done so many steps, with a checkpoint every 5."""
        out = self.folder / name
        line = [train_test.LACONIC, "train", "--out", out, *TEXT, "--optimizer", arm, "--checkpoint-every", "5", *arguments, "--emulate", "2mbit,1ms"]
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        metrics = out / "metrics.jsonl"
        while process.poll() is None:
            if (out / "checkpoint/manifest.json").exists() and metrics.read_text().count("\n") >= after:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.01)
        process.wait()
        return json.loads((out / "checkpoint/manifest.json").read_text())["step"]

    def test_a_run_goes_on_to_the_same_bits(self):
        for arm in ARMS:
            with self.subTest(arm=arm):
                common = ["--steps", "24", "--ranks", "2"]
                whole = self.train("whole", *TEXT, "--optimizer", arm, *common, "--overwrite")
                name = arm.replace(":", "-")
                self.assertLess(self.cut(name, arm, *common, after=12), 20)
                resumed = self.train(name, "--resume")
                for field in SAME:  # what an exchange under way had sent is not in a checkpoint's sums
                    self.assertEqual(resumed[field], whole[field], field)

    def test_a_run_that_is_killed_comes_back_by_itself(self):
        common = [*TEXT, "--optimizer", DELAYED, "--steps", "40", "--checkpoint-every", "5"]
        whole = self.train("whole", *common)
        out = self.folder / "a"
        line = [train_test.LACONIC, "train", "--out", out, *common, "--emulate", "2mbit,1ms", "--restarts", "2"]
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
        metrics, children = out / "metrics.jsonl", Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not metrics.exists() or metrics.read_text().count("\n") < 12:
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        _, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn("signal 9 ended the run; restart 1 of 2", error)
        self.assertEqual(json.loads((out / "summary.json").read_text())["weights_hash"], whole["weights_hash"])
        self.assertEqual([one["step"] for one in self.metrics("a")], list(range(1, 41)))

    def test_other_ranks_go_on_from_what_was_learnt(self):
        for arm in ("local-adamw:every=1000", DELAYED):
            with self.subTest(arm=arm):
                name, more = arm.replace(":", "-"), ["--set", "run.validate_every=1000"]
                self.cut(name, arm, "--steps", "60", "--ranks", "2", *more, after=33)
                self.refused(2, ["2 ranks", "3", "--elastic"], "train", "--out", self.folder / name, "--resume", "--ranks", "3")
                self.assertEqual(self.train(name, "--resume", "--ranks", "3", "--elastic")["ranks"], 3)
                steps = self.metrics(name)
                self.assertEqual([one["step"] for one in steps], list(range(1, 61)))
                # Ranks that begin anew from the last exchange would be back at the loss of the first steps.
                def mean(part):
                    return sum(one["loss"] for one in part) / len(part)
                manifest = next(i for i, one in enumerate(steps) if one["step"] == 31)
                self.assertLess(mean(steps[manifest : manifest + 5]), mean(steps[:5]) - 0.5 * (mean(steps[:5]) - mean(steps[25:30])))

    def test_a_comparison_reports_them(self):
        out = self.folder / "cmp"
        text = self.done("compare", *TEXT, "--optimizers", ",".join(("adamw", *ARMS)), "--steps", "16", "--seeds", "2", "--out", out)
        arms = {arm["optimizer"]: arm for arm in json.loads((out / "summary.json").read_text())["arms"]}
        self.assertLessEqual(set(ARMS), arms.keys())
        self.assertAlmostEqual(arms["local-adamw:every=4"]["bits_per_parameter_per_step"], 8, delta=0.2)
        page = (out / "report.html").read_text()
        for arm in ARMS:
            self.assertIn(arm, text)
            self.assertIn(arm, page)
        self.assertIn("report.html", self.done("report", out))


class UnderMpirun(Command):
    def setUp(self):
        super().setUp()
        if train_test.MPIRUN is None:
            self.skipTest("laconic was built without MPI")

    def test_processes_give_the_bits_of_threads(self):
        for arm in ("local-adamw:every=4", DELAYED):
            common = [*TEXT, "--optimizer", arm, "--steps", "18", "--threads", "1", "--overwrite"]
            threads = self.train("threads", *common, "--ranks", "2")
            processes = self.train("mpi", *common, before=[train_test.MPIRUN, "-n", "2"])
            for field in SAME:
                self.assertEqual(threads[field], processes[field], field)
            sent = "bytes_sent_per_rank"  # a mean over ranks, rounded down
            self.assertAlmostEqual(threads[sent], processes[sent], delta=1)

    def test_a_rank_that_stops_is_named_although_nothing_is_exchanged(self):
        out = self.folder / "a"
        line = [train_test.MPIRUN, "-n", "3", train_test.LACONIC, "train", "--out", out, *TEXT, "--optimizer", "local-adamw:every=1000000",
                "--steps", "1000000", "--set", "run.timeout=4", "--set", "run.validate_every=1000000", "--threads", "1"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment() | {"LOCAL_TEST": str(out)})
        metrics = out / "metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count("\n") < 5:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        os.kill(self.pid_of(out, 2), signal.SIGSTOP)
        begin = time.monotonic()
        try:
            text, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 3, text)
        self.assertRegex(text, r"world rank 2 did not send exchange \d+ within 4000 ms")
        self.assertLess(time.monotonic() - begin, 30)

    @staticmethod
    def pid_of(out, rank):
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    found = (folder / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if f"LOCAL_TEST={out}".encode() in found and f"OMPI_COMM_WORLD_RANK={rank}".encode() in found:
                    return int(folder.name)
        raise AssertionError(f"no rank {rank}")


if __name__ == "__main__":
    train_test.LACONIC = sys.argv.pop(1)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and os.path.sep in sys.argv[1]:
        train_test.MPIRUN = sys.argv.pop(1)
    unittest.main()
