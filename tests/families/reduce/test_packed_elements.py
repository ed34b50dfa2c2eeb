"""Sums over the numbers that words pack: a thread loads each word once, for all of its numbers."""

from __future__ import annotations

import re

import pytest

from cugen.plan.traversal.walking import accesses

PACKED = """
params: {{N: {n}, K: {k}, P: {per_word}, G: {group}}}
arrays:
  q: {{shape: [{shape}], dtype: {word}}}
  x: {{shape: [K], dtype: {dtype}}}
  s: {{shape: [N, K // G], dtype: float16}}
  y: {{shape: [N], dtype: float32}}
compute: y[n] = sum(x[k] * (cast((q[{of}] >> (k % P * {bits})) & {mask}, float32) - 3) * s[n, k // G], k)
"""
BITS = {"uint8": 4, "uint32": 4, "uint64": 8}


def packed(
    word: str, n: int = 4096, k: int = 4096, *, dtype: str = "float16", group: int = 64, rows: bool = True
) -> str:
    bits = BITS[word]
    shape, of = ("N, K // P", "n, k // P") if rows else ("K // P, N", "k // P, n")
    per_word = int(word[4:]) // bits
    return PACKED.format(
        n=n,
        k=k,
        per_word=per_word,
        group=group,
        shape=shape,
        of=of,
        word=word,
        dtype=dtype,
        bits=bits,
        mask=(1 << bits) - 1,
    )


BITS_OF_WORDS = """
params: {N: 300, W: %s}
arrays:
  q: {shape: [N, W], dtype: uint32}
  y: {shape: [N], dtype: int32}
indices: {b: 32}
compute: y[n] = cast(sum((q[n, w] >> b) & 1, w, b), int32)
"""


@pytest.mark.sampled(47)
@pytest.mark.parametrize("rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("sizes", [(7, 64, 16), (33, 4096, 64), (2, 131072, 128), (5, 8 * 33, 8)], ids=str)
@pytest.mark.parametrize("word", BITS)
def test_packed_numbers_are_summed(prove, word, sizes, dtype, rows):
    n, k, group = sizes
    prove(packed(word, n, k, group=group, dtype=dtype, rows=rows))


@pytest.mark.parametrize(
    ("word", "dtype", "widths"),
    [
        ("uint8", "float16", {"q": 4, "x": 8}),
        ("uint32", "float16", {"q": 1, "x": 8}),
        ("uint32", "float32", {"q": 1, "x": 4}),
        ("uint8", "float32", {"q": 2, "x": 4}),
    ],
)
def test_a_run_of_factors_is_loaded_for_the_numbers_of_a_word(planned, word, dtype, widths):
    kernel = planned(packed(word, dtype=dtype))
    assert kernel.family == "reduce"
    assert {a.array.name: a.width for a in accesses(kernel.body) if a.array.name in ("q", "x")} == widths


def test_each_word_is_loaded_once_for_its_bits(made, planned):
    source = made(BITS_OF_WORDS % 1001).source
    assert re.search(r"= q\[[^;]*;\s+#pragma unroll\s+for \(int b = 0; b < 32; \+\+b\)", source)
    assert {a.width for a in accesses(planned(BITS_OF_WORDS % 1024).body) if a.array.name == "q"} == {2}


ROWS_OF_FACTORS = """
params: {N: 3000, W: 512}
arrays:
  x: {shape: [8, W], dtype: float16}
  q: {shape: [N, W], dtype: uint32}
  y: {shape: [N], dtype: float32}
compute: y[n] = sum(x[j, w] * cast((q[n, w] >> (4 * j)) & 15, float32), w, j)
"""
CONDITIONAL = """
params: {N: 40, W: 37}
arrays:
  x: {shape: [W, 8], dtype: float16}
  q: {shape: [N, W], dtype: uint32}
  length: {shape: [N], dtype: int32}
  y: {shape: [N], dtype: float32}
compute: y[n] = sum(x[w, j] * cast((q[n, w] >> (4 * j)) & 15, float32), w, j, where=%s) + length[n]
"""
OTHER_REDUCTIONS = """
params: {N: 41, W: 37}
arrays:
  q: {shape: [N, W], dtype: uint32}
  y: {shape: [N], dtype: float64}
indices: {b: 4}
compute: y[n] = %s
"""


def test_the_bits_of_many_words_are_not_unrolled_together(made):
    text = BITS_OF_WORDS.replace("b: 32", "b: 64").replace("uint32", "uint64")
    assert "#pragma unroll 4\n" in made(text % 100_000).source


def test_a_factor_that_is_contiguous_along_the_words_stays_a_vector(planned):
    """In an innermost loop over j its loads would be apart."""
    assert {a.array.name: a.width for a in accesses(planned(ROWS_OF_FACTORS).body) if a.array.name in ("q", "x")} == {
        "q": 4,
        "x": 4,
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["j < 5 and w * 8 + j > n", "w < length[n]", "j < length[n]"])
def test_conditions_on_words_and_numbers(prove, where):
    prove(CONDITIONAL % where)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "value",
    [
        "max((q[n, w] >> (8 * b)) & 255, w, b)",
        "mean(cast((q[n, w] >> (8 * b)) & 255, float32), w, b)",
        "sum((q[n, w] >> (8 * b)) % 2 == 1, w, b) / cast(sum(cast(q[n, v], float64), v), float64)",
    ],
)
def test_other_reductions_of_packed_numbers(prove, value):
    prove(OTHER_REDUCTIONS % value)
