"""Names of the user's that C, CUDA or the generated file itself have other uses for."""

from __future__ import annotations

import numpy as np
import pytest

import cugen
from cugen.spec.load import load_text
from cugen.spec.resolve.calls.functions import FUNCTIONS
from cugen.spec.types import DTYPES

TAKEN = """
    int class stream workspace memory status shared_memory Vector load store EOF NULL M_PI linux near half std dim3
    float4 y0 time gamma beta random index CUDART_INF_F cudaMalloc threadIdx row i_0 __x _X
"""
WORDS = (*TAKEN.split(), *FUNCTIONS, *DTYPES)
CALLED = (
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "gelu",
)


def sum_of(terms):
    groups = [" + ".join(terms[start : start + 15]) for start in range(0, len(terms), 15)]
    return " + ".join(f"({group})" for group in groups)


@pytest.mark.slow
def test_arrays_may_have_any_name():
    rng = np.random.default_rng(3)
    arrays = "\n".join(f"  {word}: {{shape: [N], dtype: float32}}" for word in (*WORDS, "out", "other"))
    calls = sum_of([f"{name}(1 + {name}[k])" for name in CALLED])
    (spec,) = load_text(
        f"cugen: 1\nkernel: crowded\nparams: {{N: 33}}\narrays:\n{arrays}\ncompute: |\n"
        f"  out[k] = {sum_of([f'{word}[k]' for word in WORDS])}\n"
        f"  other[k] = {calls} + maximum(maximum[k], 0.5) + float32[k] // 0.25 + sum(out[j], j)\n"
    )
    values = {word: rng.random(33, np.float32) for word in WORDS}
    result = cugen.run(cugen.generate(spec), device="cpu", **values)
    np.testing.assert_allclose(result["out"], sum(values.values()), rtol=1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["int", "stream", "workspace", "EOF"])
def test_params_scalars_and_indices_may_have_any_name(name):
    (spec,) = load_text(
        f"cugen: 1\nkernel: tried\nparams: {{{name}: dynamic}}\n"
        f"scalars: {{{name}_: {{dtype: float32, memory: constant}}}}\n"
        f"arrays:\n  x: {{shape: [{name}], dtype: float32}}\n  y: {{shape: [{name}], dtype: float32}}\n"
        f"  z: {{shape: [{name}], dtype: float32}}\n"
        f"compute: |\n  t[k] = exp(x[k]) * {name}_\n"
        f"  y[k] = t[k] + sum(minimum(t[j], 1), j)\n  z[k] = y[{name} - 1 - k]\n"
    )
    x = np.linspace(-1, 1, 21, dtype=np.float32)
    result = cugen.run(cugen.generate(spec), device="cpu", x=x, **{f"{name}_": 0.5})
    t = np.exp(x) * np.float32(0.5)
    np.testing.assert_allclose(result["y"], t + np.minimum(t, 1).sum(), rtol=1e-5)
    np.testing.assert_array_equal(result["z"], result["y"][::-1])
