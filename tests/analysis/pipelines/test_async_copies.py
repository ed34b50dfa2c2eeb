"""The synchronisation of multistage pipelines of `cp.async` is proved, and of none with a planted fault."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cugen.analysis.pipelines.claims import PipelineProof
from cugen.analysis.pipelines.proof import prove_pipeline
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import AwaitCopies, Barrier, CommitCopies, Comparison, Copy, Define, Guard, If, LoadMatrix, Node
from cugen.plan.symbols import Mod, integer, symbol
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_all, load_text

from .conftest import changed, nodes_of, nth, with_subscripts

SPECS = Path(__file__).parents[3] / "specs"
KINDS = ("float16", "bfloat16", "float32", "float64", "int8")


@lru_cache(maxsize=64)
def gemm(
    m: int | str = 4096,
    n: int | str = 4096,
    k: int | str = 4100,
    dtype: str = "float16",
    layouts: str = "MK KN",
    schedule: str = "",
    target: str = "sm_90",
) -> Kernel:
    """The kernel of a GEMM of the `gemm` family; SpecError if the family refuses it."""
    a, b = (", ".join(axes) for axes in layouts.split())
    sums = "int32" if dtype == "int8" else dtype if dtype == "float64" else "float32"
    (spec,) = load_text(
        f"cugen: 1\nkernel: product\ntarget: {target}\nparams: {{M: {m}, N: {n}, K: {k}}}\narrays:\n"
        f"  A: {{shape: [{a}], dtype: {dtype}}}\n  B: {{shape: [{b}], dtype: {dtype}}}\n"
        f"  C: {{shape: [M, N], dtype: {sums}}}\n"
        f"compute: C[m, n] = sum(A[{a.lower()}] * B[{b.lower()}], k)\n"
        f"schedule: {{family: gemm{', ' + schedule if schedule else ''}}}\n"
    )
    return make_plan(spec).kernels[0]


def proof_of(kernel: Kernel) -> PipelineProof:
    proof = prove_pipeline(kernel)
    assert proof is not None
    return proof


def refuted(kernel: Kernel) -> set[str]:
    return {claim.name for claim in proof_of(kernel).claims if claim.verdict == "refuted"}


@pytest.mark.sampled(35)
@pytest.mark.whole
@pytest.mark.parametrize("path", sorted(SPECS.glob("**/*.yaml")), ids=lambda path: path.stem)
def test_every_pipeline_of_the_gallery_is_proved(path):
    for spec in load_all(str(path)):
        for kernel in make_plan(spec).kernels:
            proof = prove_pipeline(kernel)
            assert proof is None or proof.verdict == "proved", proof.line


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.tuples(*(st.sampled_from([8, 64, 100, 512, 1000, 4096, "dynamic"]) for _ in "mnk")),
    st.sampled_from(KINDS),
    st.sampled_from(["MK KN", "KM NK", "MK NK"]),
    st.sampled_from(["", *(f"stages: {n}" for n in (2, 3, 4, 5))]),
    st.sampled_from(["sm_80", "sm_90"]),
)
def test_every_pipeline_of_drawn_shapes_is_proved(sizes, dtype, layouts, schedule, target):
    try:
        proof = prove_pipeline(gemm(*sizes, dtype, layouts, schedule, target))
    except SpecError:
        assume(False)
    assume(proof is not None)
    assert proof.verdict == "proved", proof.line


@pytest.mark.slow
def test_the_number_of_k_tiles_that_is_proved_is_said():
    assert "for every number of k-tiles" in proof_of(gemm()).line
    assert "for at most 3 k-tiles" in proof_of(gemm(k=96, schedule="stages: 2")).line


# Planted faults


STAGES = [2, 3, 4, 5]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("kind", [AwaitCopies, Barrier, CommitCopies], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("stages", STAGES)
def test_a_pipeline_that_lacks_a_wait_a_barrier_or_a_commit_is_refuted(stages, kind, position):
    kernel = gemm(schedule=f"stages: {stages}")
    assert proof_of(kernel).verdict == "proved"
    assert refuted(nth(kernel, kind, position, lambda node: ()))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("stages", STAGES)
def test_a_wait_that_leaves_one_more_group_pending_is_refuted(stages, position):
    kernel = gemm(schedule=f"stages: {stages}")
    more = nth(kernel, AwaitCopies, position, lambda node: (replace(node, pending=node.pending + 1),))
    assert "copies" in refuted(more)
    fewer = nth(kernel, AwaitCopies, position, lambda node: (replace(node, pending=0),))
    assert proof_of(fewer).verdict == "proved"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stages", STAGES)
def test_a_barrier_in_front_of_the_wait_does_not_show_the_copies_to_others(stages):
    kernel = gemm(schedule=f"stages: {stages}")
    kernel = nth(nth(kernel, Barrier, 1, lambda _: ()), AwaitCopies, 1, lambda node: (Barrier(), node))
    assert refuted(kernel) == {"copies"}


@pytest.mark.slow
@given(st.sampled_from(STAGES), st.sampled_from([Copy, LoadMatrix]), st.data())
def test_a_subscript_of_another_stage_is_refuted(stages, kind, data):
    kernel = gemm(schedule=f"stages: {stages}")
    position = data.draw(st.integers(0, len(nodes_of(kernel, kind)) - 1))
    shift = data.draw(st.integers(1, stages - 1))
    operand = "target" if kind is Copy else "source"

    def planted(node: Node) -> tuple[Node, ...]:
        access = with_subscripts(getattr(node, operand), lambda stage: Mod(stage + shift, integer(stages)))
        return (replace(node, **{operand: access}),)

    assert refuted(nth(kernel, kind, position, planted))


@pytest.mark.parametrize("name", ["write_stage", "next_stage"])
def test_an_index_that_is_printed_as_another_is_not_proved(name):
    def planted(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, Define) or node.index.name != name:
            return None
        return (replace(node, index=replace(node.index, shown=integer(0))),)

    assert proof_of(changed(gemm(), planted)).verdict == "unknown"


def test_a_counter_that_does_not_wrap_is_not_proved():
    def planted(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, Define) or node.then is None:
            return None
        return (replace(node, then=node.index.symbol + 1),)

    assert proof_of(changed(gemm(), planted)).verdict == "unknown"


def test_groups_of_threads_that_share_a_slice_are_not_proved():
    """Each has a barrier of its own."""
    kernel = gemm(512, 512, 512, "float32")
    assert proof_of(kernel).verdict == "proved"

    def same(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, Define) or node.index.name != "k_slice":
            return None
        return (replace(node, index=replace(node.index, definition=integer(0))),)

    assert proof_of(changed(kernel, same)).verdict == "unknown"


def test_a_barrier_of_some_threads_is_not_proved():
    half = Guard((Comparison(symbol("threadIdx.x"), "<", integer(32)),))
    kernel = nth(gemm(), Barrier, 1, lambda node: (If(half, (node,)),))
    assert proof_of(kernel).verdict == "unknown"
