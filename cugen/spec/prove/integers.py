"""Evaluation of integer trees: shapes, extents, grid sizes and, with indices given, subscripts."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue

MAX_TERMS = 256  # of an integer tree that is multiplied out; products of sums have exponentially many


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


def term_count(expr: Expr) -> int:
    """Terms of an integer tree that is multiplied out. A quotient is one term; its larger operand counts, too."""
    if not isinstance(expr, Op):
        return 1
    counts = [term_count(arg) for arg in expr.args]
    match expr.name:
        case "add" | "sub":
            return sum(counts)
        case "mul":
            return prod(counts)
    return max(counts)


def is_too_large(expr: Expr) -> bool:
    """Whether a product of sums makes a tree too large to be multiplied out. Sums alone are as long as their text."""
    if not isinstance(expr, Op):
        return False
    return (expr.name == "mul" and term_count(expr) > MAX_TERMS) or any(map(is_too_large, expr.args))
