"""tanh(softplus(x)) is a quotient, however it is spelt, and as exact as its functions allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.reference.evaluate import evaluate
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.expressions import Op, walk
from cugen.spec.load import load_text

SPELLINGS = (
    "tanh(softplus(x[i]))",
    "tanh(log(1 + exp(x[i])))",
    "tanh(log(exp(x[i]) + 1))",
    "tanh(log1p(exp(x[i])))",
    "tanh(maximum(x[i], 0) + log1p(exp(-abs(x[i]))))",
    "tanh(log1p(exp(-abs(x[i]))) + maximum(0, x[i]))",
)
OTHERS = (
    "tanh(log(2 + exp(x[i])))",
    "tanh(maximum(x[i], 1) + log1p(exp(-abs(x[i]))))",
    "tanh(maximum(x[i], 0) + log1p(exp(-abs(2 * x[i]))))",
    "log(1 + exp(x[i]))",
)


def spec_of(value: str, dtype: str = "float32"):
    array = f"{{shape: [401], dtype: {dtype}}}"
    text = f"cugen: 1\nkernel: f\narrays: {{x: {array}, y: {array}}}\ncompute: y[i] = {value}\n"
    return load_text(text)[0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_a_quotient(spelling, dtype):
    value = with_canonical_expressions(spec_of(spelling, dtype)).statements[0].value
    assert {node.name for node in walk(value) if isinstance(node, Op)} == {"div", "mul", "add", "exp", "minimum"}


@pytest.mark.parametrize("value", OTHERS)
def test_other_functions_stay(value):
    spec = spec_of(value)
    assert with_canonical_expressions(spec) is spec


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_quotient_is_exact_to_a_few_units(dtype):
    spec = with_canonical_expressions(spec_of(SPELLINGS[0], dtype))
    x = np.concatenate([np.linspace(-100, 100, 398), [np.inf, -np.inf, np.nan]]).astype(dtype)
    result = evaluate(spec, {"x": x})["y"].value
    expected = [gate(float(value)) for value in x]
    assert np.allclose(result, np.array(expected, dtype), rtol=4 * np.finfo(dtype).eps, atol=0, equal_nan=True)


def gate(x: float) -> float:
    """tanh(log(1 + exp(x))), without cancellation: 1 - 2 / (g + 2) of large x, else g / (g + 2)."""
    if x > 40:
        return 1.0
    e = math.exp(x)
    g = e * e + 2 * e
    return g / (g + 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spelling", SPELLINGS[:3])
def test_mish_is_right(spelling):
    kernel = generate(spec_of(f"x[i] * {spelling}"), analysis=False)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed
