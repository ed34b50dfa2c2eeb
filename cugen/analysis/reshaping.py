"""Sites as the compiler executes them: elements merged into wider instructions, or split, or loops cut into chunks.

Each function gives sites that together touch what the given one touches; `totals` counts them like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import sympy

from cugen.analysis.affine import split
from cugen.analysis.sites import THREAD, Counter, Predicate, Site
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


def widened(site: Site, factors: Sequence[int]) -> tuple[Site, ...] | None:
    """The site where a counter that moves it by one element goes in steps of `factors`, the widest first, as far as
    each fits; None where no counter does so.

    `As[ty][k]` for k < 16 with factors (4,) is `As[ty][4 * k']` for k' < 4, 4 elements wide."""
    found = _unit_counter(site, max(factors))
    if found is None:
        return None
    pieces = []
    start = 0
    for factor in sorted(factors, reverse=True):
        times = (found.count - start) // factor
        if times:
            pieces.append(_stepped(site, found, start, factor, times))
        start += times * factor
    return tuple(pieces) if start == found.count else None


def narrowed(site: Site, factor: int) -> tuple[Site, ...]:
    """The site where each access of `width` elements becomes `factor` of `width / factor`."""
    part = sympy.Symbol("part", integer=True)
    width = site.access.width // factor
    access = replace(site.access, width=width)
    counters = (*site.counters, Counter(part, factor))
    return (replace(site, access=access, offset=site.offset + part * width, counters=counters),)


def without_idle_counters(site: Site) -> Site:
    """The site where counters of loops that change neither the address nor whether it runs are left out: the value
    stays in a register."""
    needed = site.offset.free_symbols.union(*(term.free_symbols for p in site.predicates for term, _ in p.terms))
    kept = tuple(c for c in site.counters if c.symbol in needed or not _is_loop(c))
    return replace(site, counters=kept)


def lane_loop(site: Site, uneven: Collection[str]) -> Counter | None:
    """The loop whose trips differ between the lanes of a block, if there is one. `uneven` names the indices of loops
    whose trips aren't the same everywhere: a guard on the counter of any other loop is no end of it."""
    found = _lane_loop(site)
    return found[0] if found and str(found[0].symbol).split()[-1] in uneven else None


def chunked(site: Site, sizes: Sequence[int]) -> tuple[Site, ...]:
    """The site whose lane loop runs in chunks of `sizes` (16, 8, 4, 1), each size until fewer are left.

    Lanes that have come to the same chunk run it together, though in the source they would be in different trips.
    ValueError where a size doesn't divide the one before it or the last isn't 1."""
    found = _lane_loop(site)
    if found is None or not sizes or sizes[-1] != 1 or any(a % b for a, b in pairwise(sizes)):
        raise ValueError(f"no chain of chunks: {sizes}")
    counter, index, step, rest = found
    trips = FloorDiv(step - 1 - rest, integer(step))  # rest + step * counter < 0
    others = (*site.predicates[:index], *site.predicates[index + 1 :], Predicate(((rest, "<"),)))
    pieces = []
    for place, size in enumerate(sizes):
        left: Integer = trips if place == 0 else Mod(trips, integer(sizes[place - 1]))
        chunk = sympy.Symbol(f"chunk {place}", integer=True)
        inside = sympy.Symbol(f"in chunk {place}", integer=True)
        most = -(-counter.count // size) if place == 0 else sizes[place - 1] // size
        value = trips - left + size * chunk + inside
        pieces.append(
            replace(
                site,
                offset=site.offset.xreplace({counter.symbol: value}),
                counters=(*(c for c in site.counters if c != counter), Counter(chunk, most), Counter(inside, size)),
                predicates=(
                    *(_substituted(p, counter.symbol, value) for p in others),
                    Predicate(((size * chunk + size - 1 - left, "<"),)),
                ),
            )
        )
    return tuple(pieces)


def _unit_counter(site: Site, factor: int) -> Counter | None:
    affine = split(site.offset, tuple(c.symbol for c in site.counters))
    guarded = _symbols(site.predicates)
    for counter in reversed(site.counters):  # the innermost loop first
        unit = affine.coefficients.get(counter.symbol) == site.access.width
        if unit and _is_loop(counter) and counter.symbol not in guarded and counter.count >= factor:
            return counter
    return None


def _stepped(site: Site, counter: Counter, start: int, factor: int, times: int) -> Site:
    value = start + factor * counter.symbol if times > 1 else integer(start)
    stepped = tuple(replace(c, count=times) if c == counter else c for c in site.counters)
    return replace(
        site,
        access=replace(site.access, width=site.access.width * factor),
        offset=site.offset.xreplace({counter.symbol: value}),
        counters=tuple(c for c in stepped if c.symbol != counter.symbol or times > 1),
    )


def _lane_loop(site: Site) -> tuple[Counter, int, int, Integer] | None:
    """(counter, its predicate's place, step, rest) of a loop that runs while `rest + step * counter < 0`."""
    for index, predicate in enumerate(site.predicates):
        if predicate.negated or len(predicate.terms) != 1 or predicate.terms[0][1] != "<":
            continue
        affine = split(predicate.terms[0][0], tuple(c.symbol for c in site.counters))
        for counter in site.counters:
            step = affine.coefficients.get(counter.symbol, 0)
            if step > 0 and _is_loop(counter) and affine.rest.free_symbols & set(THREAD):
                rest = sympy.expand(predicate.terms[0][0] - step * counter.symbol)
                return counter, index, step, rest
    return None


def _is_loop(counter: Counter) -> bool:
    return not str(counter.symbol).startswith("blockIdx.")


def _symbols(predicates: Iterable[Predicate]) -> frozenset[sympy.Symbol]:
    return frozenset(s for predicate in predicates for term, _ in predicate.terms for s in term.free_symbols)


def _substituted(predicate: Predicate, name: sympy.Symbol, value: Integer) -> Predicate:
    return replace(predicate, terms=tuple((term.xreplace({name: value}), op) for term, op in predicate.terms))
