"""What `laconic bench` promises to those who call it: fields, results that hold, and usage errors with a remedy.

    command_test.py path/to/laconic
"""
import json
import os
import subprocess
import sys
import unittest

LACONIC = ""
KERNEL_FIELDS = {"name", "class", "elements", "seconds", "gb_per_s", "limit_gb_per_s", "ratio"}
MEAN_FIELDS = {"kind", "elements", "ranks", "seconds", "bytes_sent_per_rank", "rounds", "algbw_gb_per_s", "verified"}
KINDS = {
    "dense": ["--kind", "dense"],
    "dense, bf16": ["--kind", "dense", "--wire", "bf16"],
    "one-bit": ["--kind", "one-bit"],
    "one-bit, one scale": ["--kind", "one-bit", "--scale-block", "0"],
    "two-round": ["--kind", "random-sign", "--form", "two-round"],
    "single-round": ["--kind", "random-sign", "--form", "single-round"],
    "count": ["--kind", "random-sign", "--form", "count"],
}


def laconic(*arguments):
    # A launcher around this test is not a launcher of the command.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM_", "PMI_"))}
    return subprocess.run([LACONIC, *arguments], capture_output=True, text=True, timeout=300, env=environment)


class Bench(unittest.TestCase):
    def rows(self, *arguments):
        done = laconic("bench", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_registered_method_has_a_step(self):
        methods = json.loads(laconic("methods", "--json").stdout)
        named = [method["name"] for method in methods if not method["preset_of"]]
        rows = self.rows("step", "--elements", "8192", "--repeats", "1")
        self.assertEqual([row["name"] for row in rows if not row["name"].endswith(("-exchange", "-exchange-int4"))], named)
        self.assertTrue(all(KERNEL_FIELDS <= row.keys() and row["seconds"] > 0 for row in rows))
        [one] = self.rows("step", "--elements", "8192", "--repeats", "1", "--only", named[0])
        self.assertEqual(one["name"], named[0])

    def mean(self, kind, *arguments):
        rows = self.rows("mean", *KINDS[kind], "--elements", "100003", "--repeats", "3", *arguments)
        self.assertEqual(len(rows), 1)
        self.assertLessEqual(MEAN_FIELDS, rows[0].keys())
        self.assertIs(rows[0]["verified"], True)
        self.assertEqual(rows[0]["elements"], 100003)
        self.assertGreater(rows[0]["seconds"], 0)
        return rows[0]

    def test_every_mean_is_verified_flat_and_hierarchical(self):
        for kind in KINDS:
            for ranks, more in ((1, []), (3, []), (4, ["--ranks-per-node", "2"]), (2, ["--ranks-per-node", "2"])):
                with self.subTest(kind=kind, ranks=ranks, more=more):
                    self.assertEqual(self.mean(kind, "--ranks", str(ranks), *more)["ranks"], ranks)

    def test_bytes_and_rounds_are_those_of_the_formulas(self):
        row = self.mean("one-bit", "--ranks", "4")
        chunk = 25024  # 100003/4 in whole words of 64
        self.assertEqual(row["bytes_sent_per_rank"], 2 * 3 * (chunk // 8 + 4 * 7 + 16))
        self.assertEqual(row["rounds"], 2)
        self.assertEqual(self.mean("single-round", "--ranks", "4")["rounds"], 1)
        self.assertEqual(self.mean("one-bit", "--ranks", "4", "--ranks-per-node", "2")["rounds"], 4)

    def test_a_coded_mean_names_its_codec_and_is_that_of_its_kind(self):
        for codec, kind in (("fp32", "dense"), ("bf16", "dense, bf16"), ("sign", "one-bit"), ("random-sign", "two-round")):
            with self.subTest(codec=codec):
                row = self.rows("mean", "--kind", "coded", "--codec", codec, "--elements", "100003", "--repeats", "3", "--ranks", "2")[0]
                self.assertEqual((row["kind"], row["codec"], row["verified"]), ("coded", codec, True))
                same = self.mean(kind, "--ranks", "2")
                self.assertEqual((row["what"], row["bytes_sent_per_rank"]), (same["what"], same["bytes_sent_per_rank"]))
        chunk = 50048  # 100003/2 in whole words of 64
        for codec, bits in (("int8", 8), ("int4", 4), ("int2", 2)):
            with self.subTest(codec=codec):
                row = self.rows("mean", "--codec", codec, "--elements", "100003", "--repeats", "3", "--ranks", "2")[0]
                self.assertEqual((row["codec"], row["verified"]), (codec, True))
                self.assertEqual(row["bytes_sent_per_rank"], 2 * (chunk * bits // 8 + 4 * 196 + 16))
        top_k, int8, int4 = 2 * 13 * 128 + 4 * 13 + 16, chunk + 4 * 196 + 16, chunk // 2 + 4 * 196 + 16
        for down, back in (((), int8), (("--codec-down", "int4"), int4), (("--codec-down", "top-k"), top_k)):
            with self.subTest(codec="top-k", down=down):
                row = self.rows("mean", "--kind", "coded", "--codec", "top-k", *down, "--elements", "100003", "--repeats", "3", "--ranks", "2")[0]
                self.assertEqual((row["codec"], row["verified"], row["rounds"]), ("top-k", True, 2))
                self.assertEqual(row.get("codec_down", ""), down[1] if down else "")
                self.assertEqual(row["bytes_sent_per_rank"], top_k + back)
        done = laconic("bench", "mean", "--kind", "coded", "--codec", "int3")
        self.assertNotEqual(done.returncode, 0)
        for known in ("fp32", "bf16", "int8", "int4", "int2", "sign", "top-k", "random-sign"):
            self.assertIn(known, done.stderr)

    def test_an_emulated_network_takes_its_time(self):
        row = self.mean("one-bit", "--ranks", "2", "--emulate", "10mbit,1ms")
        self.assertGreaterEqual(row["seconds"], row["bytes_sent_per_rank"] * 8 / 10e6)

    def test_a_mean_of_nothing_is_fine(self):
        self.assertIs(self.rows("mean", "--elements", "0", "--ranks", "2")[0]["verified"], True)

    def test_the_table_has_the_figures_too(self):
        done = laconic("bench", "mean", "--elements", "10000", "--repeats", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("one-bit", "elements", "10000", "verified", "yes"):
            self.assertIn(word, done.stdout)

    def test_kernels_have_their_fields(self):
        rows = self.rows("kernels", "--elements", "65536", "--repeats", "1")
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertLessEqual(KERNEL_FIELDS, row.keys())
            self.assertIn(row["class"], ("streaming", "compute"))
            self.assertEqual(row["elements"], 65536)
            self.assertGreater(row["ratio"], 0)
        self.assertEqual(len({row["name"] for row in rows}), len(rows))

    def test_kernels_and_steps_run_on_the_target_that_is_asked_for(self):
        best = self.rows("step", "--elements", "8192", "--repeats", "1", "--only", "adamw")[0]["target"]
        names = {"AVX3": "avx512", "AVX3_DL": "avx512"}
        for asked, target in (("scalar", "SCALAR"), (names.get(best, best.lower()), best), (best, best)):
            for command in (["kernels", "--elements", "4096"], ["step", "--elements", "8192", "--only", "adamw"]):
                with self.subTest(asked=asked, command=command):
                    self.assertEqual({row["target"] for row in self.rows(*command, "--repeats", "1", "--target", asked)}, {target})


class BadUsage(unittest.TestCase):
    def test_exits_with_2_and_names_the_remedy(self):
        for arguments, remedy in (
            (["mean", "--ranks", "0"], "1 to 1024"),
            (["mean", "--ranks", "4", "--ranks-per-node", "3"], "divide"),
            (["mean", "--emulate", "5parsec"], "100mbit"),
            (["mean", "--emulate", "0gbit"], "100mbit"),
            (["mean", "--emulate", "1gbit,5parsec"], "50us"),
            (["mean", "--scale-block", "7"], "multiple of 64"),
            (["mean", "--kind", "two-bit"], "one-bit"),
            (["mean", "--form", "round"], "single-round"),
            (["mean", "--kind", "dense", "--codec", "int4"], "leave --kind out"),
            (["mean", "--kind", "one-bit", "--codec-down", "int4"], "leave --kind out"),
            (["mean", "--quickly"], "--help"),
            (["kernels", "--elements", "1"], "4096"),
            (["kernels", "--target", "AVX9000"], "there are"),
            (["step", "--target", "AVX9000"], "there are"),
            ([], "--help"),
        ):
            with self.subTest(arguments=arguments):
                done = laconic("bench", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(remedy, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_help_is_no_error_and_has_examples(self):
        for command in ([], ["bench"], ["bench", "mean"], ["bench", "kernels"]):
            done = laconic(*command, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("laconic bench mean --kind", laconic("bench", "mean", "--help").stdout)


MISSING = "(not in this build)"  # commands that train, where LibTorch is not there


class Help(unittest.TestCase):
    COMMANDS = ("train", "compare", "eval", "report", "bench mean", "bench kernels", "bench step", "bench loop", "plan", "methods")

    def text(self, *arguments):
        done = laconic(*arguments, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_examples_come_before_options(self):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                text = self.text(*command.split())
                if MISSING in text:
                    continue
                self.assertIn("Example", text)
                self.assertLess(text.index(f"  laconic {command}" if "Examples:" in text else f"Example: laconic {command}"), text.index("--help"))

    def test_commands_and_options_are_grouped(self):
        text = self.text()
        for words in ("Train:", "Measure and plan:", "Look at results:", "Exit codes"):
            self.assertIn(words, text)
        if MISSING not in self.text("train"):
            text = self.text("compare")
            for group, option in (("What is trained:", "--model"), ("How it is trained:", "--lr"), ("Ranks and network:", "--emulate"),
                                  ("The comparison:", "--seconds"), ("Any setting:", "--set")):
                options = text[text.index(f"\n{group}\n"):].split("\n\n")[0]
                self.assertIn(f"  {option} ", options)

    def refused(self, *arguments):
        done = laconic(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr

    def test_a_wrong_name_suggests_the_right_one(self):
        self.assertIn("laconic plan has no option --modle: did you mean --model?", self.refused("plan", "--modle", "bert-base"))
        self.assertIn("laconic bench mean has no option --elemnts: did you mean --elements?", self.refused("bench", "mean", "--elemnts=5"))
        self.assertIn('no command "laconic raport": did you mean report?', self.refused("raport", "x"))
        self.assertIn('no command "laconic bench kernel": did you mean kernels?', self.refused("bench", "kernel"))
        self.assertIn("laconic --help", self.refused())
        self.assertIn("laconic plan --help", self.refused("plan", "--nodes", "many"))


if __name__ == "__main__":
    LACONIC = sys.argv.pop(1)
    unittest.main()
