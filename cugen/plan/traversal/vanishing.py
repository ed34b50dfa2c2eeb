"""Terms that are 0 where the array elements in them are 0."""

from __future__ import annotations

import math

from cugen.spec.expressions import Cast, Const, Expr, Op, Read


def vanishes(term: Expr) -> bool:
    """Whether a term is 0 where all array elements in it are 0, as in the padding of tiles."""
    match term:
        case Read():
            return True
        case Cast(arg=arg) | Op(name="neg" | "abs", args=(arg,)):
            return vanishes(arg)
        case Op(name="add" | "sub", args=args):
            return all(map(vanishes, args))
        case Op(name="mul", args=(a, b)):
            return (vanishes(a) and (vanishes(b) or _is_finite(b))) or (_is_finite(a) and vanishes(b))
        case Op(name="div", args=(a, Const(value=divisor))) if divisor != 0 and not math.isnan(divisor):
            return vanishes(a)
        case Op(name="pow", args=(base, Const(value=exponent))) if exponent > 0:
            return vanishes(base)
    return False


def _is_finite(term: Expr) -> bool:
    return isinstance(term, Const) and math.isfinite(term.value)
