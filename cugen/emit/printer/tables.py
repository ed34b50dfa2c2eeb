"""Initialisers of baked tables: a row on each line, as the table's dimensions nest."""

from __future__ import annotations

from cugen.emit.printer.ctypes import constant_literal
from cugen.plan.memory import Array
from cugen.plan.symbols import Integer, Ranges, bounds

_WIDEST = 12  # characters of a literal up to which the columns of rows are aligned


def initializer(array: Array, ranges: Ranges) -> str:
    """`{1.0f, 2.0f}`; one line for each row where there are several dimensions. A flat array lists its buffer, gaps
    between strides filled with zeros."""
    assert array.values is not None
    items = [constant_literal(value, array.dtype) for value in array.values]
    if not array.shape:
        return items[0]
    shape = [_fixed(extent, ranges) for extent in array.shape]
    if array.flat:
        strides = [_fixed(stride, ranges) for stride in array.strides]
        return "{" + ", ".join(_laid_out(items, shape, strides, constant_literal(0, array.dtype))) + "}"
    widest = max(map(len, items), default=0)
    if len(shape) > 1 and widest <= _WIDEST:
        items = [item.rjust(widest) for item in items]
    return _nested(items, shape)


def _fixed(size: Integer, ranges: Ranges) -> int:
    return bounds(size, ranges)[1]


def _laid_out(items: list[str], shape: list[int], strides: list[int], zero: str) -> list[str]:
    """The buffer that holds the items, which come with the last dimension fastest, at their strides."""
    places = [0]
    for extent, stride in zip(shape, strides, strict=True):
        places = [place + n * stride for place in places for n in range(extent)]
    buffer = [zero] * (max(places, default=-1) + 1)
    for place, item in zip(places, items, strict=True):
        buffer[place] = item
    return buffer


def _nested(items: list[str], shape: list[int]) -> str:
    if len(shape) == 1:
        return "{" + ", ".join(items) + "}"
    step = len(items) // shape[0] if shape[0] else 0
    parts = [_nested(items[n * step : (n + 1) * step], shape[1:]) for n in range(shape[0])]
    lines = [f"    {line}" for part in parts for line in f"{part},".splitlines()]
    return "\n".join(["{", *lines, "}"])
