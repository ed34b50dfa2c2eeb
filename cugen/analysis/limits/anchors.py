"""Spec locations of accesses, for findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.spec.expressions import NOWHERE, Read, Sample, Span, walk
from cugen.spec.model import Array, Spec, Statement


@dataclass(frozen=True, slots=True)
class Anchor:
    """Location in the spec, with its key."""

    span: Span
    key: str


def memory_anchor(spec: Spec, kernel: Kernel, access: Access) -> Anchor:
    """Location of the array's `memory`, else of the array, else (for generated arrays) of the statement."""
    declared = _declared(spec, access)
    if declared is not None and declared.memory.span != NOWHERE:
        return Anchor(declared.memory.span, f"arrays.{declared.name}.memory")
    if declared is not None and not declared.is_temporary and declared.span != NOWHERE:
        return Anchor(declared.span, f"arrays.{declared.name}")
    return statement_anchor(spec, kernel, access)


def statement_anchor(spec: Spec, kernel: Kernel, access: Access) -> Anchor:
    """Location of the read or write that the access serves; where it serves several, of the first one in the statements
    of the kernel."""
    if access.span != NOWHERE:
        return Anchor(access.span, "compute")
    name = access.array.name
    inside = [statement for statement in spec.statements if statement.text in kernel.computes]
    others = [statement for statement in spec.statements if statement.text not in kernel.computes]
    for statement in (*inside, *others):
        for span in _spans(statement, name, access.kind):
            return Anchor(span, "compute")
    return kernel_anchor(spec, kernel)


def kernel_anchor(spec: Spec, kernel: Kernel) -> Anchor:
    """Location of the kernel's first statement."""
    spans = (statement.span for statement in spec.statements if statement.text in kernel.computes)
    return Anchor(next(spans, spec.statements[0].span), "compute")


def _declared(spec: Spec, access: Access) -> Array | None:
    return next((array for array in spec.arrays if array.name == access.array.name), None)


def _spans(statement: Statement, name: str, kind: str) -> Iterator[Span]:
    if kind == "store":
        if statement.target == name:
            yield statement.span
        return
    for root in (*statement.subscripts, statement.value):
        for leaf in walk(root):
            if isinstance(leaf, Read | Sample) and leaf.array == name and leaf.span != NOWHERE:
                yield leaf.span
    if statement.accumulate and statement.target == name:
        yield statement.span
