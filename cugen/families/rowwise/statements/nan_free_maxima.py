"""Maxima that needn't look for NaN, since the sum of exponentials under them finds it.

`exp(x - max(x)) / sum(exp(x - max(x)))` is NaN all along a row that holds one, whatever its maximum is said to be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from cugen.families.rowwise.statements.recognition import RowWork
from cugen.plan.substitution import rebuilt
from cugen.spec.expressions import Cast, Expr, Op, Reduce, walk

# Operators whose result is NaN where any operand is.
_STRICT = ("add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt")


def with_peaks(work: RowWork) -> RowWork:
    """The same work, with `peak` in place of `max` wherever nobody could tell the difference."""
    values = [output.value for output in work.outputs]
    maxima = {node: None for value in values for node in walk(value) if isinstance(node, Reduce) and node.kind == "max"}
    peaks = frozenset(node for node in maxima if _is_found_by_sums(node, values))
    if not peaks:
        return work
    outputs = tuple(replace(output, value=_replaced(output.value, peaks)) for output in work.outputs)
    names = {_replaced(value, peaks): name for value, name in work.names.items()}
    return replace(work, outputs=outputs, names=names)


def exponentials(total: Expr) -> Reduce | None:
    """The maximum under which a sum of exponentials is taken: the largest of its terms is 1, and none is more."""
    match total:
        case Reduce(kind="sum", where=None, body=Op(name="exp", args=(Op(name="sub", args=(body, Reduce() as peak)),))):
            alike = peak.kind in ("max", "peak") and peak.where is None and peak.body == body
            return peak if alike and peak.dtype.is_float else None
    return None


def _is_found_by_sums(most: Reduce, values: list[Expr]) -> bool:
    users = [value for value in values if any(node == most for node in walk(value))]
    return all(any(exponentials(part) == most for part in _strict_parts(value)) for value in users)


def _strict_parts(expr: Expr) -> Iterator[Expr]:
    """The parts of which no one can be NaN unless the whole is."""
    yield expr
    match expr:
        case Op(name=name, args=args) if name in _STRICT:
            for arg in args:
                yield from _strict_parts(arg)
        case Cast(arg=arg, to=to) if arg.dtype.is_float and to.is_float:
            yield from _strict_parts(arg)


def _replaced(expr: Expr, peaks: Collection[Expr]) -> Expr:
    changed = rebuilt(expr, lambda part: _replaced(part, peaks))
    return replace(changed, kind="peak") if isinstance(changed, Reduce) and expr in peaks else changed
