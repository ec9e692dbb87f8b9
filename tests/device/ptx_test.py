#!/usr/bin/env python3
"""What NVRTC makes of the CUDA kernels, executed on the CPU: the memory after every case is the host's, bit for bit.

    ptx_test.py CASES cases sm_75 …      every case; registers, no spills
    ptx_test.py CASES barriers sm_75 …   each barrier taken out of the PTX is noticed
    ptx_test.py CASES flags sm_75 …      each wrong compiler flag is noticed
    ptx_test.py CASES counts sm_90       instructions and bytes per element, which docs/explanation/gpu.md shows

CASES is the folder that cuda_fibers_test writes. Where NVRTC cannot be had, it prints that and exits with 77: skipped.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
from nvrtc import Nvrtc
from ptx_emulator import INEXACT, Memory, Program, bodies_of, launch

MOST_REGISTERS = 64  # of a thread: four blocks of 256 fit a multiprocessor, whose memory is busy then


class Case:
    """A launch, from what cuda_fibers_test wrote."""

    def __init__(self, row, data):
        self.name, self.kernel, self.grid = row["name"], row["kernel"], tuple(row["grid"])
        self.arguments, self.arrays, self.data = row["arguments"], row["arrays"], data

    def _bytes(self, place):
        return self.data[place[0] :][: place[1]].copy()

    def _relocated(self, place, addresses):
        out = self._bytes(place)
        for at, array, offset in place[2]:
            out[at : at + 8] = np.array([addresses[array] + offset], "u8").view("u1")
        return out

    def run(self, program, seed):
        """Raises RuntimeError or AssertionError where a rule is broken or a bit differs."""
        memory = Memory(Memory.room_for([array["before"][1] for array in self.arrays]))
        addresses = [memory.place(self._bytes(array["before"])) for array in self.arrays]
        for array, address in zip(self.arrays, addresses):
            if array["before"][2]:
                at = address - Memory.BASE
                memory.bytes[at : at + array["before"][1]] = self._relocated(array["before"], addresses)
        count = launch(program, self.grid, memory, self._relocated(self.arguments, addresses).tobytes(), seed)
        for array, address in zip(self.arrays, addresses):
            want = self._relocated(array["after"], addresses)
            self._compare(array, memory.fetch(address, len(want)), want)
        return count

    def _compare(self, array, got, want):
        """Equal in every bit; a NaN in both counts as equal."""
        kind = np.dtype(array["kind"] if array["kind"][0] == "f" else "u1")
        a, b = got.view(kind), want.view(kind)
        bits = f"u{kind.itemsize}"
        equal = a.view(bits) == b.view(bits)
        if kind.kind == "f":
            equal |= np.isnan(a) & np.isnan(b)
        assert equal.all(), f"{self.name}: {array['name']} differs first at {np.argmin(equal)}"


class Kernels:
    """The texts as the library has them."""

    def __init__(self, folder):
        self.nvrtc = Nvrtc()
        self.options = (folder / "options").read_text().split()
        self.texts = {p.name: p.read_text() for p in sorted((folder / "texts").iterdir())}
        headers = folder / "headers"
        self.headers = {str(p.relative_to(headers)): p.read_text() for p in headers.rglob("*") if p.is_file()}

    def compile(self, name, architecture, options=()):
        """(PTX, log of the assembler). The last of equal options counts."""
        given = {o.split("=")[0]: o for o in [*self.options, *options]}
        return self.nvrtc.compile(
            self.texts[name], name, [f"--gpu-architecture={architecture}", *given.values()], self.headers
        )[::2]

    def bodies(self, architecture):
        """{kernel: (head, body)}, and the assembler's account of {kernel: (registers, bytes of stack and spills)}."""
        bodies, used = {}, {}
        for name in self.texts:
            ptx, log = self.compile(name, architecture, ["--ptxas-options=-v"])
            bodies.update(bodies_of(ptx))
            used.update(resources(log))
        return bodies, used


def resources(log):
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame.*?(\d+) bytes spill stores.*?Used (\d+) registers"
    return {m[1]: (int(m[4]), int(m[2]) + int(m[3])) for m in re.finditer(pattern, log, re.S)}


def check_cases(kernels, cases, architecture):
    bodies, used = kernels.bodies(architecture)
    programs = {name: Program(name, *body) for name, body in bodies.items()}
    assert set(programs) == {case.kernel for case in cases}
    for number, case in enumerate(cases):
        case.run(programs[case.kernel], number)
    assert set(used) == set(programs), "the assembler named other kernels"
    for name, (registers, spilled) in sorted(used.items()):
        assert registers <= MOST_REGISTERS and spilled == 0, f"{name}: {registers} registers, {spilled} bytes spilled"
    print(f"{architecture}: {len(cases)} cases of {len(programs)} kernels equal; at most {max(r for r, _ in used.values())} registers, no spills")


def is_noticed(name, head, body, cases):
    program = Program(name, head, body)
    for case in cases:
        for seed in range(2):
            try:
                case.run(program, seed)
            except (AssertionError, RuntimeError):
                return True
    return False


# The selection's counters are warps' own for most of it: fibers notice its barriers one by one, the PTX without some is not seen to differ.
ON_FIBERS_ONLY = {"encode_top_k"}


def check_barriers(kernels, cases, architecture):
    bodies, _ = kernels.bodies(architecture)
    all_of = 0
    for name, (head, body) in bodies.items():
        if name in ON_FIBERS_ONLY:
            continue
        mine = sorted((case for case in cases if case.kernel == name), key=lambda case: case.grid[0] * case.grid[1])
        barriers = list(re.finditer(r"bar\.sync[^;]*;", body))
        for number, match in enumerate(barriers):
            without = body[: match.start()] + body[match.end() :]
            assert is_noticed(name, head, without, mine), f"{name} without barrier {number} of {len(barriers)} is as good"
        all_of += len(barriers)
    print(f"{architecture}: each of {all_of} barriers in the PTX, taken out, is noticed; not looked at: {', '.join(ON_FIBERS_ONLY)}")


WRONG = ["--fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false"]
TRIED = ["encode_sign.cu", "passes.cu"]  # both divide and take roots


def check_flags(kernels, _, architecture):
    for name in kernels.texts:
        found = INEXACT.search(kernels.compile(name, architecture)[0])
        assert not found, f"{name}: {found[0]}"
    for flag in WRONG:
        for name in TRIED:
            found = INEXACT.search(kernels.compile(name, architecture, [flag])[0])
            assert found, f"{flag} changes nothing that is noticed in {name}"
        print(f"{architecture}: {flag} is noticed: {found[0]}")


# Bytes of memory and instructions of warps, per element, at most.
LIMITS = {
    "encode_sign, sign pending, counted": (16.2, 2.5),
    "encode_sign, sign momentum, counted": (16.2, 2.5),
    "draw_signs, moments, counted": (20.2, 5),
    "decode_pending_sync, sign, counted": (20.2, 2.5),
    "encode_integers, int8 values checked, counted": (13.1, 4),
    "decode_adamw, fp32, counted": (28.1, 3),
}
BANDWIDTH = {"A100": 1555e9, "H100": 3350e9}  # bytes per second, of the 40 GB and the SXM5 card
MARK = "| kernel | of | bytes"


def table_of(rows):
    """Markdown, as in the documentation."""
    cards = list(BANDWIDTH)
    lines = [MARK + " | instructions | " + " | ".join(f"{card}, ms" for card in cards) + " |", "|---|---|" + "--:|" * (2 + len(cards))]
    for case, bytes_, instructions in rows:
        kernel, what = case.name.split(", ", 1)
        times = [f"{1e8 * bytes_ / BANDWIDTH[card] * 1e3:.2f}" for card in cards]
        lines.append(f"| `{kernel}` | {what.removesuffix(', counted')} | {bytes_:.2f} | {instructions:.2f} | " + " | ".join(times) + " |")
    return "\n".join(lines)


def check_counts(kernels, cases, architecture):
    bodies, _ = kernels.bodies(architecture)
    rows, seen = [], set()
    for case in cases:
        if not case.name.endswith("counted"):
            continue
        elements = next(array["before"][1] for array in case.arrays if array["name"] in ("m", "x")) / 4
        count = case.run(Program(case.kernel, *bodies[case.kernel]), 0)
        bytes_, instructions = (count.read + count.written) / elements, count.instructions / elements
        rows.append((case, bytes_, instructions))
        most = LIMITS.get(case.name)
        seen.add(case.name)
        assert most is None or (bytes_ <= most[0] and instructions <= most[1]), (case.name, bytes_, instructions)
    assert set(LIMITS) <= seen, set(LIMITS) - seen
    table = table_of(rows)
    print(table)
    page = (Path(__file__).resolve().parents[2] / "docs/explanation/gpu.md").read_text()
    if f"NVRTC {kernels.nvrtc.version()}, {architecture}" in page:
        begin = page.index(MARK)
        assert page[begin:].startswith(table), "docs/explanation/gpu.md has another table"


def main(folder, what, architectures):
    folder = Path(folder)
    try:
        kernels = Kernels(folder)
    except OSError as error:
        print(f"skipped: NVRTC cannot be had ({error}); pip install nvidia-cuda-nvrtc")
        return 77
    data = np.fromfile(folder / "bytes", np.uint8)
    cases = [Case(row, data) for row in json.loads((folder / "index.json").read_text())]
    print(f"NVRTC {kernels.nvrtc.version()}")
    for architecture in architectures:
        {"cases": check_cases, "barriers": check_barriers, "flags": check_flags, "counts": check_counts}[what](kernels, cases, architecture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
