"""Rounding to narrow float formats in pure Python."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class _Format:
    digits: int  # of the significand, the leading one included
    min_exponent: int  # of the smallest normal number
    largest: float
    saturates: bool


_NARROW = {
    "float16": _Format(11, -14, 65504.0, saturates=False),
    "bfloat16": _Format(8, -126, 3.3895313892515355e38, saturates=False),
    "float8_e4m3": _Format(4, -6, 448.0, saturates=True),
    "float8_e5m2": _Format(3, -14, 57344.0, saturates=True),
}


def rounded(value: int | float | bool, dtype: DType) -> int | float | bool:
    """`value` rounded to nearest even in a narrow float type; unchanged in other types."""
    form = _NARROW.get(dtype.name)
    if form is None or math.isnan(value):
        return value
    number = float(value)
    if math.isfinite(number) and number != 0:
        exponent = math.frexp(number)[1] - 1
        unit = math.ldexp(1.0, max(exponent, form.min_exponent) - form.digits + 1)
        number = math.copysign(round(abs(number) / unit) * unit, number)
    if abs(number) <= form.largest:
        return number
    return math.copysign(form.largest if form.saturates else math.inf, number)
