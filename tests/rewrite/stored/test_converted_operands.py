"""Operands are stored in a type that holds their numbers, for tensor cores: of 8 bits in that of the other one, of 16,
those of two floats in a third one, and those of a float64 sum in float64."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.stored import converted_operands
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

PACKED = "(((w[n, k // 2] >> 4 * (k % 2)) & 15) - 8)"
TF32 = "accumulate: {tf32: true}"


def spec_of(value: str, x: str = "float16", w: str = "int8", sizes: str = "M: 256, N: 512, K: 512", more: str = ""):
    shape = "N, K // 2" if "k // 2" in value else "K, N" if "w[k, n]" in value else "N, K"
    (spec,) = load_text(f"""
cugen: 1
kernel: f
params: {{{sizes}}}
indices: {{k: K}}
arrays:
  x: {{shape: [M, K], dtype: {x}}}
  w: {{shape: [{shape}], dtype: {w}}}
  s: {{shape: [N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[m, n] = {value} + s[n]
{more}""")
    return spec


def launches(spec) -> list[tuple[str, str]]:
    plan = generate(spec, analysis=False).plan
    types = {array.name: array.dtype.name for array in plan.context.spec.arrays}
    return [(launch.family, types[launch.computes[0].split("[")[0]]) for launch in plan.kernels]


def on_tensor_cores(spec) -> bool:
    return any("tensor cores by" in reason for reason in generate(spec, analysis=False).plan.kernels[-1].reasons)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("x", "w", "value"),
    [
        ("int8", "int8", "s[n] * sum(cast(x[m, k], float32) * cast(w[n, k], float32), k)"),
        ("uint8", "int8", "sum(x[m, k] * (w[n, k] * s[n]), k)"),
        ("uint8", "uint8", "sum((cast(x[m, k], float32) - 128) * (1 + cast(w[n, k], float32)), k)"),
    ],
)
def test_float32_sums_of_small_integers_are_on_tensor_cores(x: str, w: str, value: str) -> None:
    spec = spec_of(value, x, w)
    assert launches(spec) == [("map", "float16"), ("map", "float16"), ("gemm", "float32")]
    assert on_tensor_cores(spec)


@pytest.mark.parametrize("value", ["cast(x[m, k], float32) - 0.5", "cast(x[m, k], float32) - 2049"])
def test_numbers_that_16_bits_may_not_hold_are_not_converted(value: str) -> None:
    assert not on_tensor_cores(spec_of(f"sum(({value}) * cast(w[n, k], float32), k)", "uint8", "int8"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("value", "x", "w"),
    [
        ("sum(x[m, k] * w[n, k], k)", "float16", "int8"),
        ("s[n] * sum(w[k, n] * x[m, k] / 4, k)", "bfloat16", "uint8"),
        ("sum(x[m, k] * w[n, k], k)", "bfloat16", "float8_e5m2"),
        (f"sum(x[m, k] * {PACKED}, k)", "float16", "uint8"),
        ("sum(x[m, k] * (2 * cast(w[n, k], float32) - 15), k)", "float16", "uint8"),
    ],
)
def test_a_gemm_of_16_and_8_bits_is_one_of_16_on_tensor_cores(value, x, w):
    spec = spec_of(value, x, w)
    assert launches(spec) == [("map", x), ("gemm", "float32")]
    assert on_tensor_cores(spec)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("x", "w", "more", "stored"),
    [
        pytest.param("float8_e4m3", "float8_e5m2", "target: sm_80", ["x_float16", "w_float16"], id="float8 on sm_80"),
        pytest.param("float8_e4m3", "int8", "target: sm_90", ["x_float16", "w_float16"], id="float8 and int8"),
        pytest.param("float32", "bfloat16", TF32, ["w_float32"], id="in tf32"),
        pytest.param("int8", "float32", TF32, ["x_float32"], id="integers in tf32"),
        pytest.param("float16", "bfloat16", TF32, ["x_float32", "w_float32"], id="floats of 16 bits in tf32"),
    ],
)
def test_a_third_type_may_hold_the_numbers_of_both(x: str, w: str, more: str, stored: list[str]) -> None:
    spec = spec_of("sum(x[m, k] * w[n, k], k)", x, w, more=more)
    assert [array.name for array in generate(spec, analysis=False).plan.workspace] == stored
    assert on_tensor_cores(spec)


@pytest.mark.parametrize(
    ("x", "w", "value"),
    [
        pytest.param("float8_e4m3", "float8_e4m3", "x[m, k] * w[n, k]", id="the instruction takes float8 on sm_90"),
        pytest.param("float32", "bfloat16", "x[m, k] * w[n, k]", id="the spec doesn't allow tf32"),
        pytest.param("float16", "float16", "cast(x[m, k], bfloat16) * w[n, k]", id="float16 doesn't hold bfloat16"),
    ],
)
def test_operands_without_such_a_type_stay(x: str, w: str, value: str) -> None:
    spec = spec_of(f"sum({value}, k)", x, w, more="target: sm_90")
    assert not [array for array in generate(spec, analysis=False).plan.workspace if array.dtype.name == "int8"]


FLOAT64_SUM = "accumulate: float64"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("x", "w", "stored"),
    [
        ("float32", "float32", ["x_float64", "w_float64"]),
        ("float32", "float64", ["x_float64"]),
        ("float64", "bfloat16", ["w_float64"]),
        ("float16", "float32", ["x_float64", "w_float64"]),
        ("int64", "float32", ["x_float64", "w_float64"]),
    ],
)
def test_a_float64_sum_of_shorter_types_is_one_of_float64_on_tensor_cores(x, w, stored):
    spec = spec_of("sum(x[m, k] * w[n, k], k)", x, w, more=f"{FLOAT64_SUM}\ntarget: sm_90")
    plan = generate(spec, analysis=False).plan
    assert [array.name for array in plan.workspace] == stored
    assert plan.kernels[-1].family == "gemm"
    assert on_tensor_cores(spec)


@pytest.mark.parametrize(
    ("x", "w", "target"),
    [("float64", "float64", "sm_90"), ("float32", "float32", "sm_86")],
)
def test_float64_sums_are_not_converted_without_need_or_tensor_cores_that_take_them(x, w, target):
    spec = spec_of("sum(x[m, k] * w[n, k], k)", x, w, more=f"{FLOAT64_SUM}\ntarget: {target}")
    assert len(generate(spec, analysis=False).plan.kernels) == 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("value", "x", "w"),
    [
        pytest.param("sum(x[m, k] * w[n, k], k)", "float32", "int8", id="no 16-bit operand"),
        pytest.param("sum(x[m, k] * w[n, k], k)", "float16", "int16", id="integers that float16 doesn't hold"),
        pytest.param("sum(x[m, k] * w[n, k], k)", "float16", "bfloat16", id="two types of 16 bits"),
        pytest.param("sum(x[m, k] * w[n, k], k, where=k <= n)", "float16", "int8", id="a condition"),
    ],
)
def test_other_gemms_have_no_converted_operand(value, x, w):
    spec = spec_of(value, x, w)
    assert "float16" not in [dtype.removeprefix("b") for family, dtype in launches(spec)]


def test_operands_of_rows_that_are_counted_at_launch_are_converted() -> None:
    spec = spec_of(
        "sum(x[m, k] * w[n, k], k)", "float8_e4m3", "float8_e4m3", "M: dynamic, N: 512, K: 512", "target: sm_80"
    )
    assert [array.name for array in generate(spec, analysis=False).plan.workspace] == ["x_float16", "w_float16"]
    assert on_tensor_cores(spec)


def test_few_rows_read_the_operand_as_it_is():
    spec = spec_of("sum(x[m, k] * w[n, k], k)", sizes="M: 8, N: 8192, K: 1024")
    assert [family for family, _ in launches(spec)] == ["skinny"]


@pytest.fixture
def without_minimum(monkeypatch):
    """Sizes that a CPU multiplies fast are converted, too."""
    monkeypatch.setattr(converted_operands, "_MIN_MULTIPLY_ADDS", 1)


SMALL = ["M: 127, N: 129, K: 66", "M: 128, N: 64, K: 258"]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SMALL)
@pytest.mark.parametrize(
    ("value", "w"), [("sum(x[m, k] * w[n, k], k)", "int8"), (f"sum(x[m, k] * {PACKED}, k)", "uint8")]
)
def test_results_at_edge_sizes_are_right(value, w, sizes, without_minimum):
    spec = spec_of(value, w=w, sizes=sizes)
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["map", "gemm"]
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.slow
@pytest.mark.parametrize(("x", "w"), [("float32", "float32"), ("float16", "float64")])
@pytest.mark.parametrize("sizes", SMALL)
def test_results_of_float64_sums_are_right(x, w, sizes, without_minimum):
    spec = spec_of("sum(w[k, n] * x[m, k], k)", x, w, sizes, FLOAT64_SUM)
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels][-1] == "gemm"
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "w", "more"), [("float8_e4m3", "float8_e5m2", "target: sm_80"), ("float16", "bfloat16", TF32)]
)
def test_results_in_a_third_type_are_right(x, w, more, without_minimum):
    spec = spec_of("sum(x[m, k] * w[n, k], k)", x, w, "M: 127, N: 129, K: 258", more)
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["map", "map", "gemm"]
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.slow
def test_accesses_are_as_predicted(without_minimum):
    kernel = generate(spec_of(f"sum(x[m, k] * {PACKED}, k)", w="uint8", sizes=SMALL[0]))
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []


CONDITIONS = """
cugen: 1
kernel: f
target: %s
params: {%s}
arrays:
  a: {shape: [M, K], dtype: %s}
  b: {shape: [K, N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: y[m, n] = %s
"""
COUNTS = [
    ("sum(a[m, k] and b[k, n], k)", "bool", "int32"),
    ("sum(a[m, k] and b[k, n], k) % 2 == 1", "bool", "bool"),
    ("any(a[m, k] and b[k, n], k)", "bool", "bool"),
    ("sum(a[m, k] > 0 and b[k, n] < 0.5, k)", "float32", "int32"),
]


def conditions(value: str, dtype: str, result: str, sizes: str, target: str = "sm_90"):
    (spec,) = load_text(CONDITIONS % (target, sizes, dtype, dtype, result, value))
    return spec


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("terms", [20000, 300001])
def test_pairs_of_keys_are_a_histogram(terms, target):
    (spec,) = load_text(f"""
cugen: 1
kernel: f
target: {target}
params: {{K: {terms}}}
arrays:
  a: {{shape: [K], dtype: uint8}}
  b: {{shape: [K], dtype: uint8}}
  y: {{shape: [64, 64], dtype: int32}}
compute: y[m, n] = sum(a[k] == m and b[k] == n, k)
""")
    assert generate(spec, analysis=False).plan.kernels[0].family == "histogram"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "dtype", "result"), COUNTS)
def test_conditions_of_two_matrices_are_counted_on_tensor_cores(value, dtype, result):
    spec = conditions(value, dtype, result, "M: 1024, N: 1024, K: 1024")
    plan = generate(spec, analysis=False).plan
    assert [array.dtype.name for array in plan.workspace] == ["int8", "int8"]
    assert on_tensor_cores(spec)


@pytest.mark.parametrize(
    ("value", "dtype", "result", "target"),
    [
        pytest.param("sum(a[m, k] or b[k, n], k)", "bool", "int32", "sm_90", id="other conditions"),
        pytest.param("sum(a[m, k] and b[k, n], k)", "bool", "int32", "sm_70", id="no instruction for bytes"),
    ],
)
def test_conditions_that_tensor_cores_don_t_count_stay(value, dtype, result, target):
    spec = conditions(value, dtype, result, "M: 1024, N: 1024, K: 1024", target)
    assert not [array for array in generate(spec, analysis=False).plan.workspace if array.dtype.name == "int8"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("value", "dtype", "result"), COUNTS)
@pytest.mark.parametrize("sizes", ["M: 67, N: 45, K: 130", "M: 128, N: 64, K: 1"])
def test_counts_of_conditions_are_right(value, dtype, result, sizes, without_minimum):
    spec = conditions(value, dtype, result, sizes)
    kernel = generate(spec, analysis=False)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_conditions_on_indices_alone_are_counted_like_those_on_elements() -> None:
    text = "indices: {%s}\narrays: {y: {shape: [M, N], dtype: int32}}\ncompute: y[m, n] = sum(%s, k)\n"
    head = "cugen: 1\nkernel: f\nparams: {M: 2048, N: 2048, K: 2048}\n"
    (spec,) = load_text(head + text % ("k: K", "m % 7 <= k % 5 and n % 3 < k % 11"))
    assert on_tensor_cores(spec)
    (windows,) = load_text(head.replace("2048", "dynamic") + text % ("k: 9", "m + k // 3 < M and n + k % 3 < N"))
    kernel = generate(windows, analysis=False)
    sizes = {"M": 41, "N": 37, "K": 1}
    run = verify(windows, kernel.source, kernel.manifest, CpuDevice(sanitize=True), params=sizes)
    assert run.verification.passed


def test_a_product_of_converted_operands_has_copies_that_tma_reads():
    (spec,) = load_text("""
cugen: 1
kernel: f
target: sm_90a
params: {M: 4096, N: 4096, K: 4097}
arrays:
  a: {shape: [M, K], dtype: float16}
  b: {shape: [N, K], dtype: int8}
  y: {shape: [M, N], dtype: float16}
compute: y[m, n] = sum(a[m, k] * b[n, k], k)
""")
    plan = generate(spec, analysis=False).plan
    assert {"b_float16", "a_copy"} <= {array.name for array in plan.workspace}
    assert plan.kernels[-1].family == "wgmma"
