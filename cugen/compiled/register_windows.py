"""Which of the elements that an access loads are used, where all it loads goes to an array in registers.

A compiler drops the loads of values that nothing reads, and narrows a vector whose last elements nothing reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import sympy

from cugen.analysis.totals.sites import Counter, ProgramPoint, Site, Step, sites, steps
from cugen.compiled.reshaping import is_loop
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Component, Element
from cugen.plan.nodes import Accumulate, Load, Mma, Store
from cugen.plan.symbols import Integer, integer
from cugen.plan.walking import values_of
from cugen.spec.expressions import Cast, Expr, Local, walk

_MOST_PLACES = 4096  # of an array in registers, which is small

Trip = Mapping[sympy.Symbol, int]


@dataclass(frozen=True)
class Kept:
    """A store of one element that an access loads: `component` of it goes to `place` of an array in registers, for all
    values of the `counters`; `read` are the places of the array that are read somewhere."""

    component: Integer
    place: Integer
    counters: tuple[Counter, ...]
    read: frozenset[int]


Windows = Mapping[int, tuple[Kept, ...]]  # by the access's id


def windows(kernel: Kernel, params: Mapping[str, int]) -> Windows:
    """The accesses all of whose elements go to arrays in registers, with where they go."""
    read = _read_places(kernel, params)
    found: dict[int, list[Kept]] = {}
    other: set[int] = set()
    latest: dict[str, Access] = {}
    for step in steps(kernel, params):
        node = step.node
        if isinstance(node, Load):
            latest[node.local.name] = node.access
        for leaf in _leaves(step):
            access = leaf.access if isinstance(leaf, Element) else latest.get(leaf.name)
            if access is None:
                continue
            kept = _kept(node, leaf, step.inside, read) if isinstance(node, Store) else None
            if kept is None:
                other.add(id(access))
            else:
                found.setdefault(id(access), []).append(kept)
    return {access: tuple(kept) for access, kept in found.items() if access not in other}


def _leaves(step: Step) -> Iterator[Local]:
    for value in values_of(step.node):
        yield from (leaf for leaf in walk(value) if isinstance(leaf, Local))


def _kept(node: Store, leaf: Local, place: ProgramPoint, read: Mapping[int, frozenset[int]]) -> Kept | None:
    """What a store keeps of a value; None where it goes elsewhere or isn't stored as it is."""
    if not _is(node.value, leaf) or id(node.access.array) not in read or node.access.width != 1:
        return None
    component = leaf.index.xreplace(place.definitions) if isinstance(leaf, Component) else integer(0)
    return Kept(
        component, node.access.offset().xreplace(place.definitions), place.counters, read[id(node.access.array)]
    )


def _is(value: Expr, leaf: Local) -> bool:
    return _is(value.arg, leaf) if isinstance(value, Cast) else value is leaf


def _read_places(kernel: Kernel, params: Mapping[str, int]) -> Mapping[int, frozenset[int]]:
    """The places of each array in registers that are read; arrays are left out where a place isn't known."""
    found: dict[int, set[int]] = {}
    unknown: set[int] = set()
    adds = {id(access) for step in steps(kernel, params) for access in _added_to(step)}
    for site in sites(kernel, params):
        if site.access.array.space != "register":
            continue
        own = found.setdefault(id(site.access.array), set())
        if site.access.kind == "load" or id(site.access) in adds:
            for at in _values(site.counters):
                place = site.offset.xreplace(at)
                if place.is_Integer:
                    own.update(range(int(place), int(place) + site.access.width))
                else:
                    unknown.add(id(site.access.array))
    return {array: frozenset(places) for array, places in found.items() if array not in unknown}


def _added_to(step: Step) -> tuple[Access, ...]:
    match step.node:
        case Accumulate(access=access):
            return (access,)
        case Mma(acc_upper=upper, acc_lower=lower):
            return (upper, lower)
    return ()


def _values(counters: Iterable[Counter]) -> Iterator[dict[sympy.Symbol, Integer]]:
    loops = [c for c in counters if is_loop(c)]
    total = 1
    for counter in loops:
        total *= counter.count
    if total > _MOST_PLACES:
        yield {}  # leaves the counters in, so the place isn't known
        return
    for values in product(*(range(c.count) for c in loops)):
        yield dict(zip((c.symbol for c in loops), map(integer, values), strict=True))


def used(site: Site, trip: Trip, kept: Iterable[Kept]) -> frozenset[int]:
    """The elements of the site's access that something reads after one trip."""
    every = frozenset(range(site.access.width))
    at = {name: integer(value) for name, value in trip.items()}
    found: set[int] = set()
    for store in kept:
        for inner in _values(c for c in store.counters if c.symbol not in at):
            component, place = (e.xreplace({**at, **inner}) for e in (store.component, store.place))
            if not (component.is_Integer and place.is_Integer):
                return every
            if int(place) in store.read:
                found.add(int(component))
    return frozenset(found)
