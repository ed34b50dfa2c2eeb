"""Functions and divisions of float32 by the intrinsics that `fast_math` takes: larger errors of the device.

The errors are those of the CUDA C++ Programming Guide, "Intrinsic Functions", and of the PTX ISA for `sin.approx` and
`cos.approx`, which the guide bounds within pi only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cugen.reference.storage import Floats
from cugen.reference.tracked import Tracked
from cugen.spec.expressions import Const, Expr, Op
from cugen.spec.floats.powers import literal_power
from cugen.spec.model import Spec
from cugen.spec.rewriting import rebuild
from cugen.spec.types import FLOAT32

_ULP = 2.0**-23  # of a float32, relative, at most
_LARGE_DIVISOR = 2.0**126  # beyond it `__fdividef` gives 0


def _exp_error(x: Tracked, value: Floats) -> Floats:
    return (3 + 1.173 * (np.abs(x.value) + x.slack)) * _ULP * np.abs(value)


def _log_error(near_one: float, ulps: float) -> Callable[[Tracked, Floats], Floats]:
    def error(x: Tracked, value: Floats) -> Floats:
        is_near = (x.value + x.slack >= 0.5) & (x.value - x.slack <= 2)
        return np.where(is_near, near_one, 0.0) + ulps * _ULP * np.abs(value)

    return error


def _sine_error(x: Tracked, _: Floats) -> Floats:
    size = np.abs(x.value) + x.slack
    return np.where(size <= 2 * np.pi, 2.0**-20.5, np.where(size <= 100 * np.pi, 2.0**-14.7, 2.0))


def _tan_error(x: Tracked, value: Floats) -> Floats:
    """That of a quotient of sine and cosine."""
    error, cosine = _sine_error(x, value), np.abs(np.cos(x.value))
    quotient = error * (1 + np.abs(value)) / np.maximum(cosine - error, 0.0)
    return np.where(cosine <= error, np.inf, quotient + 2 * _ULP * np.abs(value))


def _quotient_error(operands: tuple[Tracked, ...], value: Floats) -> Floats:
    y = operands[-1]
    is_large = np.abs(y.value) + y.slack >= _LARGE_DIVISOR
    return np.where(is_large, np.abs(value), 2 * _ULP * np.abs(value))


def _power_error(operands: tuple[Tracked, ...], value: Floats) -> Floats:
    """That of the reciprocals which are the factors of a power with a negative exponent."""
    x, exponent = operands
    factors = np.floor(np.abs(np.minimum(exponent.value, 0.0)))
    return factors * _quotient_error((x,), value)


def _of_operand(error: Callable[[Tracked, Floats], Floats]) -> Callable[[tuple[Tracked, ...], Floats], Floats]:
    return lambda operands, value: error(operands[0], value)


# By operator: the error of its value, from its operands.
_ERRORS: dict[str, Callable[[tuple[Tracked, ...], Floats], Floats]] = {
    "exp": _of_operand(_exp_error),
    "log": _of_operand(_log_error(2.0**-21.41, 3)),
    "log2": _of_operand(_log_error(2.0**-22, 2)),
    "log10": _of_operand(_log_error(2.0**-24, 3)),
    "sin": _of_operand(_sine_error),
    "cos": _of_operand(_sine_error),
    "tan": _of_operand(_tan_error),
    "div": _quotient_error,
    "pow": _power_error,
}
_FAST = "fast "


def accurate_name(name: str) -> str:
    """The operator that a fast one approximates; empty for any other."""
    return name.removeprefix(_FAST) if name.startswith(_FAST) else ""


def with_error(name: str, args: tuple[Tracked, ...], result: Tracked) -> Tracked:
    """The result of the accurate operator `name`, with the error of the fast one added."""
    value = np.asarray(result.value, dtype=np.float64)
    with np.errstate(all="ignore"):
        error = np.where(np.isfinite(value), _ERRORS[name](args, value), 0.0)
    return Tracked(value, error if result.bound is None else result.bound + error)


def with_fast_operators(spec: Spec) -> Spec:
    """The spec with fast operators in the statements whose schedule has `fast_math`. Those without one of their own may
    be computed in the kernel of any other."""
    fast = {output: schedule.options.fast_math for output, schedule in spec.schedules}
    statements = (
        replace(statement, value=_renamed(statement.value))
        if fast.get(statement.target, any(fast.values()))
        else statement
        for statement in spec.statements
    )
    return replace(spec, statements=tuple(statements))


def _renamed(expr: Expr) -> Expr:
    expr = rebuild(expr, _renamed)
    if isinstance(expr, Op) and expr.name in _ERRORS and expr.args[0].dtype == FLOAT32 and not _is_accurate_power(expr):
        return replace(expr, name=_FAST + expr.name)
    return expr


def _is_accurate_power(op: Op) -> bool:
    """Whether it is a power that isn't computed from a reciprocal."""
    if op.name != "pow":
        return False
    exponent = op.args[1]
    power = literal_power(exponent.value) if isinstance(exponent, Const) else None
    return power is None or not (power.is_inverse and power.whole)
