"""Sliced-K groups of one or two warps: each has a copy pipeline and a named barrier of its own."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import Barrier, For, NamedBarrier
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify

TEXT = """
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: [K, N], dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {{family: gemm, {schedule}}}
"""
# Sliced-K groups of one warp, of two, and of four.
ONE_WARP = "block: {i: 32, j: 32}, thread: {i: 4, j: 8}, lanes: 8, step: {k: 32}, sliced_k: 4, stages: 3"
TWO_WARPS = "block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 16}, sliced_k: 2, stages: 3"
FOUR_WARPS = "block: {i: 64, j: 64}, thread: {i: 4, j: 8}, step: {k: 16}, sliced_k: 2, stages: 2"
EIGHT_GROUPS_OF_ONE_WARP = "block: {i: 32, j: 32}, thread: {i: 8, j: 4}, step: {k: 64}, sliced_k: 8, stages: 3"
# One copy of two warps covers 8 k of B, and a slice is 4.
PARTIAL_COPY = "block: {i: 64, j: 96}, thread: {i: 8, j: 12}, step: {k: 16}, sliced_k: 4, stages: 3"
NAMES = {
    ONE_WARP: "one warp",
    TWO_WARPS: "two warps",
    FOUR_WARPS: "four warps",
    EIGHT_GROUPS_OF_ONE_WARP: "eight groups of one warp",
    PARTIAL_COPY: "partial copy",
}


def gemm(m=70, n=100, k=75, schedule=TWO_WARPS, dtype="float32") -> str:
    return TEXT.format(m=m, n=n, k=k, schedule=schedule, dtype=dtype)


def main_loop_of(kernel) -> For:
    return next(node for node in walk_nodes(kernel.body) if isinstance(node, For) and node.loop.index.name == "k0")


@pytest.mark.parametrize(
    ("schedule", "threads", "call"),
    [
        (ONE_WARP, 32, "__syncwarp();"),
        (EIGHT_GROUPS_OF_ONE_WARP, 32, "__syncwarp();"),
        (TWO_WARPS, 64, "__barrier_sync_count(k_slice + 1, 64);"),
    ],
    ids=NAMES.get,
)
def test_a_group_has_a_barrier_before_the_main_loop_and_in_each_k_tile(made, schedule, threads, call):
    kernel = made(gemm(schedule=schedule))
    (plan,) = kernel.plan.kernels
    barriers = [node for node in walk_nodes(plan.body) if isinstance(node, NamedBarrier)]
    assert [node.threads for node in barriers] == [threads, threads]
    assert not [node for node in walk_nodes(main_loop_of(plan).body) if isinstance(node, Barrier)]
    assert kernel.source.count(call) == 2


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(FOUR_WARPS, id="four warps"),
        pytest.param("block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 8}", id="no slices"),
    ],
)
def test_larger_groups_and_blocks_without_slices_share_a_block_barrier(planned, schedule):
    plan = planned(gemm(schedule=schedule))
    assert not [node for node in walk_nodes(plan.body) if isinstance(node, NamedBarrier)]


def test_groups_on_tensor_cores_share_a_block_barrier(planned):
    text = gemm(schedule="block: {i: 32, j: 32}, thread: {i: 4, j: 8}, sliced_k: 2, cores: tensor", dtype="float64")
    assert not [node for node in walk_nodes(planned(text).body) if isinstance(node, NamedBarrier)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("schedule", NAMES, ids=NAMES.get)
def test_results_are_right_and_free_of_races(prove, schedule):
    prove(gemm(schedule=schedule), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", NAMES, ids=NAMES.get)
@pytest.mark.parametrize("more", ["", ", prefetch: interleaved", ", addressing: pointer", ", order: zigzag"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 96, 192), (31, 97, 257)])
def test_results_are_right_at_every_edge_with_every_tunable(prove, schedule, more, m, n, k):
    if more == ", prefetch: interleaved" and k == 1:
        more = ""  # a single k-tile leaves no copies to interleave
    prove(gemm(m, n, k, schedule + more), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [ONE_WARP, TWO_WARPS, EIGHT_GROUPS_OF_ONE_WARP], ids=NAMES.get)
@pytest.mark.parametrize("split", ["stream_k: 1", "split_k: 2, reduction: workspace", "split_k: 2, reduction: cluster"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_results_are_right_with_split_k_and_stream_k(prove, schedule, split, dtype):
    prove(gemm(65, 96, 256, f"{schedule}, {split}", dtype), races=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("schedule", "call"),
    [(EIGHT_GROUPS_OF_ONE_WARP, "__syncwarp();"), (TWO_WARPS, "__barrier_sync_count(k_slice + 1, 64);")],
    ids=NAMES.get,
)
def test_a_missing_named_barrier_is_a_race(made, schedule, call):
    kernel = made(gemm(schedule=schedule))
    source = kernel.source.replace(call, "")
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(races=True, workers=1))
    assert [fault.kind for fault in run.outcome.faults] == ["race"]


@pytest.mark.slow
def test_loads_from_the_tile_of_another_slice_are_a_race(made):
    kernel = made(gemm(schedule=TWO_WARPS + ", addressing: indexed"))
    source = kernel.source.replace("&Bs[read_stage][BK / 2 * k_slice", "&Bs[read_stage][BK / 2 * (1 - k_slice)")
    assert source != kernel.source
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(races=True, workers=1))
    assert [fault.kind for fault in run.outcome.faults] == ["race"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule", [EIGHT_GROUPS_OF_ONE_WARP, pytest.param(TWO_WARPS, marks=pytest.mark.slow)], ids=NAMES.get
)
def test_it_compiles(compiled, schedule):
    compiled(gemm(schedule=schedule))
