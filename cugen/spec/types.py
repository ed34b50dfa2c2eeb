"""Element types: names, widths, type promotion, compute and accumulator types."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The kind of a type; promotion determines the kind first, then the width."""

    BOOL = "bool"
    UINT = "uint"
    INT = "int"
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class DType:
    """One element type of the language. `bits` is the stored width (a bool takes one byte)."""

    name: str
    kind: Kind = field(hash=False)
    bits: int = field(hash=False)

    @property
    def bytes(self) -> int:
        """The stored width in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type, not bool."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def compute(self) -> DType:
        """The type of arithmetic on values of this type: float32 for narrower floats, else itself."""
        return FLOAT32 if self.is_float and self.bits < 32 else self

    @property
    def accumulate(self) -> DType:
        """The default accumulator type of a sum of values of this type."""
        if self.is_float:
            return self.compute
        if self.kind is Kind.BOOL or self.bits <= 16:
            return INT32
        return self

    @property
    def lowest(self) -> int:
        """The minimum of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind is Kind.INT else 0

    @property
    def highest(self) -> int:
        """The maximum of an integer or bool type."""
        if self.kind is Kind.BOOL:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.kind is Kind.INT else (1 << self.bits) - 1

    def __str__(self) -> str:
        return self.name


FLOAT64 = DType("float64", Kind.FLOAT, 64)
FLOAT32 = DType("float32", Kind.FLOAT, 32)
FLOAT16 = DType("float16", Kind.FLOAT, 16)
BFLOAT16 = DType("bfloat16", Kind.FLOAT, 16)
FLOAT8_E4M3 = DType("float8_e4m3", Kind.FLOAT, 8)
FLOAT8_E5M2 = DType("float8_e5m2", Kind.FLOAT, 8)
INT8, INT16, INT32, INT64 = (DType(f"int{bits}", Kind.INT, bits) for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (DType(f"uint{bits}", Kind.UINT, bits) for bits in (8, 16, 32, 64))
BOOL = DType("bool", Kind.BOOL, 8)

_FLOATS = (FLOAT64, FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2)
_INTEGERS = (INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)

DTYPES: dict[str, DType] = {t.name: t for t in (*_FLOATS, *_INTEGERS, BOOL)}


def promote(a: DType, b: DType) -> DType:
    """The common type of two operands: NumPy's promotion; two different narrow floats give float32."""
    if a == b:
        return a
    if a.kind is Kind.BOOL:
        return b
    if b.kind is Kind.BOOL:
        return a
    if a.is_float and b.is_float:
        if a.bits == b.bits:
            return FLOAT32 if a.bits == 16 else FLOAT16
        wide, narrow = (a, b) if a.bits > b.bits else (b, a)
        return wide if wide.bits >= 16 or narrow.bits < wide.bits else FLOAT32
    if a.is_float or b.is_float:
        floating, integer = (a, b) if a.is_float else (b, a)
        if integer.bits == 8:
            return floating if floating.bits >= 16 else FLOAT32
        if integer.bits == 16:
            return floating if floating.bits >= 32 else FLOAT32
        return FLOAT64
    if a.kind is b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind is Kind.INT else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return {8: INT16, 16: INT32, 32: INT64}.get(unsigned.bits, FLOAT64)
