"""Initialisers of constant tables, one row per line."""

from __future__ import annotations

from cugen.emit.printer.ctypes import constant_literal
from cugen.plan.memory import Array
from cugen.plan.symbols import Integer, Ranges, bounds

_MAX_ALIGNED_CHARACTERS = 12  # of a literal; columns of longer ones aren't aligned


def initializer(array: Array, ranges: Ranges) -> str:
    """`{1.0f, 2.0f}`, one row per line. A flat array lists its whole buffer, padding filled with zeros."""
    assert array.values is not None
    literals = [constant_literal(value, array.dtype) for value in array.values]
    if not array.shape:
        return literals[0]
    shape = [_fixed(extent, ranges) for extent in array.shape]
    if array.flat:
        strides = [_fixed(stride, ranges) for stride in array.strides]
        return "{" + ", ".join(_with_padding(literals, shape, strides, constant_literal(0, array.dtype))) + "}"
    width = max(map(len, literals), default=0)
    if len(shape) > 1 and width <= _MAX_ALIGNED_CHARACTERS:
        literals = [text.rjust(width) for text in literals]
    return _nested(literals, shape)


def _fixed(size: Integer, ranges: Ranges) -> int:
    return bounds(size, ranges)[1]


def _with_padding(literals: list[str], shape: list[int], strides: list[int], zero: str) -> list[str]:
    """Row-major literals scattered to a buffer by the strides."""
    offsets = [0]
    for extent, stride in zip(shape, strides, strict=True):
        offsets = [offset + n * stride for offset in offsets for n in range(extent)]
    buffer = [zero] * (max(offsets, default=-1) + 1)
    for offset, text in zip(offsets, literals, strict=True):
        buffer[offset] = text
    return buffer


def _nested(literals: list[str], shape: list[int]) -> str:
    if len(shape) == 1:
        return "{" + ", ".join(literals) + "}"
    step = len(literals) // shape[0] if shape[0] else 0
    parts = [_nested(literals[n * step : (n + 1) * step], shape[1:]) for n in range(shape[0])]
    lines = [f"    {line}" for part in parts for line in f"{part},".splitlines()]
    return "\n".join(["{", *lines, "}"])
