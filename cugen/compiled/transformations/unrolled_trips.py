"""Sites of an unrolled loop of which only some trips remain, matched by address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.totals.affine import affine_form
from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import BLOCK, THREAD, Counter, Predicate, Site
from cugen.compiled.addresses import Form
from cugen.compiled.sass import Instruction
from cugen.compiled.transformations import transformed_sites
from cugen.plan.symbols import Integer

_WORD = 1 << 32  # values of a 32-bit register
_REGISTERS = {
    **{f"SR_TID.{str(t)[-1].upper()}": t for t in THREAD},
    **{f"SR_CTAID.{str(b)[-1].upper()}": b for b in BLOCK},
}

WHICH_REMAIN = "reused: some trips find their value in a register; which ones is unknown, and their costs differ"

Trip = Mapping[sympy.Symbol, int]


@dataclass(frozen=True)
class _Element:
    """One element of a trip: its offset relative to the thread's base address, and its guards."""

    predicates: tuple[Predicate, ...]
    trip: Site
    used: bool


def whole_trips(
    site: Site, trips: Sequence[Trip], used: Sequence[frozenset[int]], instructions: Sequence[Instruction]
) -> tuple[Site, ...] | None:
    """The trips with a live element, if there is one instruction for each of them."""
    written = site.access.array.dtype.bytes * site.access.width
    wanted = [trip_values for trip_values, elements in zip(trips, used, strict=True) if elements]
    partly = any(elements and len(elements) < site.access.width for elements in used)
    if partly or len(wanted) != len(instructions) or any(i.bytes != written for i in instructions):
        return None
    result = tuple(transformed_sites.fixed(site, trip_values) for trip_values in wanted)
    return result if len({trip.offset for trip in result}) == len(result) else None


def any_trips(site: Site, trips: Sequence[Trip], count: int, total: Callable[[Site], Totals | None]) -> Site:
    """`count` of the trips, whichever they are, with the address of the first; without a known address unless each
    trip costs the same. The guards must not depend on the trip."""
    first, *others = (transformed_sites.fixed(site, trip_values) for trip_values in trips)
    remaining = Counter(sympy.Symbol("remaining trip", integer=True), count)
    result = replace(first, counters=(*first.counters, remaining))
    cost = _cost(total(first))
    return result if all(_cost(total(trip)) == cost for trip in others) else replace(result, opaque=WHICH_REMAIN)


def _cost(totals: Totals | None) -> Totals | None:
    return totals and replace(totals, patterns=[])


def by_address(
    site: Site,
    trips: Sequence[Trip],
    used: Sequence[frozenset[int]],
    instructions: Sequence[Instruction],
    forms: Mapping[int, Form],
    threads: tuple[int, int, int],
) -> tuple[Site, ...] | None:
    """One site per instruction, from the elements at its address. Requires that the elements of an instruction share
    their guards, that none is moved twice, and that all live elements are covered."""
    pieces = _elements(site, trips, used)
    if pieces is None:
        return None
    size = site.access.array.dtype.bytes
    base = _thread_terms(site.offset, size)
    still = {s for s, extent in zip(THREAD, threads, strict=True) if extent == 1}
    still |= {*BLOCK} - {counter.symbol for counter in site.counters}
    moved: set[int] = set()
    result = []
    for instruction in instructions:
        form = forms.get(instruction.address, Form())
        if base is None or _register_terms(form, still) != base:
            return None
        distance = (form.constant + _WORD // 2) % _WORD - _WORD // 2
        first, count = distance // size, instruction.bytes // size
        elements = set(range(first, first + count))
        if distance % size or not elements <= pieces.keys() or elements & moved:
            return None
        moved |= elements
        if len({pieces[element].predicates for element in elements}) > 1:
            return None
        trip = pieces[first].trip
        offset = trip.offset - _constant(trip.offset) + first
        result.append(replace(trip, offset=offset, access=replace(trip.access, width=count)))
    left = {element for element, piece in pieces.items() if piece.used} - moved
    return None if left else tuple(result)


def _elements(site: Site, trips: Sequence[Trip], used: Sequence[frozenset[int]]) -> dict[int, _Element] | None:
    """Elements of all trips, by their constant offset in bytes; None if one has different guards in different trips, or
    if an offset exceeds 32 bits."""
    result: dict[int, _Element] = {}
    for trip_values, elements in zip(trips, used, strict=True):
        trip = transformed_sites.fixed(site, trip_values)
        first = _constant(trip.offset)
        for element in range(site.access.width):
            known = result.get(first + element)
            if known is not None and known.predicates != trip.predicates:
                return None
            inside = element in elements or (known is not None and known.used)
            result[first + element] = _Element(trip.predicates, trip, inside)
    far = any(abs(element) * site.access.array.dtype.bytes >= _WORD // 2 for element in result)
    return None if far else result


def _constant(offset: Integer) -> int:
    return int(sympy.expand(offset).as_coeff_Add()[0])


def _thread_terms(offset: Integer, size: int) -> dict[sympy.Symbol, int] | None:
    """Strides in bytes for each thread and block index; None if it isn't linear in them at fixed counters."""
    free = offset.free_symbols
    affine = affine_form(offset, tuple(free))
    if not affine.residual.is_Integer:
        return None
    launch = {*THREAD, *BLOCK}
    return {s: c * size % _WORD for s, c in affine.coefficients.items() if s in launch and c * size % _WORD}


def _register_terms(form: Form, still: Collection[sympy.Symbol]) -> dict[sympy.Symbol, int] | None:
    """Strides in bytes of an address form for each thread and block index; None if it has terms besides a pointer and
    these. Indices in `still` are 0 in the whole launch."""
    pointers = [name for name, _ in form.terms if name.startswith("c[0x0]")]
    if len(pointers) != 1 or dict(form.terms)[pointers[0]] != 1:
        return None
    others = {name: c for name, c in form.terms if name != pointers[0]}
    if not others.keys() <= _REGISTERS.keys():
        return None
    return {_REGISTERS[name]: c for name, c in others.items() if _REGISTERS[name] not in still}
