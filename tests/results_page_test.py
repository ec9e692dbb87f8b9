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
import results_page  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
