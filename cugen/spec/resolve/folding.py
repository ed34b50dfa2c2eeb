"""Constant folding of literals: integers exactly, floats in double, so that `1 / 3` is rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

from cugen.spec.expressions import Const, Expr

# Intermediate integers may exceed every type, as in `2 ** 64 - 1`, up to this many bits; the range of the result is
# checked on conversion to its type.
_MAX_BITS = 400

_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "pow": lambda a, b: a**b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
}


def fold(name: str, a: Expr, b: Expr) -> int | float | None:
    """The value of a binary operator; None if an operand isn't a literal, or the value is undefined."""
    if not isinstance(a, Const) or not isinstance(b, Const):
        return None
    x, y = a.value, b.value
    if isinstance(x, int) and isinstance(y, int) and name in _FOLDS:
        return _integer(name, x, y)
    if name not in ("add", "sub", "mul", "div") or (name == "div" and y == 0):
        return None
    try:
        x, y = float(x), float(y)
        value = x / y if name == "div" else x + y if name == "add" else x - y if name == "sub" else x * y
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _integer(name: str, x: int, y: int) -> int | None:
    if name in ("pow", "shl", "shr"):
        if y < 0:
            return None
        # Saturates past the limit, to bound the time.
        bits = abs(x).bit_length()
        if name == "pow" and abs(x) > 1:
            y = min(y, _MAX_BITS // (bits - 1 or 1) + 1)
        elif name != "pow":
            y = min(y, _MAX_BITS + bits)
    limit: int = 2**_MAX_BITS
    return max(-limit, min(_FOLDS[name](x, y), limit))
