"""Rows shorter than a few vectors: several per thread in one contiguous run of vectors, and correctness."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses

SHORT = """
params: {M: %s, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [M], dtype: %s}
compute: y[i] = %s
"""


def short(m, n, value="sum(x[i, j], j)", dtype="float32", out="float32"):
    return SHORT % (m, n, dtype, out, value)


def test_rows_that_fill_no_vector_are_loaded_together(planned):
    widths = [(a.array.name, a.width) for a in accesses(planned(short(1000, 3)).body)]
    assert widths == [("x", 4), ("y", 4)]
    assert planned(short(1000, 3)).block == (256, 1, 1)


def test_rows_of_whole_vectors_or_with_tunables_take_thread_groups(planned):
    assert planned(short(1000, 16)).block == (2, 128, 1)
    assert planned(short(1000, 3) + "schedule: {family: reduce, threads: 1}\n").block == (1, 256, 1)


def test_the_last_rows_take_scalar_loads(made):
    source = made(short(1001, 3)).source
    assert "if (first_i + 3 < M)" in source
    assert "#pragma unroll 1" in source


@pytest.mark.parametrize(("m", "n"), [(1001, 3), (77, 7)])
def test_short_rows(prove, m, n):
    prove(short(m, n))


@pytest.mark.slow
@pytest.mark.parametrize("n", range(2, 17))
@pytest.mark.parametrize(("dtype", "out"), [("float32", "float32"), ("float16", "float16"), ("int8", "int32")])
def test_short_rows_of_all_lengths(prove, n, dtype, out):
    prove(short(1003, n, dtype=dtype, out=out))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "out"),
    [
        ("argmax(x[i, j], j)", "int64"),
        ("sqrt(sum(x[i, j] * x[i, j], j)) + x[i, 0]", "float32"),
        ("sum(x[i, j], j, where=j < i)", "float32"),
        ("max(x[i, j] * j, j) + i", "float32"),
    ],
)
def test_bodies_and_conditions(prove, value, out):
    prove(short(1003, 5, value, out=out))
    prove(short(103, 3, value, out=out), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("m", [0, 1, 4, 1027])
def test_any_dynamic_number_of_rows(prove, m):
    prove(short("dynamic", 5), {"M": m})
