"""GEMMs on tensor cores of random types, layouts, sizes, splits, epilogues and targets: right, or refused with a reason
that names the piece."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import pytest

from cugen.analysis.bounds.proof import bounds_of
from cugen.spec.diagnostics import SpecError

# Types of A and B, and of the sums.
OPERANDS = (
    ("float16", "float16", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float8_e4m3", "float8_e4m3", "float32"),
    ("float8_e5m2", "float8_e4m3", "float32"),
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("float32", "float32", "float32"),  # in tf32
    ("float64", "float64", "float64"),
    ("float32", "bfloat16", "float32"),  # in parts
    ("float16", "float32", "float32"),
)
OUTPUTS = {"float32": ("float32", "float16", "bfloat16"), "int32": ("int32",), "float64": ("float64", "float32")}
TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
# BM, BN, TM, TN, BK in bytes.
TILES = ((32, 64, 4, 4, 64), (64, 64, 4, 8, 128), (64, 32, 4, 4, 128), (16, 64, 2, 4, 128), (32, 32, 2, 4, 256))
# Pieces that a refusal may name.
PIECES = (
    "`stores`",
    "block sizes are for",
    "tensor cores",
    "split",
    "stream",
    "k-tile",
    "stages",
    "cluster",
    "cores of",
    "thread tile",
    "ldmatrix",
    "raster",
)


@dataclass(frozen=True)
class Draw:
    text: str
    mode: str  # sanitize, races or neither


def draw(seed: int) -> Draw:
    """A spec, from its seed alone."""
    source = random.Random(seed)
    a, b, sums = source.choice(OPERANDS)
    bm, bn, tm, tn, k_bytes = source.choice(TILES)
    size = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}.get(a, 1)
    bk = max(k_bytes // size, 16)
    m, n, k = (_extent(source, tile) for tile in (bm, bn, bk))
    tunables = [f"stages: {source.choice((1, 2, 3, 4))}"]
    match source.randrange(6):
        case 0:
            k = bk * source.choice((2, 4))
            tunables += [f"split_k: {source.choice((2, 4))}", f"reduction: {source.choice(('workspace', 'cluster'))}"]
        case 1:
            m, n = m + 2 * bm, n + 4 * bn
            tunables += ["stream_k: 1"]
        case 2:
            tunables += ["sliced_k: 2"]
    batch = source.choice(("", "", "Z, "))
    index = "z, " if batch else ""
    a_shape, a_read = source.choice(((f"{batch}M, K", f"{index}m, k"), (f"{batch}K, M", f"{index}k, m")))
    b_shape, b_read = source.choice((("K, N", "k, n"), ("N, K", "n, k"), (f"{batch}K, N", f"{index}k, n")))
    kind = source.choice(OUTPUTS[sums])
    product, becomes = f"sum(A[{a_read}] * B[{b_read}], k)", source.choice(("=", "=", "="))
    epilogue = source.choice((product, product, f"{product} + bias[n]", f"maximum({product} + bias[n], 0)", "residual"))
    if epilogue == "residual":
        epilogue, becomes = product, "+="
    bias = f"  bias: {{shape: [N], dtype: {sums}}}\n" if "bias" in epilogue else ""
    pitch = source.choice(("", "", f", pitch: {{align: {source.choice((2, 16, 32)) * size}}}")) if not batch else ""
    fp8 = source.choice(("exact", "fast"))
    text = f"""
target: {source.choice(TARGETS)}
params: {{M: {m}, N: {n}, K: {k}{", Z: 3" if batch else ""}}}
arrays:
  A: {{shape: [{a_shape}], dtype: {a}{pitch}}}
  B: {{shape: [{b_shape}], dtype: {b}}}
{bias}  C: {{shape: [{batch}M, N], dtype: {kind}}}
compute: C[{index}m, n] {becomes} {epilogue}
accumulate: {{tf32: true, fp8: {fp8}}}
schedule:
  family: gemm
  cores: tensor
  block: {{m: {bm}, n: {bn}}}
  thread: {{m: {tm}, n: {tn}}}
  step: {{k: {bk}}}
""" + "".join(f"  {tunable}\n" for tunable in tunables)
    mode = source.choice(("", "sanitize", "races"))
    stores = source.choice(("", "", "  stores: shared\n"))
    return Draw(text + stores, mode)


def _extent(source: random.Random, tile: int) -> int:
    primes = (2, 3, 7, 13, 31, 37, 61, 67, 97)
    return source.choice(
        (1, source.choice(primes), tile - 1, tile, tile + 1, 2 * tile - 3, source.choice((40, 72, 80)))
    )


def check(prove, made, seed: int) -> str:
    """Proves a draw right and its accesses within their arrays; the reasons if it is refused."""
    drawn = draw(seed)
    try:
        bounds_of(made(drawn.text).plan)
        prove(drawn.text, sanitize=drawn.mode == "sanitize", races=drawn.mode == "races")
    except SpecError as error:
        return reasons_of(error)
    return ""


def reasons_of(refusal: SpecError) -> str:
    return "\n".join(note for diagnostic in refusal.diagnostics for note in (diagnostic.message, *diagnostic.notes))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(240))
def test_a_drawn_gemm_is_right_or_refused_by_the_name_of_a_piece(prove, made, seed):
    refusal = check(prove, made, seed)
    assert not refusal or any(piece in refusal for piece in PIECES)


# Seeds of GEMMs of float32 beside 16 bits, which are multiplied in parts, by the way in which their K is split.
SPLITS_OF_PARTS = {
    "workspace": 10,
    "workspace, stores through shared memory": 62,
    "cluster": 832,
    "sliced K": 341,
    "stream-K": 163,
}


@pytest.mark.parametrize("seed", [pytest.param(seed, id=name) for name, seed in SPLITS_OF_PARTS.items()])
def test_a_drawn_gemm_in_parts_is_right_where_its_k_is_split(prove, made, seed):
    text = draw(seed).text
    types = set(re.findall(r"^  [AB]: .*dtype: (\w+)", text, re.MULTILINE))
    assert "float32" in types
    assert len(types) == 2
    assert any(key in text for key in ("split_k", "sliced_k", "stream_k"))
    assert check(prove, made, seed) == ""
