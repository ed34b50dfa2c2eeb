"""The domain of an access falls into boxes in which guards have one value, and few of them where guards only grow."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals.exact import totals
from cugen.analysis.totals.regions import GrowingGuard, regions
from cugen.analysis.totals.sites import Counter, Predicate
from cugen.plan.symbols import FloorDiv, Maximum, Minimum, integer, symbol
from tests.analysis.totals.test_exact import Domain, check_against_walk, measured
from tests.drawn import examples

ROW, COLUMN, THREAD = symbol("blockIdx.y"), symbol("blockIdx.x"), symbol("threadIdx.x")


def parts(rows, columns, guard):
    return list(regions({ROW: (0, rows), COLUMN: (0, columns)}, (guard,)))


def test_a_guard_at_the_end_of_a_large_domain_leaves_few_boxes():
    end = 120 * 999 + 92_293 * 9_999
    guard = GrowingGuard(8 * FloorDiv(120 * COLUMN + 92_293 * ROW, integer(8)) + 8 - end, (ROW, COLUMN), {})
    boxes = parts(10_000, 1_000, guard)
    assert len(boxes) < 100
    assert sum(rows * columns for (_, rows), (_, columns) in (box.values() for box in boxes)) == 10_000 * 1_000


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers())
def test_in_each_box_the_guard_has_one_value_or_the_counters_do(rows, columns, pitch, step, divisor, seed):
    limit = seed % (2 * rows * pitch)
    last = seed % max(rows, 1)
    expression = FloorDiv(pitch * Minimum(ROW, integer(last)) + step * COLUMN, integer(divisor)) - limit // divisor
    seen = set()
    for box in parts(rows, columns, GrowingGuard(expression, (ROW, COLUMN), {})):
        points = list(product(*(range(first, first + count) for first, count in (box[ROW], box[COLUMN]))))
        values = {(pitch * min(row, last) + step * column) // divisor < limit // divisor for row, column in points}
        assert len(values) == 1
        assert not seen & set(points)
        seen |= set(points)
    assert len(seen) == rows * columns


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(9, 70), st.integers(1, 7), st.data())
def test_lanes_under_a_guard_of_quotients_and_extrema_are_those_of_a_walk(rows, columns, pitch, divisor, data):
    limit = data.draw(st.integers(0, rows * pitch + 8 * columns + 32))
    clamp = data.draw(st.integers(0, rows))
    row = Maximum(Minimum(ROW, integer(clamp)) - 1, integer(0))
    start = FloorDiv(pitch * row + 8 * COLUMN, integer(divisor))
    domain = Domain(
        start + THREAD,
        (Counter(ROW, rows), Counter(COLUMN, columns)),
        (Predicate(((divisor * start + THREAD - limit, "<"),)),),
    )
    expected = sum(
        divisor * ((pitch * max(min(y, clamp) - 1, 0) + 8 * x) // divisor) + t < limit
        for y, x, t in product(range(rows), range(columns), range(32))
    )
    assert totals(domain, (32, 1, 1), 4, 32, measured).lanes == expected


def test_vectors_of_rows_that_begin_anywhere_cost_what_a_walk_over_them_finds(walk, monkeypatch):
    monkeypatch.setattr("cugen.families.transpose.config.MIN_TILES", 1)
    text = """
cugen: 1
kernel: unaligned
arrays:
  x: {shape: [%d, %d], dtype: bfloat16}
  y: {shape: [%d, %d], dtype: bfloat16}
compute: y[j, i] = x[i, j]
"""
    for rows, columns in ((136, 119), (152, 355)):
        check_against_walk(walk, text % (rows, columns, columns, rows))
