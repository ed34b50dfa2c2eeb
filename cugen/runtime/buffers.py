"""From logical arrays to the flat buffers that kernels see, and back.

A buffer has the argument's `elements`; what its strides don't reach (the gap of a pitch) is filled with poison, as
are outputs. Poison tells afterwards what was not written, and what should not have been.
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

CANARY_BYTES = 512  # on each side of a device buffer; keeps every alignment that CUDA gives
CANARY = 0xC5

# Quiet NaNs with a payload that no operation makes, and for integers an unlikely number; the second of each serves a
# second run, so that a result which happens to equal one pattern does not equal both.
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
    """`count` elements of `dtype`, none of them written yet; `variant` is 0 or 1."""
    raw = np.dtype(f"u{dtype.bytes}")
    if dtype.is_float:
        pattern = _FLOAT_POISON[dtype.name][variant]
    elif dtype.name == "bool":
        pattern = 1 - variant  # a byte that is neither 0 nor 1 would be undefined behaviour to read
    else:
        pattern = int.from_bytes(bytes([_INTEGER_POISON[variant]]) * dtype.bytes, "little")
    return np.full(count, pattern, dtype=raw).view(numpy_dtype(dtype))


def view(buffer: NDArray[Any], argument: ArrayArgument, params: Mapping[str, int]) -> NDArray[Any]:
    """The logical array in a flat `buffer`: no copy, of the argument's shape, strided as the manifest says."""
    shape = evaluate_all(argument.shape, params)
    strides = evaluate_all(argument.strides, params)
    if 0 in shape:
        return np.empty(shape, dtype=buffer.dtype)
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if last >= buffer.size:
        raise ValueError(f"{argument.name}: element {last} lies outside a buffer of {buffer.size}")
    steps = tuple(stride * buffer.itemsize for stride in strides)
    # NumPy makes no strided view of types that it doesn't know itself, such as float8.
    raw = buffer.view(np.dtype(f"u{buffer.itemsize}"))
    return np.lib.stride_tricks.as_strided(raw, shape, steps).view(buffer.dtype)


def pack(
    array: NDArray[Any] | None, argument: ArrayArgument, params: Mapping[str, int], variant: int = 0
) -> NDArray[Any]:
    """A flat buffer that holds `array` where the strides say, poison elsewhere; all poison for None."""
    buffer = poison(DTYPES[argument.dtype], evaluate(argument.elements, params), variant)
    if array is not None:
        target = view(buffer, argument, params)
        if target.shape != array.shape:
            raise ValueError(f"{argument.name}: shape {array.shape} given, {target.shape} expected")
        target[...] = array
    return buffer


def gaps(argument: ArrayArgument, params: Mapping[str, int]) -> NDArray[np.bool_]:
    """For each element of the buffer, whether it is outside the logical array."""
    mask = np.ones(evaluate(argument.elements, params), dtype=np.bool_)
    view(mask, argument, params)[...] = False
    return mask


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """The elements as unsigned integers, for comparisons that see every bit."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
