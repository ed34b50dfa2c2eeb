"""Liveness of loaded elements that are stored to register arrays.

Compilers eliminate dead loads, and narrow vectors with dead trailing elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import sympy

from cugen.analysis.totals.sites import Counter, ProgramPoint, Site, Step, sites, steps
from cugen.compiled.transformed_sites import is_loop
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Component, Element
from cugen.plan.nodes import Accumulate, Load, Mma, Store
from cugen.plan.symbols import Integer, integer
from cugen.plan.walking import values_of
from cugen.spec.expressions import Cast, Expr, Local, walk

_MAX_REGISTER_ELEMENTS = 4096  # of an array in registers, which is small

Trip = Mapping[sympy.Symbol, int]


@dataclass(frozen=True)
class RegisterStore:
    """A store of one element that an access loads: `component` of it goes to `place` of an array in registers, for all
    values of the `counters`; `read` are the places of the array that are read somewhere."""

    component: Integer
    element_index: Integer
    counters: tuple[Counter, ...]
    read: frozenset[int]


RegisterStores = Mapping[int, tuple[RegisterStore, ...]]  # by the access's id


def register_stores(kernel: Kernel, params: Mapping[str, int]) -> RegisterStores:
    """The accesses all of whose elements go to arrays in registers, with where they go."""
    read = _read_indices(kernel, params)
    result: dict[int, list[RegisterStore]] = {}
    escaping: set[int] = set()
    latest: dict[str, Access] = {}
    for step in steps(kernel, params):
        node = step.node
        if isinstance(node, Load):
            latest[node.local.name] = node.access
        for leaf in _leaves(step):
            access = leaf.access if isinstance(leaf, Element) else latest.get(leaf.name)
            if access is None:
                continue
            kept = _register_store(node, leaf, step.inside, read) if isinstance(node, Store) else None
            if kept is None:
                escaping.add(access.serial)
            else:
                result.setdefault(access.serial, []).append(kept)
    return {access: tuple(kept) for access, kept in result.items() if access not in escaping}


def _leaves(step: Step) -> Iterator[Local]:
    for value in values_of(step.node):
        yield from (leaf for leaf in walk(value) if isinstance(leaf, Local))


def _register_store(
    node: Store, leaf: Local, element_index: ProgramPoint, read: Mapping[int, frozenset[int]]
) -> RegisterStore | None:
    """What a store keeps of a value; None where it goes elsewhere or isn't stored as it is."""
    if not _is(node.value, leaf) or id(node.access.array) not in read or node.access.width != 1:
        return None
    component = leaf.index.xreplace(element_index.definitions) if isinstance(leaf, Component) else integer(0)
    return RegisterStore(
        component,
        node.access.offset().xreplace(element_index.definitions),
        element_index.counters,
        read[id(node.access.array)],
    )


def _is(value: Expr, leaf: Local) -> bool:
    return _is(value.arg, leaf) if isinstance(value, Cast) else value is leaf


def _read_indices(kernel: Kernel, params: Mapping[str, int]) -> Mapping[int, frozenset[int]]:
    """The places of each array in registers that are read; arrays are left out where a place isn't known."""
    result: dict[int, set[int]] = {}
    unknown: set[int] = set()
    adds = {access.serial for step in steps(kernel, params) for access in _added_to(step)}
    for site in sites(kernel, params):
        if site.access.array.space != "register":
            continue
        indices = result.setdefault(id(site.access.array), set())
        if site.access.kind == "load" or site.access.serial in adds:
            for values in _values(site.counters):
                element_index = site.offset.xreplace(values)
                if element_index.is_Integer:
                    indices.update(range(int(element_index), int(element_index) + site.access.width))
                else:
                    unknown.add(id(site.access.array))
    return {array: frozenset(element_indices) for array, element_indices in result.items() if array not in unknown}


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
    if total > _MAX_REGISTER_ELEMENTS:
        yield {}  # leaves the counters in, so the place isn't known
        return
    for values in product(*(range(c.count) for c in loops)):
        yield dict(zip((c.symbol for c in loops), map(integer, values), strict=True))


def live_elements(site: Site, trip: Trip, kept: Iterable[RegisterStore]) -> frozenset[int]:
    """The elements of the site's access that something reads after one trip."""
    every = frozenset(range(site.access.width))
    values = {name: integer(value) for name, value in trip.items()}
    result: set[int] = set()
    for store in kept:
        for inner in _values(c for c in store.counters if c.symbol not in values):
            component, element_index = (e.xreplace({**values, **inner}) for e in (store.component, store.element_index))
            if not (component.is_Integer and element_index.is_Integer):
                return every
            if int(element_index) in store.read:
                result.add(int(component))
    return frozenset(result)
