#!/usr/bin/env python3
"""The layer check: who may include what, and names that say nothing.

    layers.py [ROOT]         prints each violation as file:line, exits with 1 if there is one
    layers.py --self-test    shows that each kind of violation is caught
"""
import re
import sys
from pathlib import Path

import rules

# A folder may include itself, the standard library and what stands here.
MAY_INCLUDE = {
    "laconic/core": {"fmt", "xxhash"},
    "laconic/kernels": {"core", "highway"},
    "laconic/wire": {"core"},
    "laconic/transport": {"core", "mpi"},
    "laconic/codec": {"core", "kernels", "wire"},
    "laconic/device": {"core", "kernels", "codec"},
    "laconic/collective": {"core", "wire", "codec", "device", "transport"},
    "laconic/optim": {"core", "kernels", "device", "transport", "collective"},
    "laconic/checkpoint": {"core", "transport", "optim", "json"},
    # It counts with the layouts, sizes and policies that run, not with copies of them (docs/design/0004).
    "laconic/plan": {"core", "kernels", "wire", "codec", "device", "transport", "collective", "optim"},
    "laconic/torch": {"core", "kernels", "wire", "codec", "device", "transport", "collective", "optim", "checkpoint", "plan", "torch"},
    # Benchmarks call kernels themselves.
    "app": {"public", "kernels", "fmt", "json", "cli", "toml", "torch", "mpi", "zlib"},
    "python": {"public", "kernels", "fmt", "nanobind"},
    "examples": {"public", "fmt", "torch", "mpi"},
}

THIRD_PARTY = {
    "fmt": r"fmt/", "xxhash": r"xxhash\.h", "highway": r"hwy/", "mpi": r"mpi\.h", "json": r"nlohmann/", "cli": r"CLI/",
    "toml": r"toml\+\+/", "torch": r"(torch|ATen|c10)/", "nanobind": r"nanobind/", "zlib": r"zlib\.h",
}
STANDARD = re.compile(r"[a-z_0-9]+|(sys|linux|netinet|arpa)/\w+\.h|(unistd|fcntl|signal|pthread|sched|poll|dlfcn|ucontext)\.h")
MPI_FILE = re.compile(r"mpi(_\w+)?\.\w+|laconic/transport/mpi(_\w+)?\.h")

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
EMPTY_FILE_NAME = re.compile(r"(?i)(.*_)?(util|utility|utilities|utils|common|helpers?|misc|manager)")
EMPTY_TYPE_NAME = re.compile(r"\b(?:class|struct|enum|namespace|concept)\s+(\w*(?:Manager|Helpers?|Util(?:s|ity)?|Common|Misc)"
                             r"|utils?|helpers?|common|misc)\b")
SOURCES = {".h", ".cc", ".py"}


def public_headers(root):
    text = re.sub(r"#.*", "", (root / "cmake/public_headers.cmake").read_text())
    return set(re.findall(r"laconic/\S+\.h", text))


def folder_of(path):
    """laconic/core/x.h -> laconic/core; app/commands/x.cc -> app."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "laconic" else parts[0]


def refusal(path, bracket, header, public):
    """Why `path` may not include `header`, or None."""
    folder = folder_of(path)
    if folder not in MAY_INCLUDE:
        return f"{folder} is no layer: give it a line in MAY_INCLUDE"
    may = MAY_INCLUDE[folder]
    if (header == "mpi.h" or MPI_FILE.fullmatch(header)) and not MPI_FILE.fullmatch(path.split("/")[-1]):
        return f"{header}: MPI belongs to files named mpi.* or mpi_*"
    if header.startswith(("laconic/", "app/", "examples/", "python/")):
        if path in public and header not in public:
            return f"a public header includes {header}, which is not in cmake/public_headers.cmake"
        if folder_of(header) == folder:
            return None
        if "public" in may:
            known = header in public or folder_of(header).removeprefix("laconic/") in may
            return None if known else f"{folder} includes {header}, which is not a public header"
        return None if folder_of(header).removeprefix("laconic/") in may else f"{folder} may not include {folder_of(header)}"
    for name, pattern in THIRD_PARTY.items():
        if re.match(pattern, header):
            return None if name in may else f"{folder} may not include {name} ({header})"
    if bracket == "<":
        return None if STANDARD.fullmatch(header) else f"<{header}> has no home: name it in tests/layers.py"
    return f'"{header}": write the path from the top, as in "laconic/core/error.h"'


def violations(root):
    public = public_headers(root)
    for header in sorted(public):
        if not (root / header).is_file():
            yield f"cmake/public_headers.cmake:1: {header} does not exist"
    files = [p for top in ("laconic", "app", "python", "examples", "bench", "tests") for p in sorted((root / top).rglob("*"))
             if p.suffix in SOURCES]
    for file in files:
        path = file.relative_to(root).as_posix()
        for part in Path(path).with_suffix("").parts:
            if EMPTY_FILE_NAME.fullmatch(part):
                yield f"{path}:1: the name {part} does not say what is inside"
        if file.suffix == ".py" or path.startswith(("tests/", "bench/")):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if match := INCLUDE.match(line):
                if why := refusal(path, *match.groups(), public):
                    yield f"{path}:{number}: {why}"
            if match := EMPTY_TYPE_NAME.search(line.split("//")[0]):
                yield f"{path}:{number}: the name {match[1]} does not say what it is"


ALLOWED = {
    "laconic/core/error.h": "#include <fmt/format.h>\n#include <string>",
    "laconic/kernels/sign.cc": '#include "hwy/highway.h"\n#include "laconic/core/error.h"\n#include "laconic/kernels/lanes.h"',
    "laconic/transport/mpi.h": "#include <mpi.h>",
    "app/commands/bench.cc": '#include <nlohmann/json.hpp>\n#include "laconic/core/error.h"\n#include "app/table.h"',
    "app/mpi.cc": '#include "laconic/transport/mpi.h"',
}
REFUSED = {
    "laconic/core/a.cc": '\n#include "laconic/kernels/sign.h"',
    "laconic/core/b.h": "\nclass BufferManager {};",
    "laconic/core/helpers.h": "",
    "laconic/core/c.cc": "\n#include <nlohmann/json.hpp>",
    "laconic/core/d.cc": "\n#include <boost/asio.hpp>",
    "laconic/core/e.cc": '\n#include "error.h"',
    "laconic/wire/a.h": '\n  # include "laconic/transport/transport.h"',
    "laconic/kernels/a.cc": "\n#include <mpi.h>",
    "laconic/transport/a.cc": "\n#include <mpi.h>",
    "laconic/collective/a.cc": "\n#include <hwy/highway.h>",
    "laconic/new_layer/a.cc": "\n#include <string>",
    "app/a.cc": '\n#include "laconic/collective/coder.h"',
    "app/b.cc": '\n#include "laconic/transport/mpi.h"',
    "laconic/core/hash.h": '\n#include "laconic/core/hidden.h"',
    "examples/utils.cc": "",
}


def self_test():
    before = {"cmake/public_headers.cmake": "# laconic/not/this.h\nset(X laconic/core/error.h laconic/transport/mpi.h)"}
    after = {"cmake/public_headers.cmake": "set(X laconic/core/error.h laconic/core/hash.h laconic/transport/mpi.h laconic/gone.h)"}
    right, wrong = rules.found_in(violations, before | ALLOWED, after | REFUSED)
    rules.expect(right, [])
    wanted = {f"{path}:{2 if text else 1}:" for path, text in REFUSED.items()} | {"cmake/public_headers.cmake:1:"}
    rules.expect(wrong, wanted)
    print(f"layers: all {len(wanted)} kinds of violation are caught")


if __name__ == "__main__":
    sys.exit(rules.run(violations, self_test, "layers: every include points down"))
