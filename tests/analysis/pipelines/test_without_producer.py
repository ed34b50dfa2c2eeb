"""Pipelines whose stages a thread of the consumers refills, behind barriers of the block, are proved, and no planted
fault is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cugen.families.gemm.wgmma.selection import BLOCK_M, BLOCK_N
from cugen.plan.nodes import Barrier, Comparison, Define, For, Guard, If, Node
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, AwaitWgmmas, CommitWgmmas, InitBarrier, TensorLoad
from cugen.plan.symbols import Mod, integer, symbol
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.diagnostics import SpecError
from tests.drawn import examples

from .conftest import changed, gemm, nodes_of, nth, proof_of, refuted
from .test_proof import SYNCHRONISATION

KERNELS = {
    "two warpgroups": lambda: gemm(schedule="producer: none, block: {m: 128, n: 256}"),
    "one warpgroup": lambda: gemm(schedule="producer: none, block: {m: 64, n: 64}, stages: 2"),
    "MN-major": lambda: gemm(layouts="KM KN", schedule="producer: none, block: {m: 128, n: 128}"),
    "float8": lambda: gemm(types=("float8_e4m3", "bfloat16"), schedule="producer: none, block: {m: 128, n: 128}"),
    "sizes of the call": lambda: gemm(
        "dynamic",
        "{multiple_of: 8}",
        "{multiple_of: 8, range: [8, 4096]}",
        schedule="producer: none, block: {m: 128, n: 256}",
    ),
}
FORMS = {
    "three warpgroups": lambda: gemm(schedule="producer: none, block: {m: 192, n: 96}"),
    "stores of registers": lambda: gemm(types=("int8", "int32"), schedule="producer: none, block: {m: 256, n: 96}"),
    "a short k-tile": lambda: gemm(k=200, schedule="producer: none, block: {m: 128, n: 128}, stages: 3"),
    "no refill": lambda: gemm(256, 256, 128, schedule="producer: none, block: {m: 64, n: 64}, stages: 4"),
}


@pytest.mark.parametrize("kernel", (KERNELS | FORMS).values(), ids=KERNELS | FORMS)
def test_every_form_is_proved(kernel) -> None:
    proof = proof_of(kernel())
    assert proof.verdict == "proved", proof.line


def test_what_is_proved_names_its_sizes() -> None:
    text = "for 64 k-tiles and every number of tiles: 4 stages, each refilled behind a barrier of the block"
    assert text in proof_of(KERNELS["two warpgroups"]()).line
    assert "for every K and number of tiles: 4 stages, each refilled" in proof_of(KERNELS["sizes of the call"]()).line
    assert "for at most 2 k-tiles: 4 stages, none is refilled" in proof_of(FORMS["no refill"]()).line


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    st.tuples(*(st.integers(1, 70).map(lambda n: 8 * n) for _ in "mn"), st.integers(1, 90).map(lambda n: 16 * n)),
    st.sampled_from(["MK NK", "KM KN", "MK KN", "KM NK"]),
    st.sampled_from([("bfloat16", "bfloat16"), ("float16", "float32"), ("int8", "int32"), ("float32", "float32")]),
    st.sampled_from(BLOCK_M),
    st.sampled_from(BLOCK_N),
    st.integers(2, 16),
    st.sampled_from([0, 3]),
)
def test_every_config_of_drawn_shapes_is_proved(sizes, layouts, types, block_m, block_n, stages, batch) -> None:
    schedule = f"producer: none, block: {{m: {block_m}, n: {block_n}}}, stages: {stages}"
    try:
        kernel = gemm(*sizes, types, layouts, schedule, batch)
    except SpecError:
        assume(False)
    proof = proof_of(kernel)
    assert proof.verdict == "proved", proof.line


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", SYNCHRONISATION, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_that_lacks_one_of_its_nodes_is_proved(name: str, kind: type) -> None:
    kernel = KERNELS[name]()
    count = len(nodes_of(kernel, kind))
    assert count > 0
    for position in range(count):
        assert refuted(nth(kernel, kind, position, lambda node: ())), position


def test_the_other_parity_is_refuted() -> None:
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, AwaitBarrier)
        return (replace(node, parity=Mod(node.parity + 1, integer(2))),)

    assert refuted(nth(KERNELS["two warpgroups"](), AwaitBarrier, 0, planted)) == ["phases"]


def test_another_number_of_arrivals_is_refuted() -> None:
    for more in (1, 127):
        kernel = KERNELS["two warpgroups"]()
        planted = nth(kernel, InitBarrier, 0, lambda node, more=more: (replace(node, arrivals=node.arrivals + more),))
        assert refuted(planted) == ["arrivals"]


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("more", [-16, 16])
def test_other_bytes_than_those_of_the_boxes_are_refuted(position: int, more: int) -> None:
    """Of the first copies, and of those in the main loop."""

    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, ArriveBarrier)
        assert node.expected_bytes is not None
        return (replace(node, expected_bytes=node.expected_bytes + more),)

    assert refuted(nth(KERNELS["two warpgroups"](), ArriveBarrier, position, planted)) == ["bytes"]


def copies(nodes: tuple[Node, ...]) -> bool:
    return any(isinstance(node, TensorLoad) for node in walk_nodes(dissolved(nodes)))


def is_refill(node: Node) -> bool:
    """Whether a node is the branch that refills a stage: of a thread, and of k-tiles that there are."""
    return isinstance(node, If) and isinstance(node.condition, Guard) and len(node.condition.terms) == 2


def with_refill(change):
    """The kernel with the branch that refills a stage changed."""
    return changed(KERNELS["two warpgroups"](), lambda node: change(node) if is_refill(node) else None)


def test_a_refill_in_front_of_the_barrier_is_refuted() -> None:
    kernel = KERNELS["two warpgroups"]()
    (refill,) = (node for node in nodes_of(kernel, If) if is_refill(node))
    (prefetch,) = (node for node in nodes_of(kernel, Define) if node.index.name == "prefetch_k")

    def without(node: Node) -> tuple[Node, ...] | None:
        return () if is_refill(node) or node == prefetch else None

    assert refuted(nth(changed(kernel, without), Barrier, 1, lambda node: (prefetch, refill, node))) == ["reads"]


def test_a_barrier_in_front_of_the_wait_for_wgmma_is_refuted() -> None:
    kernel = nth(KERNELS["two warpgroups"](), Barrier, 1, lambda node: ())
    assert refuted(nth(kernel, AwaitWgmmas, 0, lambda node: (Barrier(), node))) == ["reads"]


def test_a_barrier_of_the_k_tile_before_is_too_early() -> None:
    """At the end of a k-tile the wgmmas of that one may be pending."""
    kernel = nth(KERNELS["two warpgroups"](), Barrier, 1, lambda node: ())
    assert "reads" in refuted(nth(kernel, AwaitBarrier, 0, lambda node: (Barrier(), node)))


@pytest.mark.parametrize("kind", [AwaitWgmmas, CommitWgmmas])
def test_one_more_pending_group_is_refuted(kind: type) -> None:
    """By the wait, or by a commit of none in front of it."""
    kernel = KERNELS["two warpgroups"]()
    if kind is AwaitWgmmas:
        planted = nth(kernel, kind, 0, lambda node: (replace(node, pending=node.pending + 1),))
        assert refuted(planted) == ["reads"]
    else:
        assert proof_of(nth(kernel, kind, 0, lambda node: (node, node))).verdict == "proved"


@pytest.mark.parametrize("shift", [-64, 64])
def test_refills_that_leave_out_a_k_tile_or_copy_one_twice_are_refuted(shift: int) -> None:
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, If)
        assert isinstance(node.condition, Guard)
        thread, there = node.condition.terms
        return (replace(node, condition=Guard((thread, replace(there, right=there.right + shift)))),)

    assert {"order", "copies"} & set(refuted(with_refill(planted)))


def test_refills_without_an_end_are_not_proved() -> None:
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, If)
        assert isinstance(node.condition, Guard)
        return (replace(node, condition=Guard(node.condition.terms[:1])),)

    assert proof_of(with_refill(planted)).verdict != "proved"


def test_refills_by_two_threads_are_refuted() -> None:
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, If)
        assert isinstance(node.condition, Guard)
        two = Comparison(symbol("threadIdx.x"), "<", integer(2))
        return (replace(node, condition=Guard((two, node.condition.terms[1]))),)

    assert {"arrivals", "copies"} <= set(refuted(with_refill(planted)))


@pytest.mark.parametrize("more", [-1, 1])
def test_another_number_of_first_copies_is_refuted(more: int) -> None:
    def planted(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, For) or not copies(node.body):
            return None
        if node.loop.index.name != "stage":
            return None
        return (replace(node, loop=replace(node.loop, stop=node.loop.stop + more)),)

    assert refuted(changed(KERNELS["two warpgroups"](), planted)) == ["order"]


@pytest.mark.parametrize("position", range(4))
def test_a_copy_to_another_stage_is_refuted(position: int) -> None:
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, TensorLoad)
        stage, *others = node.target.subscripts
        target = replace(node.target, subscripts=(Mod(stage + 1, integer(4)), *others))
        return (replace(node, target=target),)

    assert refuted(nth(KERNELS["two warpgroups"](), TensorLoad, position, planted)) == ["copies"]
