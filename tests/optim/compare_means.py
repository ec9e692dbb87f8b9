#!/usr/bin/env python3
"""compare_means.py MEAN_TRACE: the means of the library beside those of reference_means.py, bit for bit."""
import subprocess
import sys
import unittest

import numpy as np

from reference_means import DenseMean, IntegerMean, Layout, OneBitMean, TopKMean, f32

EXCHANGES, RESET = 9, 4
CASES = (  # codec, codec on the way back (-: its own), feedback, k
    ("fp32", "-", "full", 128),
    ("sign", "-", "full", 128),
    ("int8", "-", "full", 128),
    ("int4", "-", "ema", 128),
    ("int2", "-", "decay", 128),
    ("top-k", "-", "full", 128),
    ("top-k", "-", "decay", 128),
    ("top-k", "-", "ema", 40),
    ("top-k", "-", "none", 128),
    ("top-k", "top-k", "decay", 77),
    ("top-k", "sign", "full", 1),
    ("int8", "top-k", "full", 300),
    ("int4", "int8", "decay", 128),
    ("int4", "fp32", "full", 128),
)


def mean_of(codec, feedback, k, elements, ranks):
    if codec == "fp32":
        return DenseMean(Layout(elements, ranks, 4096))
    if codec == "sign":
        return OneBitMean(Layout(elements, ranks, 4096))
    if codec == "top-k":
        return TopKMean(elements, ranks, k, feedback, reset=RESET)
    return IntegerMean(Layout(elements, ranks, 256), int(codec.removeprefix("int")), feedback, RESET)


class Means(unittest.TestCase):
    def test_they_are_those_of_the_reference(self):
        for codec, down, feedback, k in CASES:
            for ranks, elements in ((1, 200), (3, 5000), (2, 9001)):
                with self.subTest(codec=codec, down=down, feedback=feedback, k=k, ranks=ranks):
                    mean = mean_of(codec, feedback, k, elements, ranks)
                    if down != "-":
                        mean.down = mean if down == codec else mean_of(down, feedback, k, elements, ranks)
                    random = np.random.default_rng(3)
                    values = random.standard_normal((EXCHANGES, ranks, elements)).astype(f32)
                    values[::2, :, : elements // 2] = 0
                    program = [sys.argv[1], codec, down, feedback, str(k), str(ranks), str(elements), str(EXCHANGES)]
                    done = subprocess.run(program, input=values.tobytes(), capture_output=True, check=True)
                    got = np.frombuffer(done.stdout, f32).reshape(EXCHANGES, elements)
                    for row, one in zip(values, got):
                        np.testing.assert_array_equal(mean.reduce(row), one)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
