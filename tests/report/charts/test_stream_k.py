"""The chart of the tiles that several blocks compute."""

from __future__ import annotations

import pytest
import sympy

from cugen.plan.kernel import WorkUnits
from cugen.plan.symbols import integer
from cugen.report.charts.stream_k import stream_k_chart
from cugen.report.html import page_html
from cugen.report.output_tiles import TilePart
from tests.report.test_output_tiles import STREAM_K

UNITS = WorkUnits(sympy.Symbol("tile"), integer(0), integer(0), tiles=3, k_tiles=8)
PARTS = (TilePart(0, 0, 8, 0), TilePart(1, 0, 2, 0), TilePart(1, 2, 8, 1), TilePart(2, 0, 4, 1), TilePart(2, 4, 8, 2))


def test_tiles_of_one_block_are_counted_and_others_drawn():
    chart = stream_k_chart(PARTS, UNITS)
    assert (chart.whole, chart.divided, [row.tile for row in chart.rows]) == (1, 2, [1, 2])


def test_the_width_of_a_part_is_its_share_of_k():
    first, second = stream_k_chart(PARTS, UNITS).rows[0].boxes
    assert 3 * first.width == second.width
    assert first.x + first.width == second.x
    assert (first.label, second.label) == ("0", "1")


def test_more_tiles_than_are_drawn_are_counted():
    parts = [part for tile in range(50) for part in (TilePart(tile, 0, 4, tile), TilePart(tile, 4, 8, tile + 1))]
    chart = stream_k_chart(parts, UNITS)
    assert (chart.divided, len(chart.rows)) == (50, 32)


def test_unknown_parts_have_no_chart():
    assert stream_k_chart((), UNITS) is None


@pytest.mark.slow
def test_the_page_has_the_parts_as_a_picture_and_as_a_table(page_of):
    page = page_of(STREAM_K)
    text = page_html(page)
    (launch,) = page.launches
    for part in launch.parts:
        row = (part.tile, part.block, part.begin, part.end - part.begin)
        assert "".join(f'<td class="n">{number}</td>' for number in row) in text
    assert "12 output tiles are divided between blocks along K:" in text
