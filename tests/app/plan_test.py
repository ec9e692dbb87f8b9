"""What `laconic plan` and `laconic doctor` promise: fields, figures that hold together, and usage errors with a remedy.

    plan_test.py path/to/laconic
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LACONIC = ""
CLUSTER = ["--model", "bert-base", "--nodes", "8", "--per-node", "8", "--inter", "10gbit,20us", "--intra", "600gbit,3us", "--step-ms", "90"]
ROW = {"optimizer", "wire", "exchange", "seconds", "steps_per_second", "speedup_over_fp32", "speedup_over_bf16", "exposed_seconds", "coding_seconds",
       "bytes_inside_node", "bytes_between_nodes", "memory_bytes", "pays_against_fp32", "pays_against_bf16", "shares", "steps"}


def laconic(*arguments, launcher=()):
    # A launcher around this test is not a launcher of the command.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM_", "PMI_"))}
    return subprocess.run([*launcher, LACONIC, *arguments], capture_output=True, text=True, timeout=300, env=environment)


class Plan(unittest.TestCase):
    def plan(self, *arguments):
        done = laconic("plan", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def rows(self, *arguments):
        return {(r["optimizer"], r["wire"], r["exchange"]): r for r in self.plan(*arguments)["rows"]}

    def test_every_row_has_its_fields_and_they_hold_together(self):
        rows = self.rows(*CLUSTER)
        for name, row in rows.items():
            with self.subTest(name):
                self.assertLessEqual(ROW, row.keys())
                self.assertAlmostEqual(sum(row["shares"].values()), 1)
                self.assertAlmostEqual(row["steps_per_second"] * row["seconds"], 1)
                self.assertGreaterEqual(row["seconds"], 0.09)
                self.assertAlmostEqual(row["seconds"], sum(row["shares"][k] * s["seconds"] for k, s in row["steps"].items()))
                self.assertAlmostEqual(row["speedup_over_fp32"], rows["adamw", "fp32", "all-reduce"]["seconds"] / row["seconds"])
        self.assertEqual({name[0] for name in rows}, {"adamw", "one-bit-adam", "zero-one-adam", "birder"})
        self.assertGreater(rows["zero-one-adam", "1 bit", "nodes"]["shares"]["silent"], 0.3)

    def test_gradients_in_four_bits_send_an_eighth_and_keep_residuals(self):
        rows = self.rows(*CLUSTER)
        exact, coded = rows["adamw", "fp32", "flat"], rows["adamw", "int4", "flat"]
        self.assertAlmostEqual(coded["bytes_between_nodes"] / exact["bytes_between_nodes"], (4 + 32 / 256) / 32, delta=0.001)
        self.assertGreater(coded["memory_bytes"], exact["memory_bytes"])
        self.assertEqual(coded["shares"]["coded"], 1)

    def test_local_steps_are_planned_with_their_options(self):
        wide = ["--params", "110M", "--nodes", "4", "--inter", "100mbit,50ms", "--step-ms", "200"]
        arms = ["local-adamw:every=50", "local-adamw:every=50:codec=int4", "local-adamw:every=50:codec=int4:delay=25", "streaming-diloco"]
        rows = {name[0]: row for name, row in self.rows(*wide, "--optimizers", ",".join(arms)).items() if name[2] == "flat"}
        exact, coded, late, parts = (rows[arm] for arm in arms)
        self.assertAlmostEqual(coded["bytes_between_nodes"] / exact["bytes_between_nodes"], (4 + 32 / 256) / 32, delta=0.001)
        self.assertAlmostEqual(exact["bytes_between_nodes"], 2 * 3 / 4 * 4 * 110e6 / 50, delta=1e5)
        self.assertEqual(coded["bytes_between_nodes"], late["bytes_between_nodes"])
        self.assertLess(late["seconds"], coded["seconds"])
        self.assertLess(coded["seconds"], exact["seconds"])
        self.assertEqual(late["spacing"], {"interval": 50, "fragments": 1, "delay": 25})
        self.assertEqual(parts["spacing"], {"interval": 25, "fragments": 4, "delay": 12})
        self.assertGreater(late["memory_bytes"], coded["memory_bytes"])

    def test_links_may_differ_and_the_slowest_counts(self):
        common = ["--params", "10M", "--nodes", "3", "--step-ms", "50", "--optimizers", "adamw,local-adamw"]
        slow, mixed = self.rows(*common, "--inter", "100mbit,1ms"), self.rows(*common, "--inter", "1gbit,1ms/100mbit,1ms/1gbit,1ms")
        for name, row in slow.items():
            self.assertAlmostEqual(row["seconds"], mixed[name]["seconds"], places=9, msg=name)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "links"
            file.write_text("1gbit,1ms\n\n100mbit,1ms  # by radio\n1gbit,1ms\n")
            self.assertEqual(self.rows(*common, "--inter", f"@{file}"), mixed)
            file.write_text("1gbit\n1gbit\n")
            done = laconic("plan", *common, "--inter", f"@{file}")
            self.assertEqual(done.returncode, 2)
            self.assertIn("links of 2 nodes for 3 nodes", done.stderr)
        self.assertIn("cannot read", laconic("plan", *common, "--inter", "@/nowhere").stderr)

    def test_stragglers_cost_less_where_ranks_meet_less_often(self):
        common = ["--params", "1M", "--nodes", "8", "--inter", "10gbit,10us", "--step-ms", "100", "--optimizers", "adamw,local-adamw:every=100"]
        alike, apart = self.rows(*common), self.rows(*common, "--spread", "20")
        often, rarely = (apart[name]["seconds"] - alike[name]["seconds"] for name in (("adamw", "fp32", "flat"), ("local-adamw:every=100", "fp32", "flat")))
        self.assertGreater(often, 5 * rarely)
        self.assertGreater(rarely, 0)
        slow = self.plan(*common, "--slowest", "1.5")
        self.assertTrue(any("1.5 times" in note for note in slow["notes"]), slow["notes"])
        for row in slow["rows"]:
            self.assertGreaterEqual(row["seconds"], 0.15)

    def test_the_advice_is_dense_where_the_network_is_fast_and_coded_where_it_is_slow(self):
        fast = self.plan("--params", "10000000", "--nodes", "4", "--inter", "400gbit,2us", "--step-ms", "500", "--memory-gb-per-s", "700")
        self.assertIn("Use dense bf16", fast["advice"])
        slow = self.plan("--params", "10000000", "--nodes", "4", "--inter", "100mbit,100us", "--step-ms", "500")
        self.assertRegex(slow["advice"], "Use (zero-one-adam|birder)")
        self.assertIn("below", slow["advice"])

    def test_one_rank_a_node_has_no_nodes_form_and_one_node_no_break_even(self):
        self.assertNotIn("nodes", {name[2] for name in self.rows("--params", "1000000", "--nodes", "4", "--inter", "1gbit", "--step-ms", "5")})
        one = self.rows("--params", "1000000", "--nodes", "1", "--per-node", "4", "--intra", "100gbit", "--step-ms", "5")
        self.assertNotIn("pays_against_bf16", one["adamw", "bf16", "flat"])

    def test_shards_are_ranks_with_a_part_of_the_model_and_of_the_link(self):
        sharded = self.plan("--params", "1000000", "--nodes", "4", "--shards", "4", "--inter", "1gbit,20us", "--step-ms", "5")
        alone = self.plan("--params", "250000", "--nodes", "4", "--inter", "250mbit,20us", "--step-ms", "5")
        self.assertEqual((sharded["shards"], alone["shards"]), (4, 0))
        self.assertEqual(sharded["rows"], alone["rows"])

    def test_parameters_are_counted_in_any_usual_spelling(self):
        cluster = ["--nodes", "2", "--inter", "1gbit", "--step-ms", "5"]
        for plain, spellings in (("1000000", ("1e6", "1E6", "1M", "1000K")), ("1500000000", ("1.5e9", "1.5B")), ("1100000", ("1.1M",))):
            wanted = self.plan("--params", plain, *cluster)
            for spelling in spellings:
                with self.subTest(spelling):
                    self.assertEqual(self.plan("--params", spelling, *cluster), wanted)

    def test_four_thousand_ranks_are_planned(self):
        plan = self.plan(*["512" if word == "8" and before == "--nodes" else word for before, word in zip([""] + CLUSTER, CLUSTER)])
        self.assertEqual(plan["nodes"] * plan["per_node"], 4096)
        self.assertGreater(len(plan["rows"]), 10)

    def test_a_sweep_is_drawn_and_tabled(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "plan.html")
            plan = self.plan(*CLUSTER, "--sweep", "inter=100mbit..100gbit", "--html", page)
            rates = [p["inter_bit_per_second"] for p in plan["sweep"]]
            self.assertAlmostEqual(rates[0] / 1e8, 1)
            self.assertAlmostEqual(rates[-1] / 1e11, 1)
            for name in plan["sweep"][0]["seconds"]:
                seconds = [p["seconds"][name] for p in plan["sweep"]]
                self.assertEqual(seconds, sorted(seconds, reverse=True), name)
            with open(page) as file:
                text = file.read()
            self.assertEqual(text.count("<polyline"), len(plan["sweep"][0]["seconds"]))
            self.assertIn(plan["advice"].split(":")[0], text)
            self.assertNotIn("http", text)

    def test_optimizers_batch_and_recipe_are_heard(self):
        rows = self.rows(*CLUSTER, "--optimizers", "sgdm,zero-one-adam", "--batch", "4", "--recipe", "bert-base")
        self.assertEqual({name[0] for name in rows}, {"adamw", "sgdm", "zero-one-adam"})
        row = rows["zero-one-adam", "1 bit", "nodes"]
        self.assertAlmostEqual(row["samples_per_second"], 4 * 64 * row["steps_per_second"])
        self.assertAlmostEqual(row["shares"]["dense"], 153 / 118000)

    def test_the_table_has_the_figures_too(self):
        done = laconic("plan", *CLUSTER)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("8 nodes of 8", "zero-one-adam", "x bf16", "Use "):
            self.assertIn(word, done.stdout)

    def test_a_probe_measures_this_machine(self):
        plan = self.plan("--params", "1000000", "--nodes", "2", "--inter", "1gbit", "--step-ms", "5", "--probe")
        self.assertTrue(any("measured" in note for note in plan["notes"]))


class Recipe(unittest.TestCase):
    def test_gives_volume_and_rounds_beside_the_headline(self):
        for name, steps, volume, rounds in (("bert-base", 118000, 0.796, 0.402), ("bert-large", 152000, 0.846, 0.511),
                                            ("gpt2", 300000, 0.855, 0.283), ("imagenet", 450450, 0.867, 0.653)):
            done = laconic("plan", "--recipe", name, "--json")
            recipe = json.loads(done.stdout)
            self.assertEqual((recipe["recipe"], recipe["steps"]), (name, steps))
            self.assertAlmostEqual(recipe["volume_reduction"], volume, places=3)
            self.assertAlmostEqual(recipe["round_reduction"], rounds, places=3)
            for optimizer in ("one_bit_adam", "zero_one_adam"):
                self.assertEqual(recipe[optimizer]["rounds"], recipe[optimizer]["dense_rounds"] + recipe[optimizer]["coded_rounds"])
            self.assertIn("headline", recipe["verdict"])
            self.assertIn("headline", laconic("plan", "--recipe", name).stdout)


class Doctor(unittest.TestCase):
    FIELDS = {"machine", "software", "network"}

    def test_tells_of_the_machine_its_software_and_its_network(self):
        done = laconic("doctor", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertLessEqual(self.FIELDS, found.keys())
        self.assertIn(found["machine"]["kernel_target"], found["machine"]["kernel_targets"])
        self.assertGreater(found["machine"]["encode_gelements_per_s"], 0)
        targets = [one["target"] for one in found["machine"]["coding"]]
        self.assertEqual(targets, found["machine"]["kernel_targets"][:2])
        self.assertTrue(all(one["encode_gelements_per_s"] > 0 for one in found["machine"]["coding"]))
        threads = [one["threads"] for one in found["machine"]["scaling"]]
        self.assertEqual((threads[0], threads[-1]), (1, found["machine"]["cores"]))
        self.assertIn("lo", {one["name"] for one in found["network"]["interfaces"]})
        self.assertNotEqual(found["network"]["use"], "lo")
        text = laconic("doctor").stdout
        for word in ("cpu", "kernels", "memory", "coding", "mpi", "torch", "network", "use"):
            self.assertIn("\n" + word if word != "cpu" else word, text)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_measures_every_pair_under_mpirun(self):
        if "without" in json.loads(laconic("doctor", "--json").stdout)["software"]["mpi"]:
            self.skipTest("built without MPI")
        done = laconic("doctor", "--json", launcher=("mpirun", "-n", "2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        group = json.loads(done.stdout)["group"]
        self.assertEqual((group["ranks"], len(group["hosts"]), len(group["links"])), (2, 1, 1))
        self.assertEqual(group["between"], "ranks of one host")
        self.assertGreater(group["slowest"]["bit_per_second"], 0)


class BadUsage(unittest.TestCase):
    def test_exits_with_2_and_shows_a_right_example(self):
        good = ["--params", "1000", "--step-ms", "1"]
        for arguments, remedy in (
            ([], "laconic plan --model bert-base"),
            (["--params", "1000", "--nodes", "2", "--inter", "1gbit"], "--step-ms 90"),
            (good, "8 nodes of 8 ranks"),
            ([*good, "--nodes", "0"], "8 nodes of 8 ranks"),
            ([*good, "--nodes", "-3", "--inter", "1gbit"], "8 nodes of 8 ranks"),
            ([*good, "--nodes", "2"], "--inter 10gbit,20us"),
            ([*good, "--nodes", "1", "--per-node", "2"], "--intra 600gbit,3us"),
            ([*good, "--nodes", "2", "--inter", "-1gbit"], "100mbit"),
            ([*good, "--nodes", "2", "--inter", "0gbit"], "100mbit"),
            ([*good, "--nodes", "2", "--inter", "10parsec"], "100mbit"),
            ([*good, "--nodes", "2", "--inter", "1gbit,5days"], "50us"),
            ([*good, "--nodes", "99999", "--inter", "1gbit"], "65535"),
            ([*good, "--nodes", "2", "--inter", "1gbit", "--sweep", "intra=1gbit..2gbit"], "inter=100mbit..100gbit"),
            ([*good, "--nodes", "2", "--inter", "1gbit", "--sweep", "inter=2gbit..1gbit"], "inter=100mbit..100gbit"),
            ([*good, "--nodes", "2", "--inter", "1gbit", "--optimizers", "adam"], "zero-one-adam"),
            *((["--params", bad, "--nodes", "1", "--step-ms", "1"], "110000000")
              for bad in ("-5", "0", "1.5", "1e-3", "1e16", "nan", "many", "5parsec")),
            (["--model", "bert-huge", "--nodes", "1", "--step-ms", "1"], "bert-large"),
            (["--model", "gpt2", "--params", "5"], "--help"),
            (["--recipe", "bert-huge"], "bert-large"),
            ([*good, "--nodes", "1", "--backward", "1.5"], "0.0"),
            (["--quickly"], "--help"),
        ):
            with self.subTest(arguments=arguments):
                done = laconic("plan", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(remedy, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_a_page_that_cannot_be_written_is_named(self):
        done = laconic("plan", *CLUSTER, "--html", "/nowhere/plan.html")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/plan.html", done.stderr)

    def test_help_is_no_error_and_has_examples(self):
        for command in ("plan", "doctor"):
            done = laconic(command, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("laconic " + command, done.stdout)


if __name__ == "__main__":
    LACONIC = sys.argv.pop(1)
    unittest.main()
