"""Slices of one or two warps are teams: each copies what it reads, and waits for no other."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import Barrier, For, TeamBarrier
from cugen.plan.walking import walk_nodes
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
# Slices of one warp, of two, and of four.
ONE = "block: {i: 32, j: 32}, thread: {i: 4, j: 8}, lanes: 8, step: {k: 32}, slices: 4, stages: 3"
TWO = "block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 16}, slices: 2, stages: 3"
FOUR = "block: {i: 64, j: 64}, thread: {i: 4, j: 8}, step: {k: 16}, slices: 2, stages: 2"
EIGHT_OF_ONE = "block: {i: 32, j: 32}, thread: {i: 8, j: 4}, step: {k: 64}, slices: 8, stages: 3"
# Two warps bring eight k of B at a time, and a slice has four of them.
MORE_THAN_ITS_OWN = "block: {i: 64, j: 96}, thread: {i: 8, j: 12}, step: {k: 16}, slices: 4, stages: 3"


def product(m=70, n=100, k=75, schedule=TWO, dtype="float32") -> str:
    return TEXT.format(m=m, n=n, k=k, schedule=schedule, dtype=dtype)


def walk_of(kernel) -> For:
    return next(node for node in walk_nodes(kernel.body) if isinstance(node, For) and node.loop.index.name == "k0")


@pytest.mark.parametrize(
    ("schedule", "threads", "call"),
    [
        (ONE, 32, "__syncwarp();"),
        (EIGHT_OF_ONE, 32, "__syncwarp();"),
        (TWO, 64, "__barrier_sync_count(slice + 1, 64);"),
    ],
)
def test_a_slice_meets_by_itself_before_the_walk_and_in_each_step(made, schedule, threads, call):
    kernel = made(product(schedule=schedule))
    (plan,) = kernel.plan.kernels
    meetings = [node for node in walk_nodes(plan.body) if isinstance(node, TeamBarrier)]
    assert [node.threads for node in meetings] == [threads, threads]
    assert not [node for node in walk_nodes(walk_of(plan).body) if isinstance(node, Barrier)]
    assert kernel.source.count(call) == 2


@pytest.mark.parametrize("schedule", [FOUR, "block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 8}"])
def test_all_threads_meet_where_slices_have_more_than_two_warps_or_there_are_none(planned, schedule):
    plan = planned(product(schedule=schedule))
    assert not [node for node in walk_nodes(plan.body) if isinstance(node, TeamBarrier)]


def test_warps_on_tensor_cores_copy_for_each_other(planned):
    text = product(schedule="block: {i: 32, j: 32}, thread: {i: 4, j: 8}, slices: 2, cores: tensor", dtype="float64")
    assert not [node for node in walk_nodes(planned(text).body) if isinstance(node, TeamBarrier)]


@pytest.mark.parametrize("schedule", [ONE, TWO, FOUR, EIGHT_OF_ONE, MORE_THAN_ITS_OWN])
def test_results_are_right_and_free_of_races(prove, schedule):
    prove(product(schedule=schedule), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [ONE, TWO, FOUR, EIGHT_OF_ONE, MORE_THAN_ITS_OWN])
@pytest.mark.parametrize("more", ["", ", copies: apart", ", reads: pointer", ", order: zigzag"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (64, 96, 192), (31, 97, 257)])
def test_they_are_at_every_edge_in_every_word(prove, schedule, more, m, n, k):
    if more == ", copies: apart" and k == 1:
        more = ""  # a single step has no copies among its products
    prove(product(m, n, k, schedule + more), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [ONE, TWO, EIGHT_OF_ONE])
@pytest.mark.parametrize("join", ["stream: 1", "split: 2, join: workspace", "split: 2, join: cluster"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_they_are_where_blocks_share_sums(prove, schedule, join, dtype):
    prove(product(65, 96, 256, f"{schedule}, {join}", dtype), races=True)


@pytest.mark.parametrize(
    ("schedule", "call"), [(EIGHT_OF_ONE, "__syncwarp();"), (TWO, "__barrier_sync_count(slice + 1, 64);")]
)
def test_slices_that_do_not_meet_are_a_race(made, schedule, call):
    kernel = made(product(schedule=schedule))
    source = kernel.source.replace(call, "")
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(races=True, workers=1))
    assert [fault.kind for fault in run.outcome.faults] == ["race"]


def test_what_another_slice_has_copied_is_not_free_to_read(made):
    kernel = made(product(schedule=TWO + ", reads: subscripts"))
    source = kernel.source.replace("&Bs[current][8 * slice", "&Bs[current][8 * (1 - slice)")
    assert source != kernel.source
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(races=True, workers=1))
    assert [fault.kind for fault in run.outcome.faults] == ["race"]


@pytest.mark.parametrize("schedule", [EIGHT_OF_ONE, pytest.param(TWO, marks=pytest.mark.slow)])
def test_it_compiles(compiled, schedule):
    compiled(product(schedule=schedule))
