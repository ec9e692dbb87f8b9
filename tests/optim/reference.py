"""The optimizers in NumPy, from the specification's text alone: all ranks in one process, flat means.

The conventions are those of reference_means.py.
"""
import numpy as np

from reference_means import (
    OWNER_DRAW, WORKER_DRAW, DenseMean, IntegerMean, Layout, OneBitMean, active_words, count_votes, deal, draw, f32, uniform, vote,
)  # fmt: skip

TINY = f32(2.0**-100)  # Birder: b below it is 0


class VarianceSteps:
    """T_v: k_0 = 1, k_{j+1} = k_j + 2^floor(j/kappa), while k_j <= freeze."""

    def __init__(self, kappa, freeze):
        self.steps, k, j = set(), 1, 0
        while k <= freeze:
            self.steps.add(k)
            self.last = k
            k, j = k + 2 ** (j // kappa), j + 1

    def __contains__(self, t):
        return t in self.steps


class SyncSteps:
    """T_u: the interval in force at t. double_every "auto": from the learning rate."""

    def __init__(self, freeze, double_every, max_interval):
        self.freeze, self.double_every, self.max_interval = freeze, double_every, max_interval

    def interval(self, t, lr, lr_peak):
        if t <= self.freeze:
            return 1
        if self.double_every == "auto":
            power = 1
            while power * 2 <= min(lr_peak / lr, self.max_interval):
                power *= 2
            return power
        return min(self.max_interval, 2 ** min(62, (t - self.freeze - 1) // self.double_every))


DEFAULTS = {
    "beta": 0.9,
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "bias_correction": True,
    "variance_floor": 0.01,
    "freeze_step": None,
    "variance_freeze_step": None,
    "variance_kappa": 16,
    "double_every": None,
    "max_interval": 16,
    "codec": "fp32",
    "feedback": "full",
    "feedback_reset": 1024,
    "quant_block": 256,
    "scale_block": 4096,
    "scale_norm": "l2",
    "exchange": "two-round",
    "form": "vote",
    "momentum_sync_every": 0,
    "ranks_per_node": None,  # votes are the same on nodes
    "seed": 0,
    "total_steps": None,
}


class Optimizer:
    """n replicas of one model. step() takes the gradients (n, P) of all ranks; x (n, P) and synced (P) are the result."""

    def __init__(self, weights, ranks, **config):
        unknown = set(config) - set(DEFAULTS)
        if unknown:
            raise ValueError(f"unknown options: {sorted(unknown)}")
        self.__dict__.update(DEFAULTS | config)
        self.n, self.t = ranks, 0
        self.layout = Layout(len(weights), ranks, self.scale_block)
        self.dense = DenseMean(self.layout)
        self.coded = None
        if self.codec != "fp32":
            blocks = Layout(len(weights), ranks, self.quant_block)
            self.coded = IntegerMean(blocks, int(self.codec.removeprefix("int")), self.feedback, self.feedback_reset)
        self.synced = np.array(weights, f32)

    @property
    def x(self):
        return np.broadcast_to(self.synced, (self.n, len(self.synced)))

    def synchronize(self):
        pass

    def decayed(self, x, lr):
        return x * f32(1.0 - lr * self.weight_decay)

    def moment(self, m, g, beta):
        return f32(beta) * m + f32(1.0 - beta) * g

    def gradient_mean(self, gradients):
        """The mean gradient, exact or by its codec, and the elements that it may touch: all but the bad blocks."""
        if self.coded:  # a bad block counts as 0 on its rank
            mean = self.coded.reduce(np.where(self.coded.layout.bad(gradients), f32(0), gradients))
        else:
            mean = self.dense.reduce(gradients)
        good = ~self.layout.bad(mean)
        return np.where(good, mean, f32(0)), good


class Sgdm(Optimizer):
    def __init__(self, weights, ranks, **config):
        super().__init__(weights, ranks, **config)
        self.m = np.zeros_like(self.synced)

    def step(self, gradients, lr):
        self.t += 1
        mean, good = self.gradient_mean(gradients)
        self.m = np.where(good, f32(self.momentum) * self.m + mean, self.m)
        self.synced = np.where(good, self.decayed(self.synced, lr) - f32(lr) * self.m, self.synced)


class AdamW(Optimizer):
    """m has a row a rank in the coded optimizers below; here one row serves all."""

    def __init__(self, weights, ranks, **config):
        super().__init__(weights, ranks, **config)
        self.m, self.v = np.zeros_like(self.synced), np.zeros_like(self.synced)
        self.variance_updates = 0  # J

    def rate(self, lr):
        """a_t."""
        return lr / (1.0 - self.beta1**self.t) if self.bias_correction else lr

    def variance_mean(self):
        """V, a value a block."""
        return self.layout.sums(self.v) / self.layout.count

    def denominator(self, floor):
        """D."""
        v = self.v
        if floor and self.variance_floor:
            v = np.maximum(v, self.layout.spread(self.variance_mean() * f32(self.variance_floor)))
        correction = 1.0 / (1.0 - self.beta2**self.variance_updates) if self.bias_correction else 1.0
        return np.sqrt(v * f32(correction)) + f32(self.epsilon)

    def update_variance(self, mean, good):
        self.v = np.where(good, self.moment(self.v, mean * mean, self.beta2), self.v)
        self.variance_updates += 1

    def fill_variance(self):
        """At the freeze v = 0 becomes V."""
        self.v = np.where(self.v == 0, self.layout.spread(self.variance_mean()), self.v)

    def move(self, lr, m, floor, good=True):
        step = (f32(self.rate(lr)) * m) / self.denominator(floor)
        self.synced = np.where(good, self.decayed(self.synced, lr) - step, self.synced)

    def local_moments(self, m, gradients):
        """Each rank's own momentum: kept as it was in bad blocks, 0 where v is 0."""
        bad = self.layout.bad(gradients)
        moved = self.moment(m, np.where(bad, f32(0), gradients), self.beta1)
        return np.where(self.v == 0, f32(0), np.where(bad, m, moved))

    def dense_step(self, gradients, lr):
        mean, good = self.gradient_mean(gradients)
        self.m = np.where(good, self.moment(self.m, mean, self.beta1), self.m)
        self.update_variance(mean, good)
        self.move(lr, self.m, floor=False, good=good)

    def step(self, gradients, lr):
        self.t += 1
        self.dense_step(gradients, lr)


class AutoFreeze:
    """When v has settled and lr has stopped rising; looked at every round(1/(1-beta2)) steps."""

    def __init__(self, beta2):
        self.every = round(1.0 / (1.0 - beta2))
        self.norm, self.peak, self.last_lr, self.last_rise = None, 0.0, 0.0, 0

    def settled(self, t, lr, v, correction):
        if lr > self.last_lr:
            self.last_rise = t
        self.last_lr, self.peak = lr, max(self.peak, lr)
        if t % self.every:
            return False
        before, self.norm = self.norm, float(np.sum(v, dtype=np.float64)) * correction
        if not before:
            return False
        level = 0.96 <= self.norm / before <= 1.0 / 0.96
        return level and (lr < self.peak or t - self.last_rise >= self.every)


class OneBitAdam(AdamW):
    def __init__(self, weights, ranks, **config):
        super().__init__(weights, ranks, **config)
        self.mean = OneBitMean(self.layout, self.scale_norm)
        self.auto = AutoFreeze(self.beta2) if self.freeze_step == "auto" else None
        self.freeze = None if self.auto else self.freeze_step

    def step(self, gradients, lr):
        self.t += 1
        if self.freeze is None or self.t <= self.freeze:
            self.dense_step(gradients, lr)
            correction = 1.0 / (1.0 - self.beta2**self.variance_updates)
            if self.auto and self.auto.settled(self.t, lr, self.v, correction):
                self.freeze = self.t
            return
        if self.t == self.freeze + 1:
            self.fill_variance()
        moments = self.local_moments(np.broadcast_to(self.m, gradients.shape), gradients)
        self.m = self.mean.reduce(moments, self.v != 0)
        self.move(lr, self.m, floor=self.mean.coded)


class ZeroOneAdam(AdamW):
    # The first step on which v = 0 is filled: right after the "last" variance step, or after the "freeze" step.
    fill_after = "freeze"
    # Whether a variance step counts as the last sync when the next one is due.
    variance_step_syncs = True

    def __init__(self, weights, ranks, exact=False, **config):
        super().__init__(weights, ranks, **config)
        self.mean = DenseMean(self.layout) if exact else OneBitMean(self.layout, self.scale_norm)
        self.m = np.zeros((ranks, len(self.synced)), f32)
        self.pending, self.replicas = np.zeros_like(self.m), np.tile(self.synced, (ranks, 1))
        self.G, self.w, self.R_last = 0.0, 1.0, None
        self.last_sync, self.lr_peak, self.fresh, self.filled, self.postponed = 0, 0.0, True, False, False
        self.T_v = VarianceSteps(self.variance_kappa, self.variance_freeze_step)
        self.T_u = SyncSteps(self.variance_freeze_step, self.double_every, self.max_interval)
        self.rounds = {"dense": 0, "coded": 0}

    @property
    def x(self):
        return self.replicas

    def step(self, gradients, lr):
        self.t += 1
        self.lr_peak = max(self.lr_peak, lr)
        frozen_after = self.T_v.last if self.fill_after == "last" else self.variance_freeze_step
        if self.t > frozen_after and not self.postponed and not self.filled and self.mean.coded:
            self.fill_variance()
            self.filled = True
        due = self.t in self.T_v or self.postponed
        self.postponed = due and self.G > 0
        if due and not self.postponed:
            self.variance_step(gradients, lr)
        elif lr != 0:
            self.linear_step(gradients, lr)
        elif self.t == self.total_steps:
            self.synchronize()  # the last step of a run syncs, whatever its learning rate

    def variance_step(self, gradients, lr):
        mean, good = self.gradient_mean(gradients)
        self.update_variance(mean, good)
        m = np.where(good, self.moment(self.m, mean, self.beta1), self.m)
        self.m = np.where(self.v == 0, f32(0), m) if self.mean.coded else m
        assert (self.m == self.m[0]).all()
        self.move(lr, self.m[0], floor=self.mean.coded, good=good)
        self.replicas = np.tile(self.synced, (self.n, 1))
        self.fresh = True
        self.rounds["dense"] += 1
        if self.variance_step_syncs:
            self.last_sync = self.t

    def linear_step(self, gradients, lr):
        a, interval = self.rate(lr), self.T_u.interval(self.t, lr, self.lr_peak)
        if self.fresh:
            self.forget(interval * a)
        if self.mean.coded:
            self.m = self.local_moments(self.m, gradients)
        else:
            self.m = self.moment(self.m, gradients, self.beta1)
        d = f32(a) * self.m
        self.pending = self.pending + d
        self.G += a
        self.w *= 1.0 - lr * self.weight_decay
        if self.t - self.last_sync >= interval or self.postponed or self.t == self.total_steps:
            scale = f32(1.0 / self.G)
            said = self.sync()
            self.m = np.tile(said * scale, (self.n, 1))
        else:
            self.replicas = self.replicas - d / self.denominator(floor=self.mean.coded)

    def forget(self, R):
        rho = f32(1.0 if self.R_last is None else min(1.0, R / self.R_last))
        self.R_last, self.fresh = R, False
        self.pending = self.pending * rho
        self.mean.server_residual = self.mean.server_residual * rho

    def sync(self):
        active = self.v != 0
        said, self.pending = self.mean.mean_of(self.pending, active)
        self.synced = f32(self.w) * self.synced - said / self.denominator(floor=self.mean.coded)
        self.replicas = np.tile(self.synced, (self.n, 1))
        self.G, self.w, self.last_sync, self.fresh = 0.0, 1.0, self.t, True
        self.rounds["coded"] += 1
        return said

    def synchronize(self):
        if self.G > 0:
            self.sync()


class Birder(Optimizer):
    def __init__(self, weights, ranks, **config):
        super().__init__(weights, ranks, **config)
        self.m = np.zeros((ranks, len(self.synced)), f32)
        self.b = np.zeros_like(self.m)
        self.word_of = np.arange(len(self.synced)) // 64
        self.words = int(self.word_of[-1]) + 1
        self.consensus = {"two-round": self.two_round, "single-round": self.single_round, "count": self.count}

    def step(self, gradients, lr):
        self.t += 1
        key = (self.seed, self.t)
        bad = self.layout.bad(gradients)
        g = np.where(bad, f32(0), gradients)
        m, b = self.moment(self.m, g, self.beta), self.moment(self.b, np.abs(g), self.beta)
        m, b = np.where(b < TINY, f32(0), m), np.where(b < TINY, f32(0), b)
        self.m, self.b = np.where(bad, self.m, m), np.where(bad, self.b, b)
        s = np.stack([uniform(WORKER_DRAW, i, len(self.synced), key) for i in range(self.n)])
        r = self.consensus[self.exchange](draw(self.m, self.b, s), active_words(g), key)
        self.synced = self.decayed(self.synced, lr) - f32(lr) * r

    def votes(self, q, active):
        return (q & active).sum(axis=0).astype(f32), active.sum(axis=0).astype(f32)

    def two_round(self, q, active, key):
        plus, voters = self.votes(q, active)
        every = [uniform(OWNER_DRAW, rank, len(plus), key) for rank in range(self.n)]
        s = np.choose(self.layout.owner, every)
        up = draw(f32(2) * plus - voters, voters, s)
        return np.where(voters > 0, np.where(up, f32(1), f32(-1)), f32(0))

    def single_round(self, q, active, key):
        runs = [deal(run, self.n, key) for run in range(-(-self.words // self.n))]
        rank = np.array(runs).reshape(-1)[: self.words][self.word_of]
        position = np.arange(len(rank))
        up = np.where(q[rank, position], f32(1), f32(-1))
        return np.where(active[rank, position], up, f32(0))

    def count(self, q, active, key):
        plus, voters = self.votes(q, active)
        share = np.divide(f32(2) * plus, voters, out=np.ones_like(plus), where=voters > 0)
        return share - f32(1)


def with_lion_betas(config):
    return {"beta2": 0.99} | config


class Lion(Optimizer):
    def __init__(self, weights, ranks, **config):
        super().__init__(weights, ranks, **with_lion_betas(config))
        self.m = np.zeros_like(self.synced)

    def step(self, gradients, lr):
        self.t += 1
        mean, good = self.gradient_mean(gradients)
        c = self.moment(self.m, mean, self.beta1)
        self.m = np.where(good, self.moment(self.m, mean, self.beta2), self.m)
        moved = self.decayed(self.synced, lr) - f32(lr) * np.sign(c)
        self.synced = np.where(good, moved, self.synced)


class DistributedLion(Optimizer):
    def __init__(self, weights, ranks, **config):
        super().__init__(weights, ranks, **with_lion_betas(config))
        self.m = np.zeros((ranks, len(self.synced)), f32)
        self.decide = {"vote": vote, "count": count_votes}[self.form]
        self.momenta = IntegerMean(Layout(len(weights), ranks, self.quant_block), 8, "none")

    def step(self, gradients, lr):
        self.t += 1
        bad = self.layout.bad(gradients)
        g = np.where(bad, f32(0), gradients)
        c = self.moment(self.m, g, self.beta1)
        self.m = np.where(bad, self.m, self.moment(self.m, g, self.beta2))
        delta = self.decide(c, active_words(g), self.t)
        self.synced = self.decayed(self.synced, lr) - f32(lr) * delta
        if self.momentum_sync_every and self.t % self.momentum_sync_every == 0:
            self.m = np.tile(self.momenta.reduce(self.m), (self.n, 1))


ALGORITHMS = {
    "sgdm": Sgdm,
    "adamw": AdamW,
    "one-bit-adam": OneBitAdam,
    "zero-one-adam": ZeroOneAdam,
    "birder": Birder,
    "lion": Lion,
    "distributed-lion": DistributedLion,
}
