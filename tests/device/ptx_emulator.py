"""Runs compiled PTX on the CPU, for tests: a warp is 32 lanes in NumPy, warps take turns at random.

It checks what a GPU leaves undefined: addresses outside the given arrays, misaligned ones, lanes that miss a barrier, shuffle
or vote, and races: a byte of shared memory that two threads touch, one of them writing, without a barrier between; of global
memory, in one launch at all (atomics may meet). It refuses kernels with a fused, flushed or approximate operation and raises on
instructions that it does not know. It counts executed instructions of warps, and 32-byte sectors of global memory that a thread
block reads and writes. Not modelled: the assembler after PTX, caches, speed.
"""

import re

import numpy as np
from ptx_instructions import LANES, TYPES, decode
from ptx_memory import Memory, Touched

SECTOR = 32
# Fused, flushed to zero or approximate; without .rn the assembler may fuse.
INEXACT = re.compile(r"\bfma\b|\.ftz|\.approx|\.full|\b(?:add|sub|mul|mad|div|sqrt|rcp)\.f(?:32|64)")


class Count:
    """Of a launch: instructions of warps, and bytes of the sectors that each thread block reads and writes."""

    def __init__(self):
        self.instructions = 0
        self.read = self.written = 0


def bodies_of(ptx):
    """{kernel: (head, body)}"""
    text = re.sub(r"//.*", "", ptx)
    return {m[1]: (m[2], m[3]) for m in re.finditer(r"\.entry (\w+)\((.*?)\n{\n(.*?)\n}", text, re.S)}


class Program:
    """One kernel."""

    def __init__(self, name, head, body):
        found = INEXACT.search(body)
        assert not found, f"{name} has {found[0]}"
        self.threads = int(re.search(r"\.maxntid (\d+)", head)[1])
        self.parameter = re.search(r"(\w+)\[\d+\]", head)[1]
        self.sizes, self.numbers = {}, {}  # of registers
        self.labels, self.shared, self.shared_size = {}, {}, 0
        lines = []
        for line in map(str.strip, body.splitlines()):
            if m := re.match(r"\.shared \.align (\d+) \.(\w+) (\w+)(?:\[(\d+)\])?;", line):
                at = -(-self.shared_size // int(m[1])) * int(m[1])
                self.shared[m[3]] = at
                self.shared_size = at + TYPES[m[2]].itemsize * int(m[4] or 1)
            elif m := re.match(r"\.reg \.(\w+)\s+(%\w+)<(\d+)>;", line):
                for i in range(int(m[3])):
                    self.sizes[f"{m[2]}{i}"] = TYPES[m[1]].itemsize if m[1] != "pred" else 0
            elif m := re.match(r"(\$\w+):$", line):
                self.labels[m[1]] = len(lines)
            elif line and not line.startswith((".pragma", "{", "}")):
                m = re.match(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.]*)\s*(.*?);$", line)
                assert m, f"not understood: {line}"
                operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", m[4])
                lines.append((m[2], m[1] == "!", m[3], operands, line))
        for special in ("%tid.x", "%ntid.x", "%nctaid.x", "%ctaid.x", "%ctaid.y"):
            self.sizes[special] = 4
        self.numbers = {register: i for i, register in enumerate(self.sizes)}
        self.code = [
            (predicate and self.numbers[predicate], inverted, op in ("bra", "bra.uni") and self.labels[operands[0]],
             None if op in ("bra", "bra.uni") else decode(self, op, operands), op, line)
            for predicate, inverted, op, operands, line in lines
        ]  # fmt: skip


def launch(program, grid, memory, arguments, seed=0):
    """Runs all blocks of a grid (x, y); `arguments` is the bytes of the kernel's one parameter."""
    random = np.random.default_rng(seed)
    memory.forget()
    count = Count()
    arguments = np.frombuffer(arguments, np.uint8)
    with np.errstate(all="ignore"):
        for number in range(grid[0] * grid[1]):
            _run_block(program, grid, number, memory, arguments, random, count)
    return count


def _run_block(program, grid, number, memory, arguments, random, count):
    shared = Touched(program.shared_size)
    shared.valid[:] = True
    sectors = set(), set()
    warps = [
        Warp(program, grid, number, memory, shared, arguments, first, sectors)
        for first in range(0, program.threads, 32)
    ]
    while running := [warp for warp in warps if warp.alive.any()]:
        ready = [warp for warp in running if not warp.waits]
        if ready:
            random.choice(ready).run(int(random.integers(1, 200)))
            continue
        assert len(running) == len(warps), "a warp left before a barrier"
        shared.forget()
        for warp in warps:
            warp.waits = False
    count.instructions += sum(warp.executed for warp in warps)
    count.read += SECTOR * len(sectors[0])
    count.written += SECTOR * len(sectors[1])


class Warp:
    def __init__(self, program, grid, block, memory, shared, arguments, first, sectors):
        self.program, self.arguments, self.sectors = program, arguments, sectors
        self.memory, self.shared = memory, shared
        self.r = [np.zeros(32, f"u{size}" if size else bool) for size in program.sizes.values()]
        self.pc, self.alive = np.zeros(32, np.int64), np.ones(32, bool)
        self.at = 0  # of all lanes that are alive; -1: they differ
        self.waits, self.executed = False, 0
        self.thread = (block * program.threads + first + LANES).astype(np.int32)
        special = {"%tid.x": first + LANES, "%ntid.x": program.threads, "%nctaid.x": grid[0],
                   "%ctaid.x": block % grid[0], "%ctaid.y": block // grid[0]}  # fmt: skip
        for name, value in special.items():
            self.r[program.numbers[name]] = np.broadcast_to(np.asarray(value, "u4"), 32)

    def run(self, turns):
        """The lanes that are furthest behind go first: they meet again where their paths do. Where lanes meet they wait."""
        code = self.program.code
        for _ in range(turns):
            if self.waits or not self.alive.any():
                return
            pc = self.at if self.at >= 0 else self._furthest_behind(code)
            here = self.alive if self.at >= 0 else self.alive & (self.pc == pc)
            predicate, inverted, target, work, op, line = code[pc]
            on = here if predicate is None else here & (self.r[predicate] ^ inverted)
            self.executed += 1
            if work is None:
                self._branch(pc, here, on, target)
            else:
                if self.at >= 0:
                    self.at = pc + 1
                else:
                    self.pc[here] = pc + 1
                    self._meet()
                try:
                    if op == "ret":
                        self._leave(on)
                    else:
                        work(self, on)
                except (AssertionError, KeyError, NotImplementedError) as error:
                    raise RuntimeError(f"{line}: {error!r}") from error

    def _furthest_behind(self, code):
        places = np.unique(self.pc[self.alive])
        return int(next((pc for pc in places if not code[pc][4].startswith(("bar", "shfl", "vote"))), places[0]))

    def _branch(self, pc, here, on, target):
        if self.at >= 0 and (on == here).all():
            self.at = target
        elif self.at >= 0 and not on.any():
            self.at = pc + 1
        else:
            if self.at >= 0:
                self.pc[:], self.at = pc, -1
            self.pc[here] = pc + 1
            self.pc[on] = target
            self._meet()

    def _leave(self, on):
        if self.at >= 0:
            self.pc[:] = self.at
        self.at, self.alive = -1, self.alive & ~on
        self._meet()

    def _meet(self):
        places = self.pc[self.alive]
        if len(places) and (places == places[0]).all():
            self.at = int(places[0])

    def put(self, number, value, on):
        old = self.r[number]
        if value.dtype != old.dtype:
            if old.dtype == bool or value.itemsize == old.itemsize:
                value = value.view(old.dtype)
            else:  # narrow results fill their registers
                value = value.astype(f"{value.dtype.kind}{old.itemsize}").view(old.dtype)
        self.r[number] = value if on.all() else np.where(on, value, old)

    def space(self, name):
        return (self.shared, 0) if name == "shared" else (self.memory, Memory.BASE)

    def note(self, at, size, written):
        self.sectors[written].update((at // SECTOR).tolist())
        if size > 1:
            self.sectors[written].update(((at + size - 1) // SECTOR).tolist())
