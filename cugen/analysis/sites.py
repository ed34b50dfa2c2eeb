"""Where each access of a kernel stands: the loops and guards round it, with every name replaced by its definition.

What is left are base variables: the thread's place in its block, the block's in the grid, and one counter for each
loop, which runs from 0. Loop conditions that may fail inside the counter's range become predicates like any guard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.plan.ir import (
    Access,
    Comparison,
    Copy,
    Define,
    Element,
    For,
    Guard,
    If,
    Kernel,
    Load,
    Node,
    ReturnUnless,
    accesses,
    values_of,
)
from cugen.plan.symbols import FloorDiv, Integer, bounds, integer, symbol
from cugen.spec.expressions import walk

THREAD = tuple(symbol(f"threadIdx.{axis}") for axis in "xyz")
BLOCK = tuple(symbol(f"blockIdx.{axis}") for axis in "xyz")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of `difference < 0`, `== 0` or `!= 0`, or its negation; a term is (difference, operator)."""

    terms: tuple[tuple[Integer, str], ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable that every warp of a block steps through alike: a block index or a loop's counter, 0 .. count - 1."""

    symbol: sympy.Symbol
    count: int


@dataclass(frozen=True, slots=True)
class Site:
    """One access with all that decides when it runs. `opaque` says what of that depends on data, empty if nothing."""

    access: Access
    offset: Integer  # in elements, over base variables
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    definitions: Mapping[sympy.Symbol, Integer]
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    opaque: str = ""


def sites(kernel: Kernel, params: Mapping[str, int]) -> tuple[Site, ...]:
    """All accesses of a kernel in the order of the source. `params` gives each param's value by its name in C."""
    fixed: dict[sympy.Symbol, Integer] = {symbol(name): integer(value) for name, value in params.items()}
    fixed.update({t: integer(0) for t, size in zip(THREAD, kernel.block, strict=True) if size == 1})
    grid = [int(extent.xreplace(fixed)) for extent in kernel.grid]
    counters = tuple(Counter(b, count) for b, count in zip(BLOCK, grid, strict=True) if count != 1)
    fixed.update({b: integer(0) for b, count in zip(BLOCK, grid, strict=True) if count == 1})
    ranges = dict(kernel.ranges)
    ranges.update({t: (0, size - 1) for t, size in zip(THREAD, kernel.block, strict=True)})
    ranges.update({b: (0, max(count - 1, 0)) for b, count in zip(BLOCK, grid, strict=True)})
    return tuple(_Walk(ranges).nodes(kernel.body, _Place(fixed, counters, ())))


class _Walk:
    """The walk over a body; `ranges` grows by one entry for each loop counter."""

    def __init__(self, ranges: dict[sympy.Symbol, tuple[int, int]]) -> None:
        self.ranges = ranges
        self.loops = 0

    def nodes(self, nodes: tuple[Node, ...], place: _Place) -> Iterator[Site]:
        for node in nodes:
            match node:
                case Define():
                    value = node.index.definition.xreplace(place.definitions)
                    place = replace(place, definitions={**place.definitions, node.index.symbol: value})
                case ReturnUnless():
                    place = _guarded(place, node.guard)
                case For():
                    yield from self.nodes(node.body, self._inside(node, place))
                case If():
                    yield from self._choice(node, place)
                case Load() | Copy() if node.guard is not None and node.guard.terms:
                    guarded = _guarded(place, node.guard)
                    yield from self._accesses(node, place, guarded)
                case _:
                    yield from self._accesses(node, place, place)

    def _accesses(self, node: Node, place: _Place, guarded: _Place) -> Iterator[Site]:
        """A guard holds a load back, and a copy's source; what a copy writes is written in any case."""
        inline = [leaf.access for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Element)]
        for access in accesses((node,)):
            always = (isinstance(node, Copy) and access is node.target) or any(access is i for i in inline)
            yield self._site(access, place if always else guarded)

    def _site(self, access: Access, place: _Place) -> Site:
        offset = access.offset().xreplace(place.definitions)
        known = {*THREAD, *(counter.symbol for counter in place.counters)}
        opaque = place.opaque
        for free in sorted(offset.free_symbols, key=str):
            if free not in known:
                opaque = opaque or f"the subscript depends on the value {free}, which is read from memory"
        return Site(access, offset, place.counters, place.predicates, opaque)

    def _choice(self, node: If, place: _Place) -> Iterator[Site]:
        if isinstance(node.condition, Guard):
            yield from self.nodes(node.then, _guarded(place, node.condition))
            yield from self.nodes(node.orelse, _guarded(place, node.condition, negated=True))
            return
        hidden = replace(place, opaque=place.opaque or "whether it runs depends on data")
        yield from self.nodes((*node.then,), hidden)
        yield from self.nodes((*node.orelse,), hidden)

    def _inside(self, node: For, place: _Place) -> _Place:
        """The loop's body: its index becomes `start + step * counter`, or `stop - 1 - step * counter` downward."""
        loop = node.loop
        start, stop = (e.xreplace(place.definitions) for e in (loop.start, loop.stop))
        trips = FloorDiv(stop - start + (loop.step - 1), integer(loop.step))
        low, high = bounds(trips, self.ranges)
        count = max(min(high, self._limit(stop - start, loop.step, place)), 0)
        name: Integer = sympy.Symbol(f"loop {self.loops} {loop.index.name}", integer=True) if count != 1 else integer(0)
        self.loops += 1
        self.ranges[name] = (0, max(count - 1, 0))
        value = stop - 1 - loop.step * name if loop.downward else start + loop.step * name
        predicates = place.predicates
        if low != high:
            predicates = (*predicates, Predicate(((start + loop.step * name - stop, "<"),)))
        return _Place(
            {**place.definitions, loop.index.symbol: value},
            (*place.counters, Counter(name, count)) if count != 1 else place.counters,
            predicates,
            place.opaque,
        )

    def _limit(self, distance: Integer, step: int, place: _Place) -> int:
        """How often a loop over `distance` can run at most, where a guard round it says more than ranges do."""
        best = bounds(distance, self.ranges)[1]
        for predicate in place.predicates:
            if len(predicate.terms) != 1 or predicate.terms[0][1] != "<":
                continue
            difference = predicate.terms[0][0]
            known = difference if predicate.negated else -difference - 1  # known >= 0
            slack = distance + known
            if slack.is_Integer:
                best = min(best, int(slack))
        return -(-best // step)


def _guarded(place: _Place, guard: Guard, *, negated: bool = False) -> _Place:
    terms = tuple(_term(term, place.definitions) for term in guard.terms)
    known = {*THREAD, *(counter.symbol for counter in place.counters)}
    opaque = place.opaque
    if any(not (difference.free_symbols <= known) for difference, _ in terms):
        opaque = opaque or "whether it runs depends on data"
    return replace(place, predicates=(*place.predicates, Predicate(terms, negated)), opaque=opaque)


def _term(term: Comparison, definitions: Mapping[sympy.Symbol, Integer]) -> tuple[Integer, str]:
    difference = (term.left - term.right).xreplace(definitions)
    match term.operator:
        case "<":
            return difference, "<"
        case "<=":
            return difference - 1, "<"
        case ">":
            return -difference, "<"
        case ">=":
            return -difference - 1, "<"
    return difference, term.operator
