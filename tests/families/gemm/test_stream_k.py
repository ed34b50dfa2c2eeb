"""Stream-K: schedules, and right results for every overlap of tiles and ranges."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.families.gemm.selection import search_space
from cugen.families.gemm.stream_k_schedule import schedule_stream_k
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.wgmma.conftest import product

TEXT = """
params: {M: %s, N: %s, K: %s}
arrays:
  A: {shape: [M, K], dtype: %s}
  B: {shape: [K, N], dtype: %s}
  bias: {shape: [N], dtype: float32}
  C: {shape: [M, N], dtype: %s}
compute: C[i, j] %s
schedule: {%s}
"""
SMALL = "family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2"
SLICED = "family: gemm, block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 32}, sliced_k: 2, stages: 3"
SUM = "sum(A[i, k] * B[k, j], k)"


def gemm(m, n, k, waves=1, *, dtype="float32", value=f"= {SUM}", schedule=SMALL):
    text = TEXT % (m, n, k, dtype, dtype, dtype, value, f"{schedule}, stream_k: {waves}")
    return text if "bias" in value else text.replace("  bias: {shape: [N], dtype: float32}\n", "")


@pytest.fixture
def resident(monkeypatch):
    """Makes the target a device with so many resident blocks."""

    def set_resident(count: int) -> None:
        def schedule(tiles, k_tiles, _, waves, threads):
            return schedule_stream_k(tiles, k_tiles, count, waves, threads)

        monkeypatch.setattr(search_space, "schedule_stream_k", schedule)

    return set_resident


@given(
    st.integers(1, 300), st.integers(1, 300), st.integers(1, 140), st.sampled_from([1, 2]), st.sampled_from([32, 256])
)
def test_ranges_cover_the_distributed_k_tiles_evenly(tiles, k_tiles, resident_blocks, waves, threads):
    schedule = schedule_stream_k(tiles, k_tiles, resident_blocks, waves, threads)
    per_block, distributed = schedule.k_tiles_per_block, schedule.distributed_k_tiles
    bounds = [min(per_block * block, distributed) for block in range(schedule.blocks + 1)]
    assert bounds[-1] == distributed
    assert schedule.blocks <= resident_blocks
    assert all(first < last for first, last in pairwise(bounds)) or schedule.whole_tiles_per_block
    assert per_block <= max(-(-distributed // resident_blocks), 4, -(-k_tiles // threads))
    assert schedule.max_peers <= threads
    counts = [-(-last // k_tiles) - first // k_tiles for first, last in pairwise(bounds) if first < last]
    assert max(counts) == schedule.units_per_range[1] <= schedule.max_units_per_range
    assert min(counts) == schedule.units_per_range[0] or 0 == schedule.units_per_range[0]


def test_it_is_one_launch_of_as_many_blocks_as_are_resident(made):
    schedule = "family: gemm, block: {i: 128, j: 256}, thread: {i: 16, j: 8}, step: {k: 8}, stages: 4, lanes: 8"
    kernel = made(gemm(4096, 4096, 4096, schedule=schedule))
    (launch,) = kernel.plan.kernels
    assert kernel.manifest.launches[0].grid == (132, 1, 1)
    assert [(space.name, space.left_zero, space.elements) for space in kernel.manifest.workspace] == [
        ("C_flags", True, 133),
        ("C_partials", False, 132 * 128 * 256),
    ]
    assert "stream-K: 132 blocks compute 3 whole tiles each, then divide the k-tiles of 116 tiles" in launch.reasons[0]
    assert kernel.source.count("for (int k0") == 1


def test_launch_bounds_have_the_number_of_resident_blocks(planned):
    schedule = "family: gemm, block: {i: 64, j: 256}, thread: {i: 8, j: 8}, step: {k: 8}, stages: 4"
    kernel = planned(gemm(128, 7168, 2048, schedule=schedule))
    assert kernel.minimum_blocks == 2
    assert int(kernel.grid[0]) == 261  # of 264
    assert planned(gemm(128, 7168, 2048, schedule=f"{schedule}, blocks_per_sm: 1")).minimum_blocks == 1


@pytest.mark.slow
def test_stream_k_is_chosen_where_it_is_predicted_clearly_faster(planned):
    def is_stream_k(m, n, k):
        return "stream-K" in planned(gemm(m, n, k).replace("schedule", "# schedule")).reasons[0]

    assert is_stream_k(1152, 7680, 8192)
    assert not is_stream_k(1024, 1024, 1024)


def test_whole_tiles_for_every_block_need_no_stream_k(planned):
    assert not planned(gemm(64, 64, 64)).workspace


def test_a_block_of_one_work_unit_has_no_loop_over_them(made, resident):
    resident(4)
    source = made(gemm(64, 32, 256)).source
    assert "stream-K: 4 blocks divide the k-tiles of 2 tiles: 16 k-tiles of a tile, 8 of a block" in source
    assert "work_unit" not in source


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (gemm(64, 64, 256).replace("K: 256", "K: dynamic"), "needs static sizes"),
        (
            "target: sm_61\n" + gemm(64, 64, 256),
            "sm_61 has no independent thread scheduling, which spin-waits need; sm_70 and newer have",
        ),
        (gemm(64, 64, 256, schedule=f"{SMALL}, split_k: 2"), "exclude each other"),
    ],
    ids=["dynamic", "old", "split"],
)
def test_an_invalid_stream_k_is_refused(reasons, text, why):
    assert [why in refusal.reason for refusal in reasons("gemm", text)] == [True]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("m", "n", "k", "waves", "count", "more"),
    [
        pytest.param(65, 97, 88, 1, 5, {"value": f"= maximum({SUM} + bias[j], 0)"}, id="bias and maximum"),
        pytest.param(130, 100, 100, 2, 3, {"value": f"+= {SUM}"}, id="accumulated"),
        pytest.param(32, 32, 600, 1, 200, {}, marks=pytest.mark.slow, id="long K"),
        pytest.param(64, 96, 250, 1, 200, {}, marks=pytest.mark.slow, id="long K, 2 x 1 tiles"),
        pytest.param(320, 100, 40, 1, 7, {}, marks=pytest.mark.slow, id="10 x 4 tiles"),
        pytest.param(130, 130, 200, 2, 7, {"schedule": SLICED}, marks=pytest.mark.slow, id="two waves, sliced-K"),
        pytest.param(100, 90, 70, 1, 5, {"schedule": f"{SMALL}, raster: 2"}, marks=pytest.mark.slow, id="raster of 2"),
        pytest.param(65, 97, 88, 1, 5, {"dtype": "float64"}, marks=pytest.mark.slow, id="float64"),
        pytest.param(65, 97, 88, 1, 5, {"dtype": "int32"}, marks=pytest.mark.slow, id="int32"),
        pytest.param(65, 97, 88, 1, 5, {"dtype": "float16"}, marks=pytest.mark.slow, id="float16"),
    ],
)
def test_results_agree_with_the_reference(prove, resident, m, n, k, waves, count, more):
    resident(count)
    prove(gemm(m, n, k, waves, **more))


@pytest.mark.slow
def test_tiles_of_all_batches_are_distributed(prove, resident):
    resident(5)
    prove(
        """
params: {P: 3, M: 40, N: 33, K: 64}
arrays:
  A: {shape: [P, M, K], dtype: float32}
  B: {shape: [P, K, N], dtype: float32}
  C: {shape: [P, M, N], dtype: float32}
compute: C[p, i, j] = sum(A[p, i, k] * B[p, k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2, stream_k: 2}
"""
    )


@pytest.mark.parametrize("options", [{"sanitize": True}, {"races": True}], ids=str)
@pytest.mark.parametrize("schedule", [SMALL, SLICED], ids=["whole", "sliced"])
@pytest.mark.slow
def test_no_races_and_nothing_outside_memory(prove, resident, options, schedule):
    resident(5)
    prove(gemm(65, 97, 250, 2, schedule=schedule.replace("stages: 2", "stages: 4")), **options)


@pytest.mark.slow
def test_reruns_in_any_order_of_blocks_give_the_same_bits(made, resident):
    resident(7)
    kernel = made(gemm(100, 90, 200))
    generator = np.random.default_rng(6)
    draw = partial(generator.standard_normal, dtype=np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"A": draw((100, 200)), "B": draw((200, 90))}, {}), {})
    devices = [CpuDevice(workers=4, shuffle=seed) for seed in range(20)]
    first, *reruns = (outputs_of(job, device.run(job))["C"].tobytes() for device in (CpuDevice(workers=1), *devices))
    assert all(repeated == first for repeated in reruns)


@pytest.mark.slow
def test_traced_accesses_match_the_plan(made, resident):
    resident(4)
    kernel = made(gemm(65, 70, 90))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


@pytest.mark.slow
def test_it_compiles_without_warnings(compiled, resident):
    resident(5)
    compiled(gemm(65, 97, 88))


LARGE = "family: gemm, cores: tensor, block: {m: 128, n: 128}, thread: {m: 8, n: 16}, step: {k: 32}, stages: 2"
THROUGH_WORKSPACE = ("stream_k: 1", "split_k: 3, reduction: workspace, stores: shared")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("split", THROUGH_WORKSPACE)
@pytest.mark.parametrize("sizes", [(150, 140, 576), (128, 201, 480)], ids=str)
def test_partial_sums_of_a_large_thread_tile_are_added_in_parts(made, prove, resident, sizes, split):
    """A thread loads no more than eight vectors at once."""
    resident(7)
    text = product(*sizes, layout="nn", target="sm_80", schedule=f"{LARGE}, {split}")
    assert "for (int part = 0; part < 4; ++part)" in made(text).source
    prove(text, races=True)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["stream_k: 2", *THROUGH_WORKSPACE])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_partial_sums_of_a_large_thread_tile_need_no_spills(made, split: str, target: str) -> None:
    """Of 3008 x 7320 x 1608 ptxas 13.0 spilled 800 bytes, and it took 1.7 times as long as without stream-K (H200)."""
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    block = LARGE.replace("n: 128", "n: 256")
    text = product(3008, 7320, 1632, layout="nn", target=target, schedule=f"{block}, {split}")
    cubin = compile_cubin(made(text).source, "k", target)
    assert cubin.kernels["k"].spill_stores == cubin.kernels["k"].spill_loads == 0
