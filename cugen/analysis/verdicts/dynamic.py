"""Kernels that serve any size: the worst verdict over all residues that a param without a value may have.

What a warp costs depends on a stride only modulo the period of banks or sectors, so a few values of each param stand
for all. Guards that compare with such a param are taken as passed: what is judged is the interior of the launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import gcd, lcm, prod

import sympy

from cugen.analysis.totals.exact import Unknown
from cugen.analysis.totals.sites import THREAD, Counter, Predicate, Site, sites
from cugen.analysis.verdicts.report import (
    SPACES,
    AccessReport,
    KernelReport,
    Setting,
    analyze_kernel,
    judged,
    make_setting,
    period_of,
    unknown,
)
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.machine.requests import async_copies
from cugen.machine.target import Cache
from cugen.plan.kernel import Kernel
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Maximum, Minimum, Mod, Range, bounds, symbol

_COMBINATIONS = 512  # of residues, beyond which the answer is "unknown" rather than slow
_LARGE = 4096


@dataclass(frozen=True)
class Residues:
    """Values of a param that stand for all that it may have, which are known by their remainder by `modulus`."""

    name: sympy.Symbol
    modulus: int
    values: range


@dataclass(frozen=True)
class _Case:
    values: tuple[int, ...]
    report: AccessReport

    @property
    def badness(self) -> tuple[int, Fraction]:
        """First what the worst request costs beyond its ideal, then the average."""
        report = self.report
        each = report.per_request
        excess = each.worst - each.worst_ideal if each else 0
        return excess, Fraction(report.cost, report.ideal) if report.ideal else Fraction(1)


def analyze_any_size(
    kernel: Kernel,
    target: Target | str,
    params: Mapping[str, int],
    dynamic: Mapping[str, int],
    *,
    offsets: Mapping[str, int] | None = None,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
) -> KernelReport:
    """The report of a launch whose size is not known. `params` and the options are as for `analyze_kernel`; `dynamic`
    names the params without a value, in C, each with what it is promised to be a multiple of (1 for nothing).

    Totals are None, `cost` and `ideal` are those of a request on average times one common factor, at the residues that
    `claim` names as the worst. Launches whose every param has a value are analysed exactly.
    """
    if not dynamic:
        return analyze_kernel(kernel, target, params, offsets=offsets, bank_bytes=bank_bytes, cache=cache)
    setting = make_setting(kernel, target, offsets, bank_bytes, cache)
    wording = Wording.of(kernel, (*params, *dynamic))
    found = tuple(
        _worst(kernel, site, setting, wording, dynamic)
        for site in sites(kernel, params, dynamic)
        if site.access.array.space in SPACES
    )
    return KernelReport(kernel.name, setting.target.name, found)


def _worst(kernel: Kernel, site: Site, setting: Setting, wording: Wording, dynamic: Mapping[str, int]) -> AccessReport:
    sizes = frozenset(map(symbol, dynamic))
    try:
        if site.opaque:
            raise Unknown(site.opaque)
        interior = _settled(_interior(kernel, site, sizes), setting, sizes)
        residues = _residues(kernel, interior, setting, dynamic)
        cases = [
            _case(kernel, interior, setting, wording, residues, values)
            for values in product(*(r.values for r in residues))
        ]
    except Unknown as why:
        return unknown(kernel, site, wording, str(why))
    worst = max(cases, key=lambda case: case.badness)
    at = _named(worst, cases, residues)
    guards = len(interior.predicates) < len(site.predicates) or interior.source_guard != site.source_guard
    return _any_size(worst.report, at, ", ".join(sorted(dynamic)), guards=guards)


def _case(
    kernel: Kernel,
    site: Site,
    setting: Setting,
    wording: Wording,
    residues: tuple[Residues, ...],
    values: tuple[int, ...],
) -> _Case:
    chosen = {r.name: sympy.Integer(value) for r, value in zip(residues, values, strict=True)}
    source = None if site.source_offset is None else site.source_offset.xreplace(chosen)
    fixed = replace(site, offset=site.offset.xreplace(chosen), source_offset=source)
    found, assumptions = setting.totals(kernel, fixed)
    return _Case(values, judged(kernel, fixed, setting, wording, found, assumptions))


def _any_size(report: AccessReport, at: str, names: str, *, guards: bool) -> AccessReport:
    factor = gcd(report.cost, report.ideal) or 1
    where = f"worst at {at}" if at else f"at any {names}"
    passed = ", where its guards hold" if guards else ""
    figure = f"{'assumed: ' if report.verdict == 'assumed' else ''}{report.per_request}"
    cause = f" ({where})"
    return replace(
        report,
        totals=None,
        cost=report.cost // factor,
        ideal=report.ideal // factor,
        claim=f"{figure}{cause}",
        reason=f"{where}{passed}: {report.reason}",
    )


def _named(worst: _Case, cases: list[_Case], residues: tuple[Residues, ...]) -> str:
    """`M mod 8 = 1 and N mod 8 = 3`; params that change nothing at the worst place are left out."""
    badness = {case.values: case.badness for case in cases}
    parts = []
    for place, each in enumerate(residues):
        others = [(*worst.values[:place], value, *worst.values[place + 1 :]) for value in each.values]
        if any(badness[other] != worst.badness for other in others):
            parts.append(f"{each.name} mod {each.modulus} = {worst.values[place] % each.modulus}")
    return " and ".join(parts)


def _interior(kernel: Kernel, site: Site, sizes: frozenset[sympy.Symbol]) -> Site:
    """The site without what depends on a size: guards hold, bounds like `min(i, N - 1)` don't take hold.

    Raises Unknown where a size enters in a way that its residue doesn't tell."""
    quotients: dict[Integer, Counter] = {}
    offset = _without_bounds(site.offset, sizes, quotients)
    ranges = {**dict(kernel.ranges), **{c.symbol: (0, max(c.count - 1, 0)) for c in site.counters}}
    source = None if site.source_offset is None else _without_bounds(site.source_offset, sizes, quotients)
    counters = [*site.counters]
    for part, counter in quotients.items():
        counters.append(replace(counter, count=bounds(part, ranges)[1] + 1))
    kept = tuple(p for p in site.predicates if not _asks_for(p, sizes))
    back = None if site.source_guard is None or _asks_for(site.source_guard, sizes) else site.source_guard
    return replace(
        site,
        offset=sympy.expand(offset),
        counters=tuple(counters),
        predicates=kept,
        source_offset=source,
        source_guard=back,
    )


def _asks_for(predicate: Predicate, sizes: frozenset[sympy.Symbol]) -> bool:
    return any(difference.free_symbols & sizes for difference, _ in predicate.terms)


def _without_bounds(expr: Integer, sizes: frozenset[sympy.Symbol], quotients: dict[Integer, Counter]) -> Integer:
    """`quotients` collects what lanes share and divide by a size: any number may come of it."""
    if not expr.free_symbols & sizes or not expr.args:
        return expr
    if isinstance(expr, FloorDiv | Mod) and expr.args[1].free_symbols & sizes:
        if expr.free_symbols & set(THREAD):
            raise Unknown(f"the lanes' places are divided by {expr.args[1]}, which has no value")
        name = sympy.Symbol(f"quotient {len(quotients)}", integer=True)
        return quotients.setdefault(expr, Counter(name, 0)).symbol
    parts = [_without_bounds(arg, sizes, quotients) for arg in expr.args]
    if isinstance(expr, Minimum | Maximum):
        inner = [part for part in parts if not part.free_symbols <= sizes]
        if len(inner) != 1:
            raise Unknown("which of two bounds holds depends on a size that has no value")
        return inner[0]
    if isinstance(expr, BitXor):
        raise Unknown("the subscript is permuted by a size that has no value")
    return expr.func(*parts)


def _settled(site: Site, setting: Setting, sizes: frozenset[sympy.Symbol]) -> Site:
    """The site without what a size moves by whole periods, all lanes of a warp alike."""
    offset = _without_periods(site.offset, _elements(site, setting), sizes)
    source = site.source_offset
    if source is not None:
        source = _without_periods(source, _source_elements(site), sizes)
    return replace(site, offset=offset, source_offset=source)


def _without_periods(expr: Integer, elements: int, sizes: frozenset[sympy.Symbol]) -> Integer:
    expr = sympy.expand(expr.replace(FloorDiv, _quotient))
    moved = [
        term
        for term in sympy.Add.make_args(expr)
        if term.free_symbols & sizes
        and not term.free_symbols & set(THREAD)
        and int(term.as_coeff_Mul()[0]) % elements == 0
    ]
    return sympy.expand(expr - sympy.Add(*moved))


def _quotient(dividend: Integer, divisor: Integer) -> Integer:
    """`(a + 4·b) // 4` as `a // 4 + b`: what leaves no remainder stands outside."""
    if not divisor.is_Integer:
        return FloorDiv(dividend, divisor)
    terms = sympy.Add.make_args(sympy.expand(dividend))
    whole = [term for term in terms if int(term.as_coeff_Mul()[0]) % int(divisor) == 0]
    rest = sympy.Add(*(term for term in terms if term not in whole))
    return FloorDiv(rest, divisor) + sympy.Add(*(term / divisor for term in whole))


def _elements(site: Site, setting: Setting) -> int:
    """Shifting a warp's addresses by so many elements changes no cost."""
    array = site.access.array
    period = period_of(SPACES[array.space], array.dtype.bytes * site.access.width, setting.target)
    return period // gcd(period, array.dtype.bytes)


def _source_elements(site: Site) -> int:
    """Shifting what a copy reads by so many elements changes no cost."""
    array = site.access.array
    return (
        async_copies.LINE_BYTES // array.dtype.bytes
        if array.dtype.bytes * site.access.width == async_copies.L1_BYPASS_BYTES
        else 1
    )


def _residues(kernel: Kernel, site: Site, setting: Setting, dynamic: Mapping[str, int]) -> tuple[Residues, ...]:
    """For each size in the subscript the values to try; a divisor of it multiplies the period."""
    ranges = dict(kernel.ranges)
    periods = [(site.offset, _elements(site, setting))]
    if site.source_offset is not None:
        periods.append((site.source_offset, async_copies.LINE_BYTES // site.access.array.dtype.bytes))
    sizes = {name for expr, _ in periods for name in expr.free_symbols} & set(map(symbol, dynamic))
    found = []
    for name in sorted(sizes, key=str):
        modulus = 1
        for expr, elements in periods:
            if name in expr.free_symbols:
                divided = {part for part in expr.atoms(FloorDiv, Mod) if name in part.free_symbols}
                modulus = lcm(modulus, elements * prod(int(part.args[1]) for part in divided))
        found.append(_values(name, modulus, dynamic[str(name)], ranges[name]))
    if prod(len(each.values) for each in found) > _COMBINATIONS:
        names = " and ".join(str(each.name) for each in found)
        raise Unknown(f"its cost depends on too many residues of {names}")
    return tuple(found)


def _values(name: sympy.Symbol, modulus: int, multiple: int, allowed: Range) -> Residues:
    """One value for each remainder, from `_LARGE` on if the range goes so far: rows of a few elements would overlap in
    a warp whose guards are taken to hold."""
    low, high = (-(-allowed[0] // multiple), allowed[1] // multiple)  # in multiples
    count = min(modulus // gcd(multiple, modulus), max(high - low + 1, 1))
    first = max(low, min(-(-_LARGE // multiple), high - count + 1))
    return Residues(name, modulus, range(multiple * first, multiple * (first + count), multiple))
