"""The synchronisation of every wgmma kernel is proved, and of none with a planted fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.families.gemm.wgmma.selection import BLOCK_M, BLOCK_N
from cugen.machine.wgmma import WARPGROUP
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import (
    Barrier,
    ClusterBarrier,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Loop,
    NamedBarrier,
    Node,
    Store,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import (
    ArriveBarrier,
    AwaitBarrier,
    AwaitTensorStores,
    AwaitWgmmas,
    CommitTensorStores,
    CommitWgmmas,
    FenceBarrierInit,
    FenceProxy,
    FenceWgmma,
    InitBarrier,
    SetMaxRegisters,
    TensorLoad,
    TensorStore,
    Wgmma,
)
from cugen.plan.symbols import BitXor, Mod, integer, symbol
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

from .conftest import changed, gemm, nodes_of, nth, proof_of, refuted, with_expressions, with_subscripts

SYNCHRONISATION = (
    InitBarrier,
    FenceBarrierInit,
    ArriveBarrier,
    AwaitBarrier,
    TensorLoad,
    TensorStore,
    CommitTensorStores,
    AwaitTensorStores,
    FenceProxy,
    FenceWgmma,
    CommitWgmmas,
    AwaitWgmmas,
    Barrier,
    NamedBarrier,
)
# Persistent with one consumer, two, and three; of MN-major operands; without TMA stores; with one tile for a block;
# with wgmmas that the last k-tile leaves out.
KERNELS = {
    "one consumer": lambda: gemm(schedule="block: {m: 64, n: 256}"),
    "two consumers": lambda: gemm(schedule="block: {m: 128, n: 192}, stages: 3"),
    "three consumers": lambda: gemm(schedule="block: {m: 192, n: 96}"),
    "two matrices": lambda: gemm(schedule="block: {m: 256, n: 96}, stages: 2"),
    "parts of an odd number": lambda: gemm(schedule="block: {m: 128, n: 80}"),
    "MN-major": lambda: gemm(layouts="KM KN"),
    "stores of registers": lambda: gemm(types=("bfloat16", "float32")),
    "one tile": lambda: gemm(256, 256, 4096, schedule="block: {m: 64, n: 128}, split_k: 1"),
    "a short k-tile": lambda: gemm(k=200),
}
# Without a refill of stages; with K split by a cluster, whose partial sums are in the memory of the stages; with tiles
# of B that the blocks of a cluster copy for each other; with sums that threads add in float32; with swapped operands.
FORMS = {
    "no refill": lambda: gemm(256, 256, 192, schedule="block: {m: 64, n: 128}"),
    "split-K": lambda: gemm(64, 256, 4096, schedule="block: {m: 64, n: 64}, split_k: 4"),
    "unequal split-K": lambda: gemm(128, 256, 1104, schedule="block: {m: 128, n: 64}, split_k: 4, stages: 3"),
    "matrices stored": lambda: gemm(schedule="block: {m: 128, n: 192}, epilogue: stmatrix"),
    "swapped operands": lambda: gemm(layouts="MK KN", schedule="block: {m: 152, n: 192}, swap_ab: true"),
    "swapped operands of MN-major tiles": lambda: gemm(
        layouts="KM KN", schedule="block: {m: 248, n: 128}, swap_ab: true, multicast: 2"
    ),
    "multicast": lambda: gemm(layouts="MK NK", schedule="block: {m: 128, n: 256}, multicast: 2"),
    "MN-major multicast": lambda: gemm(layouts="KM KN", schedule="block: {m: 128, n: 256}, multicast: 2"),
    "float8": lambda: gemm(types=("float8_e4m3", "float32"), schedule="block: {m: 128, n: 192}"),
    "a short k-tile of float8": lambda: gemm(
        k=160, types=("float8_e4m3", "float32"), schedule="block: {m: 128, n: 192}"
    ),
    "a short k-tile of split-K": lambda: gemm(64, 256, 520, schedule="block: {m: 64, n: 64}, split_k: 4, stages: 2"),
    "split-K of elements that threads share unequally": lambda: gemm(
        256, 512, 7264, schedule="block: {m: 128, n: 80}, split_k: 4"
    ),
}


@pytest.mark.parametrize("kernel", (KERNELS | FORMS).values(), ids=KERNELS | FORMS)
def test_every_form_of_the_kernel_is_proved(kernel):
    proof = proof_of(kernel())
    assert proof.verdict == "proved", proof.line


def test_what_is_proved_names_its_sizes():
    assert "for 64 k-tiles and every number of tiles: 5 stages" in proof_of(KERNELS["one consumer"]()).line
    dynamic = gemm("dynamic", "{multiple_of: 8}", "{multiple_of: 8, range: [8, 4096]}")
    assert "for every K and number of tiles" in proof_of(dynamic).line
    assert "for at most 3 k-tiles: 3 stages, none is refilled" in proof_of(FORMS["no refill"]()).line


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.tuples(*(st.integers(1, 70).map(lambda n: 8 * n) for _ in "mn"), st.integers(1, 90).map(lambda n: 16 * n)),
    st.sampled_from(["MK NK", "KM KN", "MK KN", "KM NK"]),
    st.sampled_from([("bfloat16", "bfloat16"), ("float16", "float32"), ("int8", "int32"), ("float32", "float32")]),
    st.sampled_from(BLOCK_M),
    st.sampled_from(BLOCK_N),
    st.integers(2, 16),
    st.sampled_from([0, 3]),
    st.sampled_from(["", "split_k: 1, ", "split_k: 2, ", "split_k: 4, ", "multicast: 2, "]),
)
def test_every_config_of_drawn_shapes_is_proved(sizes, layouts, types, block_m, block_n, stages, batch, split):
    try:
        kernel = gemm(*sizes, types, layouts, f"{split}block: {{m: {block_m}, n: {block_n}}}, stages: {stages}", batch)
    except SpecError:
        assume(False)
    proof = proof_of(kernel)
    assert proof.verdict == "proved", proof.line
    assert f"{stages} stages" in proof.line


def test_sizes_that_are_known_at_launch_are_proved():
    assert proof_of(gemm("dynamic", "{multiple_of: 8}", "{multiple_of: 8, range: [8, 4096]}")).verdict == "proved"


def test_a_k_that_may_be_0_at_launch_is_refuted():
    """The last k-tile is released where there is none."""
    kernel = gemm("dynamic", "{multiple_of: 8}", "{multiple_of: 8, range: [8, 4096]}")
    ranges = tuple((name, (0, 4096)) if name == symbol("K") else (name, known) for name, known in kernel.ranges)
    assert refuted(replace(kernel, ranges=ranges)) == ["order"]


def test_a_kernel_without_mbarriers_has_no_proof():
    (spec,) = load_text(
        "cugen: 1\nkernel: twice\nparams: {N: 64}\narrays:\n  x: {shape: [N], dtype: float32}\n"
        "  y: {shape: [N], dtype: float32}\ncompute: y[i] = 2 * x[i]\n"
    )
    assert prove_pipeline(make_plan(spec).kernels[0]) is None


# Planted faults


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", SYNCHRONISATION, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["one consumer", "two consumers", "two matrices", "MN-major"])
def test_no_kernel_that_lacks_one_of_its_nodes_is_proved(name, kind):
    kernel = KERNELS[name]()
    count = len(nodes_of(kernel, kind))
    assert count > 0
    for position in range(count):
        assert refuted(nth(kernel, kind, position, lambda node: ())), position


@pytest.mark.sampled(3)
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_the_other_parity_is_refuted_at_the_first_k_tile(name, position):
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, AwaitBarrier)
        return (replace(node, parity=Mod(node.parity + 1, integer(2))),)

    proof = proof_of(nth(KERNELS[name](), AwaitBarrier, position, planted))
    assert [(c.name, c.k_tile, c.stage) for c in proof.claims if c.verdict == "refuted"] == [("phases", 0, 0)]


def test_a_constant_parity_is_refuted_at_the_second_round_of_the_stages():
    kernel = gemm(schedule="block: {m: 128, n: 192}, stages: 3")
    proof = proof_of(nth(kernel, AwaitBarrier, 1, lambda node: (replace(node, parity=integer(0)),)))
    assert [(c.name, c.k_tile, c.stage) for c in proof.claims if c.verdict == "refuted"] == [("phases", 3, 0)]


@pytest.mark.parametrize("more", [-1, 1, 124])
@pytest.mark.parametrize("position", [0, 1])
def test_another_number_of_arrivals_is_refuted(position, more):
    kernel = nth(gemm(), InitBarrier, position, lambda node: (replace(node, arrivals=node.arrivals + more),))
    assert refuted(kernel) == ["arrivals"]


@pytest.mark.parametrize("more", [-16, 16])
def test_other_bytes_than_those_of_the_boxes_are_refuted(more):
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, ArriveBarrier)
        assert node.expected_bytes is not None
        return (replace(node, expected_bytes=node.expected_bytes + more),)

    assert refuted(nth(gemm(), ArriveBarrier, 0, planted)) == ["bytes"]


@pytest.mark.slow
@given(st.data())
def test_a_subscript_of_another_stage_is_refuted(data):
    """Of one node, by a shift or with another period."""
    kernel = KERNELS[data.draw(st.sampled_from(["one consumer", "two consumers", "one tile"]))]()
    kind = data.draw(st.sampled_from([ArriveBarrier, AwaitBarrier, TensorLoad, Wgmma]))
    position = data.draw(st.integers(0, len(nodes_of(kernel, kind)) - 1))
    stages = int(nodes_of(kernel, AwaitBarrier)[0].barrier.array.shape[0])
    shift = data.draw(st.integers(1, stages - 1))
    operands = {TensorLoad: ("target", "barrier"), Wgmma: ("a", "b")}.get(kind, ("barrier",))
    operand = data.draw(st.sampled_from(operands))
    change = data.draw(
        st.sampled_from(
            [lambda stage: Mod(stage + shift, integer(stages)), lambda stage: Mod(stage, integer(stages - 1))]
        )
    )

    def planted(node: Node) -> tuple[Node, ...]:
        return (replace(node, **{operand: with_subscripts(getattr(node, operand), change)}),)

    assert proof_of(nth(kernel, kind, position, planted)).verdict != "proved"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", [AwaitWgmmas, AwaitTensorStores])
def test_a_wait_that_leaves_one_more_group_pending_is_refuted(name, kind):
    kernel = KERNELS[name]()
    for position in range(len(nodes_of(kernel, kind))):
        if name == "one tile" and kind is AwaitTensorStores:
            continue  # no more chunks than buffers
        assert refuted(nth(kernel, kind, position, lambda node: (replace(node, pending=node.pending + 1),))), position


def test_a_wait_for_all_groups_is_proved():
    for kind in (AwaitWgmmas, AwaitTensorStores):
        assert proof_of(nth(gemm(), kind, 0, lambda node: (replace(node, pending=0),))).verdict == "proved"


def of_lane_and_k_tile(node: Node) -> bool:
    """Whether a node is the branch that releases the stage of the k-tile before."""
    return isinstance(node, If) and isinstance(node.condition, Guard) and len(node.condition.terms) == 2


def test_a_release_in_the_first_k_tile_is_refuted():
    def without_k_tile(node: Node) -> tuple[Node, ...] | None:
        return (replace(node, condition=Guard(node.condition.terms[1:])),) if of_lane_and_k_tile(node) else None

    assert "arrivals" in refuted(changed(gemm(), without_k_tile))


def test_a_release_from_the_third_k_tile_on_is_refuted():
    def later(node: Node) -> tuple[Node, ...] | None:
        if not of_lane_and_k_tile(node):
            return None
        k_tile, lane = node.condition.terms
        return (replace(node, condition=Guard((replace(k_tile, right=k_tile.right + 64), lane))),)

    assert "arrivals" in refuted(changed(gemm(), later))


def test_a_release_by_all_lanes_is_refuted():
    def by_all(node: Node) -> tuple[Node, ...] | None:
        return (replace(node, condition=Guard(node.condition.terms[:1])),) if of_lane_and_k_tile(node) else None

    assert refuted(changed(gemm(), by_all)) == ["arrivals"]


def test_a_release_by_one_warp_for_all_is_refuted_though_the_count_is_right():
    def by_four_lanes(node: Node) -> tuple[Node, ...] | None:
        if not of_lane_and_k_tile(node):
            return None
        first_four = Comparison(symbol("threadIdx.x"), "<", integer(4))
        return (replace(node, condition=Guard((node.condition.terms[0], first_four))),)

    assert refuted(changed(gemm(), by_four_lanes)) == ["arrivals"]


def test_a_release_of_the_current_k_tile_is_refuted():
    """Its stage is released before the wgmmas that read it are complete."""
    kernel = nth(
        gemm(),
        ArriveBarrier,
        1,
        lambda node: (replace(node, barrier=with_subscripts(node.barrier, lambda stage: symbol("stage"))),),
    )
    assert {"arrivals", "reads"} <= set(refuted(kernel))


def moved(kernel: Kernel, kind: type, position: int, before: type, number: int) -> Kernel:
    """The kernel with one node moved in front of another."""
    node = nodes_of(kernel, kind)[position]
    return nth(nth(kernel, kind, position, lambda _: ()), before, number, lambda target: (node, target))


def test_a_release_in_front_of_the_wait_for_its_readers_is_refuted():
    kernel = gemm()
    release = next(node for node in nodes_of(kernel, If) if of_lane_and_k_tile(node))
    kernel = changed(kernel, lambda node: () if node is release else None)
    kernel = nth(kernel, AwaitWgmmas, 0, lambda node: (release, node))
    assert refuted(kernel) == ["reads"]


def test_waits_behind_their_uses_are_refuted():
    behind_copies = moved(gemm(), ArriveBarrier, 0, AwaitBarrier, 0)
    assert refuted(behind_copies) == ["phases"]
    kernel = gemm()
    wait = nodes_of(kernel, AwaitBarrier)[1]
    kernel = nth(nth(kernel, AwaitBarrier, 1, lambda _: ()), CommitWgmmas, 0, lambda node: (node, wait))
    assert refuted(kernel) == ["phases"]


def test_a_commit_in_front_of_its_wgmmas_is_refuted():
    kernel = moved(gemm(), CommitWgmmas, 0, FenceWgmma, 0)
    assert "reads" in refuted(kernel)


def of_long_k_tiles(node: Node) -> bool:
    """Whether a node is the branch with wgmmas that the last k-tile leaves out."""
    return isinstance(node, If) and any(isinstance(inner, CommitWgmmas) for inner in node.then)


@pytest.mark.parametrize("position", [0, 1])
def test_no_kernel_that_lacks_the_commit_of_a_group_is_proved(position):
    """Of each k-tile, and of all but the last."""
    assert "reads" in refuted(nth(gemm(k=200), CommitWgmmas, position, lambda _: ()))


def test_a_group_of_some_k_tiles_does_not_count_in_others():
    """Two groups may be pending of all k-tiles but the last, whose stage may be overwritten then."""
    kernel = gemm(k=200)
    wait = nodes_of(kernel, AwaitWgmmas)[0]
    assert refuted(nth(kernel, AwaitWgmmas, 0, lambda _: (replace(wait, pending=2),))) == ["reads"]


def test_a_group_of_some_threads_is_not_proved():
    def by_half(node: Node) -> tuple[Node, ...] | None:
        half = Comparison(symbol("threadIdx.x"), "<", integer(64))
        return (replace(node, condition=Guard((half,))),) if of_long_k_tiles(node) else None

    assert proof_of(changed(gemm(k=200), by_half)).verdict != "proved"


def test_a_wait_in_some_k_tiles_is_not_proved():
    kernel = gemm(k=200)
    wait = nodes_of(kernel, AwaitWgmmas)[0]

    def inside(node: Node) -> tuple[Node, ...] | None:
        return (replace(node, then=(*node.then, wait)),) if of_long_k_tiles(node) else None

    assert proof_of(changed(nth(kernel, AwaitWgmmas, 0, lambda _: ()), inside)).verdict != "proved"


def with_loop(kernel: Kernel, name: str, position: int, change) -> Kernel:
    """The kernel with the header of one of the loops over an index changed."""
    count = -1

    def change_one(node: Node) -> tuple[Node, ...] | None:
        nonlocal count
        if not isinstance(node, For) or node.loop.index.name != name:
            return None
        count += 1
        return (replace(node, loop=change(node.loop)),) if count == position else None

    return changed(kernel, change_one)


@pytest.mark.parametrize("name", ["k0", "tile"])
def test_loops_of_different_length_are_refuted(name):
    def shorter(loop: Loop) -> Loop:
        return replace(loop, stop=loop.stop - 64)

    assert "order" in refuted(with_loop(gemm(), name, 0, shorter))


def test_numbers_that_start_at_0_in_each_output_tile_are_not_proved():
    def without_wave(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, Define) or node.then is None or node.index.name == "wave":
            return None
        definition = node.index.definition.xreplace({symbol("wave"): integer(0)})
        return (replace(node, index=replace(node.index, definition=definition)),)

    assert proof_of(changed(gemm(), without_wave)).verdict != "proved"


@pytest.mark.parametrize("name", ["stage", "full_parity", "empty_parity"])
@pytest.mark.parametrize("then", [lambda counter: counter, lambda counter: BitXor(counter, 1), lambda _: integer(0)])
def test_counters_with_other_values_than_their_definitions_are_not_proved(name, then):
    def counting_otherwise(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, Define) or node.then is None or node.index.name != name:
            return None
        return (replace(node, then=then(node.index.symbol)),)

    assert proof_of(changed(gemm(), counting_otherwise)).verdict == "unknown"


def test_a_collective_instruction_of_a_part_of_a_warpgroup_is_refuted():
    def for_some(node: Node) -> tuple[Node, ...]:
        return (If(Guard((Comparison(symbol("threadIdx.x"), "<", integer(96)),)), (node,)),)

    for kind in (FenceWgmma, CommitWgmmas, AwaitWgmmas, NamedBarrier):
        assert "convergence" in refuted(nth(gemm(), kind, 0, for_some)), kind


def test_matrices_that_a_part_of_a_warp_stores_are_refuted():
    def for_some(node: Node) -> tuple[Node, ...]:
        return (If(Guard((Comparison(symbol("threadIdx.x"), "<", integer(80)),)), (node,)),)

    kernel = FORMS["matrices stored"]()
    assert "convergence" in refuted(nth(kernel, StoreMatrix, 0, for_some))


@pytest.mark.parametrize("kind", [FenceProxy, NamedBarrier, TensorStore, CommitTensorStores, AwaitTensorStores])
def test_stored_matrices_need_what_stored_pairs_do(kind):
    kernel = FORMS["matrices stored"]()
    for position in range(len(nodes_of(kernel, kind))):
        assert "stores" in refuted(nth(kernel, kind, position, lambda node: ())), position


def test_a_barrier_of_the_block_in_a_role_is_refuted():
    kernel = nth(gemm(), FenceWgmma, 0, lambda node: (Barrier(), node))
    assert "convergence" in refuted(kernel)


def test_a_named_barrier_of_fewer_threads_is_refuted():
    kernel = nth(gemm(), NamedBarrier, 0, lambda node: (replace(node, threads=WARPGROUP - 32),))
    assert refuted(kernel) == ["convergence"]


def test_one_named_barrier_of_all_warpgroups_is_refuted():
    kernel = KERNELS["two consumers"]()
    assert "convergence" in refuted(nth(kernel, NamedBarrier, 0, lambda node: (replace(node, number=integer(0)),)))


def test_barriers_used_in_front_of_the_barrier_of_the_block_are_refuted():
    kernel = gemm()
    kernel = nth(nth(kernel, Barrier, 0, lambda _: ()), FenceWgmma, 0, lambda node: (node,))
    assert refuted(kernel) == ["initialisation"]


def test_two_store_buffers_do_not_alternate_across_tiles_of_nine_chunks():
    """The second output tile begins with the buffer of the last store, which one pending group doesn't cover."""

    def alternate(node: Node) -> tuple[Node, ...] | None:
        def planted(expr: sympy.Expr) -> sympy.Expr:
            return expr.replace(lambda e: isinstance(e, Mod) and e.args[1] == 3, lambda e: Mod(e.args[0], integer(2)))

        return (with_expressions(node, planted),) if hasattr(node, "access") or isinstance(node, TensorStore) else None

    kernel = changed(gemm(schedule="block: {m: 128, n: 144}"), alternate)
    kernel = nth(kernel, AwaitTensorStores, 0, lambda node: (replace(node, pending=1),))
    (claim,) = (c for c in proof_of(kernel).claims if c.verdict == "refuted")
    assert claim.name == "stores"
    assert "output tile 1" in claim.reason
    right = nth(kernel, AwaitTensorStores, 0, lambda node: (replace(node, pending=0),))
    assert proof_of(right).verdict == "proved"


def test_a_tile_that_is_stored_at_once_waits_for_the_stores_of_the_one_before():
    kernel = gemm(schedule="block: {m: 128, n: 128}, stages: 3")
    assert len(nodes_of(kernel, AwaitTensorStores)) == 2  # before the parts are written, and before the block exits
    assert refuted(nth(kernel, AwaitTensorStores, 0, lambda _: ())) == ["stores"]
    assert refuted(nth(kernel, AwaitTensorStores, 1, lambda _: ())) == ["stores"]


def test_a_thread_that_copies_first_needs_the_fence_of_its_barriers():
    """It initialises them, so it waits for no barrier of the block; the consumers do."""
    kernel = FORMS["no refill"]()
    assert refuted(nth(kernel, FenceBarrierInit, 0, lambda _: ())) == ["initialisation"]
    assert refuted(nth(kernel, Barrier, 0, lambda _: ())) == ["initialisation"]


def test_tiles_of_five_parts_do_not_all_begin_with_the_same_of_two_buffers():
    """The numbers of the parts go on from tile to tile: the last part of one and the first of the next have others."""

    def restart(node: Node) -> tuple[Node, ...] | None:
        def planted(expr: sympy.Expr) -> sympy.Expr:
            return expr.replace(
                lambda e: isinstance(e, Mod) and e.args[1] == 2 and e.has(symbol("wave")),
                lambda e: Mod(e.args[0].xreplace({symbol("wave"): integer(0)}), integer(2)),
            )

        is_store = isinstance(node, TensorStore) or (isinstance(node, Store) and node.access.array.space == "shared")
        return (with_expressions(node, planted),) if is_store else None

    kernel = KERNELS["parts of an odd number"]()
    assert refuted(changed(kernel, restart)) == ["stores"]
    buffers = {str(node.source.subscripts[1]) for node in nodes_of(kernel, TensorStore)}
    assert all("wave" in buffer for buffer in buffers)


def test_arrays_that_overlap_in_shared_memory_are_refuted():
    def lower(node: Node) -> tuple[Node, ...] | None:
        array = getattr(node, "array", None)
        if array is None or array.symbol != "Bs":
            return None
        return (replace(node, array=replace(array, dynamic_offset=array.dynamic_offset - 1024)),)

    assert refuted(changed(gemm(), lower)) == ["shared memory"]


def test_a_refill_without_a_wait_is_refuted():
    """Of one stage less than there are k-tiles."""
    kernel = FORMS["no refill"]()
    assert refuted(with_loop(with_loop(kernel, "k0", 0, one_more), "k0", 1, one_more)) == ["phases"]


def one_more(loop: Loop) -> Loop:
    return replace(loop, stop=loop.stop + 64)


def test_the_last_k_tile_of_the_only_output_tile_needs_no_release():
    """No copy waits for it."""
    kernel = KERNELS["one tile"]()
    assert len(nodes_of(kernel, ArriveBarrier)) == 2  # the producer's, and the release of the k-tile before
    assert refuted(nth(kernel, ArriveBarrier, 1, lambda node: ())) == ["arrivals"]


@pytest.mark.parametrize("name", ["split-K", "unequal split-K"])
def test_partial_sums_in_the_memory_of_stages_that_others_may_read_are_refuted(name):
    kernel = FORMS[name]()
    assert refuted(nth(kernel, NamedBarrier, 0, lambda node: ())) == ["shared memory"]
    early = nth(kernel, AwaitWgmmas, 1, lambda node: ())
    assert {"shared memory", "reads"} & set(refuted(early))


def test_sums_that_threads_add_while_wgmmas_write_them_are_refuted():
    kernel = FORMS["float8"]()
    assert "accumulators" in refuted(nth(kernel, AwaitWgmmas, 0, lambda node: ()))
    assert "accumulators" in refuted(nth(kernel, FenceWgmma, 0, lambda node: ()))


@pytest.mark.parametrize("position", [0, 1])
def test_a_cluster_that_lacks_one_of_its_barriers_is_refuted(position):
    """Before the reads of others' shared memory, and before the exit."""
    kernel = FORMS["split-K"]()
    assert len(nodes_of(kernel, ClusterBarrier)) == 2
    assert refuted(nth(kernel, ClusterBarrier, position, lambda node: ())) == ["clusters"]
    for_some = Guard((Comparison(symbol("threadIdx.x"), "<", integer(128)),))
    some = nth(kernel, ClusterBarrier, position, lambda node: (If(for_some, (node,)),))
    assert refuted(some) == ["convergence"]


def test_an_arrival_at_its_own_block_alone_is_refuted_where_others_copy_to_its_stages():
    kernel = FORMS["multicast"]()
    for position in (1, 2):
        local = nth(kernel, ArriveBarrier, position, lambda node: (replace(node, rank=None),))
        assert refuted(local) == ["arrivals"]
        first = nth(kernel, ArriveBarrier, position, lambda node: (replace(node, rank=integer(0)),))
        assert proof_of(first).verdict != "proved"


def test_a_multicast_counts_at_every_block():
    kernel = nth(FORMS["multicast"](), TensorLoad, 1, lambda node: (replace(node, blocks=1),))
    assert "bytes" in refuted(kernel)


@pytest.mark.parametrize(("position", "claim"), [(0, "initialisation"), (1, "clusters")])
def test_a_multicast_needs_barriers_of_the_cluster(position, claim):
    """Not of the block alone."""
    kernel = FORMS["multicast"]()
    assert refuted(nth(kernel, ClusterBarrier, position, lambda node: (Barrier(),))) == [claim]
    assert refuted(nth(kernel, ClusterBarrier, position, lambda node: ())) == [claim]


def test_blocks_of_a_cluster_with_other_tiles_are_not_proved():
    def of_the_block(loop: Loop) -> Loop:
        return replace(loop, start=symbol("blockIdx.x"))

    kernel = FORMS["multicast"]()
    assert proof_of(with_loop(with_loop(kernel, "tile", 0, of_the_block), "tile", 1, of_the_block)).verdict != "proved"


# Registers that the producer gives to the consumers, in `float8`


def with_count(count: int):
    return lambda node: (replace(node, count=count),)


GIVES, TAKES = 0, 1  # the positions of these statements


def test_consumers_that_take_more_registers_than_the_producer_gives_are_refuted():
    """They would wait forever: 384 threads are launched with 168."""
    kernel = FORMS["float8"]()
    assert [node.count for node in nodes_of(kernel, SetMaxRegisters)] == [40, 232]
    assert refuted(nth(kernel, SetMaxRegisters, TAKES, with_count(240))) == ["registers"]
    assert refuted(nth(kernel, SetMaxRegisters, GIVES, with_count(48))) == ["registers"]
    assert refuted(nth(kernel, SetMaxRegisters, GIVES, lambda node: ())) == ["registers"]
    both = nth(nth(kernel, SetMaxRegisters, GIVES, with_count(24)), SetMaxRegisters, TAKES, with_count(240))
    assert proof_of(both).verdict == "proved"


def test_registers_that_nobody_takes_are_proved():
    assert proof_of(nth(FORMS["float8"](), SetMaxRegisters, TAKES, lambda node: ())).verdict == "proved"


@pytest.mark.parametrize("count", [16, 44, 160, 264])
def test_a_number_of_registers_that_no_thread_can_have_or_that_is_no_increase_is_refuted(count):
    assert "registers" in refuted(nth(FORMS["float8"](), SetMaxRegisters, TAKES, with_count(count)))


def test_registers_of_a_part_of_a_warpgroup_are_refuted():
    def by_three_warps(node: Node) -> tuple[Node, ...]:
        return (If(Guard((Comparison(Mod(symbol("threadIdx.x"), integer(128)), "<", integer(96)),)), (node,)),)

    for position in (GIVES, TAKES):
        assert refuted(nth(FORMS["float8"](), SetMaxRegisters, position, by_three_warps)) == ["registers"]


def test_registers_that_are_given_after_a_wait_or_in_every_tile_are_not_proved():
    kernel = FORMS["float8"]()
    give, take = nodes_of(kernel, SetMaxRegisters)
    kernel = nth(kernel, SetMaxRegisters, GIVES, lambda node: ())
    in_tile = nth(kernel, AwaitBarrier, 0, lambda node: (give, node))
    assert proof_of(in_tile).verdict != "proved"
    kernel = nth(FORMS["float8"](), SetMaxRegisters, TAKES, lambda node: ())
    after_wait = nth(kernel, AwaitBarrier, 1, lambda node: (node, take))
    assert proof_of(after_wait).verdict != "proved"
