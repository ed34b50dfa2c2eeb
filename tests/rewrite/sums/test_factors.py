"""Factors that all terms of a sum have are multiplied once, after it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.reference.evaluate import evaluate
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

M, N, K = 5, 7, 11
ARRAYS = {
    "a": ((M, K), "float32"),
    "b": ((N, K), "float32"),
    "r": ((M,), "float32"),
    "i": ((M, K), "int32"),
    "u": ((M,), "uint32"),
    "e": ((M, K), "int8"),
    "q": ((M,), "int8"),
}


def spec_of(value: str, dtype: str = "float32"):
    arrays = [
        f"  {name}: {{shape: {list(shape)}, dtype: {of_array}}}"
        for name, (shape, of_array) in ARRAYS.items()
        if f"{name}[" in value
    ]
    scalars = ["scalars: {s: {dtype: float32, value: -0.75}}"] if re.search(r"\bs\b", value) else []
    lines = ["cugen: 1", "kernel: f", *scalars, "arrays:", *arrays]
    y = f"  y: {{shape: [{M}, {N}], dtype: {dtype}}}"
    (spec,) = load_text("\n".join([*lines, y, f"compute: y[m, n] = {value}"]))
    return spec


def value_of(value: str, dtype: str = "float32"):
    return with_canonical_expressions(spec_of(value, dtype)).statements[0].value


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("sum(s * a[m, k] * b[n, k], k)", "sum(a[m, k] * b[n, k], k) * s"),
        ("sum(0.125 * (b[n, k] * a[m, k]), k)", "sum(b[n, k] * a[m, k], k) * 0.125"),
        ("sum(a[m, k] * b[n, k] / 8, k)", "sum(a[m, k] * b[n, k], k) / 8"),
        ("sum(-a[m, k] * b[n, k], k)", "-sum(a[m, k] * b[n, k], k)"),
        ("sum(-(a[m, k] * -b[n, k]), k)", "sum(a[m, k] * b[n, k], k)"),
        ("sum(r[m] * a[m, k] / (1 + r[m] * r[m]), k)", "sum(a[m, k], k) * r[m] / (1 + r[m] * r[m])"),
        ("sum(a[m, k] / b[n, k] * r[m], k)", "sum(a[m, k] / b[n, k], k) * r[m]"),
        ("sum(sum(r[m] * a[m, k] * b[p, k], p), k)", "sum(a[m, k] * b[p, k], k, p) * r[m]"),
        ("mean(2 * a[m, k], k)", "sum(a[m, k], k) * 2 / 11.0"),
        ("sum(4 * a[m, k], k, where=k <= n)", "sum(a[m, k], k, where=k <= n) * 4"),
    ],
)
def test_a_factor_inside_has_the_form_of_one_outside_and_its_results(inside, outside):
    assert value_of(inside) == value_of(outside)
    spec, rng = spec_of(inside), np.random.default_rng(1)
    read = [array.name for array in spec.arrays if array.name != "y"]
    inputs = {name: rng.standard_normal(ARRAYS[name][0]).astype(np.float32) for name in read}
    assert evaluate(spec, inputs)["y"].accepts(evaluate(with_canonical_expressions(spec), inputs)["y"].value).all()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        pytest.param("sum(r[m] * a[m, k], k, where=k < n)", "float32", id="a read that a sum without terms lacks"),
        pytest.param("sum(s * a[m, k], k, where=k < n)", "float32", id="a scalar that may be infinite"),
        pytest.param("sum(0 * a[m, k], k, where=k < n)", "float32", id="zero"),
        pytest.param("max(2 * a[m, k], k)", "float32", id="a maximum"),
        pytest.param("prod(2 * a[m, k], k)", "float32", id="a product"),
        pytest.param("sum(1.5 / a[m, k], k)", "float32", id="no factor but a divisor would be left"),
        pytest.param("sum(a[m, k] / norm(b[p, k], p) + r[m], k)", "float32", id="no product"),
        pytest.param("sum(cast(q[m] * e[m, k], int8), k)", "int32", id="a product that wraps in 8 bits"),
    ],
)
def test_other_factors_stay(value, dtype):
    assert value_of(value, dtype) == spec_of(value, dtype).statements[0].value


def test_integers_wrap_alike():
    spec = spec_of("sum(i[m, k] * 3 * -i[m, k], k) + cast(sum(u[m] * cast(e[m, k], uint32), k), int32)", "int32")
    assert with_canonical_expressions(spec) != spec
    rng = np.random.default_rng(2)
    inputs = {
        "i": rng.integers(-(2**31), 2**31, (M, K), dtype=np.int32),
        "u": rng.integers(0, 2**32, M, dtype=np.uint32),
        "e": rng.integers(-128, 128, (M, K), dtype=np.int8),
    }
    wrapped = evaluate(with_canonical_expressions(spec), inputs)["y"].value
    assert np.array_equal(evaluate(spec, inputs)["y"].value, wrapped)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", ["sum(s * a[m, k] * b[n, k], k)", "sum(-a[m, k] * b[n, k] / 3, k)"])
def test_a_gemm_with_a_factor_inside_is_one_launch_on_tensor_cores(value):
    shapes = {"a": "[65, 72], dtype: bfloat16", "b": "[40, 72], dtype: bfloat16", "y": "[65, 40], dtype: float32"}
    scalars = ["scalars: {s: {dtype: float32, value: -0.75}}"] if "s *" in value else []
    arrays = [f"  {name}: {{shape: {shape}}}" for name, shape in shapes.items()]
    compute = [f"compute: y[m, n] = {value}", "schedule: {cores: tensor}"]
    (spec,) = load_text("\n".join(["cugen: 1", "kernel: f", *scalars, "arrays:", *arrays, *compute]))
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["gemm"]
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed
