"""The forms of drawn expressions, against their values at all indices."""

from __future__ import annotations

from itertools import product

import numpy as np
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cugen.analysis.bounds.enumeration import extremes
from cugen.analysis.bounds.facts import Facts, Locals
from cugen.analysis.bounds.forms import Forms
from cugen.analysis.bounds.search import Search
from cugen.analysis.totals.sites import Predicate, ProgramPoint
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod, integer, symbol
from cugen.spec.model import Param
from tests.analysis.bounds.executed import value
from tests.drawn import examples

X, Y, N = symbol("x"), symbol("y"), symbol("N")
RANGES = {X: (0, 6), Y: (0, 4)}
SIZE = Param("N", None, minimum=2, maximum=12, multiple_of=2)
SIZES = range(2, 13, 2)
EXTREMA = (Minimum(N - 1, integer(3)), Minimum(X + 1, integer(4)), Maximum(Y, integer(2)))  # all positive


def _combined(parts: st.SearchStrategy[Integer]) -> st.SearchStrategy[Integer]:
    divisors = st.integers(1, 6).map(integer)
    natural = parts.map(lambda part: Mod(part, integer(8)))
    return st.one_of(
        st.builds(lambda a, b: a + b, parts, parts),
        st.builds(lambda a, b: a - b, parts, parts),
        st.builds(lambda a, n: a * n, parts, st.integers(-3, 4)),
        st.builds(FloorDiv, parts, divisors),
        st.builds(Mod, parts, divisors),
        st.builds(FloorDiv, parts, st.just(N)),
        st.builds(Mod, parts, st.just(N)),
        st.builds(FloorDiv, parts, st.sampled_from(EXTREMA)),
        st.builds(Mod, parts, st.sampled_from(EXTREMA)),
        st.builds(BitXor, natural, st.builds(lambda a, n: a * n, natural, st.sampled_from([1, 2, 4]))),
        st.builds(Minimum, parts, parts),
        st.builds(Maximum, parts, parts),
        st.builds(Choice, parts, parts, parts, parts),
    )


EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from([X, Y, N]), st.integers(-4, 9).map(integer)), _combined, max_leaves=6
)
PREDICATES = st.builds(
    Predicate,
    st.lists(st.tuples(EXPRESSIONS, st.sampled_from(["<", "==", "!="])), min_size=1, max_size=2).map(tuple),
    st.booleans(),
)


def _forms() -> Forms:
    forms = Forms({"N": SIZE}, {N: "N"})
    for name, values in RANGES.items():
        forms.declare(name, values)
    return forms


def _iterations() -> dict[sympy.Symbol, NDArray[np.int64]]:
    """The values of the indices and of the size at each iteration."""
    ranges = (range(low, high + 1) for low, high in RANGES.values())
    columns = np.array(list(product(*ranges, SIZES)), np.int64).T
    return dict(zip((X, Y, N), columns, strict=True))


ITERATIONS = _iterations()


def _values(expr: Integer) -> NDArray[np.int64]:
    """The values of an expression at all iterations."""
    return np.broadcast_to(value(expr, ITERATIONS), ITERATIONS[X].shape)


def _where(predicates: list[Predicate]) -> NDArray[np.bool_]:
    """The iterations at which all predicates hold."""
    compared = {"<": np.less, "==": np.equal, "!=": np.not_equal}
    all_hold = np.ones(ITERATIONS[X].shape, bool)
    for predicate in predicates:
        terms = [compared[op](_values(term), 0) for term, op in predicate.terms]
        all_hold &= np.all(terms, axis=0) != predicate.negated
    return all_hold


@given(EXPRESSIONS)
@settings(max_examples=examples(250), deadline=None)
def test_every_value_of_an_expression_is_in_its_interval(expr):
    forms = _forms()
    low, high = forms.interval(forms.form(expr))
    values = _values(expr)
    assert low is None or low <= values.min()
    assert high is None or values.max() <= high


@given(EXPRESSIONS, st.lists(PREDICATES, max_size=3), st.integers(-3, 3))
@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_proved_nonnegative_is_so_wherever_the_guards_hold(expr, predicates, slack):
    forms = _forms()
    facts = Facts(forms, Locals({}, frozenset()), {})
    known = facts.of_point(ProgramPoint({}, {}, (), tuple(predicates)))
    values = _values(expr)[_where(predicates)]
    shifted = expr - int(min(values, default=0)) + slack  # the smallest value is `slack`
    if Search(forms, [()]).holds(forms.form(shifted), known):
        assert not values.size or slack >= 0


@given(EXPRESSIONS, EXPRESSIONS, st.lists(PREDICATES, max_size=3))
@settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_value_is_between_the_extremes_of_its_parts_wherever_the_guards_hold(first, second, predicates):
    forms, counts = _forms(), {name: high + 1 for name, (_, high) in RANGES.items()}
    expr = first + second
    _, (low, high) = extremes(expr, predicates, counts, lambda part: forms.interval(forms.form(part)))
    values = _values(expr)[_where(predicates)]
    assert low is None or (low <= values).all()
    assert high is None or (values <= high).all()


@given(st.integers(0, 7), st.integers(0, 3), st.sampled_from([1, 2, 4]))
def test_an_exclusive_or_of_few_bits_keeps_the_others(column, row, unit):
    forms = _forms()
    swizzled = BitXor(unit * X, unit * Mod(Y, integer(4)))
    low, high = forms.interval(forms.form(swizzled))
    assert (low, high) == (0, 7 * unit)
    assert low <= (unit * column) ^ (unit * row) <= high


def test_equal_quotients_are_one_variable_so_that_a_remainder_adds_up_again():
    forms = _forms()
    whole = 5 * FloorDiv(3 * X + Y, integer(5)) + Mod(3 * X + Y, integer(5)) - 3 * X - Y
    search, known = (
        Search(forms, [()]),
        Facts(forms, Locals({}, frozenset()), {}).of_point(ProgramPoint({}, {}, (), ())),
    )
    assert search.holds(forms.form(whole), known)
    assert search.holds(forms.form(-whole), known)
    assert not search.holds(forms.form(whole - 1), known)


def test_a_quotient_by_an_extremum_is_bounded_where_it_is_in_each_case():
    """As a tile's column: tiles of up to four rows, of N in all, are numbered column by column."""
    forms, tile = _forms(), symbol("tile")
    forms.declare(tile, (0, 11), forms.form(N) - 1 - forms.form(tile))
    rows = Minimum(N - 4 * FloorDiv(tile, integer(4)), integer(4))
    assert forms.interval(forms.form(FloorDiv(Mod(tile, integer(4)), rows))) == (0, 0)
    assert forms.interval(forms.form(FloorDiv(Mod(tile, integer(5)), rows))) != (0, 0)
