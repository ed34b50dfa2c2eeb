"""Split-K through the workspace: right results of every form, in every order of the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.analysis.bounds.proof import bounds_of
from cugen.kernel_report import analyze
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of

TEXT = """
params: {M: %s, N: %s, K: %s}
arrays:
  A: {shape: [M, K], dtype: %s}
  B: {shape: [K, N], dtype: %s}
  bias: {shape: [N], dtype: float32}
  C: {shape: [M, N], dtype: %s}
compute: C[i, j] = %s
schedule: {%s}
"""
SMALL = "family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2"


def gemm(m, n, k, split=4, *, dtype="float32", value="sum(A[i, k] * B[k, j], k)", schedule=SMALL):
    text = TEXT % (m, n, k, dtype, dtype, dtype, value, f"{schedule}, split_k: {split}, reduction: workspace")
    return text if "bias" in value else text.replace("  bias: {shape: [N], dtype: float32}\n", "")


def test_it_is_one_launch_with_zeroed_arrival_counters(made):
    kernel = made(gemm(64, 96, 256))
    (launch,) = kernel.plan.kernels
    assert [(space.name, space.zeroed, space.left_zero) for space in kernel.manifest.workspace] == [
        ("C_arrivals", True, True),
        ("C_partials", False, False),
    ]
    assert kernel.manifest.launches[0].grid == (24, 1, 1)
    assert "split-K of 4, reduced through the workspace" in launch.reasons[0]


def test_a_long_k_of_few_tiles_is_split_by_default(planned):
    text = gemm(64, 4096, 4096).replace("schedule", "# schedule")
    assert any("split-K of" in reason for reason in planned(text).reasons)


def test_no_split_k_without_forward_progress(planned):
    text = "target: sm_61\n" + gemm(64, 4096, 4096).replace("schedule", "# schedule")
    assert not planned(text).workspace


def test_nothing_is_unknown_to_the_analysis_since_no_block_waits(made):
    (launch,) = analyze(made(gemm(64, 96, 256))).kernels
    assert not [a.access.array.name for a in launch.accesses if a.verdict == "unknown"]
    added = [a.totals for a in launch.accesses if a.access.array.name == "C_partials" and a.access.kind == "load"]
    assert sum(totals.lanes for totals in added if totals is not None) == 64 * 96 * 4


@pytest.mark.parametrize(
    ("m", "n", "k", "split", "dtype", "value"),
    [
        (33, 65, 128, 4, "float32", "maximum(sum(A[i, k] * B[k, j], k) + bias[j], 0)"),
        pytest.param(64, 64, 96, 3, "float64", "sum(A[i, k] * B[k, j], k)", marks=pytest.mark.slow),
        pytest.param(20, 70, 64, 2, "int32", "sum(A[i, k] * B[k, j], k)", marks=pytest.mark.slow),
        pytest.param(20, 70, 64, 2, "float16", "sum(A[i, k] * B[k, j], k)", marks=pytest.mark.slow),
    ],
)
def test_results_agree_with_the_reference(prove, m, n, k, split, dtype, value):
    prove(gemm(m, n, k, split, dtype=dtype, value=value))


@pytest.mark.slow
def test_sliced_k_within_split_k(prove):
    schedule = "family: gemm, block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 32}, sliced_k: 2, stages: 2"
    prove(gemm(70, 100, 128, 2, schedule=schedule))


@pytest.mark.slow
def test_split_k_of_batches(prove):
    prove(
        """
params: {P: 3, M: 40, N: 33, K: 64}
arrays:
  A: {shape: [P, M, K], dtype: float32}
  B: {shape: [P, K, N], dtype: float32}
  C: {shape: [P, M, N], dtype: float32}
compute: C[p, i, j] = sum(A[p, i, k] * B[p, k, j], k)
schedule:
  {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2, split_k: 2,
   reduction: workspace}
"""
    )


@pytest.mark.parametrize("options", [{"sanitize": True}, {"races": True}], ids=str)
@pytest.mark.slow
def test_no_races_and_nothing_outside_memory(prove, options):
    prove(gemm(33, 65, 128), **options)


@pytest.mark.slow
def test_reruns_in_any_order_of_blocks_give_the_same_bits(made):
    kernel = made(gemm(64, 64, 256, 8, schedule=SMALL))
    generator = np.random.default_rng(6)
    inputs = {
        "A": generator.standard_normal((64, 256)).astype(np.float32),
        "B": generator.standard_normal((256, 64)).astype(np.float32),
    }
    job = make_job(kernel.source, kernel.manifest, Inputs(inputs, {}), {})
    devices = [CpuDevice(workers=4, shuffle=seed) for seed in range(5)]
    first, *reruns = (outputs_of(job, device.run(job))["C"].tobytes() for device in (CpuDevice(workers=1), *devices))
    assert all(repeated == first for repeated in reruns)


@pytest.mark.slow
def test_traced_accesses_match_the_plan(made):
    kernel = made(gemm(33, 40, 64, 2))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


@pytest.mark.parametrize("split", ["split_k: 2, reduction: workspace", "stream_k: 1"])
def test_tiles_that_leave_no_room_for_the_broadcast_are_refused(reasons, split):
    schedule = f"family: gemm, block: {{i: 128, j: 128}}, thread: {{i: 8, j: 8}}, step: {{k: 32}}, stages: 2, {split}"
    text = f"""
target: sm_75
params: {{M: 256, N: 256, K: 512}}
arrays:
  A: {{shape: [K, M], dtype: float32}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[i, j] = sum(A[k, i] * B[k, j], k)
schedule: {{{schedule}}}
"""
    assert reasons("gemm", text.replace(f", {split}", "")) == ()
    (reason,) = reasons("gemm", text)
    assert "take 65540 shared bytes; sm_75 has 65536" in reason.reason


def test_a_split_product_of_parts_adds_the_partial_sums_of_its_tile_alone(made, prove):
    # The loop over the parts of an element and the loop over parts of the tile share a name, not a length.
    text = """
target: sm_80
params: {M: 33, N: 64, K: 128}
arrays:
  A: {shape: [K, M], dtype: float16}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[k, m] * B[k, n], k)
schedule:
  {family: gemm, cores: tensor, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 32}, stages: 2, split_k: 4,
   reduction: workspace}
"""
    bounds_of(made(text).plan)
    prove(text)
