"""Parallel scans: what is taken or refused and why, the launch configuration, and correct results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.machine import target
from cugen.pieces.serial_scan import recognise
from cugen.plan.context import make_context
from cugen.plan.nodes import Barrier
from cugen.plan.request import Request
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.rewrite.grouping import group_statements
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of
from cugen.spec.model import Schedule
from tests.drawn import examples

MATRIX = """
params: {M: %s, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s%s}
  y: {shape: [M, N], dtype: %s%s}
compute: y[i, j] = %s
schedule: {family: scan%s}
"""


def matrix(m, n, value="cumsum(x[i, j], j)", dtype="float32", out="", layout="", schedule=""):
    return MATRIX % (m, n, dtype, layout, out or dtype, layout, value, schedule)


def multi_pass(text: str) -> str:
    """The spec with several launches for a long row."""
    return text.replace("{family: scan", "{algorithm: multi_pass")


def automatic(text: str) -> str:
    """The spec without its family."""
    return text.replace("schedule: {family: scan}", "")


# Selection


def test_scans_along_rows_and_columns_are_matched_by_default(planned):
    assert planned(automatic(matrix(500, 300))).family == "scan"
    assert planned(automatic(matrix(500, 300, "cumsum(x[i, j], i)"))).family == "scan"


@pytest.mark.parametrize(
    ("n", "dtype", "block"),
    [
        (64, "float32", (16, 8, 1)),
        (64, "bfloat16", (8, 16, 1)),
        (256, "float32", (32, 4, 1)),
        (252, "float32", (32, 4, 1)),
        (255, "float32", (64, 1, 1)),
        (1024, "float32", (128, 1, 1)),
        (1023, "float32", (128, 1, 1)),
        (100_000, "float32", (512, 1, 1)),
    ],
)
def test_long_rows_have_more_threads(planned, n, dtype, block):
    assert planned(matrix(4096, n, dtype=dtype)).block == block


@pytest.mark.parametrize(
    ("rows", "n", "dtype", "block"),
    [
        (1023, 391, "bfloat16", (32, 4, 1)),
        (343_208, 391, "bfloat16", (32, 4, 1)),
        (343_208, 392, "bfloat16", (32, 4, 1)),
        (343_208, 1351, "uint8", (32, 4, 1)),
        (9233, 14_503, "bfloat16", (256, 1, 1)),
        (9233, 14_504, "bfloat16", (512, 1, 1)),
        (2400, 54_923, "bfloat16", (512, 1, 1)),
    ],
)
def test_narrow_rows_that_begin_anywhere_have_small_groups_of_several_waves(planned, rows, n, dtype, block):
    assert planned(matrix(rows, n, dtype=dtype)).block == block


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [241, 263, 513, pytest.param(775, marks=pytest.mark.slow)])
def test_a_warp_loops_over_narrow_rows_that_begin_anywhere(prove, n):
    prove(matrix(1025, n, dtype="bfloat16"), sanitize=True)


def test_a_thread_group_of_a_warp_needs_neither_shared_memory_nor_a_barrier(planned):
    kernel = planned(matrix(4096, 256))
    assert kernel.shared_bytes == 0
    assert not any(isinstance(node, Barrier) for node in walk_nodes(kernel.body))


def test_an_iteration_of_a_block_takes_one_barrier(planned):
    kernel = planned(matrix(4096, 100_000))
    assert sum(isinstance(node, Barrier) for node in walk_nodes(kernel.body)) == 1
    assert kernel.shared_bytes == 2 * 16 * 4


def test_a_block_of_many_iterations_prefetches_the_next_one(made):
    source = made(matrix(4096, 100_000)).source
    assert source.index("next_x4[u] = load<4>") < source.index("x4[u] = next_x4[u]") < source.index("__shfl")
    assert "next_" not in made(matrix(4096, 4096)).source


def test_threads_rows_and_vectors_are_what_the_schedule_says(planned, made):
    assert planned(matrix(300, 5000, schedule=", threads: 64")).block == (64, 1, 1)
    assert planned(matrix(300, 5000, schedule=", threads: 8, rows: 4")).block == (8, 4, 1)
    assert "Vector<float, 4> x4[8]" in made(matrix(300, 5000, schedule=", threads: 64, vectors: 8")).source


def test_few_columns_have_several_threads_each(planned):
    few = planned(matrix(5000, 20_000, "cumsum(x[i, j], i)"))
    assert few.block[1] > 1
    assert planned(matrix(50, 4_000_000, "cumsum(x[i, j], i)")).block[1] == 1
    requested = matrix(50, 4_000_000, "cumsum(x[i, j], i)", schedule=", threads: 16, threads_per_column: 4")
    assert planned(requested).block == (16, 4, 1)


@pytest.mark.parametrize("layout", ["", ", layout: column"])
def test_all_accesses_to_global_memory_are_vectorised(planned, layout):
    for along in "ij":
        kernel = planned(matrix(32_768, 32_768, f"cumsum(x[i, j], {along})", layout=layout))
        widths = {a.width for a in accesses(kernel.body) if a.array.space == "global"}
        assert widths == {4}


def test_rows_with_a_partial_vector_keep_vectors_where_rows_are_aligned(planned):
    kernel = planned(matrix(300, 1003, layout=", pitch: 1024"))
    assert {a.width for a in accesses(kernel.body) if a.array.space == "global"} == {1, 4}


def test_unaligned_rows_have_vectors_that_may_start_before_them(planned, made):
    for dtype, width in (("float32", 4), ("bfloat16", 8), ("uint8", 16)):
        kernel = planned(matrix(300, 1003, dtype=dtype))
        assert {a.width for a in accesses(kernel.body) if a.array.space == "global"} == {1, width}
    source = made(matrix(300, 1003)).source
    assert "const int misalignment = N * i % 4;" in source
    assert "if (first >= 0 && first + 3 < N) {" in source


def test_short_and_reverse_rows_and_those_of_different_alignment_are_scanned_by_single_elements(planned):
    for text in (
        matrix(300, 63),
        matrix(300, 1003, "cumsum(x[i, j], j, reverse=true)"),
        matrix(300, 1003).replace("y: {", "y: {pitch: 1005, "),
    ):
        assert {a.width for a in accesses(planned(text).body) if a.array.space == "global"} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("n", [64, 65, 66, 67, 71, 127, 257, 1021, 4099])
def test_unaligned_rows_are_right(prove, n):
    prove(matrix(9, n))
    prove(matrix(9, n, dtype="bfloat16"))
    prove(matrix(9, n, "cumprod(x[i, j], j)"))
    prove(matrix(9, n, "cummax(x[i, j] - 9, j)"))
    prove(matrix(9, n, "cumsum(x[i, j] + 1, j, exclusive=true)"))


@pytest.mark.slow
def test_no_access_of_unaligned_rows_is_out_of_bounds_or_races(prove):
    for n in (65, 1021):
        prove(matrix(9, n), sanitize=True)
        prove(matrix(9, n), races=True)


def test_whole_iterations_need_no_guards(made):
    assert "if (first" not in made(matrix(4096, 4096)).source
    assert "if (first < N)" in made(matrix(4096, 4100)).source


def test_several_scans_share_loads_shuffles_and_the_barrier(made):
    kernel = made(matrix(4000, 4096, "cumsum(x[i, j], j) / (j + 1) - cummin(x[i, j], j)"))
    source = kernel.source
    assert source.count("&x[") == 1
    assert source.count("__syncthreads") == 1
    assert source.count("distance *= 2") == 1


def test_statements_with_scans_along_one_index_share_a_kernel(planned):
    kernel = planned(
        "params: {M: 64, N: 512}\n"
        "arrays:\n"
        "  x: {shape: [M, N], dtype: float32}\n"
        "  y: {shape: [M, N], dtype: float32}\n"
        "  z: {shape: [M, N], dtype: float64}\n"
        "compute: |\n"
        "  y[i, j] = cumsum(x[i, j], j)\n"
        "  z[i, j] = y[i, j] * cummax(x[i, j], j)\n"
    )
    assert kernel.family == "scan"
    assert {a.array.name for a in accesses(kernel.body) if a.kind == "store" and a.array.name} == {"y", "z"}


def test_a_loop_variable_that_may_exceed_32_bits_has_64(made):
    assert "for (long long start = 0; start < (long long)N + 3; " in made(matrix(1000, "dynamic")).source
    assert "for (int start = 0; start < N + 3; " in made(matrix(1000, "{range: [0, 1000000]}")).source


def test_arrays_beyond_32_bits_have_64_bit_offsets(made):
    assert "y[(long long)i * N + first]" in made(matrix(65_536, 65_536)).source
    assert "(long long)" not in made(matrix(4096, 4096)).source


# Tiles


def test_a_long_row_is_split_into_tiles_that_reduce_the_preceding_ones(made):
    kernel = made(multi_pass(matrix(1, 1_000_003)))
    first, last = kernel.plan.kernels
    assert (first.family, last.family) == ("reduce", "scan")
    assert [array.name for array in kernel.plan.workspace] == ["y_sum"]
    assert "if (preceding < tile)" in kernel.source
    backward = made(multi_pass(matrix(1, 1_000_003, "cumsum(x[i, j], j, reverse=true)")))
    assert "if (preceding > tile)" in backward.source


@pytest.mark.parametrize("n", [100_000_000, "dynamic"])
def test_many_tile_aggregates_are_scanned_by_a_launch(made, n):
    kernel = made(multi_pass(matrix(1, n)))
    assert [launch.family for launch in kernel.plan.kernels] == ["reduce", "scan", "scan"]
    assert [array.name for array in kernel.plan.workspace] == ["y_sum", "y_sum_prefix"]


def test_many_rows_are_not(planned):
    assert planned(matrix(1000, 1_000_000)).family == "scan"


def test_tunables_of_a_scan_apply_to_its_last_pass_only(made):
    kernel = made(matrix(1, 1_000_003, schedule=", algorithm: multi_pass, threads: 256, vectors: 2"))
    assert [launch.family for launch in kernel.plan.kernels] == ["reduce", "scan"]
    assert kernel.plan.kernels[1].block == (256, 1, 1)


def test_few_columns_are_split_too_and_stay_contiguous(made):
    kernel = made(automatic(matrix(100_000, 16, "cumsum(x[i, j], i)")))
    assert len(kernel.plan.kernels) == 3
    assert kernel.plan.kernels[2].family == "scan"
    prefixes = kernel.context.arrays["y_sum_prefix"]
    assert [int(stride) if stride.is_Integer else str(stride) for stride in prefixes.strides] == ["N", 1]


def test_direct_takes_no_scans_that_restart_in_tiles(made):
    spec = made(multi_pass(matrix(1, 140_000, "cumsum(x[i, j], j)"))).context.spec
    last = group_statements(spec).groups[-1]
    assert recognise(Request("k", last, make_context(spec), Schedule(), target("sm_90"))) is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("m", "n", "value", "dtype"),
    [
        (1, 131_075, "cumsum(x[i, j], j)", "float32"),
        (1, 70_001, "cummax(x[i, j], j, exclusive=true) + cumsum(x[i, j] * j, j, where=j % 3 == 1)", "int64"),
        (5003, 12, "cumsum(x[i, j], i, reverse=true, exclusive=true)", "float32"),
    ],
)
def test_tiles_agree_with_the_reference(prove, m, n, value, dtype):
    prove(multi_pass(matrix(m, n, value, dtype)) if m == 1 else automatic(matrix(m, n, value, dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 8193])
def test_tiles_of_a_vector_of_any_length(prove, n):
    text = """
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = cumsum(x[i], i)
schedule: {algorithm: multi_pass}
"""
    prove(text, {"N": n})


# What is refused


@pytest.mark.parametrize(
    ("value", "schedule", "reason"),
    [
        ("x[i, j]", "", "has no scan"),
        ("cumsum(x[i, j], j) + cumsum(x[i, j], i)", "", "along one index in one direction"),
        ("cumsum(x[i, j], j) + cumsum(x[i, j], j, reverse=true)", "", "along one index in one direction"),
        ("where(i < 63, cumsum(x[i + 1, j], j), 0)", "", "in no loop, nor in a branch"),
        ("sum(cumsum(x[i, j], j) * x[i, k], k)", "", "in no loop, nor in a branch"),
        ("cumsum(x[i, j], j) + sum(x[i, k], k)", "", "has no reduction loops besides the scan"),
        ("cumsum(x[i, j], j)", ", block: {i: 4}", "no block, thread or step"),
        ("cumsum(x[i, j], j)", ", threads_per_column: 4", "runs along rows, not columns"),
        ("cumsum(x[i, j], i)", ", rows: 4", "runs along columns, not rows"),
        ("cumsum(x[i, j], j)", ", threads: 128, rows: 4", "take thread groups of at most a warp"),
        (
            "cumsum(x[i, j], i)",
            ", threads: 128, threads_per_column: 16",
            "a block of 128 x 16 threads; sm_90 allows 1024",
        ),
        ("cumsum(x[i, j], j)", ", threads: 48", "threads may be 1, 2, 4"),
    ],
)
def test_it_is_refused_with_a_reason(reasons, value, schedule, reason):
    actual = [refusal.reason for refusal in reasons("scan", matrix(64, 64, value, schedule=schedule))]
    assert any(reason in text for text in actual), actual


def test_a_transposing_scan_of_many_elements_is_refused(reasons):
    text = """
params: {M: 1024, N: 1024}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [N, M], dtype: float32}
compute: y[j, i] = cumsum(x[i, j], j)
"""
    assert any("x is not contiguous along" in refusal.reason for refusal in reasons("scan", text))


# Results


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", ["silu(cumsum(x[i, j], j))", "where(i > j, cumsum(x[i, j], j) * 2, x[i, j])"])
def test_a_scan_in_a_branch_is_executed_outside_of_it(prove, planned, value):
    assert planned(matrix(7, 300, value)).family == "scan"
    prove(matrix(7, 300, value))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("threads", "n"), [(1, 31), (4, 64), (32, 1), (32, 129), (256, 2050)])
def test_rows_by_thread_groups_of_every_size(prove, threads, n):
    value = "cumsum(x[i, j] * j, j, exclusive=true, reverse=true, where=x[i, j] > 0) + cummax(x[i, j], j, reverse=true)"
    prove(matrix(19, n, value, schedule=f", threads: {threads}"))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("threads", "threads_per_column", "n"), [(1, 1, 3), (8, 1, 40), (8, 4, 40), (4, 16, 3), (64, 4, 40)]
)
def test_columns_by_threads_of_every_number(prove, threads, threads_per_column, n):
    value = "cumsum(x[i, j], i) - cummin(x[i, j] * i, i, exclusive=true, where=j > 1)"
    prove(matrix(131, n, value, schedule=f", threads: {threads}, threads_per_column: {threads_per_column}"))


@pytest.mark.parametrize(
    ("dtype", "out", "value"),
    [
        ("float64", "float64", "cumsum(x[i, j], j)"),
        ("float16", "float16", "cumsum(x[i, j], j)"),
        ("bfloat16", "float32", "cumprod(1 + x[i, j] / 64, j)"),
        ("float8_e4m3", "float8_e4m3", "cummax(x[i, j], j)"),
        ("int8", "int32", "cumsum(x[i, j], j)"),
        ("int64", "int64", "cumprod(x[i, j], j, exclusive=true)"),
        ("uint8", "uint8", "cummin(x[i, j], j)"),
        ("uint64", "uint64", "cumsum(x[i, j], j, reverse=true)"),
        ("bool", "int32", "cumsum(x[i, j], j)"),
    ],
)
@pytest.mark.slow
def test_every_type(prove, dtype, out, value):
    prove(matrix(5, 200, value, dtype, out))


@pytest.mark.slow
@pytest.mark.parametrize("layout", [", pitch: {align: 128}", ", layout: column", ", pitch: 77"])
@pytest.mark.parametrize("along", ["i", "j"])
def test_layouts(prove, layout, along):
    prove(matrix(70, 75, f"cumsum(x[i, j], {along}, reverse=true)", layout=layout))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sizes", [(0, 8), (3, 0), (5, 1033)])
@pytest.mark.parametrize("along", ["i", "j"])
def test_sizes_given_at_run_time(prove, sizes, along):
    text = matrix("{range: [0, 5000]}", "{range: [0, 5000]}", f"cumsum(x[i, j], {along})")
    prove(text, dict(zip("MN", sizes, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("along", ["i", "j"])
def test_reads_at_other_subscripts_than_the_element(prove, along):
    """Shifted, mirrored and gathered, none of them for an element out of bounds."""
    text = f"""
params: {{M: 9, N: 75}}
arrays:
  x: {{shape: [M, N], dtype: float32, boundary: zero}}
  w: {{shape: [N], dtype: float32}}
  ids: {{shape: [N], dtype: int32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = cumsum(x[i, j] - x[i, j - 1] * w[N - 1 - j] + w[ids[j]], {along})
schedule: {{family: scan, threads: 8}}
"""
    prove(text)
    prove(text, sanitize=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("m", "n"), [(64, 128), (64, 127), (61, 127)])
@pytest.mark.parametrize("along", ["i", "j"])
def test_with_one_vector_per_thread_each_read_is_loaded_once(prove, m, n, along):
    text = f"""
params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [M, N], dtype: float32}}
  r: {{shape: [M], dtype: float32}}
  w: {{shape: [N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = cumsum(x[i, j] * r[i] * w[j], {along}) + cummax(exp(x[i, j]) * r[i] + w[(j + 1) % N], {along})
schedule: {{family: scan, threads: 4, vectors: 1{", threads_per_column: 16" if along == "i" else ""}}}
"""
    prove(text)


def test_a_scan_that_accumulates_into_its_output(prove):
    text = matrix(9, 100, "0").replace("y[i, j] = 0", "y[i, j] += cumsum(x[i, j], j) * 2")
    prove(text)


@pytest.mark.sampled(22)
@pytest.mark.parametrize("along", ["i", "j"])
@pytest.mark.parametrize("reverse", ["", ", reverse=true"])
@pytest.mark.parametrize(("m", "n"), [(37, 300), (5, 37), (33, 16), (2, 2050)])
def test_idle_lanes_read_no_constant_memory_behind_the_array(prove, made, m, n, along, reverse):
    text = matrix(m, n, f"cumsum(x[i, j], {along}{reverse})", layout=", memory: constant")
    text = text.replace(", memory: constant}", "}").replace("float32}", "float32, memory: constant}", 1)
    assert "x_constant" in made(text).source
    prove(text, sanitize=True)


def test_a_nan_spreads_to_all_extremes_after_it(made):
    kernel = made(matrix(1, 300, "cummax(x[i, j], j)", schedule=", threads: 64"))
    x = np.zeros((1, 300), np.float32)
    x[0, 150], x[0, 10] = np.nan, 5
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    y = outputs_of(job, CpuDevice().run(job))["y"][0]
    assert (y[:10] == 0).all()
    assert (y[10:150] == 5).all()
    assert np.isnan(y[150:]).all()


@st.composite
def drawn(draw):
    along = draw(st.sampled_from("ij"))
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int32", "int16", "uint8"]))
    kind = draw(st.sampled_from(["cumsum", "cumprod", "cummax", "cummin"]))
    options = draw(st.sampled_from(["", ", exclusive=true", ", where=x[i, j] > 0", ", where=i < j"]))
    options += draw(st.sampled_from(["", ", reverse=true"]))
    body = draw(st.sampled_from(["x[i, j]", "x[i, j] * x[i, j]", "x[i, j] + j"]))
    scan = f"{kind}({body}, {along}{options})"
    value = draw(
        st.sampled_from([f"{scan} * (i + 1)", f"where(x[i, j] > 0, {scan}, j)", f"maximum({scan}, 0) - {scan}"])
    )
    value = f"cast({value}, {dtype})"
    m, n = draw(st.integers(1, 140)), draw(st.sampled_from([1, 2, 7, 16, 33, 64, 127, 128, 260, 1030]))
    layout = draw(st.sampled_from(["", "", ", pitch: {align: 64}", ", layout: column"]))
    vectors = draw(st.sampled_from(["", ", vectors: 1", ", vectors: 2", ", vectors: 8"]))
    return matrix(m, n, value, dtype, layout=layout, schedule=vectors)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn())
def test_drawn_scans_agree_with_the_reference(prove, text):
    prove(text)


@pytest.mark.slow
@settings(max_examples=45, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn())
def test_many_drawn_scans_agree_with_the_reference(prove, text):
    prove(text)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(), st.booleans())
def test_drawn_scans_have_no_races_and_stay_in_bounds(prove, text, races):
    prove(text, races=races, sanitize=not races)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(matrix(3, 300, schedule=", threads: 64"), id="rows"),
        pytest.param(matrix(90, 37, "cumsum(x[i, j], i)"), id="columns"),
    ],
)
def test_no_races_and_no_access_out_of_bounds(prove, text):
    prove(text, races=True)
    prove(text, sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("along", ["i", "j"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_it_compiles_without_warnings(compiled, along, dtype):
    compiled(matrix("dynamic", "dynamic", f"cast(cumsum(x[i, j], {along}, exclusive=true), {dtype})", dtype))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(matrix(5, 300, schedule=", threads: 64"), id="rows"),
        pytest.param(
            matrix(5, 301, "cumsum(x[i, j], j, reverse=true)", layout=", pitch: 304", schedule=", threads: 32"),
            id="reverse, pitch",
        ),
        pytest.param(matrix(19, 301, dtype="bfloat16"), id="unaligned rows"),
        pytest.param(
            matrix(70, 37, "cummax(x[i, j], i)", schedule=", threads: 8, threads_per_column: 4"), id="columns"
        ),
        pytest.param(multi_pass(matrix(1, 70_000, "cumsum(x[i, j], j, exclusive=true)", "float64")), id="multi-pass"),
    ],
)
def test_traced_accesses_are_those_of_the_plan(made, text):
    kernel = made(text)
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0
