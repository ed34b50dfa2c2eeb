"""The steps of k that a block needs where conditions leave products out, as in triangles and bands."""

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

Side = tuple[Integer, int]  # the first row or column of a block, a multiple of their number, and their number


def bounds_depth(request: Request, reduction: Reduce, sides: tuple[str, str], batch: Sequence[str]) -> Refusal | None:
    """Why the conditions of a sum are no bounds of its index that rows and columns move in proportion."""
    lowering = new_lowering(request)
    (depth,) = reduction.indices
    names = {name: symbol(f"{name} of the spec") for name in (*sides, *batch, depth.name)}
    lowering.symbols.update(names)
    for condition in conjuncts(reduction.where):
        bound = loop_bound(lowering, condition, names[depth.name])
        if bound is None:
            return Refusal(f"takes conditions that bound {depth.name} by other indices, and no others")
        for side in sides:
            slope = bound.right.coeff(names[side])
            if not slope.is_Integer or names[side] in (bound.right - slope * names[side]).expand().free_symbols:
                return Refusal(f"takes bounds of {depth.name} that move in proportion to {' and '.join(sides)}")
    return None


def depth_range(
    lowering: Lowering,
    conditions: tuple[Expr, ...],
    depth: tuple[str, Integer],
    sides: Mapping[str, Side],
    step: int,
) -> tuple[Integer, Integer]:
    """Where the loop over k starts and stops in a block whose rows and columns are `sides`: with the first step of
    which anything counts, and past the last. `depth` is the index and its extent."""
    name, stop = depth
    start: Integer = integer(0)
    known = dict(lowering.symbols)
    names = {index: symbol(f"{index} of the spec") for index in (name, *sides)}
    lowering.symbols.update(names)
    bounds = [loop_bound(lowering, condition, names[name]) for condition in conditions]
    lowering.symbols.clear()
    lowering.symbols.update(known)
    for bound in bounds:
        assert bound is not None
        limit = bound.right
        for side, (first, count) in sides.items():
            grows = bool(limit.coeff(names[side]) > 0)
            limit = limit.subs(names[side], first + count - 1 if grows == (bound.operator == "<") else first).expand()
        if bound.operator == "<":
            if not lowering.is_below(stop, limit + 1):
                stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
        elif not lowering.is_below(limit, start + 1):
            least = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
            start = least if _is_multiple(limit, sides, step) else FloorDiv(least, integer(step)) * step
    return start, stop


def where_they_hold(
    lowering: Lowering, conditions: Sequence[Expr], symbols: Mapping[str, Integer], nodes: list[Node]
) -> tuple[Node, ...]:
    """The nodes where the conditions hold. What they leave out may be infinite, so no zero would do for it."""
    terms: list[Comparison] = []
    for condition in conditions:
        guard = to_guard(condition, symbols)
        assert guard is not None
        terms += lowering.needed(guard).terms
    return (If(Guard(tuple(terms)), tuple(nodes)),) if terms else tuple(nodes)


def _is_multiple(limit: Integer, sides: Mapping[str, Side], step: int) -> bool:
    rest = limit
    for first, count in sides.values():
        slope = limit.coeff(first)
        rest = (rest - slope * first).expand()
        if not slope.is_Integer or int(slope) * count % step:
            return False
    return bool(rest.is_Integer) and int(rest) % step == 0
