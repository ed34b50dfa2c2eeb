"""The charts of an output have its tiles, its warps and the elements of a thread in proportion."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.report.charts.output import threads_chart, tiles_chart
from cugen.report.output_tiles import Axis, OutputTiles


def output(owners: np.ndarray) -> OutputTiles:
    rows, columns = Axis(20, ((0, 8), (8, 16), (16, 20))), Axis(32, ((0, 16), (16, 32)))
    return OutputTiles("C", 1, rows, columns, owners)


def warps_of_rows() -> np.ndarray:
    """Two rows of a tile of 8 x 16 for each warp of 32 threads."""
    return np.arange(8 * 16).reshape(8, 16)


def test_lines_are_between_tiles_and_the_tiles_at_the_edge_are_marked():
    chart = tiles_chart(output(warps_of_rows()))
    assert [x / chart.width for x in chart.columns] == [0.5]
    assert [y / chart.height for y in chart.rows] == pytest.approx([8 / 20, 16 / 20])
    (edge,) = chart.edge
    assert (edge.x, edge.width) == (0, chart.width)
    assert (edge.y / chart.height, edge.height / chart.height) == pytest.approx((16 / 20, 4 / 20))
    assert (chart.first.width / chart.width, chart.first.height / chart.height) == pytest.approx((0.5, 8 / 20))


def test_each_warp_is_one_region_and_thread_0_one_element():
    chart = threads_chart(output(warps_of_rows()))
    assert [box.colour for box in chart.warps] == [0, 1, 2, 3]
    assert sum(box.width * box.height for box in chart.warps) == pytest.approx(chart.width * chart.height)
    (element,) = chart.thread
    assert (element.width, element.height) == pytest.approx((chart.width / 16, chart.height / 8))


def test_elements_that_no_thread_stores_have_no_warp():
    owners = warps_of_rows()
    owners[:, 12:] = -1
    chart = threads_chart(output(owners))
    assert sum(box.width * box.height for box in chart.warps) == pytest.approx(chart.width * chart.height * 12 / 16)


def test_boxes_of_tma_have_no_threads():
    assert threads_chart(output(np.empty((0, 0), dtype=np.int64))) is None


def test_warps_that_interleave_too_finely_are_not_drawn():
    owners = 32 * (np.indices((80, 80)).sum(axis=0) % 2)
    assert threads_chart(output(owners)).warps == ()
