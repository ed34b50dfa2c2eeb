"""Proofs that an integer form is never negative, by Fourier-Motzkin elimination with rounding to integers.

A proof assumes that the goal is at most -1 and derives a contradiction from the facts. It is sound over the integers
and incomplete: False means `not proved`, never `false`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from cugen.spec.model import Param
from cugen.spec.prove.linear import Atom, Form, Product, Quotient, Variable, atom_form, multiply

_MAX_FACTS = 240
_MAX_COEFFICIENT = 2**200


def never_negative(goal: Form, facts: Sequence[Form], params: Mapping[str, Param]) -> bool:
    """Whether `goal >= 0` follows from `facts`, each of which says that a form is at least 0."""
    if goal.is_constant and goal.constant >= 0:
        return True
    assumed = goal.scaled(-1) - 1
    system = _relevant(assumed, [*facts, *_times_divisors(assumed)], params)
    return system is not None and _contradictory(system)


def _relevant(start: Form, facts: Sequence[Form], params: Mapping[str, Param]) -> list[Form] | None:
    """The facts that share atoms with `start`, directly or through others, and what is known of those atoms."""
    system = [start]
    seen: set[Atom] = set()
    frontier = [atom for atom, _ in start.terms]
    left = list(facts)
    while frontier:
        fresh: list[Form] = []
        for atom in frontier:
            if atom not in seen:
                seen.add(atom)
                fresh += _known(atom, facts, params)
        sharing = [fact for fact in left if any(atom in seen for atom, _ in fact.terms)]
        left = [fact for fact in left if fact not in sharing]
        fresh += sharing
        system += fresh
        frontier = [atom for fact in fresh for atom, _ in fact.terms if atom not in seen]
        if len(system) > _MAX_FACTS:
            return None
    return system + [fact for fact in left if fact.is_constant]


def _times_divisors(form: Form) -> list[Form]:
    """The form times each divisor that isn't a number: quotients by params are bounded only as products with them."""
    divisors = [atom.divisor for atom, _ in form.terms if isinstance(atom, Quotient) and not atom.divisor.is_constant]
    return [product for divisor in divisors if (product := multiply(form, divisor)) is not None]


def _known(atom: Atom, facts: Sequence[Form], params: Mapping[str, Param]) -> list[Form]:
    """What holds of an atom by its nature."""
    match atom:
        case Variable(name=name) if name in params:
            param = params[name]
            unit = param.multiple_of
            return [atom_form(atom) - -(-param.minimum // unit), atom_form(atom, -1) + param.maximum // unit]
        case Quotient(dividend=dividend, divisor=divisor):
            product = multiply(divisor, atom_form(atom))
            if product is None:
                return []
            rest = dividend - product
            return [rest, divisor - 1 - rest]
        case Product(factors=factors):
            return _known_product(factors, facts, params)
        case _:
            return []


def _known_product(factors: tuple[Atom, ...], facts: Sequence[Form], params: Mapping[str, Param]) -> list[Form]:
    """Products of facts about the factors: a >= 0 and b >= 0 give a * b >= 0."""
    found: list[Form] = []
    for factor in factors:
        if isinstance(factor, Quotient):
            found += _known(factor, facts, params)
    for position, factor in enumerate(factors):
        others = factors[:position] + factors[position + 1 :]
        rest = others[0] if len(others) == 1 else Product(others)
        mine = _simple_facts(factor, facts, params)
        theirs = _simple_facts(rest, facts, params)
        for a in mine:
            for b in theirs:
                product = multiply(a, b)
                if product is not None and product not in found:
                    found.append(product)
    return found


def _simple_facts(atom: Atom, facts: Sequence[Form], params: Mapping[str, Param]) -> list[Form]:
    """At most a few facts that bound one atom."""
    if isinstance(atom, Product):
        inner = [_simple_facts(factor, facts, params) for factor in atom.factors]
        positive = all(
            any(fact == atom_form(factor) for fact in known) for factor, known in zip(atom.factors, inner, strict=True)
        )
        return [atom_form(atom)] if positive else []
    found = [fact for fact in facts if any(a == atom and abs(c) == 1 for a, c in fact.terms)][:4]
    if isinstance(atom, Variable) and atom.name in params:
        found += _known(atom, facts, params)
        if atom_form(atom) not in found and params[atom.name].minimum >= 0:
            found.append(atom_form(atom))
    return found


def _tightened(terms: Mapping[Atom, int], constant: int) -> tuple[dict[Atom, int], int]:
    """Divided by what the coefficients share; the constant is rounded down, which integers allow."""
    kept = {atom: c for atom, c in terms.items() if c}
    shared = gcd(*kept.values()) if kept else 1
    if shared > 1:
        return {atom: c // shared for atom, c in kept.items()}, constant // shared
    return kept, constant


def _contradictory(system: Iterable[Form]) -> bool:
    rows = _strongest(_tightened(dict(form.terms), form.constant) for form in system)
    while True:
        if any(constant < 0 for key, (_, constant) in rows.items() if not key):
            return True
        atom = _cheapest(rows)
        if atom is None:
            return False
        kept: list[_Row] = []
        lower: list[_Row] = []
        upper: list[_Row] = []
        for terms, constant in rows.values():
            group = kept if atom not in terms else lower if terms[atom] > 0 else upper
            group.append((terms, constant))
        if len(kept) + len(lower) * len(upper) > _MAX_FACTS:
            return False
        made = [_combine(atom, low, high) for low in lower for high in upper]
        if any(abs(c) > _MAX_COEFFICIENT for terms, _ in made for c in terms.values()):
            return False
        rows = _strongest([*kept, *made])


_Row = tuple[dict[Atom, int], int]


def _combine(atom: Atom, low: _Row, high: _Row) -> _Row:
    """The sum of two rows, scaled so that `atom` cancels."""
    a, b = low[0][atom], -high[0][atom]
    shared = gcd(a, b)
    x, y = b // shared, a // shared
    terms = {key: c * x for key, c in low[0].items()}
    for key, c in high[0].items():
        terms[key] = terms.get(key, 0) + c * y
    return _tightened(terms, low[1] * x + high[1] * y)


def _strongest(rows: Iterable[_Row]) -> dict[frozenset[tuple[Atom, int]], _Row]:
    """Of rows with the same terms, the one with the least constant says the most."""
    best: dict[frozenset[tuple[Atom, int]], _Row] = {}
    for terms, constant in rows:
        key = frozenset(terms.items())
        if key not in best or constant < best[key][1]:
            best[key] = (terms, constant)
    return best


def _cheapest(rows: Mapping[frozenset[tuple[Atom, int]], _Row]) -> Atom | None:
    """The atom whose elimination makes the fewest rows."""
    counts: dict[Atom, list[int]] = {}
    for terms, _ in rows.values():
        for atom, c in terms.items():
            counts.setdefault(atom, [0, 0])[c < 0] += 1
    return min(counts, key=lambda atom: counts[atom][0] * counts[atom][1] - sum(counts[atom]), default=None)
