"""Delinearised counters take the same values."""

from __future__ import annotations

from collections import Counter as Multiset
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis.totals.delinearize import delinearized
from cugen.analysis.totals.sites import Counter, Predicate
from cugen.plan.symbols import FloorDiv, Mod, integer, symbol

BLOCK = symbol("blockIdx.x")


def values(offset, counters, predicates) -> Multiset[int]:
    """How often the offset takes each value where the predicates hold."""
    actual: Multiset[int] = Multiset()
    for chosen in product(*(range(counter.count) for counter in counters)):
        assignment = {c.symbol: integer(v) for c, v in zip(counters, chosen, strict=True)}
        if all(int(d.xreplace(assignment)) < 0 for p in predicates for d, _ in p.terms):
            actual[int(offset.xreplace(assignment))] += 1
    return actual


@given(st.integers(1, 60), st.lists(st.sampled_from([2, 3, 4, 6, 12]), min_size=1, max_size=3), st.integers(-3, 3))
def test_digits_run_through_the_values_of_the_counter(count, divisors, plain):
    offset = plain * BLOCK
    for position, divisor in enumerate(divisors):
        offset += (7 + position) * FloorDiv(BLOCK, integer(divisor)) - 3 * Mod(BLOCK, integer(divisor))
    predicates = (Predicate(((FloorDiv(BLOCK, integer(divisors[0])) - 4, "<"),)),)
    counters = (Counter(BLOCK, count),)
    assert values(*delinearized(offset, counters, predicates)) == values(offset, counters, predicates)


def test_block_numbers_of_three_axes_become_three_counters():
    offset = (
        100 * FloorDiv(BLOCK, integer(12)) + 10 * Mod(FloorDiv(BLOCK, integer(4)), integer(3)) + Mod(BLOCK, integer(4))
    )
    actual, counters, predicates = delinearized(offset, (Counter(BLOCK, 60),), ())
    assert sorted(counter.count for counter in counters) == [3, 4, 5]
    assert not predicates
    assert not actual.has(FloorDiv, Mod)


@pytest.mark.slow
@given(
    st.integers(65, 150), st.integers(-40, 40), st.sampled_from([2, 4, 8, 16]), st.integers(0, 99), st.integers(0, 50)
)
def test_the_period_of_a_remainder_becomes_a_counter(count, step, modulus, start, limit):
    """As of a row's misalignment: the residues of its start in memory."""
    misalignment = Mod(step * BLOCK + start, integer(modulus))
    offset = 37 * BLOCK - misalignment
    predicates = (Predicate(((misalignment + FloorDiv(BLOCK, integer(modulus)) - limit, "<"),)),)
    before = values(offset, (Counter(BLOCK, count),), predicates)
    actual, counters, kept = delinearized(offset, (Counter(BLOCK, count),), predicates)
    assert values(actual, counters, kept) == before


def test_a_row_s_misalignment_depends_on_a_counter_of_few_values():
    actual, counters, _ = delinearized(Mod(54923 * BLOCK, integer(8)), (Counter(BLOCK, 2400),), ())
    (low,) = actual.free_symbols
    assert {counter.symbol: counter.count for counter in counters}[low] == 8


def test_a_counter_that_nothing_divides_stays_as_it_is():
    counters = (Counter(BLOCK, 10),)
    assert delinearized(3 * BLOCK, counters, ()) == (3 * BLOCK, counters, ())
