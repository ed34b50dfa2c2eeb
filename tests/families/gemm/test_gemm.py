"""Products on CUDA cores: the ring of stages, who copies what, edges, slices, and which schedules there are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cugen.families.gemm.family import FAMILY
from cugen.kernel_report import analyze
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.plan.nodes import Accumulate, AwaitCopies, Barrier, Copy, Declare, For, Load
from cugen.plan.request import Request
from cugen.plan.walking import walk_nodes
from cugen.rewrite.grouping import group_statements
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Schedule

PRODUCT = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [{a_shape}], dtype: {dtype}{a}}}
  B: {{shape: [{b_shape}], dtype: {dtype}{b}}}
  C: {{shape: [M, N], dtype: {dtype}{c}}}
compute: C[m, n] {becomes} sum(A[{a_at}] * B[{b_at}], k)
schedule: {{{schedule}}}
"""
SMALL = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 8}"


def product(m=65, k=20, n=72, *, dtype="float32", a="", b="", c="", turned="", becomes="=", schedule=SMALL) -> str:
    return PRODUCT.format(
        m=m,
        k=k,
        n=n,
        dtype=dtype,
        a=a,
        b=b,
        c=c,
        becomes=becomes,
        schedule=schedule,
        a_shape="K, M" if "a" in turned else "M, K",
        a_at="k, m" if "a" in turned else "m, k",
        b_shape="N, K" if "b" in turned else "K, N",
        b_at="n, k" if "b" in turned else "k, n",
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


# How it is laid out


def test_tiles_are_k_major_in_a_ring_and_padded_where_they_are_turned(planned):
    deep = SMALL + ", stages: 4"
    assert tiles(planned(product(schedule=deep))) == {"As": (4, 8, 36), "Bs": (4, 8, 64)}
    assert tiles(planned(product(turned="ab", schedule=deep))) == {"As": (4, 8, 32), "Bs": (4, 8, 68)}


def test_there_is_one_barrier_before_the_walk_and_one_in_each_step_behind_the_oldest_group_of_copies(planned):
    kernel = planned(product(schedule=SMALL + ", stages: 3"))
    assert len(nodes(kernel, Barrier)) == 2
    assert [node.pending for node in nodes(kernel, AwaitCopies)] == [1, 1]


def test_the_values_of_the_next_k_are_read_before_those_of_this_one_are_multiplied(planned):
    (walk,) = [node for node in nodes(planned(product(schedule=SMALL)), For) if node.loop.index.name == "k0"]
    *_, await_stage, barrier, _, _, read_a, read_b, multiply = walk.body
    assert isinstance(await_stage, AwaitCopies)
    assert isinstance(barrier, Barrier)
    reads = [node for node in walk_nodes((read_a, read_b)) if isinstance(node, Load)]
    assert {load.local.name for load in reads} == {"a4", "b4"}
    assert {str(load.local.row if load.local.row is not None else load.local.place) for load in reads} == {"0"}
    (add,) = [node for node in walk_nodes((multiply,)) if isinstance(node, Accumulate)]
    assert all(
        "1" == str(part.vector.row if part.vector.row is not None else part.vector.place) for part in add.value.args
    )


def test_a_thread_takes_an_even_number_of_products_of_a_step(reasons):
    found = reasons("gemm", product(schedule="family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 5}"))
    assert any("even number" in refusal.reason for refusal in found)


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        (product(), (1, 4)),
        (product(n=70), (1, 2)),
        (product(n=71), (1, 1)),
        (product(m=64, turned="a"), (4, 4)),
        (product(n="{multiple_of: 4}"), (1, 4)),
        (product(dtype="float64", schedule=SMALL + ", cores: cuda"), (1, 2)),
    ],
)
def test_copies_are_as_wide_as_alignment_proves(planned, text, widths):
    copies = nodes(planned(text), Copy)
    assert all(copy.asynchronous for copy in copies)
    assert {(c.source.array.name, c.source.width) for c in copies} == {("A", widths[0]), ("B", widths[1])}


def test_elements_too_small_to_be_copied_later_are_copied_at_once(planned):
    copies = {copy.source.array.name: copy for copy in nodes(planned(product(dtype="float16")), Copy)}
    assert not copies["A"].asynchronous
    assert copies["B"].asynchronous


def test_old_targets_copy_without_asking_for_what_they_lack(planned):
    kernel = planned("target: sm_75\n" + product())
    assert not any(copy.asynchronous for copy in nodes(kernel, Copy))
    assert not nodes(kernel, AwaitCopies)


def test_every_access_of_a_product_of_whole_tiles_is_ideal_but_the_copies_that_turn_an_operand(made):
    wide = "family: gemm, block: {m: 64, n: 128}, thread: {m: 8, n: 8}, step: {k: 8}"
    (launch,) = analyze(made(product(128, 64, 128, schedule=wide))).kernels
    turning = [a for a in launch.accesses if a.access.array.symbol == "As" and a.access.kind == "async_copy"]
    assert {a.verdict for a in launch.accesses if a not in turning} == {"ideal"}
    assert {(a.per_request.worst, a.verdict) for a in turning} == {(4, "costly")}


def test_sizes_that_divide_have_no_guard_at_all(made):
    body = made(product(64, 32, 128)).source.split("launch(")[0]
    assert not re.search(r"\b[mn] < [MN]\b|\? 0 :", body)


def test_the_last_tile_reaches_back_and_the_first_step_is_filled_up(made):
    body = made(product(65, 20, 72)).source
    assert "const int m0 = min(blockIdx.y * 32, M - 32);" in body
    assert "? 0 :" not in body.split("for (int k0")[1]


def test_offsets_past_2_to_the_31_are_computed_in_64_bits(made):
    body = made(product(70000, 70000, 70000)).source.split("launch(")[0]
    assert re.findall(r"_from = &(.*?);", body) == ["A[((long long)m0 + a_m) * K + a_k]", "B[b_k * N + n0 + b_n]"]
    copies = re.findall(r"&[ab]_from\[(.*?)\], (?:4|16)", body, re.S)
    assert copies == ["c * K + 8 * stage", "(8 * stage + r) * N", "c * K + ahead", "((long long)r + ahead) * N"]


def test_a_result_that_is_read_is_computed_by_one_block_alone(made):
    body = made(product(becomes="+=")).source
    assert not re.search(r"\b[mn]0 = min\(", body)
    assert "m < M" in body


def test_more_than_the_static_limit_is_carved_out_of_dynamic_memory(planned):
    large = "family: gemm, block: {m: 128, n: 256}, thread: {m: 16, n: 8}, step: {k: 8}, stages: 4"
    kernel = planned(product(256, 64, 256, schedule=large))
    assert kernel.shared_bytes == 0
    assert kernel.dynamic_shared_bytes == 4 * 8 * (132 + 256) * 4


# What is asked for, and refused


def test_a_large_product_without_a_schedule_is_one_of_these_and_a_small_one_is_not(made):
    (large,) = made(product(1024, 1024, 1024, schedule="")).plan.kernels
    (small,) = made(product(100, 100, 100, schedule="")).plan.kernels
    assert (large.family, small.family) == ("gemm", "tiled")
    assert "64 x 128 of the output in each block of" in large.reasons[0]
    assert "multiply-adds" in large.reasons[1]


def test_stages_of_an_operand_ask_for_this_family(made, planned):
    stages = ", memory: {space: shared, stages: 3}"
    kernel = planned(product(a=stages, b=stages, schedule=""))
    assert kernel.family == "gemm"
    assert [tiles(kernel)[name][0] for name in ("As", "Bs")] == [3, 3]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (product(a=", memory: shared"), "several stages of A in flight"),
        (product(a=", memory: {space: shared, stages: 2, swizzle: xor}"), "a swizzle takes apart"),
        (product(a=", memory: {space: shared, stages: 2, pad: 1}"), "a pad of 1 parts rows of A"),
        (
            product(a=", memory: {space: shared, stages: 2}", b=", memory: {space: shared, stages: 3}"),
            "as many stages of one operand as of the other",
        ),
        (product(a=", memory: global"), "kept out of shared memory"),
        (product(schedule="family: gemm, block: {m: 16, n: 16}"), "together with what each thread owns"),
        (product(schedule="family: gemm, block: {m: 16, n: 16}, thread: {m: 1, n: 1}"), "groups of 2 or more"),
        (product(schedule="family: gemm, step: {m: 8}"), "step sizes are for k, not for m"),
        (product(schedule=SMALL + ", slices: 3"), "slices may be 1, 2, 4, 8"),
        (product(schedule=SMALL + ", raster: 2"), "can't be walked 2 at a time"),
        (product(schedule=SMALL + ", lanes: 16"), "warps of 16 lanes"),
        (product(schedule="family: gemm, block: {m: 256, n: 256}, thread: {m: 16, n: 16}"), "a thread's registers"),
        (product(schedule="family: gemm, block: {m: 40, n: 64}, thread: {m: 4, n: 8}"), "fills no warps"),
        (product().replace("n], k)", "n], k, where=k <= m)"), "without a condition"),
    ],
)
def test_what_it_cannot_do_is_refused_with_a_reason(reasons, text, word):
    assert any(word in refusal.reason for refusal in reasons("gemm", text))


def test_candidates_begin_with_the_pick_and_all_can_be_built():
    request = request_of(product(1000, 64, 777, schedule=""))
    assert FAMILY.candidates is not None
    found = list(FAMILY.candidates(request))
    kernel = FAMILY.build(request)
    assert len(found) == len(set(found)) > 100
    assert FAMILY.build(replace(request, schedule=found[0])).block == kernel.block
    for name, values in (
        ("order", {"rows", "columns", "serpentine", "zigzag"}),
        ("reads", {"subscripts", "pointer"}),
        ("copies", {"first", "apart"}),
    ):
        assert {dict(schedule.tunables)[name] for schedule in found} == values
    for schedule in found[::40]:
        assert FAMILY.refusals(replace(request, schedule=schedule)) == ()


def test_candidates_share_sums_in_every_way():
    request = request_of(product(2000, 1000, 3000, schedule=""))
    assert FAMILY.candidates is not None
    found = [schedule for schedule in FAMILY.candidates(request) if "stream" in dict(schedule.tunables)]
    assert {dict(schedule.tunables)["stream"] for schedule in found} == {1, 2}
    for schedule in found[::100]:
        assert FAMILY.refusals(replace(request, schedule=schedule)) == ()


def test_candidates_keep_what_the_spec_fixes():
    request = request_of(product(1000, 64, 777, schedule="stages: 3, step: {k: 16}"))
    assert FAMILY.candidates is not None
    found = list(FAMILY.candidates(request))
    assert {schedule.step for schedule in found} == {(("k", 16),)}
    assert {dict(schedule.tunables)["stages"] for schedule in found} == {3}


@pytest.mark.parametrize("asked", ["join: cluster", "join: workspace", "copies: apart"])
def test_candidates_have_all_words_that_are_asked_for(asked):
    request = request_of("target: sm_90\n" + product(64, 72, 777, schedule=asked))
    assert FAMILY.candidates is not None
    for schedule in list(FAMILY.candidates(request))[::20]:
        assert FAMILY.refusals(replace(request, schedule=schedule)) == ()


def test_candidates_share_sums_in_clusters_and_through_the_workspace():
    assert FAMILY.candidates is not None
    found = list(FAMILY.candidates(request_of(product(64, 7168, 576, schedule="split: 8"))))
    assert {dict(schedule.tunables)["join"] for schedule in found} == {"cluster", "workspace"}


# Long sums

SPLIT = SMALL + ", split: 4"


def test_a_long_sum_of_few_outputs_is_shared_by_several_blocks(planned):
    shared, whole = planned(product(64, 4096, 4096, schedule="")), planned(product(1536, 4096, 2816, schedule=""))
    alone = planned(product(64, 4096, 4096, schedule="split: 1"))
    assert shared.workspace or shared.cluster > 1
    assert not any(kernel.workspace or kernel.cluster > 1 for kernel in (whole, alone))


def test_a_sum_that_cannot_be_cut_into_equal_parts_is_not_shared_through_the_workspace(planned, reasons):
    unasked = planned(product(64, 4093, 4096, schedule=""))
    assert not any("blocks share the sums of a tile" in reason for reason in unasked.reasons)
    found = reasons("gemm", product(64, 4093, 4096, schedule="split: 4, join: workspace"))
    assert any("no whole steps" in refusal.reason for refusal in found)


def test_sums_that_are_stored_as_they_stand_are_times_a_one_that_the_compiler_does_not_know(made):
    text = "const float one = blockDim.z;"
    assert text in made(product(schedule=SMALL)).source
    assert text in made(product(dtype="float16", schedule=SMALL + ", slices: 2")).source
    for other in (product(dtype="float16"), product(dtype="int32"), product(dtype="float64"), EPILOGUE):
        assert text not in made(other).source


# That it is right


def test_edges_are_free_of_races(prove):
    prove(product(33, 17, 65), races=True)


def test_slices_do_not_leave_sums_where_copies_are_still_to_come(prove):
    prove(product(33, 5, 65, schedule=SMALL + ", slices: 2, stages: 4"), races=True)


@pytest.mark.parametrize(
    "text",
    [
        product(100, 20, 68, turned="ab", schedule=SMALL + ", slices: 2, order: rows"),
        product(65, 24, 72, dtype="float16", becomes="+=", schedule=SMALL + ", stages: 2, order: columns"),
    ],
)
def test_edges_are_right(prove, text):
    prove(text)


def test_any_size_of_a_dynamic_product_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(product(sizes, sizes, sizes)), CpuDevice())


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


def test_what_follows_the_sum_of_a_batch_is_right(prove):
    prove(EPILOGUE)


@pytest.mark.slow
def test_what_follows_the_sums_of_slices_is_right(prove):
    prove(EPILOGUE.replace("step: {k: 8}", "step: {k: 8}, slices: 2"), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 100, 67), (31, 7, 127), (63, 1, 63), (64, 8, 64), (101, 129, 131)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_odd_sizes_of_every_transpose_are_right(prove, sizes, turned):
    m, k, n = sizes
    block = "family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 8}, step: {k: 8}"
    prove(product(m, k, n, turned=turned), races=True)
    prove(product(m, k, n, turned=turned, schedule=block), sanitize=True)


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
    prove(product(33, 17, 67, dtype=dtype), sanitize=True)
    prove(product(65, 40, 72, dtype=dtype, turned="ab", schedule=SMALL + ", slices: 2"), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("turned", ["", "ab"])
def test_parts_of_sums_are_right(prove, turned):
    prove(product(33, 64, 65, turned=turned, schedule=SPLIT), races=True)
    prove(product(64, 64, 64, turned=turned, dtype="float16", schedule=SPLIT + ", slices: 2"), sanitize=True)


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
    prove(product(a=a, b=b, c=c), races=True)
    prove(product(33, 19, 67, a=a, b=b, c=c, schedule=SMALL + ", slices: 4, stages: 2"), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        *(f"stages: {n}" for n in (2, 3, 5)),
        *(f"slices: {n}" for n in (2, 4)),
        *(f"order: {order}" for order in ("rows", "columns", "serpentine", "zigzag")),
        "reads: pointer",
        "copies: apart",
        "copies: apart, reads: pointer, order: zigzag",
        *(f"lanes: {n}" for n in (2, 4, 8)),
        "raster: 2",
        "raster: 4",
        "blocks: 2",
    ],
)
def test_every_tunable_is_right(prove, more):
    shape = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 16}, "
    prove(product(128, 40, 72, schedule=shape + more), races=True)
    prove(product(121, 37, 71, schedule=shape + more), sanitize=True)


@pytest.mark.slow
def test_reruns_give_the_same_bits(made):
    kernel = made(product(65, 40, 72, schedule=SMALL + ", slices: 2"))
    results = []
    for seed in (1, 2):
        device = CpuDevice(shuffle=seed, workers=1)
        run = verify(kernel.spec, kernel.source, kernel.manifest, device)
        results.append(run.outcome.buffers["C"].tobytes())
    assert results[0] == results[1]
