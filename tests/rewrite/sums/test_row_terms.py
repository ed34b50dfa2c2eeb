"""Reductions over values of rows: each row stores its term, in the launch that reduces it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.kernel import Kernel, generate
from cugen.rewrite.sums.row_terms import with_row_terms
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

DIVERGENCE = """
params: {B: %s, C: %s}
arrays:
  p: {shape: [B, C], dtype: %s}
  q: {shape: [B, C], dtype: %s}
  loss: {shape: [], dtype: float32}
compute: |
  lp[b, c] = log_softmax(p[b, c], c)
  lq[b, c] = log_softmax(q[b, c], c)
  loss = %s(exp(lq[b, c]) * (lq[b, c] - lp[b, c]), b, c) / B
"""
CROSS_ENTROPY = """
params: {B: %s, C: %s}
arrays:
  x: {shape: [B, C], dtype: float32}
  t: {shape: [B], dtype: int64}
  loss: {shape: [], dtype: float32}
compute: |
  top[b] = max(x[b, c], c)
  normaliser[b] = log(sum(exp(x[b, c] - top[b]), c)) + top[b]
  loss = mean(normaliser[b] - x[b, t[b]], b)
"""
OF_GROUPS = """
params: {G: 3, B: 20, C: 70}
arrays:
  x: {shape: [G, B, C], dtype: float32}
  y: {shape: [G], dtype: float32}
compute: |
  m[g, b] = mean(x[g, b, c], c)
  s[g, b] = sum(abs(x[g, b, c] - m[g, b]), c)
  y[g] = max(s[g, b] - m[g, b], b)
"""
PLAIN = """
params: {B: 20, C: 70}
arrays:
  x: {shape: [B, C], dtype: float32}
  y: {shape: [], dtype: float32}
compute: |
  y = %s
"""


def divergence(rows: int, columns: int, dtype: str = "float32", kind: str = "sum") -> str:
    return DIVERGENCE % (rows, columns, dtype, dtype, kind)


def spec_of(text: str) -> Spec:
    (spec,) = load_text(f"cugen: 1\nkernel: terms{text}")
    return spec


def kernel_of(text: str) -> Kernel:
    return generate(spec_of(text), analysis=False)


def families(kernel: Kernel) -> list[str]:
    return [planned.family for planned in kernel.plan.kernels]


def passes(kernel: Kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_a_sum_over_elements_of_rows_becomes_a_sum_per_row() -> None:
    spec = spec_of(divergence(9, 40))
    terms = with_row_terms(spec, len(spec.statements) - 1)
    assert terms is not None
    term, total = terms.spec.statements[-2:]
    assert (term.target, [index.name for index in term.indices]) == (terms.target, ["b"])
    assert total.target == "loss"


def test_one_launch_reads_both_operands_of_a_divergence_of_rows_and_stores_no_element() -> None:
    kernel = kernel_of(divergence(64, 500))
    assert families(kernel) == ["rowwise", "reduce"]
    assert kernel.source.count("float* __restrict__ loss_terms") == 2
    assert passes(kernel)


@pytest.mark.slow
def test_a_row_stores_its_term_beside_what_it_gathers() -> None:
    kernel = kernel_of(CROSS_ENTROPY % (300, 70))
    assert families(kernel) == ["rowwise", "reduce"]
    assert "__restrict__ normaliser" not in kernel.source
    assert passes(kernel)


def test_terms_are_kept_apart_by_the_indices_of_the_statement() -> None:
    kernel = kernel_of(OF_GROUPS)
    assert "y_terms[g * B + b] = " in kernel.source
    assert passes(kernel)


@pytest.mark.parametrize(
    "value",
    ["sum(x[b, c], b, c)", "sum(x[b, c] * b, b, c)"],
    ids=["of elements", "with an index"],
)
def test_sums_without_reduced_rows_are_left_as_they_are(value: str) -> None:
    spec = spec_of(PLAIN % value)
    assert with_row_terms(spec, len(spec.statements) - 1) is None


def test_an_element_per_row_is_no_further_term() -> None:
    spec = spec_of(OF_GROUPS.replace("s[g, b] - m[g, b]", "s[g, b]"))
    assert with_row_terms(spec, len(spec.statements) - 1) is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("result", "value"),
    [
        ("y[i]", "sum(cast(a[b] == i, int32), b)"),
        ("y[i]", "sum((a[b] == i) * x[b, c], b, c)"),
        ("y[c]", "sum(m[b] * x[b, c], b)"),
    ],
    ids=["counts", "sums of rows by class", "weighted rows"],
)
def test_results_that_need_several_terms_of_each_row_have_none(result: str, value: str) -> None:
    spec = spec_of(
        f"""
params: {{B: 2000, C: 10}}
arrays:
  x: {{shape: [B, C], dtype: float32}}
  y: {{shape: [C], dtype: float32}}
compute: |
  a[b] = argmax(x[b, c], c)
  m[b] = max(x[b, c], c)
  {result} = {value}
""".replace("  a[b] = argmax(x[b, c], c)\n" if "m[b]" in value else "  m[b] = max(x[b, c], c)\n", "")
    )
    assert with_row_terms(spec, len(spec.statements) - 1) is None
    assert passes(generate(spec, analysis=False))


def test_a_term_follows_all_that_it_reads() -> None:
    between = OF_GROUPS.replace("  y[g]", "  w[g, b] = b + 1\n  v[g] = x[g, 0, 0]\n  y[g]").replace(
        "- m[g, b], b", "- w[g, b], b"
    )
    spec = spec_of(between.replace("  y:", "  v: {shape: [G], dtype: float32}\n  y:"))
    terms = with_row_terms(spec, len(spec.statements) - 1)
    assert terms is not None
    assert [s.target for s in terms.spec.statements] == ["m", "s", "w", terms.target, "v", "y"]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 700),
    dtype=st.sampled_from(["float32", "float16", "float64"]),
    kind=st.sampled_from(["sum", "max", "min"]),
)
def test_divergences_of_any_extents_are_right(rows: int, columns: int, dtype: str, kind: str) -> None:
    assert passes(kernel_of(divergence(rows, columns, dtype, kind)))


OF_LAYERS = """
params: {M: 30, N: 40, K: 20, L: 50}
arrays:
  x: {shape: [M, K], dtype: float32}
  w: {shape: [N, K], dtype: float32}
  v: {shape: [L, N], dtype: float32}
  y: {shape: [%s], dtype: float32}
compute: |
  h[m, n] = relu(sum(x[m, k] * w[n, k], k))
  %s
"""


@pytest.mark.parametrize(
    ("shape", "statement"),
    [
        ("M, L", "y[m, l] = sum(h[m, n] * v[l, n], n)"),
        ("M, M", "y[m, o] = sum(h[m, n] * h[o, n] + v[0, n], n)"),
        ("L", "y[l] = sum(h[m, n] * v[l, n], m, n)"),
    ],
    ids=["with an input", "with itself", "that sums the rows, too"],
)
def test_a_product_is_no_row_of_terms_though_each_row_of_an_operand_is_reduced(shape: str, statement: str) -> None:
    spec = spec_of(OF_LAYERS % (shape, statement))
    assert with_row_terms(spec, len(spec.statements) - 1) is None


UPDATED = """
params: {M: 5, C: 30}
arrays:
  x: {shape: [M, C], dtype: float32}
  r: {shape: [M], dtype: float32}
  y: {shape: [%s], dtype: float32}
compute: |
  %s
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "statements"),
    [
        ("", "r[i] = 0.5 * r[i] + mean(x[i, c], c)\n  y = sum(r[i] * x[i, c], i, c)"),
        ("", "x[i, c] = x[i, c] - r[i]\n  r[i] = max(x[i, c], c)\n  y = sum(r[i], i)"),
        ("M", "r[i] += sum(x[i, c], c)\n  x[i, c] = x[i, c] + r[i]\n  y[i] = sum(x[i, c] * r[i], c)"),
        ("", "y = sum(sum(x[i, c], c) * r[i], i)\n  r[i] = r[i] + sum(x[i, c], c)"),
    ],
    ids=["of sums", "of rows", "by +=", "read before"],
)
def test_sums_over_arrays_that_are_updated_in_place_are_right(shape: str, statements: str) -> None:
    assert passes(kernel_of(UPDATED % (shape, statements)))
