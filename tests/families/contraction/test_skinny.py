"""Few rows times a large matrix: who takes what, that the matrix is read once and wide, and right results."""

from __future__ import annotations

import pytest

from cugen.kernel_report import analyze
from cugen.plan.kernel import Kernel
from cugen.plan.symbols import bounds
from cugen.plan.walking import accesses

PRODUCT = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  x: {{shape: [{x}], dtype: {dtype}}}
  w: {{shape: [{w}], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {out}}}
compute: y[m, n] = {value}
schedule: {{family: skinny{schedule}}}
"""


def product(m=8, k=512, n=300, columns=False, dtype="float32", out="", value="", schedule="", x="M, K"):
    w, at = ("K, N", "k, n") if columns else ("N, K", "n, k")
    value = value or f"sum(x[{x.lower()}] * w[{at}], k)"
    return PRODUCT.format(m=m, k=k, n=n, x=x, w=w, dtype=dtype, out=out or dtype, value=value, schedule=schedule)


def automatic(text: str) -> str:
    """The spec without its word on the family."""
    return text.replace("schedule: {family: skinny}", "")


def loads(kernel: Kernel, name: str) -> list[int]:
    return [a.width for a in accesses(kernel.body) if a.array.name == name and a.kind == "load"]


def grid(kernel: Kernel) -> list[int]:
    return [bounds(count, dict(kernel.ranges))[1] for count in kernel.grid]


# Which kernel


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("m", [1, 2, 16])
def test_few_rows_are_taken_without_asking(made, m, columns):
    kernels = made(automatic(product(m, 4096, 4096, columns=columns))).plan.kernels
    assert kernels[0].family == "skinny"


def test_many_rows_and_a_single_vector_are_left_to_others(reasons):
    def why(text):
        return " ".join(refusal.reason for refusal in reasons("skinny", text))

    assert "up to 16 rows" in why(product(17))
    assert "must be fixed" in why(product("{range: [1, 8]}"))
    assert "64 rows and columns" in why(product(n=63))
    assert "whole of one index" in why(product(value="sum(x[m, k] * w[n, k], k, where=k < n)"))
    assert "takes one sum" in why(product(value="max(x[m, k] * w[n, k], k)"))
    assert "several rows" in why(VECTOR)
    assert "columns` and `warps" in why(product(schedule=", block: {m: 8}"))
    assert "whole warps" in why(product(schedule=", lanes: 8"))


VECTOR = """
params: {N: 512}
arrays:
  x: {shape: [N], dtype: float32}
  w: {shape: [N, N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[n] = sum(x[k] * w[n, k], k)
"""


@pytest.mark.parametrize("columns", [False, True])
def test_the_matrix_is_read_once_and_in_vectors(made, columns):
    kernel = made(product(8, 512, 384, columns=columns, schedule=", parts: 1"))
    (launch,) = analyze(kernel).kernels
    (matrix,) = [report for report in launch.accesses if report.access.array.name == "w"]
    assert matrix.access.width == 4
    assert matrix.ratio == 1
    assert matrix.totals is not None
    assert matrix.totals.requests == 512 * 384 // 4 // 32


def test_loads_are_as_wide_as_types_and_sizes_allow(planned):
    def widths(**sizes):
        kernel = planned(product(schedule=", parts: 1", **sizes))
        return loads(kernel, "w"), loads(kernel, "x")

    assert widths() == ([4], [4])
    assert widths(dtype="bfloat16") == ([8], [8])
    assert widths(k=510) == ([2], [2])
    assert widths(k=511) == ([1], [1])
    assert widths(columns=True, n=320, dtype="float16") == ([8], [4])
    assert widths(columns=True, n=301, x="K, M") == ([1], [1])


@pytest.mark.parametrize("columns", [False, True])
def test_matrices_that_no_cache_holds_are_streamed_past_a_single_row(made, columns):
    def streamed(n, dtype="float32", m=1):
        kernels = made(product(m, 4096, n, columns=columns, dtype=dtype)).plan.kernels
        return {a.array.name for kernel in kernels for a in accesses(kernel.body) if a.streaming}

    assert streamed(2052) == {"w"}
    assert streamed(2048) == set()
    assert streamed(2052, "int8") == set()
    assert streamed(2052, m=2) == set()
    assert streamed(2049 if columns else 2053, "float64") == (set() if columns else {"w"})  # odd rows aren't read wide


def test_how_a_matrix_is_streamed_stands_in_the_source(made):
    source = made(product(1, 7168, 4096, columns=True)).source
    assert "w4[d] = load_streaming(reinterpret_cast<const Vector<float, 4>*>(&w[" in source


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
def test_streamed_products_are_right(prove, compiled, columns):
    text = product(1, 4099 if columns else 4096, 2056, columns=columns)
    compiled(text)
    prove(text)


def test_a_sum_is_split_until_the_device_is_full(made):
    parts = made(product(8, 7168, 2112)).plan.kernels
    assert [kernel.family for kernel in parts] == ["skinny", "reduce"]
    assert grid(parts[0]) == [33, 4, 1]
    assert len(made(product(8, 1536, 24576)).plan.kernels) == 1
    assert len(made(product(8, 7168, 2112, schedule=", parts: 1")).plan.kernels) == 1
    assert grid(made(product(schedule=", parts: 2")).plan.kernels[0]) == [5, 2, 1]


# Results


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("sizes", [(3, 130, 67), (8, 512, 100)])
def test_products_are_right(prove, sizes, columns):
    prove(product(*sizes, columns=columns, schedule=", parts: 2"))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("sizes", [(1, 256, 64), (16, 127, 257), (5, 4099, 66)])
def test_products_of_all_sizes_are_right(prove, sizes, columns):
    prove(product(*sizes, columns=columns), races=columns)
    prove(product(*sizes, columns=columns, x="K, M"), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e4m3", "int8", "int64"])
def test_products_of_all_types_are_right(prove, dtype, columns):
    out = "float32" if dtype.startswith("float8") else ""
    prove(product(4, 1024, 96, columns, dtype, out))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
def test_matrices_of_dynamic_sizes_are_right(prove, columns):
    text = product(5, "dynamic", "{range: [0, 9000], multiple_of: 4}", columns=columns)
    for k, n in ((0, 8), (1, 4), (33, 132), (300, 0), (1000, 260)):
        prove(text, {"K": k, "N": n})


QUANTISED = """
params: {M: 4, K: 512, N: 130, G: 64}
arrays:
  x: {shape: [M, K], dtype: float16}
  w: {shape: [N, K], dtype: int8}
  scale: {shape: [N, K // G], dtype: float16}
  bias: {shape: [N], dtype: float32}
  y: {shape: [M, N], dtype: float16}
compute: y[m, n] = silu(sum(x[m, k] * (w[n, k] * scale[n, k // G]), k) + bias[n])
schedule: {family: skinny}
"""

HEADS = """
params: {B: 3, H: 5, K: 128, N: 70, M: 4}
arrays:
  q: {shape: [B, H, M, K], dtype: float32}
  c: {shape: [B, N, H, K], dtype: float32}
  s: {shape: [B, H, M, N], dtype: float32}
compute: s[b, h, m, n] = 0.125 * sum(q[b, h, m, k] * c[b, n, h, k], k)
schedule: {family: skinny}
"""


@pytest.mark.slow
def test_more_than_the_plain_product_is_right(prove):
    prove(QUANTISED)
    prove(QUANTISED.replace("w: {shape: [N, K]", "w: {shape: [K, N]").replace("w[n, k]", "w[k, n]"))
    prove(HEADS)
    prove(HEADS.replace("s[b, h, m, n] = ", "s[b, h, m, n] += "))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_every_kernel_compiles_for_old_and_new_targets(compiled, dtype, columns):
    compiled(product(4, 1024, 1032, columns, dtype))


# A single row


def test_a_single_row_fills_the_device_in_one_launch(made):
    def spread(n, k):
        (kernel,) = made(automatic(product(1, k, n, columns=True))).plan.kernels
        assert kernel.family == "skinny"
        assert loads(kernel, "w") == [4]
        return grid(kernel)[0], kernel.block[:2], kernel.minimum_blocks

    assert spread(4096, 7168) == (128, (8, 128), 1)
    assert spread(24576, 1536) == (384, (16, 16), 4)
    assert spread(32768, 512) == (256, (32, 16), 2)
    assert spread(7168, 2048) == (112, (16, 64), 1)
    assert spread(2112, 7168) == (132, (4, 256), 1)
    assert spread(131072, 64) == (1024, (32, 4), 8)
    assert spread(4096, 256) == (128, (8, 32), 4)


def test_a_single_row_with_few_columns_is_cut_into_parts(made):
    kernels = made(automatic(product(1, 7168, 576, columns=True))).plan.kernels
    assert [kernel.family for kernel in kernels] == ["skinny", "reduce"]
    assert grid(kernels[0]) == [9, 56, 1]


def test_results_of_groups_meet_in_banks_of_their_own(made):
    (launch,) = analyze(made(product(1, 512, 4096, columns=True))).kernels
    shared = [report for report in launch.accesses if report.access.array.space == "shared"]
    assert all(report.ratio == 1 for report in shared)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_rows_of_groups_of_lanes_are_right(prove, lanes):
    prove(product(1, 200, 84, columns=True, schedule=f", parts: 1, lanes: {lanes}"), races=True)
    prove(product(3, 67, 65, columns=True, schedule=f", parts: 1, lanes: {lanes}, warps: 2"))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(64, 8191), (263, 3301), (136, 4097), (1031, 3300), (100, 25000)])
@pytest.mark.parametrize("x", ["M, K", "K, M"])
def test_single_rows_of_all_sizes_are_right(prove, sizes, x):
    prove(product(1, *sizes, columns=True, x=x))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3", "int8", "int64"])
def test_single_rows_of_all_types_are_right(prove, compiled, dtype):
    out = "float32" if dtype.startswith("float8") else ""
    text = product(1, 200, 8200, True, dtype, out)
    prove(text, sanitize=True)
    compiled(text)


@pytest.mark.slow
def test_single_rows_of_dynamic_sizes_are_right(prove):
    text = product(1, "dynamic", 4097, columns=True)
    for k in (0, 1, 33, 300):
        prove(text, {"K": k})
    text = product(1, 96, "{range: [0, 9000], multiple_of: 4}", columns=True)
    for n in (0, 4, 132, 4100):
        prove(text, {"N": n})


@pytest.mark.slow
@pytest.mark.parametrize("warps", [1, 2])
def test_few_warps_of_groups_are_right(prove, warps):
    prove(product(1, 130, 132, columns=True, schedule=f", parts: 1, lanes: 8, warps: {warps}"), races=True)
    prove(product(2, 130, 132, columns=True, schedule=f", parts: 1, warps: {warps}"), races=True)
