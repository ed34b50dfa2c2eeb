"""Scans in one pass, whose blocks wait for those before them: when they are made, right results, in every order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.kernel_report import analyze
from cugen.plan.walking import walk_nodes
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of

TEXT = """
params: {M: %s, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: y[i, j] = %s
schedule: {%s}
"""
SMALL = "how: look_back, threads: 64, vectors: 1"


def matrix(m, n, value="cumsum(x[i, j], j)", dtype="float32", schedule=SMALL, out=""):
    return TEXT % (m, n, dtype, out or dtype, value, schedule)


# Which kernel


@pytest.mark.parametrize("n", [10_000_019, "dynamic"])
def test_a_long_row_is_one_launch_with_flags_that_begin_as_zeros(made, n):
    kernel = made(matrix(1, n, schedule=""))
    (launch,) = kernel.plan.kernels
    assert launch.family == "scan"
    assert [(space.name, space.zeroed) for space in kernel.manifest.workspace] == [("y_flags", True), ("y_sums", False)]
    assert not any(space.left_zero for space in kernel.manifest.workspace)  # several blocks await each flag
    assert "cudaMemsetAsync(y_flags, 0, " in kernel.source
    assert "one pass along j: 256 threads" in launch.reasons[0]


def test_what_blocks_hand_to_each_other_is_not_promised_to_be_nobody_elses(made):
    source = made(matrix(1, 1_000_003, schedule="how: look_back")).source
    assert "    float* y_sums)" in source
    assert "__ldg" not in source


def test_a_device_whose_threads_can_not_wait_for_each_other_takes_passes(made):
    text = "target: sm_61\n" + matrix(1, 1_000_003, schedule="")
    assert len(made(text).plan.kernels) == 2


def test_fewer_elements_take_two_launches_without_flags(made):
    assert len(made(matrix(1, 1 << 20, schedule="")).plan.kernels) == 2
    assert len(made(matrix(4, 1 << 22, schedule="")).plan.kernels) == 1


def test_passes_can_be_asked_for(made):
    assert len(made(matrix(1, 1_000_003, schedule="how: passes")).plan.kernels) == 2


@pytest.mark.parametrize(
    ("value", "schedule", "reason"),
    [
        ("cumsum(x[i, j], i)", "how: look_back", "runs along columns: blocks look back along rows"),
        ("cumsum(x[i, j], j)", "how: look_back, threads: 32", "have several warps"),
        ("cumsum(x[i, j], j)", "how: look_back, rows: 2", "have one row"),
    ],
)
def test_what_can_not_look_back_has_a_reason(reasons, value, schedule, reason):
    found = [refusal.reason for refusal in reasons("scan", matrix(64, 64, value, schedule=schedule))]
    assert any(reason in text for text in found), found


def test_only_what_depends_on_other_blocks_is_unknown_to_the_analysis(made):
    (found,) = analyze(made(matrix(1, 1_000_000, schedule="how: look_back"))).kernels
    unknown = [access for access in found.accesses if access.verdict == "unknown"]
    assert [access.access.array.name for access in unknown] == ["y_flags"]
    assert "when another block answers" in unknown[0].reason
    assert found.facts.traffic is not None
    assert found.facts.traffic.exact
    elements = [access for access in found.accesses if access.access.array.name in "xy"]
    assert all(access.verdict == "ideal" for access in elements)


# Results


@pytest.mark.parametrize(
    ("m", "n", "value", "dtype"),
    [
        pytest.param(1, 1, "cumsum(x[i, j], j)", "float32", marks=pytest.mark.slow),
        (1, 17_001, "cumsum(x[i, j] + j, j, reverse=true)", "float32"),
        pytest.param(
            2,
            16_900,
            "cummax(x[i, j], j, exclusive=true) + cumsum(x[i, j] * j, j, where=j % 3 == 1)",
            "int64",
            marks=pytest.mark.slow,
        ),
        pytest.param(3, 257, "cumprod(1 + x[i, j] / 64, j, reverse=true)", "float64", marks=pytest.mark.slow),
    ],
)
def test_rows_of_several_groups_agree_with_the_reference(prove, m, n, value, dtype):
    prove(matrix(m, n, value, dtype))


@pytest.mark.parametrize("sizes", [(0, 8), (3, 0), (2, 1033)])
def test_sizes_given_at_run_time(prove, sizes):
    prove(matrix("{range: [0, 5000]}", "{range: [0, 5000]}"), dict(zip("MN", sizes, strict=True)))


def test_reruns_in_any_order_of_blocks_give_the_same_bits(made):
    kernel = made(matrix(2, 40_000))
    generator = np.random.default_rng(5)
    x = (generator.standard_normal((2, 40_000)) * 10.0 ** generator.integers(-6, 6, (2, 40_000))).astype(np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    devices = [CpuDevice(workers=4, shuffle=seed) for seed in range(19)]
    first, *others = (outputs_of(job, device.run(job))["y"].tobytes() for device in (CpuDevice(workers=1), *devices))
    assert all(other == first for other in others)


@pytest.mark.slow
def test_a_nan_spreads_to_all_after_it_and_to_none_before(made):
    kernel = made(matrix(1, 20_000, "cummin(x[i, j], j)"))
    x = np.zeros((1, 20_000), np.float32)
    x[0, 17_000] = np.nan
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    y = outputs_of(job, CpuDevice().run(job))["y"][0]
    assert (y[:17_000] == 0).all()
    assert np.isnan(y[17_000:]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "out", "value"),
    [
        ("float16", "float16", "cumsum(x[i, j], j)"),
        ("bfloat16", "float32", "cumprod(1 + x[i, j] / 64, j)"),
        ("float8_e4m3", "float8_e4m3", "cummax(x[i, j], j)"),
        ("int8", "int32", "cumsum(x[i, j], j)"),
        ("int16", "int16", "cummin(x[i, j], j, reverse=true)"),
        ("uint16", "uint16", "cummax(x[i, j], j, exclusive=true)"),
        ("uint32", "uint32", "cumsum(x[i, j], j, exclusive=true)"),
        ("uint64", "uint64", "cumprod(x[i, j], j, reverse=true)"),
    ],
)
def test_every_type(prove, dtype, out, value):
    prove(matrix(3, 1030, value, dtype, out=out))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["passes", "look_back"])
@pytest.mark.parametrize("n", [131_072, 300_001])
def test_both_ways_agree_with_the_reference(prove, how, n):
    prove(matrix(1, n, "cumsum(x[i, j], j, exclusive=true)", schedule=f"how: {how}"))


@st.composite
def drawn(draw):
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int32", "int16", "uint8"]))
    kind = draw(st.sampled_from(["cumsum", "cumprod", "cummax", "cummin"]))
    options = draw(st.sampled_from(["", ", exclusive=true", ", where=x[i, j] > 0", ", where=i < j"]))
    options += draw(st.sampled_from(["", ", reverse=true"]))
    body = draw(st.sampled_from(["x[i, j]", "x[i, j] * x[i, j]", "x[i, j] + j"]))
    m, n = draw(st.integers(1, 4)), draw(st.sampled_from([1, 63, 64, 65, 256, 257, 1030, 2048, 4097, 17_000]))
    threads, vectors = draw(st.sampled_from([64, 128, 256])), draw(st.sampled_from([1, 2]))
    schedule = f"how: look_back, threads: {threads}, vectors: {vectors}"
    return matrix(m, n, f"cast({kind}({body}, j{options}) * (i + 1), {dtype})", dtype, schedule)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn())
def test_many_drawn_rows_agree_with_the_reference(prove, text):
    prove(text)


@pytest.mark.slow
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(), st.booleans())
def test_drawn_rows_neither_race_nor_leave_their_memory(prove, text, races):
    prove(text, races=races, sanitize=not races)


@pytest.mark.slow
def test_compilers_take_it_without_a_word(compiled):
    compiled(matrix("{range: [0, 900]}", "dynamic", "cumsum(x[i, j], j, exclusive=true)", schedule="how: look_back"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(matrix(2, 1_001, schedule="how: look_back, threads: 64"), marks=pytest.mark.slow),
        pytest.param(matrix(1, 20_001), marks=pytest.mark.slow),
        pytest.param(matrix(3, 700, "cummax(x[i, j], j, reverse=true)", "float64"), marks=pytest.mark.slow),
    ],
)
def test_what_runs_touches_what_the_plan_says(made, text):
    kernel = made(text)
    found = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert found.compared > 0
    assert not found.mismatches
    assert found.unknown == 0


def test_its_nodes_are_where_a_block_waits(planned):
    nodes = [type(node).__name__ for node in walk_nodes(planned(matrix(1, 100_000)).body)]
    order = [name for name in nodes if name in ("TakeTicket", "Ticket", "Publish", "Await")]
    assert order == ["TakeTicket", "Ticket", "Publish", "Await", "Publish"]


def test_rows_beyond_32_bits_have_offsets_of_64(made):
    source = made(matrix(1, 3 << 31, schedule="")).source
    assert "const long long first = 8192LL * segment" in source
    assert "const int ticket = ticket_of_block;" in source
