"""Element types in NumPy: dtype mapping, rounding on store, and casts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.spec.types import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType, Kind

Values = NDArray[Any]
Floats = NDArray[np.float64]

# CUDA stores to both float8 types with __NV_SATFINITE: infinities too become the greatest finite value.
_SATURATED = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}


@dataclass(frozen=True, slots=True)
class Format:
    """Parameters of a floating-point format: `unit` roundoff, `digits` of the significand, smallest subnormal `tiny`
    and largest finite magnitude."""

    unit: float
    digits: int
    tiny: float
    largest: float

    @property
    def integers(self) -> float:
        """Every integer up to this magnitude is representable."""
        return 2.0**self.digits

    @property
    def overflow(self) -> float:
        """The smallest magnitude that rounds to infinity."""
        return self.largest * (1 + self.unit / 2) if self.digits < 53 else float("inf")


FORMATS: dict[str, Format] = {
    "float32": Format(2.0**-24, 24, 2.0**-149, float(np.finfo(np.float32).max)),
    "float64": Format(2.0**-53, 53, 5e-324, float(np.finfo(np.float64).max)),
}


def format_of(dtype: DType) -> Format:
    """The format of the compute type of a floating-point `dtype`."""
    return FORMATS[dtype.compute.name]


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy type that holds elements of `dtype`; ml_dtypes is imported only for bfloat16 and float8."""
    match dtype.name:
        case "bfloat16" | "float8_e4m3" | "float8_e5m2":
            import ml_dtypes

            name = {"float8_e4m3": "float8_e4m3fn"}.get(dtype.name, dtype.name)
            narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
            return narrow
        case "bool":
            return np.dtype(np.bool_)
        case name:
            return np.dtype(name)


def working_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy type that values of compute type `dtype` are evaluated in: float64 for every float."""
    return np.dtype(np.float64) if dtype.is_float else numpy_dtype(dtype)


def store(values: Values, dtype: DType) -> Values:
    """Converts `values` to elements of `dtype`: floats round to nearest even, integers wrap, float8 saturates.

    A float64 operand is rounded once, whatever `dtype`. NaN stays NaN."""
    target = numpy_dtype(dtype)
    if values.dtype == target or not dtype.is_float:
        return values.astype(target, copy=False)
    with np.errstate(all="ignore"):
        if dtype.name in _SATURATED:
            limit = _SATURATED[dtype.name]
            values = np.clip(values, -limit, limit)
        if dtype.name in ("bfloat16", "float8_e4m3", "float8_e5m2") and values.dtype == np.float64:
            values = _to_odd_float32(values)
        return values.astype(target)


def _to_odd_float32(values: Floats) -> NDArray[np.float32]:
    """`values` rounded to odd: a second rounding to at most 22 bits then equals a single one (Boldo, Melquiond).

    ml_dtypes rounds a double to float32 first, and would round twice."""
    nearest = values.astype(np.float32)
    toward_zero = np.where(np.abs(nearest) > np.abs(values), np.nextafter(nearest, np.float32(0)), nearest)
    inexact = (toward_zero != values) & ~np.isnan(values)
    bits = toward_zero.astype(np.float32).view(np.uint32) | inexact.astype(np.uint32)
    odd: NDArray[np.float32] = bits.view(np.float32)
    return odd


def cast(values: Values, to: DType) -> Values:
    """Converts computed values as `Cast` does: to float64 values rounded to a float `to`, else to elements of `to`.

    Float to integer truncates, saturates at the 32- or 64-bit range that holds `to` (NaN gives 0), then wraps."""
    if to.is_float:
        return store(values.astype(np.float64) if values.dtype == np.bool_ else values, to).astype(np.float64)
    if to.kind is Kind.BOOL:
        truth: Values = values != 0
        return truth
    if values.dtype.kind == "f":
        if to.kind is Kind.UINT:
            wide = UINT64 if to.bits == 64 else UINT32
        else:
            wide = INT64 if to.bits == 64 else INT32
        values = _truncate(values, wide)
    return values.astype(numpy_dtype(to))


def _truncate(values: Values, wide: DType) -> Values:
    whole = np.trunc(np.where(np.isnan(values), 0.0, values))
    # 2**63 - 1 isn't representable as a double: comparing with `highest + 1` is exact, clipping to `highest` isn't.
    high = whole >= float(wide.highest + 1)
    low = whole <= float(wide.lowest)
    inside = np.where(high | low, 0.0, whole).astype(numpy_dtype(wide))
    limits = numpy_dtype(wide).type
    result: Values = np.where(high, limits(wide.highest), np.where(low, limits(wide.lowest), inside))
    return result


def rounds_twice(source: DType, to: DType) -> bool:
    """Whether a device may convert `source` to a narrow float `to` through float32 (double rounding)."""
    return to.is_float and to.compute == FLOAT32 and to != FLOAT32 and (source == FLOAT64 or source.bits > 16)
