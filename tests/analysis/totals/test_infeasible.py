"""Guards that exclude each other, against every value of what they are over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis.totals.infeasible import are_infeasible
from cugen.analysis.totals.sites import THREAD, Predicate
from cugen.compiled.transformations.transformed_sites import holds
from cugen.plan.symbols import Mod, integer

X, Y, _ = THREAD


def below(expr, bound, *, negated=False):
    return Predicate(((expr - bound, "<"),), negated)


def test_the_rest_of_a_vector_has_no_last_element():
    first = 4 * X + 512 * Y
    for v, never in ((0, False), (1, False), (2, False), (3, True)):
        guards = (below(first, 203), below(first + 3, 203, negated=True), below(first + v, 203))
        assert are_infeasible(guards) == never


def test_multiples_leave_less_room():
    first = 4 * X
    remainders = [(below(first + 3, 25, negated=True), below(first + v, 25)) for v in range(4)]
    assert [are_infeasible(guards) for guards in remainders] == [False, True, True, True]


def test_a_number_that_breaks_its_guard_is_enough():
    assert are_infeasible((Predicate(((integer(3), "<"),)),))
    assert not are_infeasible((Predicate(((integer(-3), "<"),)),))


def test_a_guard_that_fails_throughout_its_ranges_is_enough_if_all_of_it_has_one():
    guards = (below(Mod(X, integer(8)) + 4 * Y + 4, 0),)
    assert not are_infeasible(guards)
    assert not are_infeasible(guards, {X: (0, 31)})
    assert are_infeasible(guards, {X: (0, 31), Y: (0, 3)})
    assert not are_infeasible(guards, {X: (0, 31), Y: (-2, 3)})


def test_of_a_conjunction_that_fails_it_is_not_known_which_part_does():
    outside = Predicate(((X - 4, "<"), (Y - 4, "<")), negated=True)
    assert not are_infeasible((outside, below(X, 2)))


@st.composite
def guards(draw):
    terms = st.builds(lambda a, b, c: a * X + b * Y + c, *[st.integers(-4, 4)] * 2, st.integers(-9, 9))
    operators = st.sampled_from(("<", "==", "!="))
    parts = st.lists(st.tuples(terms, operators), min_size=1, max_size=2).map(tuple)
    return draw(st.lists(st.builds(Predicate, parts, st.booleans()), min_size=1, max_size=4))


@given(guards())
def test_what_excludes_itself_holds_nowhere(actual):
    if are_infeasible(actual, {X: (0, 11), Y: (0, 11)}):
        for x in range(12):
            for y in range(12):
                assert not all(holds(p, {X: x, Y: y}) for p in actual)
