"""Local steps in NumPy, from the specification's text alone: all ranks in one process, flat means.

A model of one group whose fragments are one bucket each; the conventions are those of reference_means.py.
"""
import numpy as np

from reference_means import DenseMean, IntegerMean, Layout, OneBitMean, TopKMean, f32

DEFAULTS = {
    "inner": "adamw",
    "outer": "average",
    "every": 10,
    "fragments": 1,
    "delay": 0,
    "merge": None,
    "outer_lr": None,
    "outer_momentum": 0.9,
    "outer_beta1": 0.95,
    "outer_beta2": 0.98,
    "outer_weight_decay": 0.0,
    "gap_penalty": 1.0,
    "clip": 0.0,
    "codec": "fp32",
    "codec_down": None,
    "top_k": 128,
    "feedback": None,
    "feedback_decay": None,
    "feedback_reset": 1024,
    "quant_block": 256,
    "scale_block": 4096,
    "beta1": 0.9,
    "beta2": None,
    "epsilon": 1e-8,
    "bias_correction": True,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "total_steps": None,
}


class SignMean(IntegerMean):
    code = OneBitMean.code


class Fragment:
    """Elements [begin, end): their mean, the outer momentum, and the exchange under way."""

    def __init__(self, number, begin, end, mean):
        self.number, self.place, self.mean = number, slice(begin, end), mean
        self.M = np.zeros(end - begin, f32)
        self.lr_sum, self.steps = 0.0, 0
        self.due, self.gamma, self.snapshot, self.displacement = 0, 0.0, None, None


class LocalSteps:
    """n replicas of one model. step() takes the gradients (n, P) of all ranks; x (n, P) and synced (P) are the result."""

    def __init__(self, weights, ranks, **config):
        unknown = set(config) - set(DEFAULTS)
        if unknown:
            raise ValueError(f"unknown options: {sorted(unknown)}")
        self.__dict__.update(DEFAULTS | config)
        signs = self.codec == "sign" and self.outer in ("nesterov", "momentum")
        self.feedback = self.feedback or ("decay" if signs else "full")
        if self.feedback_decay is None:
            self.feedback_decay = 0.8 if signs else 0.95
        if self.beta2 is None:
            self.beta2 = 0.99 if self.inner == "lion" else 0.999
        if self.outer_lr is None:
            self.outer_lr = 0.7 if self.outer == "nesterov" else 1.0
        self.n, self.t, self.open = ranks, 0, False
        self.synced = np.array(weights, f32)
        self.x = np.tile(self.synced, (ranks, 1))
        self.m, self.v = np.zeros_like(self.x), np.zeros_like(self.x)
        P, F = len(weights), self.fragments
        cuts = [min(P, -(-(-(-P * f // F)) // 64) * 64) for f in range(F + 1)]
        ends = enumerate(zip(cuts, cuts[1:]))
        self.parts = [Fragment(f, a, b, self.make_mean(b - a)) for f, (a, b) in ends if a < b]

    def make_mean(self, elements):
        if self.codec == "fp32":
            return DenseMean(Layout(elements, self.n, self.scale_block))
        down = self.codec_down or ("int8" if self.codec == "top-k" else None)
        mean = self.coded(self.codec, elements, down and self.coded(down, elements, None))
        mean.feedback, mean.reset_every, mean.decay = self.feedback, self.feedback_reset, self.feedback_decay
        return mean

    def coded(self, codec, elements, down):
        if codec == "sign":
            return SignMean(Layout(elements, self.n, self.scale_block), 2, down=down)
        if codec == "top-k":
            return TopKMean(elements, self.n, self.top_k, down=down)
        return IntegerMean(Layout(elements, self.n, self.quant_block), int(codec.removeprefix("int")), down=down)

    def step(self, gradients, lr):
        self.t += 1
        self.inner_step(gradients, lr)
        last = self.t == self.total_steps
        for part in self.parts:
            part.lr_sum, part.steps = part.lr_sum + lr, part.steps + 1
            if part.due and (last or self.t >= part.due):
                self.apply(part, "keep" if self.merge is None else "blend")
            if last or self.t % self.every == (part.number + 1) * self.every // self.fragments % self.every:
                self.begin(part, 0 if last else self.delay)
        whole = self.fragments == 1 and self.delay == 0 and self.t % self.every == 0
        self.open = not (last or whole)

    def synchronize(self):
        for part in self.parts if self.open else []:
            if part.due:
                self.apply(part, "keep" if self.merge is None else "blend")
            self.begin(part, 0)
        self.open = False

    def inner_step(self, gradients, lr):
        """In each bucket, blocks of a rank's gradient that are not finite leave everything."""
        bad = np.zeros(gradients.shape, bool)
        for part in self.parts:
            own = gradients[:, part.place]
            bad[:, part.place] = Layout(own.shape[1], 1, self.scale_block).bad(own)
        g = np.where(bad, f32(0), gradients)
        kept = self.x * f32(1.0 - lr * self.weight_decay)
        if self.inner == "sgdm":
            m, v = f32(self.momentum) * self.m + g, self.v
            x = kept - f32(lr) * m
        elif self.inner == "lion":
            c = f32(self.beta1) * self.m + f32(1.0 - self.beta1) * g
            m, v = f32(self.beta2) * self.m + f32(1.0 - self.beta2) * g, self.v
            x = kept - f32(lr) * np.sign(c)
        else:
            m = f32(self.beta1) * self.m + f32(1.0 - self.beta1) * g
            v = f32(self.beta2) * self.v + f32(1.0 - self.beta2) * (g * g)
            rate = lr / (1.0 - self.beta1**self.t) if self.bias_correction else lr
            correction = 1.0 / (1.0 - self.beta2**self.t) if self.bias_correction else 1.0
            x = kept - (f32(rate) * m) / (np.sqrt(v * f32(correction)) + f32(self.epsilon))
        self.m, self.v, self.x = (np.where(bad, a, b) for a, b in ((self.m, m), (self.v, v), (self.x, x)))

    def begin(self, part, delay):
        part.snapshot = self.x[:, part.place].copy()
        part.displacement = part.mean.reduce(self.synced[part.place] - part.snapshot)
        part.gamma = part.lr_sum / part.steps if part.steps else 0.0
        part.lr_sum, part.steps, part.due = 0.0, 0, self.t + delay
        if delay == 0:
            self.apply(part, "equal")

    def clipped(self, M):
        return np.clip(M, f32(-self.clip), f32(self.clip)) if self.clip else M

    def apply(self, part, follow):
        x_sync, rate, mu = self.synced[part.place], f32(self.outer_lr), f32(self.outer_momentum)
        d = part.displacement / f32(self.gap_penalty)
        if self.outer == "average":
            x_sync = x_sync - rate * d
        elif self.outer == "sign":
            if part.gamma > 0:
                d = d * f32(1.0 / part.gamma)
                c = f32(self.outer_beta1) * part.M + f32(1.0 - self.outer_beta1) * d
                part.M = self.clipped(f32(self.outer_beta2) * part.M + f32(1.0 - self.outer_beta2) * d)
                decay = f32(1.0 - self.outer_weight_decay * (self.outer_lr * part.gamma))
                x_sync = x_sync * decay - f32(self.outer_lr * part.gamma) * np.sign(c)
        else:
            part.M = self.clipped(mu * part.M + d)
            x_sync = x_sync - rate * (d + mu * part.M if self.outer == "nesterov" else part.M)
        self.synced, self.x = self.synced.copy(), self.x.copy()
        self.synced[part.place] = x_sync
        own = self.x[:, part.place]
        if follow == "equal":
            own = np.tile(x_sync, (self.n, 1))
        elif follow == "blend":
            own = f32(self.merge) * own + f32(1.0 - self.merge) * x_sync
        else:
            own = x_sync + (own - part.snapshot)
        self.x[:, part.place] = own
        part.due = 0
