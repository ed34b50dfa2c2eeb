"""Rows too long for registers, and grids of too few rows to fill a device."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice

SOFTMAX = ("y[i, j] = softmax(x[i, j], j)",)


BY_HAND = (
    "m[i] = max(x[i, j], j)",
    "e[i, j] = exp(x[i, j] - m[i])",
    "s[i] = sum(e[i, j], j)",
    "y[i, j] = e[i, j] / s[i]",
)


LAYER_NORM = (
    "mu[i] = mean(x[i, j], j)",
    "scale[i] = rsqrt(var(x[i, j], j) + 1e-5)",
    "y[i, j] = (x[i, j] - mu[i]) * scale[i]",
)


def slow(value: object) -> object:
    """A parameter for the slow tests only."""
    return pytest.param(value, marks=pytest.mark.slow)


def spec(params: str, arrays: dict[str, tuple[str, str]], statements: tuple[str, ...], more: str = "") -> str:
    declared = "".join(f"  {name}: {{shape: [{s}], dtype: {d}}}\n" for name, (s, d) in arrays.items())
    text = "".join(f"  {statement}\n" for statement in statements)
    return f"params: {{{params}}}\narrays:\n{declared}compute: |\n{text}{more}"


def rows(m, n, statements=SOFTMAX, dtype="float32", out=None, schedule=""):
    more = f"schedule: {{{schedule}}}\n" if schedule else ""
    return spec(f"M: {m}, N: {n}", {"x": ("M, N", dtype), "y": ("M, N", out or dtype)}, statements, more)


F = "float32"


# Rows too long for registers, with one block per row

ONE_BLOCK = "cluster: 1"


def test_elements_beyond_the_registers_are_cached_in_shared_memory(planned):
    kernel = planned(rows(2048, 65536, LAYER_NORM, schedule=ONE_BLOCK))
    assert kernel.dynamic_shared_bytes > 100_000
    assert kernel.dynamic_shared_bytes + kernel.shared_bytes <= 227 * 1024
    assert sum(a.kind == "load" and a.array.name == "x" for a in accesses(kernel.body)) == 2


def test_exponentials_overwrite_the_elements_they_are_computed_from(made):
    wide = made(rows(2048, 65536, schedule=ONE_BLOCK)).source
    assert wide.count("expf(") == 2  # in the shared-memory loop and in the register loop
    for n, count in ((65536, 2), (131072, 3)):  # cached as floats, which exceed shared memory at last
        assert made(rows(2048, n, dtype="bfloat16", schedule=ONE_BLOCK)).source.count("expf(") == count


def test_elements_beyond_shared_memory_are_reloaded(planned):
    kernel = planned(rows(2048, 131072, LAYER_NORM, schedule=ONE_BLOCK))
    assert sum(a.kind == "load" and a.array.name == "x" for a in accesses(kernel.body)) == 5
    assert any("all others are reloaded" in reason for reason in kernel.reasons)


def test_reloaded_elements_take_one_pass_of_online_softmax(planned):
    kernel = planned(rows(2048, 131072, schedule=ONE_BLOCK))
    assert sum(a.kind == "load" and a.array.name == "x" for a in accesses(kernel.body)) == 4


SHORT_REGISTERS = "threads: 8, rows: 1, registers: %d"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("statements", [SOFTMAX, BY_HAND, LAYER_NORM])
@pytest.mark.parametrize("registers", [0, slow(8), slow(16)])
def test_rows_in_registers_and_in_shared_memory(prove, statements, registers):
    for n in (256, 255, 100):
        prove(rows(3, n, statements, schedule=SHORT_REGISTERS % registers))


@pytest.mark.parametrize("statements", [SOFTMAX, LAYER_NORM])
def test_a_single_element_in_registers_is_not_taken_for_those_elsewhere(prove, statements):
    prove(rows(5, 9, statements, schedule="family: rowwise, threads: 1, registers: 8"), sanitize=True)
    text = rows(5, "{range: [1, 1000], default: 1}", statements)
    for n in (1, 9):
        prove(text, {"N": n}, sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("statements", [SOFTMAX, LAYER_NORM])
@pytest.mark.parametrize("n", [65536, 131072, 100001, 300000])
def test_the_longest_rows(prove, statements, n, dtype):
    prove(rows(2, n, statements, dtype, schedule="family: rowwise"))


@pytest.mark.slow
def test_infinities_in_online_softmax(prove):
    masked = ("m[i] = max(z[i, j], j)", "s[i] = sum(exp(z[i, j] - m[i]), j)", "y[i, j] = exp(z[i, j] - m[i]) / s[i]")
    for first in ("z[i, j] = where(j % 7 < 3, x[i, j], -inf)", "z[i, j] = where(j < 60000, -inf, x[i, j])"):
        prove(rows(2, 70000, (first, *masked), "float64", schedule="family: rowwise"))


# Grids of few rows


def test_few_long_rows_take_several_launches_that_fill_the_device(made):
    text = spec("N: 10000000", {"x": ("N", F), "y": ("N", F)}, ("y[j] = softmax(x[j], j)",))
    kernels = made(text).plan.kernels
    assert [kernel.family for kernel in kernels] == ["reduce"] * 4 + ["map"]
    assert [kernel.family for kernel in made(rows(4, 1000000, BY_HAND)).plan.kernels][-1] == "map"


def test_rows_that_fill_the_device_stay_one_launch(made):
    assert [kernel.family for kernel in made(rows(200, 100000, BY_HAND)).plan.kernels] == ["rowwise"]


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["y[j] = softmax(x[j], j)", "y[j] = (x[j] - mean(x[k], k)) / sqrt(var(x[k], k))"])
def test_few_long_rows_are_correct(prove, statement):
    prove(spec("N: 300000", {"x": ("N", F), "y": ("N", F)}, (statement,)))
    text = spec("M: 3, N: 70000", {"x": ("M, N", F), "y": ("M, N", F)}, (statement,))
    prove(text.replace("y[j]", "y[i, j]").replace("x[j]", "x[i, j]").replace("x[k]", "x[i, k]"))


# Values that are wider as computed than as loaded

DIFFERENCES = """params: {{M: 2, N: {length}}}
arrays:
  x: {{shape: [M, N], dtype: {dtype}, boundary: zero}}
  y: {{shape: [M, N], dtype: {dtype}}}
  s: {{shape: [M], dtype: float32}}
compute: |
  y[i, j] = x[i, j - 1] + x[i, j + 1]
  s[i] = sum(cast(y[i, j], float32) * x[i, j], j)
"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3", "int8", F])
@pytest.mark.parametrize("length", [5000, 20000, 60000])
def test_no_access_to_a_value_as_computed_exceeds_16_bytes(planned, dtype, length):
    kernel = planned(DIFFERENCES.format(length=length, dtype=dtype))
    assert kernel.family == "rowwise"
    assert max(access.width * access.array.dtype.bytes for access in accesses(kernel.body)) <= 16


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3"])
def test_values_in_shared_memory_as_computed_are_right(made, check, dtype):
    check(made(DIFFERENCES.format(length=60000, dtype=dtype)), CpuDevice(races=True))
