"""The reductions of a contraction, and what their terms may be."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.plan.request import Refusal, Request
from cugen.plan.traversal.vanishing import vanishes
from cugen.rewrite.align_reductions import with_common_indices
from cugen.rewrite.dense_indices import index_values
from cugen.spec.expressions import Cast, Expr, Op, ParamValue, Read, Reduce, Scan, Select, walk

MAX_SUMS = 4  # per main loop: each has its accumulators in registers and its operands' tiles in shared memory


def with_aligned_reductions(request: Request) -> Request:
    """The request with several reductions over the same index names; the same object where a scan is among them."""
    loops = _loops(request)
    if len(loops) < 2 or not all(isinstance(node, Reduce) for node in loops):
        return request
    return request.with_statements(with_common_indices(request.group.statements, request.context))


def reductions_of(request: Request, *, masks_padding: bool) -> tuple[Reduce, ...] | Refusal:
    """The reductions of the group, all over one index under one condition, or why they are none of a contraction.
    Without `masks_padding` they are sums whose terms vanish with the operands."""
    loops, what = _loops(request), _kinds_text(masks_padding=masks_padding)
    if not any(n in loops for n in walk(request.group.statements[0].value)):
        return Refusal("takes a contraction in the first statement, and there is none")
    if len(loops) > MAX_SUMS:
        return Refusal(f"takes up to {MAX_SUMS} contractions, not {len(loops)}")
    kinds = ("sum", "min", "max") if masks_padding else ("sum",)
    reductions = tuple(node for node in loops if isinstance(node, Reduce) and node.kind in kinds)
    if len(reductions) < len(loops):
        return Refusal(f"takes {what}, and no other reduction or scan")
    if any(len(node.indices) != 1 for node in reductions):
        return Refusal(f"takes {what} over one index")
    if len({(node.indices, node.where) for node in reductions}) > 1:
        return Refusal(f"takes {what} over the same index, under the same condition")
    if not masks_padding and not all(vanishes(node.body) for node in reductions):
        return Refusal("takes sums whose terms are 0 where the operands are 0: tiles are padded with zeros")
    if any(node in loops for reduction in reductions for node in walk(reduction.body)):
        return Refusal(f"takes {what} without another in their terms")
    if any(index_values(node.body) for node in reductions):
        return Refusal("takes terms of elements, constants, params and scalars; an index is none of them")
    if any(map(_depends_on_params, reductions)):
        return Refusal("loads all elements of a tile; a choice by a param may be what keeps a subscript in bounds")
    return reductions


def factors_refusal(
    reductions: tuple[Reduce, ...], a_reads: tuple[Read, ...], b_reads: tuple[Read, ...], *, masks_padding: bool
) -> Refusal | None:
    """Why the terms aren't functions of an element of A and one of B."""
    if not all(_mentions(node.body, a_reads) and _mentions(node.body, b_reads) for node in reductions):
        return Refusal(f"takes {_kinds_text(masks_padding=masks_padding)} whose terms depend on M and on N")
    if any(not vanishes(node.body) and _is_product(node, a_reads, b_reads) for node in reductions):
        return Refusal("takes products of elements; functions of one operand are computed once, not for each product")
    return None


def _kinds_text(*, masks_padding: bool) -> str:
    """The reductions that are taken, in messages."""
    return "sums, minima and maxima" if masks_padding else "sums"


def _loops(request: Request) -> dict[Reduce | Scan, None]:
    """The reductions and scans of all statements, each once."""
    return {n: None for s in request.group.statements for n in walk(s.value) if isinstance(n, Reduce | Scan)}


def _depends_on_params(reduction: Reduce) -> bool:
    """Whether a choice in the terms depends on a param."""
    conditions = (node.condition for node in walk(reduction.body) if isinstance(node, Select))
    return any(isinstance(node, ParamValue) for condition in conditions for node in walk(condition))


def _is_product(reduction: Reduce, a_reads: tuple[Read, ...], b_reads: tuple[Read, ...]) -> bool:
    """Whether a sum's terms are products and quotients of functions of the operands on one side each."""
    factors = _factors(reduction.body)
    is_separable = not any(_mentions(factor, a_reads) and _mentions(factor, b_reads) for factor in factors)
    return reduction.kind == "sum" and is_separable


def _factors(term: Expr) -> Iterator[Expr]:
    match term:
        case Op(name="mul" | "div" | "neg", args=args):
            for arg in args:
                yield from _factors(arg)
        case Cast(arg=arg):
            yield from _factors(arg)
        case _:
            yield term


def _mentions(body: Expr, reads: tuple[Read, ...]) -> bool:
    return any(node in reads for node in walk(body) if isinstance(node, Read))
