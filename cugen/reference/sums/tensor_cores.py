"""What sums of products lose on tensor cores, which a device may use: tf32 operands, and additions that truncate.

The instructions add the products of up to 32 terms to a float32: each addend is cut to 24 bits below the leading bit of
the largest, and their sum to a float32 (measured on an H200). For n terms that is less than n + 2 units of 2^-24.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cugen.reference.tracked import Tracked, apply_overflow
from cugen.spec.expressions import Reduce, factors_of_product
from cugen.spec.model import Precision
from cugen.spec.types import FLOAT32, DType

_FLOAT32_BITS = 24
_FAST_FLOAT8_BITS = 13  # below the leading one: of the instructions on float8 (cugen.machine.mma)
_TF32_DIGITS = 11  # of the significand (PTX ISA, alternate floating-point formats)
_TF32_UNIT = 2.0**-_TF32_DIGITS
_TF32_TINY = 2.0**-136  # the smallest subnormal


def rounds_to_tf32(node: Reduce, tf32: bool) -> bool:
    """Whether the operands of a sum may be rounded to tf32; `tf32`: the spec allows it."""
    return tf32 and node.kind == "sum" and node.dtype == FLOAT32 and bool(factors_of_product(node.body, FLOAT32))


def truncated_bits(node: Reduce, dtype_of: Callable[[str], DType], precision: Precision) -> int:
    """The bits that additions of a sum may truncate to: of products of 16- and 8-bit floats, and of tf32. 0 if they
    round to float32."""
    factors = factors_of_product(node.body, FLOAT32) if node.kind == "sum" and node.dtype == FLOAT32 else ()
    dtypes = [dtype_of(read.array) for read in factors]
    if not all(dtype.is_float for dtype in dtypes):
        return 0
    width = max((dtype.bits for dtype in dtypes), default=64)
    if width == 8 and precision.is_fp8_fast:
        return _FAST_FLOAT8_BITS
    return _FLOAT32_BITS if width <= 16 or rounds_to_tf32(node, precision.tf32) else 0


def rounded_to_tf32(x: Tracked) -> Tracked:
    """The operand with the error of its rounding to tf32, none where it is a number of tf32."""
    with np.errstate(invalid="ignore"):
        mantissa, _ = np.frexp(x.value)
        scaled = mantissa * 2.0**_TF32_DIGITS
        is_exact = (scaled == np.rint(scaled)) & (np.abs(x.value) >= 2.0**-126) | (x.value == 0) | ~np.isfinite(x.value)
    is_exact = is_exact & (x.slack == 0)
    if np.all(is_exact):
        return x
    error = _TF32_UNIT * (np.abs(x.value) + x.slack) + _TF32_TINY / 2
    rounding = np.where(is_exact, 0.0, error)
    return apply_overflow(x.value, x.slack + rounding, FLOAT32)
