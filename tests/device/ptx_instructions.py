"""What each PTX instruction does to a warp of ptx_emulator.py. An unknown one raises NotImplementedError."""

import re

import numpy as np
from ptx_memory import Memory

LANES = np.arange(32)
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
ATOMS = {"add": np.add, "or": np.bitwise_or}


def decode(program, op, x):
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
