"""GEMMs by wgmma whose partial sums of groups of k have factors: scales of blocks, of rows and of columns."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.kernel import generate
from cugen.rewrite.stored import converted_operands
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compilers

# Scales by the dimensions of their array, with the extents of groups of `L` terms and blocks of 128 rows or columns.
ARRAYS = {
    "rows": ("m, {g}", "M, {G}"),
    "columns": ("n, {g}", "N, {G}"),
    "row blocks": ("m // 128, {g}", "(M + 127) // 128, {G}"),
    "column blocks": ("n // 128, {g}", "(N + 127) // 128, {G}"),
    "blocks": ("m // 64, n // 128, {g}", "(M + 63) // 64, (N + 127) // 128, {G}"),
    "groups": ("{g}", "{G}"),
}
FLAT = "C[m, n] = sum({scales} * A[m, k] * B[{b}], k)"
NESTED = "C[m, n] = sum({scales} * sum(A[m, {length} * g + k] * B[{b}], k), g)"


def scaled(
    *kinds: str,
    m: object = 72,
    n: object = 136,
    k: object = 384,
    length: int = 128,
    compute: str = FLAT,
    dtype: str = "float8_e4m3",
    result: str = "float32",
    schedule: str = "",
    b: str = "n, k",
) -> str:
    """The text of a GEMM with scales of some kinds."""
    is_nested = compute == NESTED
    g, groups = ("g", f"K // {length}") if is_nested else (f"k // {length}", f"(K + {length - 1}) // {length}")
    scales, arrays = [], []
    for number, kind in enumerate(kinds):
        subscripts, shape = ARRAYS[kind]
        scales.append(f"s{number}[{subscripts.format(g=g)}]")
        arrays.append(f"  s{number}: {{shape: [{shape.format(G=groups)}], dtype: float32}}\n")
    of_b = b.replace("k", f"{length} * g + k") if is_nested else b
    return f"""
target: sm_90a
params: {{M: {m}, N: {n}, K: {k}}}
{f"indices: {{k: {length}}}" if is_nested else ""}
arrays:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: [{b.upper()}], dtype: {dtype}}}
{"".join(arrays)}  C: {{shape: [M, N], dtype: {result}}}
compute: {compute.format(scales=" * ".join(scales), length=length, b=of_b)}
schedule: {{{schedule}}}
"""


KINDS = (
    ("rows", "column blocks"),
    ("rows",),
    ("column blocks",),
    ("rows", "columns"),
    ("row blocks", "column blocks"),
    ("blocks",),
    ("groups",),
    ("groups", "rows", "rows", "columns"),
)
SCHEDULES = (
    "block: {m: 64, n: 64}, split_k: 2",
    "block: {m: 64, n: 64}, stream_k: 1",
    "block: {m: 64, n: 64}, multicast: 2",
    "block: {m: 64, n: 64}, multicast_n: 2",
    "block: {m: 64, n: 64}, producer: none",
    "block: {m: 24, n: 64}, swap_ab: true",
    "block: {m: 64, n: 96}",
    "block: {m: 64, n: 192}",
)
GROUPS = """
target: sm_90a
params: {M: 72, N: 136, G: 3}
indices: {k: 128}
arrays:
  A: {shape: [M, G, 128], dtype: float8_e4m3}
  B: {shape: [N, G, 128], dtype: float8_e5m2}
  s: {shape: [M, G], dtype: float16}
  C: {shape: [N, M], dtype: bfloat16}
compute: C[n, m] = maximum(sum(s[m, g] * sum(A[m, g, k] * B[n, g, k], k), g), 0)
"""
TOKENS = """
target: sm_90a
params: {B: 3, T: 40, N: 136, K: 256}
arrays:
  x: {shape: [B, T, K], dtype: float8_e4m3}
  w: {shape: [N, K], dtype: float8_e4m3}
  s: {shape: [B, T, K // 128], dtype: float32}
  u: {shape: [(N + 127) // 128, K // 128], dtype: float32}
  bias: {shape: [N], dtype: float32}
  y: {shape: [B, T, N], dtype: bfloat16}
compute: y[b, t, n] = sum(s[b, t, k // 128] * u[n // 128, k // 128] * x[b, t, k] * w[n, k], k) + bias[n]
"""
EXPERTS = """
target: sm_90a
params: {E: 3, M: 40, N: 136, K: 256}
arrays:
  x: {shape: [E, M, K], dtype: float8_e4m3}
  w: {shape: [E, N, K], dtype: float8_e4m3}
  s: {shape: [E, M, K // 128], dtype: float32}
  u: {shape: [E, (N + 127) // 128, K // 128], dtype: float32}
  y: {shape: [E, M, N], dtype: bfloat16}
compute: y[e, m, n] = sum(x[e, m, k] * w[e, n, k] * s[e, m, k // 128] * exp(u[e, n // 128, k // 128]), k)
"""


@pytest.mark.sampled(13)
@pytest.mark.parametrize("k", [128, 256, 400])
@pytest.mark.parametrize("kinds", KINDS, ids=" and ".join)
def test_scales_of_groups_multiply_partial_sums(made, prove, kinds: tuple[str, ...], k: int) -> None:
    """The last of 400 terms are a part of a group."""
    text = scaled(*kinds, k=k)
    assert [kernel.family for kernel in made(text).plan.kernels] == ["wgmma"]
    prove(text)


@pytest.mark.covering
@pytest.mark.parametrize("k", [128, 200])
@pytest.mark.parametrize("kinds", [("columns",), ("rows", "column blocks")], ids=" and ".join)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_have_scales_for_k_tiles(made, prove, kinds: tuple[str, ...], k: int, dtype: str) -> None:
    """For each of them, or several."""
    for length in (64, 128):
        text = scaled(*kinds, k=k, length=length, dtype=dtype, result=dtype)
        assert [kernel.family for kernel in made(text).plan.kernels] == ["wgmma"]
        prove(text)


WEIGHTS = """
target: sm_90a
params: {M: 136, N: 200, K: 256}
indices: {k: K}
arrays:
  x: {shape: [M, K], dtype: float16}
  w: {shape: [N, K // 2], dtype: uint8}
  s: {shape: [N, K // 128], dtype: float16}
  y: {shape: [M, N], dtype: float16}
compute: |
  q[n, k] = (cast(w[n, k // 2], int32) >> (k %% 2 * 4)) & 15
  d[n, k] = cast(q[n, k] - 8, %s) * s[n, k // 128]
  y[m, n] = sum(x[m, k] * d[n, k], k)
"""


ZERO_POINTS = """
target: sm_90a
params: {M: 72, N: 136, K: 256}
arrays:
  x: {shape: [M, K], dtype: %s}
  w: {shape: [N, K], dtype: %s}
  z: {shape: [N, K // 128], dtype: int8}
  s: {shape: [N, K // 128], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = sum(x[m, k] * (w[n, k] - z[n, k // 128]) * s[n, k // 128], k)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("dtype", "weights"), [("float16", "int8"), ("float16", "uint8"), ("bfloat16", "int8")])
def test_weights_less_their_zero_points_are_stored_as_16_bits(made, prove, monkeypatch, dtype: str, weights: str):
    monkeypatch.setattr(converted_operands, "_MIN_MULTIPLY_ADDS", 0)
    kernel = made(ZERO_POINTS % (dtype, weights))
    assert [made.family for made in kernel.plan.kernels] == ["map", "wgmma"]
    prove(ZERO_POINTS % (dtype, weights))


def test_differences_that_bfloat16_does_not_hold_are_not_stored_so(made, monkeypatch) -> None:
    """Of a byte and a signed one: up to 383."""
    monkeypatch.setattr(converted_operands, "_MIN_MULTIPLY_ADDS", 0)
    assert "wgmma" not in [kernel.family for kernel in made(ZERO_POINTS % ("bfloat16", "uint8")).plan.kernels]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_of_4_bits_with_scales_of_groups_are_stored_as_16_bits(made, prove, monkeypatch, dtype: str) -> None:
    monkeypatch.setattr(converted_operands, "_MIN_MULTIPLY_ADDS", 0)
    kernel = made(WEIGHTS % dtype)
    assert [made.family for made in kernel.plan.kernels] == ["map", "wgmma"]
    assert kernel.context.spec.array("w_float16").dtype.name == "float16"
    prove(WEIGHTS % dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("k", "length"), [(128, 128), (384, 128), (512, 256)])
def test_a_sum_over_groups_is_one_sum(made, prove, k: int, length: int) -> None:
    text = scaled("rows", "column blocks", k=k, length=length, compute=NESTED)
    assert [kernel.family for kernel in made(text).plan.kernels] == ["wgmma"]
    prove(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GROUPS, id="dimensions of groups"),
        pytest.param(TOKENS, id="fused rows"),
        pytest.param(EXPERTS, id="a batch"),
    ],
)
def test_scales_of_other_forms_multiply_partial_sums(made, prove, text: str) -> None:
    assert [kernel.family for kernel in made(text).plan.kernels] == ["wgmma"]
    prove(text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "scales",
    ["s[m, g] * w[k]", "s[m, (128 * g + k + 32) // 128]", "s[m, g] * w[(k + 32) // 64]"],
    ids=["a weight of each term", "groups that begin within others", "parts of groups"],
)
@pytest.mark.parametrize("order", ["g, k", "k, g"])
def test_a_factor_of_single_terms_is_no_scale(made, prove, scales: str, order: str) -> None:
    text = f"""
target: sm_90a
params: {{M: 72, N: 136, G: 3}}
arrays:
  A: {{shape: [M, G, 128], dtype: float8_e4m3}}
  B: {{shape: [N, G, 128], dtype: float8_e4m3}}
  s: {{shape: [M, {"G + 1" if "//" in scales and "w[" not in scales else "G"}], dtype: float32}}
{"  w: {shape: [128], dtype: float32}" if "w[" in scales else ""}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum({scales} * A[m, g, k] * B[n, g, k], {order})
"""
    assert "wgmma" not in [kernel.family for kernel in made(text).plan.kernels]
    prove(text)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mode", ["sanitize", "races"])
def test_scales_are_those_of_the_terms_that_a_block_has(prove, schedule: str, mode: str) -> None:
    text = scaled("rows", "column blocks", m=200, n=264, k=512, schedule=f"family: wgmma, {schedule}")
    prove(text, sanitize=mode == "sanitize", races=mode == "races")


@pytest.mark.parametrize("kinds", [("rows", "column blocks"), ("groups", "columns")], ids=" and ".join)
def test_traced_loads_of_scales_match_the_plan(made, kinds: tuple[str, ...]) -> None:
    kernel = made(scaled(*kinds, k=400))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches


def test_sizes_of_the_call_may_be_any(made, prove) -> None:
    text = scaled("rows", "column blocks", m="dynamic", k="{range: [64, 4096], multiple_of: 16}")
    assert [kernel.family for kernel in made(text).plan.kernels] == ["wgmma"]
    for m, k in ((1, 64), (67, 272), (130, 128)):
        prove(text, {"M": m, "K": k})


def test_a_transposed_operand_is_copied_first(made, prove) -> None:
    text = scaled("rows", "column blocks", k=256, b="k, n", compute=NESTED)
    assert [kernel.family for kernel in made(text).plan.kernels] == ["transpose", "wgmma"]
    prove(text)


def test_the_scale_of_a_tile_is_loaded_once_and_those_of_rows_before_the_k_tile_is_awaited(made) -> None:
    source = made(scaled("rows", "column blocks", m=4096, n=4096, k=7168)).source
    loads, others = source.split("float partials[2][32];")[1].split("mbarrier_wait(&full", 1)
    assert "const float s1_value = s1[n0 / 128 * ((K + 127) / 128) + k0 / 128];" in loads
    assert "const float s0_value = s0[row * ((K + 127) / 128) + k0 / 128];" in loads
    assert "row_scales[i] = s1_value * s0_value;" in loads
    assert "acc[i][j] += row_scales[i] * partials[i][j];" in others


def test_tiles_in_which_a_scale_differs_along_both_sides_are_refused(reasons) -> None:
    (refusal,) = reasons("wgmma", scaled("blocks", schedule="family: wgmma, block: {m: 128, n: 256}"))
    assert (refusal.reason, refusal.key) == (
        "has scales that differ along rows or columns of a tile, not along both",
        "schedule.block",
    )


@pytest.mark.parametrize("length", [16, 48, 192])
def test_scales_of_other_parts_of_a_k_tile_are_refused(reasons, length: int) -> None:
    (refusal,) = reasons("wgmma", scaled("rows", length=length, schedule="family: wgmma"))
    assert refusal.reason == (
        f"has scales of groups of a multiple of 32 terms that divides 128, or of these, not of {length}"
    )


def test_scales_of_parts_of_the_last_k_tile_are_refused(reasons) -> None:
    """A group that begins after K has none."""
    (refusal,) = reasons("wgmma", scaled("rows", length=64, k=208, schedule="family: wgmma"))
    assert refusal.reason == "has scales of groups of 64 terms where K is a multiple of 128"


PARTS = [("float16", 16), ("float16", 32), ("bfloat16", 32), ("float8_e4m3", 32), ("float8_e4m3", 64)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kinds", [("columns",), ("rows", "column blocks"), ("groups",)], ids=" and ".join)
@pytest.mark.parametrize(("dtype", "length"), PARTS)
def test_groups_of_a_k_tile_have_scales_of_their_own(made, prove, kinds: tuple[str, ...], dtype: str, length: int):
    text = scaled(*kinds, k=256, length=length, dtype=dtype)
    kernel = made(text)
    assert [kernel.family for kernel in kernel.plan.kernels] == ["wgmma"]
    proof = prove_pipeline(kernel.plan.kernels[0])
    assert proof is not None
    assert proof.verdict == "proved"
    prove(text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_groups_of_a_k_tile_have_their_scales_in_any_schedule(prove, schedule: str) -> None:
    prove(scaled("rows", "columns", k=256, length=32, dtype="float16", schedule=f"family: wgmma, {schedule}"))


def test_scales_of_operands_of_32_bits_are_refused(reasons) -> None:
    text = scaled("rows", dtype="float32", length=64, schedule="family: wgmma") + "accumulate: {tf32: true}\n"
    (refusal,) = reasons("wgmma", text)
    assert refusal.reason == "has scales of operands of up to 16 bits"


def test_a_sum_may_overflow_without_its_scale(made) -> None:
    """As a sum times a factor that all of its terms have."""
    kernel = made(scaled("groups", k=64, length=64, dtype="bfloat16"))
    large, small = np.full((72, 64), 2.0**123, ml_dtypes.bfloat16), np.full((136, 64), 1.0, ml_dtypes.bfloat16)
    inputs = Inputs({"A": large, "B": small, "s0": np.full(1, 0.25, np.float32)}, {})
    assert kernel.plan.kernels[0].family == "wgmma"
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), inputs=inputs).verification.passed


def test_divisors_are_no_scales(reasons) -> None:
    text = scaled("rows", schedule="family: wgmma").replace("s0[m, k // 128] * A[m, k]", "A[m, k] / s0[m, k // 128]")
    assert "divides by none" in reasons("wgmma", text)[0].reason


def test_a_requested_family_says_why_it_takes_no_scales() -> None:
    text = scaled("rows", k=256, compute=NESTED, schedule="family: wgmma").replace(
        "[M, K // 128]", "[M, K // 128], memory: constant"
    )
    with pytest.raises(SpecError, match="loads the scales s0 from global memory"):
        generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0])


@pytest.mark.sampled(24)
@pytest.mark.parametrize("shape", [(4096, 4096, 7168), (1000, 1016, 1024), (64, 7168, 2048)], ids=str)
@pytest.mark.parametrize("kinds", KINDS, ids=" and ".join)
def test_registers_hold_sums_and_scales(made, kinds: tuple[str, ...], shape: tuple[int, int, int]) -> None:
    """Sums that spill, or that ptxas waits for after each instruction, are errors."""
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    m, n, k = shape
    assert compile_cubin(made(scaled(*kinds, m=m, n=n, k=k, result="bfloat16")).source, "k", "sm_90a").warnings == ()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("m", [2048, 3000, "dynamic"])
@pytest.mark.parametrize(("dtype", "length"), PARTS)
def test_registers_hold_scales_of_groups_on_both_sides(made, m: object, dtype: str, length: int) -> None:
    """As of MX formats: the groups of a k-tile are loaded through one pointer, which their number is added to."""
    kernel = made(scaled("rows", "columns", m=m, n=3072, k=4096, length=length, dtype=dtype, result="bfloat16"))
    assert [kernel.family for kernel in kernel.plan.kernels] == ["wgmma"]
    assert f"k0 / {length} + k_group]" in kernel.source
    if compilers():
        assert compile_cubin(kernel.source, "k", "sm_90a").warnings == ()


def test_scales_of_longer_groups_than_those_of_a_k_tile_are_loaded_for_theirs(made, prove) -> None:
    """Of 32 terms in rows, and of 64 and 256 in columns."""
    text = scaled("rows", "columns", "columns", k=512, length=32, dtype="float8_e4m3")
    for name, length in (("s1", 64), ("s2", 256)):
        text = text.replace(f"{name}[n, k // 32]", f"{name}[n, k // {length}]")
        text = text.replace(f"{name}: {{shape: [N, (K + 31) // 32]", f"{name}: {{shape: [N, K // {length}]")
    assert "k_group / 2" in made(text).source
    prove(text)
