"""Maxima that need not propagate NaN, since the sum of exponentials under them does.

`exp(x - max(x)) / sum(exp(x - max(x)))` is NaN along a whole row that contains one, also where the maximum ignores
NaN. `fmaxf` is one instruction, a maximum that propagates NaN several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.spec.expressions import Cast, Expr, Op, Reduce, walk
from cugen.spec.rewriting import rebuild

NAN_FREE_MAXIMUM = "peak"  # the kind of reduction: the maximum of the elements that aren't NaN
MAXIMA = ("max", NAN_FREE_MAXIMUM)

# Operators whose result is NaN where any operand is.
_NAN_PROPAGATING = ("add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt")


def with_nan_free_maxima(problem: RowProblem) -> RowProblem:
    """The same problem, with maxima that ignore NaN wherever no output changes."""
    values = [output.value for output in problem.outputs]
    maxima = {node: None for value in values for node in walk(value) if isinstance(node, Reduce) and node.kind == "max"}
    replaceable = [node for node in maxima if _sums_propagate_nan(node, values)]
    if not replaceable:
        return problem

    def changed(expr: Expr) -> Expr:
        result = rebuild(expr, changed)
        return replace(result, kind=NAN_FREE_MAXIMUM) if isinstance(result, Reduce) and expr in replaceable else result

    outputs = tuple(replace(output, value=changed(output.value)) for output in problem.outputs)
    return replace(problem, outputs=outputs, names={changed(value): name for value, name in problem.names.items()})


def subtracted_maximum(total: Expr) -> Reduce | None:
    """The maximum m of a sum of exp(x - m): the largest term of the sum is 1."""
    match total:
        case Reduce(
            kind="sum", where=None, body=Op(name="exp", args=(Op(name="sub", args=(body, Reduce() as maximum)),))
        ):
            is_maximum = maximum.kind in MAXIMA and maximum.where is None and maximum.body == body
            return maximum if is_maximum and maximum.dtype.is_float else None
    return None


def _sums_propagate_nan(maximum: Reduce, values: list[Expr]) -> bool:
    users = [value for value in values if any(node == maximum for node in walk(value))]
    return all(any(subtracted_maximum(part) == maximum for part in _propagating_parts(value)) for value in users)


def _propagating_parts(expr: Expr) -> Iterator[Expr]:
    """The subexpressions whose NaN makes the whole NaN."""
    yield expr
    match expr:
        case Op(name=name, args=args) if name in _NAN_PROPAGATING:
            for arg in args:
                yield from _propagating_parts(arg)
        case Cast(arg=arg, to=to) if arg.dtype.is_float and to.is_float:
            yield from _propagating_parts(arg)
