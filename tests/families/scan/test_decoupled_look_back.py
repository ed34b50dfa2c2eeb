"""Single-pass scans with decoupled look-back: when they are chosen, and correct results in every order of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.kernel_report import analyze
from cugen.plan.traversal.walking import walk_nodes
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
SMALL = "algorithm: look_back, threads: 64, vectors: 1"


def matrix(m, n, value="cumsum(x[i, j], j)", dtype="float32", schedule=SMALL, out=""):
    return TEXT % (m, n, dtype, out or dtype, value, schedule)


# Selection


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("n", [2_000_003, 2_000_004])
def test_wide_elements_whose_registers_do_not_suffice_have_fewer_vectors(made, dtype, n):
    (launch,) = made(matrix(6, n, dtype=dtype, schedule="")).plan.kernels
    assert launch.family == "scan"
    assert "with decoupled look-back" in launch.reasons[0]


@pytest.mark.parametrize("n", [10_000_019, "dynamic"])
def test_a_long_row_is_one_launch_with_zeroed_flags(made, n):
    kernel = made(matrix(1, n, schedule=""))
    (launch,) = kernel.plan.kernels
    assert launch.family == "scan"
    assert [(space.name, space.zeroed) for space in kernel.manifest.workspace] == [("y_flags", True), ("y_sums", False)]
    assert not any(space.left_zero for space in kernel.manifest.workspace)  # several blocks wait for each flag
    assert "cudaMemsetAsync(y_flags, 0, " in kernel.source
    assert "single pass along j with decoupled look-back: 256 threads" in launch.reasons[0]


def test_arrays_shared_by_blocks_are_not_restrict(made):
    source = made(matrix(1, 1_000_003, schedule="algorithm: look_back")).source
    assert "    float* y_sums)" in source
    assert "__ldg" not in source


def test_a_device_without_independent_thread_scheduling_takes_several_launches(made):
    text = "target: sm_61\n" + matrix(1, 1_000_003, schedule="")
    assert len(made(text).plan.kernels) == 2


def test_fewer_elements_take_two_launches_without_flags(made):
    assert len(made(matrix(1, 1 << 20, schedule="")).plan.kernels) == 2
    assert len(made(matrix(4, 1 << 22, schedule="")).plan.kernels) == 1


def test_multiple_passes_can_be_requested(made):
    assert len(made(matrix(1, 1_000_003, schedule="algorithm: multi_pass")).plan.kernels) == 2


@pytest.mark.parametrize(
    ("value", "schedule", "reason"),
    [
        ("cumsum(x[i, j], i)", "algorithm: look_back", "runs along columns; look-back takes rows"),
        ("cumsum(x[i, j], j)", "algorithm: look_back, threads: 32", "takes blocks of several warps"),
        ("cumsum(x[i, j], j)", "algorithm: look_back, rows: 2", "takes one row per block"),
    ],
)
def test_look_back_is_refused_with_a_reason(reasons, value, schedule, reason):
    actual = [refusal.reason for refusal in reasons("scan", matrix(64, 64, value, schedule=schedule))]
    assert any(reason in text for text in actual), actual


def test_only_what_depends_on_other_blocks_is_unknown_to_the_analysis(made):
    (report,) = analyze(made(matrix(1, 1_000_000, schedule="algorithm: look_back"))).kernels
    unknown = [access for access in report.accesses if access.verdict == "unknown"]
    assert [access.access.array.name for access in unknown] == ["y_flags"]
    assert "polls of a spin-wait" in unknown[0].reason
    assert report.facts.traffic is not None
    assert report.facts.traffic.exact
    elements = [access for access in report.accesses if access.access.array.name in "xy"]
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
def test_rows_of_several_tile_groups_agree_with_the_reference(prove, m, n, value, dtype):
    prove(matrix(m, n, value, dtype))


@pytest.mark.parametrize("sizes", [(0, 8), (3, 0), (2, 1033)])
def test_sizes_given_at_run_time(prove, sizes):
    prove(matrix("{range: [0, 5000]}", "{range: [0, 5000]}"), dict(zip("MN", sizes, strict=True)))


@pytest.mark.slow
def test_reruns_in_any_order_of_blocks_give_the_same_bits(made):
    kernel = made(matrix(2, 40_000))
    generator = np.random.default_rng(5)
    x = (generator.standard_normal((2, 40_000)) * 10.0 ** generator.integers(-6, 6, (2, 40_000))).astype(np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    devices = [CpuDevice(workers=4, shuffle=seed) for seed in range(19)]
    first, *reruns = (outputs_of(job, device.run(job))["y"].tobytes() for device in (CpuDevice(workers=1), *devices))
    assert all(rerun == first for rerun in reruns)


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
@pytest.mark.parametrize("algorithm", ["multi_pass", "look_back"])
@pytest.mark.parametrize("n", [131_072, 300_001])
def test_both_algorithms_agree_with_the_reference(prove, algorithm, n):
    prove(matrix(1, n, "cumsum(x[i, j], j, exclusive=true)", schedule=f"algorithm: {algorithm}"))


@st.composite
def drawn(draw):
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int32", "int16", "uint8"]))
    kind = draw(st.sampled_from(["cumsum", "cumprod", "cummax", "cummin"]))
    options = draw(st.sampled_from(["", ", exclusive=true", ", where=x[i, j] > 0", ", where=i < j"]))
    options += draw(st.sampled_from(["", ", reverse=true"]))
    body = draw(st.sampled_from(["x[i, j]", "x[i, j] * x[i, j]", "x[i, j] + j"]))
    m, n = draw(st.integers(1, 4)), draw(st.sampled_from([1, 63, 64, 65, 256, 257, 1030, 2048, 4097, 17_000]))
    threads, vectors = draw(st.sampled_from([64, 128, 256])), draw(st.sampled_from([1, 2]))
    schedule = f"algorithm: look_back, threads: {threads}, vectors: {vectors}"
    return matrix(m, n, f"cast({kind}({body}, j{options}) * (i + 1), {dtype})", dtype, schedule)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn())
def test_many_drawn_rows_agree_with_the_reference(prove, text):
    prove(text)


@pytest.mark.slow
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn(), st.booleans())
def test_drawn_rows_have_no_races_and_stay_in_bounds(prove, text, races):
    prove(text, races=races, sanitize=not races)


@pytest.mark.slow
def test_it_compiles_without_warnings(compiled):
    compiled(
        matrix("{range: [0, 900]}", "dynamic", "cumsum(x[i, j], j, exclusive=true)", schedule="algorithm: look_back")
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            matrix(2, 1_001, schedule="algorithm: look_back, threads: 64"), marks=pytest.mark.slow, id="64 threads"
        ),
        pytest.param(matrix(1, 20_001), marks=pytest.mark.slow, id="long row"),
        pytest.param(
            matrix(3, 700, "cummax(x[i, j], j, reverse=true)", "float64"), marks=pytest.mark.slow, id="reverse maximum"
        ),
    ],
)
def test_traced_accesses_are_those_of_the_plan(made, text):
    kernel = made(text)
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


def test_flags_are_released_before_and_after_the_spin_wait(planned):
    nodes = [type(node).__name__ for node in walk_nodes(planned(matrix(1, 100_000)).body)]
    order = [name for name in nodes if name in ("FetchBlockId", "LoadBlockId", "ReleaseFlag", "AcquireSpinWait")]
    assert order == ["FetchBlockId", "LoadBlockId", "ReleaseFlag", "AcquireSpinWait", "ReleaseFlag"]


def test_rows_beyond_32_bits_have_offsets_of_64(made):
    source = made(matrix(1, 3 << 31, schedule="")).source
    assert "const long long first = 8192LL * tile" in source
    assert "const int block_id = shared_block_id;" in source
