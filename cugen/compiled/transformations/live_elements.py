"""Liveness of loaded elements that are stored to register arrays.

Compilers eliminate dead loads, and narrow vectors with dead trailing elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import sympy

from cugen.analysis.totals.sites import Counter, ProgramPoint, Site, Step, sites, steps
from cugen.compiled.transformations.transformed_sites import is_loop
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Component, Element, Vector
from cugen.plan.nodes import Accumulate, Assign, Load, Mma, Store
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal.walking import values_of
from cugen.spec.expressions import Cast, Expr, Local, walk

_MAX_REGISTER_ELEMENTS = 4096  # elements of a register array that are enumerated (heuristic: bounds the run time)

Trip = Mapping[sympy.Symbol, int]


@dataclass(frozen=True)
class RegisterStore:
    """Store of one loaded element to a register array: `component` of the vector goes to `element_index`, for all
    values of `counters`. `read` are the element indices of the array that are read."""

    component: Integer
    element_index: Integer
    counters: tuple[Counter, ...]
    read: frozenset[int]


RegisterStores = Mapping[int, tuple[RegisterStore, ...]]  # by the access's serial number


def register_stores(kernel: Kernel, params: Mapping[str, int]) -> RegisterStores:
    """Register stores of the accesses whose elements all go to register arrays."""
    read = _read_indices(kernel, params)
    result: dict[int, list[RegisterStore]] = {}
    escaping: set[int] = set()
    latest: dict[str, Access] = {}
    for step in steps(kernel, params):
        node = step.node
        if isinstance(node, Load):
            latest[node.local.name] = node.access
        if isinstance(node, Assign) and isinstance(node.local, Vector) and isinstance(node.value, Element):
            latest[node.local.name] = node.value.access
            continue
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
    """Register store of an unmodified loaded value; None for any other store."""
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
    """Element indices read from each register array. Arrays with an unknown index are left out."""
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
        yield {}  # keeps the counters symbolic, so that the index is unknown
        return
    for values in product(*(range(c.count) for c in loops)):
        yield dict(zip((c.symbol for c in loops), map(integer, values), strict=True))


def live_elements(site: Site, trip: Trip, kept: Iterable[RegisterStore]) -> frozenset[int]:
    """Live elements of the site's access in one trip, by their component."""
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
