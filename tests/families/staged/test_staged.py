"""Inputs staged in shared memory: results, launch configurations, placements, and what is refused with its figures."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import Barrier
from cugen.plan.symbols import evaluate
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.runtime.honesty import check_honesty

MODES = ("zero", "clamp", "wrap", "reflect", "{value: -7}")


def slow(*values):
    """Parameters for the slow tests; similar ones run by default."""
    return pytest.param(*values, marks=pytest.mark.slow)


WINDOW = "y[i] = sum(x[i + r - 3], r)"  # r: 7
SQUARE = "y[i, j] = sum(x[i + r - 1, j + s - 1], r, s)"  # r: 3, s: 3


def signal(
    size: int | str = 200,
    compute: str = WINDOW,
    *,
    indices: str = "r: 7",
    boundary: str = "zero",
    memory: str = "shared",
    dtype: str = "float32",
) -> str:
    """The spec of a statement over a signal x and its result y."""
    outside = f", boundary: {boundary}" if boundary else ""
    lines = [f"params: {{N: {size}}}", "arrays:"]
    lines.append(f"  x: {{shape: [N], dtype: {dtype}{outside}, memory: {memory}}}")
    lines.append(f"  y: {{shape: [N], dtype: {dtype}}}")
    lines += [f"indices: {{{indices}}}"] if indices else []
    return "\n".join([*lines, f"compute: {compute}"]) + "\n"


def image(
    h: int | str = 21,
    w: int | str = 70,
    compute: str = SQUARE,
    *,
    indices: str = "r: 3, s: 3",
    boundary: str = "clamp",
    memory: str = "shared",
    layout: str = "",
    more: str = "",
    schedule: str = "",
) -> str:
    """The spec of statements over an image x and its result y."""
    outside = f", boundary: {boundary}" if boundary else ""
    lines = [f"params: {{H: {h}, W: {w}}}", "arrays:"]
    lines.append(f"  x: {{shape: [H, W], dtype: float32{outside}, memory: {memory}{layout}}}")
    lines.append("  y: {shape: [H, W], dtype: float32}")
    lines += [f"  {more}"] if more else []
    lines += [f"indices: {{{indices}}}"] if indices else []
    lines += [f"schedule: {{{schedule}}}"] if schedule else []
    return "\n".join([*lines, "compute: |", *(f"  {line}" for line in compute.splitlines())]) + "\n"


ACCELERATIONS = """
params: {{N: {n}}}
arrays:
  p: {{shape: [N, 4], dtype: float32, memory: {{space: shared}}}}
  a: {{shape: [N, 2], dtype: float32}}
compute: |
  a[i, 0] = sum(p[j, 3] * (p[j, 0] - p[i, 0]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 + 0.01)**3, j)
  a[i, 1] = sum(p[j, 3] * (p[j, 1] - p[i, 1]) * rsqrt((p[j, 0] - p[i, 0])**2 + (p[j, 1] - p[i, 1])**2 + 0.01)**3, j)
schedule: {{{schedule}}}
"""


def accelerations(n, schedule=""):
    """The spec of two accelerations of each body by all others."""
    return ACCELERATIONS.format(n=n, schedule=schedule)


def staged_tiles(kernel) -> dict[str, tuple[int, ...]]:
    """The shapes of the tiles in shared memory, by name."""
    tiles = {a.array.symbol: a.array for a in accesses(kernel.body) if a.array.space == "shared"}
    constants = {name: low for name, (low, high) in kernel.ranges if low == high}
    return {name: tuple(evaluate(side, constants) for side in array.shape) for name, array in tiles.items()}


# The kernel


@pytest.mark.parametrize("size", [20_000, 5_000_000])
def test_a_window_over_an_array_of_any_length_is_staged_by_tiles(planned, size):
    kernel = planned(signal(size))
    assert kernel.family == "staged"
    (shape,) = staged_tiles(kernel).values()
    assert shape[0] - 6 in [256 * outputs for outputs in (1, 2, 4, 8)]


def test_a_block_waits_once_for_its_tiles(planned):
    barriers = [node for node in walk_nodes(planned(image()).body) if isinstance(node, Barrier)]
    assert len(barriers) == 1


def test_the_reason_names_the_tile_and_how_often_it_is_read(planned):
    (reason,) = planned(image(schedule="block: {i: 8, j: 32}")).reasons
    assert reason == f"a tile of 10 x 34 of x, each element read {8 * 32 * 9 / 340:.1f} times by the block"


def test_the_schedule_sets_the_outputs_of_a_block_and_of_a_thread(planned):
    kernel = planned(image(64, 128, schedule="block: {i: 16, j: 64}, thread: {i: 4, j: 2}"))
    assert kernel.block == (32, 4, 1)
    assert staged_tiles(kernel) == {"x_tile": (18, 66)}


def test_large_outputs_share_a_tile_among_several_of_a_thread(planned):
    def outputs(h: int, w: int) -> int:
        kernel = planned(image(h, w))
        (tile,) = staged_tiles(kernel).values()
        return (tile[0] - 2) * (tile[1] - 2) // (kernel.block[0] * kernel.block[1])

    assert outputs(4096, 4096) > outputs(64, 128) == 1


def test_a_thread_has_several_outputs_where_blocks_of_few_bytes_take_longer_to_start(planned):
    word = "cast(p[13 * i // 32 + {}], uint64)"
    packed = f"""
params: {{N: 40000009}}
arrays:
  p: {{shape: [13 * N // 32 + 2], dtype: uint32}}
  y: {{shape: [N], dtype: uint16}}
compute: |
  y[i] = cast(({word.format(0)} | ({word.format(1)} << 32)) >> (13 * i % 32), uint16)
"""
    kernel = planned(packed)
    (shape,) = staged_tiles(kernel).values()
    assert shape[0] >= 4 * 256 * 13 // 32


# Results


@pytest.mark.sampled(18)
@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize("size", [2, 255, 256, slow(257), slow(1031)])
def test_elements_out_of_bounds_are_those_of_the_boundary_mode(prove, boundary, size):
    prove(signal(size, boundary=boundary), sanitize=boundary == "wrap")


@pytest.mark.sampled(13)
@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize(("h", "w"), [(13, 64), (1, 2), slow(67, 31), slow(8, 32), slow(9, 33)])
def test_two_dimensions_have_a_halo_in_both(prove, boundary, h, w):
    prove(image(h, w, boundary=boundary), sanitize=h == 1)


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["clamp", "reflect", slow("zero"), slow("wrap")])
def test_three_dimensions(prove, boundary):
    prove(
        f"arrays:\n  x: {{shape: [5, 11, 37], dtype: float32, boundary: {boundary}, memory: shared}}\n"
        "  y: {shape: [5, 11, 37], dtype: float32}\nindices: {r: 3, s: 3, t: 2}\n"
        "compute: y[h, i, j] = sum(x[h + r - 1, i + s - 1, j + 2 * t - 1], r, s, t)\n",
        sanitize=boundary == "clamp",
    )


@pytest.mark.sampled(28)
@pytest.mark.parametrize("memory", ["pad: 1", "pad: 3", "swizzle: xor", "dynamic: true", "dynamic: true, pad: 2"])
@pytest.mark.parametrize("layout", ["", ", layout: column", ", pitch: 83", slow(", pitch: {align: 128}")])
def test_every_layout_of_the_array_and_of_its_tile(prove, memory, layout):
    prove(image(memory=f"{{space: shared, {memory}}}", layout=layout), sanitize=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "schedule",
    [
        "block: {i: 4, j: 32}",
        "block: {i: 1, j: 64}",
        "block: {i: 8, j: 64}, thread: {j: 2}",
        "block: {i: 12, j: 16}, thread: {i: 3}",
        "thread: {i: 2, j: 2}",
        "block: {i: 32, j: 8}, thread: {i: 8, j: 1}",
    ],
)
def test_every_launch_configuration_gives_the_same_result(prove, schedule):
    prove(image(37, 75, boundary="reflect", schedule=schedule), races=True)


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("compute", "indices"),
    [
        ("y[i, j] += x[i - 1, j] + x[i + 1, j]", "i: H, j: W"),
        ("y[i, j] = max(x[i, j - 2 + r], r) - x[i + 3, j]", "r: 4"),
        ("t[i, j] = x[i, j - 1] + x[i, j + 1]\ny[i, j] = t[i, j] * t[i, j] + x[i, j]", "i: H, j: W"),
        ("y[i, j] = sum(x[i + r - 1, j + s - 1], r, s, where=r <= s)", "r: 3, s: 3"),
        ("y[i, j] = x[H - 1 - i, W - 1 - j] + x[H - 2 - i, W - j]", "i: H, j: W"),
        ("y[i, j] = x[i // 2, j // 3] * x[(i - 5) // 2, (j + 1) // 3]", "i: H, j: W"),
        ("y[i, j] = x[i, j % 8] + x[i, (j + 3) % 8]", "i: H, j: W"),
        ("y[i, j] = x[(i - 1) / 2, j] + x[(i - 2) / 2, j]", "i: H, j: W"),
        ("y[i, j] = sum(x[2 * i + r, 2 * j + s - 1], r, s)", "i: H, j: W, r: 3, s: 4"),
    ],
)
def test_statements_of_every_form(prove, planned, compute, indices):
    text = image(37, 44, compute, indices=indices)
    assert "x_tile" in staged_tiles(planned(text))
    prove(text, sanitize=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("rows", "features"), [(40, 5), (300, 3), slow(257, 8)])
def test_all_pairs_of_rows_have_two_tiles(prove, planned, rows, features):
    text = (
        f"params: {{N: {rows}, D: {features}}}\narrays:\n"
        "  x: {shape: [N, D], dtype: float32, memory: shared}\n  y: {shape: [N, N], dtype: float32}\n"
        "compute: y[i, j] = sqrt(sum((x[i, k] - x[j, k]) * (x[i, k] - x[j, k]), k))\n"
    )
    assert len(staged_tiles(planned(text)).keys() - {"partials"}) == 2
    prove(text, sanitize=True)


def test_reads_under_a_bounds_condition_stay_in_bounds(prove):
    inner = "0 < i and i < H - 1 and 0 < j and j < W - 1"
    compute = f"y[i, j] = where({inner}, x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1], x[i, j])"
    prove(image(33, 65, compute, indices="", boundary=""), sanitize=True)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize("compute", ["y[i] = x[d[i]] + x[d[i] + 1]", "y[i] = x[2 * d[i] - 3 + i]"])
def test_the_boundary_of_a_gathered_table_is_resolved_at_the_read(prove, planned, compute, boundary):
    text = (
        f"params: {{N: 37, M: 500}}\narrays:\n"
        f"  x: {{shape: [N], dtype: float32, boundary: {boundary}, memory: shared}}\n"
        f"  d: {{shape: [M], dtype: int32}}\n  y: {{shape: [M], dtype: float32}}\ncompute: {compute}\n"
    )
    assert "x_tile" in staged_tiles(planned(text))
    prove(text, sanitize=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("boundary", MODES)
def test_exact_quotients_of_a_transposed_convolution(prove, planned, boundary):
    text = (
        "indices: {r: 5}\narrays:\n"
        f"  x: {{shape: [60], dtype: float32, boundary: {boundary}, memory: shared}}\n"
        "  y: {shape: [500], dtype: float32}\ncompute: y[i] = sum(x[(i - r) / 2], r)\n"
    )
    assert "x_tile" in staged_tiles(planned(text))
    prove(text, sanitize=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("boundary", MODES)
def test_a_window_beside_a_gathered_subscript(prove, planned, boundary):
    text = (
        "indices: {r: 5}\narrays:\n"
        f"  x: {{shape: [3, 300], dtype: float32, boundary: {boundary}, memory: shared}}\n"
        "  d: {shape: [40], dtype: int32}\n  y: {shape: [40, 300], dtype: float32}\n"
        "compute: y[i, j] = sum(x[d[i], j + r - 2], r)\n"
    )
    assert "x_tile" in staged_tiles(planned(text))
    prove(text, sanitize=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("dtype", "boundary"),
    [
        ("uint8", "{value: 200}"),
        ("float16", "{value: 0.5}"),
        ("int64", "wrap"),
        slow("bfloat16", "clamp"),
        slow("float64", "reflect"),
        slow("bool", "{value: 1}"),
        slow("float8_e4m3", "zero"),
    ],
)
def test_types_keep_their_storage_type_in_the_tile(prove, dtype, boundary):
    compute = f"y[i] = cast(max(x[i + r - 3], r), {dtype})" if dtype != "bool" else "y[i] = any(x[i + r - 3], r)"
    prove(signal(300, compute, boundary=boundary, dtype=dtype))


def test_structures_are_staged_where_their_fields_are_used_apart(prove, planned):
    text = (
        "arrays:\n  x: {shape: [1000, 3], dtype: float32, memory: shared}\n"
        "  y: {shape: [1000], dtype: float32}\ncompute: y[i] = sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 2])\n"
    )
    assert staged_tiles(planned(text)) == {"x_tile": (256, 3)}
    prove(text, sanitize=True)


PRODUCT = "y[i, j] = (x[i, j - 1] + x[i - 1, j]) * b[j]"
BLOCK = "block: {i: 8, j: 32}"


def test_several_arrays_have_a_tile_each(prove, planned):
    text = image(
        40, 70, PRODUCT, indices="i: H", more="b: {shape: [W], dtype: float32, memory: shared}", schedule=BLOCK
    )
    assert staged_tiles(planned(text)) == {"x_tile": (9, 33), "b_tile": (32,)}
    prove(text, sanitize=True)


@pytest.mark.parametrize(("k", "group"), [(260, 2), slow(1021, 32), (513, 7), slow(777, 256), slow(300, 3)])
def test_a_factor_of_a_group_of_terms_has_a_tile_of_its_own_in_a_walk(prove, planned, k, group):
    text = f"""
params: {{M: 33, N: 4}}
arrays:
  a: {{shape: [M, {k}], dtype: float32, memory: shared}}
  b: {{shape: [{k}, N], dtype: float32}}
  scale: {{shape: [M, ({k} + {group} - 1) // {group}], dtype: float32, memory: shared}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[m, n] = sum((a[m, k] * scale[m, k // {group}]) * b[k, n], k)
"""
    assert planned(text).family == "staged"
    prove(text)


def test_two_tiles_in_dynamic_memory_follow_each_other(prove, planned):
    dynamic = "{space: shared, dynamic: true}"
    more = f"b: {{shape: [W], dtype: float32, memory: {dynamic}}}"
    text = image(40, 70, PRODUCT, indices="i: H", memory=dynamic, more=more, schedule=BLOCK)
    kernel = planned(text)
    assert (kernel.shared_bytes, kernel.dynamic_shared_bytes) == (0, 9 * 33 * 4 + 12 + 32 * 4)
    prove(text, sanitize=True)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("boundary", ["zero", "wrap", "reflect", slow("clamp")])
@pytest.mark.parametrize(("h", "w"), [(37, 65), (0, 5), (1, 1), slow(5, 0)])
def test_sizes_given_at_run_time(prove, boundary, h, w):
    prove(image("dynamic", "dynamic", boundary=boundary), {"H": h, "W": w})


def test_statements_of_one_kernel_share_a_tile(prove, planned):
    more = "z: {shape: [H, W], dtype: float32}"
    compute = "y[i, j] = sum(x[i + r - 1, j + s - 1], r, s)\nz[i, j] = x[i, j + 4] - x[i, j]"
    text = image(compute=compute, more=more, schedule=BLOCK)
    assert staged_tiles(planned(text)) == {"x_tile": (10, 37)}  # columns j - 1 to j + 4
    prove(text, sanitize=True)


@pytest.mark.slow
def test_reductions_of_different_lengths_share_the_name_of_their_index(prove):
    prove(
        "arrays:\n  x: {shape: [256, 8], dtype: float32, memory: shared}\n"
        "  w: {shape: [256, 40], dtype: float32, memory: shared}\n"
        "  y: {shape: [256], dtype: float32}\n  z: {shape: [256], dtype: float32}\n"
        "compute: |\n  y[i] = sum(w[j, k] * w[i, k], j, k)\n  z[i] = sum(x[j, k] * x[i, k], j, k)\n",
        sanitize=True,
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(signal(1031, boundary="wrap"), id="1-D"),
        pytest.param(image(21, 70, schedule="thread: {i: 2, j: 2}"), id="2-D, 4 outputs"),
        pytest.param(accelerations(70, "block: {i: 64}, thread: {i: 2}, step: {j: 8}"), id="walk, 2 outputs"),
        pytest.param(accelerations(70, "step: {j: 16}"), id="walk, slices"),
        pytest.param(image(21, 70, boundary="zero", memory="{space: shared, swizzle: xor}"), id="swizzled"),
        pytest.param(image(21, 70, memory="{space: shared, pad: 1}", layout=", layout: column"), id="columns, padded"),
    ],
)
def test_traced_accesses_are_those_of_the_plan(made, text):
    kernel = made(text)
    assert [k.family for k in kernel.plan.kernels] == ["staged"]
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(signal("dynamic", boundary="reflect"), id="dynamic"),
        pytest.param(signal(300, boundary="{value: 3}", dtype="uint8"), id="value"),
        pytest.param(image(memory="{space: shared, swizzle: xor}", schedule="thread: {i: 2}"), id="swizzled"),
        pytest.param(image(memory="{space: shared, dynamic: true}"), id="dynamic memory"),
    ],
)
def test_kernels_compile_without_warnings(compiled, text):
    compiled(text)


@pytest.mark.slow
def test_idle_threads_of_a_walk_read_no_element_behind_the_tile(prove, planned):
    text = (
        "arrays:\n  x: {shape: [8, 10, 50], dtype: float32, boundary: zero, memory: shared}\n"
        "  w: {shape: [4, 8, 3, 3], dtype: float32, memory: shared}\n  y: {shape: [4, 10, 50], dtype: float32}\n"
        "compute: y[f, i, j] = sum(x[c, i + r - 1, j + s - 1] * w[f, c, r, s], c, r, s)\nschedule: {step: {c: 3}}\n"
    )
    assert planned(text).family == "staged"
    prove(text, sanitize=True)


def test_a_reduction_that_uses_the_index_of_another_keeps_its_own(prove, planned):
    text = signal(90, "y[i] = sum(max(x[(3 * r + s + i) % 90] * s, s), r)", indices="r: 20, s: 20", boundary="")
    assert planned(text).family == "staged"
    prove(text, sanitize=True)


# Walks over tiles of a reduction

PAIRS = """
params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [N, 2], dtype: float32{memory}}}
  c: {{shape: [M, 2], dtype: float32}}
  y: {{shape: [M], dtype: float32}}
compute: y[i] = {reduction}((c[i, 0] - x[k, 0])**2 + (c[i, 1] - x[k, 1])**2, k)
{schedule}
"""


def pairs(m=300, n=1000, *, reduction="min", memory="", schedule=""):
    """The spec of a reduction over all pairs of two sets of points."""
    schedule = f"schedule: {{{schedule}}}" if schedule else ""
    return PAIRS.format(m=m, n=n, reduction=reduction, memory=memory, schedule=schedule)


@pytest.mark.sampled(22)
@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "argmin", "argmax"])
@pytest.mark.parametrize(("m", "n"), [(1, 1000), (255, 999), (256, 128), (257, 1025)])
def test_a_long_reduction_over_common_points_walks_unasked(prove, planned, reduction, m, n):
    text = pairs(m, n, reduction=reduction, schedule="block: {i: 64}")  # a schedule keeps it in one launch
    kernel = planned(text)
    assert (kernel.family, list(staged_tiles(kernel))) == ("staged", ["x_tile"]) if m > 1 else ("rowwise", [])
    prove(text, sanitize=True)


@pytest.mark.slow
def test_tiles_of_one_shape_are_filled_together_without_checks_in_whole_tiles(made, prove):
    text = """
params: {N: 512}
arrays:
  x: {shape: [N], dtype: float32}
  m: {shape: [N], dtype: float32}
  f: {shape: [N], dtype: float32}
  g: {shape: [N], dtype: float32}
compute: |
  f[i] = sum(m[k] * (x[k] - x[i]), k)
  g[i] = max(m[k] * x[k] - x[i], k)
schedule: {block: {i: 128}}
"""
    source = made(text).source
    assert source.count("for (int vector = ") == 1
    for name in ("x", "m"):
        assert f"store<2>(&{name}_tile[2 * vector], load<2>(&{name}[position]));" in source.replace(
            "k_first + 2 * vector", "position"
        )
    assert "f_sum" in source
    assert "g_largest" in source
    prove(text, sanitize=True)
    prove(text.replace("512", "509"), sanitize=True)


def test_few_points_are_read_where_they_are(planned):
    assert planned(pairs(n=127)).family != "staged"
    assert planned(pairs(n=128)).family == "staged"


@pytest.mark.slow
def test_the_step_of_a_walk_is_that_of_the_schedule(prove, planned):
    text = pairs(memory=", memory: shared", schedule="block: {i: 64}, step: {k: 48}")
    assert staged_tiles(planned(text)) == {"x_tile": (48, 2)}
    prove(text, sanitize=True)
    prove(text, races=True)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("outputs", [2, 3, 4, 8])
@pytest.mark.parametrize("n", [1, 31, 127, 257, 512])
def test_a_thread_of_a_walk_has_several_outputs(prove, planned, n, outputs):
    text = accelerations(n, f"block: {{i: {32 * outputs}}}, thread: {{i: {outputs}}}, step: {{j: 24}}")
    kernel = planned(text)
    assert (kernel.family, kernel.block) == ("staged", (32, 1, 1))
    prove(text, sanitize=True)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("reduction", ["sum", "max", "prod", "any"])
@pytest.mark.parametrize(("m", "n"), [(65, 1025), (67, 1000), (64, 2048), (131, 769)])
def test_threads_that_share_an_output_combine_their_slices(prove, planned, reduction, m, n):
    text = pairs(m, n, reduction=reduction, memory=", memory: shared", schedule="step: {k: 64}")
    if reduction == "any":
        text = text.replace("k)", "k)").replace("float32}\ncompute", "bool}\ncompute")
        text = text.replace("any((c[i, 0] - x[k, 0])**2 +", "any(0.001 > (c[i, 0] - x[k, 0])**2 +")
    kernel = planned(text)
    assert kernel.block[1] > 1
    prove(text, sanitize=True)


@pytest.mark.slow
def test_slices_and_several_outputs_are_free_of_races(prove, planned):
    text = accelerations(20_011)
    assert planned(text).block[1] > 1
    prove(accelerations(1031, "step: {j: 64}"), races=True)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("reduction", ["argmin", "argmax", "min"])
@pytest.mark.parametrize(("points", "centres", "features"), [(2, 130, 3), (129, 131, 4), (257, 128, 1), (300, 257, 7)])
def test_the_nearest_centre_holds_the_features_of_several_points(prove, planned, reduction, points, centres, features):
    dtype = "float32" if reduction == "min" else "int64"
    text = (
        f"params: {{N: {points}, C: {centres}, D: {features}}}\narrays:\n"
        "  x: {shape: [N, D], dtype: float32}\n  c: {shape: [C, D], dtype: float32, memory: shared}\n"
        f"  y: {{shape: [N], dtype: {dtype}}}\n"
        f"compute: y[i] = {reduction}(sum((x[i, k] - c[m, k])**2, k), m)\n"
        "schedule: {block: {i: 64}, thread: {i: 2}, step: {m: 16}}\n"
    )
    assert planned(text).block == (32, 1, 1)
    prove(text, sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(1, 7), (65, 31), (33, 70), (64, 64)])
@pytest.mark.parametrize("where", ["", ", where=k != i", ", where=x[i, 0] > 0"])
def test_a_walk_has_several_outputs_along_both_indices(prove, planned, m, n, where):
    text = (
        f"params: {{M: {m}, N: {n}, K: 50}}\narrays:\n"
        "  x: {shape: [M, K], dtype: float32, memory: shared}\n"
        "  y: {shape: [N, K], dtype: float32, memory: shared}\n"
        "  w: {shape: [M], dtype: float32}\n  d: {shape: [M, N], dtype: float32}\n"
        f"compute: d[i, j] = w[i] * sum(w[i] * abs(x[i, k] - y[j, k]), k{where})\n"
        "schedule: {block: {i: 16, j: 32}, thread: {i: 2, j: 4}, step: {k: 8}}\n"
    )
    assert planned(text).block == (8, 8, 1)
    prove(text, sanitize=True)


def test_the_size_of_the_problem_decides_outputs_per_thread_and_slices(planned):
    def threads(n: int) -> int:
        """Threads per output."""
        kernel = planned(accelerations(n))
        (blocks,) = (int(kernel.grid[0].subs(symbol, n)) for symbol in kernel.grid[0].free_symbols)
        return blocks * kernel.block[0] * kernel.block[1] / n

    few, many = threads(20_011), threads(1_000_003)
    assert few > 1 > many


def test_windows_of_one_output_per_thread_are_staged_unasked(planned):
    text = signal(100_000, "y[i] = max(x[i + r - 3], r)", indices="r: 7", memory="global")
    assert planned(text).family == "stencil"  # a memory that the spec names is kept
    odd = "params: {H: 501, W: 1203}\narrays:\n  x: {shape: [H, W], dtype: float32, boundary: clamp}\n"
    odd += "  y: {shape: [H, W], dtype: float32}\nindices: {s: 7}\ncompute: y[i, j] = sum(x[i, j + s - 3], s)\n"
    assert planned(odd).family == "staged"


# Refusals

# Two loops of different lengths: no walk takes both.
LARGE = signal(20_000, "y[i] = sum(x[i + 40 * r], r) + max(x[i + 40 * q], q)", indices="i: N, r: 320, q: 319")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(
            signal(memory="{space: shared, stages: 2}"),
            "fills the tile of x once: there is nothing to pipeline",
            id="stages",
        ),
        pytest.param(
            pairs(memory=", memory: shared", schedule="step: {i: 8}"),
            "has no walk over tiles in such steps",
            id="step along an output",
        ),
        pytest.param(image(schedule="block: {r: 3}"), "block sizes are for j, i", id="block along a reduction"),
        pytest.param(
            LARGE,
            "the tiles of x take 52064 bytes of shared memory, 49152 are allowed",
            id="capacity",
        ),
    ],
)
def test_a_refusal_has_a_reason(reasons, text, reason):
    assert reason in [refusal.reason for refusal in reasons("staged", text)]


def test_the_swizzle_of_a_single_row_is_the_identity(planned):
    swizzled = planned(signal(memory="{space: shared, swizzle: xor}"))
    assert swizzled.shared_bytes == planned(signal(memory="shared")).shared_bytes
    assert "swizzle leaves its single row as it is" in swizzled.reasons[0]


def test_windows_in_constant_memory_are_staged_unasked(planned):
    kernel = planned(signal(9_000, "y[i] = max(x[i + r - 3], r)", indices="r: 7", memory="constant"))
    assert kernel.family in ("staged", "stencil")
    odd = "params: {N: 9001}\narrays:\n  x: {shape: [N], dtype: float32, boundary: reflect, memory: constant}\n"
    odd += "  y: {shape: [N], dtype: float32}\nindices: {r: 63}\ncompute: y[i] = mean(x[i + r - 31], r)\n"
    assert planned(odd + "schedule: {block: {i: 512}, thread: {i: 2}}\n").family == "staged"


def test_dynamic_shared_memory_holds_larger_tiles(reasons):
    assert reasons("staged", LARGE.replace("memory: shared", "memory: {space: shared, dynamic: true}")) == ()
