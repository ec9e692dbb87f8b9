#!/usr/bin/env python3
"""What the pages show is true: links lead somewhere, generated pages are fresh, and every block runs.

    docs_test.py LACONIC [MPIRUN]     with a Python that has the package

Rules for fenced blocks, by language:

    sh       runs as it is written, in a folder of the page's own, with the commands of docs_shim.py
    python   runs on two ranks (docs_blocks.py), all blocks of a page one after the other
    cpp      is part of a file under examples/, which the build compiles and runs (README's first one is compiled by itself)
    toml     is a configuration that `laconic train --config` accepts
    cmake, text    are not run

A comment before a block changes its rule:

    <!-- docs_test: file NAME -->              python or toml: is written to NAME in the page's folder, for its sh blocks
    <!-- docs_test: all lines at once -->      sh: one process per line, all at the same time
    <!-- docs_test: syntax, WHY -->            sh: only checked by bash -n, and every option must be in the command's help
    <!-- docs_test: setup CODE -->             Python that runs before the page's next python block
"""
import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import docs_shim

ROOT = Path(__file__).resolve().parent.parent
LACONIC, MPIRUN = "", shutil.which("mpirun") or ""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"sh", "python", "cpp", "toml", "cmake", "text"}
GENERATED = "<!-- Written by docs/generate.py"
FOLDERS = ("app", "bench", "cmake", "docs", "examples", "laconic", "python", "tests")
# Words that a reader stumbles over; the glossary has the field's own.
AVOIDED = re.compile(r"\bunsaid\b|\btold\b|\bbits an? (?:parameter|element)\b|\ba parameter a step\b|\bbytes a parameter\b|\bone scale a\b", re.I)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
COMMENT = re.compile(r"<!-- docs_test: (.*?)-->\s*", re.S)


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    code: str
    rule: str  # of the comment before it

    @property
    def where(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    text = page.read_text()
    found = []
    for fence in FENCE.finditer(text):
        before = text[: fence.start()]
        rules = [match for match in COMMENT.finditer(before) if match.end() == len(before)]
        line = before.count("\n") + 2
        found.append(Block(page, line, fence[1], fence[2], rules[-1][1].strip() if rules else ""))
    setups = [Block(page, text[: match.start()].count("\n") + 2, "python", match[1][len("setup") :].strip() + "\n", "setup") for match in COMMENT.finditer(text)
              if match[1].startswith("setup")]  # fmt: skip
    return sorted([*found, *setups], key=lambda block: block.line)


def anchor(title):
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def anchors(page):
    text = FENCE.sub("", page.read_text())
    return {anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.M)}


class Pages(unittest.TestCase):
    def test_every_link_leads_to_a_file_and_a_heading(self):
        for page in [*PAGES, ROOT / "CHANGELOG.md"]:
            for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
                if re.match(r"\w+:", target):
                    continue
                path, _, heading = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                with self.subTest(page=page.name, link=target):
                    self.assertTrue(file.exists(), "no such file")
                    if heading and file.suffix == ".md":
                        self.assertIn(heading, anchors(file))

    def test_every_page_is_in_the_index(self):
        index = (ROOT / "docs/README.md").read_text()
        for folder in ("tutorial", "how-to", "reference", "explanation"):
            for page in (ROOT / "docs" / folder).glob("*.md"):
                self.assertIn(f"({folder}/{page.name})", index)

    def test_every_file_that_is_named_exists(self):
        for page in PAGES:
            for name in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+\.\w+)`", page.read_text()):
                if "NAME" not in name:
                    with self.subTest(page=page.name, file=name):
                        self.assertTrue((ROOT / name).exists(), "no such file")

    def test_every_class_on_the_path_of_a_gradient_exists(self):
        table = (ROOT / "docs/explanation/architecture.md").read_text().split("\n## Folders")[0]
        sources = "\n".join(path.read_text() for folder in ("laconic", "python") for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cc", ".py"))
        for name in sorted(set(re.findall(r"`([A-Z]\w+)`", table))):
            with self.subTest(name):
                self.assertTrue(re.search(rf"(?:class|struct|using) {name}\b", sources), "no such type")

    def test_words_that_readers_stumble_over_are_avoided(self):
        for page in PAGES:
            if not page.read_text().startswith(GENERATED):
                self.assertEqual(AVOIDED.findall(page.read_text()), [], page.name)

    def test_the_readme_is_short_and_begins_with_pytorch(self):
        text = (ROOT / "README.md").read_text()
        self.assertLessEqual(len(text.splitlines()), 130)
        self.assertEqual(next(block.language for block in blocks_of(ROOT / "README.md") if block.language != "sh"), "python")
        self.assertLess(text.index("```python"), text.index("```cpp"))

    def test_every_name_of_the_package_is_in_the_reference(self):
        import laconic

        page = (ROOT / "docs/reference/python.md").read_text()
        self.assertEqual([name for name in laconic.__all__ if not re.search(rf"\b{name}\b", page)], [])

    def test_generated_pages_are_what_the_command_prints(self):
        spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
        generate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generate)
        command = generate.Command(LACONIC)
        if not command.complete():
            self.skipTest("this laconic was built without LibTorch")
        self.assertEqual([str(path.relative_to(ROOT)) for path in generate.stale(command)], [], f"run docs/generate.py {LACONIC}")


class Blocks(unittest.TestCase):
    def test_every_block_has_a_language_with_a_rule(self):
        for page in PAGES:
            text = page.read_text()
            self.assertEqual(len(re.findall("^```", text, re.M)), 2 * len(FENCE.findall(text)), page.name)
            for block in blocks_of(page):
                self.assertIn(block.language, LANGUAGES, block.where)

    def test_cpp_blocks_are_part_of_examples(self):
        files = {path: path.read_text() for path in (ROOT / "examples").rglob("*") if path.suffix in (".h", ".cc")}
        for page in PAGES:
            for number, block in enumerate(one for one in blocks_of(page) if one.language == "cpp"):
                if page.name == "README.md" and number == 0:
                    continue  # tests/CMakeLists.txt compiles and runs it
                with self.subTest(block.where):
                    self.assertTrue(any(block.code in text for text in files.values()), block.code)

    def test_python_blocks_run_on_two_ranks(self):
        blocks = [(str(page.relative_to(ROOT)), block.line, block.code) for page in PAGES for block in blocks_of(page)
                  if block.language == "python" and not block.rule.startswith("file")]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "blocks.json"
            path.write_text(json.dumps(blocks))
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
            settings = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": folder}
            done = subprocess.run([*launch, ROOT / "tests/docs_blocks.py", path], capture_output=True, text=True, timeout=240, env=settings)
        self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def test_toml_blocks_are_configurations(self):
        for page in PAGES:
            for block in blocks_of(page):
                if block.language == "toml":
                    with self.subTest(block.where), tempfile.TemporaryDirectory() as folder:
                        (Path(folder) / "run.toml").write_text(block.code)
                        prepare(Path(folder))
                        self.run_shell("laconic train --config run.toml --out runs/toml --set run.steps=2", Path(folder))

    def test_shell_blocks_run(self):
        with ThreadPoolExecutor(2) as two:  # pages have nothing in common
            for wrong in two.map(self.run_page, PAGES):
                for where, error in wrong.items():
                    with self.subTest(where):
                        raise error

    def run_page(self, page):
        """{where: error} of its shell blocks."""
        blocks = [block for block in blocks_of(page) if block.language == "sh" or block.rule.startswith("file")]
        if not any(block.language == "sh" for block in blocks):
            return {}
        wrong = {}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            prepare(folder)
            for block in blocks:
                try:
                    self.run_block(block, folder)
                except Exception as error:
                    wrong[block.where] = error
        return wrong

    def run_block(self, block, folder):
        if block.rule.startswith("file"):
            return (folder / block.rule.split()[1]).write_text(block.code)
        if block.rule.startswith("syntax"):
            return self.check_syntax(block)
        if block.rule == "all lines at once":
            return self.run_shell("\n".join(f"{line.partition('#')[0]} &" for line in block.code.splitlines()) + "\nwait -n && wait -n", folder)
        self.run_shell(block.code, folder, slurm(block.code))

    def run_shell(self, code, folder, more=()):
        if "mpirun" in code and not MPIRUN:
            return
        settings = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_COMM_", "PMI_", "SLURM_"))}
        settings |= {"PATH": f"{folder / '.tools'}:{os.environ['PATH']}", "DOCS_LACONIC": LACONIC, "DOCS_MPIRUN": MPIRUN, "MASTER_PORT": free_port(),
                     "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                     "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1", **dict(more)}  # fmt: skip
        code = re.sub(r"^export MASTER_PORT=.*$", "", code, flags=re.M)  # the test's own is free
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", code], cwd=folder, env=settings, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")

    def check_syntax(self, block):
        self.assertRegex(block.rule, r"^syntax, .+", "give the reason why it is not run")
        done = subprocess.run(["bash", "-n", "-c", block.code], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in block.code.splitlines():
            words = shlex.split(line, comments=True)
            if "laconic" not in words:
                continue
            command = words[words.index("laconic") + 1 :]
            help_text = subprocess.run([LACONIC, command[0], "--help"], capture_output=True, text=True).stdout
            for word in command:
                if word.startswith("--"):
                    self.assertIn(word, help_text, block.where)


def prepare(folder):
    """What the blocks of a page may use: the commands of docs_shim.py, a text, the examples."""
    tools = folder / ".tools"
    tools.mkdir()
    for name in docs_shim.TOOLS:
        script = tools / name
        script.write_text(f"#!{sys.executable}\n" + (ROOT / "tests/docs_shim.py").read_text().replace("Path(__file__).resolve().parent.parent", f"Path({str(ROOT)!r})"))
        script.chmod(0o755)
    (folder / "run").symlink_to(tools / "run")
    (folder / "book.txt").write_text("\n".join(page.read_text() for page in PAGES))
    shutil.copytree(ROOT / "examples", folder / "examples")


def slurm(code):
    """What sbatch would set."""
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", code, re.M))
    return {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NNODES": asked["nodes"]}.items() if asked else ()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


if __name__ == "__main__":
    LACONIC = os.path.abspath(sys.argv.pop(1))
    if len(sys.argv) > 1 and os.access(sys.argv[1], os.X_OK):
        MPIRUN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
