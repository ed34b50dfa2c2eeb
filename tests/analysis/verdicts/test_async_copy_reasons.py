"""Which lanes of a copy are named, and how many compete with them."""

from __future__ import annotations

from cugen.analysis.totals.exact import Pattern
from cugen.analysis.verdicts import async_copy_reasons as copy_reasons


def test_the_lanes_that_meet_are_named_with_how_many_compete():
    read = tuple(lane // 8 * 256 + lane % 8 * 4 for lane in range(32))
    assert copy_reasons.crowded(read, 4, merged=True) == copy_reasons.Crowd((0, 8), 4)
    assert copy_reasons.crowded((0,) * 32, 4, merged=True) is None
    assert copy_reasons.crowded((0,) * 32, 4, merged=False) == copy_reasons.Crowd((0, 1), 32)
    assert copy_reasons.crowded(tuple(8 * lane for lane in range(32)), 8, merged=True) is None


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
    assert copy_reasons.meeting(4, worst, rows) == (
        "lanes 0 and 8 copy from places 256 bytes apart, which lie over one bank in L1, for which 4 such compete"
        " and lanes 0 and 1 write to one bank, for which 2 lanes compete"
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
    assert copy_reasons.meeting(16, worst, lines) == "lanes 0 to 7 copy from 1 line of 128 bytes to 2 rows of banks"
    assert copy_reasons.cause(16, pattern(lines, 4), lines) == ""
