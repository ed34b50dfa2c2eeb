"""Products of rows that begin anywhere with a row that all share: its aligned vectors are shifted."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from cugen.kernel import generate
from cugen.plan.alignment import unaligned
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def product(
    count: int | str, dtype: str, value: str = "sum(x[m, k] * w[k], k)", *, rows: int = 4000, more: str = ""
) -> str:
    return f"""cugen: 1
kernel: k
target: sm_90
params: {{M: {rows}, K: {count}}}
arrays:
  x: {{shape: [M, K], dtype: {dtype}}}
  w: {{shape: [K], dtype: {dtype}}}{more}
  y: {{shape: [M], dtype: float32}}
compute: y[m] = {value}
"""


VALUES = "\n  v: {shape: [K], dtype: float16}"


def loads(text: str, array: str = "w") -> Counter[int]:
    """The widths of the loads of an array, and how many there are in the kernel."""
    (kernel,) = generate(load_text(text)[0], analysis=False).plan.kernels
    return Counter(access.width for access in accesses(kernel.body) if access.array.name == array)


@pytest.mark.covering
@pytest.mark.parametrize(("dtype", "width"), [("bfloat16", 8), ("float16", 8), ("int8", 16)])
@pytest.mark.parametrize("count", [3001, 40_001, "dynamic"])
def test_two_aligned_vectors_have_the_elements_of_one(count, dtype, width):
    text = product(count, dtype, "sum(cast(x[m, k], float32) * cast(w[k], float32), k)")
    assert loads(text)[width] >= 2
    assert loads(text)[width] == 2 * loads(text, "x")[width]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(product(3001, "float32"), id="elements of a word"),
        pytest.param(product(3001, "bfloat16").replace("[K]", "[M, K]").replace("w[k]", "w[m, k]"), id="own rows"),
        pytest.param(product(3001, "bfloat16", "sum(x[m, k] * w[k], k, where=x[m, k] > 0)"), id="a condition"),
        pytest.param(product(3001, "float16").replace("sm_90", "sm_30"), id="no funnel shifts"),
        pytest.param(product(3000, "bfloat16"), id="aligned rows"),
    ],
)
def test_others_are_not_shifted(text):
    assert "funnel_shift" not in generate(load_text(text)[0], analysis=False).source


@pytest.mark.covering
@pytest.mark.parametrize(
    ("count", "rows"), [(301, 4000), (3007, 4000), (40_001, 4000), ("dynamic", 4000), ("dynamic", 4), (999_999, 4)]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_every_access_is_proved_inside_and_aligned(count, rows, dtype):
    text = product(count, dtype, "sum(cast(x[m, k], float32) * cast(w[k], float32), k)", rows=rows)
    kernel = generate(load_text(text)[0])
    assert "funnel_shift(w" in kernel.source
    assert not [access for k in kernel.plan.kernels for access in unaligned(k.body, kernel.plan.context)]
    (proved, total) = re.search(r"// bounds +(\d+) of (\d+) accesses proved", kernel.source).groups()
    assert proved == total


@pytest.mark.sampled(33)
@pytest.mark.parametrize(
    "value", ["sum(x[m, k] * w[k], k)", "sum(x[m, k] * w[k] * (k % 3), k)", "max(x[m, k] + w[k], k)"]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
@pytest.mark.parametrize("count", [257, 270, 513, 1031, 2999, 20_003])
def test_results_are_right(count, dtype, value):
    value = value.replace("x[m, k]", "cast(x[m, k], float32)")
    (spec,) = load_text(product(count, dtype, value, rows=17))
    kernel = generate(spec, analysis=False)
    assert "funnel_shift(w" in kernel.source
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True))
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("rows", [11, 1500])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 23, 24, 100, 1003])
def test_rows_of_any_length_are_right(count, rows):
    value = "sum(x[m, k] * w[k], k) + max(x[m, k] * v[k], k)"
    (spec,) = load_text(product("dynamic", "bfloat16", value, rows=rows, more=VALUES))
    kernel = generate(spec, analysis=False)
    assert "funnel_shift(w" in kernel.source
    assert "funnel_shift(v" in kernel.source
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), params={"K": count})
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.parametrize(
    ("row", "shared", "width"),
    [("int8", "float16", 8), ("int8", "float32", 4), ("bfloat16", "float32", 4), ("float32", "float64", 2)],
)
def test_wider_elements_that_all_rows_share_are_loaded_in_vectors(row, shared, width):
    text = product(3001, row).replace(f"w: {{shape: [K], dtype: {row}}}", f"w: {{shape: [K], dtype: {shared}}}")
    assert loads(text)[width] == 2 * loads(text, "x")[width] >= 2
    (spec,) = load_text(text.replace("M: 4000", "M: 17"))
    kernel = generate(spec, analysis=False)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_rows_that_begin_where_vectors_may_have_no_head_for_wider_elements_of_another_array():
    text = product(4096, "int8").replace("w: {shape: [K], dtype: int8}", "w: {shape: [K], dtype: float32}")
    assert loads(text) == loads(text, "x") == Counter({4: loads(text)[4]})
