"""How far a kernel's floats may be from those that the host computes in double."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from cugen.spec.expressions import OPERATORS, Cast, Expr, Op, Read, Reduce, Scan, children, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import DType

# Significant bits by type, and of the products that `accumulate` allows to be rounded.
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3": 4, "float8_e5m2": 3}
_TF32_DIGITS = 11
_FP8_SUM_DIGITS = 14  # of the accumulators of tensor cores
_FUNCTION_ROUNDINGS = 4  # units in the last place by which a function of CUDA may be off, for most of them
_ARITHMETIC = ("add", "sub", "mul", "div", "fma", "neg")


def tolerances(spec: Spec, params: Mapping[str, int]) -> dict[str, float]:
    """Allowed differences by array that a statement writes, relative to numbers above 1: one unit in the last place for
    each rounding on the way. The roundings of a sum grow with its partial sums; errors of its terms are independent.

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
            return max(terms * _unit_of_sum(expr.dtype, spec), sqrt(terms) * below)
        case Scan(kind="sum" | "prod"):
            terms = evaluate(expr.inner.extent, params)
            return max(terms * _unit(expr.dtype), sqrt(terms) * below)
        case Op(name=name) if expr.dtype.is_float and name in OPERATORS:
            return below + _unit(expr.dtype) * (1 if name in _ARITHMETIC else _FUNCTION_ROUNDINGS)
        case Cast(to=to):
            return below + _unit(to)
    return below


def _unit_of_sum(dtype: DType, spec: Spec) -> float:
    unit = _unit(dtype)
    if dtype.is_float and spec.precision.tf32:
        unit = max(unit, 2.0 ** (1 - _TF32_DIGITS))
    if dtype.is_float and spec.precision.is_fp8_fast:
        unit = max(unit, 2.0 ** (1 - _FP8_SUM_DIGITS))
    return unit


def _unit(dtype: DType) -> float:
    """The last place of a number near 1."""
    return 2.0 ** (1 - _DIGITS[dtype.name]) if dtype.is_float else 0.0


def _is_made_of_floats(statement: Statement) -> bool:
    return any(
        isinstance(node, Cast) and node.arg.dtype.is_float and node.to.is_integer for node in walk(statement.value)
    )
