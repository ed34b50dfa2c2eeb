"""A product of a float32 temporary and 16-bit values is named, with the declaration that tensor cores take at once."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.kernel_types import type_warnings
from cugen.spec.load import load_text

LAYERS = """cugen: 1
kernel: layers
target: {target}
params: {{M: 64, K: 96, H: 128, N: 64}}
arrays:
  x: {{shape: [M, K], dtype: {dtype}}}
  w: {{shape: [H, K], dtype: {dtype}}}
  v: {{shape: [N, H], dtype: {second}}}
  y: {{shape: [M, N], dtype: float32}}
compute: |
  h[m, i] = relu(sum(x[m, k] * w[i, k], k))
  y[m, n] = {value}
"""
PRODUCT = "sum(h[m, i] * v[n, i], i)"


def warnings(target: str = "sm_90", dtype: str = "bfloat16", second: str = "", value: str = PRODUCT):
    return of(LAYERS.format(target=target, dtype=dtype, second=second or dtype, value=value))


def of(text: str):
    return type_warnings(generate(load_text(text)[0], analysis=False))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("target", "dtype"),
    [("sm_75", "float16"), ("sm_80", "bfloat16"), ("sm_89", "float8_e4m3"), ("sm_90a", "float16")],
)
def test_a_temporary_that_is_wider_is_named(target, dtype):
    (warning,) = warnings(target, dtype)
    assert warning.code == "CG2112"
    assert f"float32 and {dtype} in `y`" in warning.message
    assert f"`h: {{shape: [M, H], dtype: {dtype}, memory: scratch}}`" in warning.help


@pytest.mark.slow
def test_both_orders_of_the_factors_and_sums_with_more_are_seen():
    assert len(warnings(value="1 + 2 * sum(v[n, i] * h[m, i], i)")) == 1
    assert len(warnings(value=f"{PRODUCT} + sum(v[n, i] * h[m, i], i)")) == 1


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"dtype": "float32"}, id="float32 throughout"),
        pytest.param({"second": "float32"}, id="float32 in the second product"),
        pytest.param({"target": "sm_70", "dtype": "float16"}, id="a target without tensor cores for them"),
        pytest.param({"value": "sum(h[m, i] + v[n, i], i)"}, id="no product"),
        pytest.param({"value": "max(h[m, i] * v[n, i], i)"}, id="no sum"),
        pytest.param({"dtype": "int8"}, id="integers"),
    ],
)
def test_other_products_are_not(case):
    assert warnings(**case) == ()


def test_the_declaration_cures_it():
    text = LAYERS.format(target="sm_90a", dtype="bfloat16", second="bfloat16", value=PRODUCT)
    (warning,) = of(text)
    declared = re.search(r"`(h: .*?)` under", warning.help).group(1)
    kernel = generate(load_text(text.replace("compute:", f"  {declared}\ncompute:"))[0], analysis=False)
    assert type_warnings(kernel) == ()
    assert [launch.family for launch in kernel.plan.kernels] == ["wgmma", "wgmma"]


def test_weights_that_stay_in_registers_are_not():
    text = """cugen: 1
kernel: attention
target: sm_90
params: {M: 200, N: 200, D: 64}
arrays:
  q: {shape: [M, D], dtype: float16}
  k: {shape: [N, D], dtype: float16}
  v: {shape: [N, D], dtype: float16}
  o: {shape: [M, D], dtype: float16}
schedule: {family: FAMILY}
compute: |
  p[i, j] = softmax(sum(q[i, c] * k[j, c], c), j)
  o[i, d] = sum(p[i, j] * v[j, d], j)
"""
    assert of(text.replace("FAMILY", "attention")) == ()
    assert len(of(text.replace("schedule: {family: FAMILY}\n", "").replace("target: sm_90", "target: sm_75"))) == 1
