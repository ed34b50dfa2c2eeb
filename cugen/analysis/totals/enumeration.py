"""Enumeration of counters that select by cases (`a < b ? c : d`), vectorised over all their values.

The tile and the k range of a stream-K work unit have no period, but few results matter: the address modulo the period,
and the slack of the guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.sites import THREAD, Counter, Predicate
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod, Ranges, bounds

_MAX_COMBINATIONS = 1 << 23  # heuristic: array elements that are enumerated at once
_OPERATORS = {"<": np.less, "==": np.equal, "!=": np.not_equal}


@dataclass(frozen=True)
class Enumeration:
    """Offset and predicates over the remaining counters and the enumerated `symbols`.

    cases: (values of the symbols, multiplicity).
    """

    offset: Integer
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    symbols: tuple[sympy.Symbol, ...] = ()
    cases: tuple[tuple[tuple[int, ...], int], ...] = (((), 1),)


def enumerated(
    offset: Integer, counters: Sequence[Counter], predicates: Sequence[Predicate], block: Sequence[int], cycle: int
) -> Enumeration:
    """Enumerates the counters of choices, then the counters compared with their results.

    The offset is reduced modulo `cycle` elements; `block` has the threads along each axis. Returned unchanged if the
    expressions don't separate.
    """
    threads: Ranges = {t: (0, size - 1) for t, size in zip(THREAD, block, strict=True)}
    plain = Enumeration(offset, tuple(counters), tuple(predicates))
    chosen = _with_enumerated(plain, _choice_counters(plain), threads, cycle)
    if chosen is None:
        return plain
    return _with_enumerated(chosen, _coupled_counters(chosen), threads, cycle) or chosen


def _choice_counters(enumeration: Enumeration) -> set[sympy.Symbol]:
    """Counters that a choice depends on."""
    counters = {counter.symbol for counter in enumeration.counters}
    chosen: set[sympy.Symbol] = set()
    for expr in (enumeration.offset, *(difference for p in enumeration.predicates for difference, _ in p.terms)):
        for part in sympy.preorder_traversal(expr):
            is_choice = isinstance(part, Choice) or (isinstance(part, Minimum | Maximum) and part.has(FloorDiv, Mod))
            if is_choice and part.free_symbols <= counters:
                chosen |= part.free_symbols
    return chosen


def _coupled_counters(enumeration: Enumeration) -> set[sympy.Symbol]:
    """Counters that are compared with enumerated symbols."""
    symbols = set(enumeration.symbols)
    every = symbols | {counter.symbol for counter in enumeration.counters}
    coupled: set[sympy.Symbol] = set()
    for predicate in enumeration.predicates:
        for difference, _ in predicate.terms:
            if difference.free_symbols & symbols and difference.free_symbols <= every:
                coupled |= difference.free_symbols - symbols
    return coupled


def _with_enumerated(
    enumeration: Enumeration, chosen: set[sympy.Symbol], threads: Ranges, cycle: int
) -> Enumeration | None:
    """Enumeration with these counters enumerated too; None if there are none, or it isn't possible."""
    selected = [counter for counter in enumeration.counters if counter.symbol in chosen]
    if not selected or prod(counter.count for counter in selected) * len(enumeration.cases) > _MAX_COMBINATIONS:
        return None
    kept = tuple(counter for counter in enumeration.counters if counter.symbol not in chosen)
    ranges = {**threads, **{c.symbol: (0, c.count - 1) for c in kept}}
    return _Cases(enumeration, selected, ranges).of(kept, cycle)


class _Cases:
    """Cases of an enumeration along the first axis, and each newly enumerated counter along a separate axis.

    ranges: bounds of all other symbols.
    """

    def __init__(self, enumeration: Enumeration, selected: Sequence[Counter], ranges: Ranges) -> None:
        self.enumeration, self.ranges = enumeration, ranges
        self.shape = (len(enumeration.cases), *(counter.count for counter in selected))
        first, *axes = np.indices(self.shape, np.int64, sparse=True)
        shown = [values for values, _ in enumeration.cases]
        known = np.array(shown, np.int64).reshape(len(shown), len(enumeration.symbols))
        self.times = np.array([times for _, times in enumeration.cases], np.int64)[first]
        self.values: dict[sympy.Symbol, NDArray[np.int64]] = {
            name: column[first] for name, column in zip(enumeration.symbols, known.T, strict=True)
        }
        self.values.update(zip((counter.symbol for counter in selected), axes, strict=True))
        self.symbols: list[sympy.Symbol] = []
        self.columns: list[NDArray[np.int64]] = []

    def of(self, kept_counters: tuple[Counter, ...], cycle: int) -> Enumeration | None:
        """Enumeration over all axes; None if enumerated and other counters don't separate into a sum."""
        active: NDArray[np.bool_] = np.ones((1,) * len(self.shape), np.bool_)
        kept: list[Predicate] = []
        for predicate in self.enumeration.predicates:
            if all(self._is_enumerated(difference) for difference, _ in predicate.terms):
                active = active & self._holds(predicate)
                continue
            terms: list[tuple[Integer, str]] = []
            for difference, operator in predicate.terms:
                parts = self._separated(difference)
                if parts is None:
                    return None
                terms.append((self._with_name(parts, operator), operator))
            kept.append(replace(predicate, terms=tuple(terms)))
        parts = self._separated(self.enumeration.offset)
        if parts is None:
            return None
        self.columns.append(self._value(parts[0]) % cycle)
        self.symbols.append(sympy.Symbol("enumerated offset", integer=True))
        whole = parts[1] + self.symbols[-1]
        return Enumeration(whole, kept_counters, tuple(kept), tuple(self.symbols), self._distinct(active))

    def _is_enumerated(self, expr: Integer) -> bool:
        return all(name in self.values for name in expr.free_symbols)

    def _value(self, expr: Integer) -> NDArray[np.int64]:
        ranges = {name: (int(v.min(initial=0)), int(v.max(initial=0))) for name, v in self.values.items()}
        return np.asarray(evaluator(expr, ranges)(self.values), np.int64)

    def _holds(self, predicate: Predicate) -> NDArray[np.bool_]:
        holding = np.ones((), np.bool_)
        for difference, operator in predicate.terms:
            holding = holding & _OPERATORS[operator](self._value(difference), 0)
        return ~holding if predicate.negated else holding

    def _separated(self, expr: Integer) -> tuple[Integer, Integer] | None:
        """(terms over enumerated counters only, terms without any); None if a term mixes them."""
        inner: list[Integer] = []
        outer: list[Integer] = []
        for term in sympy.Add.make_args(sympy.expand(expr)):
            if not term.free_symbols & self.values.keys():
                outer.append(term)
            elif self._is_enumerated(term):
                inner.append(term)
            else:
                return None
        return sympy.Add(*inner), sympy.Add(*outer)

    def _with_name(self, parts: tuple[Integer, Integer], operator: str) -> Integer:
        """Difference with a symbol for its enumerated part; values that make the guard uniform are clipped to one."""
        inner, outer = parts
        if inner == 0:
            return outer
        values = self._value(inner)
        if operator == "<":
            low, high = bounds(outer, self.ranges)
            values = np.clip(values, -high - 1, -low)
        self.symbols.append(sympy.Symbol(f"enumerated {len(self.symbols)}", integer=True))
        self.columns.append(values)
        return outer + self.symbols[-1]

    def _distinct(self, active: NDArray[np.bool_]) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Distinct combinations of all columns where threads run, with their multiplicities."""
        on = np.broadcast_to(active, self.shape)
        times = np.broadcast_to(self.times, self.shape)[on]
        table = np.stack([np.broadcast_to(column, self.shape)[on] for column in self.columns])
        lowest = table.min(axis=1, initial=0, keepdims=True)
        extents = tuple((table.max(axis=1, initial=0) - lowest[:, 0] + 1).tolist())
        if prod(extents) > _MAX_COMBINATIONS:
            cases, inverse = np.unique(table, axis=1, return_inverse=True)
            counts = np.bincount(inverse.ravel(), times)
        else:
            every = np.bincount(np.ravel_multi_index(tuple(table - lowest), extents), times)
            indices = np.flatnonzero(every)
            cases, counts = np.stack(np.unravel_index(indices, extents)) + lowest, every[indices]
        return tuple((tuple(row), int(count)) for row, count in zip(cases.T.tolist(), counts.tolist(), strict=True))
