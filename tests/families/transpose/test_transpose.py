"""Transposes with a square tile, and what the family refuses: tile, guards, and right results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import Barrier, Declare, Guard, If, ReturnUnless
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import compile_cubin, compilers

TRANSPOSE = """
params: {M: %s, N: %s}
arrays:
  A: {shape: [M, N], dtype: float32%s}
  B: {shape: [N, M], dtype: float32}
compute: B[n, m] = A[m, n]
schedule: {%s}
"""
SHARED = ", memory: {space: shared, %s}"


def tile_of(kernel: Kernel) -> Array:
    (tile,) = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    return tile


def guards(kernel: Kernel) -> list[Guard]:
    return [node.condition for node in walk_nodes(kernel.body) if isinstance(node, If)]


def test_a_transpose_goes_through_a_padded_tile_by_default(planned):
    kernel = planned(TRANSPOSE % (300, 200, "", ""))
    assert kernel.family == "transpose"
    assert (tile_of(kernel).pad, tile_of(kernel).swizzle) == (1, 0)
    assert kernel.block == (8, 32, 1)
    assert kernel.shared_bytes == 32 * 33 * 4


def test_an_explicit_placement_has_no_default_padding(planned):
    kernel = planned(TRANSPOSE % (300, 200, ", memory: shared", ""))
    assert tile_of(kernel).pad == 0
    assert kernel.shared_bytes == 32 * 32 * 4


def test_a_swizzled_tile_has_no_padding(planned, made):
    text = TRANSPOSE % (300, 200, SHARED % "swizzle: xor", "")
    assert planned(text).shared_bytes == 32 * 32 * 4
    source = made(text).source
    assert "tile[ty + r][tx ^ (ty + r)] = A[m_in * N + n_in];" in source
    assert "B[n * M + m] = tile[tx][(ty + r) ^ tx];" in source


def test_a_dynamic_tile_takes_dynamic_shared_memory(planned):
    kernel = planned(TRANSPOSE % (300, 200, SHARED % "dynamic: true, pad: 1", ""))
    assert (kernel.shared_bytes, kernel.dynamic_shared_bytes) == (0, 32 * 33 * 4)


def test_only_partial_tiles_are_guarded(planned):
    assert guards(planned(TRANSPOSE % (64, 96, "", ""))) == []
    assert {str(g.terms[0].right) for g in guards(planned(TRANSPOSE % (64, 97, "", "")))} == {"N"}
    assert {str(g.terms[0].right) for g in guards(planned(TRANSPOSE % (65, 96, "", "")))} == {"M"}
    assert len(guards(planned(TRANSPOSE % ("{multiple_of: 64}", "dynamic", "", "")))) == 2


def test_no_thread_returns_before_the_barrier(planned):
    nodes = list(walk_nodes(planned(TRANSPOSE % (33, 31, "", "")).body))
    assert not any(isinstance(node, ReturnUnless) for node in nodes)
    assert sum(isinstance(node, Barrier) for node in nodes) == 1


@pytest.mark.parametrize(
    ("schedule", "block"),
    [
        ("block: {m: 16, n: 16}", (16, 8, 1)),
        ("block: {m: 32, n: 32}, thread: {n: 8}", (32, 4, 1)),
        ("block: {m: 32, n: 32}, thread: {m: 2}", (32, 16, 1)),
        ("block: {n: 64}, thread: {n: 16}", (64, 4, 1)),
        ("block: {m: 24, n: 24}", (24, 8, 1)),
        ("block: {m: 12, n: 12}", (12, 12, 1)),
    ],
)
def test_a_schedule_sets_tile_and_rows(planned, schedule, block):
    kernel = planned(TRANSPOSE % (300, 200, "", schedule))
    assert (kernel.family, kernel.block) == ("transpose", block)


@pytest.mark.parametrize(
    ("memory", "schedule", "key", "words"),
    [
        ("", "block: {m: 32, n: 16}", "schedule.block", "square, not 32 x 16"),
        ("", "thread: {n: 3}", "schedule.thread", "must divide the tile's 32"),
        ("", "thread: {m: 2, n: 2}", "schedule.thread", "one column"),
        ("", "step: {n: 8}", "schedule.step", "no loop to step through"),
        ("", "vector: 2", "schedule.vector", "no tunable"),
        (SHARED % "stages: 2", "", "arrays.A.memory", "nothing to pipeline"),
        (SHARED % "swizzle: xor", "block: {m: 24, n: 24}", "arrays.A.memory", "power of two, not of 24"),
    ],
)
def test_an_impossible_schedule_is_refused_with_its_key(reasons, memory, schedule, key, words):
    (refusal,) = reasons("transpose", TRANSPOSE % (300, 200, memory, schedule))
    assert refusal.key == key
    assert words in refusal.reason


@pytest.mark.parametrize(
    ("keys", "compute", "words"),
    [
        ("", "B[i, j] = A[i, j]", "no input is contiguous along an index other"),
        (", layout: column", "B[j, i] = A[i, j]", "no input is contiguous along an index other"),
        (", memory: constant", "B[j, i] = A[i, j]", "no input is contiguous along an index other"),
        (", memory: global", "B[j, i] = A[i, j]", "no input is contiguous along an index other"),
        ("", "B[j, i] = A[i, j] + S[j, i]", "no use for S in shared memory"),
        ("", "B[j, 0] = sum(A[i, j], i)", "sum over i"),
    ],
)
def test_other_statements_are_refused(reasons, keys, compute, words):
    used = "  S: {shape: [48, 48], dtype: int8, memory: shared}\n" if "S[" in compute else ""
    width = 1 if "0" in compute else 48
    text = f"arrays:\n  A: {{shape: [48, 48], dtype: int8{keys}}}\n{used}  B: {{shape: [48, {width}], dtype: int8}}\n"
    assert any(words in refusal.reason for refusal in reasons("transpose", f"{text}compute: {compute}\n"))


def test_three_columns_are_transposed_only_on_request(planned):
    text = "arrays:\n  A: {shape: [64, 3], dtype: int32%s}\n  B: {shape: [3, 64], dtype: int32}\n"
    text += "compute: B[c, m] = A[m, c]\n"
    assert planned(text % "").family == "map"
    assert planned(text % ", memory: shared").family == "transpose"


def test_inputs_of_two_transpositions_are_refused(reasons):
    (refusal,) = reasons(
        "transpose",
        "params: {N: 40}\narrays:\n  A: {shape: [N, N, N], dtype: int32}\n  C: {shape: [N, N, N], dtype: int32}\n"
        "  B: {shape: [N, N, N], dtype: int32}\ncompute: B[i, j, k] = A[k, i, j] + C[k, j, i]\n",
    )
    assert "one pair of indices only; A and C are contiguous along j and i" in refusal.reason


def test_more_tiles_than_grid_y_allows_go_along_x(made):
    (launch,) = made(TRANSPOSE % (64, 8_000_000, "", "")).manifest.launches
    assert launch.grid == (125_000, 1, 1)


# Execution

SIDES = (1, 8, 31, 32, 33, 64, 65, 97)
MEMORIES = (
    "shared",
    "{space: shared, pad: 1}",
    "{space: shared, swizzle: xor}",
    "{space: shared, dynamic: true, pad: 3}",
)


def batch(types: list[str], memories: tuple[str, ...]) -> str:
    """One spec with a kernel for each type, of different shapes and placements."""
    arrays, compute = [], []
    for n, dtype in enumerate(types):
        rows, columns = SIDES[n % len(SIDES)], SIDES[(3 * n + n // len(SIDES)) % len(SIDES)]
        memory = memories[n % len(memories)]
        arrays.append(f"  A{n}: {{shape: [{n + 1}, {rows}, {columns}], dtype: {dtype}, memory: {memory}}}")
        arrays.append(f"  B{n}: {{shape: [{n + 1}, {columns}, {rows}], dtype: {dtype}}}")
        compute.append(f"  B{n}[b, j, i] = A{n}[b, i, j]")
    return "\n".join(["arrays:", *arrays, "compute: |", *compute, ""])


@pytest.mark.slow
def test_transposes_of_every_type_are_exact(prove, made):
    text = batch(list(DTYPES) * 2, MEMORIES)
    assert {kernel.family for kernel in made(text).plan.kernels} == {"transpose"}
    prove(text)


def test_no_access_of_a_transpose_is_out_of_bounds_or_races(prove):
    text = batch(["float32", "float16", "int8", "float64"], MEMORIES)
    prove(text, sanitize=True)
    prove(text, races=True)


def test_permutations_with_operands_of_every_kind_are_right(prove):
    prove(
        "params: {B: 2, H: 3, S: 37, D: 40}\nscalars: {a: {dtype: float32, value: 0.5}}\narrays:\n"
        "  X: {shape: [B, S, H, D], dtype: float16}\n  W: {shape: [B, S, H, D], dtype: float32}\n"
        "  s: {shape: [S], dtype: float32}\n  d: {shape: [D], dtype: float32, memory: constant}\n"
        "  Y: {shape: [B, H, D, S], dtype: float32, pitch: 48}\n  Z: {shape: [S, S], dtype: int32}\n"
        "  A: {shape: [S, S], dtype: int32}\n"
        "compute: |\n"
        "  Y[b, h, e, t] += a * X[b, t, h, e] * W[b, t, h, e] * X[b, t, h, e] + s[t] * d[e]\n"
        "  Z[i, j] = A[i, j] - A[j, i]\n",
        sanitize=True,
    )


def test_a_column_major_output_is_transposed(prove, planned):
    text = (
        "arrays:\n  A: {shape: [45, 70], dtype: float32, pitch: 72}\n"
        "  B: {shape: [45, 70], dtype: float32, layout: column}\ncompute: B[m, n] = A[m, n]\n"
    )
    assert planned(text).family == "transpose"
    prove(text)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (33, 64), (31, 96)])
def test_dynamic_extents_are_right(prove, rows, columns):
    text = TRANSPOSE % ("dynamic", "{multiple_of: 32}", SHARED % "dynamic: true, swizzle: xor", "")
    prove(text, params={"M": rows, "N": columns // 32 * 32})


@pytest.mark.slow
@settings(max_examples=6)
@given(
    sides=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    size=st.sampled_from([8, 16, 32]),
    rows=st.sampled_from([1, 2, 4, 8]),
    memory=st.sampled_from(MEMORIES),
)
def test_any_tile_that_is_accepted_is_right(prove, reasons, sides, size, rows, memory):
    text = TRANSPOSE % (*sides, f", memory: {memory}", f"block: {{m: {size}, n: {size}}}, thread: {{n: {rows}}}")
    assert reasons("transpose", text) == ()
    prove(text)


# Compilation


@pytest.mark.slow
def test_every_kind_of_tile_compiles_without_warnings(compiled):
    compiled(batch(list(DTYPES), MEMORIES))
    compiled(TRANSPOSE % ("dynamic", "dynamic", "", ""))


@pytest.mark.slow
def test_nvcc_takes_a_dynamic_tile(made):
    if "nvcc" not in [compiler.name for compiler in compilers()]:
        pytest.skip("no nvcc on this machine")
    text = TRANSPOSE % (300, 200, SHARED % "dynamic: true, pad: 1", "")
    assert compile_cubin(made(text).source, "k", "sm_90", prefer="nvcc").warnings == ()
