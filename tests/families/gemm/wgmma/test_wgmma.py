"""GEMMs by wgmma of random types, layouts, sizes, tiles and epilogues equal the reference on the CPU device."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest

from tests.families.gemm.wgmma.conftest import READS, RESULTS, product

# Types of A and B, and the types that C may have.
OPERANDS = (
    ("bfloat16", "bfloat16", ("bfloat16", "float32", "float16")),
    ("float16", "float16", ("float16", "float32")),
    ("float8_e4m3", "float8_e4m3", ("bfloat16", "float32")),
    ("float8_e5m2", "float8_e4m3", ("float16", "float32")),
    ("int8", "int8", ("int32",)),
    ("uint8", "int8", ("int32",)),
    ("float32", "float32", ("float32", "bfloat16")),  # in tf32
)
# Epilogues of the sum.
EPILOGUES = {
    "none": "C[{c}] = sum({terms})",
    "bias": "C[{c}] = sum({terms}) + bias[n]",
    "bias and activation": "C[{c}] = maximum(sum({terms}) + bias[n], 0)",
    "residual": "C[{c}] = sum({terms}) + R[{c}]",
    "accumulates": "C[{c}] += sum({terms})",
}
EDGES = (2, 7, 13, 37, 61, 67, 97)
BLOCKS = ((64, 48), (64, 64), (64, 80), (64, 96), (64, 128), (128, 64), (128, 112), (128, 128), (128, 160), (192, 64))
EXACT_FLOAT8_BLOCKS = ((64, 64), (64, 128), (128, 64))  # with twice the sums, and registers for an epilogue


@dataclass(frozen=True)
class Draw:
    text: str
    params: dict[str, int] = field(default_factory=dict)  # of the call
    mode: str = ""  # sanitize, races or neither


def draw(seed: int) -> Draw:
    """A GEMM, from its seed alone."""
    source = random.Random(seed)
    a, b, results = OPERANDS[seed % len(OPERANDS)]
    sums = "int32" if "int8" in a else "float32"
    fp8 = source.choice(("fast", "exact"))
    block_m, block_n = source.choice(EXACT_FLOAT8_BLOCKS if "float8" in a and fp8 == "exact" else BLOCKS)
    schedule = ["family: wgmma", *_tunables(source, block_m, block_n)]
    m, n, k = _extent(source, block_m), _extent(source, block_n), _extent(source, 64)
    if "split_k: 2" in schedule:
        k += 128
    dynamic = {"M": m, "K": k} if source.random() < 0.3 else {}
    kind, compute = source.choice(list(EPILOGUES.items()))
    batch = source.choice((0, 0, 3))
    of_batch = "Z, " if batch else ""
    more = {
        "bias": f"  bias: {{shape: [N], dtype: {sums}}}",
        "residual": f"  R: {{shape: [{of_batch}M, N], dtype: {sums}}}",
    }
    text = product(
        "dynamic" if dynamic else m,
        n,
        f"{{range: [{min(k, 129)}, 4096]}}" if dynamic else k,
        dtype=a,
        b_dtype=b,
        result=source.choice(results),
        layout=source.choice(("nn", "nt", "tn", "tt")),
        batch=batch,
        compute=compute,
        more=more.get(kind.split()[0], ""),
        fp8=fp8,
        schedule=", ".join(schedule),
    )
    return Draw(text, dynamic, source.choice(("", "", "sanitize", "races")))


def _tunables(source: random.Random, block_m: int, block_n: int) -> list[str]:
    """Some of the tunables; those that aren't requested are chosen by the model."""
    tunables = [f"block: {{m: {block_m}, n: {block_n}}}"] if source.random() < 0.7 else []
    optional = (f"stages: {source.choice((2, 3))}", f"raster: {source.choice((1, 2, 3))}", "split_k: 2")
    return tunables + [tunable for tunable in optional if source.random() < 0.3]


def _extent(source: random.Random, tile: int) -> int:
    """Edges of tiles, primes, and rows that TMA copies without others before."""
    return source.choice((source.choice(EDGES), tile - 1, tile, tile + 1, source.choice((16, 48, 80, 160))))


@pytest.mark.sampled(240)
@pytest.mark.parametrize("seed", range(240))
def test_a_drawn_gemm_equals_the_reference(made, prove, seed: int) -> None:
    drawn = draw(seed)
    assert made(drawn.text).plan.kernels[-1].family == "wgmma"
    prove(drawn.text, drawn.params, sanitize=drawn.mode == "sanitize", races=drawn.mode == "races")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sizes", "schedule"),
    [
        pytest.param((8, 64, 136), "block: {m: 64, n: 64}", id="rows of A"),
        pytest.param((64, 144, 136), "block: {m: 64, n: 192}", id="rows of B"),
        pytest.param((8, 64, 512), "block: {m: 64, n: 64}, split_k: 2", id="rows whose K a cluster splits"),
        pytest.param((144, 64, 136), "block: {m: 192, n: 64}, swap_ab: true", id="rows of swapped operands"),
        pytest.param((64, 40, 136), "block: {m: 64, n: 128}, producer: none", id="rows without a producer"),
    ],
)
def test_all_rows_of_a_tile_are_copied_also_of_a_matrix_of_fewer(prove, sizes: tuple[int, ...], schedule: str) -> None:
    """wgmma reads all of them, and the device faults reads of what nobody wrote. TMA writes zeros for rows beyond the
    matrix: a box may exceed the tensor (CUDA driver API, cuTensorMapEncodeTiled)."""
    prove(product(*sizes, schedule=f"family: wgmma, {schedule}"), races=True)


@pytest.mark.sampled(216)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("of_a", "of_b", "of_c"), tuple(itertools.product(range(3), repeat=3)))
def test_a_batch_index_may_be_any_dimension_of_each_array(prove, of_a, of_b, of_c, layout, dtype) -> None:
    """In the middle, as heads are in [time, head, channel], it lies between the rows and the columns of a box."""
    arrays = {}
    for name, subscripts, position in zip("ABC", (*READS[layout], "m, n"), (of_a, of_b, of_c), strict=True):
        names = subscripts.split(", ")
        arrays[name] = ", ".join((*names[:position], "z", *names[position:]))
    result = RESULTS.get(dtype, "bfloat16")
    lines = "\n".join(
        f"  {name}: {{shape: [{subs.upper()}], dtype: {result if name == 'C' else dtype}}}"
        for name, subs in arrays.items()
    )
    prove(
        f"target: sm_90a\nparams: {{M: 144, N: 80, K: 96, Z: 16}}\narrays:\n{lines}\nschedule: {{family: wgmma}}\n"
        f"compute: C[{arrays['C']}] = sum(A[{arrays['A']}] * B[{arrays['B']}], k)\n"
    )


@pytest.mark.slow
def test_tiles_after_another_of_an_odd_number_of_parts_equal_the_reference(prove) -> None:
    """135 tiles on 132 blocks, each stored in five parts of 16 columns through two buffers."""
    prove(product(64 * 45, 240, 64, schedule="family: wgmma, block: {m: 64, n: 80}"))


def test_the_draws_meet_every_case() -> None:
    """Types, epilogues, tunables, batches, and sizes of the call."""
    texts = [draw(seed).text for seed in range(240)]
    features = ("bias", "R[", "+=", "maximum", "dynamic", "Z: 3", "split_k: 2", "stages: ", "raster: ", "fp8: exact")
    for feature in (*features, *{operand for a, b, _ in OPERANDS for operand in (a, b)}):
        assert any(feature in text for text in texts), feature


@pytest.mark.parametrize(
    ("indices", "statements"),
    [
        pytest.param("k: 40", ("C[y, m, n] = sum(A[y, m, k] * B[y, n, k], k)",), id="K"),
        pytest.param(
            "m: 40, i: 32",
            (
                "C[y, i + 40, n] = sum(A[y, i + 40, k] * B[y, n, k], k)",
                "C[y, m, n] = 2 * sum(A[y, m, k] * B[y, n, k], k)",
            ),
            id="M",
        ),
        pytest.param(
            "n: 40, i: 40",
            (
                "C[y, m, i + 40] = sum(A[y, m, k] * B[y, i + 40, k], k)",
                "C[y, m, n] = 2 * sum(A[y, m, k] * B[y, n, k], k)",
            ),
            id="N",
        ),
    ],
)
def test_an_index_may_have_fewer_values_than_the_dimensions_that_it_numbers(
    prove, indices: str, statements: tuple[str, ...]
) -> None:
    """TMA neither adds terms that aren't summed, nor stores where another statement does."""
    lines = "\n  ".join(statements)
    prove(f"""
target: sm_90a
params: {{M: 72, N: 80, K: 64, Y: 3}}
indices: {{{indices}}}
arrays:
  A: {{shape: [Y, M, K], dtype: bfloat16}}
  B: {{shape: [Y, N, K], dtype: bfloat16}}
  C: {{shape: [Y, M, N], dtype: bfloat16}}
compute: |
  {lines}
""")
