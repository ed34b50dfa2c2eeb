"""Stream-K of warp-specialised GEMMs is proved: k-tiles are numbered over work units of different lengths, and partial
sums are read after they have been stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.kernel import Kernel
from cugen.plan.nodes import (
    AcquireSpinWait,
    Barrier,
    Comparison,
    Define,
    FetchBlockId,
    Guard,
    If,
    NamedBarrier,
    Node,
    ReleaseFlag,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitWgmmas
from cugen.plan.symbols import FloorDiv, integer, symbol

from .conftest import Change, changed, gemm, nodes_of, nth, proof_of, refuted, with_subscripts

KERNELS = {
    "whole tiles first": lambda: gemm(2056, 5000, 1304, schedule="block: {m: 256, n: 192}, stream_k: 1"),
    "two waves": lambda: gemm(2048, 5120, 1024, schedule="block: {m: 128, n: 256}, stream_k: 2"),
    "no whole tiles": lambda: gemm(512, 512, 4096, schedule="block: {m: 128, n: 64}, stream_k: 1"),
    "one consumer": lambda: gemm(512, 512, 4096, schedule="block: {m: 64, n: 80}, stream_k: 1"),
    "three consumers": lambda: gemm(512, 512, 4096, schedule="block: {m: 192, n: 64}, stream_k: 1"),
    "float32 results": lambda: gemm(
        512, 512, 4096, ("bfloat16", "float32"), schedule="block: {m: 128, n: 64}, stream_k: 1"
    ),
    "promoted sums": lambda: gemm(
        512, 512, 4096, ("float8_e4m3", "float32"), schedule="block: {m: 128, n: 64}, stream_k: 1"
    ),
    "matrices stored": lambda: gemm(
        2056, 5000, 1304, schedule="block: {m: 128, n: 256}, stream_k: 1, epilogue: stmatrix"
    ),
    "batches": lambda: gemm(200, 300, 900, layouts="KM KN", batch=5, schedule="block: {m: 128, n: 64}, stream_k: 1"),
}


def verdicts(kernel: Kernel) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in proof_of(kernel).claims}


def with_one(kernel: Kernel, is_meant: Callable[[Node], bool], position: int, change: Change) -> Kernel:
    """The kernel with a change to one of the nodes that are meant: that of the producer (0) or the consumers (1)."""
    count = -1

    def change_one(node: Node) -> tuple[Node, ...] | None:
        nonlocal count
        count += is_meant(node)
        return change(node) if is_meant(node) and count == position else None

    made = changed(kernel, change_one)
    assert count == 1
    return made


def defines(name: str) -> Callable[[Node], bool]:
    return lambda node: isinstance(node, Define) and node.index.name == name


def next_unit(node: Node) -> tuple[Node, ...]:
    """A definition that grows by one more from unit to unit."""
    assert isinstance(node, Define)
    return (Define(replace(node.index, definition=node.index.definition + symbol("work_unit"))),)


def is_of_units(node: Node) -> bool:
    """Whether it is the branch of the work units that there are."""
    if not isinstance(node, If) or not isinstance(node.condition, Guard):
        return False
    return [(str(t.left), str(t.right)) for t in node.condition.terms] == [("k_tile_begin", "k_tile_end")]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", KERNELS)
def test_stream_k_is_proved(name: str) -> None:
    proof = proof_of(KERNELS[name]())
    assert {"work units", "flags"} <= {claim.name for claim in proof.claims}
    assert {claim.verdict for claim in proof.claims} == {"proved"}
    assert proof.summary.startswith("for the work units of ")


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(8, 600), st.integers(8, 600), st.integers(2, 600), st.sampled_from([1, 2]))
def test_every_schedule_is_proved(m: int, n: int, k: int, waves: int) -> None:
    schedule = f"block: {{m: 64, n: 64}}, stream_k: {waves}"
    kernel = gemm(8 * m, 8 * n, 8 * k, ("bfloat16", "float32"), schedule=schedule)
    assert set(verdicts(kernel).values()) == {"proved"}


def test_whole_tiles_alone_have_no_work_units() -> None:
    assert not {"work units", "flags"} & verdicts(gemm()).keys()


def test_units_whose_k_tiles_have_other_numbers_are_refuted() -> None:
    """In producer and consumers alike: a unit would wait for another phase than its stage is in."""
    is_meant = defines("k_tiles_before")
    kernel = changed(KERNELS["whole tiles first"](), lambda node: next_unit(node) if is_meant(node) else None)
    assert refuted(kernel) == ["work units"]


@pytest.mark.covering
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("name", ["k_tiles_before", "k_tile_begin", "k_tile_end"])
def test_producer_and_consumers_of_other_units_are_refuted(name: str, position: int) -> None:
    kernel = with_one(KERNELS["whole tiles first"](), defines(name), position, next_unit)
    assert "order" in refuted(kernel)


def test_a_single_unit_without_k_tiles_is_refuted() -> None:
    """In producer and consumers alike: the last block's range is empty."""

    def ends_at_once(node: Node) -> tuple[Node, ...] | None:
        if not defines("k_tile_end")(node):
            return None
        assert isinstance(node, Define)
        return (Define(replace(node.index, definition=node.index.definition - 16 * FloorDiv(symbol("block_id"), 127))),)

    assert refuted(changed(KERNELS["no whole tiles"](), ends_at_once)) == ["work units"]


@pytest.mark.parametrize("position", [0, 1])
def test_units_of_one_role_alone_are_refuted(position: int) -> None:
    def without_k_tiles(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, If)
        assert isinstance(node.condition, Guard)
        (term,) = node.condition.terms
        return (replace(node, condition=Guard((replace(term, operator="<="),))),)

    kernel = with_one(KERNELS["whole tiles first"](), is_of_units, position, without_k_tiles)
    assert "order" in refuted(kernel)


@pytest.mark.parametrize("kind", [ReleaseFlag, AcquireSpinWait])
def test_the_barrier_beside_a_flag_is_needed(kind: type) -> None:
    """Between the stores of partial sums and the release, or between the wait and the loads."""
    kernel = KERNELS["no whole tiles"]()
    order = nodes_of(kernel, NamedBarrier, kind)
    flag = next(n for n, node in enumerate(order) if isinstance(node, kind))
    position = flag - 1 if kind is ReleaseFlag else flag
    assert refuted(nth(kernel, NamedBarrier, position, lambda node: ())) == ["flags"]


@pytest.mark.parametrize("position", [0, 1])
def test_barriers_of_single_warpgroups_beside_a_flag_are_refuted(position: int) -> None:
    """A warpgroup's partial sums would be read before another one has waited for the flag."""
    kernel = KERNELS["no whole tiles"]()

    def of_warpgroup(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, NamedBarrier)
        return (replace(node, number=symbol("warpgroup"), threads=128),)

    assert refuted(nth(kernel, NamedBarrier, position, of_warpgroup)) == ["flags"]


@pytest.mark.covering
@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("kind", [ReleaseFlag, AcquireSpinWait])
def test_another_flag_is_refuted(kind: type, shift: int) -> None:
    def shifted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, ReleaseFlag | AcquireSpinWait)
        return (replace(node, access=with_subscripts(node.access, lambda flag: flag + shift)),)

    assert refuted(nth(KERNELS["whole tiles first"](), kind, 0, shifted)) == ["flags"]


def test_a_flag_that_no_block_sets_is_refuted() -> None:
    def by_block_0(node: Node) -> tuple[Node, ...]:
        return (If(Guard((Comparison(symbol("block_id"), "==", integer(0)),)), (node,)),)

    assert refuted(nth(KERNELS["whole tiles first"](), ReleaseFlag, 0, by_block_0)) == ["flags"]


def test_the_barrier_after_the_fetch_of_an_id_is_needed() -> None:
    kernel = KERNELS["no whole tiles"]()
    assert {"initialisation", "flags"} <= set(refuted(nth(kernel, Barrier, 0, lambda node: ())))


def test_blocks_without_dynamic_ids_are_not_proved() -> None:
    assert verdicts(nth(KERNELS["no whole tiles"](), FetchBlockId, 0, lambda node: ()))["flags"] == "unknown"


def test_the_last_stage_of_a_unit_is_released() -> None:
    kernel = KERNELS["whole tiles first"]()
    last = len(nodes_of(kernel, ArriveBarrier)) - 1
    assert "arrivals" in refuted(nth(kernel, ArriveBarrier, last, lambda node: ()))


def test_partial_sums_are_stored_once_no_wgmma_is_pending() -> None:
    kernel = KERNELS["whole tiles first"]()
    last = len(nodes_of(kernel, AwaitWgmmas)) - 1
    assert "accumulators" in refuted(nth(kernel, AwaitWgmmas, last, lambda node: ()))
