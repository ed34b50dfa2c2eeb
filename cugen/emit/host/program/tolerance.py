"""How far a kernel's floats may be from those that the host computes in double."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from cugen.spec.expressions import OPERATORS, Cast, Expr, Op, Read, Reduce, Scan, children, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import DType
from cugen.spec.winograd.transforms import growth, roundings

# Significant bits by type, and of the products that `accumulate` allows to be rounded.
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3": 4, "float8_e5m2": 3}
_TF32_DIGITS = 11
_FP8_SUM_DIGITS = 14  # of the accumulators of tensor cores
_FUNCTION_ROUNDINGS = 4  # units in the last place by which a function of CUDA may be off, for most of them
_SUM_ROUNDINGS = 4  # units by the root of the number of terms: six standard deviations of a serial sum
_ARITHMETIC = ("add", "sub", "mul", "div", "fma", "neg")


def tolerances(spec: Spec, params: Mapping[str, int]) -> dict[str, float]:
    """Allowed differences by array that a statement writes, of floats relative to the largest element: units in the
    last place for the roundings on the way. Those of a sum are independent, and add up as the root of their number.

    Integers made of floats may be off by one, where a value near an integer is rounded to the other side."""
    made: dict[str, float] = {}
    for statement in spec.statements:
        dtype = spec.array(statement.target).dtype
        difference = _difference(statement.value, spec, params, made) + _unit(dtype)
        if dtype.is_integer:
            difference = 1.0 if _is_made_of_floats(statement) or difference else 0.0
        made[statement.target] = max(made.get(statement.target, 0.0), difference)
    return made


def _difference(expr: Expr, spec: Spec, params: Mapping[str, int], made: Mapping[str, float]) -> float:
    below = sum(_difference(child, spec, params, made) for child in children(expr))
    match expr:
        case Read(array=name):
            return below + made.get(name, 0.0)
        case Reduce(kind="sum" | "prod", indices=indices):
            terms = prod(evaluate(index.extent, params) for index in indices)
            of_terms = _SUM_ROUNDINGS * sqrt(terms) * _unit_of_sum(expr.dtype, spec) + _unit_of_factors(spec)
            return of_terms + _unit_of_transforms(expr.dtype, spec) + below
        case Scan(kind="sum" | "prod"):
            terms = evaluate(expr.inner.extent, params)
            return _SUM_ROUNDINGS * sqrt(terms) * _unit(expr.dtype) + below
        case Op(name=name) if expr.dtype.is_float and name in OPERATORS:
            return below + _unit(expr.dtype) * (1 if name in _ARITHMETIC else _FUNCTION_ROUNDINGS)
        case Cast(to=to):
            return below + _unit(to)
    return below


def _unit_of_sum(dtype: DType, spec: Spec) -> float:
    return 2.0 ** (1 - _FP8_SUM_DIGITS) if dtype.is_float and spec.precision.is_fp8_fast else _unit(dtype)


def _unit_of_factors(spec: Spec) -> float:
    """Of products whose factors may be rounded to tf32."""
    return 2 * 2.0 ** (1 - _TF32_DIGITS) if spec.precision.tf32 else 0.0


def _unit_of_transforms(dtype: DType, spec: Spec) -> float:
    """Of the transforms of Winograd's algorithm, whose products are added in fewer terms than the convolution has."""
    return _SUM_ROUNDINGS * sqrt(roundings()) * growth() * _unit(dtype) if spec.precision.winograd else 0.0


def _unit(dtype: DType) -> float:
    """The last place of a number near 1."""
    return 2.0 ** (1 - _DIGITS[dtype.name]) if dtype.is_float else 0.0


def _is_made_of_floats(statement: Statement) -> bool:
    return any(
        isinstance(node, Cast) and node.arg.dtype.is_float and node.to.is_integer for node in walk(statement.value)
    )
