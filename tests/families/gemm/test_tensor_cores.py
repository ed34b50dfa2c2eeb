"""Products of float64 on tensor cores: who gets them, what lanes read, edges, and what the analysis says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.families.gemm.test_gemm import product, request_of, tiles

from cugen.families.contraction.recognition import Contraction, recognise
from cugen.families.gemm.config import Shape
from cugen.families.gemm.cost_model import predict
from cugen.families.gemm.family import FAMILY
from cugen.families.gemm.heuristic import choose_shape
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.tensor_cores import shapes
from cugen.kernel_report import analyze
from cugen.machine import device
from cugen.plan.nodes import Copy, Declare, Mma
from cugen.plan.walking import walk_nodes
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.toolchain.cuda import compile_cubin, compilers

SMALL = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 8}, stages: 3, cores: tensor"


def doubles(m=65, k=20, n=72, *, schedule=SMALL, **more) -> str:
    return product(m, k, n, dtype="float64", schedule=schedule, **more)


def is_on_tensor_cores(kernel) -> bool:
    return any(isinstance(node, Mma) for node in walk_nodes(kernel.body))


# Who gets them


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (doubles(1024, 1024, 1024, schedule=""), True),
        ("target: sm_80\n" + doubles(1024, 1024, 1024, schedule=""), True),
        ("target: sm_75\n" + doubles(1024, 1024, 1024, schedule=""), False),
        ("target: sm_89\n" + doubles(1024, 1024, 1024, schedule=""), False),
        ("target: sm_100\n" + doubles(1024, 1024, 1024, schedule=""), False),
        (doubles(1024, 1024, 1024, schedule="cores: cuda"), False),
        (doubles(1024, 1024, 1024, schedule="lanes: 4"), False),
        (product(1024, 1024, 1024, schedule=""), False),
        (doubles(1024, 1024, 1024, schedule="").replace("sum(A", "sum(2 * A"), False),
    ],
)
def test_products_of_doubles_get_them_where_a_device_is_faster_with_them(planned, text, expected):
    assert is_on_tensor_cores(planned(text)) is expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (product(schedule="family: gemm, cores: tensor"), "of float64"),
        ("target: sm_75\n" + doubles(), "sm_75 has no tensor cores"),
        (doubles(schedule=SMALL + ", depth: 8"), "isn't made of pairs of 8"),
        (doubles(schedule=SMALL.replace("m: 4", "m: 8")), "fills no warps"),
        (doubles(schedule=SMALL + ", lanes: 4"), "lanes is what tensor cores decide"),
        (doubles(schedule="family: gemm, depth: 4, order: rows"), "order is what tensor cores decide"),
        (doubles(schedule=SMALL.replace("m: 4", "m: 1").replace("m: 32", "m: 8")), "an even number"),
    ],
)
def test_what_they_cannot_do_is_refused_with_a_reason(reasons, text, word):
    assert any(word in refusal.reason for refusal in reasons("gemm", text))


def test_candidates_are_of_both_kinds_and_all_can_be_built():
    request = request_of(doubles(1000, 64, 777, schedule=""))
    assert FAMILY.candidates is not None
    found = list(FAMILY.candidates(request))
    assert {dict(schedule.tunables)["cores"] for schedule in found} == {"tensor", "cuda"}
    assert dict(found[0].tunables)["cores"] == "tensor"
    for schedule in found[::60]:
        assert FAMILY.refusals(replace(request, schedule=schedule)) == ()


@pytest.mark.parametrize(
    ("size", "tile", "seconds"), [(512, (32, 64), 12.3e-6), (1024, (64, 128), 45.9e-6), (2048, (128, 128), 333e-6)]
)
def test_the_pick_is_what_was_fast_on_an_h200_and_its_time_is_about_what_was_measured(size, tile, seconds):
    found = recognise(request_of(doubles(size, size, size, schedule="family: gemm")))
    assert isinstance(found, Contraction)
    shape = choose_shape(found, split=True)
    assert isinstance(shape, Shape)
    assert (shape.rows, shape.columns) == tile
    predicted = predict(problem_of(found), shape, found.request.target)
    assert predicted is not None
    assert predicted.seconds == pytest.approx(seconds, rel=0.12)


# How it is laid out


def test_tiles_lie_as_their_operands_do(planned):
    assert tiles(planned(doubles())) == {"As": (3, 32, 8 + 4), "Bs": (3, 8, 64 + 4)}
    assert tiles(planned(doubles(turned="ab"))) == {"As": (3, 8, 32 + 4), "Bs": (3, 64, 8 + 4)}


def test_long_rows_change_their_sectors_and_need_no_pad(made, planned):
    text = doubles(schedule=SMALL.replace("k: 8", "k: 16"))
    assert tiles(planned(text)) == {"As": (3, 32, 16), "Bs": (3, 16, 64 + 4)}
    assert "const int a_at = a_k ^ (4 * (a_m % 4));" in made(text).source


def test_copies_are_as_wide_as_alignment_along_k_proves(planned):
    for k, width in ((20, 2), (21, 1), ("{multiple_of: 2}", 2), ("dynamic", 1)):
        copies = [node for node in walk_nodes(planned(doubles(k=k)).body) if isinstance(node, Copy)]
        assert {copy.source.width for copy in copies if copy.source.array.name == "A"} == {width}


@pytest.mark.parametrize("turned", ["", "ab"])
def test_no_two_lanes_meet_in_a_bank(made, turned):
    schedule = SMALL.replace("m: 32", "m: 64").replace("m: 4", "m: 8").replace("k: 8", "k: 16")
    (launch,) = analyze(made(doubles(128, 64, 128, turned=turned, schedule=schedule))).kernels
    reads = [report for report in launch.accesses if report.access.kind != "async_copy"]
    assert all(report.cost == report.ideal for report in reads)


@pytest.mark.parametrize(
    ("schedule", "pad", "ideal"),
    [
        ("block: {m: 32, n: 32}, thread: {m: 4, n: 8}, stages: 4, slices: 2, cores: tensor", 8, True),
        ("block: {m: 32, n: 32}, thread: {m: 4, n: 4}, stages: 4, slices: 2, cores: cuda", 4, True),
        ("block: {m: 32, n: 32}, thread: {m: 4, n: 4}, stages: 4, slices: 2, cores: cuda, lanes: 8", 2, True),
        ("block: {m: 64, n: 64}, thread: {m: 8, n: 8}, stages: 2, slices: 2, cores: cuda", 2, False),
    ],
    ids=["tensor", "cuda", "eight down", "short of room"],
)
def test_parts_of_sums_lie_in_different_banks_where_the_ring_has_room_for_their_pads(made, schedule, pad, ideal):
    text = product(64, 32, 64, dtype="float64", schedule=f"family: gemm, step: {{k: 16}}, {schedule}")
    (launch,) = analyze(made(text)).kernels
    parts = [report for report in launch.accesses if report.access.array.symbol == "parts"]
    assert {report.access.array.pad for report in parts} == {pad}
    assert all(report.cost == report.ideal for report in parts) == ideal


def test_fragments_are_held_twice(planned):
    kernel = planned(doubles(schedule=SMALL.replace("k: 8", "k: 32") + ", depth: 16"))
    held = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    sizes = {array.symbol: tuple(map(int, array.shape)) for array in held if array.space == "register"}
    assert sizes == {"a": (2, 2, 8), "b": (2, 4, 4), "sum": (4, 8)}


# What is said of it


def test_multiply_adds_are_counted_at_the_rate_of_tensor_cores(made):
    report = analyze(made(doubles(64, 64, 128)), device=device("H200"))
    (launch,) = report.kernels
    assert dict(launch.facts.work.flop) == {"tensor_float64": 2 * 64 * 64 * 128}
    assert launch.facts.roofline.peak == pytest.approx(device("H200").peak("tensor_float64"))


def test_every_shape_compiles_without_spilling(made):
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    largest = "block: {m: 128, n: 128}, thread: {m: 8, n: 8}, step: {k: 16}"
    kernel = made(doubles(4096, 4096, 4096, schedule=f"{largest}, cores: tensor"))
    for name in ("sm_80", "sm_90"):
        cubin = compile_cubin(kernel.source, "k", name)
        assert cubin.warnings == ()
        assert cubin.kernels["k"].spill_stores == 0


# That it is right


@pytest.mark.parametrize(
    "text",
    [
        doubles(65, 37, 71),
        doubles(31, 21, 67, turned="ab", becomes="+=", schedule=SMALL.replace("k: 8", "k: 16") + ", depth: 8"),
        doubles(64, 40, 70, turned="a", schedule=SMALL.replace("k: 8", "k: 32") + ", slices: 2, depth: 8"),
    ],
)
def test_edges_are_right(prove, text):
    prove(text)


def test_edges_are_free_of_races(prove):
    prove(doubles(33, 17, 65, turned="b", schedule=SMALL.replace("k: 8", "k: 32") + ", depth: 16"), races=True)


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


def test_what_follows_the_sum_of_a_batch_is_right(prove):
    prove(EPILOGUE)


def test_any_size_of_a_dynamic_product_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(doubles(sizes, sizes, sizes)), CpuDevice())


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 100, 67), (31, 7, 127), (63, 1, 63), (64, 8, 64), (101, 129, 131)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_odd_sizes_of_every_transpose_are_right(prove, sizes, turned):
    m, k, n = sizes
    prove(doubles(m, k, n, turned=turned), races=True)
    block = "family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 8}, step: {k: 16}, cores: tensor"
    prove(doubles(m, k, n, turned=turned, schedule=block), sanitize=True)


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
    "more", ["stages: 2", "stages: 5", "slices: 2", "slices: 4", "split: 2", "depth: 8", "raster: 2", "blocks: 2"]
)
def test_every_tunable_is_right(prove, more):
    shape = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 32}, cores: tensor, "
    prove(doubles(128, 64, 72, schedule=shape + more), races=True)
    prove(doubles(128 if "raster" in more else 121, 64, 71, schedule=shape + more), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("shape", list(shapes()), ids=lambda shape: shape.text)
def test_every_shape_that_may_be_chosen_is_right(prove, shape):
    schedule = (
        f"family: gemm, block: {{m: {shape.rows}, n: {shape.columns}}}, cores: tensor, step: {{k: {shape.step}}}, "
        f"thread: {{m: {shape.thread_rows}, n: {shape.thread_columns}}}, slices: {shape.slices}, depth: {shape.depth}"
    )
    prove(doubles(130, 70, 134, schedule=schedule), races=True)


@pytest.mark.slow
def test_what_runs_touches_what_the_plan_says(made):
    kernel = made(doubles(33, 40, 64))
    found = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert found.compared > 0
    assert not found.mismatches
    assert found.unknown == 0
