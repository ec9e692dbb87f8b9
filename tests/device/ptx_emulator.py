"""Runs compiled PTX on the CPU, for tests: a warp is 32 lanes in NumPy, warps take turns at random.

It checks what a GPU leaves undefined: addresses outside the given arrays, misaligned ones, lanes that miss a barrier, shuffle
or vote, and races: a byte of shared memory that two threads touch, one of them writing, without a barrier between; of global
memory, in one launch at all (atomics may meet). It refuses kernels with a fused, flushed or approximate operation and raises on
instructions that it does not know. It counts executed instructions of warps, and 32-byte sectors of global memory that a thread
block reads and writes. Not modelled: the assembler after PTX, caches, speed.
"""

import re

import numpy as np

LANES = np.arange(32)
NOBODY, MANY, ATOMIC = -1, -2, -3
SECTOR = 32
TYPES = {
    "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "b32": "u4", "u32": "u4", "s32": "i4",
    "b64": "u8", "u64": "u8", "s64": "i8", "f32": "f4", "f64": "f8", "pred": "?",
}  # fmt: skip
TYPES = {name: np.dtype(kind) for name, kind in TYPES.items()}
COMPARE = {
    "eq": np.equal, "ne": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "num": lambda a, b: (a == a) & (b == b),
}  # fmt: skip
# Those that hold for NaN: each the opposite of one that does not.
UNORDERED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt", "nan": "num"}
FLOAT = {
    "add.rn": np.add, "sub.rn": np.subtract, "mul.rn": np.multiply, "div.rn": np.divide, "sqrt.rn": np.sqrt,
    "rcp.rn": lambda a: a.dtype.type(1) / a, "abs": np.abs, "neg": np.negative,
    "copysign": lambda sign, value: np.copysign(value, sign),
}  # fmt: skip


def _quotient(a, b):
    """Rounded towards 0."""
    b = np.where(b == 0, 1, b).astype(a.dtype)
    whole = np.floor_divide(a, b)
    return (whole + ((whole < 0) & (whole * b != a))).astype(a.dtype)


def _high(a, b):
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)


def _bfi(field, into, at, length):
    mask = ((np.uint64(1) << length.astype("u8")) - np.uint64(1)) << at.astype("u8")
    return ((into & ~mask) | ((field.astype("u8") << at.astype("u8")) & mask)).astype("u4")


def _prmt(a, b, how):
    bytes_ = np.stack([a, b], 1).view("u1").reshape(-1, 8)
    out = np.zeros((len(a), 4), "u1")
    for i in range(4):
        pick = (how >> np.uint32(4 * i)) & np.uint32(15)
        byte = bytes_[np.arange(len(a)), pick & np.uint32(7)]
        out[:, i] = np.where(pick & np.uint32(8), np.where(byte & 0x80, 0xFF, 0), byte)
    return out.view("u4")[:, 0]


WHOLE = {
    "add": np.add, "sub": np.subtract, "mul.lo": np.multiply, "mul.hi": _high, "div": _quotient, "min": np.minimum,
    "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "neg": lambda a: (~a + a.dtype.type(1)), "mad.lo": lambda a, b, c: a * b + c, "bfi": _bfi, "prmt": _prmt,
    "popc": lambda a: np.bitwise_count(a).astype("u4"),
}  # fmt: skip
# Fused, flushed to zero or approximate; without .rn the assembler may fuse.
INEXACT = re.compile(r"\bfma\b|\.ftz|\.approx|\.full|\b(?:add|sub|mul|mad|div|sqrt|rcp)\.f(?:32|64)")
ATOMS = {"add": np.add, "or": np.bitwise_or}


class Touched:
    """Memory that knows which thread touched each byte since the last `forget`."""

    def __init__(self, size):
        self.bytes = np.full(size, 0xA5, np.uint8)
        self.valid = np.zeros(size, bool)
        self.writer, self.reader = np.empty((2, size), np.int32)
        self.forget()

    def forget(self):
        self.writer[:], self.reader[:] = NOBODY, NOBODY

    def _bytes_at(self, at, size):
        assert not (at % size).any(), "misaligned"
        assert at.min() >= 0 and at.max() + size <= len(self.valid), "outside the memory"
        which = at[:, None] + np.arange(size)
        assert self.valid[which].all(), "outside the arrays"
        return which

    def load(self, at, size, threads):
        if not len(at):
            return np.zeros((0, size), "u1")
        which, me = self._bytes_at(at, size), threads[:, None]
        writer, reader = self.writer[which], self.reader[which]
        assert ((writer == NOBODY) | (writer == me)).all(), "race: reads what another wrote"
        self.reader[which] = np.where((reader == NOBODY) | (reader == me), me, MANY)
        now = self.reader[which]
        if (now != me).any():
            self.reader[which[now != me]] = MANY
        return self.bytes[which]

    def store(self, at, data, threads, atomic=False):
        if not len(at):
            return
        which, me = self._bytes_at(at, data.shape[1]), threads[:, None]
        writer, reader = self.writer[which], self.reader[which]
        mine = np.broadcast_to(np.int32(ATOMIC), me.shape) if atomic else me
        assert ((writer == NOBODY) | (writer == mine)).all(), "race: writes what another wrote"
        assert ((reader == NOBODY) | (reader == me)).all(), "race: writes what another read"
        self.writer[which] = mine
        assert (self.writer[which] == mine).all(), "race: two lanes write to one place"
        self.bytes[which] = data


class Memory(Touched):
    """The device's memory. `place` copies an array in and gives its address, `fetch` copies out."""

    BASE, GUARD = 0x7000_0000_0000, 256

    def __init__(self, size):
        super().__init__(size)
        self.end = self.GUARD

    @staticmethod
    def room_for(sizes):
        return 2 * Memory.GUARD + sum(-(-size // 256) * 256 + 2 * Memory.GUARD for size in sizes)

    def place(self, data):
        at, size = self.end, len(data)
        self.bytes[at : at + size] = data
        self.valid[at : at + size] = True
        self.end = -(-(at + size + self.GUARD) // 256) * 256
        return self.BASE + at

    def fetch(self, address, size):
        return self.bytes[address - self.BASE :][:size].copy()


class Count:
    """Of a launch: instructions of warps, and bytes of the sectors that each thread block reads and writes."""

    def __init__(self):
        self.instructions = 0
        self.read = self.written = 0

    def of(self, launched, elements):
        return {"instructions": self.instructions / elements, "bytes": (self.read + self.written) / elements}


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
             None if op in ("bra", "bra.uni") else _decode(self, op, operands), op, line)
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
        """The lanes that are furthest behind go first: they meet again where their paths do."""
        code = self.program.code
        for _ in range(turns):
            if self.waits or not self.alive.any():
                return
            pc = self.at if self.at >= 0 else int(self.pc[self.alive].min())
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


def _decode(program, op, x):
    """work(warp, on)"""
    *parts, last = op.split(".")
    name, kind = ".".join(parts), TYPES.get(last)
    if op == "ret":
        return lambda warp, on: None
    if op == "bar.sync":
        return _barrier
    if parts[0] in ("ld", "st"):
        return _move(program, parts, kind, x)
    if parts[0] == "atom":
        return _atom(program, parts, kind, x)
    if op == "shfl.sync.bfly.b32":
        return _shuffle(program, x)
    if op == "vote.sync.ballot.b32":
        return _ballot(program, x)
    if name == "mov" and x[0][0] == "{":
        return _split(program, kind, x)
    compute, to = _compute(program, name, parts, last, kind, x[1:]), program.numbers[x[0]]
    return lambda warp, on: warp.put(to, compute(warp), on)


def _barrier(warp, on):
    assert on.all(), "not all lanes are at the barrier"
    warp.waits = True


def _split(program, kind, x):
    get, half = _get(program, x[1], kind), f"u{kind.itemsize // 2}"
    targets = [None if one == "_" else program.numbers[one] for one in re.findall(r"[^{},\s]+", x[0])]

    def work(warp, on):
        halves = np.ascontiguousarray(get(warp)).view(half).reshape(32, 2)
        for i, target in enumerate(targets):
            if target is not None:
                warp.put(target, np.ascontiguousarray(halves[:, i]), on)

    return work


def _get(program, text, kind):
    """A function of a warp that gives an operand as an array of `kind`."""
    kind = np.dtype(kind)
    if text[0] == "%":
        number, size = program.numbers[text], program.sizes[text]
        if size == 0 or size == kind.itemsize:
            return lambda warp: warp.r[number].view(kind)
        return lambda warp: warp.r[number].astype(f"u{kind.itemsize}").view(kind)
    if text == program.parameter:
        bits = 0
    elif text[:2] in ("0f", "0d", "0F", "0D"):
        bits = int(text[2:], 16)
    else:
        bits = program.shared[text] if text in program.shared else int(text.rstrip("U"), 0)
    if kind == bool:
        value = np.full(32, bits != 0)
    else:
        value = np.full(32, bits % 2 ** (8 * kind.itemsize), f"u{kind.itemsize}").view(kind)
    return lambda warp: value


def _address(program, text):
    base, offset = re.match(r"\[(%?[\w$]+)(?:\+?(-?\d+))?\]", text).groups()
    wide = base[0] == "%" and program.sizes[base] == 8
    get, more = _get(program, base, "i8" if wide else "u4"), int(offset or 0)
    return lambda warp: get(warp).astype(np.int64) + more


def _shuffle(program, x):
    target, _, valid = x[0].partition("|")
    to, valid = program.numbers[target], valid and program.numbers[valid]
    get, distance = _get(program, x[1], "u4"), _get(program, x[2], "i4")
    width, mask = (_get(program, one, "i4") for one in x[3:])

    def work(warp, on):
        assert on.all() and (width(warp) == 31).all() and (mask(warp) == -1).all(), "part of a warp"
        warp.put(to, get(warp)[LANES ^ distance(warp)[0]], on)
        if valid:
            warp.put(valid, np.ones(32, bool), on)

    return work


def _ballot(program, x):
    to, get, mask = program.numbers[x[0]], _get(program, x[1], "?"), _get(program, x[2], "i4")
    inverted = x[1][0] == "!"

    def work(warp, on):
        assert on.all() and (mask(warp) == -1).all() and not inverted, "part of a warp"
        warp.put(to, np.full(32, np.packbits(get(warp), bitorder="little").view("u4")[0]), on)

    return work


def _compute(program, name, parts, last, kind, x):
    """A function of a warp that gives the result."""
    if name == "mov" and x[0][0] == "{":
        halves = [_get(program, one, f"u{kind.itemsize // 2}") for one in re.findall(r"[^{},\s]+", x[0])]
        return lambda warp: np.ascontiguousarray(np.stack([one(warp) for one in halves], 1)).view(kind)[:, 0]
    if name in ("mov", "cvta.to.global", "cvta.param"):
        return _get(program, x[0], kind)
    if parts[0] == "setp" and len(parts) == 2:
        a, b, how = _get(program, x[0], kind), _get(program, x[1], kind), parts[1]
        compare = COMPARE[UNORDERED.get(how, how)]
        if how in UNORDERED:
            return lambda warp: ~compare(a(warp), b(warp))
        return lambda warp: compare(a(warp), b(warp))
    if name == "selp":
        a, b, chosen = _get(program, x[0], kind), _get(program, x[1], kind), _get(program, x[2], "?")
        return lambda warp: np.where(chosen(warp), a(warp), b(warp))
    if parts[0] == "cvt":
        return _convert(program, parts[1:], last, kind, x[0])
    if name in ("mul.wide", "mad.wide"):
        wide = np.dtype(f"{kind.kind}{2 * kind.itemsize}")
        a, b = (_get(program, one, kind) for one in x[:2])
        if parts[0] == "mul":
            return lambda warp: a(warp).astype(wide) * b(warp).astype(wide)
        c = _get(program, x[2], wide)
        return lambda warp: a(warp).astype(wide) * b(warp).astype(wide) + c(warp)
    if name in ("shl", "shr"):
        return _shift(program, name, kind, x)
    table = FLOAT if kind.kind == "f" else WHOLE
    if kind == bool:
        table = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not}
    if name not in table:
        raise NotImplementedError(f"{name}.{last}")
    work, gets = table[name], [_get(program, one, kind) for one in x]
    if len(gets) == 2:
        a, b = gets
        return lambda warp: work(a(warp), b(warp))
    return lambda warp: work(*[get(warp) for get in gets])


def _convert(program, how, last, kind, text):
    to, get, rounding = TYPES[how[-1]], _get(program, text, kind), how[:-1]
    if to.kind == "f" and kind.kind == "f":
        if rounding == ["rni"] and to == kind:
            return lambda warp: np.rint(get(warp))
        assert rounding == (["rn"] if to.itemsize < kind.itemsize else []), (how, last)
        return lambda warp: get(warp).astype(to)
    if kind.kind == "f":
        assert rounding in (["rzi"], ["rni"]), (how, last)
        rounded = np.trunc if rounding == ["rzi"] else np.rint
        limits = np.iinfo(to)
        return lambda warp: np.clip(np.nan_to_num(rounded(get(warp).astype("f8"))), limits.min, limits.max).astype(to)
    assert rounding == (["rn"] if to.kind == "f" else []), (how, last)
    return lambda warp: get(warp).astype(to)


def _shift(program, name, kind, x):
    bits, get, by = 8 * kind.itemsize, _get(program, x[0], kind), _get(program, x[1], "u4")
    shift = np.left_shift if name == "shl" else np.right_shift
    last_bit = bits - 1 if kind.kind == "i" else 0  # a signed value fills with its sign

    def work(warp):
        distance = by(warp)
        out = shift(get(warp), np.where(distance < bits, distance, last_bit).astype(kind))
        return out if kind.kind == "i" else np.where(distance < bits, out, 0).astype(kind)

    return work


def _move(program, parts, kind, x):
    size = kind.itemsize
    where, what = (x[1], x[0]) if parts[0] == "ld" else (x[0], x[1])
    names, address = re.findall(r"[^{},\s]+", what), _address(program, where)
    whole, space = size * len(names), next((p for p in parts[1:] if p in ("param", "shared", "global")), "generic")
    if parts[0] == "st":
        gets = [_get(program, one, kind) for one in names]

        def store(warp, on):
            memory, base = warp.space(space)
            at = address(warp)[on] - base
            data = np.hstack([np.ascontiguousarray(get(warp)).view("u1").reshape(32, size) for get in gets])
            memory.store(at, data[on], warp.thread[on])
            if memory is warp.memory:
                warp.note(at, whole, True)

        return store
    targets = [one if one == "_" else program.numbers[one] for one in names]

    def hand_out(warp, on, data):
        for i, target in enumerate(targets):
            if target != "_":
                value = np.zeros(32, kind)
                value[on] = np.ascontiguousarray(data[:, i * size : (i + 1) * size]).view(kind)[:, 0]
                warp.put(target, value, on)

    def load_parameter(warp, on):
        at = address(warp)[on]
        hand_out(warp, on, warp.arguments[at[:, None] + np.arange(whole)])

    def load(warp, on):
        memory, base = warp.space(space)
        at = address(warp)[on] - base
        hand_out(warp, on, memory.load(at, whole, warp.thread[on]))
        if memory is warp.memory:
            warp.note(at, whole, False)

    return load_parameter if space == "param" else load


def _atom(program, parts, kind, x):
    address, given, work = _address(program, x[1]), _get(program, x[2], kind), ATOMS[parts[2]]
    to = None if x[0] == "_" else program.numbers[x[0]]

    def atom(warp, on):
        memory, base = warp.space(parts[1])
        at, values, old = address(warp) - base, given(warp), np.zeros(32, kind)
        for lane in LANES[on]:
            cell = memory.bytes[at[lane] : at[lane] + kind.itemsize].view(kind)
            old[lane] = cell[0]
            new = work(cell, values[lane : lane + 1])
            memory.store(at[lane : lane + 1], new.view("u1")[None], warp.thread[lane : lane + 1], atomic=True)
        if to is not None:
            warp.put(to, old, on)

    return atom
