"""The gate of mish as a quotient, without a logarithm and a hyperbolic tangent.

    tanh(softplus(x)) = tanh(log(1 + exp(x)))
becomes
    g / (g + 2), where g = e * (e + 2) and e = exp(minimum(x, 20))
Each rounding is of a sum or product of positive numbers, so that there are fewer of them and none is magnified. Beyond
20 the quotient is 1, also in float64.
"""

from __future__ import annotations

from cugen.spec.expressions import Const, Expr, Op
from cugen.spec.types import DType

_SATURATED = 20


def gate(expr: Expr) -> Expr | None:
    """The quotient that equals `expr`; None if that isn't tanh(softplus(x))."""
    match expr:
        case Op(name="tanh", args=(argument,), dtype=dtype) if (x := _softplus_argument(argument)) is not None:
            return _quotient(x, dtype)
    return None


def _quotient(x: Expr, dtype: DType) -> Expr:
    two = Const(2.0, dtype)
    e = Op("exp", (Op("minimum", (x, Const(float(_SATURATED), dtype)), dtype),), dtype)
    g = Op("mul", (e, Op("add", (e, two), dtype)), dtype)
    return Op("div", (g, Op("add", (g, two), dtype)), dtype)


def _softplus_argument(expr: Expr) -> Expr | None:
    """The x of log(1 + exp(x)), however that is spelt."""
    match expr:
        case Op(name="log", args=(Op(name="add", args=(Const(value=1), Op(name="exp", args=(x,)))),)):
            return x
        case Op(name="log", args=(Op(name="add", args=(Op(name="exp", args=(x,)), Const(value=1))),)):
            return x
        case Op(name="log1p", args=(Op(name="exp", args=(x,)),)):
            return x
        case Op(name="add", args=(Op(name="maximum") as linear, Op(name="log1p") as logarithm)):
            return _stable_argument(linear, logarithm)
        case Op(name="add", args=(Op(name="log1p") as logarithm, Op(name="maximum") as linear)):
            return _stable_argument(linear, logarithm)
    return None


def _stable_argument(linear: Op, logarithm: Op) -> Expr | None:
    """The x of maximum(x, 0) + log1p(exp(-abs(x)))."""
    match logarithm.args:
        case (Op(name="exp", args=(Op(name="neg", args=(Op(name="abs", args=(x,)),)),)),):
            zero = next((arg for arg in linear.args if isinstance(arg, Const) and arg.value == 0), None)
            return x if zero is not None and x in linear.args else None
    return None
