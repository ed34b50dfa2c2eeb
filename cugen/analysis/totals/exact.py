"""Exact totals of an access over a launch, without enumerating its warps.

The cost of a warp depends on its base address only modulo a small period. Affine counters add residues, whose
histograms are convolved. Counters inside //, % or xor are quasi-periodic and enumerated over one period. Guards first
partition the iteration domain into regions (`regions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import gcd, lcm, prod
from typing import Any

import numpy as np
import sympy

from cugen.analysis.totals.affine import (
    Affine,
    Numbers,
    Values,
    affine_form,
    extremum_differences,
    in_extremum,
    quasi_period,
    resolve_extrema,
)
from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.delinearize import delinearized
from cugen.analysis.totals.enumeration import enumerated
from cugen.analysis.totals.regions import AffineGuard, GrowingGuard, Interval, TooManyRegions, regions
from cugen.analysis.totals.selections import Countable, Part, parts_by_quotient, parts_by_selection
from cugen.analysis.totals.sites import THREAD, Predicate
from cugen.plan.symbols import Integer

WARP_SIZE = 32
_MAX_APERIODIC_VALUES = 1024  # heuristic: values of an aperiodic counter that are enumerated
_MAX_COMBINATIONS = 65_536  # heuristic: of periodic counters; beyond, the verdict is `unknown`
_MAX_LANES = 1 << 18  # evaluated at a time, to bound memory (heuristic)

Cost = tuple[int, int, int, int, int]  # requests, wavefronts, ideal wavefronts, sectors, ideal sectors
Measure = Callable[[tuple[int | None, ...]], Cost]  # byte addresses of one warp, None for an inactive lane


@dataclass
class Pattern:
    """Residue class of warps: equal addresses modulo the period, hence equal cost.

    lanes: byte addresses, None for inactive lanes; the lowest is below the period.
    first: lowest address of one such warp, in bytes from the start of the array, modulo the period.
    """

    lanes: tuple[int | None, ...]
    cost: Cost
    first: int
    warps: int = 0

    @property
    def active(self) -> int:
        return sum(address is not None for address in self.lanes)

    @property
    def excess(self) -> int:
        """Wavefronts or sectors beyond the ideal."""
        _, wavefronts, ideal, sectors, ideal_sectors = self.cost
        return wavefronts - ideal + sectors - ideal_sectors

    def addresses(self) -> tuple[int | None, ...]:
        """Addresses of one such warp, in bytes from the start of the array."""
        low = min(address for address in self.lanes if address is not None)
        return tuple(None if address is None else address - low + self.first for address in self.lanes)


@dataclass
class Totals:
    """Sums over all warps of all blocks. `warps` counts warp executions with an active lane."""

    warps: int = 0
    mixed_warps: int = 0
    lanes: int = 0
    requests: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    patterns: list[Pattern] = field(default_factory=list, repr=False)  # in order of enumeration

    def add(self, following: Totals) -> None:
        """Adds the warps of another part of the launch, which come after these."""
        self.mixed_warps += following.mixed_warps
        for name in ("warps", "lanes", "requests", "wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors"):
            setattr(self, name, getattr(self, name) + getattr(following, name))
        known = {pattern.lanes: pattern for pattern in self.patterns}
        for pattern in following.patterns:
            if pattern.lanes in known:
                known[pattern.lanes].warps += pattern.warps
            else:
                self.patterns.append(pattern)

    @property
    def worst(self) -> tuple[int | None, ...]:
        """Addresses of a warp with the worst pattern, in bytes of the array; empty if nothing runs."""
        return () if self.worst_pattern is None else self.worst_pattern.addresses()

    @property
    def worst_pattern(self) -> Pattern | None:
        """Pattern with the largest excess, the most frequent of these; None if nothing runs."""
        return max(self.patterns, key=lambda pattern: (pattern.excess, pattern.warps), default=None)


@dataclass(frozen=True)
class _GuardTerm:
    affine: Affine
    operator: str
    values: Callable[[Values], Any]


@dataclass(frozen=True)
class _Batch:
    """Values of all counters at which warps are counted, how often each occurs, and their order of enumeration."""

    values: list[tuple[int, ...]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


def totals(
    site: Countable,
    block: tuple[int, int, int],
    element_bytes: int,
    period: int,
    measure: Measure,
    start: int = 0,
    budget: Budget | None = None,
) -> Totals:
    """Totals of one access.

    period: bytes by which a warp's addresses may shift without a change of cost. start: first byte of the array,
    relative to an aligned address. Raises Unknown for data-dependent accesses and coupled guards, and where `budget`,
    by default one of its own, is spent.
    """
    if site.opaque:
        raise Unknown(site.opaque)
    result, budget = Totals(), budget or Budget()
    budget.access()
    try:
        parts = (part for selected in parts_by_selection(site) for part in parts_by_quotient(selected, block))
        for part in parts:
            result.add(_LaunchCount(part, block, element_bytes, period, measure, start, budget).run())
    except OverflowError as error:
        raise Unknown("its indices exceed 64 bits") from error
    return result


class _LaunchCount:
    def __init__(
        self,
        site: Part,
        block: tuple[int, int, int],
        element_bytes: int,
        period: int,
        measure: Measure,
        start: int,
        budget: Budget,
    ) -> None:
        self.budget = budget
        self.period, self.measure, self.bytes, self.start = period, measure, element_bytes, start
        enumeration = enumerated(
            site.offset, site.counters, site.predicates, block, period // gcd(element_bytes, period)
        )
        offset, self.spans, predicates = delinearized(enumeration.offset, enumeration.counters, enumeration.predicates)
        self.symbols, self.cases = enumeration.symbols, enumeration.cases
        self.counters = (*(counter.symbol for counter in self.spans), *self.symbols)
        linear = np.arange(block[0] * block[1] * block[2])
        coordinates = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
        self.threads: dict[sympy.Symbol, Numbers] = dict(zip(THREAD, coordinates, strict=True))
        self.warps = -(-len(linear) // WARP_SIZE)
        self.padding = self.warps * WARP_SIZE - len(linear)
        self.offset = affine_form(offset, self.counters)
        self.ranges = self._ranges()
        self.address = self.offset.evaluator(self.ranges, element_bytes)
        self.extrema = extremum_differences(self.offset.residual)
        self.predicates = [self._compiled_predicate(predicate) for predicate in predicates]
        self.nonaffine = self._nonaffine()
        self.of_extrema = [c for c in self.counters if in_extremum(self.offset.residual, c)]
        self.classes: dict[bytes, dict[int, Pattern]] = {}  # by shape, then by lowest address modulo the period
        self.batches: dict[tuple[int, ...], _Batch] = {}  # by the number of values of each counter
        self.evaluations = 0
        self.orders: dict[int, tuple[int, ...]] = {}  # of a pattern, by its id: where it occurs first
        self.result = Totals()

    def run(self) -> Totals:
        if any(counter.count == 0 for counter in self.spans):
            return self.result
        box = {counter.symbol: (0, counter.count) for counter in self.spans}
        # An enumerated symbol has one value in each case: a guard of no counter is uniform in all of them.
        decisions = tuple(decision for decision in self._decisions() if decision.varying_counters(box))
        try:
            for values, times in self.cases:
                known = {name: (value, 1) for name, value in zip(self.symbols, values, strict=True)}
                for region in regions({**box, **known}, decisions):
                    self._region(region, times)
            for counts, batch in self.batches.items():
                self._count(batch, counts)
        except TooManyRegions as error:
            raise Unknown("its guards couple several indices") from error
        self._sum()
        return self.result

    def _ranges(self) -> dict[sympy.Symbol, Interval]:
        """Bounds of all values: of threads, counters and enumerated symbols."""
        ranges = {name: (0, int(numbers.max())) for name, numbers in self.threads.items()}
        ranges |= {counter.symbol: (0, max(counter.count - 1, 0)) for counter in self.spans}
        for number, name in enumerate(self.symbols):
            column = [values[number] for values, _ in self.cases]
            ranges[name] = (min(column, default=0), max(column, default=0))
        return ranges

    # Guards

    def _compiled_predicate(self, predicate: Predicate) -> tuple[bool, list[_GuardTerm]]:
        return predicate.negated, [self._term(difference, operator) for difference, operator in predicate.terms]

    def _term(self, difference: Integer, operator: str) -> _GuardTerm:
        affine = affine_form(difference, self.counters)
        return _GuardTerm(affine, operator, affine.evaluator(self.ranges))

    def _decisions(self) -> list[AffineGuard | GrowingGuard]:
        terms = [term for _, terms in self.predicates for term in terms]
        terms += [self._term(difference, "<") for difference in self.extrema]
        threads = {name: self.ranges[name] for name in self.threads}
        decisions: list[AffineGuard | GrowingGuard] = []
        for term in terms:
            if term.affine.nonaffine:
                repetitions = [quasi_period(term.affine.residual, counter) for counter in term.affine.nonaffine]
                if all(r is not None and r[1] == 0 for r in repetitions) and not term.affine.coefficients:
                    continue  # periodic: `_repeating` enumerates one period
                if term.operator == "<" and all(r is None or r[1] for r in repetitions):
                    counters = (*term.affine.nonaffine, *term.affine.coefficients)
                    whole = term.affine.residual + sum(c * step for c, step in term.affine.coefficients.items())
                    decisions.append(GrowingGuard(whole, counters, threads))
                    continue
                decisions.append(AffineGuard(term.affine.coefficients, 0, 0, term.operator, term.affine.nonaffine))
                continue
            values = term.values(self.threads)
            low, high = int(np.min(values)), int(np.max(values))
            decisions.append(AffineGuard(term.affine.coefficients, low, high, term.operator))
        return decisions

    # One region

    def _region(self, region: Mapping[sympy.Symbol, Interval], multiplicity: int) -> None:
        residual = self.offset.residual
        if varying := frozenset([c for c in self.of_extrema if region[c][1] > 1]):
            residual = resolve_extrema(residual, varying, {**{c: region[c][0] for c in self.counters}, **self.threads})
        repeating = {c: self._repeating(c, region[c], residual) for c in self.nonaffine if region[c][1] > 1}
        if prod(map(len, repeating.values())) > _MAX_COMBINATIONS:
            raise Unknown("its subscript repeats with too long a period")
        self.budget.regions(prod(map(len, repeating.values())))
        counts = tuple([1 if c in repeating else region[c][1] for c in self.counters])
        if (batch := self.batches.get(counts)) is None:
            batch = self.batches[counts] = _Batch()
        for phases in product(*repeating.values()):
            chosen = {c: value for c, (value, _) in zip(repeating, phases, strict=True)}
            batch.values.append(tuple([chosen.get(c, region[c][0]) for c in self.counters]))
            batch.times.append(multiplicity * prod([count for _, count in phases]))
            batch.order.append(self.evaluations)
            self.evaluations += 1
        if len(batch.values) * self.warps * WARP_SIZE >= _MAX_LANES:
            self._count(self.batches.pop(counts), counts)

    def _nonaffine(self) -> tuple[sympy.Symbol, ...]:
        nonaffine = dict.fromkeys(self.offset.nonaffine)
        for _, terms in self.predicates:
            for term in terms:
                nonaffine.update(dict.fromkeys(term.affine.nonaffine))
        return tuple(nonaffine)

    def _repeating(self, counter: sympy.Symbol, span: Interval, residual: Integer) -> list[tuple[int, int]]:
        """(value, multiplicity) for each phase of the counter's period; without a period, for each value."""
        first, count = span
        period = 1
        expressions = [(residual, self.bytes)]
        expressions += [(t.affine.residual, 0) for _, terms in self.predicates for t in terms if t.affine.nonaffine]
        for expression, scale in expressions:
            repetition = quasi_period(expression, counter)
            if repetition is None and count <= _MAX_APERIODIC_VALUES:
                return [(first + n, 1) for n in range(count)]
            if repetition is None:
                raise Unknown("its subscript has no period")
            expression_period, drift = repetition
            if scale:
                byte_drift = (drift + expression_period * self.offset.coefficients.get(counter, 0)) * scale
                expression_period *= self.period // gcd(byte_drift, self.period)
            elif drift:
                continue  # constant in this region: `regions` enumerates it
            period = lcm(period, expression_period)
        if min(period, count) > _MAX_COMBINATIONS:
            raise Unknown("its subscript repeats with too long a period")
        return [(first + phase, count // period + (phase < count % period)) for phase in range(min(period, count))]

    def _residues(self, counts: tuple[int, ...]) -> dict[int, int]:
        """Histogram of the address residues modulo the period, over so many values of each counter."""
        histogram = {0: 1}
        for counter, count in zip(self.counters, counts, strict=True):
            step = self.offset.coefficients.get(counter, 0) * self.bytes % self.period
            cycle = self.period // gcd(step, self.period)
            residues = {step * n % self.period: count // cycle + (n < count % cycle) for n in range(min(cycle, count))}
            convolved: dict[int, int] = {}
            for a, times in histogram.items():
                for b, multiplicity in residues.items():
                    convolved[(a + b) % self.period] = convolved.get((a + b) % self.period, 0) + times * multiplicity
            histogram = convolved
        return histogram

    def _count(self, batch: _Batch, counts: tuple[int, ...]) -> None:
        """Counts the warps of a block at each of the batch's values, and so many values of each counter from there."""
        self.budget.lanes(len(batch.values) * self.warps * WARP_SIZE)
        columns = np.array(batch.values, np.int64).reshape(len(batch.values), len(self.counters))
        values: Values = {**{c: columns[:, n : n + 1] for n, c in enumerate(self.counters)}, **self.threads}
        base = sum(coefficient * values[c] for c, coefficient in self.offset.coefficients.items())
        threads = self.warps * WARP_SIZE - self.padding
        addresses = np.zeros((len(columns), self.warps * WARP_SIZE), np.int64)
        active = np.zeros(addresses.shape, np.bool_)
        active[:, :threads] = self._runs(values)
        addresses[:, :threads] = (self.address(values) + base) * self.bytes
        lanes, on = addresses.reshape(-1, WARP_SIZE), active.reshape(-1, WARP_SIZE)
        running = np.count_nonzero(on, axis=1)
        full = np.tile(np.minimum(WARP_SIZE, threads - WARP_SIZE * np.arange(self.warps)), len(columns))
        lowest = np.min(lanes, axis=1, where=on, initial=np.iinfo(np.int64).max)
        shapes = np.where(on, lanes - lowest[:, np.newaxis], -1)
        times = np.repeat(np.array(batch.times, object), self.warps)
        residues = self._residues(counts)
        is_mixed = (running > 0) & (running < full)
        self.result.mixed_warps += int(times[is_mixed].sum()) * sum(residues.values())
        warps = np.flatnonzero(running)
        classes = np.column_stack((shapes[warps], lowest[warps] % self.period))
        for members in _equal_rows(classes):
            self.budget.patterns(len(residues))
            warp = int(warps[members[0]])
            order = batch.order[warp // self.warps], warp % self.warps
            self._add(shapes[warp], int(lowest[warp]), int(times[warps[members]].sum()), residues, order)

    def _runs(self, values: Values) -> Any:
        running: Any = True
        for negated, terms in self.predicates:
            holds: Any = True
            for term in terms:
                holds = holds & _holds(term, values)
            running = running & (np.logical_not(holds) if negated else holds)
        return running

    def _add(
        self, shape: Numbers, lowest: int, times: int, residues: Mapping[int, int], order: tuple[int, int]
    ) -> None:
        """Counts warps whose lanes have the distances `shape` from the lowest address, -1 for inactive lanes."""
        starts = self.classes.setdefault(shape.tobytes(), {})
        for position, (residue, multiplicity) in enumerate(residues.items()):
            start = (lowest + residue + self.start) % self.period
            pattern = starts.get(start)
            if pattern is None:
                addresses = tuple(None if distance < 0 else start + distance for distance in shape.tolist())
                pattern = starts[start] = Pattern(addresses, self.measure(addresses), lowest + residue)
                self.result.patterns.append(pattern)
                self.orders[id(pattern)] = (*order, position)
            elif (*order, position) < self.orders[id(pattern)]:
                self.orders[id(pattern)] = (*order, position)
                pattern.first = lowest + residue
            pattern.warps += times * multiplicity

    def _sum(self) -> None:
        result = self.result
        result.patterns.sort(key=lambda pattern: self.orders[id(pattern)])
        for pattern in result.patterns:
            requests, wavefronts, ideal, sectors, ideal_sectors = pattern.cost
            result.warps += pattern.warps
            result.lanes += pattern.warps * pattern.active
            result.requests += pattern.warps * requests
            result.wavefronts += pattern.warps * wavefronts
            result.ideal_wavefronts += pattern.warps * ideal
            result.sectors += pattern.warps * sectors
            result.ideal_sectors += pattern.warps * ideal_sectors


@cache
def _multipliers(count: int) -> Numbers:
    return np.random.default_rng(0).integers(1, 1 << 62, count)


def _equal_rows(rows: Numbers) -> list[Numbers]:
    """The positions of each set of equal rows, ascending."""
    keys = rows @ _multipliers(rows.shape[1])  # hashes, modulo 2^64
    _, first, inverse, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if np.array_equal(rows, rows[first][inverse]):
        return np.split(np.argsort(inverse, kind="stable"), np.cumsum(sizes)[:-1]) if len(rows) else []
    _, inverse, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)  # after a collision
    return np.split(np.argsort(inverse.ravel(), kind="stable"), np.cumsum(sizes)[:-1])


def _holds(term: _GuardTerm, values: Values) -> Any:
    value = term.values(values) + sum(c * values[v] for v, c in term.affine.coefficients.items())
    match term.operator:
        case "<":
            return value < 0
        case "==":
            return value == 0
    return value != 0
