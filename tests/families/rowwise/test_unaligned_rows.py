"""Rows that begin anywhere: vectors from the first aligned element on, and the elements before and after them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.traversal.walking import accesses
from cugen.runtime.honesty import check_honesty

SOFTMAX = ("y[i, j] = softmax(x[i, j], j)",)
LAYER_NORM = (
    "mu[i] = mean(x[i, j], j)",
    "scale[i] = rsqrt(var(x[i, j], j) + 1e-5)",
    "y[i, j] = (x[i, j] - mu[i]) * scale[i] * g[j]",
)
WEIGHTED_SUM = ("y[i, j] = x[i, j] / sum(x[i, k], k) * g[j]",)
EXCESS = ("y[i, j] = maximum(x[i, j], g[j]) - min(x[i, k], k)",)
WEIGHTED = ("y[i, j] = x[i, j] / sum(x[i, k] * x[i, k] * k, k) + j",)


def rows(m, n, statements=SOFTMAX, dtype="float32", out="", schedule=""):
    text = "".join(f"  {statement}\n" for statement in statements)
    more = f"  g: {{shape: [N], dtype: {dtype}}}\n" if "g[j]" in text else ""
    tunables = f"schedule: {{{schedule}}}\n" if schedule else ""
    return (
        f"params: {{M: {m}, N: {n}}}\ntarget: sm_90\n"
        f"arrays:\n  x: {{shape: [M, N], dtype: {dtype}}}\n  y: {{shape: [M, N], dtype: {out or dtype}}}\n{more}"
        f"compute: |\n{text}{tunables}"
    )


def widths(kernel, array):
    return sorted({access.width for access in accesses(kernel.body) if access.array.name == array})


# The plan


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("bfloat16", 8)])
def test_vectors_start_at_the_first_aligned_element(made, planned, dtype, width):
    text = rows(300, 1001, dtype=dtype)
    assert [widths(planned(text), array) for array in "xy"] == [[1, width], [1, width]]
    source = made(text).source
    assert f"const int head = ({width} - N * i % {width}) % {width};" in source
    assert f"threadIdx.x < head ? threadIdx.x : threadIdx.x + {width} * ((N - head) / {width});" in source
    assert "if (edge < N) {" in source


def test_a_single_row_has_no_elements_before_its_first_vector(made):
    """`threadIdx.x < 0` is a warning of nvcc."""
    text = "params: {N: 1003}\narrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}\n"
    source = made(text + "compute: y[i] = x[i] / sum(x[k], k)\ntarget: sm_90\n").source
    assert "head" not in source
    assert "const int edge = 4 * (N / 4) + threadIdx.x;" in source


def test_rows_that_all_rows_share_are_shifted(made, planned):
    """Two aligned vectors of `g` have the elements of one vector of `x`."""
    text = rows(300, 9001, LAYER_NORM, "bfloat16")
    assert [widths(planned(text), array) for array in "xyg"] == [[1, 8], [1, 8], [1, 8]]
    source = made(text).source
    assert "const auto g8_low = load<8>(&g[j - head]);" in source
    assert "const auto g8_high = load<8>(&g[j + 8 - head]);" in source
    assert "const auto g8 = funnel_shift(g8_low, g8_high, head);" in source
    assert "threadIdx.x < head ? threadIdx.x : 8 * ((N - 8) / 8) + threadIdx.x;" in source
    assert "if (first_j" not in source


@pytest.mark.parametrize(("target", "shifts"), [("sm_30", False), ("sm_35", True)])
def test_only_targets_with_funnel_shifts_shift(made, target, shifts):
    text = rows(300, 9001, LAYER_NORM, "float16").replace("sm_90", target)
    assert ("funnel_shift" in made(text).source) == shifts


def test_single_elements_that_fill_cache_lines_are_not_shifted(made):
    assert "funnel_shift" not in made(rows(300, 9001, LAYER_NORM)).source


def test_rows_in_registers_have_no_room_for_pairs_of_vectors(planned):
    kernel = planned(rows(300, 1001, LAYER_NORM, "bfloat16"))
    assert [widths(kernel, array) for array in "xyg"] == [[1, 2], [1, 2], [1]]


def test_vectors_are_narrow_where_other_arrays_are_not_aligned_with_rows(planned):
    weighted = (*LAYER_NORM[:2], LAYER_NORM[2].replace("g[j]", "g[i, j]"))
    text = rows(300, 9001, weighted, "bfloat16")
    text = text.replace("  y: {", "  g: {shape: [M, N], dtype: bfloat16, pitch: 9003}\n  y: {")
    assert [widths(planned(text), array) for array in "xyg"] == [[1, 2], [1, 2], [1]]
    assert widths(planned(rows(300, 1001, LAYER_NORM)), "x") == [1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        rows(300, 1000, dtype="bfloat16"),
        rows(300, 63),
        rows(300, 127, dtype="bfloat16"),
        rows(300, "dynamic"),
        rows(300, 1002, LAYER_NORM, "bfloat16"),
        rows(300, 1001).replace("y: {", "y: {pitch: 1003, "),
        rows(300, 1001, schedule="family: rowwise, threads: 4"),
    ],
)
def test_aligned_short_and_dynamic_rows_have_no_edges(made, text):
    assert "edge" not in made(text).source


# Execution


@pytest.mark.sampled(11)
@pytest.mark.parametrize("n", [64, 65, 66, 67, 71, 128, 129, 131, 255, 257, 1021])
def test_rows_of_any_residue_are_right(prove, n):
    """Successive rows begin at all offsets from the alignment of a vector."""
    prove(rows(9, n))
    prove(rows(17, n, dtype="bfloat16", schedule="family: rowwise, threads: 16"))
    prove(rows(9, n, LAYER_NORM, "bfloat16"))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("n", [127, 131, 263, 264, 265, 519, 520, 521, 1021])
@pytest.mark.parametrize("schedule", ["threads: 32, registers: 0", "threads: 32, cluster: 2, registers: 0"])
def test_shifted_rows_are_right(prove, n, schedule):
    """Vectors and edges at the ends of a thread group's slots, with operands of 16 and 8 bits."""
    prove(rows(17, n, LAYER_NORM, "bfloat16", schedule=f"family: rowwise, {schedule}"))
    prove(rows(17, n, WEIGHTED_SUM, "uint8", "float32", schedule=f"family: rowwise, {schedule}"))
    prove(rows(17, n, EXCESS, "uint8", schedule=f"family: rowwise, {schedule}"))


def test_vectors_of_less_than_a_word_are_not_shifted(made, prove):
    text = rows(3, 1013, WEIGHTED_SUM, "float64", schedule="family: rowwise, threads: 32, registers: 0")
    text = text.replace("g: {shape: [N], dtype: float64}", "g: {shape: [N], dtype: uint8}")
    assert "funnel_shift" not in made(text).source
    prove(text)


def test_an_operand_that_several_passes_read_is_cached(prove):
    weighted = ("y[i, j] = (x[i, j] * g[j] - max(x[i, k] * g[k], k)) * g[j]",)
    for registers in (0, 8, 64):
        prove(rows(9, 1013, weighted, "bfloat16", schedule=f"family: rowwise, threads: 32, registers: {registers}"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 23, 1013, 2049])
def test_shifted_rows_of_a_length_that_is_known_at_launch(made, prove, n):
    text = rows(5, "{default: 16411}", LAYER_NORM, "bfloat16")
    assert "funnel_shift" in made(text).source
    prove(text, {"N": n})


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    ["threads: 64, registers: 0", "threads: 32, registers: 8", "threads: 32, cluster: 2", "threads: 32, rows: 4"],
)
def test_edges_of_rows_in_any_storage_are_right(prove, schedule):
    for statements in (SOFTMAX, LAYER_NORM, WEIGHTED):
        prove(rows(5, 1013, statements, "bfloat16", schedule=f"family: rowwise, {schedule}"))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(64, 700),
    st.sampled_from([16, 32, 64, 128]),
    st.sampled_from([("float32", ""), ("bfloat16", ""), ("float16", "float32"), ("uint8", "float32")]),
    st.sampled_from([SOFTMAX, LAYER_NORM, WEIGHTED]),
)
def test_random_shapes(prove, m, n, threads, types, statements):
    if types[0] == "uint8":
        statements = WEIGHTED
    prove(rows(m, n, statements, *types, schedule=f"family: rowwise, threads: {threads}"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [129, 1021])
def test_no_access_is_out_of_bounds_or_races(prove, n):
    prove(rows(9, n, dtype="bfloat16"), sanitize=True)
    prove(rows(9, n, LAYER_NORM, "bfloat16"), races=True)
    shifted = rows(9, n, LAYER_NORM, "bfloat16", schedule="family: rowwise, threads: 16, registers: 0")
    prove(shifted, sanitize=True)
    prove(shifted, races=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "statements", "schedule"),
    [
        ("float32", SOFTMAX, ""),
        ("bfloat16", SOFTMAX, ""),
        ("bfloat16", LAYER_NORM, ""),
        ("bfloat16", LAYER_NORM, "family: rowwise, threads: 32, registers: 0"),
    ],
)
def test_every_access_is_the_predicted_one(made, dtype, statements, schedule):
    kernel = made(rows(11, 301, statements, dtype, schedule=schedule))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert trace.mismatches == []
    assert trace.unknown == 0


# Compilation


@pytest.mark.slow
def test_edges_compile_without_warnings(compiled):
    for dtype in ("float32", "bfloat16"):
        compiled(rows(300, 1001, dtype=dtype).replace("target: sm_90\n", ""))
    compiled(rows(300, 1001, LAYER_NORM, "bfloat16", schedule="registers: 0").replace("target: sm_90\n", ""))
