"""Packing of kernel arguments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.reference.storage import numpy_dtype, store
from cugen.spec.types import DType, Kind
from cugen.toolchain.binary.elf import Parameter


def parameter_buffer(parameters: Sequence[Parameter]) -> struct.Struct:
    """Packs the bytes of each parameter of a kernel as a launch takes them in one buffer."""
    parts, end = [], 0
    for parameter in parameters:
        parts.append(f"{parameter.offset - end}x{parameter.size}s")
        end = parameter.offset + parameter.size
    return struct.Struct("".join(parts))


def pack_number(value: int | float | bool, dtype: DType) -> np.generic:
    """`value` in the bytes of `dtype`, as a NumPy scalar that PyCUDA and `struct` can pack.

    float16, bfloat16, float8 and bool, which neither supports, are returned as unsigned integers of the same bits.
    Integers wrap, as in a C cast.
    """
    content: NDArray[Any]
    if dtype.is_float:
        content = store(np.asarray(float(value), dtype=np.float64), dtype)
        if dtype.bits < 32:
            content = content.view(np.dtype(f"u{dtype.bytes}"))
    elif dtype.kind is Kind.BOOL:
        content = np.asarray(bool(value), dtype=np.uint8)
    else:
        wrapped = np.asarray(int(value) & ((1 << dtype.bits) - 1), dtype=f"u{dtype.bytes}")
        content = wrapped.view(numpy_dtype(dtype))
    number: np.generic = content.reshape(1)[0]
    return number
