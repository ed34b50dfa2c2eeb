"""Reported bank conflicts of asynchronous copies."""

from __future__ import annotations

from cugen.analysis.totals.exact import Pattern
from cugen.analysis.verdicts import async_copy_reasons as copy_reasons


def test_the_lanes_that_meet_are_named_with_how_many_compete():
    read = tuple(lane // 8 * 256 + lane % 8 * 4 for lane in range(32))
    assert copy_reasons.worst_conflict(read, 4, merged=True) == copy_reasons.Conflict((0, 8), 4)
    assert copy_reasons.worst_conflict((0,) * 32, 4, merged=True) is None
    assert copy_reasons.worst_conflict((0,) * 32, 4, merged=False) == copy_reasons.Conflict((0, 1), 32)
    assert copy_reasons.worst_conflict(tuple(8 * lane for lane in range(32)), 8, merged=True) is None


def test_of_wide_copies_the_lines_of_the_costliest_quarter_are_counted():
    lines = tuple(16 * lane for lane in range(32))
    assert copy_reasons.lines_of_quarters(lines, lines) == (0, 1, 1)
    shifted = (*lines[:8], *(a + 64 for a in lines[8:]))
    assert copy_reasons.lines_of_quarters(shifted, lines) == (8, 1, 2)


def pattern(lanes, wavefronts: int) -> Pattern:
    return Pattern(tuple(lanes), (1, wavefronts, 1, 0, 0), 0)


def test_both_sides_are_named_where_lanes_meet_on_both():
    rows = tuple(lane // 8 * 256 + lane % 8 * 4 for lane in range(32))
    worst = pattern((lane // 2 * 4 + lane % 2 * 128 for lane in range(32)), 5)
    assert copy_reasons.cause(4, worst, rows) == "lanes 0 and 8 read, 0 and 1 write one bank"
    assert copy_reasons.conflict_clause(4, worst, rows) == (
        "lanes 0 and 8 copy from addresses 256 bytes apart, in one L1 bank (4-way conflict)"
        " and lanes 0 and 1 write to one bank (2-way conflict)"
    )


def test_a_side_on_which_no_lanes_meet_is_not_named():
    row = tuple(4 * lane for lane in range(32))
    assert copy_reasons.cause(4, pattern((128 * lane for lane in range(32)), 32), row) == (
        "lanes 0 and 1 copy to one bank"
    )
    assert copy_reasons.cause(4, pattern(row, 1), row) == ""


def test_of_wide_copies_the_lines_are_named():
    lines = tuple(16 * lane for lane in range(32))
    worst = pattern((a + 64 for a in lines), 8)
    assert copy_reasons.cause(16, worst, lines) == "8 lanes copy from 1 line to 2"
    assert (
        copy_reasons.conflict_clause(16, worst, lines)
        == "lanes 0 to 7 copy from 1 line of 128 bytes to 2 lines of shared memory"
    )
    assert copy_reasons.cause(16, pattern(lines, 4), lines) == ""
