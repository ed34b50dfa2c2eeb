"""Operands that a GEMM doesn't take are stored by launches of their own, where that pays off."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SHAPES = {
    "a": "[M, K]",
    "b": "[K, N]",
    "p": "[K, M]",
    "s": "[N]",
    "m": "[M]",
    "w": "[K]",
    "d": "[K, N]",
    "i": "[M], dtype: int32",
    "y": "[M, N]",
}


def launches(*lines: str, arrays: str = "a b y", sizes: str = "M: 67, N: 97, K: 331") -> list[str]:
    """What the launches of the statements store; nothing where the last one is no GEMM with tiles."""
    declared = (
        f"{name}: {{shape: {SHAPES[name]}{'' if 'int' in SHAPES[name] else ', dtype: float32'}}}"
        for name in arrays.split()
    )
    head = ["cugen: 1", "kernel: f", f"params: {{{sizes}}}", "arrays:", *(f"  {text}" for text in declared)]
    (spec,) = load_text("\n".join([*head, "compute: |", *(f"  {line}" for line in lines)]))
    kernels = generate(spec, analysis=False).plan.kernels
    if kernels[-1].family not in ("tiled", "gemm"):
        return []
    return [text.split(" = ")[0] for kernel in kernels for text in kernel.computes]


@pytest.mark.sampled(18)
@pytest.mark.parametrize(
    ("value", "arrays", "stored"),
    [
        ("sum((a[j, k] - m[j]) * (b[k, n] + s[n]), k)", "a b m s y", ["a_operand[j, k]", "b_operand[k, n]"]),
        ("sum(exp(a[j, k] - m[j]) * b[k, n], k) + s[n]", "a b m s y", ["a_operand[j, k]"]),
        ("sum((p[k, j] - m[j]) ** 2 * b[k, n], k)", "p b m y", ["p_operand[k, j]"]),
        ("sum((p[k, j] - m[j]) * b[k, n] * (p[k, j] - m[j]), k)", "p b m y", ["p_operand[k, j]"]),
        ("sum(a[j, k] / w[k] * b[k, n] / s[n], k)", "a b w s y", ["a_operand[j, k]"]),
        ("sum(a[j, k] / m[j] * b[k, n] / s[n], k)", "a b m s y", []),
        ("sum(-(a[j, k] * w[k] * b[k, n]), k)", "a b w y", ["a_operand[j, k]"]),
        ("sum(a[j, k] * w[k] * (b[k, n] - s[n]), k)", "a b w s y", ["b_operand[k, n]"]),
        ("sum((a[j, k] if a[j, k] > m[j] else 1.0) * b[k, n], k)", "a b m y", ["a_operand[j, k]"]),
        ("sum(a[j, k] * cos(k * n * 0.1), k)", "a y", ["y_operand[k, n]"]),
        ("sum(a[i[j], k] * b[k, n], k)", "a i b y", ["a_unfolded[j, k]"]),
        ("sum(exp(a[j, k]) * b[k, n], k, where=k <= j)", "a b y", ["a_operand[j, k]"]),
        ("sum(a[j, k] * b[k, n] / 8, k)", "a b y", []),
        ("sum(a[j, k] * (b[k, n] + d[k, n]), k)", "a b d y", ["b_operand[k, n]"]),
    ],
)
def test_each_factor_that_is_no_matrix_is_stored(value, arrays, stored):
    assert launches(f"y[j, n] = {value}", arrays=arrays) == [*stored, "y[j, n]"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("o", "w", "stored"),
    [
        ("o[b, h, t, d]", "w[e, h, d]", ["o_unfolded[b, t, h, d]"]),
        ("o[b, t, h, d]", "w[h, e, d]", ["w_unfolded[h, d, e]"]),
        ("o[b, t, h, d]", "w[d, h, e]", ["w_unfolded[h, d, e]"]),
        ("o[b, h, t, d]", "w[h, e, d]", ["o_unfolded[b, t, h, d]", "w_unfolded[h, d, e]"]),
        ("o[b, t, h, d]", "w[e, h, d]", []),
    ],
)
def test_of_two_matrices_only_those_with_dimensions_apart_are_stored(o, w, stored):
    """Attention's output projection, over heads and their channels."""
    extents = {"b": 3, "h": 4, "t": 131, "d": 24, "e": 97}
    shapes = {read[0]: ", ".join(str(extents[i]) for i in read[2:-1].split(", ")) for read in (o, w)}
    arrays = "".join(f"  {name}: {{shape: [{shape}], dtype: float32}}\n" for name, shape in shapes.items())
    (spec,) = load_text(
        f"cugen: 1\nkernel: f\narrays:\n{arrays}  y: {{shape: [3, 131, 97], dtype: float32}}\n"
        f"compute: y[b, t, e] = sum({o} * {w}, h, d)\n"
    )
    kernel = generate(spec, analysis=False)
    launched = [text.split(" = ")[0] for launch in kernel.plan.kernels for text in launch.computes]
    assert launched == [*stored, "y[b, t, e]"]
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1))
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "lines",
    [
        ["m[j] = mean(a[k, j], k)", "y[j, n] = sum((a[k, j] - m[j]) * (a[k, n] - m[n]), k) / (K - 1)"],
        ["m[j] = mean(a[k, j], k)", "c[k, j] = a[k, j] - m[j]", "y[j, n] = sum(c[k, j] * c[k, n], k) / (K - 1)"],
    ],
    ids=["inline", "temporary"],
)
def test_a_matrix_that_both_operands_are_is_stored_once(lines, monkeypatch):
    monkeypatch.setitem(SHAPES, "a", "[K, M]")
    monkeypatch.setitem(SHAPES, "y", "[M, M]")
    stored = launches(*lines, arrays="a y", sizes="M: 97, K: 331")
    assert stored[-2:] == ["a_operand[k, j]", "y[j, n]"]


def test_means_in_both_operands_are_stored_once(monkeypatch):
    monkeypatch.setitem(SHAPES, "a", "[K, M]")
    monkeypatch.setitem(SHAPES, "y", "[M, M]")
    value = "sum((a[k, j] - mean(a[l, j], l)) * (a[k, n] - mean(a[l, n], l)), k)"
    stored = launches(f"y[j, n] = {value}", arrays="a y", sizes="M: 97, K: 331")
    assert [name.split("[")[0] for name in stored].count("y_weights") == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("value", "sizes", "gemm"),
    [
        ("sum(exp(a[j, k]) * b[k, n], k)", "M: 67, N: 97, K: 30", []),
        ("sum(exp(a[j, k]) * b[k, n], k)", "M: 6700, N: 15, K: 331", []),
        ("sum(exp(a[j, k]) * b[k, n], k)", "M: 31, N: 33, K: 331", []),
        ("sum(exp(a[j, k] - b[k, n]) * b[k, n], k)", "M: 67, N: 97, K: 331", ["y[j, n]"]),
    ],
    ids=[
        "short sums",
        "few columns",
        "few multiply-adds",
        "an operand over both",
    ],
)
def test_what_does_not_pay_off_or_is_no_product_of_operands_is_one_launch(value, sizes, gemm):
    assert launches(f"y[j, n] = {value}", sizes=sizes) == gemm


def test_an_operand_that_is_out_of_bounds_where_it_is_not_used_is_stored_with_zeros_there():
    value = "sum(exp(a[j - 1, k]) * b[k, n], k) if j > 0 else 0.0"
    assert launches(f"y[j, n] = {value}", sizes="M: 67, N: 97, K: 331") == ["a_operand[j, k]", "y[j, n]"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operand", "x", "stored"),
    [
        ("cast((x[m, k] >> 4) & 15, int32) - 8", "uint8", "int8"),
        ("(x[m, k] > 0.5)", "float32", "int8"),
        ("(cast(x[m, k], int32) - 3) // 2", "uint8", "int8"),
        ("(x[m, k] - m)", "int8", "int32"),
        ("(cast((x[m, k] >> 2) & 3, int8) - 1)", "uint8", "int8"),
    ],
)
def test_an_operand_of_integers_is_stored_in_the_narrowest_type_that_holds_it(operand, x, stored):
    (spec,) = load_text(f"""
cugen: 1
kernel: f
params: {{M: 133, N: 121, K: 146}}
arrays:
  x: {{shape: [M, K], dtype: {x}}}
  b: {{shape: [N, K], dtype: int8}}
  y: {{shape: [M, N], dtype: int32}}
compute: y[m, n] = cast(sum(({operand}) * b[n, k], k), int32)
""")
    kernel = generate(spec, analysis=False)
    types = {array.name: array.dtype.name for array in kernel.context.spec.arrays}
    assert types["x_operand"] == stored
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_a_factor_that_occurs_twice_is_multiplied_twice():
    (spec,) = load_text(
        "cugen: 1\nkernel: f\nparams: {K: 40, M: dynamic}\narrays:\n  x: {shape: [K, M], dtype: float32}\n"
        "  w: {shape: [K], dtype: float32}\n  y: {shape: [M, M], dtype: float32}\n"
        "compute: y[i, j] = sum(x[k, i] * w[k] * (x[k, j] * w[k]), k)\n"
    )
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels][-1] == "gemm"
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1), params={"M": 19})
    assert run.verification.passed, "\n".join(run.verification.messages)
