"""The K range of a block where a condition masks terms of the sum, as in triangular and banded matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cugen.pieces.kernels import new_lowering
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import conjuncts, loop_bound
from cugen.plan.nodes import Comparison, Guard, If, Node
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_guard
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, integer, symbol
from cugen.spec.expressions import Expr, Reduce

BlockExtent = tuple[Integer, int]  # a block tile's origin along M or N, a multiple of its size, and its size


def k_bounds_refusal(request: Request, reduction: Reduce, mn: tuple[str, str], batch: Sequence[str]) -> Refusal | None:
    """Why the condition of a sum isn't a conjunction of bounds on k that are linear in m and n."""
    lowering = new_lowering(request)
    (k,) = reduction.indices
    names = {name: symbol(f"{name} of the spec") for name in (*mn, *batch, k.name)}
    lowering.symbols.update(names)
    for condition in conjuncts(reduction.where):
        bound = loop_bound(lowering, condition, names[k.name])
        if bound is None:
            return Refusal(f"takes conditions that bound {k.name} by other indices, and no others")
        for name in mn:
            slope = bound.right.coeff(names[name])
            if not slope.is_Integer or names[name] in (bound.right - slope * names[name]).expand().free_symbols:
                return Refusal(f"takes bounds of {k.name} that are linear in {' and '.join(mn)}")
    return None


def k_range(
    lowering: Lowering,
    conditions: tuple[Expr, ...],
    k: tuple[str, Integer],
    block_tile: Mapping[str, BlockExtent],
    block_k: int,
) -> tuple[Integer, Integer]:
    """The half-open K range of a block tile's main loop: from the first k-tile with an unmasked term to past the last.

    `k` is the index and its extent, `block_tile` the block's extents along m and n by name."""
    name, stop = k
    start: Integer = integer(0)
    known = dict(lowering.symbols)
    names = {index: symbol(f"{index} of the spec") for index in (name, *block_tile)}
    lowering.symbols.update(names)
    bounds = [loop_bound(lowering, condition, names[name]) for condition in conditions]
    lowering.symbols.clear()
    lowering.symbols.update(known)
    for bound in bounds:
        assert bound is not None
        limit = bound.right
        for mn, (origin, size) in block_tile.items():
            grows = bool(limit.coeff(names[mn]) > 0)
            limit = limit.subs(names[mn], origin + size - 1 if grows == (bound.operator == "<") else origin).expand()
        if bound.operator == "<":
            if not lowering.is_below(stop, limit + 1):
                stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
        elif not lowering.is_below(limit, start + 1):
            lower = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
            start = lower if _is_multiple(limit, block_tile, block_k) else FloorDiv(lower, integer(block_k)) * block_k
    return start, stop


def guarded(
    lowering: Lowering, conditions: Sequence[Expr], symbols: Mapping[str, Integer], nodes: list[Node]
) -> tuple[Node, ...]:
    """The nodes under the conditions. Masked terms may be infinite, so that multiplying them by 0 would not do."""
    terms: list[Comparison] = []
    for condition in conditions:
        guard = to_guard(condition, symbols)
        assert guard is not None
        terms += lowering.needed(guard).terms
    return (If(Guard(tuple(terms)), tuple(nodes)),) if terms else tuple(nodes)


def _is_multiple(limit: Integer, block_tile: Mapping[str, BlockExtent], block_k: int) -> bool:
    constant = limit
    for origin, size in block_tile.values():
        slope = limit.coeff(origin)
        constant = (constant - slope * origin).expand()
        if not slope.is_Integer or int(slope) * size % block_k:
            return False
    return bool(constant.is_Integer) and int(constant) % block_k == 0
