"""Exact totals of an access over a whole launch, without walking it.

What a warp costs depends on its base address only modulo a small period. Counters that enter an address linearly add
residues: their histograms are convolved, never enumerated together. Counters inside //, % or xor repeat with a period
of their own and are taken once for each value of it. Guards cut the launch into regions first (`regions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import gcd, lcm
from typing import Any, Protocol

import numpy as np
import sympy

from cugen.analysis.totals.affine import Affine, Numbers, Values, choices, compiled, settled, shift, split
from cugen.analysis.totals.digits import unfolded
from cugen.analysis.totals.enumeration import listed
from cugen.analysis.totals.regions import Decision, Span, TooManyRegions, regions
from cugen.analysis.totals.sites import THREAD, Counter, Predicate
from cugen.plan.symbols import Integer

_WARP_SIZE = 32
_VALUES = 1024  # values of a counter without a period that are still taken one by one
_PATTERNS = 65_536  # combinations of repeating counters beyond which the answer is "unknown"

Cost = tuple[int, int, int, int, int]  # requests, wavefronts, ideal wavefronts, sectors, ideal sectors
Measure = Callable[[tuple[int | None, ...]], Cost]  # the byte addresses of one warp, None for an idle lane


class Unknown(Exception):
    """Why no exact total can be given."""


class Placed(Protocol):
    """What is counted: a `Site`, or a place of the source without an access."""

    @property
    def offset(self) -> Integer: ...

    @property
    def counters(self) -> tuple[Counter, ...]: ...

    @property
    def predicates(self) -> tuple[Predicate, ...]: ...

    @property
    def opaque(self) -> str: ...


@dataclass
class Pattern:
    """What some warps have in common: their addresses but for a whole number of periods, so their cost too.

    `lanes` holds byte addresses, None for idle lanes; the lowest one lies below the period. `first` is the lowest
    address of one such warp, in bytes from the start of the array, again but for a number of periods."""

    lanes: tuple[int | None, ...]
    cost: Cost
    first: int
    warps: int = 0

    @property
    def active(self) -> int:
        return sum(address is not None for address in self.lanes)

    @property
    def excess(self) -> int:
        """Cost beyond the ideal, in whatever the memory's cost is counted in."""
        _, wavefronts, ideal, sectors, ideal_sectors = self.cost
        return wavefronts - ideal + sectors - ideal_sectors

    def addresses(self) -> tuple[int | None, ...]:
        """The addresses of one such warp, in bytes from the start of the array."""
        low = min(address for address in self.lanes if address is not None)
        return tuple(None if address is None else address - low + self.first for address in self.lanes)


@dataclass
class Totals:
    """Sums over all warps of all blocks. `warps` counts executions with at least one lane active."""

    warps: int = 0
    mixed_warps: int = 0
    lanes: int = 0
    requests: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    patterns: list[Pattern] = field(default_factory=list, repr=False)  # as met when the launch is taken apart

    @property
    def worst(self) -> tuple[int | None, ...]:
        """The addresses of a warp with the worst pattern, in bytes of the array; empty where nothing runs."""
        return () if self.worst_pattern is None else self.worst_pattern.addresses()

    @property
    def worst_pattern(self) -> Pattern | None:
        """What costs most beyond its ideal, the most frequent of such; None where nothing runs."""
        return max(self.patterns, key=lambda pattern: (pattern.excess, pattern.warps), default=None)


@dataclass(frozen=True)
class _Term:
    affine: Affine
    operator: str
    values: Callable[[Values], Any]


def totals(
    site: Placed, block: tuple[int, int, int], element_bytes: int, period: int, measure: Measure, start: int = 0
) -> Totals:
    """The totals of one access. `period` is in bytes: shifting a warp's addresses by it changes no cost. `start` is the
    array's first byte, counted from an aligned address.

    Raises Unknown where the access depends on data, or its parts couple in a way that would need a walk."""
    if site.opaque:
        raise Unknown(site.opaque)
    return _Count(site, block, element_bytes, period, measure, start).run()


class _Count:
    def __init__(
        self, site: Placed, block: tuple[int, int, int], element_bytes: int, period: int, measure: Measure, start: int
    ) -> None:
        self.period, self.measure, self.bytes, self.start = period, measure, element_bytes, start
        listing = listed(site.offset, site.counters, site.predicates, block, period // gcd(element_bytes, period))
        offset, self.spans, predicates = unfolded(listing.offset, listing.counters, listing.predicates)
        self.names, self.rows = listing.names, listing.rows
        self.counters = (*(counter.symbol for counter in self.spans), *self.names)
        linear = np.arange(block[0] * block[1] * block[2])
        places = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
        self.threads: dict[sympy.Symbol, Numbers] = dict(zip(THREAD, places, strict=True))
        self.warps = -(-len(linear) // _WARP_SIZE)
        self.padding = self.warps * _WARP_SIZE - len(linear)
        self.offset = split(offset, self.counters)
        self.address = compiled(self.offset.rest)
        self.winners = choices(self.offset.rest)
        self.predicates = [self._compiled_predicate(predicate) for predicate in predicates]
        self.found: dict[bytes, dict[int, Pattern]] = {}  # by shape, then by the lowest address within the period
        self.result = Totals()

    def run(self) -> Totals:
        if any(counter.count == 0 for counter in self.spans):
            return self.result
        box = {counter.symbol: (0, counter.count) for counter in self.spans}
        decisions = tuple(self._decisions())
        try:
            for values, times in self.rows:
                known = {name: (value, 1) for name, value in zip(self.names, values, strict=True)}
                for region in regions({**box, **known}, decisions):
                    self._region(region, times)
        except TooManyRegions as error:
            raise Unknown("its guards couple several indices") from error
        self._sum()
        return self.result

    # What decides

    def _compiled_predicate(self, predicate: Predicate) -> tuple[bool, list[_Term]]:
        return predicate.negated, [self._term(difference, operator) for difference, operator in predicate.terms]

    def _term(self, difference: Integer, operator: str) -> _Term:
        affine = split(difference, self.counters)
        return _Term(affine, operator, compiled(affine.rest))

    def _decisions(self) -> list[Decision]:
        terms = [term for _, terms in self.predicates for term in terms]
        terms += [self._term(difference, "<") for difference in self.winners]
        decisions = []
        for term in terms:
            if term.affine.tangled:
                periods = [shift(term.affine.rest, counter) for counter in term.affine.tangled]
                if all(found is not None and found[1] == 0 for found in periods) and not term.affine.coefficients:
                    continue  # repeats: `_repeating` takes one value for each of its phases
                decisions.append(Decision(term.affine.coefficients, 0, 0, term.operator, term.affine.tangled))
                continue
            values = term.values(self.threads)
            low, high = int(np.min(values)), int(np.max(values))
            decisions.append(Decision(term.affine.coefficients, low, high, term.operator))
        return decisions

    # One region

    def _region(self, region: Mapping[sympy.Symbol, Span], often: int) -> None:
        rest = self.offset.rest
        if self.winners:
            varying = frozenset(c for c in self.counters if region[c][1] > 1)
            rest = settled(rest, varying, {**{c: region[c][0] for c in self.counters}, **self.threads})
        repeating = {c: self._repeating(c, region[c], rest) for c in self._tangled() if region[c][1] > 1}
        combinations = 1
        for phases in repeating.values():
            combinations *= len(phases)
        if combinations > _PATTERNS:
            raise Unknown("its subscript repeats with too long a period")
        linear = [c for c in self.counters if c not in repeating]
        residues = self._residues({c: region[c] for c in linear})
        fixed = {c: region[c][0] for c in self.counters}
        for chosen in product(*repeating.values()):
            values = {**fixed, **{c: value for c, (value, _) in zip(repeating, chosen, strict=True)}}
            times = often
            for _, count in chosen:
                times *= count
            base = sum(coefficient * values[c] for c, coefficient in self.offset.coefficients.items())
            self._warps(values, base, times, residues)

    def _tangled(self) -> tuple[sympy.Symbol, ...]:
        found = dict.fromkeys(self.offset.tangled)
        for _, terms in self.predicates:
            for term in terms:
                found.update(dict.fromkeys(term.affine.tangled))
        return tuple(found)

    def _repeating(self, counter: sympy.Symbol, span: Span, rest: Integer) -> list[tuple[int, int]]:
        """One value of the counter for each phase, with how often the phase comes up in the span; without a period
        every value is a phase of its own."""
        first, count = span
        whole = 1
        expressions = [(rest, self.bytes)]
        expressions += [(t.affine.rest, 0) for _, terms in self.predicates for t in terms if t.affine.tangled]
        for expression, scale in expressions:
            found = shift(expression, counter)
            if found is None and count <= _VALUES:
                return [(first + n, 1) for n in range(count)]
            if found is None:
                raise Unknown("its subscript has no period")
            period, drift = found
            if scale:
                moved = (drift + period * self.offset.coefficients.get(counter, 0)) * scale
                period *= self.period // gcd(moved, self.period)
            elif drift:
                continue  # settled in this region: `regions` took it value by value
            whole = lcm(whole, period)
        if min(whole, count) > _PATTERNS:
            raise Unknown("its subscript repeats with too long a period")
        return [(first + phase, count // whole + (phase < count % whole)) for phase in range(min(whole, count))]

    def _residues(self, spans: Mapping[sympy.Symbol, Span]) -> dict[int, int]:
        """How often the counters that enter linearly move the address by each residue of the period."""
        histogram = {0: 1}
        for counter, (_, count) in spans.items():
            step = self.offset.coefficients.get(counter, 0) * self.bytes % self.period
            cycle = self.period // gcd(step, self.period)
            own = {step * n % self.period: count // cycle + (n < count % cycle) for n in range(min(cycle, count))}
            folded: dict[int, int] = {}
            for a, times in histogram.items():
                for b, more in own.items():
                    folded[(a + b) % self.period] = folded.get((a + b) % self.period, 0) + times * more
            histogram = folded
        return histogram

    def _warps(self, values: Mapping[sympy.Symbol, int], base: int, times: int, residues: Mapping[int, int]) -> None:
        everything: Values = {**values, **self.threads}
        count = self.warps * _WARP_SIZE
        addresses = np.zeros(count, np.int64)
        active = np.zeros(count, np.bool_)
        threads = count - self.padding
        active[:threads] = self._runs(everything)
        addresses[:threads] = (self.address(everything) + base) * self.bytes
        lanes, on = addresses.reshape(-1, _WARP_SIZE), active.reshape(-1, _WARP_SIZE)
        running = np.count_nonzero(on, axis=1)
        lowest = np.min(lanes, axis=1, where=on, initial=np.iinfo(np.int64).max)
        shapes = np.where(on, lanes - lowest[:, np.newaxis], -1)
        for warp in np.flatnonzero(running).tolist():
            self._add(shapes[warp], int(lowest[warp]), times, residues)
            if running[warp] < min(_WARP_SIZE, threads - warp * _WARP_SIZE):
                self.result.mixed_warps += times * sum(residues.values())

    def _runs(self, values: Values) -> Any:
        running: Any = True
        for negated, terms in self.predicates:
            holds: Any = True
            for term in terms:
                holds = holds & _holds(term, values)
            running = running & (np.logical_not(holds) if negated else holds)
        return running

    def _add(self, shape: Numbers, lowest: int, times: int, residues: Mapping[int, int]) -> None:
        """Counts warps whose lanes lie at `shape` from the lowest one, -1 for idle ones."""
        starts = self.found.setdefault(shape.tobytes(), {})
        for residue, more in residues.items():
            at = (lowest + residue + self.start) % self.period
            pattern = starts.get(at)
            if pattern is None:
                addresses = tuple(None if distance < 0 else at + distance for distance in shape.tolist())
                pattern = starts[at] = Pattern(addresses, self.measure(addresses), lowest + residue)
                self.result.patterns.append(pattern)
            pattern.warps += times * more

    def _sum(self) -> None:
        result = self.result
        for pattern in result.patterns:
            requests, wavefronts, ideal, sectors, ideal_sectors = pattern.cost
            result.warps += pattern.warps
            result.lanes += pattern.warps * pattern.active
            result.requests += pattern.warps * requests
            result.wavefronts += pattern.warps * wavefronts
            result.ideal_wavefronts += pattern.warps * ideal
            result.sectors += pattern.warps * sectors
            result.ideal_sectors += pattern.warps * ideal_sectors


def _holds(term: _Term, values: Values) -> Any:
    value = term.values(values) + sum(c * values[v] for v, c in term.affine.coefficients.items())
    match term.operator:
        case "<":
            return value < 0
        case "==":
            return value == 0
    return value != 0
