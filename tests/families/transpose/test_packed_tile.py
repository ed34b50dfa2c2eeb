"""Packed-tile transposes: vector loads and stores, no bank conflicts, and right results."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.kernel import Kernel, generate
from cugen.kernel_report import analyze
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.memory import Array
from cugen.plan.nodes import Declare
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.spec.load import load_text
from cugen.spec.types import DTYPES

TYPES = {"int8": 1, "float16": 2, "float32": 4, "float64": 8}
TRANSPOSE = """
params: {M: %s, N: %s}
arrays:
  A: {shape: [M, N], dtype: %s}
  B: {shape: [N, M], dtype: %s}
compute: B[n, m] = %s
"""


def transpose(rows: object, columns: object, source: str, target: str = "") -> str:
    target = target or source
    value = "A[m, n]" if TYPES.get(source) == TYPES.get(target) else f"cast(A[m, n], {target})"
    return TRANSPOSE % (rows, columns, source, target, value)


def tile_of(kernel: PlannedKernel) -> Array:
    (tile,) = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    return tile


def widths(kernel: PlannedKernel) -> dict[str, int]:
    """The widest access to each array in global memory."""
    widths: dict[str, int] = {}
    for access in accesses(kernel.body):
        if access.array.space == "global":
            widths[access.array.name] = max(widths.get(access.array.name, 0), access.width)
    return widths


@pytest.fixture
def unanalysed():
    """Generates a spec's kernel without the analysis, which takes seconds for large odd extents."""

    def make(text: str) -> Kernel:
        (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
        return generate(spec, analysis=False)

    return make


@pytest.mark.parametrize(("dtype", "width"), [("float64", 2), ("float32", 4), ("float16", 8), ("int8", 16)])
def test_loads_and_stores_move_16_bytes(planned, dtype, width):
    kernel = planned(transpose(8192, 8192, dtype))
    assert kernel.family == "transpose"
    assert widths(kernel) == {"A": width, "B": width}
    assert dict(kernel.alignments) == {"A": 16, "B": 16}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("dtype", "size"), TYPES.items())
@pytest.mark.parametrize("side", [40, 9000])
def test_the_pitch_of_a_tile_is_an_odd_number_of_words(unanalysed, dtype, size, side):
    (kernel,) = unanalysed(transpose(side, side, dtype)).plan.kernels
    tile = tile_of(kernel)
    words, remainder = divmod(int(tile.padded_shape[-1]) * size, max(size, 4))
    assert (words % 2, remainder) == (1, 0)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("multiple", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", TYPES)
def test_shared_accesses_have_no_bank_conflicts(made, dtype, multiple):
    assert_no_conflicts(made(transpose(128, 4096 + multiple, dtype)))
    assert_no_conflicts(made(transpose(1024 + multiple, 160 + multiple, dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("side", [96, 1024])
@pytest.mark.parametrize("multiple", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_shared_accesses_have_no_bank_conflicts_for_any_types(made, source, target, multiple, side):
    assert_no_conflicts(made(transpose(side + multiple, side + multiple, source, target)))


def assert_no_conflicts(kernel: Kernel) -> None:
    (launch,) = analyze(kernel).kernels
    shared = [report for report in launch.accesses if report.space == "shared"]
    first, *others = (report.access.kind for report in shared)  # rows that begin inside a sector end with scalar loads
    assert (first, set(others)) == ("store", {"load"})
    for report in shared:
        banks = report.access.array.dtype.bytes * report.access.width // 4  # of a lane: two banks make two wavefronts
        assert report.totals is not None
        assert report.totals.wavefronts <= report.totals.requests * max(banks, 1), kernel.source


def test_large_matrices_have_larger_tiles(planned):
    assert tile_of(planned(transpose(4096, 4096, "float32"))).shape == (64, 64)
    assert tile_of(planned(transpose(1024, 1024, "float32"))).shape == (32, 32)


def test_rows_past_the_edge_are_clamped_to_the_last(made):
    text = made(transpose(8200, 8192, "float32")).source
    assert "const int m_in = min(m0 + ty, M - 1);" in text
    assert text.count("if (") == 1


def test_narrow_elements_are_packed_into_words(made):
    text = made(transpose(8192, 8192, "float16")).source
    assert "__shared__ __align__(4) __half tile[64][282];" in text
    assert "word2.data[p] = a8[p].data[v];" in text
    assert "b8.data[v] = a2[v / 2].data[v % 2];" in text


@pytest.mark.parametrize("side", [8192, 8191])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3"])
def test_elements_are_not_converted(unanalysed, dtype, side):
    text = unanalysed(transpose(side, side, dtype)).source
    assert not re.search(r"__half2float|__bfloat162float|float_of|to_float", text), text


def test_contiguous_dimensions_are_fused(planned):
    kernel = planned(
        "params: {B: 4, T: 300, H: 16, D: 64}\narrays:\n  X: {shape: [B, T, H, D], dtype: float16}\n"
        "  Y: {shape: [B, H, D, T], dtype: float16}\ncompute: Y[b, h, d, t] = X[b, t, h, d]\n"
    )
    assert kernel.family == "transpose"
    assert {len(a.subscripts) for a in accesses(kernel.body) if a.array.space == "global"} == {3}


def test_too_many_tiles_for_shared_memory_are_refused(reasons):
    arrays = "".join(f"  A{n}: {{shape: [64, 64], dtype: float64}}\n" for n in range(7))
    sum_of_all = " + ".join(f"A{n}[m, n]" for n in range(7))
    text = f"arrays:\n{arrays}  B: {{shape: [64, 64], dtype: float64}}\ncompute: B[n, m] = {sum_of_all}\n"
    (refusal,) = reasons("transpose", text)
    assert "7 tiles at once take" in refusal.reason


# Execution

SIDES = (8, 31, 32, 33, 64, 72, 80, 97, 128, 130)


def batch(pairs: list[tuple[str, str]]) -> str:
    """One spec with a kernel for each pair of types, of different shapes."""
    arrays, compute = [], []
    for n, (source, target) in enumerate(pairs):
        rows, columns = SIDES[n % len(SIDES)], SIDES[(3 * n + n // len(SIDES)) % len(SIDES)]
        arrays.append(f"  A{n}: {{shape: [{n + 1}, {rows}, {columns}], dtype: {source}}}")
        arrays.append(f"  B{n}: {{shape: [{n + 1}, {columns}, {rows}], dtype: {target}}}")
        value = f"A{n}[b, i, j]" if source == target else f"cast(A{n}[b, i, j], {target})"
        compute.append(f"  B{n}[b, j, i] = {value}")
    return "\n".join(["arrays:", *arrays, "compute: |", *compute, ""])


@pytest.mark.slow
def test_transposes_of_every_type_are_exact(prove, made):
    """Matrices of 8 rows or columns may be left to `map`."""
    text = batch([(dtype, dtype) for dtype in DTYPES] * 2)
    assert {kernel.family for kernel in made(text).plan.kernels} == {"map", "transpose"}
    prove(text)


@pytest.mark.slow
def test_conversions_are_right(prove):
    prove(batch([(a, b) for a in TYPES for b in TYPES if a != b] * 2))


@pytest.mark.slow
def test_no_access_is_out_of_bounds_or_races(prove):
    text = batch([(dtype, dtype) for dtype in TYPES] * 2)
    prove(text, sanitize=True)
    prove(text, races=True)


@pytest.mark.slow
@settings(max_examples=4)
@given(
    sides=st.tuples(st.integers(2, 140), st.integers(2, 140)),
    multiple=st.sampled_from([1, 2, 8, 16]),
    types=st.tuples(st.sampled_from(list(TYPES)), st.sampled_from(list(TYPES))),
)
def test_any_sides_are_right(prove, sides, multiple, types):
    rows, columns = (-(-side // multiple) * multiple for side in sides)
    text = transpose(rows, columns, *types) + "schedule: {family: transpose}\n"
    prove(text)


def test_operands_of_every_kind_are_right(prove, planned):
    text = (
        "params: {B: 3, M: 48, N: 80}\nscalars: {a: {dtype: float32, value: 0.5}}\narrays:\n"
        "  X: {shape: [B, M, N], dtype: float16}\n  W: {shape: [B, M, N], dtype: float16}\n"
        "  r: {shape: [N], dtype: float32}\n  c: {shape: [M], dtype: float32}\n"
        "  d: {shape: [M], dtype: float32, memory: constant}\n  z: {shape: [B], dtype: float32}\n"
        "  R: {shape: [N, M], dtype: float32}\n  Y: {shape: [B, N, M], dtype: float16}\n"
        "  Z: {shape: [B, N, M], dtype: float32}\n"
        "compute: |\n"
        "  Y[b, n, m] += a * X[b, m, n] * W[b, m, n] * X[b, m, n] + r[n] * c[m] + d[m] - z[b] + R[n, m]\n"
        "  Z[b, n, m] = Y[b, n, m] * 2 + m\n"
    )
    kernel = planned(text)
    assert widths(kernel) == {"X": 8, "W": 8, "r": 1, "c": 4, "z": 1, "R": 4, "Y": 4, "Z": 4}
    prove(text, sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 1), (130, 97)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_dynamic_sides_are_right(prove, rows, columns, dtype):
    prove(transpose("dynamic", "dynamic", dtype), params={"M": rows, "N": columns})
    both = transpose("{range: [0, 4096], multiple_of: 16}", "{range: [0, 4096], multiple_of: 16}", dtype)
    prove(both, params={"M": rows // 16 * 16, "N": columns // 16 * 16})


@pytest.mark.slow
def test_all_permutations_of_four_dimensions_are_right(prove):
    arrays, compute = ["  X: {shape: [3, 8, 10, 16], dtype: float16}"], []
    extents = dict(zip("abcd", (3, 8, 10, 16), strict=True))
    for n, order in enumerate(permutations("abcd")):
        arrays.append(f"  Y{n}: {{shape: [{', '.join(str(extents[i]) for i in order)}], dtype: float16}}")
        compute.append(f"  Y{n}[{', '.join(order)}] = X[a, b, c, d]")
    prove("\n".join(["arrays:", *arrays, "compute: |", *compute, ""]))


# Compilation


@pytest.mark.slow
def test_a_tile_of_words_compiles_without_warnings(compiled):
    compiled(transpose("dynamic", "dynamic", "float16"))


@pytest.mark.slow
def test_every_kind_of_tile_compiles_without_warnings(compiled):
    compiled(batch([(dtype, dtype) for dtype in DTYPES]))
    compiled(batch([(a, b) for a in TYPES for b in TYPES if a != b]))
