"""Elementwise statements are right, and compile to the planned accesses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.spec.types import DTYPES
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin, compilers
from cugen.toolchain.errors import ToolMissing

# Execution

COLUMNS = (1, 5, 16, 31, 64, 257, 1024)


def items(types: list[str], layout: str) -> list[tuple[str, tuple[int, int], str]]:
    """Different shapes, so that each makes a kernel of its own; rows from one to many, of any length."""
    return [(dtype, (n + 1, COLUMNS[n % len(COLUMNS)]), layout) for n, dtype in enumerate(types)]


def batch(cases: list[tuple[str, tuple[int, int], str]], value: str) -> str:
    """One spec with a kernel for each type, shape and layout."""
    arrays, compute = [], []
    for n, (dtype, (rows, columns), layout) in enumerate(cases):
        keys = f"shape: [{rows}, {columns}], dtype: {dtype}, {layout}"
        arrays += [f"  X{n}: {{{keys}}}", f"  Y{n}: {{{keys}}}"]
        arrays += [f"  b{n}: {{shape: [{columns}], dtype: {dtype}}}"] * ("b" in value)
        compute.append("  " + value.replace("@", str(n)))
    return "\n".join(["arrays:", *arrays, "compute: |", *compute, ""])


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize(
    ("shape", "elements"),
    [("2 * N", ("2 * i", "2 * i + 1")), ("3 * N", ("3 * i", "3 * i + 2", "3 * i + 1")), ("2 * N", ("i + 0", "i + N"))],
)
def test_statements_that_add_to_different_elements_of_an_array_are_right(prove, shape, elements, dtype):
    lines = [f"  y[{element}] += {n + 1} * x[i]" for n, element in enumerate(elements)]
    arrays = [f"  x: {{shape: [N], dtype: {dtype}}}", f"  y: {{shape: [{shape}], dtype: {dtype}}}"]
    prove("\n".join(["params: {N: 1032}", "arrays:", *arrays, "compute: |", *lines, ""]))


@pytest.mark.slow
def test_copies_of_every_type_and_shape_are_exact(prove):
    prove(batch(items(list(DTYPES) * 3, "layout: row"), "Y@[i, j] = X@[i, j]"))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["layout: row", "layout: column", "pitch: {align: 64}"])
def test_broadcasts_are_right_in_every_layout(prove, layout):
    types = [name for name in DTYPES if name != "bool"]
    prove(batch(items(types, layout), "Y@[i, j] = X@[i, j] + b@[j]"), sanitize=layout != "layout: row")


@pytest.mark.slow
def test_offsets_constants_and_repeated_indices_are_right(prove):
    prove(
        "params: {N: 37}\narrays:\n  X: {shape: [N, N], dtype: float32}\n  D: {shape: [N], dtype: float32}\n"
        "  E: {shape: [N], dtype: float32}\n  F: {shape: [3, N], dtype: int32}\n"
        "  c: {shape: [N], dtype: float32, memory: constant}\n"
        "  V: {shape: [2, N], dtype: float64, values: [" + ", ".join(map(str, range(74))) + "]}\n"
        "compute: |\n"
        "  D[i] = X[i, i] + X[0, i]\n  E[i] = c[i] * D[i] + i + V[1, i]\n"
        "  F[1, i] = i * 3\n  F[0, i] = -i\n  F[2, i] += N\n",
        sanitize=True,
    )


@pytest.mark.slow
def test_temporaries_and_updates_of_a_fused_group_are_right(prove, planned, widths):
    text = (
        "params: {M: 19, N: 24}\narrays:\n  X: {shape: [M, N], dtype: float16}\n  Y: {shape: [M, N], dtype: float32}\n"
        "  Z: {shape: [M, N], dtype: float16}\n"
        "compute: |\n  t[i, j] = X[i, j] * X[i, j]\n  Y[i, j] += t[i, j]\n  Z[i, j] = Y[i, j] + X[i, j] * t[i, j]\n"
    )
    assert widths(planned(text)) == {"X": 4, "Y": 4, "Z": 4}
    prove(text, sanitize=True)


def test_an_array_is_read_before_and_after_it_is_written(prove):
    prove(
        "params: {N: 1003}\narrays:\n  A: {shape: [N], dtype: float16}\n  Y: {shape: [N], dtype: float32}\n"
        "  Z: {shape: [N], dtype: float32}\n"
        "compute: |\n  Y[i] = A[i] + 1\n  A[i] += 1\n  Z[i] = A[i] + 1\n"
    )


@pytest.mark.slow
@settings(max_examples=6)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 70)),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
    vector=st.sampled_from([1, 2, 4]),
)
def test_every_accepted_vector_is_right(prove, reasons, shape, dtype, vector):
    a, b, c = shape
    text = (
        f"arrays:\n  X: {{shape: [{a}, {b}, {c}], dtype: {dtype}, pitch: {{align: 16}}}}\n"
        f"  s: {{shape: [{a}, {c}], dtype: {dtype}, pitch: {{align: 32}}}}\n"
        f"  Y: {{shape: [{a}, {b}, {c}], dtype: {dtype}, pitch: {{align: 16}}}}\n"
        f"compute: Y[i, j, k] = X[i, j, k] + s[i, k]\nschedule: {{vector: {vector}}}\n"
    )
    assert reasons("map", text) == ()
    prove(text)


@pytest.mark.parametrize("size", [1, 4, 5, 1000, 1027])
def test_dynamic_extents_have_their_tails(prove, size, saxpy):
    prove(saxpy("dynamic"), params={"N": size})


# Compilation


@pytest.mark.slow
def test_every_type_compiles_to_16_byte_accesses(compiled):
    shapes = [(dtype, (8 + n, 64), "layout: row") for n, dtype in enumerate(DTYPES)]
    wide = batch([case for case in shapes if case[0] != "bool"], "Y@[i, j] = X@[i, j] + b@[j]")
    kernel = compiled(wide)
    try:
        text = disassemble(compile_cubin(kernel.source, "k", "sm_90").image, lines=None)
    except ToolMissing:
        pytest.skip("no disassembler on this machine")
    loads = re.findall(r"\b(LDG\S*|STG\S*|LDL\S*|STL\S*)", text)
    assert loads
    assert all(".128" in load for load in loads)


@pytest.mark.slow
def test_tails_and_index_values_compile_without_warnings(compiled, saxpy, matrix):
    compiled(saxpy("dynamic"))
    compiled(matrix("dynamic", "{multiple_of: 4}"))
    compiled(saxpy(1001).replace("a * X[i]", "a * X[i] + i"))


@pytest.mark.slow
def test_nvcc_takes_what_nvrtc_takes(made, saxpy):
    if "nvcc" not in [compiler.name for compiler in compilers()]:
        pytest.skip("no nvcc on this machine")
    assert compile_cubin(made(saxpy(1001)).source, "k", "sm_90", prefer="nvcc").warnings == ()


def test_statements_that_write_rows_of_one_array_store_each_row(prove):
    prove(
        """
params: {N: 64}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [3, N], dtype: float32}
compute: |
  y[0, i] = 2 * x[i]
  y[1, i] = x[i] * x[i]
  y[2, i] = x[i] - 1
""",
        {},
    )
