"""Where each node and access of a kernel stands: the loops and guards round it, every name replaced by its definition.

What is left are base variables: the thread's place in its block, the block's in the grid, and one counter for each
loop, which runs from 0. Loop conditions that may fail inside the counter's range become predicates like any guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import (
    AcquireSpinWait,
    Comparison,
    Condition,
    Copy,
    Define,
    For,
    Guard,
    If,
    Load,
    LoadBlockId,
    Node,
    ReturnUnless,
)
from cugen.plan.symbols import FloorDiv, Integer, bounds, integer, symbol
from cugen.plan.walking import accesses, values_of
from cugen.spec.expressions import Local, Read, ScalarValue, walk

THREAD = tuple(symbol(f"threadIdx.{axis}") for axis in "xyz")
BLOCK = tuple(symbol(f"blockIdx.{axis}") for axis in "xyz")
DATA_DECIDES = "whether it runs depends on data"
WAITS = "how often it asks depends on when another block answers"
DISTRIBUTED = "another block's shared memory isn't modelled"
NO_CONJUNCTION = "its condition is no conjunction of comparisons"
HIDDEN = (DATA_DECIDES, NO_CONJUNCTION)  # why it isn't known which lanes come to a place


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of `difference < 0`, `== 0` or `!= 0`, or its negation; a term is (difference, operator)."""

    terms: tuple[tuple[Integer, str], ...]
    negated: bool = False

    def is_decided_by(self, counters: tuple[Counter, ...], sizes: frozenset[sympy.Symbol] = frozenset()) -> bool:
        """Whether nothing but the lane's place and the counters decides it, or `sizes` that have no value yet."""
        known = {*THREAD, *(counter.symbol for counter in counters), *sizes}
        return all(difference.free_symbols <= known for difference, _ in self.terms)


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable that every warp of a block steps through alike: a block index or a loop's counter, 0 .. count - 1."""

    symbol: sympy.Symbol
    count: int


@dataclass(frozen=True, slots=True)
class Site:
    """One access with all that decides when it runs. `opaque` says what of that depends on data, empty if nothing.

    The two sides of an asynchronous copy know each other: where the source is copied to, and what the target is copied
    from, at which offset, and whether a guard holds that back."""

    access: Access
    offset: Integer  # in elements, over base variables
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    names: Mapping[sympy.Symbol, Integer]  # what each name in sight stands for, over base variables
    spelled: Mapping[sympy.Symbol, Integer]  # its definition as the source has it, over other names
    opaque: str = ""
    copied_to: Access | None = None
    copied_from: Integer | None = None
    source: Access | None = None
    held_back: Predicate | None = None

    def offset_of(self, access: Access) -> Integer:
        """The offset of another access that could stand here, in elements, over base variables."""
        return access.offset().xreplace(self.names)


@dataclass(frozen=True, slots=True)
class Place:
    """A point of the source: what its names stand for, and what decides when it is reached; `opaque` as in `Site`.

    `sizes` are params without a value: they stay in expressions, and no data."""

    definitions: Mapping[sympy.Symbol, Integer]
    spelled: Mapping[sympy.Symbol, Integer]
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    opaque: str = ""
    sizes: frozenset[sympy.Symbol] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """A node in its place. `inside` is where its guard, condition or loop lets lanes go on; without one, the place."""

    node: Node
    place: Place
    inside: Place


def sites(kernel: Kernel, params: Mapping[str, int], sizes: Iterable[str] = ()) -> tuple[Site, ...]:
    """All accesses of a kernel in the order of the source. `params` gives each param's value by its name in C.

    `sizes` names params without a value. Then counters run as far as any allowed value lets them, and expressions hold
    the param itself."""
    return tuple(site for step in steps(kernel, params, sizes) for site in _sites_of(step))


def steps(kernel: Kernel, params: Mapping[str, int], sizes: Iterable[str] = ()) -> Iterator[Step]:
    """All nodes of a kernel in the order of the source, those with children before them."""
    fixed: dict[sympy.Symbol, Integer] = {symbol(name): integer(value) for name, value in params.items()}
    fixed.update({t: integer(0) for t, size in zip(THREAD, kernel.block, strict=True) if size == 1})
    ranges = dict(kernel.ranges)
    free = frozenset(symbol(name) for name in sizes)
    extents = [extent.xreplace(fixed) for extent in kernel.grid]
    grid = [bounds(extent, ranges)[1] if extent.free_symbols & free else int(extent) for extent in extents]
    counters = tuple(Counter(b, count) for b, count in zip(BLOCK, grid, strict=True) if count != 1)
    fixed.update({b: integer(0) for b, count in zip(BLOCK, grid, strict=True) if count == 1})
    ranges.update({t: (0, size - 1) for t, size in zip(THREAD, kernel.block, strict=True)})
    ranges.update({b: (0, max(count - 1, 0)) for b, count in zip(BLOCK, grid, strict=True)})
    return _Walk(ranges).nodes(kernel.body, Place(fixed, {}, counters, (), sizes=free))


class _Walk:
    """The walk over a body; `ranges` grows by one entry for each loop counter."""

    def __init__(self, ranges: dict[sympy.Symbol, tuple[int, int]]) -> None:
        self.ranges = ranges
        self.loops = 0

    def nodes(self, nodes: tuple[Node, ...], place: Place) -> Iterator[Step]:
        for node in nodes:
            match node:
                case Define() | LoadBlockId():
                    if isinstance(node, LoadBlockId):
                        yield Step(node, place, place)
                    value = node.index.definition.xreplace(place.definitions)
                    name, spelled = node.index.symbol, node.index.definition
                    place = replace(
                        place,
                        definitions={**place.definitions, name: value},
                        spelled={**place.spelled, name: spelled},
                    )
                case ReturnUnless():
                    guarded = _guarded(place, node.guard)
                    yield Step(node, place, guarded)
                    place = guarded
                case For():
                    inside = self._inside(node, place)
                    yield Step(node, place, inside)
                    yield from self.nodes(node.body, inside)
                case If(condition=Guard() as guard):
                    guarded = _guarded(place, guard)
                    yield Step(node, place, guarded)
                    yield from self.nodes(node.then, guarded)
                    yield from self.nodes(node.orelse, _guarded(place, guard, negated=True))
                case If():
                    hidden = replace(place, opaque=place.opaque or _why_hidden(node.condition, place))
                    yield Step(node, place, hidden)
                    yield from self.nodes(node.then, hidden)
                    yield from self.nodes(node.orelse, hidden)
                case Load() | Copy() if node.guard is not None and node.guard.terms:
                    yield Step(node, place, _guarded(place, node.guard))
                case _:
                    yield Step(node, place, place)

    def _inside(self, node: For, place: Place) -> Place:
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
        counters = (*place.counters, Counter(name, count)) if count != 1 else place.counters
        opaque = place.opaque or (
            "" if all(p.is_decided_by(counters, place.sizes) for p in predicates) else DATA_DECIDES
        )
        definitions = {**place.definitions, loop.index.symbol: value}
        return Place(definitions, place.spelled, counters, predicates, opaque, place.sizes)

    def _limit(self, distance: Integer, step: int, place: Place) -> int:
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


def _guarded(place: Place, guard: Guard, *, negated: bool = False) -> Place:
    predicate = Predicate(tuple(_term(term, place.definitions) for term in guard.terms), negated)
    opaque = place.opaque or ("" if predicate.is_decided_by(place.counters, place.sizes) else DATA_DECIDES)
    return replace(place, predicates=(*place.predicates, predicate), opaque=opaque)


def _why_hidden(condition: Condition, place: Place) -> str:
    """Why a condition that is no guard can't be counted: it depends on data, or only on indices."""
    for leaf in () if isinstance(condition, Guard) else walk(condition):
        if isinstance(leaf, Read | ScalarValue) or (
            isinstance(leaf, Local) and symbol(leaf.name) not in place.definitions
        ):
            return DATA_DECIDES
    return NO_CONJUNCTION


def _sites_of(step: Step) -> Iterator[Site]:
    """A guard holds a load back, and a copy's source; what a copy writes is written in any case."""
    node = step.node
    inline = [leaf.access for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Element)]
    own = inline if isinstance(node, For | If) else accesses((node,))
    for access in own:
        always = (isinstance(node, Copy) and access is node.target) or any(access is i for i in inline)
        site = _site(access, step.place if always else step.inside)
        if isinstance(node, Copy) and node.asynchronous:
            if access is node.source:
                site = replace(site, copied_to=node.target)
            else:
                offset = node.source.offset().xreplace(step.place.definitions)
                guards = step.inside.predicates[len(step.place.predicates) :]
                site = replace(site, copied_from=offset, source=node.source, held_back=guards[0] if guards else None)
        why = WAITS if isinstance(node, AcquireSpinWait) else DISTRIBUTED if access.rank is not None else ""
        yield replace(site, opaque=site.opaque or why)


def _site(access: Access, place: Place) -> Site:
    offset = access.offset().xreplace(place.definitions)
    known = {*THREAD, *(counter.symbol for counter in place.counters), *place.sizes}
    opaque = place.opaque
    for free in sorted(offset.free_symbols, key=str):
        if free not in known:
            opaque = opaque or f"the subscript depends on the value {free}, which is read from memory"
    return Site(access, offset, place.counters, place.predicates, place.definitions, place.spelled, opaque)


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
