"""An access that a reason is about, and what its offset is over the lanes of a warp."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import sympy

from cugen.analysis.totals.sites import THREAD, Site
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.machine.requests import async_copies
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE
from cugen.machine.target import Cache
from cugen.plan.symbols import Integer, integer


@dataclass(frozen=True)
class Subject:
    """Access with its context: `width` in bytes per lane, the bank width, the sources of an asynchronous copy, where
    global loads are cached (None for the target's default), the period of the cost in addresses, in bytes, and
    the bytes of constants that the kernel reads."""

    site: Site
    space: str
    width: int
    block: tuple[int, int, int]
    target: Target
    bank_bytes: int
    wording: Wording
    sources: async_copies.Sources | None = None
    cache: Cache | None = None
    period: int = SECTOR_BYTES
    constant_bytes: int = 0

    @property
    def element_bytes(self) -> int:
        return self.site.access.array.dtype.bytes

    @property
    def verb(self) -> str:
        return "read" if self.site.access.is_load else "write"


@dataclass(frozen=True)
class LaneIndex:
    """Thread index as named in the source, with its range in the first warp of a block.

    step: stride of the offset in elements; None if the index enters through `//`, `%` or xor.
    """

    name: sympy.Symbol
    low: int
    high: int
    step: int | None

    @property
    def count(self) -> int:
        return self.high - self.low + 1


def source_expression(site: Site) -> Integer:
    """Offset in elements over the source's names; other names than a thread index plus uniform terms are expanded."""
    expr = site.access.offset()
    while True:
        varying = [name for name in sorted(expr.free_symbols, key=str) if _varies_by_lane(site, name)]
        axes = Counter(_axis(site, name) for name in varying)
        expanded = {
            name: site.source_definitions[name]
            for name in varying
            if name in site.source_definitions
            and site.definitions[name] not in THREAD
            and (_axis(site, name) is None or axes[_axis(site, name)] > 1)
        }
        if not expanded:
            fixed = {name: value for name, value in site.definitions.items() if value.is_Integer}
            return sympy.expand(expr.xreplace(fixed))
        expr = expr.xreplace(expanded)


def lane_indices(subject: Subject) -> tuple[LaneIndex, ...]:
    """Thread indices that vary between the lanes of the first warp, fastest first."""
    site, (x, y, _) = subject.site, subject.block
    expr = source_expression(site)
    threads = min(WARP_SIZE, subject.block[0] * subject.block[1] * subject.block[2])
    indices = []
    for axis, size, slower in zip(THREAD, subject.block, (1, x, x * y), strict=True):
        values = [t // slower % size for t in range(threads)]
        if max(values) > min(values):
            name = next((n for n in sorted(expr.free_symbols, key=str) if _axis(site, n) == axis), axis)
            start = _shared_part(site, name, axis)
            step = _step(_over_threads(site, expr).xreplace({axis: name}), name)
            indices.append(LaneIndex(name, start + min(values), start + max(values), step))
    return tuple(indices)


def _axis(site: Site, name: sympy.Symbol) -> sympy.Symbol | None:
    """Thread index that a name equals up to warp-uniform terms, else None."""
    value = site.definitions.get(name, name)
    for axis in THREAD:
        if axis in value.free_symbols:
            uniform = (value - axis).expand()
            return axis if uniform.free_symbols <= {counter.symbol for counter in site.counters} else None
    return None


def _shared_part(site: Site, name: sympy.Symbol, axis: sympy.Symbol) -> int:
    """Uniform part of a name in the first block and first iterations."""
    uniform = site.definitions.get(name, name) - axis
    return int(uniform.xreplace({counter.symbol: integer(0) for counter in site.counters}))


def _varies_by_lane(site: Site, name: sympy.Symbol) -> bool:
    return any(axis in site.definitions.get(name, name).free_symbols for axis in THREAD)


def _over_threads(site: Site, expr: Integer) -> Integer:
    """The expression without names that are multiples of a thread index, such as that of a loop over vectors."""
    varying = (name for name in expr.free_symbols if _varies_by_lane(site, name) and _axis(site, name) is None)
    return expr.xreplace({name: site.definitions[name] for name in varying})


def _step(expr: Integer, name: sympy.Symbol) -> int | None:
    terms = [term for term in sympy.Add.make_args(expr) if name in term.free_symbols]
    coefficient = sympy.Add(*(term.coeff(name) for term in terms)) if terms else integer(0)
    linear = (sympy.Add(*terms) - coefficient * name).expand() == 0
    return int(coefficient) if linear and coefficient.is_Integer else None


def lane_ranges(lanes: tuple[LaneIndex, ...]) -> str:
    """`in the first warp tx = 0..31`."""
    if not lanes:
        return "one active lane per warp"
    runs = " and ".join(f"{lane.name} = {lane.low}..{lane.high}" for lane in lanes)
    return f"in the first warp {runs}"


def uniform_names(subject: Subject) -> str:
    """`, for every k and k0`: the warp-uniform names in the offset."""
    names = sorted(str(n) for n in source_expression(subject.site).free_symbols if not _varies_by_lane(subject.site, n))
    return f", for every {_listed(names)}" if names else ""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def count_of(number: int, what: str) -> str:
    """`1 lane`, `2 lanes`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
