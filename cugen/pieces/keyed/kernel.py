"""The base of kernels of reductions by key: loop ranges, keys, and the conditions of terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from cugen.pieces.keyed.problem import KeyedProblem
from cugen.pieces.keyed.terms import Term
from cugen.pieces.loop_variables import index_loop_variable, loop_variable
from cugen.pieces.sections import append_loop
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import loop_bound, lower_condition
from cugen.plan.memory import Array
from cugen.plan.nodes import For, Guard, If, Index, Let, Loop
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import INT32_MAX, Integer, Maximum, Minimum, bounds, integer, symbol
from cugen.spec import expressions as spec
from cugen.spec.expressions import Cast, Expr, Local, Read, free_indices
from cugen.spec.types import INT64, UINT32

Update = tuple[Array, Expr]  # accumulators, and the value that one of them is combined with


class KeyedKernel(ABC):
    """A kernel under construction. `terms` are those of all reductions, each with the array of its accumulators."""

    def __init__(self, problem: KeyedProblem, lowering: Lowering) -> None:
        self.problem, self.lowering = problem, lowering
        self.terms: tuple[tuple[Array, Term], ...] = ()

    @abstractmethod
    def innermost(self, index: spec.Index, start: Integer, stop: Integer, scope: Scope) -> None:
        """Appends the loops over the last reduced index, whose elements are distributed over threads."""

    @abstractmethod
    def update(self, updates: Sequence[Update], keys: Sequence[Integer], scope: Scope) -> None:
        """Appends the updates of the accumulators of some keys, if they are those of a bin."""

    def loops(self, indices: Sequence[spec.Index], scope: Scope) -> None:
        """Appends the loops over the reduced indices."""
        index, *inner_indices = indices
        start, stop = self.range_of(index, inner_indices)
        if not stop.is_Symbol and not stop.free_symbols <= self.problem.context.ranges.keys():
            stop = self.lowering.define("stop", stop, scope)
        if inner_indices:
            loop = Loop(self.loop_index(index, start, stop, 1), start, stop)
            self.append("outer", index, loop, scope, lambda inner: self.loops(inner_indices, inner))
        else:
            self.innermost(index, start, stop, scope)

    def add(self, updates: Sequence[Update], keys: Sequence[Expr], conditions: Sequence[Expr], scope: Scope) -> None:
        """Updates the accumulators of the terms' keys, under the conditions that are left."""
        if conditions:
            condition = lower_condition(self.lowering, conditions[0], scope)
            inner = scope if condition is None else Scope(scope, certain=False)
            self.add(updates, keys, conditions[1:], inner)
            if condition is not None:
                scope.nodes.append(If(condition, tuple(inner.nodes)))
            return
        self.update(updates, [self._key(key, scope) for key in keys], scope)

    def bin_of(self, keys: Sequence[Integer]) -> tuple[Integer, Guard]:
        """The number of the bin of some keys, and where they are those of a bin."""
        extents = tuple(self.problem.context.extent(index) for index in self.problem.bins)
        number = integer(0)
        for key, extent in zip(keys, extents, strict=True):
            number = number * extent + key
        return number, self.lowering.inside(tuple(keys), extents)

    def bin_variable(self, name_hint: str, first: Integer) -> Index:
        """The variable of a loop over bins."""
        problem = self.problem
        stop = problem.bin_count if problem.has_fixed_bins else problem.bin_extent
        return loop_variable(name_hint, stop, self.lowering, first)

    def append(
        self,
        name: str,
        index: spec.Index,
        loop: Loop,
        scope: Scope,
        fill: Callable[[Scope], None],
        before: str = "bounds",
    ) -> None:
        """Appends a loop over an index as the section `name`, with what `fill` puts into its body."""
        inner = Scope(scope, frozenset((index.name,)), certain=False, is_loop=True)
        fill(inner)
        append_loop(scope, before, name, For(loop, tuple(inner.nodes)))
        del self.lowering.symbols[index.name]

    def conditions(self) -> tuple[Expr, ...]:
        return tuple(condition for _, term in self.terms for condition in term.conditions)

    def uses_index(self, name: str, is_loaded: Callable[[Read], bool]) -> bool:
        """Whether the terms use the index of each element, other than in reads that are loaded."""

        def uses(expr: Expr) -> bool:
            if isinstance(expr, Read) and is_loaded(expr):
                return False
            return expr == spec.IndexValue(name) or any(map(uses, spec.children(expr)))

        return any(uses(part) for _, term in self.terms for part in term.parts())

    def range_of(self, index: spec.Index, inner: Sequence[spec.Index]) -> tuple[Integer, Integer]:
        """The range of an index outside of which a condition of all terms fails; these conditions are then implied."""
        lowering, variable = self.lowering, symbol(f"{index.name} of the loop")
        bounded = replace(lowering, symbols={**lowering.symbols, index.name: variable})
        start, stop = integer(0), self.problem.context.extent(index)
        undefined = {i.name for i in inner}
        first, *others = (term.conditions for _, term in self.terms)
        implied: list[Expr] = []
        for condition in (c for c in first if all(c in conditions for conditions in others)):
            if free_indices(condition) & undefined or index.name not in free_indices(condition):
                continue
            bound = loop_bound(bounded, condition, variable)
            if bound is None:
                continue
            implied.append(condition)
            limit = bound.right
            if bound.operator == "<":
                stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
            else:
                start = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
        self.terms = tuple(
            (bins, replace(term, conditions=tuple(c for c in term.conditions if c not in implied)))
            for bins, term in self.terms
        )
        return start, stop

    def loop_index(self, index: spec.Index, first: Integer, stop: Integer, step: int, name_hint: str = "") -> Index:
        """A loop variable, of 64 bits where the last increment could overflow 32."""
        lowering = self.lowering
        high = bounds(stop, lowering.ranges)[1]
        last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
        variable = replace(index_loop_variable(index.name, (0, last), lowering, name_hint), definition=first)
        lowering.limits[variable.symbol] = self.problem.context.extent(index)
        lowering.symbols[index.name] = variable.symbol
        return variable

    def _key(self, key: Expr, scope: Scope) -> Integer:
        """A key as an integer expression; one that is computed is named. Its range is that of its type."""
        lowering = self.lowering
        try:
            return to_integer(key, lowering.symbols)
        except NotAnInteger:
            value = lowering.lower(key, scope)
        if value.dtype == UINT32:  # differences of subscripts may be negative
            value = Cast(value, INT64)
        if type(value) is not Local:
            local = Local(lowering.name_for(key, "key", scope), value.dtype)
            scope.nodes.append(Let(local, value))
            value = local
        lowering.ranges[symbol(value.name)] = (value.dtype.lowest, value.dtype.highest)
        return symbol(value.name)
