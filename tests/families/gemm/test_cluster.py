"""Split-K reduced in clusters: when it is chosen, the kernel's text, and right results."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cugen.families.gemm.config import Reduction, TileConfig
from cugen.families.gemm.problem import Problem, shared_bytes
from cugen.families.gemm.selection.cost_model import predict
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


def gemm(
    m, n, k, split=4, *, dtype="float32", value="sum(A[i, k] * B[k, j], k)", schedule=SMALL, arch="sm_90", becomes="="
):
    requested = f"{schedule}, split_k: {split}" if split else schedule
    text = TEXT % (m, n, k, arch, dtype, dtype, dtype, becomes, value, requested)
    return text if "bias" in value else text.replace("  bias: {shape: [N], dtype: float32}\n", "")


# When split-K is reduced in a cluster


def test_a_long_k_of_few_tiles_is_split_in_clusters_by_default(planned):
    kernel = planned(gemm(64, 576, 7168, split=0, schedule="family: gemm"))
    assert kernel.cluster > 1
    assert not kernel.workspace
    assert f"split-K of {kernel.cluster}, reduced in clusters" in kernel.reasons[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("split", "arch", "more", "cluster"),
    [
        (2, "sm_90", "", 2),
        (6, "sm_90", "", 1),  # clusters of 6 are distributed unevenly over GPCs
        (6, "sm_90", ", reduction: cluster", 6),
        (4, "sm_90", ", reduction: workspace", 1),
        (16, "sm_90", "", 1),
        (4, "sm_80", "", 1),
    ],
)
def test_where_partial_sums_are_reduced(planned, split, arch, more, cluster):
    kernel = planned(gemm(64, 96, 768, split, schedule=SMALL + more, arch=arch))
    assert kernel.cluster == cluster
    assert bool(kernel.workspace) == (cluster == 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            gemm(64, 64, 256, schedule=f"{SMALL}, reduction: cluster", arch="sm_80"),
            "sm_80 has no thread block clusters; sm_90 and newer have",
        ),
        (gemm(64, 64, 256, 16, schedule=f"{SMALL}, reduction: cluster"), "2, 3, 4, 6 or 8 blocks"),
        (gemm(64, 64, 56, schedule=f"{SMALL}, reduction: cluster"), "K has 7 k-tiles of 8"),
        (gemm(64, 64, "dynamic", schedule=f"{SMALL}, reduction: cluster"), "needs a static K"),
        (gemm(64, 64, 60, 4, schedule=f"{SMALL}, reduction: workspace"), "a K that 4 x 8 divides"),
        (gemm(64, 64, 256, 0, schedule=f"{SMALL}, reduction: cluster, stream_k: 1"), "reduces through the workspace"),
    ],
    ids=["target", "sixteen", "short", "dynamic", "workspace", "stream"],
)
def test_an_invalid_split_is_refused(reasons, text, why):
    assert any(why in refusal.reason for refusal in reasons("gemm", text))


@pytest.mark.parametrize("reduction", ["cluster", "workspace"])
@pytest.mark.parametrize("split", [0, 1])
def test_a_reduction_without_partial_sums_is_refused(reasons, reduction, split):
    (refusal,) = reasons("gemm", gemm(64, 64, 256, split, schedule=f"{SMALL}, reduction: {reduction}"))
    assert "no partial sums are reduced" in refusal.reason
    assert refusal.key == "schedule.reduction"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("reduction", "clustered"), [("cluster", True), ("workspace", False)])
def test_a_requested_reduction_implies_split_k(planned, reduction, clustered):
    kernel = planned(gemm(1024, 1024, 1024, split=0, schedule=f"family: gemm, reduction: {reduction}"))
    assert (kernel.cluster > 1, bool(kernel.workspace)) == (clustered, not clustered)


def test_a_k_without_equal_ranges_is_split_too(planned):
    assert planned(gemm(64, 64, 8 * 11 + 5)).cluster == 4


def test_the_model_knows_how_many_clusters_are_resident_and_the_shared_memory_of_partial_sums():
    problem, sm_90 = Problem(64, 15 * 32, 8192), target("sm_90")
    config = TileConfig(64, 32, 4, 4, 16, split_k=8, reduction=Reduction.CLUSTER)
    cluster = predict(problem, config, sm_90)
    workspace = predict(problem, replace(config, reduction=Reduction.WORKSPACE), sm_90)
    assert cluster is not None
    assert workspace is not None
    assert cluster.seconds < workspace.seconds
    assert cluster.waves == pytest.approx(workspace.waves * 132 / 120)
    wide = TileConfig(128, 256, 16, 8, 8, stages=2)
    assert shared_bytes(problem, replace(wide, split_k=2, reduction=Reduction.CLUSTER)) == 128 * 260 * 4
    assert shared_bytes(problem, wide) < 128 * 260 * 4


# Text of the kernel


def test_blocks_store_partial_sums_once_and_synchronise_twice(made):
    kernel = made(gemm(64, 96, 256))
    (launch,) = kernel.manifest.launches
    assert (launch.grid, launch.cluster) == ((12, 2, 1), 4)
    assert not kernel.manifest.workspace
    assert kernel.source.count("cluster.sync();") == 2
    assert len(re.findall(r"=\s.*cluster.map_shared_rank\(partials,\s+p\)", kernel.source)) == 1
    assert "float (*partials)[BN + 4]" in kernel.source


def test_only_distributed_shared_memory_is_unknown_to_the_analysis(made):
    (launch,) = analyze(made(gemm(64, 96, 250, 3))).kernels
    unknown = [a for a in launch.accesses if a.verdict == "unknown"]
    assert {a.access.array.name for a in unknown} == {"partials"}
    assert all("map_shared_rank" in a.text for a in unknown)


@pytest.mark.slow
@pytest.mark.parametrize("sliced_k", [1, slow(4)])
def test_it_compiles(made, sliced_k):
    schedule = "family: gemm, block: {i: 64, j: 32}, thread: {i: 8, j: 4}, step: {k: 32}, stages: 3"
    source = made(gemm(64, 576, 7168, 8, schedule=f"{schedule}, sliced_k: {sliced_k}")).source
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
    prove(gemm(m, n, k, split, dtype=dtype, value=value))


@pytest.mark.slow
@pytest.mark.parametrize("split", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("k", [128, 200, 201, 255])
def test_ranges_of_k_of_any_length(prove, k, split):
    prove(gemm(33, 40, k, split))


@pytest.mark.slow
@pytest.mark.parametrize("sliced_k", [slow(1), 2, slow(4)])
def test_slices_of_a_block_are_reduced_before_those_of_the_cluster(prove, sliced_k):
    prove(gemm(40, 33, 16 * 7 + 3, 3, schedule=f"{SLICED}, sliced_k: {sliced_k}"))


@pytest.mark.slow
def test_it_accumulates_into_the_output(prove):
    prove(gemm(40, 64, 77, becomes="+="))


@pytest.mark.slow
def test_split_k_on_tensor_cores(prove):
    schedule = "family: gemm, cores: tensor, block: {i: 32, j: 32}, thread: {i: 4, j: 8}, step: {k: 16}, stages: 2"
    for more in ("", ", sliced_k: 2"):
        prove(gemm(40, 65, 100, 3, dtype="float64", schedule=schedule + more))


@pytest.mark.slow
def test_split_k_of_batches_and_dynamic_sizes(prove):
    text = """
params: {P: 3, M: dynamic, N: "{range: [1, 300]}", K: 75}
arrays:
  A: {shape: [P, M, K], dtype: float32}
  B: {shape: [P, K, N], dtype: float32}
  C: {shape: [P, M, N], dtype: float32}
compute: C[p, i, j] = sum(A[p, i, k] * B[p, k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 8}, stages: 2, split_k: 4}
""".replace('"', "")
    for m, n in ((40, 33), (1, 300), (0, 5)):
        prove(text, {"M": m, "N": n})


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"sanitize": True}, {"races": True}, {"races": True, "shuffle": 2}], ids=str)
def test_clean_under_sanitizers_and_race_detection(made, check, settings):
    for schedule in (f"{SMALL}, stages: 4", f"{SLICED}, sliced_k: 2"):
        check(made(gemm(33, 65, 131, 3, schedule=schedule.replace("stages: 2, ", ""))), CpuDevice(**settings))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_barrier_gives_wrong_results(made, missing):
    kernel = made(gemm(64, 64, 256))
    parts = re.split(r"cluster.sync\(\);", kernel.source)
    assert len(parts) == 3
    source = "cluster.sync();".join(parts[: missing + 1]) + "cluster.sync();".join(parts[missing + 1 :])
    for seed in range(3):
        assert not verify(kernel.spec, source, kernel.manifest, CpuDevice(shuffle=seed)).verification.passed


@pytest.mark.slow
def test_the_same_bits_in_every_order_of_blocks(made):
    kernel = made(gemm(64, 64, 250, 8))
    results = set()
    for seed in range(4):
        run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(shuffle=seed))
        results.add(run.outcome.buffers["C"].tobytes())
    assert len(results) == 1


@pytest.mark.slow
def test_traced_accesses_match_the_plan(made):
    on_two_lines = gemm(33, 70, 160, 2, dtype="float64", schedule=f"{SLICED}, sliced_k: 4")
    for text in (gemm(33, 40, 75, 2), gemm(33, 40, 131, 3, schedule=f"{SLICED}, sliced_k: 2"), on_two_lines):
        kernel = made(text)
        trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
        assert trace.compared > 0
        assert not trace.mismatches
