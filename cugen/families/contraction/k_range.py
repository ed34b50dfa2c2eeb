"""The K range of a block where a condition masks terms of the sum, as in triangular and banded matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import sympy

from cugen.pieces.kernels import new_lowering
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import loop_bound
from cugen.plan.nodes import Comparison, Guard, If, Node
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_guard
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, integer, slope, symbol
from cugen.spec.expressions import Expr, Reduce, conjuncts

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
            if slope(bound.right, names[name]) is None:
                return Refusal(f"takes bounds of {k.name} that are linear in {' and '.join(mn)}")
    return None


def grows_with(request: Request, conditions: tuple[Expr, ...], k: str, mn: str) -> bool:
    """Whether the K range of a sum under such conditions is longer for larger values of an index."""
    lowering = new_lowering(request)
    indices = (index.name for index in request.group.statements[0].indices)
    names = {name: symbol(f"{name} of the spec") for name in (*indices, k)}
    lowering.symbols.update(names)
    bounds = [loop_bound(lowering, condition, names[k]) for condition in conditions]
    total = sympy.S.Zero
    for bound in bounds:
        growth = None if bound is None else slope(bound.right, names[mn])
        if bound is not None and growth is not None:
            total += growth if bound.operator == "<" else -growth
    return bool(total > 0)


@dataclass(frozen=True, slots=True)
class KBounds:
    """The bounds of k by a sum's conditions in a block tile; `block_tile` has its extents along m and n by name."""

    lowering: Lowering
    conditions: tuple[Expr, ...]
    k: str
    block_tile: Mapping[str, BlockExtent]
    block_k: int

    def k_range(self, extent: Integer, residue: Integer) -> tuple[Integer, Integer]:
        """The half-open K range of the main loop: from the first k-tile with an unmasked term to past the last.

        The first k-tile of all begins `residue` elements before 0."""
        lowering, block_k = self.lowering, integer(self.block_k)
        start, stop = integer(0), extent
        first_k = -residue
        for operator, limit in self._limits(widest=True):
            if operator == "<":
                if not lowering.is_below(stop, limit + 1):
                    stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
            elif not lowering.is_below(limit, start + 1):
                start = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
                first_k = start
                if not self._is_multiple(limit + residue):
                    first_k = start = FloorDiv(start + residue, block_k) * block_k - residue
        return first_k, stop

    def unmasked(self, first: Integer) -> Guard:
        """Whether no term of the k-tile from `first` on is masked in any element of the block tile."""
        last = first + integer(self.block_k - 1)
        limits = self._limits(widest=False)
        return Guard(tuple(Comparison(last if op == "<" else first, op, limit) for op, limit in limits))

    def boundary(self, first: Integer) -> Guard:
        """Whether some terms of the k-tile from `first` on are masked in the block tile, and others aren't."""
        terms = self.unmasked(first).terms
        opposite = terms[0].opposite
        if len(terms) > 1:
            # Each difference is negative where its bound masks a term.
            differences = [t.right - t.left - 1 if t.operator == "<" else t.left - t.right for t in terms]
            opposite = Comparison(reduce(Minimum, differences), "<", integer(0))
        last = first + integer(self.block_k - 1)
        limits = self._limits(widest=True)
        return Guard((opposite, *(Comparison(first if op == "<" else last, op, limit) for op, limit in limits)))

    def _limits(self, *, widest: bool) -> Iterator[tuple[str, Integer]]:
        """The bound by each condition, (`<` or `>=`, limit): the widest or the narrowest in the block tile."""
        lowering = self.lowering.branch()
        names = {index: symbol(f"{index} of the spec") for index in (self.k, *self.block_tile)}
        lowering.symbols.update(names)
        for condition in self.conditions:
            bound = loop_bound(lowering, condition, names[self.k])
            assert bound is not None
            limit = bound.right
            for mn, (origin, size) in self.block_tile.items():
                growth = slope(limit, names[mn])
                assert growth is not None
                grows = bool(growth > 0)
                is_last = (grows == (bound.operator == "<")) == widest
                limit = limit.subs(names[mn], origin + integer(size - 1) if is_last else origin).expand()
            yield bound.operator, limit

    def _is_multiple(self, limit: Integer) -> bool:
        """Whether a limit is a multiple of BK in every block tile."""
        constant = limit
        for origin, size in self.block_tile.values():
            coefficient = limit.coeff(origin)
            constant = (constant - coefficient * origin).expand()
            if not coefficient.is_Integer or int(coefficient) * size % self.block_k:
                return False
        return bool(constant.is_Integer) and int(constant) % self.block_k == 0


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
