"""Proofs that an affine form is nonnegative, by Fourier-Motzkin elimination with integer tightening.

A proof assumes that the goal is at most -1 and derives a contradiction from the facts (refutation). It is sound over
the integers and incomplete: False means `not proved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

from cugen.spec.model import Param
from cugen.spec.prove.affine import AffineForm, Atom, Product, Quotient, Variable, atom_form, floor_quotient, multiply

_MAX_FACTS = 240  # rows of the system: elimination is quadratic per atom
_MAX_FACTS_PER_ATOM = 4  # as factors of products
_MAX_COEFFICIENT = 2**200  # bounds the cost of integer arithmetic


def is_provably_nonnegative(goal: AffineForm, facts: Sequence[AffineForm], params: Mapping[str, Param]) -> bool:
    """Whether `goal >= 0` follows from `facts`, a conjunction of forms that are nonnegative."""
    if goal.is_constant and goal.constant >= 0:
        return True
    assumed = goal.scaled(-1) - 1
    systems = _relevant(assumed, [*facts, *_multiply_by_divisors(assumed)], params)
    return any(map(_is_contradictory, systems))


def _relevant(
    start: AffineForm, facts: Sequence[AffineForm], params: Mapping[str, Param]
) -> Iterator[list[AffineForm]]:
    """The constraints that share atoms with `start`, including the axioms of those atoms, and then ever more: those
    that share atoms with these. Products of facts have products as atoms, so that all of them may be too many."""
    system = [start]
    seen: set[Atom] = set()
    frontier = [atom for atom, _ in start.terms]
    unrelated = list(facts)
    constants = [fact for fact in facts if fact.is_constant]
    if not frontier:
        yield [start, *constants]
    while frontier:
        fresh: list[AffineForm] = []
        for atom in frontier:
            if atom not in seen:
                seen.add(atom)
                fresh += _axioms(atom, facts, params)
        sharing = [fact for fact in unrelated if any(atom in seen for atom, _ in fact.terms)]
        unrelated = [fact for fact in unrelated if fact not in sharing]
        fresh += sharing
        system += fresh
        frontier = [atom for fact in fresh for atom, _ in fact.terms if atom not in seen]
        if len(system) > _MAX_FACTS:
            return
        yield [*system, *constants]


def _multiply_by_divisors(form: AffineForm) -> list[AffineForm]:
    """The form times each symbolic divisor: axioms of quotients by params are about products with the divisor."""
    divisors = [atom.divisor for atom, _ in form.terms if isinstance(atom, Quotient) and not atom.divisor.is_constant]
    return [product for divisor in divisors if (product := multiply(form, divisor)) is not None]


def _axioms(atom: Atom, facts: Sequence[AffineForm], params: Mapping[str, Param]) -> list[AffineForm]:
    """The axioms of an atom: the range of a param, 0 <= dividend - divisor * quotient < divisor, the range of the
    quotient that follows from the dividend's, signs of products."""
    match atom:
        case Variable(name=name) if name in params:
            param = params[name]
            unit = param.multiple_of
            return [atom_form(atom) - -(-param.minimum // unit), atom_form(atom, -1) + param.maximum // unit]
        case Quotient(dividend=dividend, divisor=divisor):
            product = multiply(divisor, atom_form(atom))
            if product is None:
                return []
            remainder = dividend - product
            return [remainder, divisor - 1 - remainder, *_quotient_bounds(atom, facts)]
        case Product(factors=factors):
            return _product_axioms(factors, facts, params)
        case _:
            return []


def _quotient_bounds(atom: Quotient, facts: Sequence[AffineForm]) -> list[AffineForm]:
    """A lower and an upper bound of a quotient."""
    low, high = _extreme(atom_form(atom), 1, facts), _extreme(atom_form(atom), -1, facts)
    return [atom_form(atom) - low, high - atom_form(atom)]


def _extreme(form: AffineForm, sign: int, facts: Sequence[AffineForm]) -> AffineForm:
    """A lower (`sign` 1) or an upper (-1) bound of a form: each index at the first bound that `facts` have of it.

    Division by a positive divisor is monotonic, so that the bound of a quotient is that of its dividend, divided."""
    result = AffineForm((), form.constant)
    for atom, c in form.terms:
        direction = sign if c > 0 else -sign
        bound = atom_form(atom)
        if isinstance(atom, Quotient):
            bound = floor_quotient(_extreme(atom.dividend, direction, facts), atom.divisor)
        elif limits := [fact for fact in facts if (atom, direction) in fact.terms]:
            # fact >= 0 is `atom >= bound` or `atom <= bound`.
            bound = bound - limits[0].scaled(direction)
        result = result + bound.scaled(c)
    return result


def _product_axioms(
    factors: tuple[Atom, ...], facts: Sequence[AffineForm], params: Mapping[str, Param]
) -> list[AffineForm]:
    """Products of facts about the factors: a >= 0 and b >= 0 imply a * b >= 0."""
    products: list[AffineForm] = []
    for factor in factors:
        if isinstance(factor, Quotient):
            products += _axioms(factor, facts, params)
    for position, factor in enumerate(factors):
        others = factors[:position] + factors[position + 1 :]
        cofactor = others[0] if len(others) == 1 else Product(others)
        factor_facts = _simple_facts(factor, facts, params)
        cofactor_facts = _simple_facts(cofactor, facts, params)
        for a in factor_facts:
            for b in cofactor_facts:
                product = multiply(a, b)
                if product is not None and product not in products:
                    products.append(product)
    return products


def _simple_facts(atom: Atom, facts: Sequence[AffineForm], params: Mapping[str, Param]) -> list[AffineForm]:
    """A few facts that bound one atom."""
    if isinstance(atom, Product):
        inner = [_simple_facts(factor, facts, params) for factor in atom.factors]
        positive = all(
            any(fact == atom_form(factor) for fact in known) for factor, known in zip(atom.factors, inner, strict=True)
        )
        return [atom_form(atom)] if positive else []
    bounds = [fact for fact in facts if any(a == atom and abs(c) == 1 for a, c in fact.terms)][:_MAX_FACTS_PER_ATOM]
    if isinstance(atom, Quotient):
        bounds += _quotient_bounds(atom, facts)
    if isinstance(atom, Variable) and atom.name in params:
        bounds += _axioms(atom, facts, params)
        if atom_form(atom) not in bounds and params[atom.name].minimum >= 0:
            bounds.append(atom_form(atom))
    return bounds


def _tighten(terms: Mapping[Atom, int], constant: int) -> tuple[dict[Atom, int], int]:
    """Divides by the gcd of the coefficients and rounds the constant down, which is valid over the integers."""
    remaining = {atom: c for atom, c in terms.items() if c}
    shared = gcd(*remaining.values()) if remaining else 1
    if shared > 1:
        return {atom: c // shared for atom, c in remaining.items()}, constant // shared
    return remaining, constant


def _is_contradictory(system: Iterable[AffineForm]) -> bool:
    rows = _without_redundant(_tighten(dict(form.terms), form.constant) for form in system)
    while True:
        if any(constant < 0 for key, (_, constant) in rows.items() if not key):
            return True
        atom = _next_atom(rows)
        if atom is None:
            return False
        remaining: list[_Row] = []
        lower: list[_Row] = []
        upper: list[_Row] = []
        for terms, constant in rows.values():
            group = remaining if atom not in terms else lower if terms[atom] > 0 else upper
            group.append((terms, constant))
        if len(remaining) + len(lower) * len(upper) > _MAX_FACTS:
            return False
        combined = [_combine(atom, low, high) for low in lower for high in upper]
        if any(abs(c) > _MAX_COEFFICIENT for terms, _ in combined for c in terms.values()):
            return False
        rows = _without_redundant([*remaining, *combined])


_Row = tuple[dict[Atom, int], int]


def _combine(atom: Atom, low: _Row, high: _Row) -> _Row:
    """The positive combination of a lower and an upper bound that eliminates `atom`."""
    a, b = low[0][atom], -high[0][atom]
    shared = gcd(a, b)
    x, y = b // shared, a // shared
    terms = {key: c * x for key, c in low[0].items()}
    for key, c in high[0].items():
        terms[key] = terms.get(key, 0) + c * y
    return _tighten(terms, low[1] * x + high[1] * y)


def _without_redundant(rows: Iterable[_Row]) -> dict[frozenset[tuple[Atom, int]], _Row]:
    """Drops redundant rows: of those with the same terms, the one with the smallest constant implies the others."""
    best: dict[frozenset[tuple[Atom, int]], _Row] = {}
    for terms, constant in rows:
        key = frozenset(terms.items())
        if key not in best or constant < best[key][1]:
            best[key] = (terms, constant)
    return best


def _next_atom(rows: Mapping[frozenset[tuple[Atom, int]], _Row]) -> Atom | None:
    """The atom whose elimination adds the fewest rows; None if none is left."""
    counts: dict[Atom, list[int]] = {}
    for terms, _ in rows.values():
        for atom, c in terms.items():
            counts.setdefault(atom, [0, 0])[c < 0] += 1
    return min(counts, key=lambda atom: counts[atom][0] * counts[atom][1] - sum(counts[atom]), default=None)
