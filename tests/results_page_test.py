#!/usr/bin/env python3
"""docs/explanation/results.md, README's tables and its chart are those of the records under bench/results/."""
import json
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import frontier  # noqa: E402
import frontier_page  # noqa: E402
import record  # noqa: E402
import results_page  # noqa: E402
import studies  # noqa: E402


def stale(root):
    return {path.relative_to(root).as_posix() for path, text in results_page.pages(root).items() if path.read_text() != text}


class ResultsPage(unittest.TestCase):
    def test_the_pages_are_those_of_the_records(self):
        self.assertEqual(stale(ROOT), set(), "run bench/results_page.py")

    def test_a_record_that_changes_makes_the_pages_that_show_it_stale(self):
        page, readme, chart = "docs/explanation/results.md", "README.md", "docs/time-to-quality.svg"
        for name, field, factor, pages in (("text", "final_loss_mean", 2, {page, readme}), ("plan", "error", 50, {page, readme}),
                                           ("gpt2", "loss_last", 2, {page}), ("kernels", "ratio", 0.5, {readme}),
                                           ("network_text_100mbit", "seconds_to_baseline", 2, {page, chart})):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                for part in ("bench/results", "docs"):
                    shutil.copytree(ROOT / part, root / part)
                shutil.copy(ROOT / "README.md", root)
                self.assertEqual(stale(root), set())
                path = root / f"bench/results/{name}.json"
                record = json.loads(path.read_text())
                record["runs"][0]["rows"][0][field] *= factor
                path.write_text(json.dumps(record))
                self.assertEqual(stale(root), pages)

    def test_every_record_that_is_linked_exists_and_there_is_one_file_for_each(self):
        records = {path.name for path in (ROOT / "bench/results").iterdir()}
        self.assertEqual({name for name in records if not name.endswith(".json")}, set())
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
            for name in re.findall(r"bench/results/([\w.]+)", page.read_text()):
                self.assertIn(name, records, page.name)


def arm(name, loss, bits, rounds, seconds, on=()):
    return {"optimizer": name, "lr": 1e-3, "tuning": {"lr": 1e-3, "steps": 200, "tried": [{}, {}, {}]}, "final_loss_mean": loss, "final_loss_spread": 0.01,
            "final_metric_mean": 2.0, "final_metric_spread": 0.1, "metric": "perplexity", "bits_per_parameter_per_step": bits, "rounds": rounds,
            "bytes_sent_per_rank": 1, "network_seconds": seconds, "steps": 5000, "ranks": 2, "parameters": 123456, "network": "100mbit,1ms", "seeds": 3, "frontier": list(on)}


class FrontierPage(unittest.TestCase):
    """What is written about a frontier is true whichever way the numbers go."""

    def choose(self, *rows):
        return frontier_page.what_to_choose({"frontier_text": list(rows)})

    def test_the_cheapest_that_is_as_good_is_named_and_a_worse_one_is_not(self):
        base = arm("adamw", 2.0, 32, 5000, 900)
        text = self.choose(base, arm("cheap", 2.01, 1, 5000, 100), arm("cheaper", 2.3, 0.5, 300, 50))
        self.assertIn("`cheap`, 1.00 bits per parameter and step against 32.00", text)
        self.assertIn("adamw itself: none that cost less", text)  # rounds
        self.assertIn("`cheaper` +15.00 %", text)
        better = self.choose(base, arm("cheaper", 1.9, 0.5, 300, 50))
        self.assertIn("`cheaper`, 300 rounds against 5,000 rounds, at -5.00 %", better)
        self.assertNotIn("What fell behind", better)

    def test_coded_exact_rounds_and_freezes_are_compared_with_what_they_replace(self):
        rows = [arm("adamw", 2.0, 32, 9, 9), arm("one-bit-adam", 2.0, 7.2, 9, 9), arm("one-bit-adam:dense_codec=int4", 2.1, 1.7, 9, 9), arm("one-bit-adam:freeze_step=auto", 1.98, 4, 9, 9)]
        text = self.choose(*rows)
        self.assertIn("`one-bit-adam:dense_codec=int4` +5.00 % of loss, 1.70 bits for 7.20", text)
        self.assertIn("`one-bit-adam:freeze_step=auto` -1.00 % of loss", text)
        self.assertNotIn("short schedule", text)

    def test_what_diverged_is_named_and_has_no_row(self):
        rows = [arm("adamw", 2.0, 32, 9, 9, ["bits"]), {"optimizer": "lost", "diverged": "the loss is not finite"}]
        body = frontier_page.section("frontier_text")(rows, results_page.table)
        self.assertIn("lost diverged.", body)
        self.assertNotIn("| lost", body)
        self.assertIn("0.001 (of 3)", body)

    def test_charts_are_drawn_for_what_is_recorded(self):
        rows = [arm("adamw", 2.0, 32, 9, 9, ["bits"]), arm("birder", 2.2, 1, 9, 9, ["bits"]), arm("one-bit-adam:dense_codec=int4", 2.3, 2, 9, 9)]
        charts = frontier_page.charts({"frontier_text": rows}, Path("docs"))
        self.assertEqual([path.name for path in charts], ["frontier-text.svg"])
        (svg,) = charts.values()
        self.assertEqual(svg.count("<circle"), 3)
        for name, shown in (("AdamW, fp32", 2), ("Birder", 2), ("1-bit Adam, dense_codec int4", 1)):  # a title each; names of those on it
            self.assertEqual(svg.count(f">{name}<"), shown, name)
        self.assertNotIn("nan", svg)

    def test_predictions_of_variance_stand_beside_birders_forms(self):
        rows = [{"batch": batch, "ranks": n, "optimizer": name, "final_loss_mean": 2 + 0.1 * i, "final_loss_spread": 0.01, "predicted_variance": frontier.predicted_variance(name, n)}
                for batch in ("global", "per rank") for n in (1, 8) for i, name in enumerate(frontier.SCALED)]
        body = frontier_page.ranks(rows, results_page.table)
        self.assertEqual(body.count("0.125"), 2)
        self.assertIn("+5.00 %", body)

    def test_a_group_stands_for_its_studies_and_what_is_not_there_is_refused(self):
        self.assertEqual(record.wanted_names(["text", "frontier"]), ["text", *frontier.studies(studies)])
        with self.assertRaises(SystemExit):
            record.wanted_names(["frontiers"])


if __name__ == "__main__":
    unittest.main()
