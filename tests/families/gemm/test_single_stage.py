"""A GEMM with a single stage: synchronous copies, two barriers in each k-tile, and what it combines with."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.kernel_report import analyze
from cugen.plan.nodes import AwaitCopies, Barrier, CommitCopies, Copy, For, NamedBarrier
from cugen.runtime.cpu import CpuDevice
from tests.families.gemm.test_gemm import SMALL, gemm, nodes, tiles

ONE_STAGE = SMALL + ", stages: 1"


def test_its_tiles_have_no_dimension_of_stages(planned):
    assert tiles(planned(gemm(schedule=ONE_STAGE))) == {"As": (8, 36), "Bs": (8, 64)}


def test_its_copies_are_synchronous_between_two_barriers_in_each_k_tile(planned):
    kernel = planned(gemm(schedule=ONE_STAGE))
    assert not any(copy.asynchronous for copy in nodes(kernel, Copy))
    assert not nodes(kernel, CommitCopies)
    assert not nodes(kernel, AwaitCopies)
    (main_loop,) = [node for node in nodes(kernel, For) if node.loop.index.name == "k0"]
    *copies, stored, multiply, read = main_loop.body
    assert stored == read == Barrier()
    assert len(nodes(kernel, Barrier)) == 2
    assert len(copies) == 2
    assert isinstance(multiply, For)


def test_its_fragments_have_one_buffer(made):
    source = made(gemm(schedule=ONE_STAGE)).source
    assert "Vector<float, 4> b_frag[TN / 4];" in source
    assert "double-buffered" not in source


def test_its_slices_have_barriers_of_their_own(planned):
    kernel = planned(gemm(schedule="family: gemm, block: {m: 16, n: 32}, thread: {m: 4, n: 4}, stages: 1, sliced_k: 2"))
    assert len(nodes(kernel, NamedBarrier)) == 2


SHARED = ", memory: shared"
SINGLE = ", memory: {space: shared, stages: 1}"
SIZES = "block: {m: 64, n: 64}, thread: {m: 4, n: 4}, step: {k: 16}"


@pytest.mark.parametrize("placed", [{"a": SINGLE}, {"a": SINGLE, "b": SHARED}])
def test_operands_placed_with_one_stage_have_one(planned, placed):
    kernel = planned(gemm(schedule="family: gemm", **placed))
    assert kernel.family == "gemm"
    assert ", 1 stage" in kernel.reasons[0]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["", "family: gemm"])
@pytest.mark.parametrize(
    "placed", [{"a": SHARED}, {"a": SHARED, "b": SHARED}, {"b": ", memory: {space: shared, pad: 4}"}]
)
def test_the_generator_chooses_the_stages_of_operands_that_are_only_placed(planned, placed, schedule):
    chosen, placed_kernel = (planned(gemm(1024, 1024, 1024, schedule=schedule, **more)) for more in ({}, placed))
    assert placed_kernel.family == "gemm"
    if "pad" not in str(placed):
        assert placed_kernel.reasons == chosen.reasons


def test_tile_sizes_of_the_schedule_leave_placed_operands_a_single_stage(planned):
    assert planned(gemm(1024, 1024, 1024, schedule=SIZES)).family == "gemm"
    kernel = planned(gemm(1024, 1024, 1024, a=SHARED, b=SHARED, schedule=SIZES))
    assert kernel.family == "tiled"


def test_small_gemms_of_placed_operands_are_left_to_tiled(planned):
    assert planned(gemm(64, 64, 64, a=SHARED, b=SHARED, schedule="")).family == "tiled"


def test_tiled_takes_a_single_stage_that_nobody_requests_of_gemm(planned, reasons):
    text = gemm(1024, 1024, 1024, a=SINGLE, schedule="")
    assert planned(text).family == "tiled"
    assert any("leaves a single stage to `tiled`" in refusal.reason for refusal in reasons("gemm", text))


def test_an_odd_k_tile_is_valid_as_nothing_is_double_buffered(prove):
    prove(gemm(33, 17, 65, schedule=ONE_STAGE.replace("step: {k: 8}", "step: {k: 5}")))


def test_interleaved_copies_are_refused(reasons):
    refusals = reasons("gemm", gemm(schedule=ONE_STAGE + ", prefetch: interleaved"))
    assert any("no copies are left to interleave" in refusal.reason for refusal in refusals)


def test_every_access_of_whole_tiles_is_ideal(made):
    wide = "family: gemm, block: {m: 64, n: 128}, thread: {m: 8, n: 8}, step: {k: 8}, stages: 1"
    (launch,) = analyze(made(gemm(128, 64, 128, schedule=wide))).kernels
    assert {access.verdict for access in launch.accesses} == {"ideal"}


# Results


@pytest.mark.slow
def test_edges_are_free_of_races(prove):
    prove(gemm(33, 17, 65, schedule=ONE_STAGE), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["sliced_k: 2", "split_k: 2, reduction: workspace", "split_k: 2, reduction: cluster"])
def test_partial_sums_are_free_of_races(prove, more):
    prove("target: sm_90\n" + gemm(33, 64, 65, transposed="ab", schedule=f"{ONE_STAGE}, {more}"), races=True)


def test_any_dynamic_size_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(gemm(sizes, sizes, sizes, schedule=ONE_STAGE)), CpuDevice())


@pytest.mark.slow
def test_tensor_cores_multiply_a_single_stage(prove):
    prove(gemm(65, 60, 71, dtype="float64", transposed="b", schedule="cores: tensor, stages: 1"))


def test_it_compiles(compiled):
    compiled(gemm(schedule=ONE_STAGE))


@pytest.mark.slow
def test_stream_k_is_free_of_races(prove):
    prove(gemm(33, 61, 65, schedule=ONE_STAGE + ", stream_k: 1"), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 100, 67), (31, 7, 127), (32, 8, 64), (33, 9, 65), (101, 129, 131)])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_odd_sizes_of_every_transpose_are_right(prove, sizes, transposed):
    m, k, n = sizes
    prove(gemm(m, k, n, transposed=transposed, schedule=ONE_STAGE), sanitize=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=15, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_kernels_are_right(prove, data):
    m, k, n = (data.draw(st.integers(1, 140), label=name) for name in "mkn")
    more = data.draw(st.sampled_from(["", ", sliced_k: 2", ", order: columns", ", lanes: 8", ", addressing: pointer"]))
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "float16"]))
    cores = ", cores: cuda" if dtype == "float64" else ""
    prove(gemm(m, k, n, dtype=dtype, transposed=transposed, schedule=ONE_STAGE + more + cores))
