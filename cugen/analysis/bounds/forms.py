"""The plan's integer expressions as the affine forms of `cugen.spec.prove`, whose prover decides their signs.

What isn't affine is a variable, with facts that bound it: quotients and remainders by numbers, of which nested ones
would repeat their dividends exponentially; exclusive ors; extrema and choices, which can be split into cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

import sympy

from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod
from cugen.spec.model import Param
from cugen.spec.prove.affine import AffineForm, Atom, Product, Quotient, Variable, atom_form, floor_quotient, multiply
from cugen.spec.prove.guards import Case
from cugen.spec.prove.nonnegative import is_provably_nonnegative

Interval = tuple[int | None, int | None]  # without a bound, None


class Forms:
    """The forms of one kernel's expressions. `sizes` are the params without a value, by their symbols, with their names
    in the spec."""

    def __init__(self, params: Mapping[str, Param], sizes: Mapping[sympy.Symbol, str]) -> None:
        self.params = params
        self._sizes = sizes
        self._intervals: dict[Variable, Interval] = {}
        self._axioms: dict[Variable, tuple[AffineForm, ...]] = {}
        self._cases: dict[Variable, tuple[Case, Case]] = {}
        self._quotients: dict[Variable, tuple[AffineForm, int]] = {}  # of a variable: its dividend, and its divisor
        self._forms: dict[Integer, AffineForm] = {}

    def declare(self, name: sympy.Symbol, values: Interval, *facts: AffineForm) -> None:
        """Makes known what holds of an index wherever it is in scope."""
        variable = Variable(_variable(name))
        if variable not in self._axioms:
            self._define(variable, values, *facts)

    def form(self, expr: Integer) -> AffineForm:
        if expr not in self._forms:
            self._forms[expr] = self._form(expr)
        return self._forms[expr]

    def _form(self, expr: Integer) -> AffineForm:
        if expr.is_Integer:
            return AffineForm((), int(expr))
        if expr.is_Symbol:
            if (param := self._sizes.get(expr)) is not None:
                return atom_form(Variable(param), self.params[param].multiple_of)
            return atom_form(Variable(_variable(expr)))
        args = [self.form(arg) for arg in expr.args]
        if expr.is_Add:
            return sum(args[1:], args[0])
        if expr.is_Mul:
            return self._product(expr, args)
        if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
            return self._product(expr, args[:1] * int(expr.exp))
        match expr, args:
            case FloorDiv(), [a, b]:
                return self._quotient(a, b) or self._unknown(expr)
            case Mod(), [a, b]:
                return self._remainder(a, b) or self._unknown(expr)
            case BitXor(), [a, b]:
                return self._exclusive_or(expr, a, b) or self._unknown(expr)
            case Minimum(), [a, b]:
                return self._chosen(expr, (a, (b - a,)), (b, (a - b,)))
            case Maximum(), [a, b]:
                return self._chosen(expr, (a, (a - b,)), (b, (b - a,)))
            case Choice(), [a, b, then, otherwise]:
                return self._chosen(expr, (then, (b - a - 1,)), (otherwise, (a - b,)))
        return self._unknown(expr)

    def _unknown(self, expr: Integer) -> AffineForm:
        """A value of which nothing is known; equal expressions have equal values."""
        return atom_form(Variable(f"({expr})"))

    def _define(self, variable: Variable, values: Interval, *facts: AffineForm) -> None:
        low, high = self._intervals[variable] = values
        lowest = () if low is None else (atom_form(variable) - low,)
        highest = () if high is None else (atom_form(variable, -1) + high,)
        self._axioms[variable] = (*lowest, *highest, *facts)

    def _product(self, expr: Integer, factors: list[AffineForm]) -> AffineForm:
        result: AffineForm | None = AffineForm((), 1)
        for factor in factors:
            result = None if result is None else multiply(result, factor)
        return self._unknown(expr) if result is None else result

    def _quotient(self, a: AffineForm, b: AffineForm) -> AffineForm | None:
        """`a // b`; None where b isn't provably positive."""
        if not self._is_positive(b):
            return None
        if (bounded := self._quotient_by_extremum(a, b)) is not None:
            return bounded
        quotient = floor_quotient(a, b)
        return sum((self._named(atom).scaled(c) for atom, c in quotient.terms), AffineForm((), quotient.constant))

    def _quotient_by_extremum(self, a: AffineForm, b: AffineForm) -> AffineForm | None:
        """`a // b` as a variable with a number as its upper bound, where b depends on an extremum: the quotient of the
        greatest values, if `a` is less than the next multiple of b in each case."""
        (low, high), (_, divisor) = self.interval(a), self.interval(b)
        if not self.cases([b]) or low is None or low < 0 or high is None or divisor is None:
            return None
        variable, last = Variable(f"({a.key}) // ({b.key})"), high // divisor
        form = atom_form(variable)
        product = multiply(b, form)
        if product is None or not self._holds(b.scaled(last + 1) - 1 - a):
            return None
        if variable not in self._axioms:
            self._define(variable, (0, last), a - product, product + b - 1 - a)
        return form

    def _is_positive(self, form: AffineForm) -> bool:
        return form.constant >= 1 if form.is_constant else self._holds(form - 1)

    def _holds(self, goal: AffineForm) -> bool:
        """Whether a form is provably nonnegative, in each case of an extremum in it."""
        cases = next(iter(self.cases([goal]).values()), ((),))
        return all(is_provably_nonnegative(goal, (*case, *self.axioms([goal, *case])), self.params) for case in cases)

    def _named(self, atom: Atom) -> AffineForm:
        """A quotient by a number as a variable."""
        if not isinstance(atom, Quotient) or not atom.divisor.is_constant:
            return atom_form(atom)
        low, high = self._atom_interval(atom)
        if low is not None and low == high:
            return AffineForm((), low)
        variable, divisor = Variable(atom.key), atom.divisor.constant
        if variable not in self._axioms:
            remainder = atom.dividend - atom_form(variable, divisor)
            self._define(variable, (low, high), remainder, -remainder + (divisor - 1))
            self._quotients[variable] = atom.dividend, divisor
        return atom_form(variable)

    def _remainder(self, a: AffineForm, b: AffineForm) -> AffineForm | None:
        """`a - b * (a // b)`; by a number a variable with its values, unless it is seen to have them."""
        quotient = self._quotient(a, b)
        whole = None if quotient is None else multiply(b, quotient)
        if whole is None:
            return None
        form = a - whole
        low, high = self.interval(form)
        if not b.is_constant or (low is not None and high is not None and 0 <= low and high < b.constant):
            return form
        variable = Variable(f"[{form.key}]")
        if variable not in self._axioms:
            self._define(variable, (0, b.constant - 1), form - atom_form(variable), atom_form(variable) - form)
        return atom_form(variable)

    def _exclusive_or(self, expr: Integer, a: AffineForm, b: AffineForm) -> AffineForm | None:
        """`a ^ b` for a b of few bits: of a, the other bits. Both are multiples of a power of two."""
        common = gcd(*(number for form in (a, b) for number in (form.constant, *(c for _, c in form.terms))))
        unit = common & -common or 1
        ends = [self.interval(form) for form in (a, b)]
        highest = [high for low, high in ends if low is not None and low >= 0 and high is not None]
        if len(highest) < len(ends):
            return None
        size = unit << (min(highest) // unit).bit_length()
        variable = Variable(f"({expr}) % {size} // {unit}")
        if variable not in self._axioms:
            self._define(variable, (0, size // unit - 1))
        others = self._quotient(a if highest[0] >= highest[1] else b, AffineForm((), size))
        return None if others is None else others.scaled(size) + atom_form(variable, unit)

    def _chosen(self, expr: Integer, *choices: tuple[AffineForm, Case]) -> AffineForm:
        """A variable that is one of two values, each under some facts."""
        ends = [self.interval(value) for value, _ in choices]
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        bounded = [low for low in lows if low is not None], [high for high in highs if high is not None]
        low = min(bounded[0]) if len(bounded[0]) == len(lows) else None
        high = max(bounded[1]) if len(bounded[1]) == len(highs) else None
        facts: tuple[AffineForm, ...] = ()
        variable = Variable(f"({expr})")
        form = atom_form(variable)
        if isinstance(expr, Minimum):
            high = min(bounded[1], default=None)
            facts = tuple(value - form for value, _ in choices)
        if isinstance(expr, Maximum):
            low = max(bounded[0], default=None)
            facts = tuple(form - value for value, _ in choices)
        if variable not in self._axioms:
            self._define(variable, (low, high), *facts)
            first, second = ((form - value, value - form, *under) for value, under in choices)
            self._cases[variable] = first, second
        return form

    def cases(self, forms: Iterable[AffineForm]) -> dict[Variable, tuple[Case, Case]]:
        """The extrema and choices in forms, and in what is known of their variables, each with its two cases."""
        return {atom: self._cases[atom] for atom in self._variables(forms) if atom in self._cases}

    def axioms(self, forms: Iterable[AffineForm]) -> list[AffineForm]:
        """What is known of the variables in forms, and of those in what is known of them."""
        return [fact for atom in self._variables(forms) for fact in self._axioms.get(atom, ())]

    def relaxed(self, goal: AffineForm, facts: Iterable[AffineForm]) -> AffineForm:
        """A form that is nonnegative just where the goal is: with the worst value of each variable that only its range
        bounds, divided by what all coefficients have in common."""
        chosen = (case for cases in self.cases([goal]).values() for case in cases)
        coupled = self._variables([*facts, *(fact for case in chosen for fact in case)])
        for atom, coefficient in goal.terms:
            others = [AffineForm((term,)) for term in goal.terms if term[0] != atom]
            low, high = self._atom_interval(atom)
            worst = low if coefficient > 0 else high
            is_free = isinstance(atom, Variable) and atom.name not in self.params and self._is_plain(atom)
            if is_free and worst is not None and atom not in coupled and atom not in self._variables(others):
                goal = goal - atom_form(atom, coefficient) + worst * coefficient
        common = gcd(*(coefficient for _, coefficient in goal.terms)) or 1
        return AffineForm(tuple((atom, c // common) for atom, c in goal.terms), goal.constant // common)

    def _is_plain(self, variable: Variable) -> bool:
        """Whether nothing else is known of a variable than its range."""
        facts = self._axioms.get(variable, ())
        return all(len(fact.terms) == 1 for fact in facts)

    def _variables(self, forms: Iterable[AffineForm]) -> dict[Variable, None]:
        seen: dict[Variable, None] = {}
        frontier = list(forms)
        while frontier:
            for atom in _variables(frontier.pop()):
                if atom not in seen:
                    seen[atom] = None
                    frontier += self._axioms.get(atom, ())
        return seen

    def is_natural(self, expr: Integer) -> bool:
        """Whether an expression is seen to be at least 0."""
        low, _ = self.interval(self.form(expr))
        return low is not None and low >= 0

    def interval(self, form: AffineForm) -> Interval:
        """The least and the greatest value by what is known of each atom."""
        low: int | None = form.constant
        high: int | None = form.constant
        for atom, coefficient in form.terms:
            ends = self._atom_interval(atom)
            lower, upper = ends if coefficient > 0 else (ends[1], ends[0])
            low = None if low is None or lower is None else low + coefficient * lower
            high = None if high is None or upper is None else high + coefficient * upper
        return low, high

    def lowest(self, form: AffineForm, facts: Sequence[AffineForm]) -> int | None:
        """The least value of a form where facts hold: of each atom by what they say of it alone or of its dividend, and
        of all by one fact."""
        lowest = form.constant
        for atom, coefficient in form.terms:
            end = self._end_under(atom, coefficient > 0, facts)
            if end is None:
                return None
            lowest += coefficient * end
        return lowest

    def _end_under(self, atom: Atom, is_low: bool, facts: Sequence[AffineForm]) -> int | None:
        """The least or the greatest value of an atom where facts hold."""
        ends = [self._atom_interval(atom)[not is_low]]
        dividend, divisor = self._dividend(atom)
        sign = 1 if is_low else -1
        for fact in facts:
            # fact >= 0, so that sign * dividend is at least sign * dividend - scale * fact.
            scale = next((sign * c // d for a, c in dividend.terms for b, d in fact.terms if a == b), 0)
            if scale > 0:
                low, _ = self.interval(dividend.scaled(sign) - fact.scaled(scale))
                ends.append(None if low is None else sign * low // divisor)
        known = [end for end in ends if end is not None]
        return (max if is_low else min)(known, default=None)

    def _dividend(self, atom: Atom) -> tuple[AffineForm, int]:
        """What an atom is a quotient of, and by which number; of another atom itself and 1."""
        if isinstance(atom, Variable) and atom in self._quotients:
            return self._quotients[atom]
        return atom_form(atom), 1

    def _atom_interval(self, atom: Atom) -> Interval:
        match atom:
            case Variable(name=name) if name in self.params:
                param = self.params[name]
                return -(-param.minimum // param.multiple_of), param.maximum // param.multiple_of
            case Variable():
                return self._intervals.get(atom, (None, None))
            case Quotient(dividend=dividend, divisor=divisor):
                ends, divisors = self.interval(dividend), self.interval(divisor)
                return _least_quotient(ends[0], divisors), _greatest_quotient(ends[1], divisors)
            case Product(factors=factors):
                low, high = 1, 1
                for lower, upper in map(self._atom_interval, factors):
                    if lower is None or upper is None or lower < 0:
                        return None, None
                    low, high = low * lower, high * upper
                return low, high
        return None, None


def _least_quotient(dividend: int | None, divisor: Interval) -> int | None:
    """The least quotient of the least dividend; a divisor is at least 1."""
    smallest, largest = max(divisor[0] or 1, 1), divisor[1]
    if dividend is None:
        return None
    if dividend < 0:
        return dividend // smallest
    return 0 if largest is None else dividend // largest


def _greatest_quotient(dividend: int | None, divisor: Interval) -> int | None:
    """The greatest quotient of the greatest dividend."""
    smallest, largest = max(divisor[0] or 1, 1), divisor[1]
    if dividend is None:
        return None
    if dividend >= 0:
        return dividend // smallest
    return -1 if largest is None else dividend // largest


def _variables(form: AffineForm) -> Iterator[Variable]:
    """The variables of a form, those in quotients and products, too."""
    for atom, _ in form.terms:
        yield from _variables_of(atom)


def _variables_of(atom: Atom) -> Iterator[Variable]:
    match atom:
        case Variable():
            yield atom
        case Quotient(dividend=dividend, divisor=divisor):
            yield from _variables(dividend)
            yield from _variables(divisor)
        case Product(factors=factors):
            for factor in factors:
                yield from _variables_of(factor)


def _variable(name: sympy.Symbol) -> str:
    """The name of an index as a variable, which no param has."""
    return f"index {name}"
