"""Peers mean what their specs mean: the text for NumPy, run here, against the reference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cugen.bench.libraries import function_of
from cugen.bench.translation.dialects import NoPeer, NumPy, Torch
from cugen.bench.translation.translate import translate
from cugen.reference.evaluate import evaluate
from cugen.runtime.inputs import draw, known_params, shape_of
from cugen.spec.load import load_all, load_text
from cugen.spec.model import Spec

SPECS = Path(__file__).parents[3] / "specs"


def spec_of(compute: str, arrays: dict[str, str], more: str = "") -> Spec:
    lines = ["cugen: 1", "kernel: k", *filter(None, [more]), "arrays:"]
    lines += [f"  {name}: {{{text}}}" for name, text in arrays.items()]
    (spec,) = load_text("\n".join([*lines, "compute: |", *(f"  {line}" for line in compute.splitlines())]) + "\n")
    return spec


def check(spec: Spec, dynamic: dict[str, int] | None = None) -> str:
    """The peer's text, after its results were found within what the reference allows."""
    params = known_params(spec, dynamic or {})
    inputs = draw(spec, params, 3)
    program = translate(spec, params, inputs.scalars, NumPy("numpy"))
    baked: dict[str, Any] = {
        a.name: np.array(a.values.data, a.dtype.name).reshape(shape_of(a, params)) for a in spec.arrays if a.values
    }
    given = {**inputs.arrays, **baked}
    peer = function_of(program.source, "<peer>", {"numpy": np})
    results = peer(*(given[name].copy() for name in program.inputs))
    expected = evaluate(spec, inputs.arrays, params=dynamic or {}, scalars=inputs.scalars)
    for name, got in zip(program.outputs, results, strict=True):
        want = expected[name]
        assert got.dtype == want.value.dtype
        assert got.shape == want.value.shape
        assert got.flags.c_contiguous
        # NumPy rounds after each operation, so a few more roundings than a kernel's are allowed.
        rounding = 5e-2 if got.dtype == np.float16 else 1e-6
        near = np.abs(got.astype(np.float64) - want.exact) <= 8 * want.bound + rounding * (1 + np.abs(want.exact))
        assert np.all(want.accepts(got) | near)
    return program.source


F, INT, U = "dtype: float32", "dtype: int32", "dtype: uint8"
FORMS = {
    "a copy": ("y[i] = x[i]", {"x": f"shape: [7], {F}", "y": f"shape: [7], {F}"}, ""),
    "a transpose": ("y[j, i] = x[i, j]", {"x": f"shape: [3, 5], {F}", "y": f"shape: [5, 3], {F}"}, ""),
    "four dimensions": (
        "y[n, h, w, c] = x[n, c, h, w]",
        {"x": f"shape: [2, 3, 4, 5], {F}", "y": f"shape: [2, 4, 5, 3], {F}"},
        "",
    ),
    "both orders of one sum": (
        "y[i, j] = x[i, j] + x[j, i] * 2",
        {"x": f"shape: [4, 4], {F}", "y": f"shape: [4, 4], {F}"},
        "",
    ),
    "operands that lack axes": (
        "y[i, j, k] = a[j] * b[i, k] + c[k]",
        {"a": f"shape: [4], {F}", "b": f"shape: [3, 5], {F}", "c": f"shape: [5], {F}", "y": f"shape: [3, 4, 5], {F}"},
        "",
    ),
    "a value repeated": ("y[i, j] = x[j]", {"x": f"shape: [5], {F}", "y": f"shape: [3, 5], {F}"}, ""),
    "strides and shifts": (
        "y[i] = x[2 * i + 1] - x[2 * i]",
        {"x": f"shape: [12], {F}", "y": f"shape: [6], {F}"},
        "",
    ),
    "backwards": ("y[i] = x[9 - i]", {"x": f"shape: [10], {F}", "y": f"shape: [10], {F}"}, ""),
    "every third backwards": ("y[i] = x[9 - 3 * i]", {"x": f"shape: [10], {F}", "y": f"shape: [4], {F}"}, ""),
    "a corner of an array": (
        "y[i, j] = x[i, j + 2]",
        {"x": f"shape: [8, 9], {F}", "y": f"shape: [5, 7], {F}"},
        "indices: {i: 5}",
    ),
    "one number": ("y = sum(x[i] * x[i], i)", {"x": f"shape: [9], {F}", "y": f"shape: [], {F}"}, ""),
    "one element": ("y[0] = max(x[i], i)", {"x": f"shape: [9], {F}", "y": f"shape: [1], {F}"}, ""),
    "a product of vectors": (
        "y = sum(a[i] * b[i], i)",
        {"a": f"shape: [9], {F}", "b": f"shape: [9], {F}", "y": f"shape: [], {F}"},
        "",
    ),
    "a matrix by a vector": (
        "y[i] = sum(A[i, k] * x[k], k)",
        {"A": f"shape: [6, 5], {F}", "x": f"shape: [5], {F}", "y": f"shape: [6], {F}"},
        "",
    ),
    "a transposed matrix by a vector": (
        "y[i] = sum(x[k] * A[k, i], k)",
        {"A": f"shape: [6, 5], {F}", "x": f"shape: [6], {F}", "y": f"shape: [5], {F}"},
        "",
    ),
    "a product with a factor": (
        "C[b, m, n] = 0.5 * sum(A[b, k, m] * B[k, n], k)",
        {"A": f"shape: [2, 4, 3], {F}", "B": f"shape: [4, 5], {F}", "C": f"shape: [2, 3, 5], {F}"},
        "",
    ),
    "sums over two of three": (
        "y[j] = mean(x[i, j, k], i, k)",
        {"x": f"shape: [3, 4, 5], {F}", "y": f"shape: [4], {F}"},
        "",
    ),
    "narrow integers": ("y[i] = sum(x[i, j], j)", {"x": f"shape: [4, 50], {U}", "y": f"shape: [4], {INT}"}, ""),
    "a sum with a condition": (
        "y[i] = sum(x[i, j], j, where=j <= i)",
        {"x": f"shape: [5, 5], {F}", "y": f"shape: [5], {F}"},
        "",
    ),
    "a maximum with a condition": (
        "y[i] = max(x[i, j], j, where=x[i, j] < 0.5)",
        {"x": f"shape: [5, 9], {F}", "y": f"shape: [5], {F}"},
        "",
    ),
    "any and all": (
        "y[i] = any(x[i, j] > 0.9, j)\nz[i] = all(x[i, j] > -0.9, j)",
        {"x": f"shape: [9, 6], {F}", "y": "shape: [9], dtype: bool", "z": "shape: [9], dtype: bool"},
        "",
    ),
    "the place of the least": (
        "y[i] = argmin(x[i, j], j)",
        {"x": f"shape: [5, 9], {F}", "y": f"shape: [5], {INT}"},
        "",
    ),
    "a scan backwards": (
        "y[i, j] = cumsum(x[i, j], i, reverse=true)",
        {"x": f"shape: [5, 4], {F}", "y": f"shape: [5, 4], {F}"},
        "",
    ),
    "an exclusive scan": (
        "y[i, j] = cumsum(x[i, j], j, exclusive=true)",
        {"x": f"shape: [5, 4], {INT}", "y": f"shape: [5, 4], {INT}"},
        "",
    ),
    "a running maximum": ("y[i] = cummax(x[i], i)", {"x": f"shape: [9], {F}", "y": f"shape: [9], {F}"}, ""),
    "log_softmax": (
        "y[j, i] = log_softmax(x[i, j], i)",
        {"x": f"shape: [6, 4], {F}", "y": f"shape: [4, 6], {F}"},
        "",
    ),
    "a window with taps that are given": (
        "y[i] = sum(w[r] * x[i + r - 1], r)",
        {"x": f"shape: [9], {F}, boundary: reflect", "w": f"shape: [3], {F}", "y": f"shape: [9], {F}"},
        "",
    ),
    "a window that wraps": (
        "y[i, j] = x[i - 2, j] + x[i + 1, j - 1]",
        {"x": f"shape: [5, 6], {F}, boundary: wrap", "y": f"shape: [5, 6], {F}"},
        "",
    ),
    "a pool": (
        "y[i, j] = max(x[2 * i + r, 2 * j + s], r, s)",
        {"x": f"shape: [8, 6], {F}", "y": f"shape: [4, 3], {F}"},
        "indices: {r: 2, s: 2}",
    ),
    "a value outside": (
        "y[i] = x[i - 1] + x[i + 2]",
        {"x": f"shape: [6], {F}, boundary: {{value: 3.5}}", "y": f"shape: [6], {F}"},
        "",
    ),
    "an index's own value": (
        "y[i, j] = x[i, j] if i + j > 4 else 0 - i",
        {"x": f"shape: [5, 4], {F}", "y": f"shape: [5, 4], {F}"},
        "",
    ),
    "integers of all kinds": (
        "y[i] = (a[i] // 3 + a[i] % 5) ^ (b[i] << 2) | ~a[i] & 15",
        {"a": f"shape: [9], {INT}", "b": f"shape: [9], {INT}", "y": f"shape: [9], {INT}"},
        "",
    ),
    "a type of its own for the output": (
        "y[i] = cast(100 * x[i], int8)\nz[i] = x[i]",
        {"x": f"shape: [9], {F}", "y": "shape: [9], dtype: int8", "z": "shape: [9], dtype: float16"},
        "",
    ),
    "a fused chain": (
        "t[m, n] = x[m, n] + bias[n]\ny[m, n] = relu(t[m, n]) * gate[m]",
        {
            "x": "shape: [5, 9], dtype: float16",
            "bias": f"shape: [9], {F}",
            "gate": f"shape: [5], {F}",
            "y": "shape: [5, 9], dtype: float16",
        },
        "",
    ),
    "old contents": ("y[i] += 2 * x[i]", {"x": f"shape: [9], {F}", "y": f"shape: [9], {F}"}, ""),
    "names that Python has taken": (
        "lambda[i] = numpy[i] + 1",
        {"numpy": f"shape: [5], {F}", "lambda": f"shape: [5], {F}"},
        "",
    ),
    "a mean that two statements need": (
        "m[i] = mean(x[i, j], j)\ny[i, j] = (x[i, j] - m[i]) / sqrt(var(x[i, k], k) + 0.1)",
        {"x": f"shape: [3, 8], {F}", "y": f"shape: [3, 8], {F}"},
        "",
    ),
    "functions that NumPy calls otherwise": (
        "y[i] = sin(x[i]) + atan2(x[i], 2.0) + rsqrt(x[i] + 2) + cbrt(x[i]) + asin(x[i]) + fma(x[i], 2.0, x[i])",
        {"x": f"shape: [9], {F}", "y": f"shape: [9], {F}"},
        "",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_means_the_same_in_numpy(name: str) -> None:
    compute, arrays, more = FORMS[name]
    check(spec_of(compute, arrays, more))


GALLERY = [pytest.param(path, id=path.stem) for path in sorted(SPECS.glob("*.yaml"))]
WITHOUT = {
    "autocorrelation": "a window of 5000 elements",
    "bias_relu": "numpy has no bfloat16",
    "conv_channels_last": "numpy has no bfloat16",
    "conv_weight_gradient": "a window of 120 elements",
    "conv_wgmma_bf16": "numpy has no bfloat16",
    "enlarge": "between its elements",
    "gather": "a gather",
    "gemm_tensor_bf16": "numpy has no bfloat16",
    "gemm_tensor_fp8": "numpy has no (float8_e4m3|float8_e5m2|bfloat16)",
    "gemm_wgmma_bf16": "numpy has no bfloat16",
    "gemm_wgmma_fp8": "numpy has no float8_e4m3",
    "gemm_wgmma_no_producer": "numpy has no bfloat16",
    "gemm_wgmma_split": "numpy has no bfloat16",
    "histogram": "an intermediate array far larger",
    "group_means": "an intermediate array far larger",
    "table_gradient": "an intermediate array far larger",
    "tone_curve": "a gather",
    "conv_transposed": "`//`",
    "gelu_variants": "numpy has no erf",
    "product_ladder_bf16": "numpy has no bfloat16",
    "matmul_lower_triangular": "far larger",
    "n_body": "a part of an array",
}


@pytest.mark.sampled(12)
@pytest.mark.whole
@pytest.mark.parametrize("path", GALLERY)
def test_the_gallery_means_the_same_in_numpy_or_says_why_not(path: Path) -> None:
    for spec in load_all(path):
        sizes = {p.name: 64 for p in spec.params if p.is_dynamic}
        if path.stem in WITHOUT:
            with pytest.raises(NoPeer, match=WITHOUT[path.stem]):
                check(spec, sizes)
        else:
            check(spec, sizes)


def torch_text(compute: str, arrays: dict[str, str], more: str = "") -> str:
    spec = spec_of(compute, arrays, more)
    return translate(spec, known_params(spec, {}), {}, Torch()).source


def test_pytorch_s_own_functions_are_named() -> None:
    matrices = {"x": f"shape: [4, 9], {F}", "y": f"shape: [4, 9], {F}"}
    assert "y = torch.softmax(x, 1)\n" in torch_text("y[i, j] = softmax(x[i, j], j)", matrices)
    assert "y = torch.log_softmax(x, 0)\n" in torch_text("y[i, j] = log_softmax(x[i, j], i)", matrices)
    assert "y = torch.cumsum(x, 1, dtype=torch.float32)\n" in torch_text("y[i, j] = cumsum(x[i, j], j)", matrices)
    assert "torch.matmul(A.mT, B)" in torch_text(
        "C[m, n] = sum(A[k, m] * B[k, n], k)",
        {"A": f"shape: [4, 5], {F}", "B": f"shape: [4, 6], {F}", "C": f"shape: [5, 6], {F}"},
    )
    assert "torch.mv(A.t(), x)" in torch_text(
        "y[m] = sum(A[k, m] * x[k], k)",
        {"A": f"shape: [4, 5], {F}", "x": f"shape: [4], {F}", "y": f"shape: [5], {F}"},
    )


def test_windows_are_convolutions_and_pools_in_pytorch() -> None:
    arrays = {
        "x": f"shape: [2, 8, 9, 10], {F}, boundary: zero",
        "w": f"shape: [8, 3, 3], {F}",
        "y": f"shape: [2, 8, 9, 10], {F}",
    }
    text = torch_text("y[n, c, p, q] = sum(w[c, r, s] * x[n, c, p + r - 1, q + s - 1], r, s)", arrays)
    assert "torch.nn.functional.conv2d(x, w[:, None, :, :], padding=(1, 1), groups=8)" in text
    arrays |= {"w": f"shape: [5, 8, 3, 3], {F}", "y": f"shape: [2, 5, 4, 5], {F}"}
    text = torch_text("y[n, o, p, q] = sum(w[o, c, r, s] * x[n, c, 2 * p + r - 1, 2 * q + s - 1], c, r, s)", arrays)
    assert "conv2d(" in text
    assert "stride=(2, 2)" in text
    pool = {"x": f"shape: [3, 8, 6], {F}", "y": f"shape: [3, 4, 3], {F}"}
    text = torch_text("y[c, i, j] = max(x[c, 2 * i + r, 2 * j + s], r, s)", pool, "indices: {r: 2, s: 2}")
    assert "torch.nn.functional.max_pool2d(x[None, :], (2, 2), stride=(2, 2))" in text


@pytest.mark.parametrize(
    ("compute", "arrays", "reason"),
    [
        ("y[i] = x[i // 2]", {"x": f"shape: [5], {F}", "y": f"shape: [10], {F}"}, "`//`"),
        ("y[i] = x[i, i]", {"x": f"shape: [5, 5], {F}", "y": f"shape: [5], {F}"}, "diagonal"),
        ("y[2 * i] = x[i]\ny[2 * i + 1] = x[i]", {"x": f"shape: [5], {F}", "y": f"shape: [10], {F}"}, "part"),
        ("y[i] = 3", {"y": f"shape: [5], {F}"}, "constant"),
    ],
)
def test_what_no_user_would_write_has_no_peer(compute: str, arrays: dict[str, str], reason: str) -> None:
    spec = spec_of(compute, arrays, "indices: {i: 5}" if "2 * i" in compute else "")
    with pytest.raises(NoPeer, match=reason):
        translate(spec, {}, {}, Torch())


def test_numbers_that_python_cannot_spell_are_spelled() -> None:
    arrays = {"x": f"shape: [5], {F}", "y": f"shape: [5], {F}"}
    source = check(spec_of("y[i] = maximum(x[i], -inf) if x[i] < inf else 0.0", arrays))
    assert str(-math.inf) in source
