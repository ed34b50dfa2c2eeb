"""Dynamic sizes: the worst verdict over all residues of params without a value.

The cost of a warp depends on a stride only modulo the period of banks or sectors, so one value per residue is enough.
Guards over such params are assumed to hold: the verdict is for the interior of the launch. It is given if the exact
analysis at sizes with these residues, under all guards, has such a request; else it is unknown which lanes run.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import gcd, lcm, prod

import sympy

from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import THREAD, Counter, Predicate, Site, sites
from cugen.analysis.verdicts import async_proxy
from cugen.analysis.verdicts.report import (
    SPACES,
    UNITS,
    AccessReport,
    AnalysisConfig,
    KernelReport,
    analyze_kernel,
    assess,
    figures,
    make_config,
    memory_sites,
    per_request,
    period_of,
    request_figures,
    unknown,
)
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.machine.requests import async_copies
from cugen.machine.target import Cache
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Maximum, Minimum, Mod, Range, bounds, symbol

_MAX_COMBINATIONS = 512  # heuristic: of residues; beyond, the verdict is `unknown`
_LARGE_SIZE = 4096  # elements: rows of this length don't overlap within a warp
_SIZES = (_LARGE_SIZE, 512, 64, 1 << 18)  # elements: branches for long and short rows run at some (heuristic)


@dataclass(frozen=True)
class Residues:
    """One value of a param per residue modulo `modulus`."""

    name: sympy.Symbol
    modulus: int
    values: range


def analyze_any_size(
    kernel: Kernel,
    target: Target | str,
    params: Mapping[str, int],
    dynamic: Mapping[str, int],
    *,
    offsets: Mapping[str, int] | None = None,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
    space: str | None = None,
) -> KernelReport:
    """Report of a launch with dynamic sizes; `params` and the options are as for `analyze_kernel`.

    dynamic: the params without a value by their names in C, each with its `multiple_of` (1 for none).
    Totals are None; `cost` and `ideal` are averages per request, scaled to integers, at the worst residues, which the
    claim names. Launches without dynamic params are analysed exactly.
    """
    if not dynamic:
        return analyze_kernel(kernel, target, params, offsets=offsets, bank_bytes=bank_bytes, cache=cache, space=space)
    config = replace(make_config(kernel, target, offsets, bank_bytes, cache), budget=Budget())
    wording = Wording.of(kernel, (*params, *dynamic))
    costs = _Costs(kernel, config)
    launches = _Launches(kernel, config, params, dynamic)
    accesses = tuple(
        _worst(kernel, site, costs, wording, launches, position)
        for position, site in enumerate(memory_sites(kernel, sites(kernel, params, dynamic)))
        if space in (None, SPACES[site.access.array.space])
    )
    return KernelReport(kernel.name, config.target.name, accesses)


class _Costs:
    """Costs of accesses, each counted once: accesses that are whole periods apart cost the same."""

    def __init__(self, kernel: Kernel, config: AnalysisConfig) -> None:
        self.kernel, self.config = kernel, config
        self._known: dict[tuple[Hashable, ...], Totals] = {}

    def totals(self, site: Site) -> Totals:
        """The totals of an access with known sizes. Unknown if they can't be computed."""
        if site.source_offset is not None:
            return self.config.totals(self.kernel, site)[0]
        access = site.access
        site = _numbered(replace(site, offset=_modulo_period(site.offset, _elements(site, self.config))))
        key = (access.array.symbol, access.kind, access.width, site.offset, site.counters, site.predicates)
        if key not in self._known:
            self._known[key] = self.config.totals(self.kernel, site)[0]
        return self._known[key]


class _Launches:
    """Launches at given sizes, whose accesses are analysed under all guards."""

    def __init__(
        self, kernel: Kernel, config: AnalysisConfig, params: Mapping[str, int], dynamic: Mapping[str, int]
    ) -> None:
        self.kernel, self.params, self.dynamic = kernel, params, dynamic
        self.config = replace(config, budget=Budget())
        self._sites: dict[tuple[int, ...], tuple[Site, ...]] = {}

    def attaining(
        self, position: int, report: AccessReport, residues: tuple[Residues, ...], worst: tuple[int, ...]
    ) -> dict[str, int] | None:
        """Sizes with the residues of `worst` at which the access has a request with the worst figure of its report.
        None if it has none at those that are tried: long and short rows, two values of each other size."""
        each = report.per_request
        wanted = {str(r.name): (r.modulus, value) for r, value in zip(residues, worst, strict=True)}
        for size, last in product(_SIZES, (0, -1)):
            sizes = self._near(size, last, wanted)
            figures = self._figures(self._launch(sizes)[position], report.unit)
            if each is not None and (each.worst, each.worst_ideal) in figures:
                return sizes
        return None

    def _figures(self, site: Site, unit: str) -> set[tuple[int, int]]:
        """(cost, ideal) of each kind of request; of one block and iteration where all can't be counted."""
        try:
            return request_figures(unit, self.config.totals(self.kernel, site)[0])
        except Unknown:
            middle = {c.symbol: sympy.Integer(c.count // 2) for c in site.counters}
        try:
            point = replace(_substituted(site, middle), counters=())
            return request_figures(unit, replace(self.config, budget=None).totals(self.kernel, point)[0])
        except Unknown:
            return set()

    def _near(self, size: int, last: int, wanted: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        """A value near `size` for each param; of those with a (modulus, value), one with this residue if there is."""
        ranges = dict(self.kernel.ranges)
        sizes = {}
        for name, multiple in self.dynamic.items():
            modulus, value = wanted.get(name, (2 * multiple, None))
            values = _values(symbol(name), modulus, multiple, ranges[symbol(name)], size).values
            same = [] if value is None else [each for each in values if (each - value) % modulus == 0]
            sizes[name] = same[0] if same else values[last]
        return sizes

    def _launch(self, sizes: Mapping[str, int]) -> tuple[Site, ...]:
        key = tuple(sizes.values())
        if key not in self._sites:
            self._sites[key] = tuple(memory_sites(self.kernel, sites(self.kernel, {**self.params, **sizes})))
        return self._sites[key]


def _worst(
    kernel: Kernel, site: Site, costs: _Costs, wording: Wording, launches: _Launches, position: int
) -> AccessReport:
    config, dynamic = costs.config, launches.dynamic
    if site.instruction is not None:
        return _worst_alignment(kernel, site, config, wording, dynamic)
    sizes = frozenset(map(symbol, dynamic))
    try:
        if site.opaque:
            raise Unknown(site.opaque)
        interior = _reduced(_interior(kernel, site, sizes), config, sizes)
        residues = _residues(kernel, interior, config, dynamic)
        excess = {
            values: _excess(site.access, costs.totals(_fixed(interior, residues, values)))
            for values in product(*(r.values for r in residues))
        }
        worst = max(excess, key=lambda values: excess[values])
        fixed = _fixed(interior, residues, worst)
        report = assess(kernel, fixed, config, wording, *config.totals(kernel, fixed))
        chosen: dict[str, int] | None = {str(r.name): value for r, value in zip(residues, worst, strict=True)}
        if deciding := _deciding_sizes(site, sizes):
            chosen = launches.attaining(position, report, residues, worst)
            # Any lanes of a request that costs 1 cost 1.
            if chosen is None and report.per_request is not None and report.per_request.worst > 1:
                raise Unknown(f"which lanes of a warp run depends on {', '.join(deciding)}")
    except Unknown as why:
        return unknown(kernel, site, wording, str(why))
    residue_text = size_text = ""
    if chosen is not None:
        causes = _causes(worst, excess, residues)
        residue_text = " and ".join(f"{r.name} mod {r.modulus} = {chosen[str(r.name)] % r.modulus}" for r in causes)
        names = chosen.keys() & {*deciding, *(str(r.name) for r in causes)}
        size_text = " and ".join(f"{name} = {chosen[name]}" for name in sorted(names))
    guards = interior.predicates != site.predicates or interior.source_guard != site.source_guard
    return _any_size(report, residue_text, size_text, ", ".join(sorted(dynamic)), guards=guards)


def _worst_alignment(
    kernel: Kernel, site: Site, config: AnalysisConfig, wording: Wording, dynamic: Mapping[str, int]
) -> AccessReport:
    """Report of an access of TMA or wgmma: of a whole box with the worst distance of rows, or of an operand."""
    multiples = {symbol(name): multiple for name, multiple in dynamic.items()}
    try:
        totals, assumptions = async_proxy.any_size(site, multiples, config.start_of(site.access.array))
    except Unknown as why:
        return unknown(kernel, site, wording, str(why))
    report = assess(kernel, site, config, wording, totals, assumptions)
    where = "rows that begin inside of a sector" if assumptions else ""
    return _any_size(report, where, "", ", ".join(sorted(dynamic)), guards=False)


def _fixed(site: Site, residues: tuple[Residues, ...], values: tuple[int, ...]) -> Site:
    """The access where the sizes have these values."""
    return _substituted(site, {r.name: sympy.Integer(value) for r, value in zip(residues, values, strict=True)})


def _substituted(site: Site, values: Mapping[sympy.Symbol, Integer]) -> Site:
    """The access with values in place of names."""

    def of_guard(predicate: Predicate) -> Predicate:
        return replace(predicate, terms=tuple((term.xreplace(values), operator) for term, operator in predicate.terms))

    return replace(
        site,
        offset=site.offset.xreplace(values),
        predicates=tuple(map(of_guard, site.predicates)),
        source_offset=None if site.source_offset is None else site.source_offset.xreplace(values),
        source_guard=None if site.source_guard is None else of_guard(site.source_guard),
    )


def _excess(access: Access, totals: Totals) -> tuple[int, Fraction]:
    """(excess of the worst request over its ideal, average ratio)."""
    unit = UNITS[SPACES[access.array.space]]
    each = per_request(unit, totals)
    cost, ideal = figures(unit, totals)
    return each.worst - each.worst_ideal, Fraction(cost, ideal) if ideal else Fraction(1)


def _any_size(report: AccessReport, residue_text: str, size_text: str, names: str, *, guards: bool) -> AccessReport:
    factor = gcd(report.cost, report.ideal) or 1
    where = f"worst at {residue_text}" if residue_text else f"at any {names}"
    passed = ", where its guards hold" if guards else ""
    figure = f"{'assumed: ' if report.verdict == 'assumed' else ''}{report.per_request}"
    under = f"{where}{f', as at {size_text}' if size_text else ''}{passed}"
    words = replace(report.words, claim=lambda: f"{figure} ({where})", reason=lambda: f"{under}: {report.reason}")
    return replace(report, totals=None, cost=report.cost // factor, ideal=report.ideal // factor, words=words)


def _causes(
    worst: tuple[int, ...], excess: Mapping[tuple[int, ...], tuple[int, Fraction]], residues: tuple[Residues, ...]
) -> list[Residues]:
    """The params that the worst case depends on."""
    causes = []
    for position, residue in enumerate(residues):
        variants = [(*worst[:position], value, *worst[position + 1 :]) for value in residue.values]
        if any(excess[values] != excess[worst] for values in variants):
            causes.append(residue)
    return causes


def _interior(kernel: Kernel, site: Site, sizes: frozenset[sympy.Symbol]) -> Site:
    """Interior of the launch: guards over sizes hold, and bounds like `min(i, N - 1)` are inactive.

    Raises Unknown if the cost depends on more than the residue of a size.
    """
    quotients: dict[Integer, Counter] = {}
    offset = _without_bounds(site.offset, sizes, quotients)
    ranges = {**dict(kernel.ranges), **{c.symbol: (0, max(c.count - 1, 0)) for c in site.counters}}
    source = None if site.source_offset is None else _without_bounds(site.source_offset, sizes, quotients)
    counters = [*site.counters]
    for part, counter in quotients.items():
        counters.append(replace(counter, count=bounds(part, ranges)[1] + 1))
    kept = tuple(p for predicate in site.predicates if (p := _without_sizes(predicate, sizes)) is not None)
    source_guard = None if site.source_guard is None else _without_sizes(site.source_guard, sizes)
    return replace(
        site,
        offset=sympy.expand(offset),
        counters=tuple(counters),
        predicates=kept,
        source_offset=source,
        source_guard=source_guard,
    )


def _deciding_sizes(site: Site, sizes: frozenset[sympy.Symbol]) -> list[str]:
    """The sizes in guards, and in bounds of the subscript."""
    predicates = (*site.predicates, *(() if site.source_guard is None else (site.source_guard,)))
    deciding = {difference for p in predicates for difference, _ in p.terms} | site.offset.atoms(Minimum, Maximum)
    return sorted({name.name for expr in deciding for name in expr.free_symbols & sizes})


def _without_sizes(predicate: Predicate, sizes: frozenset[sympy.Symbol]) -> Predicate | None:
    """What is left of a guard where its comparisons with sizes hold; None if nothing is. A negated one that depends on
    a size is left out."""
    if not _depends_on(predicate, sizes):
        return predicate
    terms = tuple(term for term in predicate.terms if not term[0].free_symbols & sizes)
    return replace(predicate, terms=terms) if terms and not predicate.negated else None


def _depends_on(predicate: Predicate, sizes: frozenset[sympy.Symbol]) -> bool:
    return any(difference.free_symbols & sizes for difference, _ in predicate.terms)


def _without_bounds(expr: Integer, sizes: frozenset[sympy.Symbol], quotients: dict[Integer, Counter]) -> Integer:
    """`quotients` collects warp-uniform divisions by a size, which may have any value."""
    if not expr.free_symbols & sizes or not expr.args:
        return expr
    if isinstance(expr, FloorDiv | Mod) and expr.args[1].free_symbols & sizes:
        if expr.free_symbols & set(THREAD):
            raise Unknown(f"the thread index is divided by {expr.args[1]}, which has no value")
        name = sympy.Symbol(f"quotient {len(quotients)}", integer=True)
        return quotients.setdefault(expr, Counter(name, 0)).symbol
    parts = [_without_bounds(arg, sizes, quotients) for arg in expr.args]
    if isinstance(expr, Minimum | Maximum):
        inner = [part for part in parts if not part.free_symbols <= sizes]
        if len(inner) != 1:
            raise Unknown("which of two bounds holds depends on a size without a value")
        return inner[0]
    if isinstance(expr, BitXor):
        raise Unknown("the subscript is swizzled by a size without a value")
    return expr.func(*parts)


def _reduced(site: Site, config: AnalysisConfig, sizes: frozenset[sympy.Symbol]) -> Site:
    """The site without warp-uniform terms over sizes that are multiples of the period."""
    offset = _without_periods(site.offset, _elements(site, config), sizes)
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


def _modulo_period(expr: Integer, elements: int) -> Integer:
    """A subscript without whole periods of its warp-uniform terms."""
    terms = (term.as_coeff_Mul() for term in sympy.Add.make_args(expr))
    return sympy.Add(*((c if factor.free_symbols & set(THREAD) else c % elements) * factor for c, factor in terms))


def _numbered(site: Site) -> Site:
    """The access with its counters by number; those that its cost doesn't depend on are left out."""
    symbols = site.offset.free_symbols.union(*(term.free_symbols for p in site.predicates for term, _ in p.terms))
    used = [counter for counter in site.counters if counter.symbol in symbols or not counter.count]
    names = {counter.symbol: symbol(f"counter {number}") for number, counter in enumerate(used)}
    counters = tuple(replace(counter, symbol=names[counter.symbol]) for counter in used)
    return replace(_substituted(site, names), counters=counters)


def _quotient(dividend: Integer, divisor: Integer) -> Integer:
    """`(a + 4·b) // 4` as `a // 4 + b`."""
    if not divisor.is_Integer:
        return FloorDiv(dividend, divisor)
    terms = sympy.Add.make_args(sympy.expand(dividend))
    whole = [term for term in terms if int(term.as_coeff_Mul()[0]) % int(divisor) == 0]
    remainder = sympy.Add(*(term for term in terms if term not in whole))
    return FloorDiv(remainder, divisor) + sympy.Add(*(term / divisor for term in whole))


def _elements(site: Site, config: AnalysisConfig) -> int:
    """Period of the cost in a warp's addresses, in elements."""
    array = site.access.array
    period = period_of(SPACES[array.space], array.dtype.bytes * site.access.width, config.target)
    return period // gcd(period, array.dtype.bytes)


def _source_elements(site: Site) -> int:
    """Period of the cost in a copy's source addresses, in elements."""
    array = site.access.array
    return (
        async_copies.LINE_BYTES // array.dtype.bytes
        if array.dtype.bytes * site.access.width == async_copies.L1_BYPASS_BYTES
        else 1
    )


def _residues(kernel: Kernel, site: Site, config: AnalysisConfig, dynamic: Mapping[str, int]) -> tuple[Residues, ...]:
    """Values to try for each size in the subscript; integer division multiplies the period."""
    ranges = dict(kernel.ranges)
    periods = [(site.offset, _elements(site, config))]
    if site.source_offset is not None:
        periods.append((site.source_offset, async_copies.LINE_BYTES // site.access.array.dtype.bytes))
    sizes = {name for expr, _ in periods for name in expr.free_symbols} & set(map(symbol, dynamic))
    residues = []
    for name in sorted(sizes, key=str):
        modulus = 1
        for expr, elements in periods:
            if name in expr.free_symbols:
                divided = {part for part in expr.atoms(FloorDiv, Mod) if name in part.free_symbols}
                modulus = lcm(modulus, elements * prod(int(part.args[1]) for part in divided))
        residues.append(_values(name, modulus, dynamic[str(name)], ranges[name]))
    if prod(len(each.values) for each in residues) > _MAX_COMBINATIONS:
        names = " and ".join(str(each.name) for each in residues)
        raise Unknown(f"its cost depends on too many residues of {names}")
    return tuple(residues)


def _values(name: sympy.Symbol, modulus: int, multiple: int, allowed: Range, size: int = _LARGE_SIZE) -> Residues:
    """One value per residue, from `size` on if the range allows: the guards of short rows wouldn't hold."""
    low, high = (-(-allowed[0] // multiple), allowed[1] // multiple)  # in multiples
    count = min(modulus // gcd(multiple, modulus), max(high - low + 1, 1))
    first = max(low, min(-(-size // multiple), high - count + 1))
    return Residues(name, modulus, range(multiple * first, multiple * (first + count), multiple))
