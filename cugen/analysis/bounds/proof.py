"""Proves of each access of a kernel that it stays inside of its array, from its plan and for all sizes.

Nothing runs. The subscripts, or else the address, are affine forms over the indices; their ranges, and the guards round
an access, are facts from which `cugen.spec.prove` derives that the forms are in bounds. Where it can't, and few
iterations decide, these are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import sympy

from cugen.analysis.bounds.claims import BoundsClaim, BoundsVerdict, refuse_refuted
from cugen.analysis.bounds.enumeration import MAX_ITERATIONS, evaluated, extremes
from cugen.analysis.bounds.examples import with_example_sizes
from cugen.analysis.bounds.facts import Facts, Known, Locals
from cugen.analysis.bounds.forms import Forms, Interval
from cugen.analysis.bounds.occurrences import Occurrence, occurrences
from cugen.analysis.bounds.search import Search
from cugen.analysis.totals.sites import BLOCK, THREAD, Counter, data_dependence
from cugen.analysis.verdicts.wording import Wording
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.symbols import Integer, integer, symbol
from cugen.spec.model import Param
from cugen.spec.prove.affine import AffineForm
from cugen.spec.prove.nonnegative import is_provably_nonnegative
from cugen.spec.prove.requirements import assumed

_TOO_MANY = f"not proved, and more than {MAX_ITERATIONS:,} iterations are too many to evaluate"


def prove_bounds(kernel: Kernel, context: Context) -> tuple[BoundsClaim, ...]:
    """A claim for each access of a kernel, in source order; `context` is that of its plan."""
    claims = tuple(_Proof(kernel, context).claims())
    for example in with_example_sizes(context):
        if all(claim.verdict != "unknown" for claim in claims):
            break
        sizes = " and ".join(f"{param.name} = {param.value}" for param in example.spec.params)
        seen = _Proof(kernel, example).claims()
        claims = tuple(_refuted(claim, of_example, sizes) for claim, of_example in zip(claims, seen, strict=True))
    return claims


def _refuted(claim: BoundsClaim, of_example: BoundsClaim, sizes: str) -> BoundsClaim:
    """The claim, unless an example of sizes refutes what is unknown for all."""
    if claim.verdict != "unknown" or of_example.verdict != "refuted":
        return claim
    return replace(claim, verdict="refuted", reason=f"{of_example.reason}, for {sizes}")


def bounds_of(plan: Plan) -> tuple[BoundsClaim, ...]:
    """The claims of all kernels of a plan. Raises OutOfBounds if one is refuted."""
    claims = tuple(claim for kernel in plan.kernels for claim in prove_bounds(kernel, plan.context))
    refuse_refuted(claims)
    return claims


class _Proof:
    def __init__(self, kernel: Kernel, context: Context) -> None:
        spec = context.spec
        names = Locals.of(kernel)
        self.assigned = names.assigned
        self.kernel = replace(kernel, ranges=tuple({**dict(kernel.ranges), **dict(names.ranges())}.items()))
        self.values = {context.symbols[p.name].name: p.value for p in spec.params if p.value is not None}
        self.sizes = {context.symbols[p.name]: p.name for p in spec.params if p.value is None}
        self.wording = Wording.of(kernel, (*self.values, *map(str, self.sizes)))
        fixed = {symbol(name): integer(value) for name, value in self.values.items()}
        self.grid = tuple(extent.xreplace(fixed) for extent in kernel.grid)
        assumptions = assumed(spec.require, {p.name: p for p in spec.params})
        forms = Forms(self._positive(assumptions.params), self.sizes)
        self._declare(forms, names)
        self.facts = Facts(forms, names, context.symbols)
        self.search = Search(forms, assumptions.cases)
        self.forms = forms

    def _positive(self, params: Mapping[str, Param]) -> Mapping[str, Param]:
        """The params where a block runs: those without which the grid would be empty are at least 1."""
        forms, positive = Forms(params, self.sizes), dict(params)
        factors = [factor for extent in self.grid for factor in sympy.Mul.make_args(extent)]
        for factor in factors if all(forms.is_natural(factor) for factor in factors) else ():
            runs = forms.form(factor) - 1
            facts = (runs, *forms.axioms((runs,)))
            for part in (*(factor.free_symbols & self.sizes.keys()), *self._products(factor, forms)):
                if is_provably_nonnegative(forms.form(part) - 1, facts, params):
                    for size in part.free_symbols:
                        param = positive[self.sizes[size]]
                        positive[param.name] = replace(param, minimum=max(param.minimum, 1))
        return positive

    def _products(self, expr: Integer, forms: Forms) -> Iterator[Integer]:
        """The products of natural sizes and numbers in an expression: if one is positive, so are its sizes."""
        for product in expr.atoms(sympy.Mul):
            if all((part.is_Integer or part in self.sizes) and forms.is_natural(part) for part in product.args):
                yield product

    def _declare(self, forms: Forms, names: Locals) -> None:
        """Makes the ranges of thread and block indices known, and those of integers that the kernel loads."""
        for axis, size in zip(THREAD, self.kernel.block, strict=True):
            forms.declare(axis, (0, size - 1))
        for axis, extent in zip(BLOCK, self.grid, strict=True):
            last = forms.form(extent) - 1
            forms.declare(axis, (0, forms.interval(last)[1]), last - forms.form(axis))
        for name, values in names.ranges():
            forms.declare(name, values)

    def claims(self) -> Iterator[BoundsClaim]:
        for occurrence in occurrences(self.kernel, self.values, tuple(map(str, self.sizes))):
            verdict, reason = self._verdict(occurrence)
            yield BoundsClaim(self.kernel.name, occurrence.access, verdict, reason, self.wording)

    def _verdict(self, occurrence: Occurrence) -> tuple[BoundsVerdict, str]:
        array, counters = occurrence.access.array, occurrence.point.counters
        if array.space == "tensor":
            return "proved", "TMA leaves out what is outside"
        if array.texture_2d is not None:
            return "proved", "the texture unit reads nothing outside"
        if any(counter.count < 1 for counter in counters):
            return "proved", "it never runs"
        for counter in counters:
            if counter.symbol not in BLOCK:
                self.forms.declare(counter.symbol, (0, counter.count - 1), *self._remaining(counter))
        known = self.facts.of_point(occurrence.point)
        offset, last = occurrence.offset, occurrence.last
        if self._is_rank_inside(occurrence, known):
            if self._are_subscripts_inside(occurrence, known):
                return "proved", "every subscript is in bounds"
            if self._is_between(offset, last, known):
                return "proved", "the address is in bounds"
        return self._evaluated(occurrence, offset, last)

    def _remaining(self, counter: Counter) -> Iterator[AffineForm]:
        """What holds of a loop's counter in its body; nothing where the loop's end may be assigned there."""
        if counter.remaining is not None and not self.assigned & {s.name for s in counter.remaining.free_symbols}:
            yield self.forms.form(counter.remaining)

    def _are_subscripts_inside(self, occurrence: Occurrence, known: Known) -> bool:
        sizes = occurrence.sizes_with_count()
        pairs = zip(occurrence.subscripts, occurrence.extents, sizes, strict=True)
        return sizes != () and all(self._is_between(sub, extent - size, known) for sub, extent, size in pairs)

    def _is_rank_inside(self, occurrence: Occurrence, known: Known) -> bool:
        rank = occurrence.access.rank
        if rank is None:
            return True
        return self._is_between(rank.xreplace(occurrence.point.definitions), integer(self.kernel.cluster - 1), known)

    def _is_between(self, value: Integer, last: Integer, known: Known) -> bool:
        form = self.forms.form(value)
        return self.search.holds(form, known) and self.search.holds(self.forms.form(last) - form, known)

    def _iterations_of_parts(self, occurrence: Occurrence, counts: Mapping[sympy.Symbol, int]) -> int:
        """How many iterations were evaluated, if all subscripts or else the address are inside by them; else 0."""
        sizes = occurrence.sizes_with_count()
        subscripts = zip(occurrence.subscripts, occurrence.extents, sizes, strict=True) if sizes else ()
        goals = [(sub, extent - size) for sub, extent, size in subscripts]
        for ends in (goals, [(occurrence.offset, occurrence.last)]):
            iterations, is_inside = 0, bool(ends)
            for value, last in ends:
                low_end, high_end = (self._extremes(part, occurrence, counts) for part in (value, last - value))
                iterations += low_end[0] + high_end[0]
                is_inside &= all(low is not None and low >= 0 for _, (low, _) in (low_end, high_end))
            if is_inside:
                return iterations
        return 0

    def _extremes(
        self, expr: Integer, occurrence: Occurrence, counts: Mapping[sympy.Symbol, int]
    ) -> tuple[int, Interval]:
        return extremes(
            expr, occurrence.point.predicates, counts, lambda part: self.forms.interval(self.forms.form(part))
        )

    def _evaluated(self, occurrence: Occurrence, offset: Integer, last: Integer) -> tuple[BoundsVerdict, str]:
        """The verdict by all iterations, if they are few."""
        point, access = occurrence.point, occurrence.access
        counts = {counter.symbol: counter.count for counter in point.counters}
        counts |= {axis: size for axis, size in zip(THREAD, self.kernel.block, strict=True) if size > 1}
        outcome = None if access.rank is not None else evaluated(offset, last, point.predicates, counts)
        if outcome is None and access.rank is None and (iterations := self._iterations_of_parts(occurrence, counts)):
            return "enumerated", f"inside by its parts, of which {iterations:,} iterations were evaluated"
        if outcome is None:
            why = data_dependence(offset, point.counters, frozenset(self.sizes))
            sizes = sorted(map(str, (offset.free_symbols | last.free_symbols) & self.sizes.keys()))
            return "unknown", why or (f"not proved for every {' and '.join(sizes)}" if sizes else _TOO_MANY)
        if outcome.outside is None:
            return "enumerated", f"inside at each of {outcome.iterations:,} iterations"
        where = " and ".join(f"{name} = {value}" for name, value in outcome.outside.items())
        if self.sizes or point.opaque or point.conditions or not outcome.is_reached:
            return "unknown", f"outside at {where}, unless a condition that isn't known excludes it"
        return "refuted", f"at {where}"
