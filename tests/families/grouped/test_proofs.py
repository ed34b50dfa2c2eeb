"""Every access of a reduction by key is proved to be in bounds, and no thread touches another's accumulators."""

from __future__ import annotations

import pytest

from cugen.analysis.bounds.proof import bounds_of

VECTOR = """
params: {N: %s, G: %d}
arrays:
  k: {shape: [N], dtype: %s}
  x: {shape: [N], dtype: float32}
  s: {shape: [G], dtype: float32}
compute: s[g] = sum(x[i], i, where=k[i] == g)
schedule: {family: grouped%s}
"""
COLUMNS = """
params: {N: 333, G: 41, E: %d}
arrays:
  k: {shape: [N], dtype: int32}
  x: {shape: [N, E], dtype: float32}
  s: {shape: [G, E], dtype: float32}
compute: s[g, e] = sum(x[n, e], n, where=k[n] == g)
schedule: {family: grouped%s}
"""


@pytest.mark.parametrize(
    "text",
    [
        VECTOR % (20_011, 40, "int32", ""),
        VECTOR % (20_011, 40, "uint8", ", split_k: 4"),
        VECTOR % ("dynamic", 40, "int64", ""),
        VECTOR % ("dynamic", 700, "uint32", ", bins: 64, split_k: 4"),
        (VECTOR % ("dynamic", 700, "uint32", ", bins: 64, split_k: 4")).replace("G: 700", "G: dynamic"),
        VECTOR % (3_000_000_000, 40, "int8", ""),
        COLUMNS % (64, ""),
        COLUMNS % (50, ", bins: 8"),
        COLUMNS % (64, ", bins: 8, vector: 4, threads: 64"),
        COLUMNS % (64, ", bins: 8, vector: 1, threads: 64"),
    ],
    ids=[
        "one block",
        "parts",
        "dynamic",
        "bins",
        "dynamic bins",
        "beyond 32 bits",
        "columns",
        "odd columns",
        "vectors",
        "chunks",
    ],
)
def test_every_access_is_proved_to_be_in_bounds(made, text):
    claims = bounds_of(made(text).plan)
    assert {claim.verdict for claim in claims} == {"proved"}


@pytest.mark.parametrize(
    "text",
    [
        VECTOR % (2011, 40, "int32", ", bins: 8"),
        COLUMNS % (50, ", bins: 8"),
        COLUMNS % (64, ", bins: 8, vector: 1, threads: 64"),
    ],
)
def test_accumulators_of_threads_are_apart(prove, text):
    prove(text, races=True)
