"""Skinny GEMM and GEMV: heuristic, one vectorised read of B, split-K, results."""

from __future__ import annotations

import pytest

from cugen.kernel_report import analyze
from cugen.plan.kernel import Kernel
from cugen.plan.symbols import bounds
from cugen.plan.traversal.walking import accesses

SKINNY_GEMM = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  x: {{shape: [{x}], dtype: {dtype}}}
  w: {{shape: [{w}], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {out}}}
compute: y[m, n] = {value}
schedule: {{family: skinny{schedule}}}
"""


def skinny_gemm(m=8, k=512, n=300, n_major=False, dtype="float32", out="", value="", schedule="", x="M, K"):
    w, w_indices = ("K, N", "k, n") if n_major else ("N, K", "n, k")
    value = value or f"sum(x[{x.lower()}] * w[{w_indices}], k)"
    return SKINNY_GEMM.format(m=m, k=k, n=n, x=x, w=w, dtype=dtype, out=out or dtype, value=value, schedule=schedule)


def automatic(text: str) -> str:
    """The spec without its schedule."""
    return text.replace("schedule: {family: skinny}", "")


def loads(kernel: Kernel, name: str) -> list[int]:
    return [a.width for a in accesses(kernel.body) if a.array.name == name and a.kind == "load"]


def grid(kernel: Kernel) -> list[int]:
    return [bounds(count, dict(kernel.ranges))[1] for count in kernel.grid]


# Heuristic


@pytest.mark.parametrize(("k", "width"), [(4096, 8), (256, 8), (128, 4), (64, 2), (96, 2)])
def test_vectors_along_a_short_k_are_as_wide_as_leaves_no_lane_idle(planned, k, width):
    kernel = planned(skinny_gemm(8, k, 20_000, dtype="bfloat16"))
    assert set(loads(kernel, "w")) == {width}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize(("m", "family"), [(1, "skinny"), (2, "skinny"), (8, "skinny"), (9, "gemm"), (16, "gemm")])
def test_more_than_8_rows_are_left_to_tiles(made, m, n_major, family):
    kernels = made(automatic(skinny_gemm(m, 4096, 20_000, n_major=n_major))).plan.kernels
    assert kernels[0].family == family


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("m", "family"), [(2, "skinny"), (3, "gemm"), (8, "gemm")])
def test_more_than_2_rows_that_lanes_read_with_a_stride_are_left_to_tiles(made, prove, m, family):
    text = automatic(skinny_gemm(m, 1000, 99, x="K, M"))
    assert made(text).plan.kernels[0].family == family
    prove(text)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "target", "family"),
    [
        pytest.param(2, 4096, "sm_90a", "skinny", id="two rows"),
        pytest.param(3, 4096, "sm_90a", "wgmma", id="three rows"),
        pytest.param(8, 4096, "sm_90a", "wgmma", id="eight rows"),
        pytest.param(8, 256, "sm_90a", "skinny", id="a small B"),
        pytest.param(8, 4096, "sm_90", "skinny", id="another target"),
    ],
)
def test_several_rows_of_halves_are_left_to_wgmma_where_b_is_large(made, m, n, target, family, n_major):
    """8 x 7168 x 2048 takes 29.3 us by FMAs, and 19.6 by wgmma (on an H100)."""
    text = skinny_gemm(m, 2048, n, n_major=n_major, dtype="bfloat16")
    assert made(f"target: {target}{automatic(text)}").plan.kernels[0].family == family


def test_unsupported_problems_are_refused(reasons):
    def why(text):
        return " ".join(refusal.reason for refusal in reasons("skinny", text))

    assert "up to 16 rows" in why(skinny_gemm(17))
    assert "must be fixed" in why(skinny_gemm("{range: [1, 8]}"))
    assert "N and K from 64 on" in why(skinny_gemm(n=63))
    assert "whole of one index" in why(skinny_gemm(value="sum(x[m, k] * w[n, k], k, where=k < n)"))
    assert "takes one sum" in why(skinny_gemm(value="max(x[m, k] * w[n, k], k)"))
    assert "an M dimension" in why(VECTOR)
    assert "`tile_n` and `warps`" in why(skinny_gemm(schedule=", block: {m: 8}"))
    assert "whole warps" in why(skinny_gemm(schedule=", lanes: 8"))


VECTOR = """
params: {N: 512}
arrays:
  x: {shape: [N], dtype: float32}
  w: {shape: [N, N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[n] = sum(x[k] * w[n, k], k)
"""


@pytest.mark.parametrize("n_major", [False, True])
def test_b_is_read_once_with_vector_loads(made, n_major):
    kernel = made(skinny_gemm(8, 512, 384, n_major=n_major, schedule=", split_k: 1"))
    (launch,) = analyze(kernel).kernels
    (b,) = [report for report in launch.accesses if report.access.array.name == "w"]
    assert b.access.width == 4
    assert b.ratio == 1
    assert b.totals is not None
    assert b.totals.requests == 512 * 384 // 4 // 32


def test_vector_width_follows_type_and_size(planned):
    def widths(**sizes):
        kernel = planned(skinny_gemm(schedule=", split_k: 1", **sizes))
        return loads(kernel, "w"), loads(kernel, "x")

    assert widths() == ([4], [4])
    assert widths(dtype="bfloat16") == ([8], [8])
    assert widths(k=510) == ([2], [2])
    assert widths(k=511) == ([1], [1])
    assert widths(n_major=True, n=320, dtype="float16") == ([8], [4])
    assert widths(n_major=True, n=301, x="K, M") == ([1], [1])


@pytest.mark.parametrize("n_major", [False, True])
def test_a_gemv_streams_a_matrix_larger_than_l2(made, n_major):
    def streamed(n, dtype="float32", m=1):
        kernels = made(skinny_gemm(m, 4096, n, n_major=n_major, dtype=dtype)).plan.kernels
        return {a.array.name for kernel in kernels for a in accesses(kernel.body) if a.streaming}

    assert streamed(2052) == {"w"}
    assert streamed(2048) == set()
    assert streamed(2052, "int8") == set()
    assert streamed(2052, m=2) == set()
    assert streamed(2049 if n_major else 2053, "float64") == (set() if n_major else {"w"})  # odd rows aren't read wide


def test_streaming_loads_are_in_the_source(made):
    source = made(skinny_gemm(1, 7168, 4096, n_major=True)).source
    assert "w_frag[dk] = load_streaming<4>(&w[" in source


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
def test_streaming_gemvs_are_right(prove, compiled, n_major):
    text = skinny_gemm(1, 4099 if n_major else 4096, 2056, n_major=n_major)
    compiled(text)
    prove(text)


def test_k_is_split_until_the_grid_fills_the_device(made):
    launches = made(skinny_gemm(8, 7168, 2112)).plan.kernels
    assert [kernel.family for kernel in launches] == ["skinny", "reduce"]
    assert grid(launches[0]) == [33, 4, 1]
    assert len(made(skinny_gemm(8, 1536, 24576)).plan.kernels) == 1
    assert len(made(skinny_gemm(8, 7168, 2112, schedule=", split_k: 1")).plan.kernels) == 1
    assert grid(made(skinny_gemm(schedule=", split_k: 2")).plan.kernels[0]) == [5, 2, 1]


# Results


@pytest.mark.covering
@pytest.mark.parametrize(("dtype", "k"), [("float32", 8191), ("float16", 8191), ("float16", 16382)])
@pytest.mark.parametrize("n_major", [False, True])
def test_a_k_without_divisors_is_split_in_parts_of_which_the_last_is_shorter(made, prove, n_major, dtype, k):
    """A prime number of terms, and twice one."""
    text = skinny_gemm(5, k, 64, n_major=n_major, dtype=dtype, out="float32")
    first, last = made(text).plan.kernels
    assert (first.family, last.family) == ("skinny", "reduce")
    assert grid(first)[1] > 4
    prove(text)


@pytest.mark.parametrize(
    ("k", "dtype", "family"),
    [
        (4097, "float32", "reduce"),
        (4098, "float32", "reduce"),
        (4100, "bfloat16", "reduce"),
        (4096, "float32", "skinny"),
    ],
)
def test_a_row_by_columns_that_begin_anywhere_is_left_to_reductions(made, k, dtype, family):
    text = automatic(skinny_gemm(m=1, k=k, n=20_000, dtype=dtype))
    assert made(text).plan.kernels[0].family == family


@pytest.mark.sampled(6)
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize("sizes", [(3, 130, 67), (8, 512, 100)])
def test_results_are_right(prove, sizes, n_major):
    prove(skinny_gemm(*sizes, n_major=n_major, schedule=", split_k: 2"))


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
def test_a_term_may_use_its_indices(prove, n_major):
    w = "w[k, n]" if n_major else "w[n, k]"
    prove(skinny_gemm(2, 64, 67, n_major=n_major, value=f"sum(x[m, k] * {w} * (n + m + k), k)"))


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize("sizes", [(1, 256, 64), (16, 127, 257), (5, 4099, 66)])
def test_all_sizes_are_right(prove, sizes, n_major):
    prove(skinny_gemm(*sizes, n_major=n_major), races=n_major)
    prove(skinny_gemm(*sizes, n_major=n_major, x="K, M"), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e4m3", "int8", "int64"])
def test_all_element_types_are_right(prove, dtype, n_major):
    out = "float32" if dtype.startswith("float8") else ""
    prove(skinny_gemm(4, 1024, 96, n_major, dtype, out))


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
def test_dynamic_sizes_are_right(prove, n_major):
    text = skinny_gemm(5, "dynamic", "{range: [0, 9000], multiple_of: 4}", n_major=n_major)
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
def test_dequantisation_batches_and_epilogues_are_right(prove):
    prove(QUANTISED)
    prove(QUANTISED.replace("w: {shape: [N, K]", "w: {shape: [K, N]").replace("w[n, k]", "w[k, n]"))
    prove(HEADS)
    prove(HEADS.replace("s[b, h, m, n] = ", "s[b, h, m, n] += "))


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_every_kernel_compiles_for_old_and_new_targets(compiled, dtype, n_major):
    compiled(skinny_gemm(4, 1024, 1032, n_major, dtype))


# GEMV


@pytest.mark.parametrize(("n", "family"), [(16_384, "skinny"), (4096, "reduce"), (300, "reduce")])
def test_a_row_by_columns_that_are_too_few_for_the_device_is_left_to_reductions(made, n, family):
    launches = made(automatic(skinny_gemm(m=1, k=4096, n=n))).plan.kernels
    assert launches[0].family == family


def test_a_gemv_fills_the_device_in_one_launch(made):
    def launch(n, k):
        (kernel,) = made(automatic(skinny_gemm(1, k, n, n_major=True))).plan.kernels
        assert kernel.family == "skinny"
        assert loads(kernel, "w") == [4]
        return grid(kernel)[0], kernel.block[:2], kernel.minimum_blocks

    assert launch(4096, 7168) == (128, (8, 128), 1)
    assert launch(24576, 1536) == (384, (16, 16), 4)
    assert launch(32768, 512) == (256, (32, 16), 2)
    assert launch(7168, 2048) == (112, (16, 64), 1)
    assert launch(2112, 7168) == (132, (4, 256), 1)
    assert launch(131072, 64) == (1024, (32, 4), 8)
    assert launch(4096, 256) == (128, (8, 32), 4)


def test_a_gemv_with_small_n_is_split_along_k(made):
    kernels = made(automatic(skinny_gemm(1, 7168, 576, n_major=True))).plan.kernels
    assert [kernel.family for kernel in kernels] == ["skinny", "reduce"]
    assert grid(kernels[0]) == [9, 56, 1]


def test_partial_sums_have_no_bank_conflicts(made):
    (launch,) = analyze(made(skinny_gemm(1, 512, 4096, n_major=True))).kernels
    shared = [report for report in launch.accesses if report.access.array.space == "shared"]
    assert all(report.ratio == 1 for report in shared)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_lane_groups_are_right(prove, lanes):
    prove(skinny_gemm(1, 200, 84, n_major=True, schedule=f", split_k: 1, lanes: {lanes}"), races=True)
    prove(skinny_gemm(3, 67, 65, n_major=True, schedule=f", split_k: 1, lanes: {lanes}, warps: 2"))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(64, 8191), (263, 3301), (136, 4097), (1031, 3300), (100, 25000)])
@pytest.mark.parametrize("x", ["M, K", "K, M"])
def test_gemvs_of_all_sizes_are_right(prove, sizes, x):
    prove(skinny_gemm(1, *sizes, n_major=True, x=x))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3", "int8", "int64"])
def test_gemvs_of_all_element_types_are_right(prove, compiled, dtype):
    out = "float32" if dtype.startswith("float8") else ""
    text = skinny_gemm(1, 200, 8200, True, dtype, out)
    prove(text, sanitize=True)
    compiled(text)


@pytest.mark.slow
def test_gemvs_of_dynamic_sizes_are_right(prove):
    text = skinny_gemm(1, "dynamic", 4097, n_major=True)
    for k in (0, 1, 33, 300):
        prove(text, {"K": k})
    text = skinny_gemm(1, 96, "{range: [0, 9000], multiple_of: 4}", n_major=True)
    for n in (0, 4, 132, 4100):
        prove(text, {"N": n})


@pytest.mark.slow
@pytest.mark.parametrize("warps", [1, 2])
def test_small_blocks_of_lane_groups_are_right(prove, warps):
    prove(skinny_gemm(1, 130, 132, n_major=True, schedule=f", split_k: 1, lanes: 8, warps: {warps}"), races=True)
    prove(skinny_gemm(2, 130, 132, n_major=True, schedule=f", split_k: 1, warps: {warps}"), races=True)


def test_a_placement_that_the_family_refuses_is_left_to_others(made):
    """K would be split, but A is wanted in shared memory: no step is bound to a family that can't take it."""
    text = automatic(skinny_gemm(3, 2048, 4096, dtype="uint8"))
    text = text.replace("dtype: uint8}", "dtype: uint8, memory: shared}", 1)
    assert "skinny" not in {kernel.family for kernel in made(text).plan.kernels}


# Scales of groups, and heads that share keys

GROUPS = """
params: {{M: {m}, K: {k}, N: {n}, G: {group}}}
arrays:
  x: {{shape: [M, K], dtype: float16}}
  w: {{shape: [{w}], dtype: int8}}
  s: {{shape: [{s}], dtype: float16}}
  z: {{shape: [{s}], dtype: int8}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[m, n] = sum(x[m, k] * ((w[{subscripts}] - z[{of}]) * s[{of}]), k)
"""


def groups(m: int, n: int, k: int, group: int, n_major: bool) -> str:
    layout = ("K, N", "K // G, N", "k, n", "k // G, n") if n_major else ("N, K", "N, K // G", "n, k", "n, k // G")
    w, s, subscripts, of = layout
    return GROUPS.format(m=m, n=n, k=k, group=group, w=w, s=s, subscripts=subscripts, of=of)


@pytest.mark.covering
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize("m", [2, 4, 8])
def test_weights_with_scales_of_groups_are_read_once(made, m, n_major):
    kernel = made(groups(m, 4096, 4096, 128, n_major)).plan.kernels[0]
    assert kernel.family == "skinny"
    assert loads(kernel, "s") == [1]


@pytest.mark.slow
@pytest.mark.parametrize("n_major", [False, True])
@pytest.mark.parametrize("group", [128, 24, 6])
def test_scales_of_groups_of_any_size_are_right(made, prove, group, n_major):
    text = groups(3, 72, 768, group, n_major)
    assert made(text).plan.kernels[0].family == "skinny"
    prove(text)


GROUPED_HEADS = """
params: {{B: 2, G: {groups}, R: {members}, T: 72, D: 80}}
arrays:
  q: {{shape: [B, G * R, D], dtype: float32}}
  k: {{shape: [B, G, {k}], dtype: float16}}
  y: {{shape: [B, G * R, T], dtype: float32}}
compute: y[b, h, t] = exp(sum(q[b, h, d] * k[b, h // R, {subscripts}], d) / 9)
schedule: {{family: skinny}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("k", "subscripts"), [("T, D", "t, d"), ("D, T", "d, t")])
@pytest.mark.parametrize(("groups", "members"), [(3, 4), (2, 16), (5, 2)])
def test_heads_that_share_keys_are_rows_of_one_gemm(made, prove, groups, members, k, subscripts):
    text = GROUPED_HEADS.format(groups=groups, members=members, k=k, subscripts=subscripts)
    kernel = made(text).plan.kernels[0]
    assert kernel.family == "skinny"
    assert f"skinny GEMM of {members} rows" in kernel.reasons[0]
    prove(text)


DECODED = """
target: sm_90a
params: {{B: {batch}, H: {heads}, S: {keys}, D: 64}}
arrays:
  q: {{shape: [B, H, D], dtype: {dtype}}}
  k: {{shape: [B, H // 8, S, D], dtype: {dtype}}}
  v: {{shape: [B, H // 8, S, D], dtype: {dtype}}}
  o: {{shape: [B, H, D], dtype: {dtype}}}
compute: |
  s[b, h, j] = sum(q[b, h, d] * k[b, h // 8, j, d], d) * 0.125
  p[b, h, j] = softmax(s[b, h, j], j)
  o[b, h, d] = sum(p[b, h, j] * v[b, h // 8, j, d], j)
"""


def decoded(batch: int = 4, heads: int = 32, keys: int = 8192, dtype: str = "bfloat16") -> str:
    return DECODED.format(batch=batch, heads=heads, keys=keys, dtype=dtype)


def test_many_heads_that_share_long_keys_are_left_to_wgmma_also_for_a_temporary(made):
    assert [kernel.family for kernel in made(decoded()).plan.kernels][:2] == ["wgmma", "rowwise"]
    assert made(decoded(batch=1, heads=8, keys=512)).plan.kernels[0].family == "skinny"
    assert made(decoded(dtype="float32")).plan.kernels[0].family == "skinny"


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("keys", [72, 131])
def test_heads_that_share_keys_are_right_on_wgmma(monkeypatch, prove, made, dtype, keys):
    monkeypatch.setattr("cugen.families.gemm.skinny.family._MIN_WGMMA_BYTES", 1)
    text = decoded(2, 24, keys, dtype)
    made.cache_clear()
    prove(text)
    made.cache_clear()
