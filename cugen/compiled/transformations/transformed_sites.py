"""Sites as transformed by the compiler: vectorised, scalarised, hoisted or partially unrolled.

Each function returns sites that together cover the elements of the given one. `totals` counts them like any site.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import sympy

from cugen.analysis.totals.affine import affine_form, evaluator
from cugen.analysis.totals.sites import THREAD, Counter, Predicate, Site
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer

_WARP_SIZE = 32  # lanes (CUDA programming guide)


def vectorised(site: Site, factors: Sequence[int]) -> tuple[Site, ...] | None:
    """The site with a unit-stride counter vectorised by `factors`, the widest wherever it is aligned and fits; None
    without such a counter.

    `As[ty][k]` for k < 16 with factors (4,) is `As[ty][4 * k']` for k' < 4, 4 elements wide. A single factor may
    extend beyond the first and the last trip."""
    counter = _unit_counter(site)
    if counter is None:
        return None
    misalignment = _misaligned(site, counter, max(factors))
    pieces = []
    position = -misalignment if len(factors) == 1 else 0
    while position < counter.count:
        left = counter.count - position
        fits = [
            f
            for f in sorted(factors, reverse=True)
            if (misalignment + position) % f == 0 and (f <= left or len(factors) == 1)
        ]
        if not fits:
            return None
        times = max(1, left // fits[0]) if (misalignment + position) % max(factors) == 0 else 1
        pieces.append(_stepped(site, counter, position, fits[0], times))
        position += times * fits[0]
    return tuple(pieces)


def _misaligned(site: Site, counter: Counter, factor: int) -> int:
    """Misalignment of the counter's first value in elements, modulo `factor`, if it is the same for all threads."""
    affine = affine_form(site.offset, (*THREAD, *(c.symbol for c in site.counters)))
    others = [c for name, c in affine.coefficients.items() if name != counter.symbol]
    same = affine.residual.is_Integer and all(c % factor == 0 for c in others)
    return int(affine.residual) % factor if same else 0


def scalarised(site: Site, factor: int) -> tuple[Site, ...]:
    """The site with each access of `width` elements split into `factor` accesses of `width / factor`."""
    part = sympy.Symbol("part", integer=True)
    width = site.access.width // factor
    access = replace(site.access, width=width)
    counters = (*site.counters, Counter(part, factor))
    return (replace(site, access=access, offset=site.offset + part * width, counters=counters),)


def hoisted_site(site: Site, uneven: Collection[str]) -> Site | None:
    """The site hoisted out of its loops, in the lanes that make a first trip; None if its address or a guard depends on
    a loop."""
    idle = [c for c in site.counters if is_loop(c)]
    names = {c.symbol for c in idle}
    if site.offset.free_symbols & names:
        return None
    guards = {s for s in symbols_of(site.predicates) & names if str(s) not in uneven}
    return None if guards else fixed(site, dict.fromkeys(names, 0))


def fixed(site: Site, values: Mapping[sympy.Symbol, int]) -> Site:
    """The site with some counters replaced by values."""
    numbers = {name: integer(value) for name, value in values.items()}
    return replace(
        site,
        offset=site.offset.xreplace(numbers),
        counters=tuple(c for c in site.counters if c.symbol not in numbers),
        predicates=tuple(
            replace(p, terms=tuple((term.xreplace(numbers), operator) for term, operator in p.terms))
            for p in site.predicates
        ),
    )


def holds(predicate: Predicate, values: Mapping[sympy.Symbol, int]) -> bool:
    """Whether a predicate holds, given a value for each of its symbols."""
    answers = []
    for term, operator in predicate.terms:
        value = int(evaluator(term, {name: (number, number) for name, number in values.items()})(values))
        answers.append(value < 0 if operator == "<" else value == 0 if operator == "==" else value != 0)
    return all(answers) != predicate.negated


def divergent_loops(site: Site, uneven: Collection[str], block: tuple[int, int, int]) -> tuple[Counter, ...]:
    """Loops whose trip counts differ between the lanes of a warp. `uneven`: counters of the loops without a constant
    trip count; a guard on any other counter is not a loop bound."""
    return tuple(
        counter
        for counter, _, _, remainder in _divergent_ends(site)
        if str(counter.symbol) in uneven and _varies_in_a_warp(remainder, tuple(c.symbol for c in site.counters), block)
    )


def _varies_in_a_warp(remainder: Integer, counters: tuple[sympy.Symbol, ...], block: tuple[int, int, int]) -> bool:
    """Whether an expression differs between the lanes of some warp, for fixed counters."""
    affine = affine_form(remainder, counters)
    if affine.nonaffine:
        return True
    linear = np.arange(block[0] * block[1] * block[2])
    coordinates = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
    threads = dict(zip(THREAD, coordinates, strict=True))
    evaluate_residual = evaluator(affine.residual, {name: (0, int(values.max())) for name, values in threads.items()})
    values = evaluate_residual(threads) + 0 * linear
    warps = [values[first : first + _WARP_SIZE] for first in range(0, len(values), _WARP_SIZE)]
    return any(len(np.unique(warp)) > 1 for warp in warps)


def partially_unrolled(site: Site, sizes: Sequence[int]) -> tuple[Site, ...]:
    """The site whose divergent loop runs in unrolled chunks. `sizes` are trips per chunk in code order: each size of a
    chain such as 16, 8, 4, 1 while enough trips remain. The remainder of the last size may come first, one trip at a
    time (1, 16, 8, 4 with a loop; 1, 1, 1, 4 without).

    Lanes in the same chunk execute it together, even where they are in different trips of the source loop.
    Raises ValueError if the sizes are no such chain."""
    end = next(_divergent_ends(site), None)
    if end is None:
        raise ValueError("no loop with other trips in each lane")
    counter, index, step, remainder = end
    head, chain = _unroll_chain(sizes)
    wanted = FloorDiv(step - 1 - remainder, integer(step))  # remainder + step * counter < 0
    others = (*site.predicates[:index], *site.predicates[index + 1 :], Predicate(((remainder, "<"),)))
    pieces = []

    def piece(name: str, size: int, max_trips: int, start: Integer, left: Integer) -> None:
        chunk = sympy.Symbol(f"chunk {name}", integer=True)
        inside = sympy.Symbol(f"in chunk {name}", integer=True)
        value = start + size * chunk + inside
        pieces.append(
            replace(
                site,
                offset=site.offset.xreplace({counter.symbol: value}),
                counters=(
                    *(c for c in site.counters if c != counter),
                    Counter(chunk, max_trips),
                    Counter(inside, size),
                ),
                predicates=(
                    *(_substituted(p, counter.symbol, value) for p in others),
                    Predicate(((size * chunk + size - 1 - left, "<"),)),
                ),
            )
        )

    first = Mod(wanted, integer(chain[-1])) if head else integer(0)
    if head:
        piece("head", 1, chain[-1] - 1, integer(0), first)
    for position, size in enumerate(chain):
        left = wanted - first if position == 0 else Mod(wanted - first, integer(chain[position - 1]))
        max_trips = -(-counter.count // size) if position == 0 else chain[position - 1] // size
        piece(str(position), size, max_trips, wanted - left, left)
    return tuple(pieces)


def is_unroll_chain(sizes: Sequence[int]) -> bool:
    """Whether basic blocks with these trip counts are a partially unrolled loop, as `partially_unrolled` models it."""
    try:
        _unroll_chain(sizes)
    except ValueError:
        return False
    return True


def _unroll_chain(sizes: Sequence[int]) -> tuple[bool, tuple[int, ...]]:
    """Whether single remainder trips come first, and the sizes of the chunks that follow."""
    largest = list(sizes).index(max(sizes)) if sizes else 0
    before, chain = sizes[:largest], tuple(sizes[largest:])
    descends = bool(chain) and not any(a % b for a, b in pairwise(chain))
    if descends and not before and chain[-1] == 1:
        return False, chain
    if descends and (list(before) == [1] or sum(before) == chain[-1] - 1) and chain[-1] > 1:
        return True, chain
    raise ValueError(f"no chain of chunks: {list(sizes)}")


def _unit_counter(site: Site) -> Counter | None:
    affine = affine_form(site.offset, tuple(c.symbol for c in site.counters))
    guarded = symbols_of(site.predicates)
    for counter in reversed(site.counters):  # the innermost loop first
        unit = affine.coefficients.get(counter.symbol) == site.access.width
        if unit and is_loop(counter) and counter.symbol not in guarded:
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


def _divergent_ends(site: Site) -> Iterator[tuple[Counter, int, int, Integer]]:
    """(counter, predicate index, step, remainder) of each loop that runs while `remainder + step * counter < 0`, with a
    thread-dependent remainder."""
    for index, predicate in enumerate(site.predicates):
        if predicate.negated or len(predicate.terms) != 1 or predicate.terms[0][1] != "<":
            continue
        affine = affine_form(predicate.terms[0][0], tuple(c.symbol for c in site.counters))
        for counter in site.counters:
            step = affine.coefficients.get(counter.symbol, 0)
            if step > 0 and is_loop(counter) and affine.residual.free_symbols & set(THREAD):
                yield counter, index, step, sympy.expand(predicate.terms[0][0] - step * counter.symbol)


def narrows(site: Site, counter: Counter) -> bool:
    """Whether the guards of each trip of a loop imply those of its first: `i0 + plane < I`."""
    for predicate in site.predicates:
        for term, operator in predicate.terms:
            affine = affine_form(term, (counter.symbol,))
            if affine.nonaffine:
                return False
            step = affine.coefficients.get(counter.symbol, 0)
            if step < 0 or (step and (predicate.negated or operator != "<")):
                return False
    return True


def trips(site: Site) -> int:
    """Executions per thread if all guards hold."""
    count = 1
    for counter in site.counters:
        count *= counter.count if is_loop(counter) else 1
    return count


def is_loop(counter: Counter) -> bool:
    """Whether a counter belongs to a loop, not to a block index."""
    return not str(counter.symbol).startswith("blockIdx.")


def symbols_of(predicates: Iterable[Predicate]) -> frozenset[sympy.Symbol]:
    """All symbols of the predicates."""
    return frozenset(s for predicate in predicates for term, _ in predicate.terms for s in term.free_symbols)


def _substituted(predicate: Predicate, name: sympy.Symbol, value: Integer) -> Predicate:
    return replace(predicate, terms=tuple((term.xreplace({name: value}), op) for term, op in predicate.terms))
