"""Registers that are read before they have a value: by kernels with an assignment too few, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cugen.kernel import generate
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Vector
from cugen.plan.nodes import Assign, Copy, Declare, For, If, Let, Load, Node, Store
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.registers.assignment import unassigned_reads
from cugen.plan.symbols import integer
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.load import load_text

GEMM = """
params: {M: 40, K: 75, N: 60}
arrays:
  A: {shape: [M, K], dtype: int32}
  B: {shape: [K, N], dtype: int32}
  C: {shape: [M, N], dtype: int32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 3}
"""
SOFTMAX = """
params: {M: 5, N: 3000}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: |
  m[i] = max(x[i, j], j)
  e[i, j] = exp(x[i, j] - m[i])
  y[i, j] = e[i, j] / sum(e[i, k], k)
"""
SCAN_OF_COLUMNS = """
params: {N: 40, K: 13}
arrays:
  x: {shape: [N, K], dtype: float32}
  y: {shape: [N, K], dtype: float32}
compute: y[i, j] = cumsum(x[i, j] * j, i) - x[i, j]
"""
TEXTS = {"gemm": GEMM, "softmax": SOFTMAX, "scan": SCAN_OF_COLUMNS}

Change = Callable[[Node], tuple[Node, ...]]


def planned(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    (kernel,) = generate(spec, analysis=False).plan.kernels
    return kernel


def changed(kernel: Kernel, node: Node, change: Change) -> Kernel:
    """The kernel with other nodes in place of one."""

    def rewrite(nodes: tuple[Node, ...]) -> Iterator[Node]:
        for child in nodes:
            match child:
                case _ if child is node:
                    yield from change(child)
                case For():
                    yield replace(child, body=tuple(rewrite(child.body)))
                case If():
                    yield replace(child, then=tuple(rewrite(child.then)), orelse=tuple(rewrite(child.orelse)))
                case _:
                    yield child

    return replace(kernel, parts=(("all", tuple(rewrite(kernel.body))),))


def assignments(kernel: Kernel) -> list[Node]:
    """The nodes that assign to a local, or to an array in registers, which is declared without a value."""
    nodes = list(walk_nodes(kernel.body))
    names = {node.local.name for node in nodes if isinstance(node, Let) and node.value is None}
    names |= {node.array.symbol for node in nodes if isinstance(node, Declare) and not node.zeroed}

    def name(node: Node) -> str | None:
        match node:
            case Load(local=Vector(index=None)):
                return None
            case Load(local=local) | Assign(local=local):
                return getattr(local, "vector", local).name
            case Store(access=access) | Copy(target=access):
                return access.array.symbol if access.array.space == "register" else None
        return None

    return [node for node in nodes if name(node) in names]


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_a_kernel_as_planned_reads_only_what_it_has_assigned(text: str) -> None:
    assert unassigned_reads(planned(text)) == ()


def test_accumulators_that_are_not_zeroed_are_named() -> None:
    kernel = planned(GEMM)
    (accumulators,) = [node for node in walk_nodes(kernel.body) if isinstance(node, Declare) and node.zeroed]
    planted = changed(kernel, accumulators, lambda node: (Declare(accumulators.array),))
    assert set(unassigned_reads(planted)) == {f"{accumulators.array.symbol}[{element}]" for element in range(16)}


@pytest.mark.parametrize("k", ["192", "{range: [1, 4096]}"])
def test_accumulators_of_wgmma_that_the_first_one_does_not_overwrite_are_named(k: str) -> None:
    kernel = planned(f"""
target: sm_90a
params: {{M: 96, K: {k}, N: 64}}
arrays:
  A: {{shape: [K, M], dtype: bfloat16}}
  B: {{shape: [K, N], dtype: bfloat16}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[k, m] * B[k, n], k)
schedule: {{family: wgmma, block: {{m: 64, n: 64}}, split_k: 1}}
""")
    assert unassigned_reads(kernel) == ()
    (wgmma,) = [node for node in walk_nodes(kernel.body) if isinstance(node, Wgmma)]
    planted = changed(kernel, wgmma, lambda node: (replace(node, k=wgmma.k + 16),))
    assert set(unassigned_reads(planted)) == {f"acc[{element}]" for element in range(32)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("text", "count"), [(GEMM, 2), (SOFTMAX, 2), (SCAN_OF_COLUMNS, 2)], ids=list(TEXTS))
def test_a_first_assignment_too_few_is_named(text: str, count: int) -> None:
    kernel = planned(text)
    found = [node for node in assignments(kernel) if unassigned_reads(changed(kernel, node, lambda _: ()))]
    assert len(found) >= count


@pytest.mark.parametrize("text", [SOFTMAX, SCAN_OF_COLUMNS], ids=["softmax", "scan"])
def test_an_unrolled_loop_with_a_trip_too_few_is_named(text: str) -> None:
    kernel = planned(text)
    chosen = set(map(id, assignments(kernel)))
    loops = [
        node
        for node in walk_nodes(kernel.body)
        if isinstance(node, For) and node.loop.unroll and any(id(child) in chosen for child in walk_nodes(node.body))
    ]

    def shorter(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, For)
        return (replace(node, loop=replace(node.loop, stop=node.loop.stop - integer(node.loop.step))),)

    assert any(unassigned_reads(changed(kernel, loop, shorter)) for loop in loops)


def test_an_assignment_under_a_narrower_guard_is_named() -> None:
    kernel = planned(SCAN_OF_COLUMNS)
    chosen = set(map(id, assignments(kernel)))
    guards = [
        node
        for node in walk_nodes(kernel.body)
        if isinstance(node, If) and any(id(child) in chosen for child in walk_nodes(node.then))
    ]

    def narrower(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, If)
        term = node.condition.terms[0]
        return (replace(node, condition=replace(node.condition, terms=(replace(term, right=term.right - 1),))),)

    assert any(unassigned_reads(changed(kernel, guard, narrower)) for guard in guards)
