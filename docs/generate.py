#!/usr/bin/env python3
"""The reference pages that the command itself knows best, written from what it prints.

    docs/generate.py [LACONIC]            writes docs/reference/{commands,methods,run-keys}.md (default: build/laconic)
    docs/generate.py [LACONIC] --check    exits with 1 and the names of pages that are not what the command prints
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = "<!-- Written by docs/generate.py from the command itself. Change the code, then run it again. -->\n\n"
COMMAND = re.compile(r"^  ([a-z][\w-]*)  +\S")  # a line of a group of subcommands
SECTIONS = {
    "run": "The run", "schedule": "Learning-rate schedule", "model": "Model sizes", "data": "Data and tokenizers",
}  # fmt: skip


class Command:
    """The laconic of one build."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, *words):
        settings = {"PATH": os.environ.get("PATH", ""), "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        done = subprocess.run([self.path, *words], capture_output=True, text=True, env=settings, timeout=60)
        if done.returncode:
            raise RuntimeError(f"laconic {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def help(self, *words):
        text = self(*words, "--help").replace(self.path, "laconic")
        return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"

    def subcommands(self, *words):
        return [found[1] for line in self.help(*words).splitlines() if (found := COMMAND.match(line))]

    def complete(self):
        """Built with LibTorch, so that it has every command."""
        return "--task" in self.help("train")


def cell(text):
    return str(text).replace("|", "\\|") or " "


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines) + "\n"


def block(text):
    return f"```text\n{text}```\n"


def commands_page(laconic):
    parts = [HEAD + "# Commands\n\nWhat `laconic COMMAND --help` prints. [Methods and their options](methods.md), [keys of a run](run-keys.md), "
             "[files that a run writes, and exit codes](metrics.md).\n", block(laconic.help())]
    for name in laconic.subcommands():
        parts.append(f"## laconic {name}\n\n{block(laconic.help(name))}")
        for inner in laconic.subcommands(name):
            parts.append(f"### laconic {name} {inner}\n\n{block(laconic.help(name, inner))}")
    return "\n".join(parts)


def option_rows(options):
    return [[f"`{one['name']}`", one["default"], one["allowed"], one["unit"], "may change" if one["may_change"] else "must stay", one["help"]]
            for one in options]  # fmt: skip


OPTION_HEADER = ["option", "default", "allowed", "unit", "on resume", "meaning"]


def methods_page(laconic):
    methods = json.loads(laconic("methods", "--json"))
    shared = [one for one in methods[0]["options"] if all(one in method["options"] for method in methods)]
    overview = [[f"[`{one['name']}`](#{one['name']})", f"`laconic.{one['python']}`" if one["python"] else "", one["exchanges"], one["codec"]] for one in methods]
    parts = [HEAD + "# Methods and their options\n\nWhat `laconic methods` prints. Set an option with `--set optimizer.NAME=VALUE`, in the section `[optimizer]` of a "
             "config file, as a field of `OptimizerConfig` in C++, or as an argument of the class in Python ([names that differ](python.md#optimizers)). "
             "[How to choose a method](../how-to/choose-a-method.md).\n", table(["method", "Python class", "exchanges", "codec"], overview)]
    for one in methods:
        own = [option for option in one["options"] if option not in shared]
        parts.append(f"## {one['name']}\n\n{one['title']}: {one['summary']}.\n\n*{one['paper']}*\n\n{table(OPTION_HEADER, option_rows(own))}")
    parts.append(f"## Options of all methods\n\n{table(OPTION_HEADER, option_rows(shared))}")
    parts.append("With `laconic train`, `total_steps`, `seed` and `threads` follow from the keys `run.steps`, `run.seed` and `run.threads`.\n")
    return "\n".join(parts)


def keys_page(laconic):
    rows = [re.split(r"  +", line.strip(), maxsplit=4) for line in laconic("train", "--keys").strip().splitlines()[1:]]
    parts = [HEAD + "# Keys of a run\n\nWhat `laconic train --keys` prints. Give a key as `--set run.steps=200`, or in a TOML file that `--config` names:\n",
             "```toml\n[run]\ntask = \"text\"\ndata = \"book.txt\"\nmodel = \"gpt2-mini\"\noptimizer = \"zero-one-adam\"\nsteps = 200\n\n"
             "[optimizer]\nmax_interval = 8\n```\n",
             "Later ones win: the file first, then options such as `--steps`, then `--set`. The section `[optimizer]` takes the [options of the method](methods.md). "
             "*On resume*: whether `--resume` accepts another value than the one that the run was started with.\n"]
    for section, title in SECTIONS.items():
        mine = [row for row in rows if row[0].startswith(section + ".")]
        parts.append(f"## {title}\n\n" + table(["key", "default", "allowed", "on resume", "meaning"],
                     [[f"`{name}`", default, allowed, "may change" if resume == "free" else "must stay", help] for name, default, allowed, resume, help in mine]))
    missing = {row[0] for row in rows if row[0].split(".")[0] not in SECTIONS}
    assert not missing, f"docs/generate.py has no section for {missing}"
    return "\n".join(parts)


def pages(laconic):
    """{path: what it should hold}."""
    folder = ROOT / "docs/reference"
    return {folder / "commands.md": commands_page(laconic), folder / "methods.md": methods_page(laconic), folder / "run-keys.md": keys_page(laconic)}


def stale(laconic):
    return [path for path, text in pages(laconic).items() if not path.exists() or path.read_text() != text]


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    laconic = Command(words[0] if words else ROOT / "build/laconic")
    if not laconic.complete():
        sys.exit("generate: this laconic was built without LibTorch and lacks commands; build it with ./run build")
    if "--check" not in sys.argv:
        for path, text in pages(laconic).items():
            path.write_text(text)
            print(path.relative_to(ROOT))
        return 0
    old = [str(path.relative_to(ROOT)) for path in stale(laconic)]
    if old:
        print(f"{', '.join(old)}: not what the command prints; run docs/generate.py", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
