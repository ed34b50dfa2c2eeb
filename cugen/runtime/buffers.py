"""Conversion between logical arrays and the flat buffers of kernels.

Pitch padding and outputs are filled with a poison pattern, which reveals elements that were not written and padding
that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi.manifest import ArrayArgument
from cugen.abi.sizes import evaluate, evaluate_all
from cugen.reference.storage import numpy_dtype
from cugen.spec.types import DTYPES, DType

CANARY_BYTES = 512  # on each side of a device buffer; a multiple of the alignment of cudaMalloc
CANARY = 0xC5

# Quiet NaNs with an unusual payload, unlikely integers. The second pattern is for a second run: a result can't equal
# both by chance.
_FLOAT_POISON = {
    "float64": (0x7FFDA5A5A5A5A5A5, 0x7FFE5A5A5A5A5A5A),
    "float32": (0x7FE5A5A5, 0x7FDA5A5A),
    "float16": (0x7EA5, 0x7E5A),
    "bfloat16": (0x7FE5, 0x7FDA),
    "float8_e4m3": (0x7F, 0xFF),  # its only NaNs
    "float8_e5m2": (0x7F, 0x7E),
}
_INTEGER_POISON = (0xA5, 0x5A)


def poison(dtype: DType, count: int, variant: int = 0) -> NDArray[Any]:
    """`count` poisoned elements of `dtype`; `variant` is 0 or 1."""
    raw = np.dtype(f"u{dtype.bytes}")
    if dtype.is_float:
        pattern = _FLOAT_POISON[dtype.name][variant]
    elif dtype.name == "bool":
        pattern = 1 - variant  # other bytes would be undefined behaviour
    else:
        pattern = int.from_bytes(bytes([_INTEGER_POISON[variant]]) * dtype.bytes, "little")
    return np.full(count, pattern, dtype=raw).view(numpy_dtype(dtype))


def view(buffer: NDArray[Any], argument: ArrayArgument, params: Mapping[str, int]) -> NDArray[Any]:
    """The logical array in a flat `buffer`, as a view with the argument's shape and strides."""
    shape = evaluate_all(argument.shape, params)
    strides = evaluate_all(argument.strides, params)
    if 0 in shape:
        return np.empty(shape, dtype=buffer.dtype)
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if last >= buffer.size:
        raise ValueError(f"{argument.name}: element {last} is outside a buffer of {buffer.size} elements")
    steps = tuple(stride * buffer.itemsize for stride in strides)
    # as_strided rejects user-defined types such as float8.
    raw = buffer.view(np.dtype(f"u{buffer.itemsize}"))
    return np.lib.stride_tricks.as_strided(raw, shape, steps).view(buffer.dtype)


def pack(
    array: NDArray[Any] | None, argument: ArrayArgument, params: Mapping[str, int], variant: int = 0
) -> NDArray[Any]:
    """A flat buffer with `array` at the argument's strides, poison elsewhere; poison only for None."""
    buffer = poison(DTYPES[argument.dtype], evaluate(argument.elements, params), variant)
    if array is not None:
        target = view(buffer, argument, params)
        if target.shape != array.shape:
            raise ValueError(f"{argument.name}: shape {array.shape} given, {target.shape} expected")
        target[...] = array
    return buffer


def gaps(argument: ArrayArgument, params: Mapping[str, int]) -> NDArray[np.bool_]:
    """Mask of the buffer's elements outside the logical array."""
    mask = np.ones(evaluate(argument.elements, params), dtype=np.bool_)
    view(mask, argument, params)[...] = False
    return mask


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """The elements as unsigned integers, for bitwise comparison."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
