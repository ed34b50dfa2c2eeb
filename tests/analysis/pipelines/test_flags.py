"""Release flags of stream-K are proved: each wait is for a block that has begun, and sets the flag."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.pipelines.async_copies.flags import flags
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import AcquireSpinWait, Barrier, Comparison, FetchBlockId, Guard, If, Node, ReleaseFlag
from cugen.plan.symbols import integer, symbol
from cugen.plan.traversal.walking import walk_nodes
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

from .conftest import nth, with_subscripts


def stream_k(m: int = 3000, n: int = 3000, k: int = 3000) -> Kernel:
    """The first kernel of a GEMM by stream-K, unless another schedule is taken."""
    (spec,) = load_text(
        f"cugen: 1\nkernel: product\ntarget: sm_90\nparams: {{M: {m}, N: {n}, K: {k}}}\narrays:\n"
        "  A: {shape: [M, K], dtype: float32}\n  B: {shape: [K, N], dtype: float32}\n"
        "  C: {shape: [M, N], dtype: float32}\ncompute: C[m, n] = sum(A[m, k] * B[k, n], k)\n"
        "schedule: {family: gemm}\n"
    )
    return make_plan(spec).kernels[0]


def verdict_of(kernel: Kernel) -> str:
    claim = flags(kernel)
    assert claim is not None
    return claim.verdict


@pytest.mark.slow
@settings(max_examples=25)
@given(*(st.integers(10, 60).map(lambda size: 100 * size) for _ in "mnk"))
def test_the_flags_of_every_stream_k_schedule_are_proved(m, n, k):
    claim = flags(stream_k(m, n, k))
    assert claim is None or claim.verdict == "proved", claim.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [1536, 3000, 4096])
def test_stream_k_has_flags(size):
    assert verdict_of(stream_k(size, size, size)) == "proved"


def test_a_kernel_without_flags_has_no_claim():
    assert flags(stream_k(2048, 2048, 2048)) is None


@pytest.mark.covering
@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("kind", [ReleaseFlag, AcquireSpinWait])
def test_another_flag_is_refuted(kind, shift):
    def shifted(node: Node) -> tuple[Node, ...]:
        return (replace(node, access=with_subscripts(node.access, lambda flag: flag + shift)),)

    assert verdict_of(nth(stream_k(), kind, 0, shifted)) == "refuted"


def test_a_flag_that_no_block_sets_is_refuted():
    """But for those of block 0, none is."""

    def by_block_0(node: Node) -> tuple[Node, ...]:
        return (If(Guard((Comparison(symbol("blockIdx.x"), "==", integer(0)),)), (node,)),)

    assert verdict_of(nth(stream_k(), ReleaseFlag, 0, by_block_0)) == "refuted"


@pytest.mark.parametrize("kind", [ReleaseFlag, AcquireSpinWait])
def test_the_barrier_beside_a_flag_is_needed(kind):
    """Between the writes and the release, or between the wait and the reads."""
    kernel = stream_k()
    order = [node for node in walk_nodes(kernel.body) if isinstance(node, Barrier | kind)]
    flag = next(n for n, node in enumerate(order) if isinstance(node, kind))
    position = flag - 1 if kind is ReleaseFlag else flag
    assert verdict_of(nth(kernel, Barrier, position, lambda node: ())) == "refuted"


def test_an_id_that_all_threads_of_a_block_fetch_is_refuted():
    def by_all(node: Node) -> tuple[Node, ...] | None:
        assert isinstance(node, If)
        return node.then if any(isinstance(inner, FetchBlockId) for inner in walk_nodes(node.then)) else None

    assert verdict_of(nth(stream_k(), If, 0, by_all)) == "refuted"


def test_the_barrier_after_the_fetch_of_an_id_is_needed():
    assert verdict_of(nth(stream_k(), Barrier, 0, lambda node: ())) == "refuted"


def test_blocks_without_dynamic_ids_are_not_proved():
    assert verdict_of(nth(stream_k(), FetchBlockId, 0, lambda node: ())) == "unknown"
