"""Gathers in every family: subscripts that read arrays at an index or at a fixed element."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text

STATEMENTS = (
    "y[i, j] = x[j, t[j]] if t[i] > 2 else x[t[i], i]",
    "y[i, j] = x[t[0], j] + x[t[i], j] + x[t[j], j]",
    "y[i, j] = x[t[0], j]",
    "y[i, j] = x[t[j], i]",
    "y[i, j] = x[t[t[j]], j]",
    "y[i, j] = x[t[i], j] * t[j]",
    "y[i, j] = x[t[i], (j + 1) % N]",
    "y[i, j] = x[i, j] + x[t[N - 1], N - 1 - j]",
    "y[j, i] = x[t[0], j] + x[i, j]",
    "y[i, j] = sum(x[t[0], k] * x[k, j], k) + x[i, 0]",
    "y[i, j] = sum(x[t[k], j] * x[i, k], k)",
    "y[i, j] = x[i, j] - max(x[t[0], k], k)",
    "y[i, j] = max(x[t[i], k], k) + t[j]",
    "y[i, j] = softmax(x[t[0], j] + x[i, j], j)",
    "y[i, j] = cumsum(x[t[0], j] * x[i, j], j)",
)
EMBEDDING = """params: {{N: 8, V: 40, D: {width}}}
arrays:
  table: {{shape: [V, D], dtype: {dtype}}}
  ids: {{shape: [N], dtype: {index}}}
  y: {{shape: [N, D], dtype: {dtype}}}
compute: y[i, j] = table[ids[i], j]
"""


def gather(statement: str, n: int) -> str:
    return f"""params: {{N: {n}}}
arrays:
  t: {{shape: [N], dtype: int32}}
  x: {{shape: [N, N], dtype: float32}}
  y: {{shape: [N, N], dtype: float32}}
compute: "{statement}"
"""


@pytest.mark.sampled(16)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_family_that_accepts_a_gather_computes_it(made, prove, statement):
    made(gather(statement, 1))
    prove(gather(statement, 8))


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("n", [1, 2, 33])
def test_gathers_of_any_size(prove, statement, n):
    prove(gather(statement, n))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("width", "dtype", "index"), [("129", "float32", "int32"), ("dynamic", "float16", "int64"), ("3", "uint8", "int32")]
)
def test_rows_of_any_alignment_are_gathered(prove, width, dtype, index):
    """The first element of a gathered row lies anywhere in a sector."""
    prove(EMBEDDING.format(width=width, dtype=dtype, index=index), {"D": 37} if width == "dynamic" else None)


RESULTS = (
    ("k[i] = argmax(x[i, j], j)", "y[i] = x[i, k[i]]"),
    ("k[i] = argmax(x[i, j], j)", "y[i] = x[i, k[i]] - mean(x[i, j], j)"),
    ("k[i] = argmin(x[i, j], j)", "y[i] = x[i, (k[i] + 1) % N] + x[k[i] % M, 0]"),
    ("k[i] = sum(t[i, j], j)", "y[i] = x[i, k[i] % N]"),
    ("k[i] = max(t[i, j], j)", "y[i] = x[i, k[i] % N]"),
    ("k[j] = argmax(x[i, j], i)", "y[j] = x[k[j], j]"),
    ("k[i] = argmax(x[i, j], j)", "y[i, j] = x[i, j] - x[i, k[i]]"),
    ("k[i] = argmax(x[i, j], j)", "y[i, j] = softmax(x[i, j], j) * x[k[i] % M, j]"),
    ("k[i] = sum(t[i, j], j)", "y[i, j] = x[i, (j + k[i]) % N]"),
)


def gather_by_result(statements: tuple[str, str], m: int, n: int, counts: str, target: str = "sm_90") -> str:
    outer = "N" if "y[j] =" in statements[1] else "M"
    table = f"  t: {{shape: [M, N], dtype: {counts}}}\n" if "t[" in statements[0] else ""
    return f"""target: {target}
params: {{M: {m}, N: {n}}}
arrays:
{table}  x: {{shape: [M, N], dtype: float32}}
  y: {{shape: [{"M, N" if "y[i, j]" in statements[1] else outer}], dtype: float32}}
compute: |
  {statements[0]}
  {statements[1]}
"""


@pytest.mark.sampled(38)
@pytest.mark.parametrize("family", ["direct", "rowwise"])
@pytest.mark.parametrize("counts", ["int32", "uint64"])
@pytest.mark.parametrize("statements", RESULTS, ids=lambda pair: " ".join(pair))
def test_a_kernel_gathers_at_the_result_of_its_reduction(prove, statements, counts, family):
    prove(gather_by_result(statements, 5, 70, counts) + f"schedule: {{family: {family}}}\n")


@pytest.mark.sampled(36)
@pytest.mark.parametrize("target", ["sm_10", "sm_20", "sm_75"])
@pytest.mark.parametrize("statements", RESULTS, ids=lambda pair: " ".join(pair))
def test_gathers_at_the_result_of_a_reduction_are_planned_for_every_target(statements, target):
    for m, n in ((50, 5000), (2000, 70)):
        text = "cugen: 1\nkernel: gathered\n" + gather_by_result(statements, m, n, "int32", target)
        assert generate(load_text(text)[0]).source


COMPUTED = (  # a position, and another that it may be part of
    "cast(round(5 * abs(sin(w[j]))), int32)",
    "where(w[j] > 0, t[j], 0)",
    "t[j] if j > 3 else N - 1",
    "cast(sqrt(j), uint8)",
    "t[j] ^ 1",
    "t[t[j]] + 1 - 1",
)


@pytest.mark.sampled(26)
@pytest.mark.parametrize("element", ["k[j]", "k[N - 1 - j]", "p[j]", "p[j] // 2"])
@pytest.mark.parametrize("position", COMPUTED)
def test_positions_are_computed_in_temporaries(prove, position, element):
    prove(f"""params: {{N: 8}}
arrays:
  t: {{shape: [N], dtype: int32}}
  w: {{shape: [N], dtype: float32}}
  x: {{shape: [2 * N, N], dtype: float32, boundary: clamp}}
  y: {{shape: [3, N], dtype: float32}}
compute: |
  k[j] = {position}
  p[j] = k[j] + 1
  y[i, j] = x[{element}, j] + i * w[j] + p[j] * t[j]
""")
