"""The sectors of a box that TMA moves are those that its rows span."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cugen.machine.requests.boxes import Extent, box_bytes, box_sectors

SECTOR = 32


@st.composite
def drawn_boxes(draw):
    """(extents, first byte of each row, bytes of a row) of a box of two or three dimensions."""
    size = draw(st.sampled_from([1, 2, 4]))
    outer = [
        (draw(st.integers(0, 40)), 16 * draw(st.integers(1, 70)), draw(st.integers(0, 9)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    count, first = draw(st.integers(0, 130)), draw(st.integers(0, 40))
    extents = [Extent(first * step % SECTOR, count, step) for count, step, first in outer]
    extents.append(Extent(first * size % SECTOR, count, size))
    rows = [
        sum((f + i) * step for i, (_, step, f) in zip(position, outer, strict=True)) + first * size
        for position in product(*(range(count) for count, _, _ in outer))
    ]
    return extents, rows, count * size


@given(drawn_boxes())
def test_a_box_moves_the_sectors_that_each_of_its_rows_spans(box):
    extents, rows, row_bytes = box
    spanned = sum(len({byte // SECTOR for byte in range(row, row + row_bytes)}) for row in rows)
    sectors, ideal = box_sectors(extents)
    assert sectors == spanned
    assert box_bytes(extents) == len(rows) * row_bytes
    assert ideal == -(-len(rows) * row_bytes // SECTOR)
