"""The model of atomics on counters, against draws; and when it takes them."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.families.histogram.contention import BANKS, atomic_wavefronts


@pytest.mark.parametrize("counters", [1, 2, 7, 12, 32])
def test_wavefronts_are_the_most_lanes_at_one_counter_of_even_draws(counters):
    drawn = np.random.default_rng(0).integers(0, counters, (20_000, 32))
    mean = np.mean([np.bincount(row).max() for row in drawn])
    assert atomic_wavefronts(counters) == pytest.approx(mean, rel=0.02)


def test_one_counter_takes_a_wavefront_for_each_lane():
    assert atomic_wavefronts(1) == pytest.approx(32)


def test_more_counters_than_banks_are_as_good_as_one_for_each_bank():
    assert atomic_wavefronts(1000) == atomic_wavefronts(BANKS) < atomic_wavefronts(BANKS - 1)


SHORT = """
params: {N: %d, G: %d}
arrays:
  k: {shape: [N], dtype: uint8}
  h: {shape: [G], dtype: int32}
compute: h[g] = sum(k[i] == g, i)
"""


@pytest.mark.parametrize(
    ("size", "bins", "is_taken"),
    [(1_000, 256, False), (100_000_000, 2, False), (100_000_000, 16, True), (10_000_000, 256, True)],
)
def test_atomics_are_taken_for_many_elements_and_more_than_a_few_bins(made, size, bins, is_taken):
    families = [kernel.family for kernel in made(SHORT % (size, bins)).plan.kernels]
    assert ("histogram" in families) == is_taken
