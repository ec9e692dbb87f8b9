"""The means and the random numbers in NumPy, from the specification's text alone: all ranks in one process.

Vectors are float32 and every operation on them is rounded in the written order. Scalars are Python floats and are
rounded once, by `f32`, where they meet a vector. Arrays of shape (n, P) hold one row a rank.
"""
import numpy as np

f32 = np.float32
BAD = f32(1e16)  # a gradient beyond it counts as not finite


def round_up(value, multiple):
    return -(-value // multiple) * multiple


class Layout:
    """Cuts P elements into n chunks (the last ones short or empty) and each chunk into blocks of B; B = 0: one a chunk."""

    def __init__(self, elements, ranks, scale_block):
        self.elements, self.ranks = elements, ranks
        self.chunk = round_up(-(-elements // ranks), 64)
        self.partial = scale_block == 0  # sums of 4096 elements, added in double
        block = scale_block or max(self.chunk, 1)
        width = scale_block or 4096
        position = np.arange(elements)
        inside = position % self.chunk
        blocks_a_chunk = -(-self.chunk // block)
        self.owner = position // self.chunk
        self.block_of = self.owner * blocks_a_chunk + inside // block
        self.blocks = int(self.block_of[-1]) + 1
        self.count = np.bincount(self.block_of, minlength=self.blocks).astype(f32)
        pieces_a_chunk = -(-self.chunk // width)
        piece_of = self.owner * pieces_a_chunk + inside // width
        self.pieces = int(piece_of[-1]) + 1
        self.width = round_up(min(width, self.chunk), 16)
        self.slot = piece_of * self.width + inside % block % width
        self.chunk_of_piece = np.arange(self.pieces) // pieces_a_chunk

    def sums(self, values):
        """The sum of each block: 16 lanes, then a tree. values (..., P) -> (..., blocks)."""
        tiles = np.zeros(values.shape[:-1] + (self.pieces * self.width,), f32)
        tiles[..., self.slot] = values
        tiles = tiles.reshape(values.shape[:-1] + (self.pieces, self.width // 16, 16))
        lanes = np.zeros(tiles.shape[:-2] + (16,), f32)
        for k in range(tiles.shape[-2]):
            lanes = lanes + tiles[..., k, :]
        for half in (8, 4, 2, 1):
            lanes = lanes[..., :half] + lanes[..., half:]
        partial = lanes[..., 0]
        if not self.partial:
            return partial
        total = np.zeros(values.shape[:-1] + (self.blocks,), np.float64)
        for piece in range(self.pieces):
            total[..., self.chunk_of_piece[piece]] += partial[..., piece]
        return total.astype(f32)

    def counts(self, active):
        return np.bincount(self.block_of[active], minlength=self.blocks).astype(f32)

    def spread(self, block_values):
        """(..., blocks) -> (..., P)."""
        return block_values[..., self.block_of]

    def bad(self, gradient):
        """Marks every element of a block that holds a value that is not finite, or beyond 1e16."""
        wrong = ~(np.abs(gradient) <= BAD)
        rows = wrong.reshape(-1, self.elements)
        marks = np.array([np.bincount(self.block_of[row], minlength=self.blocks) > 0 for row in rows])
        return self.spread(marks).reshape(gradient.shape)


class DenseMean:
    """mean = (sum over ranks, in rank order) * (1/n)."""

    coded = False

    def __init__(self, layout):
        self.layout = layout
        self.server_residual = np.zeros(layout.elements, f32)  # always 0

    def code(self, p, active):
        return p, np.zeros_like(p)

    def mean_of(self, p, active=None):
        """(n, P) -> the mean (P) and what it leaves unsaid (n, P)."""
        total = p[0]
        for row in p[1:]:
            total = total + row
        return total * f32(1.0 / len(p)), np.zeros_like(p)

    def reduce(self, values, active=None):
        return self.mean_of(values, active)[0]


class OneBitMean(DenseMean):
    """The mean by signs and scales, with error feedback. e_s of all owners stands in one vector of P."""

    coded = True

    def __init__(self, layout, norm="l2"):
        super().__init__(layout)
        self.norm = norm
        self.down = self  # whose code the mean has on its way back
        self.worker_residual = np.zeros((layout.ranks, layout.elements), f32)

    def code(self, p, active):
        """C(p) and p - C(p); elements that are not active enter no scale and have neither."""
        layout = self.layout
        p = np.where(active, p, f32(0))
        sums = layout.sums(np.abs(p) if self.norm == "l1" else p * p)
        count = layout.counts(active)
        scale = np.divide(sums, count, out=np.zeros_like(sums), where=count > 0)
        scale = scale if self.norm == "l1" else np.sqrt(scale)
        code = np.where(active, np.copysign(layout.spread(scale), p), f32(0))
        return code, p - code

    def mean_of(self, p, active=None):
        active = np.ones(self.layout.elements, bool) if active is None else active
        codes, residual = self.code(p, active)
        q = super().mean_of(codes)[0] + self.server_residual
        mean, self.server_residual = self.down.code(q, active)
        return mean, residual

    def reduce(self, values, active=None):
        mean, self.worker_residual = self.mean_of(values + self.worker_residual, active)
        return mean


class IntegerMean(OneBitMean):
    """The mean by integers of some bits and one scale a block. feedback: full, ema (0 after every `reset`), decay, none.

    down: another mean, whose code is used on the way back.
    """

    def __init__(self, layout, bits, feedback="full", reset=1024, down=None):
        super().__init__(layout)
        self.levels = f32(2 ** (bits - 1) - 1)
        self.down = down or self
        self.feedback, self.reset_every, self.exchanges, self.decay = feedback, reset, 0, 0.95

    def largest(self, p):
        most = np.zeros(p.shape[:-1] + (self.layout.blocks,), f32)
        for row, into in zip(p.reshape(-1, p.shape[-1]), most.reshape(-1, self.layout.blocks)):
            np.maximum.at(into, self.layout.block_of, np.abs(row))
        return most

    def code(self, p, active):
        p = np.where(active, p, f32(0))
        with np.errstate(divide="ignore", over="ignore"):
            scale = self.largest(p) / self.levels
            inverse = f32(1) / scale
        tiny = ~np.isfinite(inverse)
        scale, inverse = (self.layout.spread(np.where(tiny, f32(0), one)) for one in (scale, inverse))
        code = np.clip(np.rint(p * inverse), -self.levels, self.levels) + f32(0)
        return code * scale, p - code * scale

    def kept(self, before, left, feedback):
        """The residual after an exchange that left something out."""
        if feedback == "none":
            return np.zeros_like(before)
        if feedback == "ema":
            return f32(0.8) * before + f32(1.0 - 0.8) * left
        return left if feedback == "full" else f32(self.decay) * left

    def reduce(self, values, active=None):
        worker, server = self.worker_residual, self.server_residual
        mean, left = self.mean_of(values + worker, active)
        self.worker_residual = self.kept(worker, left, self.feedback)
        # Beside another code on the way back, decay is the workers' alone.
        full = self.feedback == "decay" and self.down is not self
        self.server_residual = self.kept(server, self.server_residual, "full" if full else self.feedback)
        self.exchanges += 1
        if self.feedback == "ema" and self.reset_every and self.exchanges % self.reset_every == 0:
            self.worker_residual, self.server_residual = np.zeros_like(worker), np.zeros_like(server)
        return mean


class TopKMean(IntegerMean):
    """The mean by the k largest elements of each block of 4096, as int4; int8 on the way back."""

    def __init__(self, elements, ranks, k=128, feedback="full", reset=1024, down=None):
        back = IntegerMean(Layout(elements, ranks, 256), 8)
        super().__init__(Layout(elements, ranks, 4096), 4, feedback, reset, down or back)
        self.k = k

    def code(self, p, active):
        p = np.where(active, p, f32(0))
        kept = np.zeros(p.shape, bool)
        for row, keep in zip(p.reshape(-1, p.shape[-1]), kept.reshape(-1, p.shape[-1])):
            for block in range(self.layout.blocks):
                where = np.flatnonzero((self.layout.block_of == block) & active)
                keep[where[np.argsort(-np.abs(row[where]), kind="stable")[: self.k]]] = True
        code, _ = super().code(np.where(kept, p, f32(0)), active)
        return code, p - code


WORKER_DRAW, OWNER_DRAW, DEALING, DATA = 0, 1, 2, 3


def philox(counter, key):
    """Philox4x32-10. counter: four integers or arrays; key: two integers. Returns (..., 4) uint32."""
    c = [np.asarray(word, np.uint64) for word in np.broadcast_arrays(*counter)]
    k0, k1 = key
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high_a, high_b = a >> np.uint64(32), b >> np.uint64(32)
        c = [high_b ^ c[1] ^ np.uint64(k0), b & low, high_a ^ c[3] ^ np.uint64(k1), a & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=-1).astype(np.uint32)


def uniform(stream, rank, elements, key, bucket=0):
    """s in (-1, 1) for elements 0 ... elements-1, 16 random bits each; exact in float32."""
    groups = np.arange(-(-elements // 8))
    pieces = philox((stream, rank, bucket, groups), key).astype("<u4").view("<u2").reshape(-1)[:elements]
    return (pieces.astype(f32) / f32(32768) - f32(1)) + f32(1 / 65536)


def draw(m, b, s):
    """+1 with probability (1 + m/b)/2."""
    level = s * b
    return (m > level) | ((m == level) & (s < 0))


def deal(run, ranks, key, bucket=0):
    """Entry i is the rank that gets word i of the run."""
    cards = list(range(ranks))
    for drawn, i in enumerate(range(ranks - 1, 0, -1)):
        word = int(philox((DEALING, drawn // 4, bucket, run), key)[drawn % 4])
        j = (word * (i + 1)) >> 32
        cards[i], cards[j] = cards[j], cards[i]
    return cards


def active_words(g):
    """(n, P) -> the elements whose word of 64 is not 0 throughout on the rank."""
    word = np.arange(g.shape[1]) // 64
    return np.stack([(np.bincount(word[row != 0], minlength=word[-1] + 1) > 0)[word] for row in g])


def sides(c, t):
    """Each rank's vote, and (-1)^(k+t): what a 0 and a tie count as."""
    tie = np.where((np.arange(c.shape[1]) + t) % 2 == 0, f32(1), f32(-1))
    return np.where(c > 0, f32(1), np.where(c < 0, f32(-1), tie)), tie


def vote(c, active, t):
    """The majority of the ranks on which a word is active; 0 where there is none."""
    sign, tie = sides(c, t)
    surplus = np.where(active, sign, f32(0)).sum(axis=0)
    return np.where(active.any(axis=0), np.where(surplus == 0, tie, np.sign(surplus)), f32(0))


def count_votes(c, active, t):
    """The mean of the signs over those ranks, as 2 * count / voters - 1."""
    plus = ((sides(c, t)[0] > 0) & active).sum(axis=0).astype(f32)
    voters = active.sum(axis=0).astype(f32)
    return np.divide(f32(2) * plus, voters, out=np.ones_like(plus), where=voters > 0) - f32(1)
