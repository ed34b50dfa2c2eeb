"""Fused stencils with overlapped tiling: what is taken or refused, and correct results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.stencil.fused import family
from cugen.kernel import generate
from cugen.plan.kernel import Kernel
from cugen.plan.traversal.walking import accesses
from cugen.spec.load import load_text

ROWS_FIRST = ("sum(w[s] * x[i, j + s - 2], s)", "sum(w[r] * t[i + r - 2, j], r)")
COLUMNS_FIRST = ("sum(w[s] * x[i + s - 2, j], s)", "sum(w[r] * t[i, j + r - 2], r)")
MODES = ("zero", "clamp", "wrap", "reflect", "symmetric", "{value: 2}")


def slow(*values):
    """Parameters for the slow tests; similar ones run by default."""
    return pytest.param(*values, marks=pytest.mark.slow)


def filters(
    h: int | str,
    w: int | str,
    statements: tuple[str, str] = ROWS_FIRST,
    *,
    boundary: str = "clamp",
    between: str = "clamp",
    taps: int = 5,
    dtype: str = "float32",
    intermediate: str = "memory: shared",
    schedule: str = "",
) -> str:
    """The spec of two filters of an image x with the intermediate array t."""
    return (
        f"params: {{H: {h}, W: {w}}}\narrays:\n"
        f"  x: {{shape: [H, W], dtype: {dtype}, boundary: {boundary}}}\n  w: {{shape: [{taps}], dtype: float32}}\n"
        f"  t: {{shape: [H, W], dtype: float32, {intermediate}, boundary: {between}}}\n"
        f"  y: {{shape: [H, W], dtype: {dtype}}}\n"
        + (f"schedule: {{family: fused_stencil, {schedule}}}\n" if schedule else "")
        + f"compute: |\n  t[i, j] = {statements[0]}\n  y[i, j] = {statements[1]}\n"
    )


def shared(kernel: Kernel) -> tuple[int, ...]:
    (tile,) = {a.array.symbol: a.array for a in accesses(kernel.body) if a.array.space == "shared"}.values()
    return tuple(int(extent) for extent in tile.shape)


# Selection


@pytest.mark.covering
@pytest.mark.parametrize("channels", [3, 70, "dynamic"])
@pytest.mark.parametrize("taps", [1, 3])
def test_sums_over_many_channels_are_stored_before_their_rows_are_combined(made, channels, taps):
    spec = (
        f"params: {{C: {channels}, H: 20, W: 33}}\narrays:\n  x: {{shape: [C, H, W], dtype: float32, boundary: zero}}\n"
        f"  w: {{shape: [C, {taps}], dtype: float32}}\n  y: {{shape: [H, W], dtype: float32}}\nindices: {{i: H}}\n"
        "compute: |\n  t[i, j] = sum(x[c, i, j + r] * w[c, r], c, r)\n"
        "  y[i, j] = where(i > 0, t[i - 1, j], 0) + t[i, j]\n"
    )
    assert (len(made(spec).plan.kernels) == 1) == (channels == 3)


def test_two_filters_share_a_tile_and_a_launch(planned):
    kernel = planned(filters(1024, 1024))
    assert kernel.family == "fused_stencil"
    assert shared(kernel) == (36, 128)
    assert max(a.width for a in accesses(kernel.body) if a.array.space == "shared") == 4


def test_threads_of_halo_columns_store_nothing(planned):
    kernel = planned(filters(1024, 1024, COLUMNS_FIRST))
    assert shared(kernel) == (32, 128)


def test_an_undeclared_temporary_is_shared_too(made):
    kernel = made(
        "params: {H: 640, W: 640}\narrays:\n  x: {shape: [H + 4, W + 4], dtype: float32}\n"
        "  w: {shape: [5], dtype: float32}\n  y: {shape: [H, W], dtype: float32}\nindices: {a: H + 4}\n"
        "compute: |\n  t[a, j] = sum(w[s] * x[a, j + s], s)\n  y[i, j] = sum(w[r] * t[i + r, j], r)\n"
    )
    assert [launch.family for launch in kernel.plan.kernels] == ["fused_stencil"]
    assert "t stays in shared memory" in kernel.plan.notes


COLOURS = """
params: {H: 300, W: 400, C: %d}
arrays:
  x: {shape: [H, W, C], dtype: uint8, boundary: clamp}
  g: {shape: [9], dtype: float32}
  y: {shape: [H, W, C], dtype: float32}
compute: y[i, j, c] = sum(g[r] * g[s] * x[i + r - 4, j + s - 4, c], r, s)
"""


@pytest.mark.parametrize(("channels", "is_fused"), [(3, False), (32, True)])
def test_rows_of_a_few_elements_would_leave_a_block_idle(made, prove, channels, is_fused):
    families = [launch.family for launch in made(COLOURS % channels).plan.kernels]
    assert ("fused_stencil" in families) == is_fused
    prove((COLOURS % channels).replace("H: 300, W: 400", "H: 23, W: 11"))


def test_scratch_memory_takes_two_launches(made):
    kernel = made(filters(640, 640, intermediate="memory: scratch"))
    assert [launch.family for launch in kernel.plan.kernels] == ["stencil", "stencil"]


def test_a_scalar_result_is_not_fused(made):
    kernel = made(
        "arrays:\n  x: {shape: [64], dtype: float32}\n  y: {shape: [], dtype: float32}\n"
        "compute: |\n  m = max(x[i], i)\n  y = log(sum(exp(x[j] - m), j)) + m\n"
    )
    assert all(launch.family != "fused_stencil" for launch in kernel.plan.kernels)


@pytest.mark.parametrize(("features", "families"), [(1, ["fused_stencil"]), (144, ["gemm", "stencil"])])
def test_features_of_a_product_that_share_inputs_are_stored_before_they_are_filtered(monkeypatch, features, families):
    monkeypatch.setattr(family, "MAX_CHANNELS", 24)
    (spec,) = load_text(
        "cugen: 1\nkernel: k\n"
        f"params: {{N: 16, C: 24, E: {features}, H: 57, W: 57}}\narrays:\n"
        "  x: {shape: [N, C, H, W], dtype: float32}\n  w: {shape: [E, C], dtype: float32}\n"
        "  v: {shape: [E, 3, 3], dtype: float32}\n  y: {shape: [N, E, H, W], dtype: float32}\n"
        "indices: {i: H, j: W, a: H, b: W}\ncompute: |\n  t[n, e, a, b] = relu(sum(x[n, c, a, b] * w[e, c], c))\n"
        "  y[n, e, i, j] = sum(where(0 <= i + r - 1 < H and 0 <= j + s - 1 < W,"
        " t[n, e, i + r - 1, j + s - 1] * v[e, r, s], 0), r, s)\n"
    )
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == families


# Results


@pytest.mark.sampled(9)
@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize(("h", "w"), [(37, 64), slow(1, 4), slow(66, 132)])
def test_the_boundary_mode_of_the_intermediate_array(prove, boundary, h, w):
    prove(filters(h, w, boundary=boundary, between=boundary), sanitize=boundary == "clamp")


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("statements", [ROWS_FIRST, COLUMNS_FIRST])
@pytest.mark.parametrize(("h", "w"), [(33, 260), slow(1, 1), slow(40, 37)])
def test_either_order_at_any_size(prove, statements, h, w):
    prove(filters(h, w, statements, boundary="zero", between="reflect"), races=(h, w) == (33, 260))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("between", MODES)
def test_columns_left_of_an_image_narrower_than_a_warp(prove, between):
    """The column of a halo thread is negative there, and `threadIdx.x` is unsigned."""
    statements = ("sum(w[s] * x[i + s - 2, j], s)", "sum(w[r] * t[i, j + r - 2], r)")
    prove(filters(3, 7, statements, boundary="zero", between=between))


@pytest.mark.parametrize(("schedule", "is_fused"), [("", False), ("schedule: {family: fused_stencil}", True)])
def test_an_intermediate_array_of_sums_over_many_channels_is_left_to_other_families(made, schedule, is_fused):
    kernel = made(
        f"{schedule}\nparams: {{C: 24, E: 32, H: 40, W: 64}}\narrays:\n  x: {{shape: [C, H, W], dtype: float32}}\n"
        "  w: {shape: [E, C], dtype: float32}\n  y: {shape: [E, H, W], dtype: float32}\n"
        "indices: {i: H, j: W, r: 3, s: 3}\ncompute: |\n  a[e, i, j] = sum(w[e, c] * x[c, i, j], c)\n"
        "  y[e, i, j] = sum(where(inside(a[e, i + r - 1, j + s - 1]), a[e, i + r - 1, j + s - 1], 0), r, s)\n"
    )
    assert ([launch.family for launch in kernel.plan.kernels] == ["fused_stencil"]) == is_fused


@pytest.mark.parametrize("schedule", ["block: {j: 64, i: 16}", slow("rows: 1"), slow("rows: 8")])
def test_every_block_size_gives_the_same_result(prove, schedule):
    prove(filters(70, 136, COLUMNS_FIRST, schedule=schedule))


@pytest.mark.slow
def test_more_taps_than_the_image_has_rows(prove):
    statements = ("sum(w[s] * x[i, j + s - 15], s)", "sum(w[r] * t[i + r - 15, j], r)")
    prove(filters(9, 20, statements, boundary="reflect", taps=31))


@pytest.mark.slow
def test_footprints_in_both_directions_and_index_values(prove):
    first = "sum(x[i, j + s] * w[s], s) + x[i - 1, j - 1] + j"
    second = "t[i - 1, j - 1] + t[i + 1, j + 1] * i - x[i, j] + sum(t[i, j + q] * w[q], q)"
    prove(filters(40, 72, (first, second), between="wrap", taps=3))


@pytest.mark.parametrize("size", [(37, 64), slow((0, 0)), slow((1, 8)), slow((8, 0))])
def test_sizes_given_at_run_time(prove, size):
    text = filters("dynamic", "{range: [0, 4096], multiple_of: 4}", COLUMNS_FIRST)
    prove(text, {"H": size[0], "W": size[1]})


@pytest.mark.slow
def test_batches_of_bytes_in_integers(prove):
    prove(
        "params: {B: 3, H: 40, W: 64}\narrays:\n  x: {shape: [B, H, W], dtype: uint8, boundary: clamp}\n"
        "  t: {shape: [B, H, W], dtype: int32, memory: shared, boundary: clamp}\n"
        "  y: {shape: [B, H, W], dtype: uint8}\nindices: {s: 5, r: 5}\ncompute: |\n"
        "  t[b, i, j] = sum(x[b, i, j + s - 2], s)\n  y[b, i, j] = cast(sum(t[b, i + r - 2, j], r) // 25, uint8)\n"
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    h=st.integers(1, 70),
    w=st.sampled_from([1, 4, 7, 36, 128, 136, 140]),
    order=st.sampled_from([ROWS_FIRST, COLUMNS_FIRST]),
    boundary=st.sampled_from(MODES),
    between=st.sampled_from(MODES),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_drawn_fused_stencils_agree_with_the_reference(prove, h, w, order, boundary, between, dtype):
    prove(filters(h, w, order, boundary=boundary, between=between, dtype=dtype))
