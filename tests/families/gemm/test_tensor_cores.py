"""GEMM of float64 on tensor cores: when they are used, tile layouts, analysis, edges and results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.selection.candidate_tiles import tile_configs
from cugen.families.gemm.selection.cost_model import predict
from cugen.families.gemm.selection.heuristic import choose_config
from cugen.kernel_report import analyze
from cugen.machine import device
from cugen.machine.mma import float64_instruction
from cugen.plan.nodes import Copy, Declare, Mma
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.test_gemm import candidates_of, gemm, match_of, request_of, tiles

SMALL = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 8}, stages: 3, cores: tensor"


def doubles(m=65, k=20, n=72, *, schedule=SMALL, **more) -> str:
    return gemm(m, k, n, dtype="float64", schedule=schedule, **more)


def is_on_tensor_cores(kernel) -> bool:
    return any(isinstance(node, Mma) for node in walk_nodes(kernel.body))


# When tensor cores are used


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(doubles(1024, 1024, 1024, schedule=""), True, id="sm_90"),
        pytest.param("target: sm_80\n" + doubles(1024, 1024, 1024, schedule=""), True, id="sm_80"),
        pytest.param("target: sm_75\n" + doubles(1024, 1024, 1024, schedule=""), False, id="sm_75"),
        pytest.param("target: sm_89\n" + doubles(1024, 1024, 1024, schedule=""), False, id="sm_89"),
        pytest.param("target: sm_100\n" + doubles(1024, 1024, 1024, schedule=""), False, id="sm_100"),
        pytest.param(doubles(1024, 1024, 1024, schedule="cores: cuda"), False, id="CUDA cores requested"),
        pytest.param(doubles(1024, 1024, 1024, schedule="lanes: 4"), False, id="lanes requested"),
        pytest.param(gemm(1024, 1024, 1024, schedule=""), False, id="float32"),
        pytest.param(
            doubles(1024, 1024, 1024, schedule="").replace("sum(A", "sum(2 * A"), True, id="factor of all terms"
        ),
    ],
)
def test_float64_uses_tensor_cores_on_devices_where_these_are_faster(planned, text, expected):
    assert is_on_tensor_cores(planned(text)) is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(gemm(schedule="family: gemm, cores: tensor"), "which the spec doesn't allow", id="float32"),
        pytest.param("target: sm_75\n" + doubles(), "sm_75 has no tensor cores", id="sm_75"),
        pytest.param(doubles(schedule=SMALL + ", mma_k: 8"), "a multiple of 2 x 8", id="K residue"),
        pytest.param(
            doubles(schedule=SMALL.replace("m: 4", "m: 8")), "a whole number of warp tiles", id="partial warp tile"
        ),
        pytest.param(
            doubles(schedule=SMALL + ", lanes: 4"), "lanes is fixed by the tensor-core instruction", id="lanes"
        ),
        pytest.param(
            doubles(schedule="family: gemm, mma_k: 4, order: rows"),
            "order is fixed by the tensor-core instruction",
            id="order",
        ),
        pytest.param(
            doubles(schedule=SMALL.replace("m: 4", "m: 1").replace("m: 32", "m: 8")),
            "must be even",
            id="odd thread tile",
        ),
    ],
)
def test_invalid_requests_are_refused_with_a_reason(reasons, text, why):
    assert any(why in refusal.reason for refusal in reasons("gemm", text))


def test_candidates_are_for_both_cores_and_all_can_be_built():
    request = request_of(doubles(1000, 64, 777, schedule=""))
    schedules = candidates_of(request)
    assert {dict(schedule.tunables)["cores"] for schedule in schedules} == {"tensor", "cuda"}
    assert dict(schedules[0].tunables)["cores"] == "tensor"
    for schedule in schedules[::60]:
        match_of(replace(request, schedule=schedule))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("size", "tile", "seconds"), [(512, (32, 64), 12.3e-6), (1024, (64, 128), 45.9e-6), (2048, (128, 128), 333e-6)]
)
def test_the_choice_was_fast_on_an_h200_and_its_prediction_is_close(size, tile, seconds):
    contraction = recognise(request_of(doubles(size, size, size, schedule="family: gemm")))
    assert isinstance(contraction, Contraction)
    config = choose_config(contraction)
    assert isinstance(config, TileConfig)
    assert (config.block_m, config.block_n) == tile
    predicted = predict(problem_of(contraction), config, contraction.request.target)
    assert predicted is not None
    assert predicted.seconds == pytest.approx(seconds, rel=0.12)


# Tile layouts


def test_tiles_have_the_layout_of_their_operands(planned):
    assert tiles(planned(doubles())) == {"As": (3, 32, 8 + 4), "Bs": (3, 8, 64 + 4)}
    assert tiles(planned(doubles(transposed="ab"))) == {"As": (3, 8, 32 + 4), "Bs": (3, 64, 8 + 4)}


def test_long_k_major_rows_are_swizzled_and_need_no_pad(made, planned):
    text = doubles(schedule=SMALL.replace("k: 8", "k: 16"))
    assert tiles(planned(text)) == {"As": (3, 32, 16), "Bs": (3, 16, 64 + 4)}
    assert "const int a_swizzled_k = a_k ^ (4 * (a_m % 4));" in made(text).source


def test_copies_are_as_wide_as_alignment_along_k_proves(planned):
    for k, width in ((20, 2), (21, 1), ("{multiple_of: 2}", 2), ("dynamic", 1)):
        copies = [node for node in walk_nodes(planned(doubles(k=k)).body) if isinstance(node, Copy)]
        assert {copy.source.width for copy in copies if copy.source.array.name == "A"} == {width}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transposed", ["", "ab"])
def test_fragment_loads_have_no_bank_conflicts(made, transposed):
    schedule = SMALL.replace("m: 32", "m: 64").replace("m: 4", "m: 8").replace("k: 8", "k: 16")
    (launch,) = analyze(made(doubles(128, 64, 128, transposed=transposed, schedule=schedule))).kernels
    loads = [report for report in launch.accesses if report.access.kind != "async_copy"]
    assert all(report.cost == report.ideal for report in loads)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("schedule", "pad", "ideal"),
    [
        ("block: {m: 32, n: 32}, thread: {m: 4, n: 8}, stages: 4, sliced_k: 2, cores: tensor", 8, True),
        ("block: {m: 32, n: 32}, thread: {m: 4, n: 4}, stages: 4, sliced_k: 2, cores: cuda", 4, True),
        ("block: {m: 32, n: 32}, thread: {m: 4, n: 4}, stages: 4, sliced_k: 2, cores: cuda, lanes: 8", 2, True),
        ("block: {m: 64, n: 64}, thread: {m: 8, n: 8}, stages: 2, sliced_k: 2, cores: cuda", 2, False),
    ],
    ids=["tensor", "cuda", "8 lanes along M", "pipeline too small"],
)
def test_partial_sums_are_padded_against_bank_conflicts_where_the_pipeline_is_large_enough(made, schedule, pad, ideal):
    text = gemm(64, 32, 64, dtype="float64", schedule=f"family: gemm, step: {{k: 16}}, {schedule}")
    (launch,) = analyze(made(text)).kernels
    partials = [report for report in launch.accesses if report.access.array.symbol == "partials"]
    assert {report.access.array.pad for report in partials} == {pad}
    assert all(report.cost == report.ideal for report in partials) == ideal


def test_fragments_are_double_buffered(planned):
    kernel = planned(doubles(schedule=SMALL.replace("k: 8", "k: 32") + ", mma_k: 16"))
    arrays = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    sizes = {array.symbol: tuple(map(int, array.shape)) for array in arrays if array.space == "register"}
    assert sizes == {"a_frag": (2, 2, 8), "b_frag": (2, 4, 4), "acc": (4, 8)}


# Analysis and compilation


def test_multiply_adds_are_counted_at_the_rate_of_tensor_cores(made):
    report = analyze(made(doubles(64, 64, 128)), device=device("H200"))
    (launch,) = report.kernels
    assert dict(launch.facts.work.flop) == {"tensor_float64": 2 * 64 * 64 * 128}
    assert launch.facts.roofline.peak == pytest.approx(device("H200").peak("tensor_float64"))


@pytest.mark.slow
def test_the_largest_tile_compiles_without_spilling(made):
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    largest = "block: {m: 128, n: 128}, thread: {m: 8, n: 8}, step: {k: 16}"
    kernel = made(doubles(4096, 4096, 4096, schedule=f"{largest}, cores: tensor"))
    for name in ("sm_80", "sm_90"):
        cubin = compile_cubin(kernel.source, "k", name)
        assert cubin.warnings == ()
        assert cubin.kernels["k"].spill_stores == 0


# Results


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(doubles(65, 37, 71), id="odd sizes"),
        pytest.param(
            doubles(31, 21, 67, transposed="ab", becomes="+=", schedule=SMALL.replace("k: 8", "k: 16") + ", mma_k: 8"),
            id="both transposed, K of 8",
        ),
        pytest.param(
            doubles(64, 40, 70, transposed="a", schedule=SMALL.replace("k: 8", "k: 32") + ", sliced_k: 2, mma_k: 8"),
            id="A transposed, sliced-K",
        ),
    ],
)
def test_edges_are_right(prove, text):
    prove(text)


@pytest.mark.slow
def test_edges_are_free_of_races(prove):
    prove(doubles(33, 17, 65, transposed="b", schedule=SMALL.replace("k: 8", "k: 32") + ", mma_k: 16"), races=True)


EPILOGUE = """
params: {Z: 3, H: 2, M: 40, K: 20, N: 72}
scalars: {alpha: {dtype: float64}}
arrays:
  A: {shape: [Z, H, M, K], dtype: float64}
  B: {shape: [H, K, N], dtype: float64}
  bias: {shape: [N], dtype: float64}
  R: {shape: [Z, H, M, N], dtype: float32}
  C: {shape: [Z, H, M, N], dtype: float64}
  D: {shape: [Z, H, M, N], dtype: float16}
compute: |
  C[z, h, m, n] = relu(alpha * sum(A[z, h, m, k] * B[h, k, n], k) + bias[n]) + R[z, h, m, n]
  D[z, h, m, n] = 2 * C[z, h, m, n]
schedule: {family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 8}, cores: tensor}
"""


@pytest.mark.slow
def test_the_epilogue_of_a_batch_is_right(prove):
    prove(EPILOGUE)


def test_any_dynamic_size_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(doubles(sizes, sizes, sizes)), CpuDevice())


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 100, 67), (31, 7, 127), (63, 1, 63), (64, 8, 64), (101, 129, 131)])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_odd_sizes_of_every_transpose_are_right(prove, sizes, transposed):
    m, k, n = sizes
    prove(doubles(m, k, n, transposed=transposed), races=True)
    block = "family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 8}, step: {k: 16}, cores: tensor"
    prove(doubles(m, k, n, transposed=transposed, schedule=block), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layouts",
    [
        (", layout: column", ", layout: column", ", layout: column"),
        (", pitch: 81", ", pitch: 76", ", pitch: 100"),
        (", layout: column", "", ", layout: column"),
    ],
)
def test_every_layout_is_right(prove, layouts):
    a, b, c = layouts
    prove(doubles(a=a, b=b, c=c), races=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    ["stages: 2", "stages: 5", "sliced_k: 2", "sliced_k: 4", "split_k: 2", "mma_k: 8", "raster: 2", "blocks_per_sm: 2"],
)
def test_every_tunable_is_right(prove, more):
    tile = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 32}, cores: tensor, "
    prove(doubles(128, 64, 72, schedule=tile + more), races=True)
    prove(doubles(128 if "raster" in more else 121, 64, 71, schedule=tile + more), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    list(tile_configs(float64_instruction(4))),
    ids=lambda config: f"{config.block_m}x{config.block_n}x{config.block_k}",
)
def test_every_candidate_tile_is_right(prove, config):
    schedule = (
        "family: gemm, cores: tensor, "
        f"block: {{m: {config.block_m}, n: {config.block_n}}}, step: {{k: {config.block_k}}}, "
        f"thread: {{m: {config.thread_m}, n: {config.thread_n}}}, sliced_k: {config.sliced_k}"
    )
    prove(doubles(130, 70, 134, schedule=schedule), races=True)


@pytest.mark.slow
def test_traced_accesses_match_the_plan(made):
    kernel = made(doubles(33, 40, 64))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


@pytest.mark.slow
@pytest.mark.parametrize("value", ["exp(A[m, k]) * B[k, n]", "(A[m, k] - s[k]) * (B[k, n] / s[k])"])
def test_operands_that_are_stored_first_are_within_the_bounds_of_tf32(made, prove, value):
    text = f"""
params: {{M: 256, N: 264, K: 512}}
arrays:
  A: {{shape: [M, K], dtype: float32}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
{"  s: {shape: [K], dtype: float32}" if "s[" in value else ""}
compute: C[m, n] = sum({value}, k)
accumulate: {{tf32: true}}
"""
    *stored, product = made(text).plan.kernels
    assert stored
    assert any("rounded to tf32" in reason for reason in product.reasons)
    prove(text)
