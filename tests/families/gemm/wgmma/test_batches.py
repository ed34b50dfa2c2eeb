"""GEMMs by wgmma with several batch indices: of each operand those that it has are dimensions of its tensor map."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from cugen.analysis.bounds.proof import bounds_of
from cugen.families.gemm.problem import problem_of, read_elements
from cugen.runtime.honesty import check_honesty
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.wgmma.conftest import contraction_of

BATCH = {"x": 3, "y": 2, "z": 4}
# A subscript in place of a batch index, and the extent of its dimension: grouped queries, reversed, shifted, strided.
SUBSCRIPTS = {
    "{i}": "{e}",
    "{i} // 2": "({e} + 1) // 2",
    "{e} - 1 - {i}": "{e}",
    "{i} + 1": "{e} + 1",
    "2 * {i}": "2 * {e}",
}
SCHEDULES = (
    "",
    "block: {m: 64, n: 64}, stages: 2",
    "block: {m: 64, n: 64}, multicast: 2",
    "block: {m: 64, n: 64}, multicast_n: 2",
    "block: {m: 64, n: 64}, split_k: 2",
    "block: {m: 64, n: 64}, producer: none",
    "block: {m: 64, n: 64}, raster: 2",
    "block: {m: 64, n: 64}, epilogue: stmatrix",
    "block: {m: 24, n: 64}, swap_ab: true",
    "block: {m: 64, n: 64}, stream_k: 1",
)
MODES = ("", "", "sanitize", "races")


@dataclass(frozen=True)
class Draw:
    text: str
    params: dict[str, int] = field(default_factory=dict)  # of the call
    mode: str = ""


def draw(seed: int) -> Draw:
    """A GEMM, from its seed alone."""
    source = random.Random(seed)
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    is_shared = "multicast" in schedule
    m = source.choice((136, 192) if is_shared else (8, 40, 64, 72))
    n = source.choice((64, 96) if is_shared else (16, 80))
    extents = {"m": m, "n": n, "k": 128, **BATCH}
    batch = source.sample(list(BATCH), source.choice((2, 2, 3)))
    of_a = [name for name in batch if source.random() < 0.7]
    of_b = [name for name in batch if name not in of_a or source.random() < 0.6]
    is_computed = source.random() < 0.3
    arrays, reads = {}, {}
    for array, matrix, names in (("A", "mk", of_a), ("B", "nk", of_b)):
        contiguous = "k" if is_shared else source.choice(matrix)
        reads[array], arrays[array] = _subscripts(source, matrix, names, contiguous, is_computed)
    out, _ = _subscripts(source, "mn", batch, source.choice("mn"), False)
    dynamic = _dynamic(source, schedule, extents, arrays)
    declared = {**extents, **{name: f"{{range: [{value if name == 'k' else 1}, 4096]}}" for name, value in dynamic}}
    params = ", ".join(f"{name.upper()}: {value}" for name, value in declared.items())
    result = source.choice(("bfloat16", "bfloat16", "float32"))
    if any(name in schedule for name in ("stmatrix", "swap_ab", "multicast")):
        out, result = [*batch, "m", "n"], "bfloat16"
    epilogue = source.choice(("", " + bias[{}, n]".format(", ".join(batch)), " * 0.5"))
    shapes = {name: ", ".join(shape) for name, shape in arrays.items()}
    text = f"""
target: sm_90a
params: {{{params}}}
arrays:
  A: {{shape: [{shapes["A"]}], dtype: bfloat16}}
  B: {{shape: [{shapes["B"]}], dtype: bfloat16}}
  bias: {{shape: [{", ".join(name.upper() for name in (*batch, "n"))}], dtype: float32}}
  C: {{shape: [{", ".join(name.upper() for name in out)}], dtype: {result}}}
compute: C[{", ".join(out)}] = sum(A[{", ".join(reads["A"])}] * B[{", ".join(reads["B"])}], k){epilogue}
schedule: {{family: wgmma{", " if schedule else ""}{schedule}}}
"""
    if "bias[" not in text.split("compute")[1]:
        text = "\n".join(line for line in text.splitlines() if "  bias:" not in line)
    params_of_call = {name.upper(): value for name, value in dynamic}
    return Draw(text, params_of_call, source.choice(MODES))


def _subscripts(
    source: random.Random, matrix: str, batch: list[str], last: str, is_computed: bool
) -> tuple[list[str], list[str]]:
    """Subscripts of an array in any order, but for the contiguous one, and the extents of its dimensions."""
    names = [*batch, *(name for name in matrix if name != last)]
    source.shuffle(names)
    subscripts, shape = [], []
    for name in (*names, last):
        kind = source.choice(list(SUBSCRIPTS)) if is_computed and name in batch else "{i}"
        subscripts.append(kind.format(i=name, e=name.upper()))
        shape.append(SUBSCRIPTS[kind].format(e=name.upper()))
    return subscripts, shape


def _dynamic(
    source: random.Random, schedule: str, extents: dict[str, int], arrays: dict[str, list[str]]
) -> list[tuple[str, int]]:
    """Extents that are known at the call only: none of rows, which must be multiples of 16 bytes."""
    if "stream_k" in schedule or source.random() < 0.6:
        return []
    rows = {shape[-1] for shape in arrays.values()} | {"N"}
    is_shared = "multicast" in schedule  # of a matrix that may be smaller than its tile
    return [(name, value) for name, value in extents.items() if name.upper() not in rows and not is_shared]


@pytest.mark.sampled(160)
@pytest.mark.parametrize("seed", range(16 * len(SCHEDULES)))
def test_a_drawn_gemm_of_several_batch_indices_equals_the_reference(made, prove, seed: int) -> None:
    drawn = draw(seed)
    assert [kernel.family for kernel in made(drawn.text).plan.kernels] == ["wgmma"], drawn.text
    prove(drawn.text, drawn.params, sanitize=drawn.mode == "sanitize", races=drawn.mode == "races")


def of_attention(value: str, weights: str = "b, h, i, j", output: str = "b, i, h, d") -> str:
    """P·V of grouped queries: the heads of a group share values."""
    return f"""
target: sm_90a
params: {{B: 2, H: 8, G: 2, T: 96, D: 64}}
arrays:
  p: {{shape: [B, H, T, T], dtype: bfloat16}}
  v: {{shape: [B, G, T, D], dtype: bfloat16}}
  o: {{shape: [{output.upper().replace("I", "T")}], dtype: bfloat16}}
compute: o[{output}] = sum(p[{weights}] * v[{value}], j)
schedule: {{family: wgmma}}
"""


def test_an_operand_has_the_batch_indices_in_its_tensor_map_that_it_is_read_at(made) -> None:
    """Heads are split into groups, and heads of a group."""
    source = made(of_attention("b, h // 4, j, d")).source
    assert "const int h_outer = blockIdx.x" in source
    assert "d0, j0, h_outer, b);" in source
    assert "j0, i0, h_inner, h_outer, b);" in source
    assert "tma_store_5d(" in source


def test_elements_that_matrices_of_a_batch_share_are_read_once() -> None:
    for value, groups in (("b, h // 4, j, d", 2), ("b, 0, j, d", 2)):
        problem = problem_of(contraction_of(of_attention(value)))
        weights, values = (read_elements(problem, operand) for operand in problem.operands)
        assert (weights, values) == (2 * 8 * 96 * 96, 2 * groups * 96 * 64)


ROWS = """
target: sm_90a
params: {M: 128, N: 64, K: 64, X: 3, Y: 5}
arrays:
  A: {shape: [X, Y, M, K], dtype: bfloat16}
  B: {shape: [Y, N, K], dtype: bfloat16}
  C: {shape: [Y, M, X, N], dtype: bfloat16}
compute: C[y, m, x, n] = sum(A[x, y, m, k] * B[y, n, k], k)
schedule: {family: wgmma}
"""


@pytest.mark.parametrize(
    ("text", "m"),
    [
        pytest.param(ROWS, "m", id="x is faster, and short"),
        pytest.param(ROWS.replace("X: 3", "X: 128"), "x", id="x is faster, and long"),
        pytest.param(
            ROWS.replace("X: 3", "X: 128").replace("wgmma", "wgmma, block: {m: 64}"), "m", id="m is scheduled"
        ),
        pytest.param(
            ROWS.replace("M: 128", "M: 8").replace("X, Y, M, K", "X, Y, K, M").replace("x, y, m, k", "x, y, k, m"),
            "m",
            id="TMA copies rows along m",
        ),
    ],
)
def test_rows_are_along_an_index_that_fills_a_tile(made, text: str, m: str) -> None:
    (kernel,) = made(text).plan.kernels
    assert kernel.family == "wgmma"
    assert [name for name in "mx" if f"const int {name}0 =" in made(text).source] == [m]


def test_batch_indices_are_fused_where_a_map_has_too_few_dimensions(made) -> None:
    """Only those: indices of their own are easier to read."""
    names = ("w", "x", "y", "z")
    for count, is_fused in ((3, False), (4, True)):
        of_batch = ", ".join(names[:count])
        text = ROWS.replace("Y: 5}", "Y: 5, W: 2, Z: 3}")
        for old, new in (("X, Y, M, K", "M, K"), ("Y, N, K", "N, K"), ("Y, M, X, N", "M, N")):
            text = text.replace(f"[{old}]", f"[{of_batch.upper()}, {new}]")
            text = text.replace(f"[{old.lower()}]", f"[{of_batch}, {new.lower()}]")
        (kernel,) = made(text).plan.kernels
        assert kernel.family == "wgmma"
        assert ("const int wxyz =" in made(text).source) == is_fused


def test_a_read_at_computed_batch_subscripts_is_a_matrix_where_no_images_have_it(reasons) -> None:
    text = ROWS.replace("X: 3", "X: dynamic").replace("shape: [X,", "shape: [2 * X,").replace("A[x,", "A[2 * x,")
    assert reasons("wgmma", text) == ()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_compiler_has_no_warning(made, schedule: str) -> None:
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    drawn = draw(SCHEDULES.index(schedule))
    assert compile_cubin(made(drawn.text).source, "k", "sm_90a").warnings == ()


@pytest.mark.parametrize("n", [64, 512], ids=["one column of tiles", "several"])
@pytest.mark.parametrize("batch", [("z",), ("y", "z")], ids=["a batch index", "two"])
def test_results_of_any_number_of_matrices_of_any_rows_are_in_bounds(made, batch: tuple[str, ...], n: int) -> None:
    """Threads store them, at coordinates of which no size but N is known."""
    of_batch = ", ".join(batch)
    sizes = ", ".join(f"{name.upper()}: {{range: [1, 4096]}}" for name in ("m", *batch))
    kernel = made(f"""
target: sm_90a
params: {{{sizes}, N: {n}, K: 128}}
arrays:
  A: {{shape: [{of_batch.upper()}, M, K], dtype: bfloat16}}
  B: {{shape: [{", ".join(reversed(batch)).upper()}, N, K], dtype: bfloat16}}
  C: {{shape: [{of_batch.upper()}, M, N], dtype: float32}}
compute: C[{of_batch}, m, n] = sum(A[{of_batch}, m, k] * B[{", ".join(reversed(batch))}, n, k], k)
schedule: {{family: wgmma}}
""")
    assert {claim.verdict for claim in bounds_of(kernel.plan)} == {"proved"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(SCHEDULES)))
def test_traced_accesses_match_the_plan(made, seed: int) -> None:
    drawn = draw(seed)
    kernel = made(drawn.text)
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), drawn.params)
    assert trace.compared > 0
    assert not trace.mismatches


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", ["", ", multicast: 2", ", swap_ab: true"])
def test_a_block_loops_over_tiles_of_several_matrices(prove, options: str) -> None:
    """300 tiles, of two rows in each of 150 matrices, on 132 blocks."""
    schedule = f"wgmma, block: {{m: 64, n: 64}}{options}"
    text = ROWS.replace("X: 3", "X: 30").replace("wgmma", schedule)
    prove(text)
