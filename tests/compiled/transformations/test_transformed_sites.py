"""Reshaped sites touch what the given one touches: the same elements in each lane, in other portions."""

from __future__ import annotations

from collections import Counter as Bag
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals.sites import BLOCK, THREAD, Counter, Predicate, Site
from cugen.compiled.transformations import transformed_sites
from cugen.plan.memory import Access, Array
from cugen.plan.symbols import integer, symbol
from cugen.spec.types import DTYPES

TX = THREAD[0]
K = symbol("loop 0 k")
ARRAY = Array("a", "a", DTYPES["float32"], (integer(9999),), (integer(1),), "shared")


def site(offset, counters, predicates=(), width=1) -> Site:
    return Site(Access(ARRAY, (offset,), "load", width), offset, tuple(counters), tuple(predicates), {}, {})


def touched(sites, lanes=32) -> list[Bag[int]]:
    """The elements that each lane touches, and how often."""
    actual = [Bag() for _ in range(lanes)]
    for single in sites:
        names = [c.symbol for c in single.counters]
        for lane, values in product(range(lanes), product(*(range(c.count) for c in single.counters))):
            address = {TX: lane, **dict(zip(names, values, strict=True))}
            if all(transformed_sites.holds(p, address) for p in single.predicates):
                start = int(single.offset.xreplace({s: integer(v) for s, v in address.items()}))
                actual[lane].update(range(start, start + single.access.width))
    return actual


@given(st.integers(1, 24), st.integers(0, 9), st.sampled_from([1, 2, 4, 16, 17]))
def test_widened_and_single_loads_together_touch_each_element_once(count, start, pitch):
    given_site = site(TX * pitch + K + start, [Counter(K, count)])
    wide = transformed_sites.vectorised(given_site, (4, 2, 1))
    assert wide is not None
    assert touched(wide) == touched([given_site])


@pytest.mark.slow
@given(st.integers(1, 24), st.integers(0, 9))
def test_wide_loads_alone_touch_all_elements_and_fewer_than_two_loads_more(count, start):
    given_site = site(TX * 64 + K + start, [Counter(K, count)])
    wide = transformed_sites.vectorised(given_site, (4,))
    assert wide is not None
    for more, exact in zip(touched(wide), touched([given_site]), strict=True):
        assert exact <= more
        assert more.total() < exact.total() + 8
        assert all(times == 1 for times in more.values())


@pytest.mark.parametrize(
    ("term", "operator", "negated", "narrows"),
    [
        (TX + K - 9, "<", False, True),
        (TX + 3 * K - 9, "<", False, True),
        (TX - 9, "==", True, True),  # not of the loop
        (9 - K, "<", False, False),
        (TX + K - 9, "<", True, False),
        (TX - K, "==", False, False),
        (TX + K * K - 9, "<", False, False),
    ],
)
def test_trips_are_made_by_fewer_lanes_where_the_index_has_an_upper_bound(term, operator, negated, narrows):
    guarded = site(TX, [Counter(K, 3)], [Predicate(((term, operator),), negated)])
    assert transformed_sites.narrows(guarded, Counter(K, 3)) is narrows


def test_only_a_loop_that_moves_by_one_element_widens():
    assert transformed_sites.vectorised(site(TX + 16 * K, [Counter(K, 16)]), (4,)) is None
    assert transformed_sites.vectorised(site(TX + BLOCK[0], [Counter(BLOCK[0], 16)]), (4,)) is None
    guarded = site(TX * 16 + K, [Counter(K, 16)], [Predicate(((K - TX, "<"),))])
    assert transformed_sites.vectorised(guarded, (4,)) is None


@pytest.mark.parametrize("factor", [2, 4])
def test_narrowed_loads_touch_the_same(factor):
    vector = site(TX * 4, [], width=4)
    assert touched(transformed_sites.scalarised(vector, factor)) == touched([vector])


CHAINS = ([16, 8, 4, 1], [4, 1], [8, 4, 1], [1, 16, 8, 4], [1, 4], [1, 1, 1, 4], [1, 2, 16, 8, 4], [1])


def test_of_what_a_loop_becomes_in_chunks_each_size_divides_the_one_before():
    assert all(map(transformed_sites.is_unroll_chain, CHAINS))
    assert not any(map(transformed_sites.is_unroll_chain, ([20], [2, 4], [8, 3, 1], [])))


@settings(max_examples=40)
@given(st.sampled_from(CHAINS), st.integers(1, 3), st.integers(-5, 40), st.integers(1, 3))
@pytest.mark.slow
def test_chunks_touch_what_the_loop_touches(sizes, slope, extra, step):
    """Lane t runs `k = 0, step, …` while `k < slope · t + extra`."""
    max_trips = max(0, -(-(slope * 31 + extra) // step))
    loop = site(TX * 100 + step * K, [Counter(K, max_trips)], [Predicate(((step * K - slope * TX - extra, "<"),))])
    if max_trips:
        assert touched(transformed_sites.partially_unrolled(loop, sizes)) == touched([loop])


@pytest.mark.parametrize("sizes", [[], [4], [3, 2, 1], [1, 1, 4], [4, 8, 1], [1, 4, 2, 1]])
def test_sizes_that_are_no_chain_are_refused(sizes):
    loop = site(TX + K, [Counter(K, 40)], [Predicate(((K - TX, "<"),))])
    with pytest.raises(ValueError, match="no chain of chunks"):
        transformed_sites.partially_unrolled(loop, sizes)


def test_a_loop_parts_a_warp_only_where_its_end_differs_inside_one():
    row = [Predicate(((K - THREAD[1] - 3, "<"),))]
    column = [Predicate(((K - TX - 3, "<"),))]
    name = (str(K),)
    assert transformed_sites.divergent_loops(site(K, [Counter(K, 40)], row), name, (32, 8, 1)) == ()
    assert transformed_sites.divergent_loops(site(K, [Counter(K, 40)], row), name, (16, 8, 1)) == (Counter(K, 40),)
    assert transformed_sites.divergent_loops(site(K, [Counter(K, 40)], column), name, (32, 8, 1)) == (Counter(K, 40),)
    assert transformed_sites.divergent_loops(site(K, [Counter(K, 40)], column), (), (32, 8, 1)) == ()


def test_the_first_trip_represents_all_if_the_address_is_constant():
    loop = site(TX, [Counter(K, 40)], [Predicate(((K - TX, "<"),))])
    once = transformed_sites.hoisted_site(loop, (str(K),))
    assert once is not None
    assert touched([once]) == [Bag({lane: 1} if lane > 0 else {}) for lane in range(32)]
    assert transformed_sites.hoisted_site(loop, ()) is None  # a guard inside the loop, not its end
    assert transformed_sites.hoisted_site(site(TX + K, [Counter(K, 40)]), ()) is None
