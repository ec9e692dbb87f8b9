#!/usr/bin/env python3
"""What must be true of the NumPy reference by itself, before anything is compared with it."""
import json
import unittest
from pathlib import Path

import numpy as np

import reference
from reference import AdamW, Birder, DistributedLion, Lion, OneBitAdam, Sgdm, ZeroOneAdam
from reference_means import DenseMean, Layout, OneBitMean, deal, draw, f32, philox, uniform
from torch_golden import golden_gradient

NEVER = 10**9


def gradients(steps, ranks, elements, seed=1):
    random = np.random.default_rng(seed)
    common = random.standard_normal(elements)
    noise = random.standard_normal((steps, ranks, elements))
    return (common + noise).astype(f32)


def weights(elements, seed=2):
    return np.random.default_rng(seed).standard_normal(elements).astype(f32)


def run(optimizer, g, lr):
    for t, row in enumerate(g):
        optimizer.step(row, lr[t] if np.ndim(lr) else lr)
    return optimizer


def zero_one(x, ranks, **config):
    return ZeroOneAdam(x, ranks, **({"variance_freeze_step": 1000, "double_every": NEVER} | config))


class Sums(unittest.TestCase):
    def plain(self, values):
        lanes = [f32(0)] * 16
        for k, value in enumerate(values):
            lanes[k % 16] = lanes[k % 16] + value
        for half in (8, 4, 2, 1):
            lanes = [lanes[j] + lanes[j + half] for j in range(half)]
        return lanes[0]

    def test_blocks_start_at_chunks_and_add_in_lanes(self):
        values = weights(9000)
        for ranks, block in ((1, 4096), (3, 256), (4, 64), (2, 4096)):
            layout, chunk = Layout(9000, ranks, block), {1: 9024, 2: 4544, 3: 3008, 4: 2304}[ranks]
            expected = [
                self.plain(values[begin : min(begin + block, start + chunk, 9000)])
                for start in range(0, 9000, chunk)
                for begin in range(start, min(start + chunk, 9000), block)
            ]
            np.testing.assert_array_equal(layout.sums(values), np.array(expected, f32))

    def test_one_scale_adds_partial_sums_in_double(self):
        values = weights(9000)
        parts = [self.plain(values[k : k + 4096]) for k in range(0, 9000, 4096)]
        total = 0.0
        for part in parts:
            total += float(part)
        np.testing.assert_array_equal(Layout(9000, 1, 0).sums(values), np.array([total], f32))


class OneBit(unittest.TestCase):
    def test_what_is_not_said_stays_in_the_residuals(self):
        for elements, ranks, block, norm in ((1, 4, 64, "l2"), (200, 3, 64, "l1"), (4097, 2, 4096, "l2"), (9000, 4, 0, "l2")):
            layout = Layout(elements, ranks, block)
            mean = OneBitMean(layout, norm)
            inputs, outputs = np.zeros(elements), np.zeros(elements)
            for row in gradients(50, ranks, elements):
                inputs += row.astype(float).mean(axis=0)
                outputs += mean.reduce(row)
            left = mean.worker_residual.astype(float).mean(axis=0) + mean.server_residual
            np.testing.assert_allclose(outputs + left, inputs, rtol=1e-4, atol=1e-3)

    def test_values_have_the_magnitude_of_their_block(self):
        mean = OneBitMean(Layout(200, 1, 64))
        out = mean.reduce(gradients(1, 1, 200)[0])
        self.assertEqual([len(set(np.abs(out[k : k + 64]))) for k in range(0, 200, 64)], [1, 1, 1, 1])

    def test_elements_at_rest_enter_neither_scale_nor_count(self):
        p = gradients(1, 1, 64)[0]
        active = np.arange(64) % 2 == 0
        p[0, ~active] = 0
        code, residual = OneBitMean(Layout(64, 1, 64)).code(p[0], active)
        np.testing.assert_allclose(np.abs(code[active]), np.sqrt(np.mean(p[0, active].astype(float) ** 2)), rtol=1e-6)
        self.assertTrue((code[~active] == 0).all() and (residual[~active] == 0).all())


class Adams(unittest.TestCase):
    lr = [1e-2 * min(1, t / 10) for t in range(1, 101)]

    def test_zero_one_adam_with_an_exact_mean_and_every_variance_step_is_adamw(self):
        for ranks in (1, 3):
            x, g = weights(500), gradients(100, ranks, 500)
            g[:, :, 100:120] = 0
            config = {"weight_decay": 0.1}
            expected = run(AdamW(x, ranks, **config), g, self.lr)
            exact = run(zero_one(x, ranks, exact=True, variance_kappa=NEVER, **config), g, self.lr)
            np.testing.assert_array_equal(exact.x, expected.x)

    def test_one_bit_adam_that_never_freezes_is_adamw(self):
        x, g = weights(500), gradients(100, 3, 500)
        expected = run(AdamW(x, 3, weight_decay=0.1), g, self.lr)
        never = run(OneBitAdam(x, 3, weight_decay=0.1, freeze_step=NEVER), g, self.lr)
        np.testing.assert_array_equal(never.x, expected.x)

    def test_zero_one_adam_follows_one_bit_adam_with_an_exact_mean_and_frozen_v(self):
        x, g = weights(500), gradients(100, 3, 500)
        one = OneBitAdam(x, 3, freeze_step=10, variance_floor=0)
        one.mean = DenseMean(one.layout)
        run(one, g, self.lr)
        zero = run(zero_one(x, 3, exact=True, variance_freeze_step=10, variance_floor=0), g, self.lr)
        self.assertLess((np.abs(one.synced - zero.synced) / (1 + np.abs(zero.synced))).max(), 1e-6)

    def test_zero_one_adam_learns_what_adamw_learns(self):
        target = weights(1000, 5)
        for config in ({}, {"double_every": 100}, {"double_every": "auto"}):
            random = np.random.default_rng(3)
            zero = zero_one(np.zeros(1000, f32), 4, variance_freeze_step=60, scale_block=256, **config)
            for t in range(1, 601):
                noise = random.standard_normal((4, 1000)).astype(f32)
                zero.step(zero.x - target + f32(0.3) * noise, 1e-2 * (1 - t / 620))
            self.assertLess(np.mean((zero.synced - target) ** 2) / np.mean(target**2), 0.05)

    def test_a_tenfold_drop_and_restarts_do_not_shake_it(self):
        lrs = [1e-2] * 150 + [1e-3] * 150 + [1e-2 * (0.5 + 0.5 * np.cos(np.pi * (t % 50) / 50)) for t in range(200)]
        target = weights(1000, 5)
        random = np.random.default_rng(3)
        zero = zero_one(np.zeros(1000, f32), 4, variance_freeze_step=60, double_every=100, scale_block=256)
        least = 1.0
        for lr in lrs:
            zero.step(zero.x - target + f32(0.3) * random.standard_normal((4, 1000)).astype(f32), lr)
            distance = np.mean((zero.synced - target) ** 2) / np.mean(target**2)
            self.assertLess(distance, 1.5 * least)
            least = min(least, distance)
        self.assertLess(distance, 0.15)

    def test_published_schedules_have_the_published_counts(self):
        for freeze, count in ((12500, 153), (1000, 96), (50050, 185), (300000, 227)):
            self.assertEqual(len(reference.VarianceSteps(16, freeze).steps), count)

    def test_published_recipes_have_the_published_volume(self):
        for steps, bits in ((118000, 0.618), (152000, 0.504)):
            T_v, T_u = reference.VarianceSteps(16, 12500), reference.SyncSteps(12500, 32678, 16)
            coded = last = 0
            for t in range(1, steps + 1):
                if t in T_v:
                    last = t
                elif t - last >= T_u.interval(t, 1.0, 1.0) or t == steps:
                    coded, last = coded + 1, t
            self.assertAlmostEqual((16 * len(T_v.steps) + coded) / steps, bits, places=3)

    def test_local_steps_differ_and_syncs_make_equal(self):
        x, g = weights(300), gradients(100, 3, 300)
        zero = zero_one(x, 3, variance_freeze_step=20, double_every=10, max_interval=8)
        local = 0
        for row in g:
            before = zero.synced
            zero.step(row, 1e-3)
            same = (zero.x == zero.x[0]).all()
            self.assertEqual(same, zero.G == 0)
            if not same:
                local += 1
                np.testing.assert_array_equal(zero.synced, before)
        self.assertGreater(local, 50)
        zero.synchronize()
        self.assertTrue((zero.x == zero.synced).all() and zero.G == 0)

    def test_a_learning_rate_of_zero_changes_nothing_but_t(self):
        x, g = weights(300), gradients(60, 2, 300)
        zero = zero_one(x, 2, variance_freeze_step=10, double_every=10)
        run(zero, g[:35], 1e-3)
        before = (zero.x.copy(), zero.m, zero.pending, zero.G, zero.w, zero.last_sync)
        zero.step(g[35], 0.0)
        after = (zero.x, zero.m, zero.pending, zero.G, zero.w, zero.last_sync)
        for old, new in zip(before, after):
            np.testing.assert_array_equal(old, new)
        self.assertEqual(zero.t, 36)

    def test_an_element_without_a_gradient_rests_until_the_freeze_and_can_learn_after(self):
        x, g = weights(256), gradients(100, 2, 256)
        g[:60, :, 7] = 0
        one = OneBitAdam(x, 2, freeze_step=33, scale_block=64)
        zero = zero_one(x, 2, variance_freeze_step=33, scale_block=64)
        for optimizer in (one, zero):
            run(optimizer, g[:33], 1e-3)
            self.assertEqual(optimizer.synced[7], x[7])
            self.assertEqual(optimizer.v[7], 0)
            run(optimizer, g[33:], 1e-3)
            self.assertGreater(optimizer.v[7], 0)
            self.assertTrue(0 < abs(optimizer.synced[7] - x[7]) < 0.5)

    def test_tiny_gradients_do_not_throw_their_elements(self):
        x, g = weights(256), gradients(300, 2, 256)
        g[:, :, ::5] *= f32(1e-6)
        zero = run(zero_one(x, 2, variance_freeze_step=33, scale_block=64), g, 1e-3)
        self.assertLess(np.abs(zero.synced - x).max(), 1.0)


class EveryOptimizer(unittest.TestCase):
    def all(self, x, ranks, **config):
        yield Sgdm(x, ranks, **config)
        yield AdamW(x, ranks, **config)
        yield OneBitAdam(x, ranks, freeze_step=20, **config)
        yield zero_one(x, ranks, variance_freeze_step=20, **config)
        for exchange in ("two-round", "single-round", "count"):
            yield Birder(x, ranks, exchange=exchange, **config)

    def test_weight_decay_without_gradients_shrinks_by_the_product(self):
        x, lr = weights(200), [1e-2 / t for t in range(1, 61)]
        g = np.zeros((60, 3, 200), f32)
        expected = x
        for rate in lr:
            expected = expected * f32(1.0 - rate * 0.1)
        for optimizer in self.all(x, 3, weight_decay=0.1, scale_block=64):
            np.testing.assert_array_equal(run(optimizer, g, lr).synced, expected, type(optimizer).__name__)

    def test_weight_decay_of_a_local_interval_is_one_product(self):
        x, lr = weights(200), [1e-2] * 33
        zero = zero_one(x, 3, variance_freeze_step=1, double_every=1, max_interval=8, weight_decay=0.1)
        run(zero, np.zeros((33, 3, 200), f32), lr)
        zero.synchronize()
        np.testing.assert_allclose(zero.synced, x.astype(float) * (1 - 1e-3) ** 33, rtol=1e-6)

    def test_a_bad_block_stays_finite(self):
        g = gradients(60, 3, 300)
        g[5, 1, 70], g[40, 2, 200] = np.nan, np.inf
        with np.errstate(invalid="ignore"):
            for optimizer in self.all(weights(300), 3, scale_block=64):
                self.assertTrue(np.isfinite(run(optimizer, g, 1e-3).x).all(), type(optimizer).__name__)

    def test_the_same_run_gives_the_same_bits(self):
        x, g = weights(300), gradients(60, 3, 300)
        for first, second in zip(self.all(x, 3), self.all(x, 3)):
            np.testing.assert_array_equal(run(first, g, 1e-3).x, run(second, g, 1e-3).x)


class Birders(unittest.TestCase):
    def test_philox_gives_the_published_numbers(self):
        ones = 0xFFFFFFFF
        known = {
            ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
            ((ones,) * 4, (ones, ones)): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
            ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)): (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        }
        for (counter, key), expected in known.items():
            self.assertEqual(tuple(philox(counter, key)), expected)

    def test_every_exchange_has_the_mean_of_u(self):
        elements, trials = 64 * 6, 2000
        for exchange in ("two-round", "single-round", "count"):
            birder = Birder(np.zeros(elements, f32), 3, exchange=exchange)
            u = np.random.default_rng(1).uniform(-1, 1, (3, elements)).astype(f32)
            total = np.zeros(elements)
            for t in range(trials):
                q = np.stack([draw(u[i], f32(1), uniform(0, i, elements, (9, t))) for i in range(3)])
                total += birder.consensus[exchange](q, np.ones((3, elements), bool), (9, t))
            self.assertLess(np.abs(total / trials - u.mean(axis=0)).max(), 5 / np.sqrt(trials), exchange)

    def test_dealing_is_a_permutation(self):
        dealt = [tuple(deal(run, 4, (1, 2))) for run in range(500)]
        self.assertTrue(all(sorted(cards) == [0, 1, 2, 3] for cards in dealt))
        self.assertEqual(len(set(dealt)), 24)

    def test_words_without_a_gradient_rest(self):
        x, g = weights(256), gradients(30, 2, 256)
        g[10:, :, 64:128] = 0
        for exchange in ("two-round", "single-round", "count"):
            birder = run(Birder(x, 2, exchange=exchange), g[:10], 1e-3)
            before = birder.synced[64:128]
            np.testing.assert_array_equal(run(birder, g[10:], 1e-3).synced[64:128], before)


class Torch(unittest.TestCase):
    def test_adamw_and_sgdm_are_those_of_torch(self):
        golden = json.loads((Path(__file__).parent / "torch_golden.json").read_text())
        for name, case in golden["cases"].items():
            optimizer = reference.ALGORITHMS[case["algorithm"]](golden["weights"], 1, **case["config"])
            for t, lr in enumerate(golden["lr"], 1):
                optimizer.step(golden_gradient(t, len(golden["weights"]))[None], lr)
                if str(t) in case["x"]:
                    x = np.array(case["x"][str(t)])
                    self.assertLess((np.abs(optimizer.synced - x) / (1 + np.abs(x))).max(), 1e-6, (name, t))


class Votes(unittest.TestCase):
    def test_with_equal_gradients_a_vote_is_lion(self):
        x, g = weights(500), np.repeat(gradients(50, 1, 500), 3, axis=1)
        lion = run(Lion(x, 1, weight_decay=0.1), g[:, :1], 1e-3)
        for form in ("vote", "count"):
            np.testing.assert_array_equal(run(DistributedLion(x, 3, form=form, weight_decay=0.1), g, 1e-3).synced, lion.synced)

    def test_ties_and_zeros_alternate(self):
        g = np.zeros((4, 2, 128), f32)
        g[:, :, 64], g[:, 0, 65], g[:, 1, 65] = 1, 1, -1
        voting = run(DistributedLion(np.zeros(128, f32), 2), g[:1], 1.0)
        np.testing.assert_array_equal(voting.synced[:64], 0)
        np.testing.assert_array_equal(voting.synced[64:68], [-1, -1, 1, -1])  # t = 1: odd elements go up in the vote

    def test_momenta_meet_at_a_sync(self):
        voting = run(DistributedLion(weights(200), 4, momentum_sync_every=5), gradients(5, 4, 200), 1e-3)
        np.testing.assert_array_equal(voting.m, np.tile(voting.m[0], (4, 1)))


if __name__ == "__main__":
    unittest.main()
