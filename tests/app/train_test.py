"""What train, compare, eval and report promise: files, fields, exact resume, exit codes, plain errors.

    train_test.py path/to/laconic [mpirun]
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LACONIC, MPIRUN = "", None
OPTIMIZERS = ("sgdm", "adamw", "lamb", "one-bit-adam", "one-bit-lamb", "zero-one-adam", "birder")
SUMMARY = {"optimizer", "task", "model", "ranks", "steps", "seed", "final_loss", "final_metric", "bits_per_parameter_per_step",
           "rounds", "bytes_sent_per_rank", "skipped_steps", "seconds", "weights_hash"}
IMAGES = ["--task", "fashion-mnist", "--data", "generated", "--model", "resnet8", "--set", "model.width=4", "--batch", "8",
          "--set", "run.validation_examples=64"]
TEXT = ["--task", "text", "--data", "generated", "--model", "gpt2-mini", "--set", "model.depth=1", "--set", "model.width=32",
        "--batch", "2", "--set", "data.context=32", "--set", "run.validation_examples=16"]


def environment():
    # A launcher around this test is not a launcher of the command.
    return {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM_", "PMI_", "PMIX_"))}


def laconic(*arguments, before=()):
    return subprocess.run([*before, LACONIC, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=environment())


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def done(self, *arguments, before=()):
        done = laconic(*arguments, before=before)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def train(self, name, *arguments, before=()):
        out = self.folder / name
        self.done("train", "--out", out, *arguments, before=before)
        return json.loads((out / "summary.json").read_text())

    def refused(self, code, words, *arguments):
        done = laconic(*arguments)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        return done

    def metrics(self, name):
        return [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]


class Training(Command):
    def test_every_optimizer_writes_what_it_promises(self):
        for optimizer in OPTIMIZERS:
            with self.subTest(optimizer=optimizer):
                summary = self.train(optimizer, *IMAGES, "--optimizer", optimizer, "--steps", "6", "--ranks", "2")
                self.assertLessEqual(SUMMARY, summary.keys())
                self.assertEqual((summary["optimizer"], summary["ranks"], summary["steps"]), (optimizer, 2, 6))
                steps = self.metrics(optimizer)
                self.assertEqual([one["step"] for one in steps], [1, 2, 3, 4, 5, 6])
                self.assertEqual(steps[-1]["bytes_total"], summary["bytes_sent_per_rank"])
                self.assertIn("validation_loss", steps[-1])
                self.assertGreater((self.folder / optimizer / "model.safetensors").stat().st_size, 4 * summary["parameters"])

    def test_the_first_line_says_what_runs(self):
        first = self.done("train", *IMAGES, "--out", self.folder / "a", "--optimizer", "one-bit-adam", "--steps", "2", "--emulate", "1gbit,50us").splitlines()[0]
        for word in ("one-bit-adam", "one-bit mean", "2 ranks", "threads of one process", "1gbit,50us", "resnet8"):
            self.assertIn(word, first)

    def test_the_loss_falls(self):
        for optimizer in OPTIMIZERS:
            with self.subTest(optimizer=optimizer):
                self.train(optimizer, *IMAGES, "--optimizer", optimizer, "--steps", "60", "--ranks", "2")
                losses = [one["loss"] for one in self.metrics(optimizer)]
                self.assertLess(sum(losses[-5:]), 0.9 * sum(losses[:5]))

    def test_the_same_command_gives_the_same_bits(self):
        runs = [self.train(str(i), *TEXT, "--steps", "8", "--ranks", "2", "--set", "model.dropout=0.1") for i in range(2)]
        self.assertEqual(runs[0]["weights_hash"], runs[1]["weights_hash"])
        self.assertEqual(runs[0]["final_loss"], runs[1]["final_loss"])
        other = self.train("other", *TEXT, "--steps", "8", "--ranks", "2", "--set", "model.dropout=0.1", "--seed", "2")
        self.assertNotEqual(other["weights_hash"], runs[0]["weights_hash"])

    def test_the_emulated_network_changes_the_time_and_no_bit(self):
        plain = self.train("plain", *TEXT, "--steps", "6")
        slow = self.train("slow", *TEXT, "--steps", "6", "--emulate", "20mbit,1ms")
        self.assertEqual(plain["weights_hash"], slow["weights_hash"])
        self.assertEqual(plain["bytes_sent_per_rank"], slow["bytes_sent_per_rank"])
        self.assertGreater(slow["seconds"], slow["bytes_sent_per_rank"] * 8 / 20e6 / 2)

    def test_config_files_and_set_are_read(self):
        config = self.folder / "run.toml"
        config.write_text('[run]\ntask = "fashion-mnist"\ndata = "generated"\nmodel = "resnet8"\nbatch = 4\nsteps = 2\n'
                          'validation_examples = 16\n[model]\nwidth = 4\n[optimizer]\nscale_block = 128\n')
        summary = self.train("a", "--config", config, "--set", "optimizer.scale_norm=l1", "--steps", "3")
        self.assertEqual((summary["steps"], summary["batch"]), (3, 4))
        self.assertEqual(summary["config"]["optimizer.scale_block"], "128")
        self.assertEqual(summary["config"]["optimizer.scale_norm"], "l1")

    def test_the_way_of_the_exchange_is_chosen_and_told(self):
        self.train("auto", *TEXT, "--steps", "20", "--ranks", "2", "--optimizer", "birder", "--exchange", "auto", "--strict", "--emulate", "20mbit")
        self.assertEqual({step["exchange"] for step in self.metrics("auto")}, {"coded"})
        self.refused(2, ["exchange = auto", "adamw", "strict"], "train", *TEXT, "--optimizer", "adamw", "--exchange", "auto", "--strict", "--out", self.folder / "no")

    def test_a_guarded_run_without_a_spike_is_the_run_itself(self):
        runs = [self.train(str(guard), *TEXT, "--steps", "12", "--optimizer", "birder", *guard) for guard in ([], ["--guard"])]
        self.assertEqual(runs[0]["weights_hash"], runs[1]["weights_hash"])

    def test_a_spike_is_answered_with_exact_steps(self):
        # A learning rate that grows until the loss jumps.
        told = self.done("train", "--out", self.folder / "a", *TEXT, "--steps", "60", "--optimizer", "birder", "--lr", "1",
                         "--set", "schedule.warmup=0.9", "--ranks", "2", "--guard")
        spike = re.search(r"guard: at step (\d+) the loss is .* deviations above .*; the next 8 coded steps are exact", told)
        self.assertIsNotNone(spike, told)
        first = int(spike[1]) + 2  # ranks learn of a loss while the next step is under way
        ways = {step["step"]: step["exchange"] for step in self.metrics("a")}
        self.assertIn(f"from step {first} on the exchange is dense", told)
        self.assertEqual([ways[step] for step in range(1, first)], ["coded"] * (first - 1))
        self.assertEqual([ways[step] for step in range(first, first + 8)], ["dense"] * 8)
        self.assertEqual(ways[first + 8], "coded")

    def test_one_rank_trains_too(self):
        summary = self.train("a", *IMAGES, "--ranks", "1", "--steps", "4", "--optimizer", "birder")
        self.assertEqual(summary["bytes_sent_per_rank"], 0)
        self.assertGreater(summary["bits_per_parameter_per_step"], 0.5)

    def test_tensorboard_files_are_written_when_asked_for(self):
        self.train("a", *IMAGES, "--steps", "2", "--tensorboard")
        self.assertTrue(list((self.folder / "a").glob("*tfevents*")))

    def test_a_trace_shows_every_bucket_of_every_step_and_changes_no_bit(self):
        options = (*TEXT, "--optimizer", "zero-one-adam", "--ranks", "2", "--steps", "4", "--set", "optimizer.bucket_elements=8192")
        plain = self.train("plain", *options)
        traced = self.train("traced", *options, "--trace", self.folder / "traces/trace.json")
        self.assertEqual(traced["weights_hash"], plain["weights_hash"])
        for rank, name in ((0, "trace.json"), (1, "trace.rank1.json")):
            events = json.loads((self.folder / "traces" / name).read_text())["traceEvents"]
            spans = [one for one in events if one["ph"] == "X"]
            self.assertEqual({one["pid"] for one in events}, {rank})
            self.assertEqual({one["args"]["step"] for one in spans}, {1, 2, 3, 4})
            buckets = {one["args"]["bucket"] for one in spans if one["name"] == "encode"}
            self.assertGreater(len(buckets), 2)
            for kind in ("backward", "combine", "decode", "wire"):
                self.assertLessEqual(buckets, {one["args"]["bucket"] for one in spans if one["name"] == kind}, kind)
            for once in ("forward", "step waits"):
                self.assertEqual(sum(one["name"] == once for one in spans), 4)
            self.assertTrue(all(one["dur"] >= 0 for one in spans))

    def test_a_model_starts_from_another(self):
        masked = ["--data", "generated", "--model", "bert-mini", "--set", "model.depth=1", "--set", "model.width=32", "--batch", "2",
                  "--set", "data.context=32", "--set", "run.validation_examples=16", "--steps", "3"]
        self.train("mlm", "--task", "mlm", *masked)
        summary = self.train("sst2", "--task", "sst2", *masked, "--init", self.folder / "mlm/model.safetensors")
        self.assertEqual(summary["metric"], "accuracy")


class Resuming(Command):
    def test_a_resumed_run_equals_an_unbroken_one(self):
        for optimizer in OPTIMIZERS:
            with self.subTest(optimizer=optimizer):
                common = [*IMAGES, "--optimizer", optimizer, "--steps", "12", "--ranks", "2", "--checkpoint-every", "5",
                          "--set", "run.validate_every=4"]
                whole = self.train(optimizer + "-whole", *common)
                out = self.folder / (optimizer + "-cut")
                self.interrupt(out, common, after=7)
                self.done("train", "--out", out, "--resume")
                resumed = json.loads((out / "summary.json").read_text())
                for field in ("weights_hash", "final_loss", "final_metric", "bytes_sent_per_rank", "rounds"):
                    self.assertEqual(resumed[field], whole[field], field)
                a, b = self.metrics(optimizer + "-whole"), self.metrics(optimizer + "-cut")
                for one in a + b:
                    for key in [key for key in one if "seconds" in key]:
                        del one[key]
                self.assertEqual(a, b)

    def interrupt(self, out, arguments, after):
        """Kills a run, without asking it, when it has written the checkpoint of step 5 and `after` steps."""
        process = subprocess.Popen([LACONIC, "train", "--out", out, *arguments, "--emulate", "2mbit,1ms"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment())
        metrics = out / "metrics.jsonl"
        while process.poll() is None:
            if (out / "checkpoint/manifest.json").exists() and metrics.read_text().count("\n") >= after:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.01)
        process.wait()

    def test_steps_may_be_raised_and_the_rest_not(self):
        self.train("a", *IMAGES, "--steps", "4", "--checkpoint-every", "3")
        self.assertEqual(self.train("a", "--resume", "--steps", "6")["steps"], 6)
        self.refused(2, ["run.batch", "8", "9"], "train", "--out", self.folder / "a", "--resume", "--batch", "9")
        self.refused(2, ["run.seed"], "train", "--out", self.folder / "a", "--resume", "--seed", "9")

    def test_other_ranks_may_go_on(self):
        self.train("a", *IMAGES, "--steps", "4", "--ranks", "2", "--checkpoint-every", "4")
        self.refused(2, ["2 ranks", "3", "--elastic"], "train", "--out", self.folder / "a", "--resume", "--steps", "6", "--ranks", "3")
        self.assertEqual(self.train("a", "--resume", "--steps", "6", "--ranks", "3", "--elastic")["ranks"], 3)

    def test_resume_and_overwrite_together_begin_where_there_is_no_checkpoint(self):
        both = ["--resume", "--overwrite"]
        whole = self.train("a", *IMAGES, "--steps", "6", "--checkpoint-every", "4", *both)
        (self.folder / "a/checkpoint/manifest.json").unlink()
        self.assertEqual(self.train("a", *IMAGES, "--steps", "6", "--checkpoint-every", "4", *both)["weights_hash"], whole["weights_hash"])
        self.assertIn("resumed at step 6", self.done("train", "--out", self.folder / "a", "--steps", "8", *both))

    def test_a_signal_writes_a_checkpoint_and_says_so(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(code=code):
                out = self.folder / str(code)
                process = subprocess.Popen([LACONIC, "train", *IMAGES, "--steps", "100000", "--out", out], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE, text=True, env=environment())
                while not (out / "metrics.jsonl").exists() or (out / "metrics.jsonl").read_text().count("\n") < 3:
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                process.send_signal(number)
                _, error = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code)
                self.assertIn("--resume", error)
                manifest = json.loads((out / "checkpoint/manifest.json").read_text())
                self.assertEqual(len(self.metrics(str(code))), manifest["step"])

    def test_there_must_be_something_to_resume(self):
        self.refused(1, ["checkpoint"], "train", *IMAGES, "--out", self.folder / "none", "--resume")

    def test_results_are_not_overwritten_by_accident(self):
        self.train("a", *IMAGES, "--steps", "2")
        self.refused(2, ["--resume", "--overwrite"], "train", *IMAGES, "--steps", "2", "--out", self.folder / "a")
        self.train("a", *IMAGES, "--steps", "3", "--overwrite")

    def test_a_checkpoint_of_another_model_is_refused_and_stays(self):
        self.train("a", *IMAGES, "--steps", "2", "--checkpoint-every", "2")
        self.refused(2, ["run.model", "resnet8", "resnet20"], "train", "--out", self.folder / "a", "--resume", "--model", "resnet20")
        self.assertEqual(self.train("a", "--resume", "--steps", "3")["steps"], 3)


class Restarting(Command):
    COMMON = [*IMAGES, "--steps", "40", "--ranks", "2", "--checkpoint-every", "5", "--set", "run.validate_every=40"]

    def start(self, name, *arguments):
        return subprocess.Popen([LACONIC, "train", *self.COMMON, "--out", self.folder / name, *arguments], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, env=environment())

    def child_after(self, process, name, steps):
        """The process that trains, once it has done so many steps."""
        metrics = self.folder / name / "metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count("\n") < steps:
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        return self.child_but(process, None)

    @staticmethod
    def child_but(process, other):
        while True:
            found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if found and int(found[0]) != other:
                return int(found[0])
            time.sleep(0.005)

    def test_a_run_that_is_killed_comes_back_by_itself_to_the_same_bits(self):
        whole = self.train("whole", *self.COMMON)
        process = self.start("a", "--restarts", "2")
        os.kill(self.child_after(process, "a", 7), signal.SIGKILL)
        _, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn("signal 9 ended the run; restart 1 of 2", error)
        self.assertEqual(json.loads((self.folder / "a/summary.json").read_text())["weights_hash"], whole["weights_hash"])
        self.assertEqual([one["step"] for one in self.metrics("a")], list(range(1, 41)))

    def test_a_run_that_is_asked_to_stop_stays_stopped(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(number.name, "--restarts", "2")
            self.child_after(process, number.name, 3)
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number, error)
            self.assertNotIn("restart ", error)

    def test_restarts_are_counted_and_mistakes_are_not_repeated(self):
        process = self.start("a", "--restarts", "1")
        first = self.child_after(process, "a", 7)
        os.kill(first, signal.SIGKILL)
        os.kill(self.child_but(process, first), signal.SIGKILL)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 137, error)
        self.assertEqual(error.count("signal 9 ended the run"), 1)
        done = self.refused(2, ["resnet20"], "train", "--data", "generated", "--model", "resnet21", "--restarts", "3", "--out", self.folder / "b")
        self.assertNotIn("restart ", done.stderr)


class BadInput(Command):
    def test_usage_errors_have_code_2_and_a_remedy(self):
        for words, arguments in (
            (["resnet20"], ["--model", "resnet21"]),
            (["zero-one-adam"], ["--optimizer", "zero-one-adm"]),
            (["fashion-mnist"], ["--task", "fashion-mnis"]),
            (["1 to 1024"], ["--ranks", "0"]),
            (["100mbit"], ["--emulate", "5parsec"]),
            (["max_interval"], ["--set", "optimizer.max_intervl=4"]),
            (["section.key=value"], ["--set", "lr"]),
            (["gpt2-mini"], ["--task", "text", "--model", "gpt3-mini"]),
            (["--help"], ["--quickly"]),
        ):
            with self.subTest(arguments=arguments):
                self.refused(2, words, "train", "--data", "generated", "--out", self.folder / "a", *arguments)
        self.refused(2, ["resnet8"], "train", "--task", "text", "--data", "generated", "--model", "resnet8", "--out", self.folder / "b")

    def test_every_key_is_listed_once(self):
        lines = self.done("train", "--keys").splitlines()
        names = [line.split()[0] for line in lines[1:]]
        self.assertEqual(len(set(names)), len(names))
        self.assertIn("run.steps", names)
        self.assertTrue(all(len(re.split("  +", line)) == 5 for line in lines), lines)

    def test_missing_and_broken_data_are_named(self):
        text = self.folder / "short.txt"
        text.write_text("too short")
        self.refused(2, ["short.txt"], "train", "--task", "text", "--data", text, "--model", "gpt2-mini", "--out", self.folder / "a")
        self.refused(1, ["nowhere", "generated"], "train", "--task", "text", "--data", self.folder / "nowhere", "--model", "gpt2-mini",
                     "--out", self.folder / "a")
        images = self.folder / "images"
        images.mkdir()
        for split, count in (("train", 4), ("t10k", 2)):
            (images / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + bytes(28 * 28 * count))
            (images / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + bytes([0, 77, 1, 2][:count]))
        self.refused(1, ["77"], "train", "--task", "fashion-mnist", "--data", images, "--model", "resnet8", "--out", self.folder / "a")
        (images / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, 4, 28, 28) + bytes(100))
        self.refused(1, ["train-images"], "train", "--task", "fashion-mnist", "--data", images, "--model", "resnet8", "--out", self.folder / "a")

    def test_a_run_that_diverges_ends_with_code_4(self):
        self.refused(4, ["lower --lr"], "train", *TEXT, "--optimizer", "sgdm", "--lr", "1e30", "--steps", "40", "--out", self.folder / "a")

    def test_a_full_disk_leaves_the_checkpoint_before(self):
        if os.geteuid() != 0:
            self.skipTest("a small file system needs root")
        small = self.folder / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(small)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(small)])
        self.done("train", *IMAGES, "--steps", "3", "--checkpoint-every", "3", "--out", small / "a", "--set", "model.width=8")
        before = (small / "a/checkpoint/manifest.json").read_text()
        (small / "filler").write_bytes(bytes(max(0, shutil.disk_usage(small).free - 4096)))
        self.refused(1, ["checkpoint"], "train", "--out", small / "a", "--resume", "--steps", "9")
        self.assertEqual((small / "a/checkpoint/manifest.json").read_text(), before)
        (small / "filler").unlink()
        self.done("train", "--out", small / "a", "--resume", "--steps", "9")


class Comparing(Command):
    def test_arms_report_and_gates(self):
        out = self.folder / "cmp"
        text = self.done("compare", *TEXT, "--optimizers", "adamw,zero-one-adam,birder", "--steps", "6", "--seeds", "2", "--out", out)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual([arm["optimizer"] for arm in summary["arms"]], ["adamw", "adamw-bf16", "zero-one-adam", "birder"])
        for arm in summary["arms"]:
            self.assertLessEqual(SUMMARY | {"final_loss_mean", "final_loss_spread", "final_metric_mean"}, arm.keys())
            self.assertEqual(len(arm["runs"]), 2)
            self.assertIn(arm["optimizer"], text)
        self.assertTrue(text.strip().endswith("report.html"))
        self.assertAlmostEqual(summary["arms"][0]["bits_per_parameter_per_step"], 32, delta=0.5)
        self.assertAlmostEqual(summary["arms"][1]["bits_per_parameter_per_step"], 16, delta=0.5)
        self.assertLess(summary["arms"][3]["bits_per_parameter_per_step"], 1.5)
        again = self.done("compare", *TEXT, "--optimizers", "adamw,zero-one-adam,birder", "--steps", "6", "--seeds", "2", "--out", out, "--resume",
                          "--fail-if", "loss>+500%")
        self.assertIn("adamw-bf16", again)
        self.refused(6, ["zero-one-adam", "bits"], "compare", *TEXT, "--optimizers", "adamw,zero-one-adam,birder", "--steps", "6", "--seeds", "2",
                     "--out", out, "--resume", "--fail-if", "bits>0.1")

    def test_a_frontier_has_tuned_rates_times_on_a_network_and_goes_on_where_it_was_cut_off(self):
        out = self.folder / "frontier"
        arguments = ["compare", *TEXT, "--optimizers", "adamw,adamw:codec=int8/int4,local-steps:every=2/4", "--steps", "8", "--seeds", "2", "--frontier",
                     "--tune", "4", "--network", "4mbit", "--threads", "1", "--out", out]
        text = self.done(*arguments)
        summary = json.loads((out / "summary.json").read_text())
        arms = {arm["optimizer"]: arm for arm in summary["arms"]}
        self.assertEqual(list(arms), ["adamw", "adamw-bf16", "adamw:codec=int8", "adamw:codec=int4", "local-steps:every=2", "local-steps:every=4"])
        for arm in arms.values():
            tried = {one["lr"]: one["loss"] for one in arm["tuning"]["tried"]}
            self.assertIn((len(tried), arm["tuning"]["steps"]), ((3, 4), (4, 4), (5, 4)))
            self.assertTrue(len(tried) == 5 or arm["lr"] not in (min(tried), max(tried)), tried)
            self.assertEqual(arm["lr"], min(tried, key=tried.get))
            self.assertEqual(arm["config"]["data.validate_on"], "validation")
        tuning = json.loads(next((out / "tuning").glob("adamw-0*/summary.json")).read_text())
        self.assertEqual(tuning["config"]["data.validate_on"], "tuning")
        self.assertGreater(arms["adamw"]["network_seconds"], 2 * arms["adamw:codec=int4"]["network_seconds"])
        # The one with the best loss is on every frontier; the one with the least of a cost on that one.
        best = min(arms.values(), key=lambda arm: arm["final_loss_mean"])
        for cost, field in (("bits", "bits_per_parameter_per_step"), ("rounds", "rounds"), ("seconds", "network_seconds")):
            names = summary["frontier"][cost]
            cheapest = min(arms.values(), key=lambda arm: (arm[field], arm["final_loss_mean"]))
            self.assertLessEqual({cheapest["optimizer"]} | ({best["optimizer"]} if cost == "bits" else set()), set(names))
            self.assertIn(", ".join(names), text)
        self.assertIn('data-frontier="0"', (out / "report.html").read_text())
        # Cut off in the middle of the last run: what was finished is kept, bit for bit.
        last = out / "local-steps-every=4-seed2"
        hashes = {name: json.loads((out / name / "summary.json").read_text())["weights_hash"] for arm in arms.values() for name in arm["runs"]}
        stamp = (out / "adamw-seed1/summary.json").stat().st_mtime_ns
        (last / "summary.json").unlink()
        again = self.done(*arguments, "--resume")
        self.assertEqual(again.count("(kept)"), sum(len(arm["tuning"]["tried"]) for arm in arms.values()) + 6 * 2 - 1)
        self.assertEqual((out / "adamw-seed1/summary.json").stat().st_mtime_ns, stamp)
        self.assertEqual({name: json.loads((out / name / "summary.json").read_text())["weights_hash"] for name in hashes}, hashes)
        self.refused(2, ["8 steps", "not 9"], *[{"8": "9"}.get(word, word) for word in arguments], "--resume")

    def test_a_frontier_leaves_out_what_diverges_and_names_it(self):
        out = self.folder / "diverges"
        arguments = ["compare", *TEXT, "--optimizers", "adamw,adamw:weight_decay=1e30", "--steps", "12", "--threads", "1", "--out", out]
        self.assertEqual(laconic(*arguments).returncode, 4)
        for resume in ("--overwrite", "--resume"):
            text = self.done(*arguments, "--frontier", resume)
            summary = json.loads((out / "summary.json").read_text())
            self.assertEqual([arm["optimizer"] for arm in summary["arms"]], ["adamw", "adamw-bf16"])
            self.assertIn("lower --lr", summary["diverged"]["adamw:weight_decay=1e30"])
            self.assertIn("adamw:weight_decay=1e30 diverged", (out / "report.html").read_text())
        self.assertEqual(text.count("(kept)"), 2)

    def test_a_comparison_that_was_stopped_goes_on_within_its_run(self):
        out = self.folder / "stopped"
        arguments = ["compare", *TEXT, "--optimizers", "birder", "--steps", "300", "--threads", "1", "--out", out]
        process = subprocess.Popen([LACONIC, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        metrics = out / "birder-seed1/metrics.jsonl"
        while not metrics.exists() or metrics.read_text().count("\n") < 3:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 143)
        self.assertIn("resumed at step", self.done(*arguments, "--resume"))
        whole = self.train("whole", *TEXT, "--optimizer", "birder", "--steps", "300", "--threads", "1")
        self.assertEqual(json.loads((out / "summary.json").read_text())["arms"][0]["weights_hash"], whole["weights_hash"])

    def test_equal_time_gives_each_arm_its_own_steps(self):
        for before in [[], [MPIRUN, "-n", "2"]] if MPIRUN else [[]]:
            with self.subTest(before=before):
                out = self.folder / f"equal{len(before)}"
                arguments = ["compare", *TEXT, "--optimizers", "adamw,birder", "--seconds", "2", "--emulate", "2mbit", "--threads", "1",
                             "--target-loss", "5.5", "--out", out]
                text = self.done(*arguments, before=before)
                summary = json.loads((out / "summary.json").read_text())
                self.assertEqual((summary["seconds_asked"], summary["steps"], summary["target_loss"]), (2, None, 5.5))
                arms = {arm["optimizer"]: arm for arm in summary["arms"]}
                self.assertGreater(arms["birder"]["steps"], 1.5 * arms["adamw"]["steps"])
                for arm in arms.values():
                    self.assertEqual(arm["steps"], arm["calibration"]["steps"])
                    self.assertEqual(arm["config"]["run.steps"], str(arm["steps"]))
                    self.assertTrue(0.3 < arm["training_seconds"] < 6, arm["training_seconds"])
                    self.assertLessEqual({"seconds_to_target", "steps_to_target"}, arm.keys())
                self.assertIn(summary["verdict"], text)
                self.assertRegex(summary["verdict"], r"^In 2 s at 2 Mbit/s \S+ took [0-9,]+ steps? and reached a perplexity of .*")
                self.assertIn(summary["verdict"], (out / "report.html").read_text())
                self.assertIn("A validation loss of 5.5", text)
        steps = {name: arm["steps"] for name, arm in arms.items()}
        (out / "birder-seed1" / "summary.json").unlink()
        self.done(*arguments, "--resume", before=before)
        again = json.loads((out / "summary.json").read_text())
        self.assertEqual({arm["optimizer"]: arm["steps"] for arm in again["arms"]}, steps)
        self.refused(2, ["--seconds 2"], *[3 if a == "2" else a for a in arguments], "--resume", "--ranks", "2")

    def test_equal_time_and_equal_steps_exclude_each_other(self):
        self.refused(2, ["--seconds", "--steps"], "compare", *TEXT, "--seconds", "5", "--steps", "10", "--out", self.folder / "a")
        self.refused(2, ["--seconds", "run.steps"], "compare", *TEXT, "--seconds", "5", "--set", "run.steps=10", "--out", self.folder / "a")
        self.refused(2, ["--target-metric", "84%"], "compare", *TEXT, "--seconds", "5", "--target-metric", "good", "--out", self.folder / "a")
        self.assertFalse((self.folder / "a").exists())

    def test_a_bad_gate_or_name_is_refused_before_anything_runs(self):
        self.refused(2, ["loss>+1%"], "compare", *TEXT, "--fail-if", "lost>1", "--out", self.folder / "a")
        self.refused(2, ["birder"], "compare", *TEXT, "--optimizers", "adamw,brider", "--out", self.folder / "a")
        self.assertFalse((self.folder / "a").exists())


class Evaluating(Command):
    def test_gives_the_loss_of_the_end_of_training(self):
        summary = self.train("a", *IMAGES, "--steps", "5")
        result = json.loads(self.done("eval", self.folder / "a", "--json"))
        self.assertAlmostEqual(result["loss"], summary["final_loss"], places=4)
        self.assertAlmostEqual(result["value"], summary["final_metric"], places=4)

    def test_says_what_is_missing(self):
        self.refused(1, ["model.safetensors"], "eval", self.folder)


class UnderMpirun(Command):
    def setUp(self):
        super().setUp()
        if MPIRUN is None:
            self.skipTest("laconic was built without MPI")

    def test_gives_the_bits_of_threads(self):
        threads = self.train("threads", *IMAGES, "--steps", "6", "--ranks", "2", "--threads", "1")
        processes = self.train("mpi", *IMAGES, "--steps", "6", "--threads", "1", before=[MPIRUN, "-n", "2"])
        self.assertEqual(processes["ranks"], 2)
        self.assertEqual(processes["engine"], "MPI processes")
        for field in ("weights_hash", "final_loss", "bytes_sent_per_rank"):
            self.assertEqual(threads[field], processes[field], field)

    def test_wrong_ranks_are_refused(self):
        done = laconic("train", *IMAGES, "--ranks", "3", "--out", self.folder / "a", before=[MPIRUN, "-n", "2"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("mpirun started 2", done.stderr)

    def test_a_restart_with_other_ranks_must_be_wished_for(self):
        self.train("a", *IMAGES, "--steps", "4", "--checkpoint-every", "4", before=[MPIRUN, "-n", "2"])
        more = ["train", "--out", self.folder / "a", "--resume", "--steps", "6"]
        done = laconic(*more, before=[MPIRUN, "-n", "3"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("2 ranks, this run has 3", done.stderr)
        self.assertIn("on other ranks", self.done(*more, "--elastic", before=[MPIRUN, "-n", "3"]))

    def test_restarts_are_left_to_a_loop(self):
        done = laconic("train", *IMAGES, "--restarts", "3", "--out", self.folder / "a", before=[MPIRUN, "-n", "2"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--resume --overwrite", done.stderr)


if __name__ == "__main__":
    LACONIC = sys.argv.pop(1)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and os.path.sep in sys.argv[1]:
        MPIRUN = sys.argv.pop(1)
    unittest.main()
