"""Packing of kernel arguments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.reference.storage import store
from cugen.spec.types import DType, Kind
from cugen.toolchain.binary.elf import Parameter


def parameter_buffer(parameters: Sequence[Parameter]) -> struct.Struct:
    """Packs the bytes of each parameter of a kernel as a launch takes them in one buffer."""
    parts, end = [], 0
    for parameter in parameters:
        parts.append(f"{parameter.offset - end}x{parameter.size}s")
        end = parameter.offset + parameter.size
    return struct.Struct("".join(parts))


def pack_number(value: int | float | bool, dtype: DType) -> bytes:
    """`value` in the bytes of `dtype`. Integers wrap, as in a C cast."""
    content: NDArray[Any]
    if dtype.is_float:
        content = store(np.asarray(float(value), dtype=np.float64), dtype)
    elif dtype.kind is Kind.BOOL:
        content = np.asarray(bool(value), dtype=np.uint8)
    else:
        content = np.asarray(int(value) & ((1 << dtype.bits) - 1), dtype=f"u{dtype.bytes}")
    return content.tobytes()


def pack_address(address: int) -> bytes:
    """A pointer, or a texture object."""
    return address.to_bytes(8, "little")
