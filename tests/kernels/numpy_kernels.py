"""What every kernel computes, from the specification.

One np.float32 operation at a time, in the written order.
"""

import numpy as np

F = np.float32
KERNELS = {}


def kernel(function):
    """Registers the meaning of the kernel of that name; it returns what changes, and "result"."""
    KERNELS[function.__name__] = function
    return function


def words_of(count):
    return (count + 63) // 64


def unpack(array, count):
    return np.unpackbits(array, bitorder="little")[:count].astype(bool)


def pack(flags):
    padded = np.zeros(words_of(len(flags)) * 64, dtype=bool)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little")


def add_to_lanes(lanes, terms, at=0):
    lanes = np.roll(lanes, -at)
    for first in range(0, len(terms), 16):
        row = terms[first : first + 16]
        lanes[: len(row)] = lanes[: len(row)] + row
    return np.roll(lanes, at)


def finite(g):
    return bool(np.all(np.abs(g) <= F(1e16)))


def folded(lanes):
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def measured(p, live, norm, lanes):
    if live is not None:
        p = np.where(live == 0, F(0), p)
    return p, add_to_lanes(lanes, p * p if norm == "L2" else np.abs(p))


def decoded(coded, count):
    return np.where(unpack(coded["bits"], count), -F(coded["scale"]), F(coded["scale"]))


# sign.h


@kernel
def measure(a, e, live, count, norm, p, lanes):
    p, lanes = measured(a if e is None else a + e, live, norm, lanes)
    return {"p": p, "lanes": lanes}


@kernel
def fold(lanes):
    return {"result": folded(lanes)}


@kernel
def scale_of(sum, count, norm):
    if count == 0:
        return {"result": F(0)}
    mean = F(sum) / F(count)
    return {"result": np.sqrt(mean) if norm == "L2" else mean}


@kernel
def code(p, live, count, scale, gain, e, bits):
    negative = np.signbit(p)
    e = (p - np.copysign(F(scale), p)) * F(gain)
    if live is not None:
        negative &= live != 0
        e = np.where(live == 0, F(0), e)
    return {"e": e, "bits": pack(negative)}


@kernel
def serve(coded, codes, factor, e, live, count, norm, q, lanes):
    total = decoded(coded[0], count)
    for one in coded[1:codes]:
        total = total + decoded(one, count)
    q, lanes = measured(total * F(factor) + e, live, norm, lanes)
    return {"q": q, "lanes": lanes}


@kernel
def decode(coded, count, out):
    return {"out": decoded(coded, count)}


@kernel
def count_live(live, count):
    return {"result": int(np.count_nonzero(live != 0))}


# integer.h


def fields(codes, bits, count):
    """The integers of a packed array."""
    flags = np.unpackbits(codes, bitorder="little").reshape(-1, bits)[:count].astype(np.int32)
    values = flags @ (1 << np.arange(bits, dtype=np.int32))
    return np.where(values < 1 << (bits - 1), values, values - (1 << bits))


def integer_values(one, bits, count):
    return fields(one["codes"], bits, count).astype(F) * F(one["scale"])


def largest(p, live, lanes):
    """Magnitudes are ordered as integers, so NaN and Inf are the largest."""
    if live is not None:
        p = np.where(live == 0, F(0), p)
    size = np.zeros((len(p) + 15) // 16 * 16, dtype=np.int32)
    size[: len(p)] = np.abs(p).view(np.int32)
    rows = np.vstack([lanes.view(np.int32), size.reshape(-1, 16)])
    return p, rows.max(axis=0).view(F)


@kernel
def measure_largest(a, e, live, count, p, lanes):
    p, lanes = largest(a if e is None else a + e, live, lanes)
    return {"p": p, "lanes": lanes}


@kernel
def largest_of(lanes):
    return {"result": lanes.view(np.int32).max().reshape(1).view(F)[0]}


@kernel
def to_integers(p, live, count, bits, scale, gain, e, codes):
    bound = F(2 ** (bits - 1) - 1)
    inverse = F(1) / F(scale) if scale != 0 else F(0)
    code = np.clip(np.rint(p * inverse), -bound, bound) + F(0)  # an integer has no -0
    e = (p - code * F(scale)) * F(gain)
    if live is not None:
        code = np.where(live == 0, F(0), code)
        e = np.where(live == 0, F(0), e)
    whole = np.zeros(words_of(count) * 64, dtype=np.int32)
    whole[:count] = code.astype(np.int32)
    flags = whole[:, None] >> np.arange(bits) & 1
    return {"e": e, "codes": np.packbits(flags.astype(np.uint8).ravel(), bitorder="little")}


@kernel
def sum_integers(from_, ranks, bits, factor, e, live, count, q, lanes):
    total = integer_values(from_[0], bits, count)
    for one in from_[1:ranks]:
        total = total + integer_values(one, bits, count)
    mean = total * F(factor)
    q, lanes = largest(mean if e is None else mean + e, live, lanes)
    return {"q": q, "lanes": lanes}


@kernel
def from_integers(from_, bits, count, out):
    return {"out": integer_values(from_, bits, count)}


# top_k.h


def numbers_of(bits, width):
    """Integers of `width` bits each, low bits first."""
    return bits.reshape(-1, width).astype(np.int64) @ (1 << np.arange(width))


def bits_of(numbers, width):
    return (np.asarray(numbers, np.int64)[:, None] >> np.arange(width) & 1).astype(np.uint8).ravel()


def sparse(one, slots):
    """All 4096 elements of a block."""
    bits = np.unpackbits(one["codes"], bitorder="little")
    index, code = numbers_of(bits[: 12 * slots], 12), numbers_of(bits[12 * slots :], 4)
    free = np.flatnonzero(index[1:] == 0)
    used = 1 + free[0] if len(free) else slots
    values = np.zeros(4096, F)
    values[index[:used]] = np.where(code < 8, code, code - 16)[:used].astype(F) * F(one["scale"])
    return values


@kernel
def to_top_k(p, live, count, slots, largest, gain, e, places):
    scale = F(largest) / F(7)
    inverse = F(1) / scale
    if not np.isfinite(inverse):
        scale = inverse = F(0)
    alive = np.arange(count) if live is None else np.flatnonzero(live != 0)
    kept = np.sort(alive[np.argsort(-np.abs(p[alive]), kind="stable")[:slots]])
    code = np.zeros(count, F)
    code[kept] = np.clip(np.rint(p[kept] * inverse), F(-7), F(7)) + F(0)
    e = (p - code * scale) * F(gain)
    index, field = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    index[: len(kept)], field[: len(kept)] = kept, code[kept].astype(np.int64) & 15
    bits = np.concatenate([bits_of(index, 12), bits_of(field, 4)])
    return {
        "e": e if live is None else np.where(live == 0, F(0), e),
        "places": np.packbits(bits, bitorder="little"),
    }


@kernel
def sum_top_k(from_, ranks, slots, factor, e, live, begin, count, q, lanes):
    total = np.zeros(4096, F)
    for one in from_[:ranks]:
        total = total + sparse(one, slots)
    mean = total[begin : begin + count] * F(factor)
    q, lanes = largest(mean if e is None else mean + e, live, lanes)
    return {"q": q, "lanes": lanes}


@kernel
def from_top_k(from_, slots, begin, count, out):
    return {"out": sparse(from_, slots)[begin : begin + count]}


# random_sign.h


def philox(counter, key):
    """Philox4x32-10 on four arrays of uint64 that hold 32 bits each."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c = [np.asarray(part, dtype=np.uint64) for part in counter]
    k = list(key)
    for _ in range(10):
        a = np.uint64(0xD2511F53) * c[0]
        b = np.uint64(0xCD9E8D57) * c[2]
        c = [
            (b >> half) ^ c[1] ^ np.uint64(k[0]),
            b & low,
            (a >> half) ^ c[3] ^ np.uint64(k[1]),
            a & low,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(how, begin, count):
    position = np.arange(begin, begin + count, dtype=np.uint64)
    fixed = [np.full(count, how[name], dtype=np.uint64) for name in ("stream", "rank", "bucket")]
    random = np.stack(philox([*fixed, position // np.uint64(8)], how["key"]))
    piece = position % np.uint64(8)
    word = random[(piece // np.uint64(2)).astype(int), np.arange(count)]
    k = (word >> (piece % np.uint64(2) * np.uint64(16))) & np.uint64(0xFFFF)
    return k.astype(F) / F(32768) - F(1) + F(1) / F(65536)


def drawn(how, begin, m, b):
    s = uniform(how, begin, len(m))
    threshold = s * b
    return (m > threshold) | ((m == threshold) & (s < 0))


def any_in_words(flags):
    padded = np.zeros(words_of(len(flags)) * 64, dtype=bool)
    padded[: len(flags)] = flags
    words = padded.reshape(-1, 64).any(axis=1)
    return sum(1 << w for w, active in enumerate(words) if active)


def counted(counts, planes, count):
    bits = np.unpackbits(counts, bitorder="little").reshape(-1, planes, 64).astype(np.int64)
    weights = (1 << np.arange(planes)).reshape(1, planes, 1)
    return (bits * weights).sum(axis=1).reshape(-1)[:count]


@kernel
def draw(draw, begin, m, b, count, bits):
    return {"bits": pack(drawn(draw, begin, m, F(1) if b is None else b))}


@kernel
def birder_moments(step, g, m, b, count, draw, begin, wanted, bits, active):
    if not finite(g):
        return {"active": np.zeros(1, np.uint64), "result": False}
    keep, take = F(step["beta"]), F(step["one_minus_beta"])
    m = keep * m + take * g
    b = keep * b + take * np.abs(g)
    gone = b < F(2.0**-100)
    m, b = np.where(gone, F(0), m), np.where(gone, F(0), b)
    chosen = np.array([wanted >> w & 1 for w in range(words_of(count))], dtype=bool).repeat(8)
    return {
        "m": m,
        "b": b,
        "bits": np.where(chosen, pack(drawn(draw, begin, m, b)), bits),
        "active": np.array([any_in_words(g != 0)], np.uint64),
        "result": True,
    }


@kernel
def count_signs(bits, active, ranks, words, counts, voters):
    says = np.stack([unpack(one, words) for one in active])
    plus = np.stack([unpack(one, words * 64).reshape(words, 64) for one in bits]) & says[:, :, None]
    total = plus.sum(axis=0)
    planes = int(ranks).bit_length()
    sliced = np.stack([total >> plane & 1 for plane in range(planes)], axis=1).astype(bool)
    return {
        "counts": np.packbits(sliced.reshape(-1), bitorder="little"),
        "voters": says.sum(axis=0).astype("<u2"),
    }


@kernel
def redraw(draw, begin, counts, voters, planes, count, bits):
    all_of = voters.astype(np.int64).repeat(64)[:count]
    surplus = 2 * counted(counts, planes, count) - all_of
    return {"bits": pack(drawn(draw, begin, surplus.astype(F), all_of.astype(F)) & (all_of > 0))}


def signs(bits, active, count):
    lively = unpack(active, words_of(count)).repeat(64)[:count]
    return np.where(lively, np.where(unpack(bits, count), F(1), F(-1)), F(0))


@kernel
def signs_to_floats(bits, active, count, out):
    return {"out": signs(bits, active, count)}


@kernel
def sign_update(lr, decay, bits, active, x, count):
    return {"x": x * F(decay) - F(lr) * signs(bits, active, count)}


@kernel
def counts_to_floats(counts, voters, planes, count, out):
    all_of = voters.astype(F).repeat(64)[:count]
    twice = (2 * counted(counts, planes, count)).astype(F)
    return {"out": np.where(all_of == 0, F(0), twice / all_of - F(1))}


@kernel
def ratio_to_bf16(m, b, count, out):
    u = m if b is None else np.where(b == 0, F(0), m / b)
    return {"out": narrow(np.where(u > F(1), F(1), np.where(u < F(-1), F(-1), u)))}


@kernel
def activity(values, count):
    return {"result": any_in_words(values != 0)}


# vote.h


def lion_moments(step, g, m):
    """c and the next m."""
    step = {name: F(value) for name, value in step.items()}
    return (
        step["beta1"] * m + step["one_minus_beta1"] * g,
        step["beta2"] * m + step["one_minus_beta2"] * g,
    )


def ties_of(ties, count):
    return (np.arange(count) + ties["odd"]) % 2 == 0


def plus(ties, c):
    return (c > 0) | ((c == 0) & ties_of(ties, len(c)))


def most(ties, number, voters):
    """The majority's bits, and which words have voters."""
    all_of = voters.astype(np.int64).repeat(64)
    up = (2 * number > all_of) | ((2 * number == all_of) & ties_of(ties, len(number)))
    return {"out": pack(up & (all_of > 0)), "result": any_in_words(all_of > 0)}


@kernel
def lion_step(step, g, m, x, count):
    c, m = lion_moments(step["moments"], g, m)
    return {"m": m, "x": x * F(step["decay"]) - F(step["lr"]) * np.sign(c)}


@kernel
def lion_votes(step, ties, g, m, count, bits, active):
    if not finite(g):
        return {"bits": np.zeros_like(bits), "active": np.zeros(1, np.uint64), "result": False}
    c, m = lion_moments(step, g, m)
    active = np.array([any_in_words(g != 0)], np.uint64)
    return {"m": m, "bits": pack(plus(ties, c)), "active": active, "result": True}


@kernel
def vote(ties, c, count, bits):
    return {"bits": pack(plus(ties, c))}


@kernel
def majority(ties, bits, active, ranks, words, out):
    says = np.stack([unpack(one, words) for one in active])
    up = np.stack([unpack(one, words * 64) for one in bits]) & says.repeat(64, axis=1)
    return most(ties, up.sum(axis=0), says.sum(axis=0))


@kernel
def majority_of(ties, counts, voters, planes, words, out):
    return most(ties, counted(counts, planes, words * 64), voters)


@kernel
def add_counts(counts, voters, messages, planes, words, planes_out, out, voters_out):
    total = sum(counted(one, planes, words * 64) for one in counts).reshape(words, 64)
    sliced = np.stack([total >> plane & 1 for plane in range(planes_out)], axis=1).astype(bool)
    return {
        "out": np.packbits(sliced.reshape(-1), bitorder="little"),
        "voters_out": sum(one.view("<u2").astype("<u2") for one in voters),
    }


# dense.h


def narrow(wide):
    bits = wide.astype(F).view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(wide), bits >> 16 | 0x40, rounded).astype("<u2")


def widen(bf16):
    return (bf16.astype(np.uint32) << 16).view(F)


def summed(arrays, factor):
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total * F(factor)


@kernel
def add(a, count, acc):
    return {"acc": acc + a}


@kernel
def blend(keep, r, live, count, e):
    e = F(keep) * e + r
    return {"e": e if live is None else np.where(live == 0, F(0), e)}


@kernel
def scale(a, count, factor):
    return {"a": a * F(factor)}


@kernel
def sum_(**call):
    return {"out": summed(call["in"][: call["inputs"]], call["factor"])}


@kernel
def sum_bf16(**call):
    return {"out": summed([widen(one) for one in call["in"][: call["inputs"]]], call["factor"])}


@kernel
def to_bf16(**call):
    return {"out": narrow(call["in"])}


@kernel
def from_bf16(**call):
    return {"out": widen(call["in"])}


@kernel
def all_finite(g, count):
    return {"result": finite(g)}


@kernel
def sum_of_squares(a, count):
    return {"result": folded(add_to_lanes(np.zeros(16, F), a * a))}


# update.h


class Step:
    def __init__(self, fields):
        for name, value in fields.items():
            setattr(self, name, F(value))

    def moment(self, g, m):
        return m if g is None else self.beta1 * m + self.one_minus_beta1 * g

    def second_moment(self, g, v):
        return self.beta2 * v + self.one_minus_beta2 * (g * g)

    def divisor(self, v, floor):
        return np.sqrt(np.where(v < floor, floor, v) * self.correction) + self.epsilon


@kernel
def sgdm(step, g, m, x, count):
    step = Step(step)
    m = step.momentum * m + g
    return {"m": m, "x": x * step.decay - step.lr * m}


@kernel
def adamw(step, g, m, v, x, count):
    step = Step(step)
    m, v = step.moment(g, m), step.second_moment(g, v)
    divisor = np.sqrt(v * step.correction) + step.epsilon
    return {"m": m, "v": v, "x": x * step.decay - (step.rate * m) / divisor}


@kernel
def adam_moments(step, g, m, v, count, lanes):
    step = Step(step)
    m, v = step.moment(g, m), step.second_moment(g, v)
    return {"m": m, "v": v, "lanes": add_to_lanes(lanes, v)}


def applied(step, m, v, x):
    decayed = x * step.decay
    moved = decayed - (step.rate * m) / step.divisor(v, step.floor)
    return {"m": np.where(v == 0, F(0), m), "x": np.where(v == 0, decayed, moved)}


@kernel
def adam_apply(step, m, v, x, copy, count):
    after = applied(Step(step), m, v, x)
    return {**after, "copy": after["x"]}


@kernel
def one_bit_apply(step, mean, m, v, x, count):
    return applied(Step(step), mean, v, x)


@kernel
def momentum(step, g, m, out, count):
    return {"out": Step(step).moment(g, m)}


@kernel
def zero_one_message(step, shrink, g, m, pending, out, count):
    step = Step(step)
    return {"out": pending * F(shrink) + step.rate * step.moment(g, m)}


@kernel
def zero_one_local(step, shrink, g, m, v, pending, x, count):
    step = Step(step)
    dead = v == 0
    m = step.moment(g, m)
    d = step.rate * m
    return {
        "m": np.where(dead, F(0), m),
        "pending": np.where(dead, F(0), pending * F(shrink) + d),
        "x": np.where(dead, x, x - d / step.divisor(v, step.floor)),
    }


@kernel
def zero_one_sync(step, inverse_gain, mean, m, v, x_sync, x, count):
    step = Step(step)
    dead = v == 0
    decayed = step.decay * x_sync
    x_sync = np.where(dead, decayed, decayed - mean / step.divisor(v, step.floor))
    after = {"x_sync": x_sync, "x": x_sync}
    if m is not None:
        after["m"] = np.where(dead, F(0), mean * F(inverse_gain))
    return after


def direction(step, m, v, x):
    return (m * step.scale) / step.divisor(v, step.floor) + step.weight_decay * x


@kernel
def trust_squares(step, m, v, x, count, at, of_u, of_x):
    u = direction(Step(step), m, v, x)
    return {"of_u": add_to_lanes(of_u, u * u, at), "of_x": add_to_lanes(of_x, x * x, at)}


@kernel
def trust_apply(step, rate, m, v, x, count):
    return {"x": x - F(rate) * direction(Step(step), m, v, x)}


@kernel
def birder_update(lr, decay, r, x, count):
    return {"x": x * F(decay) - F(lr) * r}


# outer.h

LARGEST = F(1e16)


@kernel
def displacement(x_sync, x, count, out):
    return {"out": x_sync - x}


def clipped(value, bound):
    return np.where(value < -bound, -bound, np.where(bound < value, bound, value))


def follow(step, x_sync, x, snapshot):
    """The rank's own weights: the shared ones, with what was learnt since the snapshot, or a blend."""
    if step.follow == 0:
        return x_sync
    if step.follow == 1:
        moved = x - snapshot
        return np.where(np.abs(moved) <= LARGEST, x_sync + moved, x_sync)
    return np.where(np.abs(x) <= LARGEST, step.own * x + step.shared * x_sync, x_sync)


@kernel
def outer_update(step, mean, momentum, snapshot, x_sync, x, count):
    step = Step(step)
    d = mean / step.penalty
    if step.rule == 0:
        x_sync = x_sync - step.rate * d
    elif step.rule == 3:
        d = d * step.inverse_gamma
        c = step.beta1 * momentum + step.one_minus_beta1 * d
        momentum = clipped(step.beta2 * momentum + step.one_minus_beta2 * d, step.clip)
        x_sync = x_sync * step.decay - step.rate * np.where(c > 0, F(1), np.where(c < 0, F(-1), F(0)))
    else:
        momentum = clipped(step.momentum * momentum + d, step.clip)
        x_sync = x_sync - step.rate * (d + step.momentum * momentum if step.rule == 1 else momentum)
    return {"momentum": momentum, "x_sync": x_sync, "x": follow(step, x_sync, x, snapshot)}
