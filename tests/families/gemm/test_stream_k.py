"""Products whose last tiles blocks share out by ranges of steps: right results, however tiles and ranges meet."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.families.gemm import heuristic as gemm_choice
from cugen.families.gemm.stream_k_schedule import share_out
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
compute: C[i, j] %s
schedule: {%s}
"""
SMALL = "family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2"
SLICED = "family: gemm, block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 32}, slices: 2, stages: 3"
SUM = "sum(A[i, k] * B[k, j], k)"


def product(m, n, k, waves=1, *, dtype="float32", value=f"= {SUM}", schedule=SMALL):
    text = TEXT % (m, n, k, dtype, dtype, dtype, value, f"{schedule}, stream: {waves}")
    return text if "bias" in value else text.replace("  bias: {shape: [N], dtype: float32}\n", "")


@pytest.fixture
def slots(monkeypatch):
    """Makes the target a device of so many blocks at once."""

    def few(count: int) -> None:
        def shared(tiles, steps, _, waves, threads):
            return share_out(tiles, steps, count, waves, threads)

        monkeypatch.setattr(gemm_choice, "share_out", shared)

    return few


@given(
    st.integers(1, 300), st.integers(1, 300), st.integers(1, 140), st.sampled_from([1, 2]), st.sampled_from([32, 256])
)
def test_ranges_are_the_shared_steps_and_none_is_long(tiles, steps, slots, waves, threads):
    shares = share_out(tiles, steps, slots, waves, threads)
    ends = [min(shares.share * block, shares.shared_steps) for block in range(shares.blocks + 1)]
    assert ends[-1] == shares.shared_steps
    assert shares.blocks <= slots
    assert all(first < last for first, last in pairwise(ends)) or shares.rounds
    assert shares.share <= max(-(-shares.shared_steps // slots), 4, -(-steps // threads))
    assert shares.earlier <= threads
    counts = [-(-last // steps) - first // steps for first, last in pairwise(ends) if first < last]
    assert max(counts) == shares.segments[1] <= shares.most
    assert min(counts) == shares.segments[0] or 0 == shares.segments[0]


def test_one_launch_of_as_many_blocks_as_run_at_once_does_it_all(made):
    schedule = "family: gemm, block: {i: 128, j: 256}, thread: {i: 16, j: 8}, step: {k: 8}, stages: 4, lanes: 8"
    kernel = made(product(4096, 4096, 4096, schedule=schedule))
    (launch,) = kernel.plan.kernels
    assert kernel.manifest.launches[0].grid == (132, 1, 1)
    assert [(space.name, space.left_zero, space.elements) for space in kernel.manifest.workspace] == [
        ("C_flags", True, 133),
        ("C_parts", False, 132 * 128 * 256),
    ]
    assert "132 blocks compute 3 whole tiles each and share out the steps of 116 tiles" in launch.reasons[0]
    assert kernel.source.count("for (int k0") == 1


def test_the_compiler_is_told_how_many_blocks_run_side_by_side(planned):
    schedule = "family: gemm, block: {i: 64, j: 256}, thread: {i: 8, j: 8}, step: {k: 8}, stages: 4"
    kernel = planned(product(128, 7168, 2048, schedule=schedule))
    assert kernel.minimum_blocks == 2
    assert int(kernel.grid[0]) == 261  # of 264
    assert planned(product(128, 7168, 2048, schedule=f"{schedule}, blocks: 1")).minimum_blocks == 1


def test_waves_are_shared_out_unasked_where_that_is_clearly_faster(planned):
    def stands(m, n, k):
        return "share out the steps" in planned(product(m, n, k).replace("schedule", "# schedule")).reasons[0]

    assert stands(1152, 7680, 8192)
    assert not stands(1024, 1024, 1024)


def test_where_each_block_gets_whole_tiles_nothing_is_shared(planned):
    assert not planned(product(64, 64, 64)).workspace


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (product(64, 64, 256).replace("K: 256", "K: dynamic"), "sizes are to be fixed"),
        ("target: sm_61\n" + product(64, 64, 256), "can't wait for each other"),
        (product(64, 64, 256, schedule=f"{SMALL}, split: 2"), "not both"),
    ],
    ids=["dynamic", "old", "split"],
)
def test_why_ends_can_not_be_shared(reasons, text, why):
    assert [why in refusal.reason for refusal in reasons("gemm", text)] == [True]


@pytest.mark.parametrize(
    ("m", "n", "k", "waves", "count", "more"),
    [
        (65, 97, 88, 1, 5, {"value": f"= maximum({SUM} + bias[j], 0)"}),
        (130, 100, 100, 2, 3, {"value": f"+= {SUM}"}),
        pytest.param(32, 32, 600, 1, 200, {}, marks=pytest.mark.slow),
        pytest.param(64, 96, 250, 1, 200, {}, marks=pytest.mark.slow),
        pytest.param(320, 100, 40, 1, 7, {}, marks=pytest.mark.slow),
        pytest.param(130, 130, 200, 2, 7, {"schedule": SLICED}, marks=pytest.mark.slow),
        pytest.param(100, 90, 70, 1, 5, {"schedule": f"{SMALL}, raster: 2"}, marks=pytest.mark.slow),
        pytest.param(65, 97, 88, 1, 5, {"dtype": "float64"}, marks=pytest.mark.slow),
        pytest.param(65, 97, 88, 1, 5, {"dtype": "int32"}, marks=pytest.mark.slow),
        pytest.param(65, 97, 88, 1, 5, {"dtype": "float16"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_results_agree_with_the_reference(prove, slots, m, n, k, waves, count, more):
    slots(count)
    prove(product(m, n, k, waves, **more))


@pytest.mark.slow
def test_tiles_of_all_products_of_a_batch_stand_in_a_row(prove, slots):
    slots(5)
    prove(
        """
params: {P: 3, M: 40, N: 33, K: 64}
arrays:
  A: {shape: [P, M, K], dtype: float32}
  B: {shape: [P, K, N], dtype: float32}
  C: {shape: [P, M, N], dtype: float32}
compute: C[p, i, j] = sum(A[p, i, k] * B[p, k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2, stream: 2}
"""
    )


@pytest.mark.parametrize("options", [{"sanitize": True}, {"races": True}], ids=str)
@pytest.mark.parametrize("schedule", [SMALL, SLICED], ids=["whole", "sliced"])
@pytest.mark.slow
def test_no_races_and_nothing_outside_memory(prove, slots, options, schedule):
    slots(5)
    prove(product(65, 97, 250, 2, schedule=schedule.replace("stages: 2", "stages: 4")), **options)


def test_reruns_in_any_order_of_blocks_give_the_same_bits(made, slots):
    slots(7)
    kernel = made(product(100, 90, 200))
    generator = np.random.default_rng(6)
    draw = partial(generator.standard_normal, dtype=np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"A": draw((100, 200)), "B": draw((200, 90))}, {}), {})
    devices = [CpuDevice(workers=4, shuffle=seed) for seed in range(20)]
    first, *others = (outputs_of(job, device.run(job))["C"].tobytes() for device in (CpuDevice(workers=1), *devices))
    assert all(other == first for other in others)


@pytest.mark.slow
def test_what_runs_touches_what_the_plan_says(made, slots):
    slots(4)
    kernel = made(product(65, 70, 90))
    found = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert found.compared > 0
    assert not found.mismatches
    assert found.unknown == 0


@pytest.mark.slow
def test_it_compiles_without_a_word(compiled, slots):
    slots(5)
    compiled(product(65, 97, 88))
