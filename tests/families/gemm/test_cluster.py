"""Products whose sums the blocks of a cluster share: when they do, what the kernel says, and right results."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cugen.families.gemm.config import Shape
from cugen.families.gemm.cost_model import predict
from cugen.families.gemm.problem import Problem, shared_bytes
from cugen.families.registry import families
from cugen.kernel_report import analyze
from cugen.machine import target
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.verify import verify
from cugen.toolchain.cuda import compile_cubin

families()

TEXT = """
params: {M: %s, N: %s, K: %s}
target: %s
arrays:
  A: {shape: [M, K], dtype: %s}
  B: {shape: [K, N], dtype: %s}
  bias: {shape: [N], dtype: float32}
  C: {shape: [M, N], dtype: %s}
compute: C[i, j] %s %s
schedule: {%s}
"""
SMALL = "family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 8}, stages: 2"
SLICED = "family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 3"
BIASED = "maximum(sum(A[i, k] * B[k, j], k) + bias[j], 0)"


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def product(
    m, n, k, split=4, *, dtype="float32", value="sum(A[i, k] * B[k, j], k)", schedule=SMALL, arch="sm_90", becomes="="
):
    asked = f"{schedule}, split: {split}" if split else schedule
    text = TEXT % (m, n, k, arch, dtype, dtype, dtype, becomes, value, asked)
    return text if "bias" in value else text.replace("  bias: {shape: [N], dtype: float32}\n", "")


# When blocks of a cluster share a sum


def test_few_tiles_with_long_sums_are_shared_in_clusters_unasked(planned):
    kernel = planned(product(64, 576, 7168, split=0, schedule="family: gemm"))
    assert kernel.cluster > 1
    assert not kernel.workspace
    assert f"clusters of {kernel.cluster} blocks share the sums of a tile" in kernel.reasons[0]


@pytest.mark.parametrize(
    ("split", "arch", "more", "cluster"),
    [
        (2, "sm_90", "", 2),
        (6, "sm_90", "", 1),  # device's parts hold clusters of six unevenly
        (6, "sm_90", ", join: cluster", 6),
        (4, "sm_90", ", join: workspace", 1),
        (16, "sm_90", "", 1),
        (4, "sm_80", "", 1),
    ],
)
def test_where_the_parts_of_a_sum_meet(planned, split, arch, more, cluster):
    kernel = planned(product(64, 96, 768, split, schedule=SMALL + more, arch=arch))
    assert kernel.cluster == cluster
    assert bool(kernel.workspace) == (cluster == 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (product(64, 64, 256, schedule=f"{SMALL}, join: cluster", arch="sm_80"), "sm_80 has none"),
        (product(64, 64, 256, 16, schedule=f"{SMALL}, join: cluster"), "2, 3, 4, 6 or 8 blocks"),
        (product(64, 64, 56, schedule=f"{SMALL}, join: cluster"), "the sum has 7 steps of 8"),
        (product(64, 64, "dynamic", schedule=f"{SMALL}, join: cluster"), "is to be fixed"),
        (product(64, 64, 60, 4, schedule=f"{SMALL}, join: workspace"), "no whole steps"),
        (product(64, 64, 256, 0, schedule=f"{SMALL}, join: cluster, stream: 1"), "meets in the workspace"),
    ],
    ids=["target", "sixteen", "short", "dynamic", "workspace", "stream"],
)
def test_what_cannot_be_shared_is_refused(reasons, text, why):
    assert any(why in refusal.reason for refusal in reasons("gemm", text))


@pytest.mark.parametrize("join", ["cluster", "workspace"])
@pytest.mark.parametrize("split", [0, 1])
def test_where_nothing_is_joined_nobody_says_where(reasons, join, split):
    (refusal,) = reasons("gemm", product(64, 64, 256, split, schedule=f"{SMALL}, join: {join}"))
    assert "no blocks share a sum" in refusal.reason
    assert refusal.key == "schedule.join"


@pytest.mark.parametrize(("join", "clustered"), [("cluster", True), ("workspace", False)])
def test_who_says_where_parts_meet_gets_parts(planned, join, clustered):
    kernel = planned(product(1024, 1024, 1024, split=0, schedule=f"family: gemm, join: {join}"))
    assert (kernel.cluster > 1, bool(kernel.workspace)) == (clustered, not clustered)


def test_a_sum_that_has_no_equal_parts_is_shared_all_the_same(planned):
    assert planned(product(64, 64, 8 * 11 + 5)).cluster == 4


def test_the_model_knows_how_many_clusters_run_at_once_and_what_sums_take_of_shared_memory():
    problem, sm_90 = Problem(64, 15 * 32, 8192), target("sm_90")
    shape = Shape(64, 32, 4, 4, 16, split=8, join="cluster")
    found, other = predict(problem, shape, sm_90), predict(problem, replace(shape, join="workspace"), sm_90)
    assert found is not None
    assert other is not None
    assert found.seconds < other.seconds
    assert found.waves == pytest.approx(other.waves * 132 / 120)
    wide = Shape(128, 256, 16, 8, 8, stages=2)
    assert shared_bytes(problem, replace(wide, split=2, join="cluster")) == 128 * 260 * 4
    assert shared_bytes(problem, wide) < 128 * 260 * 4


# What the kernel says


def test_blocks_leave_their_sums_once_and_wait_for_each_other_twice(made):
    kernel = made(product(64, 96, 256))
    (launch,) = kernel.manifest.launches
    assert (launch.grid, launch.cluster) == ((12, 2, 1), 4)
    assert not kernel.manifest.workspace
    assert kernel.source.count("cluster.sync();") == 2
    assert len(re.findall(r"= .*cluster.map_shared_rank\(parts,\s+p\)", kernel.source)) == 1
    assert "float (*parts)[36]" in kernel.source


def test_only_the_shared_memory_of_other_blocks_is_unknown_to_the_analysis(made):
    (found,) = analyze(made(product(64, 96, 250, 3))).kernels
    unknown = [a for a in found.accesses if a.verdict == "unknown"]
    assert {a.access.array.name for a in unknown} == {"parts"}
    assert all("map_shared_rank" in a.text for a in unknown)


@pytest.mark.parametrize("slices", [1, slow(4)])
def test_it_compiles(made, slices):
    schedule = "family: gemm, block: {i: 64, j: 32}, thread: {i: 8, j: 4}, step: {k: 32}, stages: 3"
    source = made(product(64, 576, 7168, 8, schedule=f"{schedule}, slices: {slices}")).source
    cubin = compile_cubin(source, "k", "sm_90")
    assert not cubin.warnings
    assert cubin.kernels["k"].spill_stores == cubin.kernels["k"].spill_loads == 0


# Right results


@pytest.mark.parametrize(
    ("m", "n", "k", "split", "dtype", "value"),
    [
        (33, 65, 93, 3, "float32", BIASED),
        slow(64, 64, 96, 2, "float64", "sum(A[i, k] * B[k, j], k)"),
        slow(20, 70, 130, 6, "int32", "sum(A[i, k] * B[k, j], k)"),
        slow(20, 70, 130, 8, "float16", "2 * sum(A[i, k] * B[k, j], k)"),
        slow(40, 64, 128, 8, "bfloat16", "sum(A[i, k] * B[k, j], k)"),
        slow(100, 31, 64, 4, "float32", "sum(A[i, k] * B[k, j], k)"),
    ],
)
def test_results_agree_with_the_reference(prove, m, n, k, split, dtype, value):
    prove(product(m, n, k, split, dtype=dtype, value=value))


@pytest.mark.slow
@pytest.mark.parametrize("split", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("k", [128, 200, 201, 255])
def test_parts_of_any_length(prove, k, split):
    prove(product(33, 40, k, split))


@pytest.mark.parametrize("slices", [slow(1), 2, slow(4)])
def test_slices_of_a_block_are_added_before_the_parts(prove, slices):
    prove(product(40, 33, 16 * 7 + 3, 3, schedule=f"{SLICED}, slices: {slices}"))


@pytest.mark.slow
def test_what_was_there_is_added(prove):
    prove(product(40, 64, 77, becomes="+="))


@pytest.mark.slow
def test_tensor_cores_share_sums_too(prove):
    schedule = "family: gemm, cores: tensor, block: {i: 32, j: 32}, thread: {i: 4, j: 8}, step: {k: 16}, stages: 2"
    for more in ("", ", slices: 2"):
        prove(product(40, 65, 100, 3, dtype="float64", schedule=schedule + more))


@pytest.mark.slow
def test_batches_and_dynamic_sizes_share_too(prove):
    text = """
params: {P: 3, M: dynamic, N: "{range: [1, 300]}", K: 75}
arrays:
  A: {shape: [P, M, K], dtype: float32}
  B: {shape: [P, K, N], dtype: float32}
  C: {shape: [P, M, N], dtype: float32}
compute: C[p, i, j] = sum(A[p, i, k] * B[p, k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 8}, stages: 2, split: 4}
""".replace('"', "")
    for m, n in ((40, 33), (1, 300), (0, 5)):
        prove(text, {"M": m, "N": n})


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"sanitize": True}, {"races": True}, {"races": True, "shuffle": 2}], ids=str)
def test_clean_under_sanitizers_and_the_watch_for_races(made, check, settings):
    for schedule in (f"{SMALL}, stages: 4", f"{SLICED}, slices: 2"):
        check(made(product(33, 65, 131, 3, schedule=schedule.replace("stages: 2, ", ""))), CpuDevice(**settings))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 1])
def test_a_barrier_that_is_missing_shows(made, missing):
    kernel = made(product(64, 64, 256))
    parts = re.split(r"cluster.sync\(\);", kernel.source)
    assert len(parts) == 3
    source = "cluster.sync();".join(parts[: missing + 1]) + "cluster.sync();".join(parts[missing + 1 :])
    for seed in range(3):
        assert not verify(kernel.spec, source, kernel.manifest, CpuDevice(shuffle=seed)).verification.passed


def test_the_same_bits_in_every_order_of_blocks(made):
    kernel = made(product(64, 64, 250, 8))
    results = set()
    for seed in range(4):
        run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(shuffle=seed))
        results.add(run.outcome.buffers["C"].tobytes())
    assert len(results) == 1


@pytest.mark.slow
def test_what_runs_touches_what_the_plan_says(made):
    on_two_lines = product(33, 70, 160, 2, dtype="float64", schedule=f"{SLICED}, slices: 4")
    for text in (product(33, 40, 75, 2), product(33, 40, 131, 3, schedule=f"{SLICED}, slices: 2"), on_two_lines):
        kernel = made(text)
        found = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
        assert found.compared > 0
        assert not found.mismatches
