"""Initialisers of baked tables."""

from __future__ import annotations

import pytest

from cugen.emit.printer.tables import initializer
from cugen.plan.memory import Array
from cugen.plan.symbols import integer
from cugen.spec.types import FLOAT32, INT32, INT64


def table(shape, values, dtype=FLOAT32, strides=None):
    dense = [1]
    for extent in reversed(shape[1:]):
        dense.insert(0, dense[0] * extent)
    return Array(
        "W",
        "W",
        dtype,
        tuple(map(integer, shape)),
        tuple(map(integer, strides or (dense if shape else ()))),
        "table",
        flat=strides is not None,
        values=tuple(values),
    )


def test_one_dimension_is_printed_on_one_line():
    assert initializer(table([3], [1, -2.5, 0]), {}) == "{1.0f, -2.5f, 0.0f}"


def test_a_scalar_has_no_braces():
    assert initializer(table([], [3]), {}) == "3.0f"


def test_each_row_has_a_line_and_columns_are_aligned():
    assert initializer(table([2, 3], [-1, 0, 1, -2, 0, 2]), {}) == (
        "{\n    {-1.0f,  0.0f,  1.0f},\n    {-2.0f,  0.0f,  2.0f},\n}"
    )


def test_three_dimensions_nest():
    assert initializer(table([2, 1, 2], [1, 2, 3, 4], INT32), {}).splitlines() == [
        "{",
        "    {",
        "        {1, 2},",
        "    },",
        "    {",
        "        {3, 4},",
        "    },",
        "}",
    ]


def test_long_numbers_are_not_aligned():
    assert "{1LL, 1234567890123456LL}" in initializer(table([1, 2], [1, 1234567890123456], INT64), {})


@pytest.mark.parametrize(
    ("strides", "text"),
    [
        ([3, 1], "{1, 2, 3, 4, 5, 6}"),
        ([1, 2], "{1, 4, 2, 5, 3, 6}"),  # column-major
        ([4, 1], "{1, 2, 3, 0, 4, 5, 6}"),  # the gap behind the last row is no part of the buffer
        ([1, 3], "{1, 4, 0, 2, 5, 0, 3, 6}"),
    ],
)
def test_a_flat_table_lists_its_buffer(strides, text):
    assert initializer(table([2, 3], [1, 2, 3, 4, 5, 6], INT32, strides), {}) == text
