"""Evaluation of integer trees: shapes, extents, grid sizes and, with indices given, subscripts."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of an integer tree; `values` maps params and indices to theirs. KeyError for a name that is missing.

    Division has floor semantics and yields 0 for a zero divisor. TypeError for another kind of tree."""
    match expr:
        case Const(value=value):
            return int(value)
        case IndexValue(name=name) | ParamValue(name=name):
            return values[name]
        case Op(name=name, args=args):
            operands = [evaluate(arg, values) for arg in args]
            match name, operands:
                case "add", [a, b]:
                    return a + b
                case "sub", [a, b]:
                    return a - b
                case "mul", [a, b]:
                    return a * b
                case "neg", [a]:
                    return -a
                case "floordiv", [a, b]:
                    return a // b if b else 0
                case "mod", [a, b]:
                    return a % b if b else 0
    raise TypeError(f"not an integer tree: {expr!r}")
