"""`laconic report` makes a page that a browser shows without a complaint: wide and narrow, light and dark.

    report_page_test.py path/to/laconic [--keep DIR]    --keep: the samples, pages and screenshots stay there
"""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import browser
import report_samples

LACONIC = ""
FOLDER = None
DESKTOP, PHONE = (1280, 900), (390, 844)


def report(*arguments):
    return subprocess.run([LACONIC, "report", *map(str, arguments)], capture_output=True, text=True, timeout=300)


class Command(unittest.TestCase):
    def test_one_folder_gets_its_page_and_several_get_the_named_one(self):
        page = FOLDER / "compare" / "report.html"
        page.unlink(missing_ok=True)
        done = report(FOLDER / "compare")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(page)), done.stderr)
        self.assertIn("<table>", page.read_text())
        done = report(FOLDER / "compare", FOLDER / "run", "--out", FOLDER / "both.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<table>", (FOLDER / "both.html").read_text())

    def test_five_arms_of_three_seeds_stay_under_two_megabytes(self):
        self.assertEqual(report(FOLDER / "compare").returncode, 0)
        self.assertLess((FOLDER / "compare" / "report.html").stat().st_size, 2e6)

    def test_a_comparison_without_one_of_its_runs_names_the_missing_folder(self):
        for gone in ("adamw-seed1", "birder-seed2"):
            with self.subTest(gone), tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                report_samples.write_comparison(folder, arms=("adamw", "birder"), seeds=(1, 2), steps=50)
                shutil.rmtree(folder / gone)
                done = report(folder)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertEqual(done.stderr, f"laconic: {folder / gone} has no metrics.jsonl, which laconic train writes beside summary.json\n")

    def test_bad_folders_are_told_with_what_was_expected(self):
        for folders, code, words in (
            ([FOLDER / "nowhere"], 1, ("nowhere", "summary.json")),
            ([], 2, ("DIR",)),
            ([FOLDER / "compare", "--out", FOLDER / "no" / "such" / "page.html"], 1, ("page.html",)),
        ):
            with self.subTest(folders=folders):
                done = report(*folders)
                self.assertEqual(done.returncode, code, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def test_help_has_examples(self):
        self.assertIn("laconic report runs/", report("--help").stdout)


@unittest.skipUnless(browser.find(), f"no browser on PATH ({', '.join(browser.NAMES)}): install chromium to test the page")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = FOLDER / "page.html"
        done = report(FOLDER / "compare", FOLDER / "run", FOLDER / "diverged", "--out", cls.page)
        assert done.returncode == 0, done.stderr
        cls.browser = browser.Browser(browser.find())
        cls.addClassCleanup(cls.browser.close)

    def open(self, size, dark=False):
        self.browser.open(self.page.as_uri(), *size, dark=dark, phone=size == PHONE)

    def js(self, expression):
        return self.browser.evaluate(expression)

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(node => node.textContent.trim())")

    def check_quiet(self):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.requests(), [self.page.as_uri()])

    def test_opens_quietly_at_every_size_and_in_both_colours(self):
        background = {}
        for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
            for dark in (False, True):
                with self.subTest(size=name, dark=dark):
                    self.open(size, dark)
                    self.check_quiet()
                    self.assertLessEqual(self.js("document.documentElement.scrollWidth"), size[0])
                    self.assertEqual(self.js("document.querySelectorAll('figure svg').length"), 4)  # and one frontier
                    background[dark] = self.js("getComputedStyle(document.body).backgroundColor")
                    self.browser.screenshot(FOLDER / f"{name}-{'dark' if dark else 'light'}.png")
        self.assertNotEqual(background[False], background[True])

    def test_complaints_and_loads_would_be_seen(self):
        for script in ("console.error('seen')", "setTimeout(() => { throw new Error('seen'); })", "new Image().src = 'http://127.0.0.1:9/seen.png'"):
            with self.subTest(script=script):
                self.open(DESKTOP)
                self.js(f"{script}; 0")
                self.browser.settle()
                self.assertIn("seen", json.dumps(self.browser.complaints()))

    def test_the_button_switches_colours(self):
        self.open(DESKTOP)
        before = self.js("getComputedStyle(document.body).backgroundColor")
        self.js("document.getElementById('theme').click()")
        self.assertNotEqual(self.js("getComputedStyle(document.body).backgroundColor"), before)
        self.js("document.getElementById('theme').click()")
        self.assertEqual(self.js("getComputedStyle(document.body).backgroundColor"), before)

    def test_all_arms_are_in_the_legend_and_the_table(self):
        self.open(DESKTOP)
        arms = list(report_samples.ARMS)
        self.assertEqual(self.texts("section:nth-of-type(1) .legend button"), arms)
        rows = self.texts("section:nth-of-type(1) .scroll tbody tr")
        self.assertEqual(len(rows), len(arms))
        for row, arm in zip(rows, arms):
            self.assertTrue(row.startswith(arm), row)
        summary = json.loads((FOLDER / "compare" / "summary.json").read_text())
        for row, arm in zip(rows, summary["arms"]):
            self.assertIn(f"{arm['final_loss_mean']:.4f} ± {arm['final_loss_spread']:.4f}", row)
            self.assertIn(f"{100 * arm['final_metric_mean']:.2f} %", row)
        self.assertIn("baseline", rows[0])
        self.assertIn("worse than baseline", rows[-1])
        self.assertIn("not reached", rows[-1])
        self.assertIn("not finite", self.texts("section:nth-of-type(3) .scroll tbody tr")[0])

    def test_commands_versions_and_first_lines_are_there(self):
        self.open(DESKTOP)
        text = self.js("document.querySelector('section').innerText")
        summary = json.loads((FOLDER / "compare" / "summary.json").read_text())
        for words in (summary["command"], summary["torch"], summary["machine"], *(arm["describe"] for arm in summary["arms"])):
            self.assertIn(words, text)

    def test_the_legend_hides_and_shows_an_arm(self):
        self.open(DESKTOP)
        curves = "document.querySelectorAll('section:nth-of-type(1) svg path[data-arm=birder]').length"
        self.assertEqual(self.js(curves), 4)  # three seeds and their mean
        click = "document.querySelector('section:nth-of-type(1) .legend li:nth-child(5) button').click()"
        self.js(click)
        self.assertEqual(self.js(curves), 0)
        self.js(click)
        self.assertEqual(self.js(curves), 4)
        self.check_quiet()

    def test_every_choice_of_quantity_axis_and_scale_draws_all_arms(self):
        self.open(DESKTOP)
        inputs = "document.querySelectorAll('figure[data-section=\"0\"] .controls input')"
        radio = self.js(f"[...{inputs}].filter(i => i.type === 'radio').map(i => i.value)")
        self.assertEqual(radio, ["training", "validation", "metric", "step", "bytes", "seconds"])
        seen = set()
        for quantity in radio[:3]:
            for axis in radio[3:]:
                for box in ("zoom to the end", "log x", "log y", "raw", "seeds"):
                    with self.subTest(quantity=quantity, axis=axis, box=box):
                        self.js(f"[...{inputs}].filter(i => ['{quantity}', '{axis}'].includes(i.value) && i.type === 'radio').forEach(i => i.click());"
                                f"[...{inputs}].filter(i => i.parentNode.textContent === '{box}').forEach(i => i.click())")
                        drawn = self.js("[...document.querySelectorAll('figure[data-section=\"0\"] path.mean')].map(p => p.getAttribute('d'))")
                        self.assertEqual(len(drawn), 5)
                        for path in drawn:
                            self.assertGreater(path.count("L"), 10)
                            self.assertNotIn("NaN", path)
                        seen.add("".join(drawn))
                        labels = self.texts('figure[data-section="0"] svg text')
                        self.assertGreater(len(labels), 6)
                        self.assertFalse([label for label in labels if "NaN" in label or "e-" in label or "undefined" in label], labels)
        self.assertGreater(len(seen), 9)
        self.check_quiet()

    def test_the_frontier_names_its_arms_and_keeps_the_others(self):
        self.open(DESKTOP)
        self.assertEqual(self.js("document.querySelectorAll('figure[data-frontier]').length"), 1)
        summary = json.loads((FOLDER / "compare" / "summary.json").read_text())
        figure = 'figure[data-frontier="0"]'
        for cost, named in summary["frontier"].items():
            with self.subTest(cost=cost):
                self.js(f"document.querySelector('{figure} input[value={cost}]').click()")
                self.assertEqual(self.js(f"document.querySelectorAll('{figure} g.arm').length"), len(report_samples.ARMS))
                self.assertEqual(set(self.js(f"[...document.querySelectorAll('{figure} g.arm.on')].map(n => n.dataset.arm)")), set(named))
                self.assertEqual(set(self.texts(f"{figure} .name")), set(named))
                self.assertNotIn("NaN", self.js(f"document.querySelector('{figure}').innerHTML"))
        self.js(f"document.querySelector('{figure} g.arm').focus()")
        self.assertFalse(self.js(f"document.querySelector('{figure} .tip').hidden"))
        self.browser.screenshot(FOLDER / "frontier.png")
        self.check_quiet()

    def test_hovering_shows_the_values_of_all_arms(self):
        self.open(DESKTOP)
        x, y = self.js("(() => { const b = document.querySelector('svg').getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        self.browser.hover(x, y)
        self.assertFalse(self.js("document.querySelector('.tip').hidden"))
        rows = self.texts("section:nth-of-type(1) .tip tr")
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertRegex(row, r"^[a-z0-9-]+\d+\.\d+")
        self.assertRegex(self.texts(".tip p")[0], r"^Step \d")
        self.browser.screenshot(FOLDER / "hover.png", whole=False)
        self.check_quiet()


if __name__ == "__main__":
    LACONIC = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as scratch:
        FOLDER = Path(scratch)
        if "--keep" in sys.argv:
            at = sys.argv.index("--keep")
            FOLDER = Path(sys.argv[at + 1])
            FOLDER.mkdir(parents=True)
            del sys.argv[at:at + 2]
        report_samples.write_comparison(FOLDER / "compare", zero_one_adam={"final_loss_mean": 0.385})
        report_samples.write_run(FOLDER / "run", "zero-one-adam", 7, 300, task="text", model="gpt2-mini", emulate=None)
        report_samples.write_run(FOLDER / "diverged", "birder", 7, 300, task="generated", model="bert-mini", emulate=None, diverge_at=120)
        unittest.main()
