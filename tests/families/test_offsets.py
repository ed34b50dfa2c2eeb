"""64-bit offsets exactly where 32 bits can overflow, for arrays that no test could allocate."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from cugen.kernel import Kernel

Generate = Callable[[str], Kernel]


def body(kernel: Kernel) -> str:
    """The text of the kernels without comments."""
    kernels = "".join(re.findall(r'extern "C" __global__.*?\n}\n', kernel.source, re.DOTALL))
    return re.sub(r" *//.*\n", "", kernels)


def copy(shape: str, left: str, right: str, params: str = "{}", more: str = "") -> str:
    return f"""
params: {params}
arrays:
  x: {{shape: [{shape}], dtype: int8{more}}}
  y: {{shape: [{shape}], dtype: int8}}
compute: y[{left}] = x[{right}]
schedule: {{family: direct}}
"""


def test_two_to_the_31_elements_need_32_bits(made: Generate) -> None:
    assert "long long" not in body(made(copy("65536, 32768", "i, j", "i, j")))


def test_an_additional_row_needs_64_bits_for_the_offset_only(made: Generate) -> None:
    text = body(made(copy("65537, 32768", "i, j", "i, j")))
    assert "x[(long long)i * 32768 + j]" in text
    assert "y[(long long)i * 32768 + j]" in text
    assert text.count("long long") == 2


def test_an_index_beyond_32_bits_is_64_bits_wide(made: Generate) -> None:
    text = body(made(copy("3000000001", "i", "3000000001 - 1 - i")))
    assert "const long long i = (long long)blockIdx.x * 256 + threadIdx.x;" in text
    assert "if (i >= 3000000001LL)" in text
    assert "(long long)i" not in text


def test_a_shifted_read_at_the_end_of_32_bits(made: Generate) -> None:
    text = body(made(copy("2147483647", "i", "i + 5", more=", boundary: zero")))
    assert "i + 5" not in text.replace("(long long)i + 5", "")


def test_a_dynamic_matrix_may_be_larger_than_32_bits(made: Generate) -> None:
    text = body(made(copy("M, N", "i, j", "i, j", "{M: dynamic, N: dynamic}")))
    assert "x[(long long)i * N + j]" in text
    assert "int i =" in text
    assert "int j =" in text


def test_a_range_keeps_a_dynamic_matrix_to_32_bits(made: Generate) -> None:
    ranges = "{M: {range: [0, 32768]}, N: {range: [0, 65536]}}"
    assert "long long" not in body(made(copy("M, N", "i, j", "i, j", ranges)))


def test_more_blocks_than_grid_y_allows_are_flattened_to_x(made: Generate) -> None:
    kernel = made(copy("600000, 32", "i, j", "i, j"))
    (launch,) = kernel.manifest.launches
    assert launch.grid == (75000, 1, 1)
    assert "blockIdx.y" not in kernel.source


def test_more_blocks_than_grid_z_allows_are_flattened_to_x(made: Generate) -> None:
    kernel = made(copy("70000, 8, 32", "i, j, k", "i, j, k"))
    (launch,) = kernel.manifest.launches
    assert launch.grid == (70000, 1, 1)
    assert "blockIdx.z" not in kernel.source


def test_as_many_blocks_as_grid_y_allows_stay_along_y(made: Generate) -> None:
    (launch,) = made(copy("524280, 32", "i, j", "i, j")).manifest.launches
    assert launch.grid == (1, 65535, 1)


def test_a_grid_along_x_of_dynamic_size_is_computed_in_64_bits(made: Generate) -> None:
    kernel = made(copy("N", "i", "i", "{N: dynamic}"))
    assert "dim3(ceil_div(N, 256))" in kernel.source
    assert "long long" not in body(kernel)


def test_a_long_reduction_has_a_64_bit_loop_variable(made: Generate) -> None:
    text = body(
        made("""
arrays:
  x: {shape: [4, 3000000000], dtype: int8}
  y: {shape: [4], dtype: int64}
compute: y[i] = sum(x[i, k], k) + argmax(x[i, k], k)
schedule: {family: direct}
""")
    )
    assert re.search(r"for \(long long (\w+) = 0; \1 < 3000000000LL; \+\+\1\)", text)
    assert "x[(long long)i * 3000000000LL + " in text


def test_a_64_bit_index_is_not_truncated_as_a_value(made: Generate) -> None:
    text = body(
        made("""
arrays:
  y: {shape: [5000000000], dtype: int64}
compute: y[i] = i * 3 + 1
schedule: {family: direct}
""")
    )
    assert "y[i] = i * 3 + 1;" in text


def test_products_of_32_bit_indices_are_64_bit_values(made: Generate) -> None:
    text = body(
        made("""
arrays:
  y: {shape: [60000, 60000], dtype: int64}
compute: y[i, j] = i * j
schedule: {family: direct}
""")
    )
    assert "= (long long)i * j;" in text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("memory", ["global", "readonly", "shared"])
def test_a_contraction_of_huge_matrices_loads_with_64_bit_offsets(made: Generate, memory: str) -> None:
    text = body(
        made(f"""
arrays:
  a: {{shape: [100000, 50000], dtype: float32, memory: {memory}}}
  b: {{shape: [50000, 1000], dtype: float32}}
  c: {{shape: [100000, 1000], dtype: float32}}
compute: c[i, j] = sum(a[i, k] * b[k, j], k)
""")
    )
    assert len(re.findall(r"\ba\[\(+long long\)i0?\b", text)) == len(re.findall(r"\ba\[", text)) > 0
    assert re.findall(r"\bb\[\(long long\)", text) == []
    assert re.findall(r"\bc\[\(long long\)", text) == []


def test_a_gather_from_a_large_table_has_64_bit_offsets(made: Generate) -> None:
    text = body(
        made("""
arrays:
  ids: {shape: [1000], dtype: int32}
  table: {shape: [100000000, 64], dtype: float32}
  y: {shape: [1000, 64], dtype: float32}
compute: y[i, j] = table[ids[i], j]
""")
    )
    assert "table[(long long)ids_i * 64 + j]" in text


def test_pitches_and_strides_widen_offsets(made: Generate) -> None:
    text = body(
        made("""
arrays:
  x: {shape: [2, 40000], dtype: int8, pitch: 2147483648}
  z: {shape: [2, 40000], dtype: int8, layout: {strides: [1, 100000]}}
  y: {shape: [2, 40000], dtype: int8}
compute: y[i, j] = x[i, j] + z[i, j]
schedule: {family: direct}
""")
    )
    assert "x[(long long)i * 2147483648LL + j]" in text
    assert "(long long)j * 100000" in text
    assert "y[i * 40000 + j]" in text
