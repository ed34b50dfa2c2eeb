"""What sums of products lose on tensor cores, which a device may use: tf32 operands, and additions that truncate.

The instructions add the products of up to 32 terms to a float32: each addend is cut to 24 bits below the leading bit of
the largest, and their sum to a float32 (measured on an H200). For n terms that is less than n + 2 units of 2^-24. A
float32 operand beside a 16-bit one is split into three parts of its sign, each of which is a term; or into two of tf32,
which lose up to 4 units of it: from four terms on, no more than those of a third part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress

import numpy as np

from cugen.reference.sums.reductions import Truncation
from cugen.reference.tracked import Tracked, apply_overflow
from cugen.spec.expressions import Cast, Const, Expr, Op, Read, Reduce, free_indices, walk
from cugen.spec.model import Precision, Spec
from cugen.spec.rewriting import without_quotients
from cugen.spec.types import FLOAT32, DType

_FLOAT32_BITS = 24
_FAST_FLOAT8_BITS = 13  # below the leading one: of the instructions on float8 (cugen.machine.mma)
PROMOTED_TERMS = 128  # whose sum by wgmma is added to a float32 (cugen.families.gemm.wgmma)
_NARROW_BITS, _WIDE_BITS = 8, 16  # of operands
_TF32_DIGITS = 11  # of the significand (PTX ISA, alternate floating-point formats)
TF32_UNIT = 2.0**-_TF32_DIGITS
_TF32_TINY = 2.0**-136  # the smallest subnormal
_SPLIT_PARTS = {"bfloat16": 3, "float16": 6}  # products of a float32 and an element, both split (cugen.machine.mma)
_SPLIT_TINY = 2.0**-133  # the smallest subnormal of bfloat16
_SPLIT_EXACTLY = 2.0**-101  # from which on three parts have all bits of a float32


@dataclass(frozen=True, slots=True)
class ConvertedFactors:
    """Factors of a product whose operands may be rounded to tf32 (`is_rounded`), or one that may be split into parts of
    bfloat16 (`is_split`). `are_operands`: two factors, each of which is an operand; of others an operand may be any
    product."""

    factors: tuple[Expr, ...] = ()
    are_operands: bool = True
    is_split: bool = False
    is_rounded: bool = False

    def converted(self, factor: Expr, x: Tracked) -> Tracked:
        """The value of an expression, with the error of its conversion if it is one of the factors."""
        if x.value.dtype.kind != "f" or all(factor is not known for known in self.factors):
            return x
        parts = _split(x) if self.is_split else x
        return rounded_to_tf32(parts, keeps_exact=self.are_operands) if self.is_rounded else parts


def converted_factors(node: Reduce, dtype_of: Callable[[str], DType], tf32: bool) -> ConvertedFactors:
    """The factors of a sum whose operands may be converted; none if they may not. `tf32`: the spec allows to round them
    to that.

    An operand that is no array, such as `exp(x[m, k])`, may be stored as a float32 one, and so may one of a narrower
    type beside a float32 one: tf32 holds its numbers."""
    if node.kind != "sum" or node.dtype != FLOAT32:
        return ConvertedFactors()
    factors, is_plain = _factors(node.body)
    factors = tuple(factor for factor in factors if free_indices(factor))
    are_operands = is_plain and len(factors) == 2
    are_float32 = [_is_float32(factor, dtype_of) for factor in factors]
    is_split = len(factors) == 2 and _split_parts(node, dtype_of) > 1
    are_held = all(wide or _is_held(factor, dtype_of) for factor, wide in zip(factors, are_float32, strict=True))
    is_rounded = tf32 and len(factors) > 1 and (not are_operands or (any(are_float32) and are_held))
    if not is_split and not is_rounded:
        return ConvertedFactors()
    converted = tuple(compress(factors, are_float32)) if are_operands or not is_rounded else factors
    return ConvertedFactors(converted, are_operands, is_split, is_rounded)


def _is_float32(factor: Expr, dtype_of: Callable[[str], DType]) -> bool:
    inner = _without_casts(factor)
    return not isinstance(inner, Read) or dtype_of(inner.array) == FLOAT32


def _is_held(factor: Expr, dtype_of: Callable[[str], DType]) -> bool:
    """Whether tf32 holds all numbers of an operand that is read from an array."""
    inner = _without_casts(factor)
    dtype = dtype_of(inner.array) if isinstance(inner, Read) else inner.dtype
    return dtype.bits <= (_WIDE_BITS if dtype.is_float else _NARROW_BITS)


def _factors(body: Expr) -> tuple[tuple[Expr, ...], bool]:
    """The factors of a float32 product, without divisors, and whether there are neither divisors nor constants."""
    match body:
        case Cast(arg=arg, to=to) if to == arg.dtype == FLOAT32:
            return _factors(arg)
        case Op(name="mul", args=(a, b), dtype=dtype) if dtype == FLOAT32:
            (of_a, a_is_plain), (of_b, b_is_plain) = _factors(a), _factors(b)
            return of_a + of_b, a_is_plain and b_is_plain
        case Op(name="div", args=(dividend, _), dtype=dtype) if dtype == FLOAT32:
            return _factors(dividend)[0], False
        case Op(name="neg", args=(arg,), dtype=dtype) if dtype == FLOAT32:
            return _factors(arg)
    return (body,), bool(free_indices(body))


def _without_casts(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr


def truncation(
    node: Reduce, dtype_of: Callable[[str], DType], precision: Precision, *, has_wgmma: bool = False
) -> Truncation | None:
    """How additions of a sum may truncate: of products of 16- and 8-bit floats, of these with float32, and of tf32.
    None if they round to float32. `has_wgmma`: the target has instructions on float8 that keep fewer bits."""
    is_float_sum = node.kind == "sum" and node.dtype == FLOAT32
    parts = _split_parts(node, dtype_of) if is_float_sum else 1
    if parts > 1 or converted_factors(node, dtype_of, precision.tf32).factors:
        return Truncation(_FLOAT32_BITS, additions=parts)
    widths = _tensor_core_widths(node, dtype_of) if is_float_sum else []
    if not widths:
        return None
    if widths != [_NARROW_BITS, _NARROW_BITS]:
        return Truncation(_FLOAT32_BITS)
    if precision.is_fp8_fast:
        return Truncation(_FAST_FLOAT8_BITS)
    return Truncation(_FAST_FLOAT8_BITS, PROMOTED_TERMS) if has_wgmma else Truncation(_FLOAT32_BITS)


def _split_parts(node: Reduce, dtype_of: Callable[[str], DType]) -> int:
    """The products of parts that tensor cores may add for a term of a float32 sum, whose operands are a 16-bit float
    and what else is in the term, as float32; 1 if there are no such operands."""
    names = {index.name for index in node.indices}
    factors = [_without_casts(factor) for factor in _factors(node.body)[0] if free_indices(factor) & names]
    read = [dtype_of(factor.array).name for factor in factors if isinstance(factor, Read)]
    narrow = [_SPLIT_PARTS[name] for name in read if name in _SPLIT_PARTS]
    divisors = (op.args[1] for op in walk(node.body) if isinstance(op, Op) and op.name == "div")
    has_others = len(factors) > 2 or len(factors) > len(narrow) or any(free_indices(d) & names for d in divisors)
    return max(narrow, default=1) if len(factors) > 1 and has_others else 1


def _split(x: Tracked) -> Tracked:
    """A float32 operand that may be split, with the bits that its parts lose."""
    loses = (x.value != 0) & (np.abs(x.value) - x.slack < _SPLIT_EXACTLY)
    return apply_overflow(x.value, x.slack + np.where(loses, _SPLIT_TINY, 0.0), FLOAT32) if np.any(loses) else x


def types_of_temporaries(spec: Spec) -> dict[str, DType]:
    """The types of the elements that temporaries convert: a GEMM that has one in place multiplies these."""
    types = {array.name: array.dtype for array in spec.arrays}
    converted: dict[str, DType] = {}
    for statement in spec.statements:
        inner = _without_casts(statement.value)
        if spec.array(statement.target).is_temporary:
            dtype = types[inner.array] if isinstance(inner, Read) else inner.dtype
            types[statement.target] = converted[statement.target] = dtype
    return converted


def _tensor_core_widths(node: Reduce, dtype_of: Callable[[str], DType]) -> list[int]:
    """The bits of the two narrowest operands that tensor cores may multiply in a float32 sum; none if they take no two
    of its factors. These are 16- and 8-bit floats, and integers of 8 bits beside 16-bit floats, which hold them. The
    factors of all terms, or of a group of them, are multiplied after the sum, and a sum of more than two over several
    indices may be nested."""
    names = {index.name for index in node.indices}
    factors = [factor for factor in _factors(node.body)[0] if free_indices(factor) & names]
    of_terms = [factor for factor in factors if free_indices(without_quotients(factor)) & names]
    factors = of_terms if len(of_terms) == 2 else factors
    if len(factors) != 2 and len(names) < 2:
        return []
    floats, integers = [], []
    for factor in factors:
        inner = _without_casts(factor)
        dtype = dtype_of(inner.array) if isinstance(inner, Read) else inner.dtype
        if isinstance(inner, Read) and dtype.is_float and dtype.bits <= _WIDE_BITS:
            floats.append(dtype.bits)
        elif (isinstance(factor, Cast | Read) and dtype.bits == _NARROW_BITS) or _is_of_integers(factor):
            integers.append(_NARROW_BITS)
    if len(floats) < 2 and not (integers and _WIDE_BITS in floats):
        return []
    return sorted(floats)[:2] if len(floats) > 1 else [*integers[:1], *floats]


def _is_of_integers(factor: Expr) -> bool:
    """Whether a float is the sum or difference of integers, as of a weight and its zero point."""
    match factor:
        case Op(name="add" | "sub", args=args):
            return all(isinstance(arg, Const) or _is_of_integers(arg) for arg in args)
        case Cast(arg=arg):
            return arg.dtype.is_integer
    return False


def rounded_to_tf32(x: Tracked, *, keeps_exact: bool = True) -> Tracked:
    """The operand with the error of its rounding to tf32; with `keeps_exact` none where it is a number of tf32."""
    with np.errstate(invalid="ignore"):
        mantissa, _ = np.frexp(x.value)
        scaled = mantissa * 2.0**_TF32_DIGITS
        is_exact = (scaled == np.rint(scaled)) & (np.abs(x.value) >= 2.0**-126) | (x.value == 0) | ~np.isfinite(x.value)
    is_exact = is_exact & (x.slack == 0) & (keeps_exact or (x.value == 0) | ~np.isfinite(x.value))
    if np.all(is_exact):
        return x
    error = TF32_UNIT * (np.abs(x.value) + x.slack) + _TF32_TINY / 2
    rounding = np.where(is_exact, 0.0, error)
    return apply_overflow(x.value, x.slack + rounding, FLOAT32)
