"""GEMM on CUDA cores: pipeline, copies, edges, refusals, candidate schedules and results."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.family import FAMILY
from cugen.families.gemm.problem import problem_of, registers_with_copies
from cugen.families.gemm.selection.heuristic import choose_config
from cugen.kernel_report import analyze
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.plan.nodes import Accumulate, AwaitCopies, Barrier, Copy, Declare, For, Load
from cugen.plan.request import Match, Request
from cugen.plan.traversal.walking import walk_nodes
from cugen.rewrite.grouping import group_statements
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule import planner
from cugen.spec.load import load_text
from cugen.spec.model import Schedule

GEMM = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [{a_shape}], dtype: {dtype}{a}}}
  B: {{shape: [{b_shape}], dtype: {dtype}{b}}}
  C: {{shape: [M, N], dtype: {dtype}{c}}}
compute: C[m, n] {becomes} sum(A[{a_at}] * B[{b_at}], k)
schedule: {{{schedule}}}
"""
SMALL = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 8}"


def gemm(m=65, k=20, n=72, *, dtype="float32", a="", b="", c="", transposed="", becomes="=", schedule=SMALL) -> str:
    return GEMM.format(
        m=m,
        k=k,
        n=n,
        dtype=dtype,
        a=a,
        b=b,
        c=c,
        becomes=becomes,
        schedule=schedule,
        a_shape="K, M" if "a" in transposed else "M, K",
        a_at="k, m" if "a" in transposed else "m, k",
        b_shape="N, K" if "b" in transposed else "K, N",
        b_at="n, k" if "b" in transposed else "k, n",
    )


def nodes(kernel, kind):
    return [node for node in walk_nodes(kernel.body) if isinstance(node, kind)]


def tiles(kernel) -> dict[str, tuple[int, ...]]:
    shared = [node.array for node in nodes(kernel, Declare) if node.array.space == "shared"]
    return {array.symbol: tuple(int(extent) for extent in array.padded_shape) for array in shared}


def request_of(text: str) -> Request:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    grouping = group_statements(spec)
    schedule = dict(spec.schedules).get("", Schedule())
    return Request("k", grouping.groups[0], make_context(spec), schedule, target(spec.target), grouping.stored)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("n", "k", "family"), [(3, 3, "map"), (4, 4, "map"), (4, 8, "map"), (8, 8, "gemm")])
def test_an_operand_of_few_elements_is_left_to_caches(n, k, family):
    compute = f"arrays: {{a: {{shape: [1048576, {k}], dtype: float32}}, b: {{shape: [{k}, {n}], dtype: float32}}, "
    compute += f"c: {{shape: [1048576, {n}], dtype: float32}}}}\ncompute: c[i, j] = sum(a[i, k] * b[k, j], k)"
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{compute}")
    (kernel,) = planner.make_plan(spec).kernels
    assert kernel.family == family


def match_of(request: Request) -> Match:
    match = FAMILY.answer(request)
    assert isinstance(match, Match)
    return match


def candidates_of(request: Request) -> list[Schedule]:
    candidates = match_of(request).candidates
    assert candidates is not None
    return list(candidates())


# Tiles and pipeline


def test_tiles_are_mn_major_and_padded_where_copies_transpose(planned):
    four_stages = SMALL + ", stages: 4"
    assert tiles(planned(gemm(schedule=four_stages))) == {"As": (4, 8, 36), "Bs": (4, 8, 64)}
    assert tiles(planned(gemm(transposed="ab", schedule=four_stages))) == {"As": (4, 8, 32), "Bs": (4, 8, 68)}


def test_one_barrier_before_the_main_loop_and_one_in_each_k_tile_after_the_oldest_copies(planned):
    kernel = planned(gemm(schedule=SMALL + ", stages: 3"))
    assert len(nodes(kernel, Barrier)) == 2
    assert [node.pending for node in nodes(kernel, AwaitCopies)] == [1, 1]


def test_the_next_fragments_are_loaded_before_the_current_ones_are_multiplied(planned):
    (main_loop,) = [node for node in nodes(planned(gemm(schedule=SMALL)), For) if node.loop.index.name == "k0"]
    *_, await_stage, barrier, _, load_a, load_b, multiply = main_loop.body
    assert isinstance(await_stage, AwaitCopies)
    assert isinstance(barrier, Barrier)
    loads = [node for node in walk_nodes((load_a, load_b)) if isinstance(node, Load)]
    assert {load.local.name for load in loads} == {"a_frag", "b_frag"}
    assert {str(load.local.row if load.local.row is not None else load.local.index) for load in loads} == {"0"}
    (add,) = [node for node in walk_nodes((multiply,)) if isinstance(node, Accumulate)]
    assert all(
        "1" == str(part.vector.row if part.vector.row is not None else part.vector.index) for part in add.value.args
    )


@pytest.mark.parametrize(
    ("k", "is_last_again"), [("8", True), ("16", True), ("dynamic", True), ("24", False), ("20", False)]
)
def test_a_stage_that_no_copy_may_have_written_is_not_read(made, k, is_last_again):
    source = made(gemm(k=k, schedule=SMALL + ", stages: 3")).source
    line = next(line for line in source.splitlines() if "int next_stage = " in line)
    assert (" = k0 + BK < " in line) == is_last_again, line


def test_a_slice_of_odd_k_is_refused(reasons):
    refusals = reasons("gemm", gemm(schedule="family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 5}"))
    assert any("must be even" in refusal.reason for refusal in refusals)


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        (gemm(), (1, 4)),
        (gemm(n=70), (1, 2)),
        (gemm(n=71), (1, 1)),
        (gemm(m=64, transposed="a"), (4, 4)),
        (gemm(n="{multiple_of: 4}"), (1, 4)),
        (gemm(dtype="float64", schedule=SMALL + ", cores: cuda"), (1, 2)),
    ],
)
def test_copies_are_as_wide_as_alignment_proves(planned, text, widths):
    copies = nodes(planned(text), Copy)
    assert all(copy.asynchronous for copy in copies)
    assert {(c.source.array.name, c.source.width) for c in copies} == {("A", widths[0]), ("B", widths[1])}


def test_elements_too_small_for_asynchronous_copies_are_copied_synchronously(planned):
    copies = {copy.source.array.name: copy for copy in nodes(planned(gemm(dtype="float16")), Copy)}
    assert not copies["A"].asynchronous
    assert copies["B"].asynchronous


def test_targets_without_asynchronous_copies_copy_synchronously(planned):
    kernel = planned("target: sm_75\n" + gemm())
    assert not any(copy.asynchronous for copy in nodes(kernel, Copy))
    assert not nodes(kernel, AwaitCopies)


def test_every_access_of_whole_tiles_is_ideal_except_transposing_copies(made):
    wide = "family: gemm, block: {m: 64, n: 128}, thread: {m: 8, n: 8}, step: {k: 8}"
    (launch,) = analyze(made(gemm(128, 64, 128, schedule=wide))).kernels
    transposing = [a for a in launch.accesses if a.access.array.symbol == "As" and a.access.kind == "async_copy"]
    assert {a.verdict for a in launch.accesses if a not in transposing} == {"ideal"}
    assert {(a.per_request.worst, a.verdict) for a in transposing} == {(4, "costly")}


def test_whole_tiles_have_no_bounds_checks(made):
    body = made(gemm(64, 32, 128)).source.split("launch(")[0]
    assert not re.search(r"\b[mn] < [MN]\b|\? 0 :", body)


def test_the_last_tile_is_shifted_inward_and_the_first_k_tile_zero_filled(made):
    body = made(gemm(65, 20, 72)).source
    assert "const int m0 = min(blockIdx.y * BM, M - BM);" in body
    assert "? 0 :" not in body.split("for (int k0")[1]


def test_offsets_past_2_to_the_31_are_computed_in_64_bits(made):
    body = made(gemm(70000, 70000, 70000)).source.split("launch(")[0]
    assert re.findall(r"_global = &(.*?);", body) == ["A[((long long)m0 + a_m) * K + a_k]", "B[b_k * N + n0 + b_n]"]
    copies = re.findall(r"&[ab]_global\[(.*?)\],\s+(?:4|16)", body, re.S)
    assert copies == [
        "c * K + BK * stage",
        "(BK * stage + r) * N",
        "c * K + prefetch_k",
        "((long long)prefetch_k + r) * N",
    ]


def test_accumulated_outputs_are_stored_by_one_block_only(made):
    body = made(gemm(becomes="+=")).source
    assert not re.search(r"\b[mn]0 = min\(", body)
    assert "m < M" in body


def test_more_than_the_static_limit_is_dynamic_shared_memory(planned):
    large = "family: gemm, block: {m: 128, n: 256}, thread: {m: 16, n: 8}, step: {k: 8}, stages: 4"
    kernel = planned(gemm(256, 64, 256, schedule=large))
    assert kernel.shared_bytes == 0
    assert kernel.dynamic_shared_bytes == 4 * 8 * (132 + 256) * 4


# Requests and refusals


@pytest.mark.slow
def test_small_gemms_of_few_rows_or_columns_are_left_to_a_single_stage(made):
    (large,) = made(gemm(1024, 1024, 1024, schedule="")).plan.kernels
    (small,) = made(gemm(100, 40, 24, schedule="")).plan.kernels
    (square,) = made(gemm(100, 100, 100, schedule="")).plan.kernels
    assert (large.family, small.family, square.family) == ("gemm", "tiled", "gemm")
    assert "block tile 64 x 128 x " in large.reasons[0]
    assert "multiply-adds" in large.reasons[1]


def test_a_gemm_takes_another_tile_where_the_first_needs_too_many_registers(planned, monkeypatch):
    contraction = recognise(request_of(gemm(1656, 109, 5559, schedule="")))
    first = choose_config(contraction)
    second = choose_config(contraction, smaller_than=first)
    problem = problem_of(contraction)
    assert registers_with_copies(problem, second) < registers_with_copies(problem, first)
    tried = []

    def fits(kernel, request):
        tried.append(kernel)
        return len(tried) > 2

    monkeypatch.setattr(planner, "fits_registers", fits)
    assert planned(gemm(1656, 109, 5559, schedule="")).family == "gemm"
    assert len({kernel.reasons[0] for kernel in tried}) == len(tried) == 3


def test_stages_of_an_operand_request_this_family(made, planned):
    stages = ", memory: {space: shared, stages: 3}"
    kernel = planned(gemm(a=stages, b=stages, schedule=""))
    assert kernel.family == "gemm"
    assert [tiles(kernel)[name][0] for name in ("As", "Bs")] == [3, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            gemm(a=", memory: shared", b=", memory: {space: shared, stages: 2}"),
            "the same number of stages of both operands",
        ),
        (
            gemm(a=", memory: {space: shared, stages: 2}", b=", memory: {space: shared, stages: 3}"),
            "the same number of stages of both operands",
        ),
        (gemm(a=", memory: global"), "kept out of shared memory"),
        (gemm(schedule="family: gemm, block: {m: 16, n: 16}"), "together with a thread tile"),
        (gemm(schedule="family: gemm, block: {m: 16, n: 16}, thread: {m: 1, n: 1}"), "2 or more consecutive elements"),
        (gemm(schedule="family: gemm, step: {m: 8}"), "step sizes are for k, not for m"),
        (gemm(schedule=SMALL + ", sliced_k: 3"), "sliced_k may be 1, 2, 4, 8"),
        (gemm(schedule=SMALL + ", raster: 2"), "a raster of 2 must divide"),
        (gemm(schedule=SMALL + ", lanes: 16"), "warps of 16 lanes"),
        (gemm(schedule="family: gemm, block: {m: 256, n: 256}, thread: {m: 16, n: 16}"), "a thread's registers"),
        (gemm(schedule="family: gemm, block: {m: 40, n: 64}, thread: {m: 4, n: 8}"), "a whole number of warp tiles"),
    ],
)
def test_invalid_requests_are_refused_with_a_reason(reasons, text, why):
    assert any(why in refusal.reason for refusal in reasons("gemm", text))


def test_candidates_begin_with_the_choice_and_all_can_be_built():
    request = request_of(gemm(1000, 64, 777, schedule=""))
    schedules = candidates_of(request)
    kernel = match_of(request).kernel()
    assert len(schedules) == len(set(schedules)) > 100
    assert match_of(replace(request, schedule=schedules[0])).kernel().block == kernel.block
    for name, values in (
        ("order", {"rows", "columns", "serpentine", "zigzag"}),
        ("addressing", {"indexed", "pointer"}),
        ("prefetch", {"upfront", "interleaved"}),
    ):
        assert {dict(schedule.tunables)[name] for schedule in schedules} == values
    for schedule in schedules[::40]:
        match_of(replace(request, schedule=schedule))


@pytest.mark.slow
def test_candidates_have_every_stream_k():
    request = request_of(gemm(2000, 1000, 3000, schedule=""))
    schedules = [schedule for schedule in candidates_of(request) if "stream_k" in dict(schedule.tunables)]
    assert {dict(schedule.tunables)["stream_k"] for schedule in schedules} == {1, 2}
    for schedule in schedules[::100]:
        match_of(replace(request, schedule=schedule))


def test_candidates_keep_the_sizes_of_the_spec():
    request = request_of(gemm(1000, 64, 777, schedule="stages: 3, step: {k: 16}"))
    schedules = candidates_of(request)
    assert {schedule.step for schedule in schedules} == {(("k", 16),)}
    assert {dict(schedule.tunables)["stages"] for schedule in schedules} == {3}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("requested", ["reduction: cluster", "reduction: workspace", "prefetch: interleaved"])
def test_candidates_keep_the_requested_tunables(requested):
    request = request_of("target: sm_90\n" + gemm(64, 72, 777, schedule=requested))
    for schedule in candidates_of(request)[::20]:
        match_of(replace(request, schedule=schedule))


def test_candidates_have_every_reduction_of_split_k():
    schedules = candidates_of(request_of(gemm(64, 7168, 576, schedule="split_k: 8")))
    assert {dict(schedule.tunables)["reduction"] for schedule in schedules} == {"cluster", "workspace"}


# Split-K

SPLIT = SMALL + ", split_k: 4"


@pytest.mark.slow
def test_a_long_k_of_few_tiles_is_split(planned):
    split, whole = planned(gemm(64, 4096, 4096, schedule="")), planned(gemm(1536, 4096, 2816, schedule=""))
    unsplit = planned(gemm(64, 4096, 4096, schedule="split_k: 1"))
    assert split.workspace or split.cluster > 1
    assert not any(kernel.workspace or kernel.cluster > 1 for kernel in (whole, unsplit))


def test_a_k_without_equal_ranges_is_not_split_through_the_workspace(planned, reasons):
    by_default = planned(gemm(64, 4093, 4096, schedule=""))
    assert not any("through the workspace" in reason for reason in by_default.reasons)
    refusals = reasons("gemm", gemm(64, 4093, 4096, schedule="split_k: 4, reduction: workspace"))
    assert any("a K that 4 x" in refusal.reason for refusal in refusals)


def test_accumulators_that_are_stored_unchanged_have_an_opaque_factor(made):
    text = "const float opaque_one = blockDim.z;"
    assert text in made(gemm(schedule=SMALL)).source
    assert text in made(gemm(dtype="float16", schedule=SMALL + ", sliced_k: 2")).source
    for spec_text in (gemm(dtype="float16"), gemm(dtype="int32"), gemm(dtype="float64"), EPILOGUE):
        assert text not in made(spec_text).source


# Results


def test_edges_are_free_of_races(prove):
    prove(gemm(33, 17, 65), races=True)


def test_partial_sums_are_stored_after_the_pipeline_is_drained(prove):
    prove(gemm(33, 5, 65, schedule=SMALL + ", sliced_k: 2, stages: 4"), races=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        gemm(100, 20, 68, transposed="ab", schedule=SMALL + ", sliced_k: 2, order: rows"),
        gemm(65, 24, 72, dtype="float16", becomes="+=", schedule=SMALL + ", stages: 2, order: columns"),
    ],
)
def test_edges_are_right(prove, text):
    prove(text)


def test_any_dynamic_size_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(gemm(sizes, sizes, sizes)), CpuDevice())


EPILOGUE = """
params: {Z: 3, H: 2, M: 40, K: 20, N: 72}
scalars: {alpha: {dtype: float32}}
arrays:
  A: {shape: [Z, H, M, K], dtype: float32}
  B: {shape: [H, K, N], dtype: float32}
  bias: {shape: [N], dtype: float32}
  R: {shape: [Z, H, M, N], dtype: float32}
  C: {shape: [Z, H, M, N], dtype: float32}
  D: {shape: [Z, H, M, N], dtype: float16}
compute: |
  C[z, h, m, n] = relu(alpha * sum(A[z, h, m, k] * B[h, k, n], k) + bias[n]) + R[z, h, m, n]
  D[z, h, m, n] = 2 * C[z, h, m, n]
schedule: {family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 8}}
"""


@pytest.mark.slow
def test_the_epilogue_of_a_batch_is_right(prove):
    prove(EPILOGUE)


@pytest.mark.slow
def test_the_epilogue_of_sliced_k_is_right(prove):
    prove(EPILOGUE.replace("step: {k: 8}", "step: {k: 8}, sliced_k: 2"), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 100, 67), (31, 7, 127), (63, 1, 63), (64, 8, 64), (101, 129, 131)])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_odd_sizes_of_every_transpose_are_right(prove, sizes, transposed):
    m, k, n = sizes
    block = "family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 8}, step: {k: 8}"
    prove(gemm(m, k, n, transposed=transposed), races=True)
    prove(gemm(m, k, n, transposed=transposed, schedule=block), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "float16",
        "bfloat16",
        "float8_e4m3",
        "float8_e5m2",
        "int8",
        "uint8",
        "int16",
        "int32",
        "uint32",
        "int64",
    ],
)
def test_every_type_is_right(prove, dtype):
    prove(gemm(33, 17, 67, dtype=dtype), sanitize=True)
    prove(gemm(65, 40, 72, dtype=dtype, transposed="ab", schedule=SMALL + ", sliced_k: 2"), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("transposed", ["", "ab"])
def test_split_k_is_right(prove, transposed):
    prove(gemm(33, 64, 65, transposed=transposed, schedule=SPLIT), races=True)
    prove(gemm(64, 64, 64, transposed=transposed, dtype="float16", schedule=SPLIT + ", sliced_k: 2"), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layouts",
    [
        (", layout: column", ", layout: column", ", layout: column"),
        (", pitch: 81", ", pitch: 76", ", pitch: 100"),
        ("", ", layout: column", ""),
        (", layout: column", "", ""),
        (", layout: column", "", ", layout: column"),
    ],
)
def test_every_layout_is_right(prove, layouts):
    a, b, c = layouts
    prove(gemm(a=a, b=b, c=c), races=True)
    prove(gemm(33, 19, 67, a=a, b=b, c=c, schedule=SMALL + ", sliced_k: 4, stages: 2"), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        *(f"stages: {n}" for n in (2, 3, 5)),
        *(f"sliced_k: {n}" for n in (2, 4)),
        *(f"order: {order}" for order in ("rows", "columns", "serpentine", "zigzag")),
        "addressing: pointer",
        "prefetch: interleaved",
        "prefetch: interleaved, addressing: pointer, order: zigzag",
        *(f"lanes: {n}" for n in (2, 4, 8)),
        "raster: 2",
        "raster: 4",
        "blocks_per_sm: 2",
    ],
)
def test_every_tunable_is_right(prove, more):
    shape = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 16}, "
    prove(gemm(128, 40, 72, schedule=shape + more), races=True)
    prove(gemm(121, 37, 71, schedule=shape + more), sanitize=True)


@pytest.mark.slow
def test_reruns_give_the_same_bits(made):
    kernel = made(gemm(65, 40, 72, schedule=SMALL + ", sliced_k: 2"))
    results = []
    for seed in (1, 2):
        device = CpuDevice(shuffle=seed, workers=1)
        run = verify(kernel.spec, kernel.source, kernel.manifest, device)
        results.append(run.outcome.buffers["C"].tobytes())
    assert results[0] == results[1]
