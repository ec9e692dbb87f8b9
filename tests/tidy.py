#!/usr/bin/env python3
"""clang-tidy (.clang-tidy) of what changed: of every source that did, and of one that includes each changed header.

    tidy.py CLANG_TIDY BUILD           since the branch left main; on main itself, since the commit before
    tidy.py CLANG_TIDY BUILD --all     of all that BUILD/compile_commands.json has of laconic/ and app/, which takes long
    tidy.py --self-test                shows what is picked
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]((?:laconic|app)/[^>"]+)[>"]', re.M)


def output_of(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def changed():
    """Paths that differ from where this branch left main, those not yet committed too."""
    head = output_of("git", "rev-parse", "HEAD")
    for base in ("origin/main", "main"):
        since = output_of("git", "merge-base", "HEAD", base)
        if since and since != head:
            break
    else:
        since = output_of("git", "rev-parse", "HEAD~1") or head
    return output_of("git", "diff", "--name-only", since).splitlines()


def picked(changes, sources):
    """The sources to look at, given {path: its text}."""
    includes = {path: set(INCLUDE.findall(text)) for path, text in sources.items()}
    chosen = {path for path in changes if path in sources}
    for header in (path for path in changes if path.endswith(".h")):
        users = [path for path in sources if header in includes[path]]
        own = header.removesuffix(".h") + ".cc"
        if users and not chosen.intersection(users):
            chosen.add(own if own in users else min(users))
    return sorted(chosen)


def header_filter(changes):
    """The headers whose findings count, as a regular expression."""
    headers = [re.escape(path) for path in changes if path.endswith(".h")]
    return f"/({'|'.join(headers)})$" if headers else "^$"


def look(tidy, build, options, path):
    done = subprocess.run([tidy, "-p", build, "--quiet", *options, path], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout


def self_test():
    sources = {"laconic/core/error.cc": '#include "laconic/core/error.h"', "laconic/core/hash.cc": '#include "laconic/core/error.h"',
               "app/main.cc": '#include <laconic/core/hash.h>'}
    assert picked(["README.md", "laconic/core/gone.cc", "tests/x.h"], sources) == []
    assert picked(["laconic/core/hash.cc"], sources) == ["laconic/core/hash.cc"]
    assert picked(["laconic/core/error.h"], sources) == ["laconic/core/error.cc"]
    assert picked(["laconic/core/error.h", "laconic/core/hash.cc"], sources) == ["laconic/core/hash.cc"]
    assert picked(["laconic/core/hash.h"], sources) == ["app/main.cc"]
    assert re.search(header_filter(["app/a.cc", "app/units.h"]), "/home/x/app/units.h")
    assert not re.search(header_filter(["app/units.h"]), "/home/x/app/units_h")
    assert not re.search(header_filter(["app/a.cc"]), "/home/x/app/units.h")
    print("tidy: changed sources and one user of each changed header are picked")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    tidy, build = sys.argv[1:3]
    paths = {os.path.relpath(entry["file"], ROOT) for entry in json.loads((ROOT / build / "compile_commands.json").read_text())}
    sources = {path: (ROOT / path).read_text() for path in sorted(paths) if path.startswith(("laconic/", "app/"))}
    changes, options = list(sources), []
    if "--all" not in sys.argv:
        changes = changed()
        options = [f"--header-filter={header_filter(changes)}"]
    chosen = picked(changes, sources)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: look(tidy, build, options, path), chosen))
    # Headers are seen by several sources; each finding is printed once.
    seen = dict.fromkeys(finding for _, text in results for finding in re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning):)", text.strip()) if finding)
    print("\n".join(seen), f"tidy: {len(chosen)} of {len(sources)} sources, {len(seen)} findings", sep="\n" if seen else "")
    return 1 if any(code for code, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
