"""Counters that decide by cases, listed: every combination of their values is looked at, all at once.

Which tile a block works on in one of its turns, and how long, follows no period; but of what comes of it only a few
values matter: where an address lies within a period, and how far a guard reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.totals.affine import compiled
from cugen.analysis.totals.sites import THREAD, Counter, Predicate
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod, Ranges, bounds

_MOST = 1 << 23  # combinations that are still looked at
_OPERATORS = {"<": np.less, "==": np.equal, "!=": np.not_equal}


@dataclass(frozen=True)
class Listing:
    """The same offset and predicates over the counters that are left, and over `names`, of whose values each row has
    one combination and how often it comes up."""

    offset: Integer
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    names: tuple[sympy.Symbol, ...] = ()
    rows: tuple[tuple[tuple[int, ...], int], ...] = (((), 1),)


def listed(
    offset: Integer, counters: Sequence[Counter], predicates: Sequence[Predicate], block: Sequence[int], cycle: int
) -> Listing:
    """Lists the counters that a choice depends on, then those that a comparison ties to what comes of them whatever the
    lane. The offset counts only up to multiples of `cycle`; `block` holds the numbers of threads along each axis. What
    can't be told apart stays as it is."""
    threads: Ranges = {t: (0, size - 1) for t, size in zip(THREAD, block, strict=True)}
    plain = Listing(offset, tuple(counters), tuple(predicates))
    found = _taken(plain, _chosen(plain), threads, cycle)
    return plain if found is None else _taken(found, _tied(found), threads, cycle) or found


def _chosen(listing: Listing) -> set[sympy.Symbol]:
    """The counters in choices."""
    every = {counter.symbol for counter in listing.counters}
    found: set[sympy.Symbol] = set()
    for expr in (listing.offset, *(difference for p in listing.predicates for difference, _ in p.terms)):
        for part in sympy.preorder_traversal(expr):
            is_choice = isinstance(part, Choice) or (isinstance(part, Minimum | Maximum) and part.has(FloorDiv, Mod))
            if is_choice and part.free_symbols <= every:
                found |= part.free_symbols
    return found


def _tied(listing: Listing) -> set[sympy.Symbol]:
    """The counters that are compared with what is listed."""
    names = set(listing.names)
    every = names | {counter.symbol for counter in listing.counters}
    found: set[sympy.Symbol] = set()
    for predicate in listing.predicates:
        for difference, _ in predicate.terms:
            if difference.free_symbols & names and difference.free_symbols <= every:
                found |= difference.free_symbols - names
    return found


def _taken(listing: Listing, chosen: set[sympy.Symbol], threads: Ranges, cycle: int) -> Listing | None:
    """The listing with these counters listed too; None where there are none, or where that can't be done."""
    own = [counter for counter in listing.counters if counter.symbol in chosen]
    if not own or prod(counter.count for counter in own) * len(listing.rows) > _MOST:
        return None
    rest = tuple(counter for counter in listing.counters if counter.symbol not in chosen)
    ranges = {**threads, **{c.symbol: (0, c.count - 1) for c in rest}}
    return _Rows(listing, own, ranges).of(rest, cycle)


class _Rows:
    """The rows of a listing along one axis, and the counters that are listed too along one each; `ranges` hold all else
    that varies."""

    def __init__(self, listing: Listing, own: Sequence[Counter], ranges: Ranges) -> None:
        self.listing, self.ranges = listing, ranges
        self.shape = (len(listing.rows), *(counter.count for counter in own))
        first, *axes = np.indices(self.shape, np.int64, sparse=True)
        shown = [values for values, _ in listing.rows]
        known = np.array(shown, np.int64).reshape(len(shown), len(listing.names))
        self.times = np.array([times for _, times in listing.rows], np.int64)[first]
        self.values: dict[sympy.Symbol, NDArray[np.int64]] = {
            name: column[first] for name, column in zip(listing.names, known.T, strict=True)
        }
        self.values.update(zip((counter.symbol for counter in own), axes, strict=True))
        self.names: list[sympy.Symbol] = []
        self.columns: list[NDArray[np.int64]] = []

    def of(self, rest: tuple[Counter, ...], cycle: int) -> Listing | None:
        """None where what is listed and what isn't can't be parted."""
        running: NDArray[np.bool_] = np.ones((1,) * len(self.shape), np.bool_)
        kept: list[Predicate] = []
        for predicate in self.listing.predicates:
            if all(self._is_own(difference) for difference, _ in predicate.terms):
                running = running & self._holds(predicate)
                continue
            terms: list[tuple[Integer, str]] = []
            for difference, operator in predicate.terms:
                parts = self._parted(difference)
                if parts is None:
                    return None
                terms.append((self._named(parts, operator), operator))
            kept.append(replace(predicate, terms=tuple(terms)))
        parts = self._parted(self.listing.offset)
        if parts is None:
            return None
        self.columns.append(self._value(parts[0]) % cycle)
        self.names.append(sympy.Symbol("listed offset", integer=True))
        whole = parts[1] + self.names[-1]
        return Listing(whole, rest, tuple(kept), tuple(self.names), self._distinct(running))

    def _is_own(self, expr: Integer) -> bool:
        return all(name in self.values for name in expr.free_symbols)

    def _value(self, expr: Integer) -> NDArray[np.int64]:
        return np.asarray(compiled(expr)(self.values), np.int64)

    def _holds(self, predicate: Predicate) -> NDArray[np.bool_]:
        holding = np.ones((), np.bool_)
        for difference, operator in predicate.terms:
            holding = holding & _OPERATORS[operator](self._value(difference), 0)
        return ~holding if predicate.negated else holding

    def _parted(self, expr: Integer) -> tuple[Integer, Integer] | None:
        """The terms over listed counters alone, and those without any."""
        own: list[Integer] = []
        others: list[Integer] = []
        for term in sympy.Add.make_args(sympy.expand(expr)):
            if not term.free_symbols & self.values.keys():
                others.append(term)
            elif self._is_own(term):
                own.append(term)
            else:
                return None
        return sympy.Add(*own), sympy.Add(*others)

    def _named(self, parts: tuple[Integer, Integer], operator: str) -> Integer:
        """The difference with a name for what is listed of it. Values that decide alike for all lanes become one."""
        own, others = parts
        if own == 0:
            return others
        values = self._value(own)
        if operator == "<":
            low, high = bounds(others, self.ranges)
            values = np.clip(values, -high - 1, -low)
        self.names.append(sympy.Symbol(f"listed {len(self.names)}", integer=True))
        self.columns.append(values)
        return others + self.names[-1]

    def _distinct(self, running: NDArray[np.bool_]) -> tuple[tuple[tuple[int, ...], int], ...]:
        """The combinations of all columns where threads run, each with how often it comes up."""
        on = np.broadcast_to(running, self.shape)
        times = np.broadcast_to(self.times, self.shape)[on]
        table = np.stack([np.broadcast_to(column, self.shape)[on] for column in self.columns])
        lowest = table.min(axis=1, initial=0, keepdims=True)
        extents = tuple((table.max(axis=1, initial=0) - lowest[:, 0] + 1).tolist())
        if prod(extents) > _MOST:
            rows, places = np.unique(table, axis=1, return_inverse=True)
            counts = np.bincount(places.ravel(), times)
        else:
            every = np.bincount(np.ravel_multi_index(tuple(table - lowest), extents), times)
            found = np.flatnonzero(every)
            rows, counts = np.stack(np.unravel_index(found, extents)) + lowest, every[found]
        return tuple((tuple(row), int(count)) for row, count in zip(rows.T.tolist(), counts.tolist(), strict=True))
