"""Operands that are rounded to 16 bits, or chosen among such numbers, are those of tensor cores."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.plan.context import make_context
from cugen.rewrite.canonical.held_types import held_type
from cugen.rewrite.stored import converted_operands
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

LARGE, SMALL = "M: 1024, N: 1024, K: 512", "M: 130, N: 136, K: 72"


def spec_of(x: str, w: str, compute: str, sizes: str = LARGE, target: str = "sm_90a"):
    (spec,) = load_text(f"""
cugen: 1
kernel: f
target: {target}
params: {{{sizes}}}
arrays:
  x: {{shape: [M, K], dtype: {x}}}
  w: {{shape: [N, K], dtype: {w}}}
  y: {{shape: [M, N], dtype: float32}}
compute: |
  {compute}
""")
    return spec


def stored_types(spec) -> dict[str, str]:
    """The types of the arrays in the workspace."""
    return {array.name: array.dtype.name for array in generate(spec, analysis=False).plan.workspace}


ROUNDED = "sum(cast(x[m, k], float16) * cast(w[n, k], float16), k)"
OPERANDS = [
    ("float32", "float32", f"y[m, n] = {ROUNDED}", {"x_float16": "float16", "w_float16": "float16"}),
    ("float32", "float16", "y[m, n] = sum(cast(x[m, k], float16) * w[n, k], k)", {"x_float16": "float16"}),
    (
        "bfloat16",
        "bfloat16",
        "t[m, k] = cast(exp(x[m, k]), bfloat16)\n  y[m, n] = sum(t[m, k] * w[n, k], k)",
        {"x_bfloat16": "bfloat16"},
    ),
    ("bfloat16", "bfloat16", "y[m, n] = sum(relu(x[m, k]) * w[n, k], k)", {"x_bfloat16": "bfloat16"}),
    ("bfloat16", "bfloat16", "y[m, n] = sum(where(k < m, -x[m, k], 6) * w[n, k], k)", {"x_bfloat16": "bfloat16"}),
    ("float32", "bfloat16", "y[m, n] = sum(cast(x[m, k], float8_e4m3) * w[n, k], k)", {"x_bfloat16": "bfloat16"}),
]


@pytest.mark.parametrize(("x", "w", "compute", "stored"), OPERANDS)
def test_operands_are_stored_in_the_type_that_holds_them(x, w, compute, stored):
    spec = spec_of(x, w, compute)
    assert stored_types(spec) == stored
    assert [launch.family for launch in generate(spec, analysis=False).plan.kernels][-1] == "wgmma"


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("x", "w", "compute", "stored"), OPERANDS)
def test_results_are_those_of_the_rounded_operands(monkeypatch, x, w, compute, stored, target):
    monkeypatch.setattr(converted_operands, "_MIN_MULTIPLY_ADDS", 1)
    spec = spec_of(x, w, compute, SMALL, target)
    kernel = generate(spec, analysis=False)
    assert stored.items() <= stored_types(spec).items()
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("cast(x[m, k], float16)", "float16"),
        ("maximum(cast(x[m, k], float16), 2048)", "float16"),
        ("maximum(cast(x[m, k], float16), 2049)", None),
        ("cast(w[m, k], float32)", "bfloat16"),
        ("maximum(w[m, k], cast(x[m, k], float16))", None),
        ("cast(x[m, k], float16) + 1", None),
        ("cast(x[m, k], int8) + 0.5", None),
        ("cast(cast(x[m, k], float64), float32)", None),
    ],
)
def test_a_type_holds_what_is_chosen_among_its_numbers(value, dtype):
    arrays = {"x": "float32", "w": "bfloat16"}
    used = "".join(
        f"  {name}: {{shape: [M, K], dtype: {dtype}}}\n" for name, dtype in arrays.items() if f"{name}[" in value
    )
    (spec,) = load_text(
        f"cugen: 1\nkernel: f\nparams: {{M: 8, K: 8}}\narrays:\n{used}  y: {{shape: [M, K], dtype: float32}}\n"
        f"compute: y[m, k] = {value}\n"
    )
    narrow = held_type(spec.statements[0].value, make_context(spec).arrays)
    assert (narrow and narrow.name) == dtype


ATTENTION = """
cugen: 1
kernel: f
params: {T: 130, D: 16}
arrays:
  s: {shape: [T, T], dtype: float32}
  v: {shape: [T, D], dtype: bfloat16}
  o: {shape: [T, D], dtype: bfloat16}
compute: |
  m[i] = max(s[i, j] if j <= i else -inf, j)
  e[i, j] = cast(exp(s[i, j] - m[i]), bfloat16) if j <= i else 0
  z[i] = sum(e[i, j], j)
  o[i, d] = sum(e[i, j] * v[j, d], j) / z[i]
"""


def test_weights_that_are_summed_and_stored_are_computed_of_scores_that_no_weight_has_overwritten(monkeypatch):
    monkeypatch.setattr(converted_operands, "_MIN_MULTIPLY_ADDS", 1)
    (spec,) = load_text(ATTENTION)
    kernel = generate(spec, analysis=False)
    assert "rowwise" in [launch.family for launch in kernel.plan.kernels]
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice())
    assert run.verification.passed, run.verification.messages
