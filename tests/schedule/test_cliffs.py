"""Statements next to ones that are planned well are planned well, too."""

from __future__ import annotations

import math

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def spec_of(params: str, arrays: str, compute: str, schedule: str = "", boundary: str = "zero", dtype: str = "float32"):
    lines = ["cugen: 1", "kernel: f", f"params: {{{params}}}", "arrays:"]
    for array in arrays.split("; "):
        name, shape = array.split(" ", 1)
        outside = f", boundary: {boundary}" if name == "image" else ""
        lines.append(f"  {name}: {{shape: {shape}, dtype: {dtype}{outside}}}")
    (spec,) = load_text("\n".join([*lines, "compute: |", *(f"  {line}" for line in compute.split("\n")), schedule]))
    return spec


def families_of(spec) -> list[str]:
    return [launch.family for launch in generate(spec, analysis=False).plan.kernels]


def passes(spec) -> bool:
    kernel = generate(spec, analysis=False)
    params = {param.name: param.typical for param in spec.params if param.is_dynamic}
    return verify(spec, kernel.source, kernel.manifest, CpuDevice(), params=params).verification.passed


SOFTMAX_BY_TOTAL = "y[i, j] = softmax(x[i, j] / sum(abs(x[k, l]), k, l), j)"
NBODY = """dx[i, j] = x[j] - x[i]
dy[i, j] = y[j] - y[i]
r[i, j] = dx[i, j] * dx[i, j] + dy[i, j] * dy[i, j] + 0.01
f[i, j] = rsqrt(r[i, j])
a[i] = sum(dx[i, j] * f[i, j] * f[i, j] * f[i, j], j)"""
CYCLES = ((0, 1, 2), (1, 2, 0), (2, 0, 1))  # of a cross product
DEPTHWISE = "y[b, c, i, j] = sum(image[b, c, i + r - 1, j + s - 1] * w[c, r, s], r, s)"
CONVOLUTION = "y[n, i, j, f] = sum(image[n, i + r - 1, j + s - 1, c] * w[r, s, c, f], r, s, c)"


def test_a_total_in_the_argument_of_a_softmax_is_computed_once():
    assert families_of(spec_of("M: 4096, N: 4096", "x [M, N]; y [M, N]", SOFTMAX_BY_TOTAL))[-1] == "rowwise"
    small = spec_of("M: 33, N: 40", "x [M, N]; y [M, N]", SOFTMAX_BY_TOTAL)
    assert len(families_of(small)) == 2
    assert passes(small)


@pytest.mark.slow
def test_temporaries_of_temporaries_that_are_recomputed_are_recomputed_too():
    plan = generate(spec_of("N: 8192", "x [N]; y [N]; a [N]", NBODY), analysis=False).plan
    assert [array.name for array in plan.workspace] == ["a_parts"]
    assert "dy is recomputed where it is read: it has no reduction of its own" in plan.notes
    assert passes(spec_of("N: 300", "x [N]; y [N]; a [N]", NBODY))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("boundary", "families"), [("zero", ["gemm"]), ("reflect", ["map", "gemm"])])
@pytest.mark.parametrize("batch", ["dynamic", "8"])
def test_a_convolution_of_any_batch_is_laid_out_as_one_of_a_known_batch(boundary, families, batch):
    sizes, arrays = f"N: {batch}, C: 64, H: 56, W: 56, F: 64", "image [N, H, W, C]; w [3, 3, C, F]; y [N, H, W, F]"
    assert families_of(spec_of(sizes, arrays, CONVOLUTION, boundary=boundary)) == families


@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ("[8192, 3]", (4, 64, 1)),
        ("[2, 8192]", (128, 2, 1)),
        ("[8192, 100]", (32, 8, 1)),
        ("[8192, 1, 100]", (128, 1, 2)),
    ],
)
def test_threads_that_a_short_extent_leaves_idle_go_to_the_other_indices(shape, block):
    indices = ", ".join("ijk"[: shape.count(",") + 1])
    text = f"x {shape}; y {shape}"
    spec = spec_of("", text, f"y[{indices}] = x[{indices}]", "schedule: {family: direct}")
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert launch.block == block


@pytest.mark.slow
def test_a_long_reduction_with_few_results_is_computed_in_parts():
    spec = spec_of("N: 8192", "x [N]; y [N]; a [N]", NBODY)
    assert families_of(spec) == ["staged", "reduce"]
    parts, _ = generate(spec, analysis=False).manifest.launches
    assert parts.grid[1] > 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [512, 515])
@pytest.mark.parametrize("written", ["y[i]", "y[0]"])
def test_parts_of_a_long_reduction_have_right_results(size, written):
    value = "sum(sqrt(abs(x[j, k] - x[k, j])), j, k)"
    spec = spec_of(f"N: {size}", "x [N, N]; y [1]", f"{written} = {value}")
    assert families_of(spec)[1:] == ["reduce"]
    assert passes(spec)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("m", "n", "k", "a", "family"),
    [
        (4096, 3, 3, "m, k", "map"),
        (4096, 15, 6, "m, k", "tiled"),
        (4096, 7, 16, "k, m", "map"),
        (4096, 12, 16, "k, m", "tiled"),
        (2, 4096, 8, "m, k", "map"),
    ],
)
def test_products_of_a_few_columns_or_terms_take_no_tiles_of_padding(m, n, k, a, family):
    text = f"a [{a.upper()}]; b [K, N]; y [M, N]", f"y[m, n] = sum(a[{a}] * b[k, n], k)"
    sizes = f"M: {m}, N: {n}, K: {k}"
    assert families_of(spec_of(sizes, *text)) == [family]
    assert passes(spec_of(sizes, *text))
    assert families_of(spec_of(sizes, *text, "schedule: {family: tiled}")) == ["tiled"]
    assert families_of(spec_of(sizes, *text, "schedule: {block: {m: 16, n: 16}}")) == ["tiled"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("k", "family"), [(24, "batched"), (144, "direct"), (256, "direct")])
def test_a_block_of_small_matrices_has_a_warp_of_threads(k, family):
    text = f"B: 4096, M: 4, N: 2, K: {k}", "a [B, K, M]; b [B, K, N]; y [B, M, N]"
    statement = "y[q, m, n] = sum(a[q, k, m] * b[q, k, n], k)"
    assert families_of(spec_of(*text, statement)) == [family]
    assert families_of(spec_of(*text, statement, "schedule: {family: batched}")) == ["batched"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ("[64, 21, 4, 2]", (1, 4, 21)),
        ("[65, 3, 4, 8]", (2, 4, 3)),
        ("[500, 21, 3]", (3, 32, 2)),  # a fourth thread of each row would be idle
        ("[64, 200, 64]", (16, 16, 1)),
    ],
)
def test_short_extents_leave_the_threads_of_a_block_to_a_third_index(shape, block):
    indices = "abcd"[: shape.count(",") + 1]
    left = ", ".join((indices[0], f"{indices[1]} - 1", *indices[2:]))
    spec = spec_of("", f"image {shape}; y {shape}", f"y[{', '.join(indices)}] = image[{left}]")
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert (launch.family, launch.block) == ("map", block)
    assert passes(spec)


@pytest.mark.parametrize(("read", "family"), [("6 * j + 3 * s", "map"), ("2 * j + s", "stencil")])
def test_strided_windows_that_skip_most_elements_have_no_register_window(read, family):
    compute = f"y[i, j] = sum(x[i, {read}] * w[s], s)"
    assert families_of(spec_of("I: 64, J: 500", "x [I, 6 * J + 12]; w [3]; y [I, J]", compute)) == [family]


def test_a_sum_of_one_term_is_no_contraction():
    text = "M: 300, N: 400, K: 1", "a [M, K]; b [K, N]; y [M, N]", "y[m, n] = sum(a[m, k] * b[k, n], k)"
    assert families_of(spec_of(*text)) == ["map"]
    assert families_of(spec_of(*text, "schedule: {family: tiled}")) == ["tiled"]
    assert passes(spec_of(*text))


GROUPED = "y[n, f, i, j] = sum(image[n, f // F * C + c, i + r - 1, j + s - 1] * w[f, c, r, s], c, r, s)"


@pytest.mark.slow
@pytest.mark.parametrize("filters", [4, 16, 24])
def test_a_grouped_convolution_has_tiles_or_windows_whatever_the_filters_of_a_group(filters):
    arrays = "image [N, G * C, H, W]; w [G * F, C, 3, 3]; y [N, G * F, H, W]"
    assert families_of(spec_of(f"N: 8, G: 6, C: 12, F: {filters}, H: 56, W: 60", arrays, GROUPED)) in (
        ["stencil"],
        ["gemm"],
    )
    assert passes(spec_of(f"N: 2, G: 3, C: 5, F: {filters}, H: 12, W: 33", arrays, GROUPED))


@pytest.mark.slow
def test_an_activation_in_a_statement_of_its_own_is_the_epilogue_of_a_grouped_convolution():
    arrays = "image [N, G * C, H, W]; w [G * F, C, 3, 3]; y [N, G * F, H, W]"
    compute = f"{GROUPED.replace('y[', 'z[')}\nt[n, f, i, j] = z[n, f, i, j] + 1\ny[n, f, i, j] = silu(t[n, f, i, j])"
    assert families_of(spec_of("N: 8, G: 6, C: 12, F: 24, H: 56, W: 60", arrays, compute)) == ["gemm"]
    assert passes(spec_of("N: 2, G: 3, C: 5, F: 4, H: 12, W: 33", arrays, compute))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sizes", ["M: 30, H: 70", "M: {range: [1, 99], default: 30}, H: {range: [1, 99], default: 7}"])
@pytest.mark.parametrize(
    "compute", ["y[m] = sum(max(x[m, 4 * h + r], r), h)", "y[m] = max(mean(x[m, 4 * h + r], r), h)"]
)
def test_a_reduction_of_pooled_rows_is_two_reductions(sizes, compute):
    spec = spec_of(sizes, "x [M, 4 * H]; y [M]", compute, "indices: {r: 4, h: H}")
    assert families_of(spec) == ["reduce", "reduce"]
    assert passes(spec)


@pytest.mark.slow
def test_a_gemm_a_pool_and_a_sum_in_one_statement_are_three_stages():
    compute = "y[m] = sum(max(sum(x[m, k] * w[4 * h + r, k], k), r), h)"
    spec = spec_of("M: 70, H: 30, K: 40", "x [M, K]; w [4 * H, K]; y [M]", compute, "indices: {r: 4, h: H}")
    assert families_of(spec)[1:] == ["reduce", "reduce"]
    assert passes(spec)


def test_all_pairs_of_points_are_no_temporary():
    compute = "y[i] = sum(sum((p[i, d] - q[j, d]) ** 2, d), j, where=q[j, 0] > p[i, 1])"
    plan = generate(spec_of("M: 300, N: 400, D: 3", "p [M, D]; q [N, D]; y [M]", compute), analysis=False).plan
    assert plan.workspace == ()


@pytest.mark.slow
@pytest.mark.parametrize("k", [8, 24, 40])
@pytest.mark.parametrize(
    "compute",
    [
        "h[m, k] = 2 * a[m, k] + 1\ny[m, n] = sum(h[m, k] * b[k, n], k)",
        "y[m, n] = sum((2 * a[m, k] + 1) * b[k, n], k)",
    ],
    ids=["in a statement of its own", "in place"],
)
def test_a_function_of_an_operand_is_computed_before_a_product_of_any_depth(k, compute):
    arrays = "a [M, K]; b [K, N]; y [M, N]"
    assert families_of(spec_of(f"M: 900, N: 1000, K: {k}", arrays, compute)) == ["map", "gemm"]
    assert passes(spec_of(f"M: 33, N: 40, K: {k}", arrays, compute))


@pytest.mark.slow
def test_a_function_of_a_residual_is_in_the_epilogue():
    compute = "s[i, j] = 2 * r[i, j] + 1\ny[m, n] = s[m, n] + sum(a[m, k] * b[k, n], k)"
    arrays = "a [M, K]; b [K, N]; r [M, N]; y [M, N]"
    assert families_of(spec_of("M: 300, N: 400, K: 500", arrays, compute)) == ["gemm"]
    assert passes(spec_of("M: 30, N: 41, K: 50", arrays, compute))


@pytest.mark.slow
def test_a_function_of_weights_is_computed_before_a_convolution_whose_windows_stay_in_place():
    compute = f"v[f, c, r, s] = 2 * w[f, c, r, s] + 1\n{CONVOLUTION.replace('w[r, s, c, f]', 'v[f, c, r, s]')}"
    arrays = "image [N, H, W, C]; w [F, C, 3, 3]; y [N, H, W, F]"
    assert families_of(spec_of("N: 8, C: 64, H: 56, W: 56, F: 64", arrays, compute)) == ["map", "gemm"]
    assert passes(spec_of("N: 2, C: 12, H: 9, W: 10, F: 20", arrays, compute))


@pytest.mark.slow
def test_a_function_of_weights_is_computed_before_a_transposed_convolution():
    compute = f"v[c, f, r, s] = 2 * w[c, f, r, s] + 1\n{TRANSPOSED.splitlines()[0].replace('* w[', '* v[')}"
    arrays, indices = "image [C, H, W]; w [C, F, 4, 4]; z [F, 2 * H, 2 * W]", "indices: {i: 2 * H, j: 2 * W}"
    assert families_of(spec_of("C: 48, F: 24, H: 90, W: 100", arrays, compute, indices)) == ["map", "gemm", "map"]
    assert passes(spec_of("C: 48, F: 3, H: 17, W: 20", arrays, compute, indices))


TRANSPOSED = """z[f, i, j] = sum(image[c, (i + 1 - r) / 2, (j + 1 - s) / 2] * w[c, f, r, s], c, r, s)
y[f] = mean(z[f, i, j], i, j)"""


@pytest.mark.slow
def test_a_transposed_convolution_is_stored_before_the_mean_of_its_planes():
    arrays, indices = "image [C, H, W]; w [C, F, 4, 4]; y [F]", "indices: {i: 2 * H, j: 2 * W}"
    plan = generate(spec_of("C: 48, F: 24, H: 90, W: 100", arrays, TRANSPOSED, indices), analysis=False).plan
    assert [launch.family for launch in plan.kernels] == ["gemm", "rowwise"]
    assert passes(spec_of("C: 48, F: 3, H: 17, W: 20", arrays, TRANSPOSED, indices))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("taps", ["1, 1", "R, S"])
def test_a_convolution_with_a_single_tap_is_a_gemm_of_the_arrays_as_they_are(dtype, target, taps):
    compute = "y[n, f, i, j] = sum(x[n, c, i + r, j + s] * w[f, c, r, s], c, r, s)"
    arrays = f"x [N, C, H, W]; w [F, C, {taps}]; y [N, F, H, W]"
    sizes = "N: {}, C: 64, F: {}, H: {}, W: {}, R: 1, S: 1".replace(
        ", R: 1, S: 1", "" if taps == "1, 1" else ", R: 1, S: 1"
    )
    large = spec_of(sizes.format(8, 128, 64, 64), arrays, compute, dtype=dtype).for_device(target)
    family = "wgmma" if (dtype, target) == ("bfloat16", "sm_90") else "gemm"
    assert families_of(large) == [family]
    assert passes(spec_of(sizes.format(2, 40, 10, 12), arrays, compute, dtype=dtype).for_device(target))


@pytest.mark.slow
def test_triangular_operands_are_stored_in_their_own_type_for_tensor_cores():
    compute = "c[i, j] = sum(where(i <= k, a[i, k], 0) * where(k <= j, b[k, j], 0), k)"
    arrays = "a [N, N]; b [N, N]; c [N, N]"
    assert families_of(spec_of("N: 2048", arrays, compute, dtype="bfloat16").for_device("sm_90")) == ["map", "wgmma"]
    small = spec_of("N: 304", arrays, compute, dtype="bfloat16").for_device("sm_90")
    assert families_of(small)[-1] == "wgmma"
    assert passes(small)


@pytest.mark.slow
@pytest.mark.parametrize("b", ["[N, K]", "[K, N]"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3"])
def test_a_gemm_of_bytes_whose_sizes_are_known_at_launch_is_on_tensor_cores(dtype, b):
    sizes = ", ".join(f"{name}: {{range: [1, 4096], default: 64}}" for name in "MNK")
    output = "float32" if "float" in dtype else "int32"
    (spec,) = load_text(f"""
cugen: 1
kernel: f
params: {{{sizes}}}
arrays:
  a: {{shape: [M, K], dtype: {dtype}}}
  b: {{shape: {b}, dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {output}}}
compute: y[m, n] = sum(a[m, k] * b{b.lower()}, k)
""")
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert any("tensor cores by" in reason for reason in launch.reasons)
    assert passes(spec)


def test_temporaries_over_all_pairs_are_recomputed():
    """Squares of differences have as many elements as the differences, which are no array in memory."""
    pairs = """d[i, j] = p[0, i] - q[j, 0]
e[i, j] = p[1, i] - q[j, 1]
s[i, j] = d[i, j] ** 2 + e[i, j] ** 2 + 0.01
w[i, j] = s[i, j] ** (-2.5)
y[0, i] = sum(d[i, j] * w[i, j], j)
y[1, i] = sum(e[i, j] * w[i, j], j)"""
    assert families_of(spec_of("N: 30011, M: 10007", "p [3, N]; q [M, 3]; y [2, N]", pairs)) == ["staged"]


def test_a_long_chain_of_temporaries_over_all_pairs_is_recomputed():
    """The cross products and quotients of a ray and a triangle, of some 1,400 nodes."""
    rays = "\n".join(
        [
            *(f"e{a}[k, c] = t[k, {a}, c] - t[k, 0, c]" for a in (1, 2)),
            *(f"o{a}[r, k] = x[r, {a}] - t[k, 0, {a}]" for a in range(3)),
            *(f"p{a}[r, k] = v[r, {b}] * e2[k, {c}] - v[r, {c}] * e2[k, {b}]" for a, b, c in CYCLES),
            *(f"q{a}[r, k] = o{b}[r, k] * e1[k, {c}] - o{c}[r, k] * e1[k, {b}]" for a, b, c in CYCLES),
            "det[r, k] = e1[k, 0] * p0[r, k] + e1[k, 1] * p1[r, k] + e1[k, 2] * p2[r, k]",
            "a[r, k] = (o0[r, k] * p0[r, k] + o1[r, k] * p1[r, k] + o2[r, k] * p2[r, k]) / det[r, k]",
            "b[r, k] = (v[r, 0] * q0[r, k] + v[r, 1] * q1[r, k] + v[r, 2] * q2[r, k]) / det[r, k]",
            "h[r, k] = (e2[k, 0] * q0[r, k] + e2[k, 1] * q1[r, k] + e2[k, 2] * q2[r, k]) / det[r, k]",
            "y[r] = min(h[r, k], k, where=a[r, k] >= 0 and b[r, k] >= 0 and a[r, k] + b[r, k] <= 1 and h[r, k] > 0)",
        ]
    )
    spec = spec_of("R: 20011, T: 512", "x [R, 3]; v [R, 3]; t [T, 3, 3]; y [R]", rays)
    assert families_of(spec) == ["staged"]


@pytest.mark.parametrize(("heads", "family"), [(3, "map"), (64, "batched")])
def test_a_block_of_few_small_matrices_has_no_few_threads(heads, family):
    """The last batch index, which a block has matrices along, is short."""
    spec = spec_of(
        f"N: 20003, H: {heads}",
        "a [N, 4, 4]; b [N, H, 4, 4]; y [N, H, 4, 4]",
        "y[n, h, i, j] = sum(a[n, i, k] * b[n, h, k, j], k)",
    )
    assert families_of(spec) == [family]


DCT = """r[i, y, j, v] = sum((p[8 * i + y, 8 * j + x] - 128) * c[v, x], x)
t[i, u, j, v] = sum(c[u, y] * r[i, y, j, v], y)"""


def test_short_sums_at_compound_subscripts_are_their_terms():
    """The first pass of a transform of 8 x 8 pixels loads a row at a time; the second reads its results in memory."""
    shapes = "p [8 * H, 8 * W]; c [8, 8]; t [H, 8, W, 8]"
    assert families_of(spec_of("H: 512, W: 517", shapes, DCT))[0] == "map"
    assert passes(spec_of("H: 5, W: 7", shapes, DCT))


def test_sums_of_nine_terms_are_their_terms():
    basis = "o[k, n] = sum(b[n, l] * c[l, k], l)"
    assert families_of(spec_of("N: 800009", "b [N, 9]; c [9, 3]; o [3, N]", basis)) == ["map"]
    assert passes(spec_of("N: 131", "b [N, 9]; c [9, 3]; o [3, N]", basis))


def test_a_small_gemm_reads_a_temporary_that_is_placed_in_scratch_memory():
    (spec,) = load_text(
        "cugen: 1\nkernel: f\nparams: {B: 4096}\narrays:\n  a: {shape: [B, 8, 8], dtype: float32}\n"
        "  b: {shape: [B, 8, 8], dtype: float32}\n  t: {shape: [B, 8, 8], dtype: float32, memory: scratch}\n"
        "  y: {shape: [B, 8, 8], dtype: float32}\ncompute: |\n  t[q, k, m] = exp(a[q, k, m])\n"
        "  y[q, m, n] = sum(t[q, k, m] * b[q, k, n], k)\n"
    )
    assert families_of(spec) == ["map", "batched"]


CODES = """cugen: 1
kernel: codes
params: {N: %s}
indices: {j: 64}
arrays:
  x: {shape: [64 * N], dtype: float32}
  codebook: {shape: [16], dtype: float32}
  scale: {shape: [N], dtype: float32}
  q: {shape: [%s], dtype: uint8}
compute: |
  scale[b] = max(abs(x[64 * b + j]), j)
  c[i] = argmin(abs(x[i] / maximum(scale[i // 64], 1e-12) - codebook[l]), l)
  q[i] = cast(%s, uint8)
"""


@pytest.mark.parametrize(
    ("length", "value", "stored"),
    [
        ("32 * N", "c[2 * i] * 16 + c[2 * i + 1]", []),
        ("16 * N", "(c[4 * i] + c[4 * i + 3]) % 256", []),
        ("64 * N - 1", "c[i + 0] * 16 + c[i + 1]", ["c"]),
    ],
    ids=["pairs", "some of four", "windows"],
)
def test_results_that_a_map_reads_in_runs_are_computed_where_they_are_read(length, value, stored):
    (spec,) = load_text(CODES % (50_009, length, value))
    assert [array.name for array in generate(spec, analysis=False).plan.workspace] == stored


def test_results_in_runs_are_right_where_they_are_read():
    (spec,) = load_text(CODES % (37, "32 * N", "c[2 * i] * 16 + c[2 * i + 1]"))
    assert passes(spec)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("middle", "last", "dtype", "block"),
    [(64, 2, "float32", (1, 8, 32)), (65, 3, "float32", (3, 4, 16)), (33, 4, "float16", (1, 1, 64))],
)
def test_blocks_of_a_few_columns_have_those_of_several_outer_indices(middle, last, dtype, block):
    """A block for each outer index would end after a few loads, and take longer to start."""
    text = "x [M, N, K]; y [M, K]; z [M, K]", "y[i, k] = sum(x[i, j, k], j)\nz[i, k] = max(x[i, j, k], j)"
    spec = spec_of(f"M: 262144, N: {middle}, K: {last}", *text, dtype=dtype)
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert (launch.family, launch.block) == ("reduce", block)
    assert passes(spec_of(f"M: 1237, N: {middle}, K: {last}", *text, dtype=dtype))


def test_positions_in_a_few_columns_are_those_of_each_outer_index():
    spec = spec_of("M: 12007, N: 70, K: 3", "x [M, N, K]; y [M, K]", "y[i, k] = argmax(x[i, j, k], j)")
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert launch.block[2] > 1
    assert passes(spec)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "shapes", "value", "block"),
    [
        ("B: {}, C: 3, P: 28", "x [B, C, 8 * P, 8 * P]; y [B, C, P, P]", "x[b, c, 8 * p + r, 8 * q + s]", (1, 8, 32)),
        ("B: {}, C: 9, P: 4", "x [B, C, 4 * P, 8]; y [B, C, P, 1]", "x[b, c, 4 * p + r, 8 * q + s]", (1, 4, 4)),
    ],
)
def test_a_block_of_small_windows_has_several_of_them(sizes, shapes, value, block):
    rows = 4 if block[1] == 4 else 8
    extents = f"indices: {{r: {rows}, s: 8}}"
    statement = f"y[b, c, p, q] = mean({value}, r, s)"
    spec = spec_of(sizes.format(16), shapes, statement, extents)
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert launch.block == block
    assert passes(spec_of(sizes.format(3), shapes, statement, extents))


STATISTICS = "m[{0}] = mean(x[{1}], {2})\nv[{0}] = var(x[{1}], {2})"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "shapes", "statistics"),
    [
        ("B: 256, C: 2048, S: 49", "x [B, C, S]; m [C]; v [C]", ("c", "b, c, s", "b, s")),
        ("B: 32, C: 32, S: 3136", "x [B, S, C, 16]; m [B, C]; v [B, C]", ("b, g", "b, s, g, c", "s, c")),
        ("B: 32, C: 32, S: 3136", "x [B, S, 16 * C]; m [B, C]; v [B, C]", ("b, g", "b, s, 16 * g + c", "s, c")),
    ],
    ids=["of a batch", "of groups", "of groups of channels"],
)
def test_means_and_variances_over_several_indices_read_what_they_reduce_once(sizes, shapes, statistics):
    """They were five launches, which read it three times."""
    extents = "indices: {c: 16, g: C}" if "16 * C" in shapes else ""
    statements = STATISTICS.format(*statistics)
    assert families_of(spec_of(sizes, shapes, statements, extents)) == ["rowwise"]
    assert passes(spec_of("B: 3, C: 7, S: 49", shapes, statements, extents))


def test_means_and_variances_of_columns_in_odd_rows_read_them_twice():
    """They were six launches, of which the mean's had rows in groups, and shared none of the variance's."""
    statements = STATISTICS.format("j", "i, j", "i")
    assert families_of(spec_of("M: 50021, N: 1511", "x [M, N]; m [N]; v [N]", statements)) == ["reduce"] * 4
    assert passes(spec_of("M: 5021, N: 15", "x [M, N]; m [N]; v [N]", statements))


@pytest.mark.parametrize("shape", ["[N]", "[1, N]", "[N, 1]", "[N, 1, 1]"])
def test_an_index_of_extent_one_leaves_a_stencil_its_vectors(shape):
    rank = shape.count(",") + 1
    position = shape.strip("[]").split(", ").index("N")
    index = ["abc"[number] for number in range(rank)]
    index[position] = "n"
    read = [*index]
    read[position] = "n + r - 7"
    text = f"image {shape}; h [15]; y {shape}", f"y[{', '.join(index)}] = sum(image[{', '.join(read)}] * h[r], r)"
    (launch,) = generate(spec_of("N: 4000000", *text), analysis=False).plan.kernels
    assert (launch.family, launch.block) == ("stencil", (128, 1, 1))
    assert any("4 outputs per thread" in reason for reason in launch.reasons)
    assert passes(spec_of("N: 1237", *text))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("length", "statement", "families", "threads"),
    [
        (5, "y[i, j] = cumsum(x[i, j], j)", ["scan"], 512),
        (17, "y[i, j] = cumsum(x[i, j], j)", ["scan"], 512),
        (2, "y[i, j] = softmax(x[i, j], j)", ["rowwise"], 256),
        (64, "y[i, j] = softmax(x[i, j], j)", ["rowwise"], 128),
    ],
)
def test_a_block_of_short_rows_moves_enough_bytes_to_outlast_its_start(length, statement, families, threads):
    spec = spec_of(f"M: 4194305, N: {length}", "x [M, N]; y [M, N]", statement)
    (launch,) = generate(spec, analysis=False).plan.kernels
    assert ([launch.family], math.prod(launch.block)) == (families, threads)
    assert passes(spec_of(f"M: 4099, N: {length}", "x [M, N]; y [M, N]", statement))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("outer", "length", "columns", "block"),
    [(197152, 8, 4, (1, 8, 16)), (197152, 64, 3, (4, 1, 32)), (16384, 256, 2, (1, 32, 4))],
)
def test_scans_along_a_few_columns_have_those_of_several_outer_indices(outer, length, columns, block):
    """A block for each outer index had one thread, or four."""
    text = "x [M, N, K]; y [M, N, K]", "y[i, j, k] = cumsum(x[i, j, k], j)"
    (launch,) = generate(spec_of(f"M: {outer}, N: {length}, K: {columns}", *text), analysis=False).plan.kernels
    assert (launch.family, launch.block) == ("scan", block)
    assert passes(spec_of(f"M: {outer // 3}, N: {length // 4}, K: {columns}", *text))


@pytest.mark.parametrize(("side", "family"), [(8, "map"), (16, "map"), (32, "transpose")])
def test_small_matrices_of_bytes_are_transposed_without_a_tile_for_each(side, family):
    text = f"x [M, {side}, {side}]; y [M, {side}, {side}]", "y[m, b, a] = x[m, a, b]"
    assert families_of(spec_of("M: 100000", *text, dtype="uint8")) == [family]


@pytest.mark.parametrize("exponent", ["k", "2 * k + 1", "k - 2"])
def test_powers_by_the_index_of_a_short_sum_are_those_by_literals(exponent):
    """`c[0] + c[1] * x[m] + c[2] * x[m] ** 2` has multiplications; its terms as a sum had calls of `powf`."""
    value = f"y[m] = sum(c[k] * x[m] ** ({exponent}), k)"
    spec = spec_of("M: 1003", "x [M]; c [4]; y [M]", value)
    assert families_of(spec) == ["map"]
    assert "powf" not in generate(spec, analysis=False).source
    assert passes(spec)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("side", "block"), [(7, (8, 1, 16)), (14, (8, 4, 4)), (56, (8, 16, 1))])
def test_a_block_of_small_images_has_those_of_several_channels(side, block):
    """A block for each image of 7 x 7 pixels had eight threads."""
    text = "image [B, C, H, H]; w [C, 3, 3]; y [B, C, H, H]", DEPTHWISE
    (launch,) = generate(spec_of(f"B: 64, C: 512, H: {side}", *text, dtype="float16"), analysis=False).plan.kernels
    assert (launch.family, launch.block) == ("stencil", block)
    assert passes(spec_of(f"B: 2, C: 19, H: {side}", *text, dtype="float16"))


@pytest.mark.covering
@pytest.mark.parametrize(("m", "n", "family"), [(8, 8, "tiled"), (5, 7, "direct"), (24, 24, "gemm")])
@pytest.mark.parametrize("z", ["[B, N, K]", "[B, K, N]"])
def test_batches_of_small_matrices_have_no_tiles_of_padding(m, n, z, family):
    read = "b, k, n" if z == "[B, K, N]" else "b, n, k"
    text = f"x [B, M, K]; z {z}; y [B, M, N]", f"y[b, m, n] = sum(x[b, m, k] * z[{read}], k)"
    assert families_of(spec_of(f"B: 2000, M: {m}, N: {n}, K: 300", *text)) == [family]
    small = spec_of(f"B: 3, M: {m}, N: {n}, K: 300", *text, f"schedule: {{family: {family}}}")
    assert passes(small)
