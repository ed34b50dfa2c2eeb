"""A plan that differs from its source in a subscript, a guard, a loop, a width or an order has mismatches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cugen.plan.kernel import Plan
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import Accumulate, Assign, Copy, For, Guard, If, Let, Load, Node, ReturnUnless, Store
from cugen.plan.symbols import integer
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import compare, predict
from cugen.runtime.inputs import draw
from cugen.runtime.verify import make_job

Rewrite = Callable[[Node], Node]

PRODUCT = """
params: {M: 9, K: 11, N: 10}
arrays:
  A: {shape: [M, K], dtype: float32, memory: {space: shared, pad: 1}}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 8, n: 8}}
"""


class Case:
    """A traced kernel, against which altered plans can be held."""

    def __init__(self, kernel) -> None:
        kernels = [replace(k, parts=(("body", k.body),)) for k in kernel.plan.kernels]  # without sections
        self.plan = replace(kernel.plan, kernels=tuple(kernels))
        self.lines = kernel.access_lines()
        params = {p.name: p.value for p in kernel.spec.params}
        self.job = make_job(kernel.source, kernel.manifest, draw(kernel.spec, params, 0), {})
        self.trace = CpuDevice().trace(self.job)

    def against(self, plan: Plan, lines=None):
        return compare(self.trace, predict(plan, lines or self.lines, self.job))

    def rewritten(self, rewrite: Rewrite) -> Plan:
        def nodes(body):
            return tuple(rewrite(inside(node)) for node in body)

        def inside(node):
            match node:
                case For():
                    return replace(node, body=nodes(node.body))
                case If():
                    return replace(node, then=nodes(node.then), orelse=nodes(node.orelse))
            return node

        kernels = [replace(k, parts=tuple((name, nodes(body)) for name, body in k.parts)) for k in self.plan.kernels]
        return replace(self.plan, kernels=tuple(kernels))


@pytest.fixture(scope="module")
def product(made):
    return Case(made(PRODUCT))


@pytest.fixture(scope="module")
def scaling(made):
    return Case(
        made(
            "params: {N: 1030}\narrays:\n  x: {shape: [N], dtype: float32}\n  y: {shape: [N], dtype: float32}\n"
            "compute: y[i] = 2 * x[i]\n"
        )
    )


def outside_registers(plan: Plan) -> list[Access]:
    return [a for kernel in plan.kernels for a in accesses(kernel.body) if a.array.space != "register"]


def with_access(node: Node, old: Access, new: Access) -> Node:
    """The node with one of its accesses replaced, also where it is read in a value."""

    def value(expr):
        if isinstance(expr, Element):
            return replace(expr, access=new) if expr.access is old else expr
        args = getattr(expr, "args", None)
        return expr if args is None else replace(expr, args=tuple(map(value, args)))

    match node:
        case Copy():
            target = new if node.target is old else node.target
            return replace(node, target=target, source=new if node.source is old else node.source)
        case Load() if node.access is old:
            return replace(node, access=new)
        case Store() | Accumulate():
            return replace(node, access=new if node.access is old else node.access, value=value(node.value))
        case Assign() | Let() if node.value is not None:
            return replace(node, value=value(node.value))
    return node


def shifted(access: Access) -> Access:
    *outer, last = access.subscripts
    return replace(access, subscripts=(*outer, last + 1))


def test_the_plan_of_the_source_itself_has_no_mismatch(product):
    comparison = product.against(product.plan)
    assert not comparison.mismatches
    assert comparison.compared == len(product.trace) > 0


def test_every_access_whose_subscript_is_off_by_one_is_named(product):
    reached = outside_registers(product.plan)
    assert {a.array.symbol for a in reached} == {"A", "B", "As", "Bs", "C"}
    for access in reached:
        wrong = shifted(access)
        comparison = product.against(product.rewritten(lambda node, old=access, new=wrong: with_access(node, old, new)))
        assert comparison.mismatches, access.array.symbol
        named = [
            m
            for m in comparison.mismatches
            if m.predicted is not None and m.access.split("[")[0].endswith(wrong.array.symbol)
        ]
        size = wrong.array.dtype.bytes
        assert any(m.traced is not None and m.predicted == m.traced + size for m in named)
        assert {m.line for m in comparison.mismatches} <= set(product.lines.values())


def test_a_wrong_pad_of_a_tile_is_found(product):
    (access,) = [a for a in outside_registers(product.plan) if a.array.symbol == "As" and a.kind == "load"]
    array = replace(access.array, strides=(integer(8), integer(1)))
    comparison = product.against(product.rewritten(lambda n: with_access(n, access, replace(access, array=array))))
    assert comparison.mismatches


def test_a_copy_without_its_guard_is_found(product):
    comparison = product.against(product.rewritten(lambda n: replace(n, guard=None) if isinstance(n, Copy) else n))
    assert comparison.mismatches
    assert all(m.traced is None or m.predicted is not None for m in comparison.mismatches)


def test_threads_that_should_have_returned_are_found(product):
    always = Guard(())
    comparison = product.against(
        product.rewritten(lambda n: ReturnUnless(always) if isinstance(n, ReturnUnless) else n)
    )
    assert {m.access.split("[")[0] for m in comparison.mismatches} == {"store C"}
    assert all(m.traced is None for m in comparison.mismatches)


def test_a_loop_that_ends_too_early_is_found(product):
    def shorter(node: Node) -> Node:
        if isinstance(node, For) and node.loop.step == 1:
            return replace(node, loop=replace(node.loop, stop=node.loop.stop - 1))
        return node

    comparison = product.against(product.rewritten(shorter))
    assert comparison.mismatches
    assert all(m.predicted is None for m in comparison.mismatches)


def test_statements_in_another_order_are_found(product):
    def reordered(node: Node) -> Node:
        match node:
            case For(body=(For() as first, For() as second, *others)):
                return replace(node, body=(second, first, *others))
        return node

    line_of = {
        a.serial: product.lines[n] for n, a in enumerate(a for k in product.plan.kernels for a in accesses(k.body))
    }
    plan = product.rewritten(reordered)
    lines = {n: line_of[a.serial] for n, a in enumerate(a for k in plan.kernels for a in accesses(k.body))}
    comparison = product.against(plan, lines)
    assert comparison.mismatches
    assert all("later statement" in m.reason for m in comparison.mismatches)


def test_an_access_said_to_be_narrower_is_found(scaling):
    wide = [a for a in outside_registers(scaling.plan) if a.width > 1]
    assert wide
    for access in wide:
        narrow = replace(access, width=1)
        comparison = scaling.against(scaling.rewritten(lambda n, old=access, new=narrow: with_access(n, old, new)))
        assert any("no access of the plan" in m.access for m in comparison.mismatches)


def test_an_access_on_another_line_is_found(product):
    moved = {number: line + 1 for number, line in product.lines.items()}
    assert product.against(product.plan, moved).mismatches


def test_records_that_are_missing_from_a_trace_are_found(product):
    assert len(product.trace) > 100
    comparison = compare(product.trace[: len(product.trace) - 1], predict(product.plan, product.lines, product.job))
    assert len(comparison.mismatches) == 1
    assert comparison.mismatches[0].traced is None


def test_an_order_swapped_in_the_trace_is_found(product):
    table = product.trace.table.copy()
    of_thread = np.flatnonzero((table["block"] == 0) & (table["thread"] == 0))
    table[[of_thread[0], of_thread[-1]]] = table[[of_thread[-1], of_thread[0]]]
    swapped = replace(product.trace, table=table)
    assert compare(swapped, predict(product.plan, product.lines, product.job)).mismatches


CHOSEN = """
params: {{M: 5, N: 6}}
arrays:
  A: {{shape: [M, N]{memory}, dtype: float32}}
  B: {{shape: [M, N], dtype: float32}}
  y: {{shape: [M], dtype: float32}}
compute: y[m] = sum(B[m, k], k, where=A[m, k] > 0)
{schedule}
"""


def test_what_the_inputs_decide_is_predicted(made):
    case = Case(made(CHOSEN.format(memory="", schedule="")))
    comparison = case.against(case.plan)
    assert not comparison.mismatches
    assert comparison.unknown == 0
    assert 0 < len(case.trace.of("B")) < 30


def test_what_the_kernel_wrote_itself_is_not_used_to_predict(made):
    case = Case(made(CHOSEN.format(memory=", memory: {space: shared, pad: 1}", schedule="schedule: {family: direct}")))
    comparison = case.against(case.plan)
    assert not comparison.mismatches
    assert comparison.unknown == len(case.trace.of("B"))
    assert comparison.compared == len(case.trace) - comparison.unknown
