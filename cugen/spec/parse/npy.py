"""Reader of small .npy files without NumPy. The header is a Python literal; only its standard form is accepted.

The format is version 1.0 to 3.0 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    r"\{'descr': '([<>|=][a-zA-Z]\d*)', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,15}(?:, \d{1,15})*)?),?\), ?\}\s*"
)
# Format characters of the struct module by element type.
_CODES = {
    "f8": "d",
    "f4": "f",
    "f2": "e",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "b1": "?",
}


class NotReadable(ValueError):
    """The bytes aren't a .npy file of plain numbers; the message is the reason."""


@dataclass(frozen=True, slots=True)
class NpyFile:
    """The contents of a .npy file; `data` is flat and row-major, also for files in Fortran order."""

    shape: tuple[int, ...]
    data: tuple[int | float | bool, ...]


def read_npy(content: bytes) -> NpyFile:
    """The numbers of a .npy file. NotReadable for pickled objects, structured or complex elements, and broken files."""
    if content[:6] != _MAGIC:
        raise NotReadable("it doesn't start as a .npy file does")
    if content[6:7] == b"\x01":
        (length,), start = struct.unpack("<H", content[8:10].ljust(2, b"\0")), 10
    elif content[6:7] in (b"\x02", b"\x03"):
        (length,), start = struct.unpack("<I", content[8:12].ljust(4, b"\0")), 12
    else:
        raise NotReadable("its format version isn't known")
    header = content[start : start + length].decode("latin-1")
    if "'|O'" in header or "'O'" in header:
        raise NotReadable("it holds pickled objects, which are never loaded")
    match = _HEADER.fullmatch(header)
    if match is None:
        raise NotReadable("its header isn't that of an array of plain numbers")
    kind, fortran, dimensions = match.groups()
    code = _CODES.get(kind[1:])
    if code is None:
        raise NotReadable(f"its element type {kind!r} isn't a number that a spec can hold")
    shape = tuple(int(part) for part in dimensions.split(",") if part)
    body = content[start + length :]
    count = prod(shape)
    if count == 0:
        raise NotReadable("it has no elements")
    order = ">" if kind[0] == ">" else "<"
    if struct.calcsize(order + code) * count != len(body):
        raise NotReadable(f"its header declares {count} elements, and {len(body)} bytes follow")
    data = struct.unpack(f"{order}{count}{code}", body)
    return NpyFile(shape, _row_major(data, shape) if fortran == "True" else data)


def _row_major(data: Sequence[int | float | bool], shape: tuple[int, ...]) -> tuple[int | float | bool, ...]:
    strides = [prod(shape[:position]) for position in range(len(shape))]
    elements = product(*map(range, shape))
    return tuple(data[sum(i * stride for i, stride in zip(element, strides, strict=True))] for element in elements)
