"""The sites of straight code that carries out some of an access's trips alone, where it can be told which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.totals.affine import affine_form
from cugen.analysis.totals.sites import BLOCK, THREAD, Predicate, Site
from cugen.compiled import reshaping
from cugen.compiled.addresses import Form
from cugen.compiled.sass import Instruction
from cugen.plan.symbols import Integer

_WORD = 1 << 32
_REGISTERS = {
    **{f"SR_TID.{str(t)[-1].upper()}": t for t in THREAD},
    **{f"SR_CTAID.{str(b)[-1].upper()}": b for b in BLOCK},
}

Trip = Mapping[sympy.Symbol, int]


@dataclass(frozen=True)
class _Piece:
    """One element of a trip: where it lies in the array relative to the thread's own place, and under which guards."""

    predicates: tuple[Predicate, ...]
    trip: Site
    used: bool


def whole_trips(
    site: Site, trips: Sequence[Trip], used: Sequence[frozenset[int]], instructions: Sequence[Instruction]
) -> tuple[Site, ...] | None:
    """The trips of which anything is used, where there is an instruction for each."""
    written = site.access.array.dtype.bytes * site.access.width
    wanted = [at for at, elements in zip(trips, used, strict=True) if elements]
    partly = any(elements and len(elements) < site.access.width for elements in used)
    if partly or len(wanted) != len(instructions) or any(i.bytes != written for i in instructions):
        return None
    found = tuple(reshaping.fixed(site, at) for at in wanted)
    return found if len({trip.offset for trip in found}) == len(found) else None


def addressed(
    site: Site,
    trips: Sequence[Trip],
    used: Sequence[frozenset[int]],
    instructions: Sequence[Instruction],
    forms: Mapping[int, Form],
    threads: tuple[int, int, int],
) -> tuple[Site, ...] | None:
    """The site of each instruction by its address, where that says which elements it moves: each belongs to trips under
    the same guards, none is moved twice, and nothing that is used is left out."""
    pieces = _pieces(site, trips, used)
    if pieces is None:
        return None
    size = site.access.array.dtype.bytes
    base = _thread_terms(site.offset, size)
    still = {s for s, extent in zip(THREAD, threads, strict=True) if extent == 1}
    still |= {*BLOCK} - {counter.symbol for counter in site.counters}
    moved: set[int] = set()
    found = []
    for instruction in instructions:
        form = forms.get(instruction.address, Form())
        if base is None or _register_terms(form, still) != base:
            return None
        distance = (form.constant + _WORD // 2) % _WORD - _WORD // 2
        first, count = distance // size, instruction.bytes // size
        places = set(range(first, first + count))
        if distance % size or not places <= pieces.keys() or places & moved:
            return None
        moved |= places
        if len({pieces[place].predicates for place in places}) > 1:
            return None
        trip = pieces[first].trip
        offset = trip.offset - _constant(trip.offset) + first
        found.append(replace(trip, offset=offset, access=replace(trip.access, width=count)))
    left = {place for place, piece in pieces.items() if piece.used} - moved
    return None if left else tuple(found)


def _pieces(site: Site, trips: Sequence[Trip], used: Sequence[frozenset[int]]) -> dict[int, _Piece] | None:
    """The elements of all trips by the constant of their offset; None where one belongs to trips under other guards, or
    lies too far away for an address of 32 bits."""
    found: dict[int, _Piece] = {}
    for at, elements in zip(trips, used, strict=True):
        trip = reshaping.fixed(site, at)
        first = _constant(trip.offset)
        for element in range(site.access.width):
            known = found.get(first + element)
            if known is not None and known.predicates != trip.predicates:
                return None
            inside = element in elements or (known is not None and known.used)
            found[first + element] = _Piece(trip.predicates, trip, inside)
    far = any(abs(place) * site.access.array.dtype.bytes >= _WORD // 2 for place in found)
    return None if far else found


def _constant(offset: Integer) -> int:
    return int(sympy.expand(offset).as_coeff_Add()[0])


def _thread_terms(offset: Integer, size: int) -> dict[sympy.Symbol, int] | None:
    """Bytes by which the address moves with the thread's and the block's place; None where it isn't linear in them once
    the loops' counters have a value."""
    free = offset.free_symbols
    affine = affine_form(offset, tuple(free))
    if not affine.residual.is_Integer:
        return None
    places = {*THREAD, *BLOCK}
    return {s: c * size % _WORD for s, c in affine.coefficients.items() if s in places and c * size % _WORD}


def _register_terms(form: Form, still: Collection[sympy.Symbol]) -> dict[sympy.Symbol, int] | None:
    """The same of an address that is a pointer and multiples of the thread's and the block's place, else None. Those
    that are `still` are 0 in the whole launch."""
    pointers = [name for name, _ in form.terms if name.startswith("c[0x0]")]
    if len(pointers) != 1 or dict(form.terms)[pointers[0]] != 1:
        return None
    others = {name: c for name, c in form.terms if name != pointers[0]}
    if not others.keys() <= _REGISTERS.keys():
        return None
    return {_REGISTERS[name]: c for name, c in others.items() if _REGISTERS[name] not in still}
