"""Stencils: which footprints are taken or refused, the loads of register windows, and correct results."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.kernel import generate
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import For
from cugen.plan.registers.estimate import dynamic_arrays
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin

FIVE = "y[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]"
MODES = ("zero", "clamp", "wrap", "reflect", "symmetric", "{value: -7}")


def slow(*values):
    """Parameters for the slow tests; similar ones run by default."""
    return pytest.param(*values, marks=pytest.mark.slow)


def image(
    h: int | str,
    w: int | str,
    compute: str,
    *,
    boundary: str = "clamp",
    dtype: str = "float32",
    to: str = "",
    more: str = "",
    indices: str = "",
    schedule: str = "",
    layout: str = "",
) -> str:
    """The spec of a statement over an image u and its result y."""
    outside = f", boundary: {boundary}" if boundary else ""
    lines = [f"params: {{H: {h}, W: {w}}}", "arrays:"]
    lines.append(f"  u: {{shape: [H, W], dtype: {dtype}{outside}{layout}}}")
    lines.append(f"  y: {{shape: [H, W], dtype: {to or dtype}{layout}}}")
    lines += [f"  {line}" for line in more.splitlines()]
    lines += [f"indices: {{{indices}}}"] if indices else []
    lines += [f"schedule: {{family: stencil, {schedule}}}"] if schedule else []
    return "\n".join([*lines, "compute: |", *(f"  {line}" for line in compute.splitlines())]) + "\n"


def access_widths(kernel: Kernel) -> set[int]:
    return {access.width for access in accesses(kernel.body) if access.array.space == "global"}


# Selection


@pytest.mark.parametrize("taps", [64, 65, 100])
def test_a_register_window_is_never_indexed_at_run_time(made, taps):
    plan = made(
        f"params: {{N: 7, M: {taps}}}\n"
        "arrays:\n"
        "  c: {shape: [N + M], dtype: float64}\n"
        "  z: {shape: [M], dtype: float64}\n"
        "  y: {shape: [N], dtype: float64}\n"
        "compute: y[i] = sum(c[i - j + M] * z[j], j)\n"
    ).plan
    assert [dynamic_arrays(kernel, plan.context) for kernel in plan.kernels] == [frozenset()]


def test_a_register_window_is_filled_by_vector_loads(planned):
    kernel = planned(image(4096, 4096, FIVE))
    assert kernel.family == "stencil"
    (window,) = {a.array.symbol: a.array for a in accesses(kernel.body) if a.array.space == "register"}.values()
    assert (window.symbol, window.shape) == ("u_window", (6, 6))
    assert max(access_widths(kernel)) == 4
    assert dict(kernel.alignments) == {"u": 16, "y": 16}


def test_a_window_has_columns_that_are_not_read_only_where_vectors_fill_them(planned):
    def columns(reach: int) -> int:
        kernel = planned(image(4096, 4096, f"y[i, j] = u[i, j - {reach}] + u[i, j + {reach}]", boundary="zero"))
        return int(next(a.array.shape[-1] for a in accesses(kernel.body) if a.array.symbol == "u_window"))

    assert columns(1) == 4 + 2
    assert columns(3) == 4 + 2 * 4


def cube(k: int, stride: int = 1, dtype: str = "float32") -> str:
    """A window that isn't separable."""
    taps = ", ".join(f"{tap}: {k}" for tap in "rst")
    side = f"{stride} * N + {k - 1}"
    arrays = f"x: {{shape: [{side}, {side}, {side}], dtype: {dtype}}}, y: {{shape: [N, N, N], dtype: {dtype}}}"
    value = f"max(x[{stride} * h + r, {stride} * i + s, {stride} * j + t] * (r + 2 * s + 3 * t), r, s, t)"
    return f"params: {{N: 200}}\nindices: {{{taps}}}\narrays: {{{arrays}}}\ncompute: y[h, i, j] = {value}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("k", "stride", "dtype"), [(3, 1, "float32"), (5, 2, "float32"), (4, 1, "float64")])
def test_a_thread_has_fewer_outputs_where_windows_fill_its_registers(planned, compiled, k, stride, dtype):
    assert planned(cube(k, stride, dtype)).family == "stencil"
    cubin = compile_cubin(compiled(cube(k, stride, dtype)).source, "k", "sm_90")
    assert all(launch.spill_stores == launch.stack_bytes == 0 for launch in cubin.kernels.values())


def test_windows_of_many_elements_for_an_output_are_left_to_tiles_in_shared_memory(planned, reasons):
    assert "its windows have 200 elements for 4 outputs" in str(reasons("stencil", cube(5, 1, "int16")))
    assert planned(cube(5, 1, "float16")).family == "staged"


def test_windows_that_no_thread_can_hold_and_that_nothing_shares_are_refused(reasons):
    assert "432 registers, at most 224 fit in a thread" in str(reasons("stencil", cube(6, 7, "float64")))
    assert "no two outputs of a thread share one of the 216 elements" in str(reasons("stencil", cube(6, 7)))


@pytest.mark.parametrize(
    ("dtype", "width"), [("float64", 2), ("float32", 4), ("float16", 8), ("uint8", 8), ("int64", 2)]
)
def test_a_thread_has_the_outputs_of_a_16_byte_access_and_at_most_8(planned, dtype, width):
    kernel = planned(image(4096, 4096, FIVE, dtype=dtype))
    assert max(access_widths(kernel)) == width


def test_unaligned_rows_are_loaded_element_by_element(planned):
    kernel = planned(image(4096, 4095, FIVE))
    assert access_widths(kernel) == {1}
    assert kernel.alignments == ()


def test_a_pitch_aligns_rows_for_vector_loads(planned):
    assert max(access_widths(planned(image(4096, 4095, FIVE, layout=", pitch: {align: 128}")))) == 4


def test_a_known_multiple_is_enough_for_vector_loads(planned):
    kernel = planned(image("dynamic", "{range: [0, 65536], multiple_of: 4}", FIVE))
    assert max(access_widths(kernel)) == 4


def test_pooling_loads_whole_vectors_and_stores_half_as_wide(planned):
    kernel = planned(
        "arrays:\n  x: {shape: [8, 4096, 4096], dtype: float32}\n  y: {shape: [8, 2048, 2048], dtype: float32}\n"
        "indices: {r: 2, s: 2}\ncompute: y[b, i, j] = max(x[b, 2 * i + r, 2 * j + s], r, s)\n"
    )
    assert kernel.family == "stencil"
    loads = {a.width for a in accesses(kernel.body) if a.array.symbol == "x"}
    stores = {a.width for a in accesses(kernel.body) if a.array.symbol == "y"}
    assert (loads, stores) == ({4}, {2})


@pytest.mark.parametrize(("taps", "stride", "several"), [(2, 2, False), (3, 4, False), (3, 2, True), (5, 4, True)])
def test_a_thread_has_several_rows_only_where_their_windows_overlap(planned, taps, stride, several):
    x = f"x: {{shape: [8, {1024 * stride + taps}, {1024 * stride + taps}], dtype: float32}}"
    kernel = planned(
        f"arrays:\n  {x}\n  y: {{shape: [8, 1024, 1024], dtype: float32}}\nindices: {{r: {taps}, s: {taps}}}\n"
        f"compute: y[b, i, j] = max(x[b, {stride} * i + r, {stride} * j + s], r, s)\n"
    )
    assert kernel.family == "stencil"
    assert (kernel.grid[1] < 1024 // kernel.block[1]) == several


@pytest.mark.parametrize(("distance", "several"), [(1, True), (64, False)])
def test_a_thread_has_one_row_where_the_taps_of_several_are_far_apart(planned, distance, several):
    kernel = planned(image(1 << 20, 2, f"y[i, j] = u[i - {distance}, j] - u[i + {distance}, j]", boundary="zero"))
    assert kernel.family == "stencil"
    assert ("for 1 x 2 outputs per thread" in " ".join(kernel.reasons)) != several


@pytest.mark.parametrize("taps", [5, 7, 9])
def test_windows_that_fill_the_registers_are_narrower_where_only_rows_share_elements(planned, taps):
    """As of channels that are last: vectors of channels share nothing, and pixels of one channel share its weights."""
    kernel = planned(
        f"""params: {{B: 8, H: 56, W: 56, C: 128}}
arrays:
  x: {{shape: [B, H, W, C], dtype: float32, boundary: zero}}
  w: {{shape: [{taps}, {taps}, C], dtype: float32}}
  y: {{shape: [B, H, W, C], dtype: float32}}
compute: y[b, i, j, c] = sum(x[b, i + r - {taps // 2}, j + s - {taps // 2}, c] * w[r, s, c], r, s)
"""
    )
    assert kernel.family == "stencil"
    assert re.search(r" for 4 x 2 x \d+ outputs per thread", kernel.reasons[0])


def star(radius: int, size: int) -> str:
    """A sum of elements along three dimensions, as of a Laplacian of high order."""
    near = [(d, sign * distance) for distance in range(1, radius + 1) for d in range(3) for sign in (-1, 1)]
    reads = [", ".join(f"{n} + {by}" if axis == d else n for axis, n in enumerate("ijk")) for d, by in near]
    return f"""params: {{N: {size}}}
arrays:
  u: {{shape: [N, N, N], dtype: float32, boundary: zero}}
  y: {{shape: [N, N, N], dtype: float32}}
compute: y[i, j, k] = -6 * u[i, j, k] + {" + ".join(f"u[{read}]" for read in reads)}
"""


@pytest.mark.parametrize("radius", [1, 2, 4])
def test_the_corners_of_a_star_need_no_registers(planned, radius):
    kernel = planned(star(radius, 256))
    assert kernel.family == "stencil"
    assert re.search(r" for [24] x 2 x 4 outputs per thread", kernel.reasons[0])


def test_results_of_a_star_are_right(prove):
    prove(star(4, 20), sanitize=True)


def test_long_reductions_whose_terms_move_no_window_are_refused(reasons):
    """As of a histogram with edges: windows of the edges are short, and all outputs read the same elements."""
    text = """params: {N: 1000000, K: 32}
arrays:
  x: {shape: [N], dtype: float32}
  edge: {shape: [K + 1], dtype: float32}
  y: {shape: [K], dtype: int32}
indices: {k: K}
compute: y[k] = sum(edge[k + 0] <= x[i] and x[i] < edge[k + 1], i)
"""
    actual = [refusal.reason for refusal in reasons("stencil", text)]
    assert any("a sum of 1000000 terms has none that moves along k" in reason for reason in actual), actual


def test_windows_of_a_fixed_number_are_no_stencil_of_the_numbers_of_their_terms(reasons):
    """As of adaptive pooling: the count of each window is read at its own index alone, which has a period."""
    text = """params: {C: 64, H: 8, W: 8}
arrays:
  x: {shape: [C, H, W], dtype: float32}
  n: {shape: [7, 7], dtype: int32}
  y: {shape: [C, 7, 7], dtype: float32}
compute: |
  y[c, i, j] = sum(x[c, k, l], k, l, where=(
    k >= i * H // 7 and k < (i * H + H + 6) // 7 and l >= j * W // 7 and l < (j * W + W + 6) // 7)) / n[i, j]
"""
    actual = [refusal.reason for refusal in reasons("stencil", text)]
    assert "adjacent outputs along j share no elements" in actual, actual


def test_only_the_footprint_is_loaded(planned):
    """The corners of a cross are in its bounding box, but no output reads them."""
    kernel = planned(image(4096, 4096, FIVE, boundary="zero", schedule="rows: 1"))
    loads = [access for access in accesses(kernel.body) if access.array.name == "u" and access.width == 4]
    assert len(loads) == 3  # a vector above, the center row, a vector below


@pytest.mark.sampled(14)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize(("height", "width"), [(1, 16), (7, 32), (33, 144), (20, 272)])
def test_rows_of_whole_vectors_need_no_scalar_loads_for_zeros_outside(made, prove, dtype, height, width):
    row = " + ".join(f"u[i, j + {shift}]" for shift in range(-4, 5))
    text = image(height, width, f"y[i, j] = cast({row}, {dtype})", boundary="zero", dtype=dtype, schedule="rows: 1")
    (kernel,) = made(text).plan.kernels
    loads = [access for access in accesses(kernel.body) if access.array.space == "global" and access.kind == "load"]
    assert {access.width for access in loads} == {max(access_widths(kernel))} != {1}
    prove(text, sanitize=True)


def test_few_elements_are_spread_over_more_threads(planned):
    def rows(height: int) -> int:
        kernel = planned(image(height, 4096, FIVE))
        return int(next(a.array.shape[0] for a in accesses(kernel.body) if a.array.symbol == "u_window") - 2)

    assert rows(8192) > rows(256) == 1


# Refusals


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(
            image(64, 64, "y[i, j] = 2 * u[i, j]"), "adjacent outputs along j share no elements", id="elementwise"
        ),
        pytest.param(image(64, 64, "y[i, j] = u[j, i - 1]"), "u is not read contiguously along j", id="transposed"),
        pytest.param(
            image(64, 64, "y[i, j] = u[i - 1, W - 1 - j]"), "u is not read contiguously along j", id="flipped"
        ),
        pytest.param(
            image(64, 64, "y[i, j] = sum(u[i + r, j + s], r, s)", indices="r: 16, s: 16"),
            "has 256 points",
            id="256 taps",
        ),
        pytest.param(
            image(64, 64, "y[i, j] = u[i, j] + u[i, j + 32]"), "the footprint in u is sparse", id="sparse footprint"
        ),
        pytest.param(
            image(65, 63, "y[i, j] = u[i, j] * u[i + 32, j]"),
            "rows that are too far apart",
            id="far rows",
        ),
        pytest.param(
            image(65, 63, "y[i, j] = u[i + 15, j + 15] - u[i, j + 15] - u[i + 15, j] + u[i - 0, j]"),
            "rows that are too far apart",
            id="corners of a box",
        ),
        pytest.param(
            image(64, 64, "y[i, j] = u[i // 3 + i, j + 1]"),
            "a subscript of u is not affine in the indices",
            id="floor division",
        ),
        pytest.param(image(64, 64, "y[i, j] = cumsum(u[i, j], j) + u[i, j - 1]"), "takes no scans", id="scan"),
        pytest.param(
            image(64, 64, "y[i, j] = u[i - 1, k[j]]", more="k: {shape: [W], dtype: int32}"),
            "gathers from u",
            id="gather",
        ),
    ],
)
def test_statements_without_reuse_are_refused(reasons, text, reason):
    actual = [refusal.reason for refusal in reasons("stencil", text)]
    assert any(reason in text for text in actual), actual


@pytest.mark.parametrize(
    ("schedule", "key"),
    [
        ("vector: 8", "schedule.vector"),
        ("rows: 3", "schedule.rows"),
        ("thread: {i: 3}", "schedule.thread.i"),
        ("block: {r: 4}", "schedule.block.r"),
        ("step: {r: 2}", "schedule.step"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused_at_its_key(reasons, schedule, key):
    text = image(64, 64, "y[i, j] = sum(u[i + r, j], r)", indices="r: 3", schedule=schedule)
    assert key in {refusal.key for refusal in reasons("stencil", text)}


def test_an_array_with_a_register_window_is_not_staged_whole(reasons):
    text = image(16, 16, FIVE, boundary="zero, memory: shared")
    assert {refusal.key for refusal in reasons("stencil", text)} == {"arrays.u.memory"}


def test_an_input_in_registers_has_the_register_window_that_it_has_without_the_key(planned):
    plain, placed = (planned(image(64, 64, FIVE, boundary=b)) for b in ("zero", "zero, memory: register"))
    assert placed.family == plain.family == "stencil"
    assert [a.width for a in accesses(placed.body)] == [a.width for a in accesses(plain.body)]


# Results


def test_an_input_in_registers_is_right(prove):
    prove(image(13, 21, FIVE, boundary="wrap, memory: register"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("boundary", ["wrap", "reflect"])
def test_two_arrays_under_one_cross(prove, boundary):
    more = f"v: {{shape: [H, W], dtype: float32, boundary: {boundary}}}"
    compute = f"{FIVE} + v[i - 1, j] * v[i + 1, j] - v[i, j - 1] - v[i, j + 1]"
    prove(image(13, 21, compute, boundary=boundary, more=more))


def test_conditions_on_a_footprint_keep_its_loops_unrolled(compiled):
    compute = "y[i, j] = sum(u[i + r - 1, j], r, where=0 <= i + r - 1 and i + r - 1 < H)"
    kernel = compiled(image(64, 64, compute, boundary="", indices="r: 3"))
    loops = [n.loop for n in walk_nodes(kernel.plan.kernels[0].body) if isinstance(n, For)]
    assert all(loop.unroll and loop.start.is_Integer and loop.stop.is_Integer for loop in loops)


def test_a_window_of_one_column_has_no_dimension_for_it(prove, planned):
    spec = image(1, 1, "y[i, j] = u[i, j - 1] + u[i + 1, j - 1]", boundary="zero")
    windows = {a.array.symbol: a.array for a in accesses(planned(spec).body) if a.array.space == "register"}
    assert windows["u_window"].shape == (2,)
    prove(spec)


@pytest.mark.sampled(9)
def test_a_thread_has_fewer_outputs_where_vectors_of_narrow_elements_fill_its_registers(planned, made):
    # With more, a warp waits for each vector before it converts it.
    text = """
params: {N: 31, H: 113, W: 113, C: 72}
arrays:
  x: {shape: [N, H, W, C], dtype: %s, boundary: zero}
  w: {shape: [5, 5, C], dtype: %s}
  y: {shape: [N, 57, 57, C], dtype: %s}
compute: y[n, i, j, c] = sum(x[n, 2 * i + r - 2, 2 * j + s - 2, c] * w[r, s, c], r, s)
"""
    (wide,), (narrow,) = (made(text % ((t,) * 3)).plan.kernels[0].reasons[:1] for t in ("float32", "float16"))
    assert "windows of x, w for 4 x 2 x 2 outputs per thread" in wide
    assert "windows of x, w for 4 x 2 x 1 outputs per thread" in narrow


def test_loads_of_unrolled_windows_are_above_their_conditions(made, prove):
    # A load under each condition would be waited for: compilers don't move it.
    text = """
params: {E: 3, H: 9, W: 70}
arrays:
  a: {shape: [E, H, W], dtype: float32}
  w: {shape: [E, 3, 3], dtype: float32}
  y: {shape: [E, H, W], dtype: float32}
indices: {i: H, j: W}
compute: |
  y[e, i, j] = sum(a[e, i + r - 1, j + s - 1] * w[e, r, s] if inside(a[e, i + r - 1, j + s - 1]) else 0, r, s)
"""
    lines = [line.strip() for line in made(text).source.splitlines()]
    load = next(number for number, line in enumerate(lines) if line.startswith("const float w_e_r_s = "))
    assert lines[load - 1].startswith("for (int s = 0;")
    assert lines[load + 1].startswith("if (")
    prove(text, sanitize=True)


def test_elements_are_converted_after_the_choice_of_a_bounds_check(made, prove):
    # A conversion under the condition would wait for each load. Weights, under the same loops, need no check.
    text = """
params: {N: 2, H: 9, W: 11, C: 5}
arrays:
  x: {shape: [N, H, W, C], dtype: bfloat16, boundary: zero}
  w: {shape: [7, 7, C], dtype: bfloat16}
  y: {shape: [N, H, W, C], dtype: float32}
compute: y[n, i, j, c] = sum(x[n, i + r - 3, j + s - 3, c] * w[r, s, c], r, s)
"""
    source = made(text).source
    assert "x_value = __bfloat162float(h >= 0 && h < H" in source
    assert "w_window[plane][row] = __bfloat162float(w[(plane * 7 + row) * C + c]);" in source
    assert "if (plane" not in source
    prove(text, sanitize=True)


@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize(("h", "w"), [(13, 64), slow(1, 4), slow(66, 20)])
def test_elements_out_of_bounds_are_those_of_the_boundary_mode(prove, boundary, h, w):
    prove(image(h, w, FIVE, boundary=boundary, schedule="rows: 4"), sanitize=boundary == "wrap")


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["rows: 2, vector: 4", "vector: 1, rows: 16", "block: {j: 64, i: 4}, rows: 2"])
def test_every_launch_configuration_gives_the_same_result(prove, schedule):
    prove(image(37, 44, FIVE, boundary="reflect", schedule=schedule))


@pytest.mark.slow
@pytest.mark.parametrize(("h", "w"), [(33, 64), (1, 1), slow(2, 4), slow(5, 7)])
def test_reads_under_a_bounds_condition_stay_in_bounds(prove, h, w):
    inner = "0 < i and i < H - 1 and 0 < j and j < W - 1"
    compute = f"y[i, j] = where({inner}, u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1], u[i, j])"
    prove(image(h, w, compute, boundary="", schedule="rows: 4"), sanitize=h > 30)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "compute",
    [
        "y[i, j] = u[i, j - 9] + u[i + 3, j + 5] * i + j",
        "y[i, j] += u[i, j - 1] + u[i, j + 1]",
        "t[i, j] = u[i, j - 1] + u[i, j + 1]\ny[i, j] = t[i, j] * t[i, j] + u[i, j]",
        "y[i, j] = u[i, j - 1] + argmax(u[i, j + s], s)",
        "y[i, j] = sum(u[i + r - 1, j + s] * w[r, s], r, s, where=r <= s) + c[i]",
        "y[i, j] = max(u[i + 2 * r - 1, j + 3 * s - 2], r, s) - min(u[i + r, j], r)",
    ],
)
def test_statements_of_every_form(prove, compute):
    more = ""
    indices = ", ".join(f"{name}: 3" for name in "rs" if f", {name}" in compute)
    if "w[" in compute:
        more = "w: {shape: [3, 3], dtype: float32, memory: shared}\nc: {shape: [H], dtype: float32}"
    prove(image(21, 40, compute, more=more, indices=indices, schedule="rows: 4"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "to"),
    [
        ("uint8", "uint8"),
        ("bfloat16", "float32"),
        slow("int8", "int32"),
        slow("bool", "int32"),
        slow("float16", "float64"),
    ],
)
def test_types_and_their_compute_types(prove, dtype, to):
    compute = f"y[i, j] = cast(sum(u[i + r - 1, j + s - 1], r, s), {to})"
    prove(image(21, 48, compute, dtype=dtype, to=to, indices="r: 3, s: 3", schedule="rows: 4"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", [", pitch: {align: 128}", ", layout: column", slow(", pitch: 43")])
def test_every_layout(prove, layout):
    prove(image(21, 40, FIVE, layout=layout, schedule="rows: 4"))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("w", ["dynamic", "{range: [0, 4096], multiple_of: 4}"])
@pytest.mark.parametrize(("h", "width"), [(37, 64), (0, 0), slow(1, 8), slow(8, 0)])
def test_sizes_given_at_run_time(prove, w, h, width):
    prove(image("dynamic", w, FIVE, boundary="wrap", schedule="rows: 4"), {"H": h, "W": width})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("outside", "stride", "window", "subscripts"),
    [
        ("", 2, 2, ("2 * i + r", "2 * j + s")),
        (", boundary: {value: -inf}", 2, 3, ("2 * i + r - 1", "2 * j + s - 1")),
        (", boundary: clamp", 2, 5, ("3 * i + r - 1", "4 * j + 2 * s - 5")),
    ],
)
def test_pooling_with_strides_and_dilation(prove, outside, stride, window, subscripts):
    prove(
        f"params: {{H: 12, W: 24}}\narrays:\n  x: {{shape: [3, H, W], dtype: float32{outside}}}\n"
        f"  y: {{shape: [3, H // {stride}, W // {stride}], dtype: float32}}\nindices: {{r: {window}, s: {window}}}\n"
        f"schedule: {{family: stencil, rows: 2}}\n"
        f"compute: y[b, i, j] = max(x[b, {subscripts[0]}, {subscripts[1]}], r, s)\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["zero", "wrap"])
@pytest.mark.parametrize("shape", [(5, 6, 8), slow((9, 3, 12)), slow((1, 1, 1))])
def test_three_dimensions(prove, boundary, shape):
    x, y, z = shape
    prove(
        f"arrays:\n  u: {{shape: [{x}, {y}, {z}], dtype: float32, boundary: {boundary}}}\n"
        f"  v: {{shape: [{x}, {y}, {z}], dtype: float32}}\nschedule: {{family: stencil, rows: 2}}\n"
        "compute: v[x, y, z] = u[x - 1, y, z] + u[x + 1, y, z] + u[x, y - 1, z] + u[x, y + 1, z] + u[x, y, z - 1]\n"
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("order", "taps"), [("b, c, i + r - 1, j + s - 1", "c, r, s"), ("b, i + r - 1, j + s - 1, c", "r, s, c")]
)
def test_depthwise_filters(prove, order, taps):
    plain = order.replace(" + r - 1", "").replace(" + s - 1", "")
    sizes = {"b": 2, "c": 4, "i": 10, "j": 16, "r": 3, "s": 3}
    shape = ", ".join(str(sizes[name.strip()]) for name in plain.split(","))
    of_taps = ", ".join(str(sizes[name.strip()]) for name in taps.split(","))
    prove(
        f"arrays:\n  x: {{shape: [{shape}], dtype: float32, boundary: zero}}\n"
        f"  w: {{shape: [{of_taps}], dtype: float32}}\n  y: {{shape: [{shape}], dtype: float32}}\n"
        f"schedule: {{family: stencil, rows: 2}}\ncompute: y[{plain}] = sum(x[{order}] * w[{taps}], r, s)\n"
    )


def test_one_dimension_with_a_partial_last_vector(prove):
    prove(
        "arrays:\n  x: {shape: [101], dtype: float32, boundary: wrap}\n  y: {shape: [101], dtype: float32}\n"
        "  w: {shape: [5], dtype: float32, values: [1, 2, 3, 2, 1]}\ncompute: y[i] = sum(x[i + r - 2] * w[r], r)\n",
        sanitize=True,
    )


@st.composite
def stencils(draw) -> str:
    h, w = draw(st.integers(1, 40)), draw(st.sampled_from([1, 3, 4, 8, 20, 33, 64, 72]))
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int32", "uint8"]))
    terms = []
    for _ in range(draw(st.integers(1, 5))):
        i, j = draw(st.integers(-5, 5)), draw(st.integers(-9, 9))
        terms.append(f"u[i + {i}, j + {j}]".replace("+ -", "- "))
    r, s = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    a, b = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        terms.append(f"sum(u[i + {a} * r - {draw(st.integers(0, 4))}, j + {b} * s - {draw(st.integers(0, 7))}], r, s)")
    by_type = {"float64": [1, 2], "float32": [1, 2, 4], "int32": [1, 2, 4], "float16": [1, 2, 4, 8]}
    widths = [v for v in by_type.get(dtype, [1, 2, 4, 8, 16]) if w % v == 0]
    return image(
        h,
        w,
        f"y[i, j] = cast({' + '.join(terms)} + u[i, j - 1], {dtype})",
        dtype=dtype,
        boundary=draw(st.sampled_from(MODES)).replace("-7", "7"),
        indices=f"i: H, j: W, r: {r}, s: {s}" if "r" in terms[-1] else "i: H, j: W",
        schedule=f"rows: {draw(st.sampled_from([1, 2, 4, 8]))}, vector: {draw(st.sampled_from(widths))}",
    )


def test_a_window_of_six_dimensions_has_a_loop_variable_for_each(made, prove):
    text = """
params: {H: 7, W: 9}
arrays:
  m: {shape: [4, 4, 2, 3, 4, 5], dtype: float32}
  a: {shape: [2, 3], dtype: float32, values: [[1, 1, 1], [1, -1, -1]]}
  y: {shape: [3, 2, H, W], dtype: float32}
compute: y[n, o, i, j] = sum(a[i % 2, r] * a[j % 2, s] * m[i % 2 + r, j % 2 + s, o, n, i // 2, j // 2], r, s)
"""
    source = made(text).source
    assert "int layer = 0" in source
    assert "int layer_2 = 0" in source
    prove(text)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(text=stencils())
def test_drawn_stencils_agree_with_the_reference(prove, text):
    prove(text)


@pytest.mark.parametrize("value", ["x[i, j - 1] + x[i, j - 2]", "x[i, j + 1] - x[i, j + 2]"])
def test_a_window_holds_the_vectors_of_its_outputs_where_it_reads_beside_them_alone(value: str) -> None:
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {M: 3, N: 8}\narrays:\n  x: {shape: [M, N], dtype: float32, boundary: zero}\n"
        f"  y: {{shape: [M, N], dtype: float32}}\ncompute: y[i, j] = {value}\nschedule: {{family: stencil}}\n"
    )
    assert {claim.verdict for claim in generate(spec).bounds} == {"proved"}
