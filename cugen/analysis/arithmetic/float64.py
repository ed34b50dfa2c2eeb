"""Arithmetic in float64 that no type of a spec asks for: what the rules of promotion make of integers and float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    ScalarValue,
    Scan,
    Select,
    children,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.types import FLOAT64, DType


@dataclass(frozen=True)
class Unrequested:
    """An expression in float64 that nothing asks for. `sources` are the operations in it that make float64 of other
    types; `operations` counts those in float64."""

    statement: Statement
    expr: Expr
    sources: tuple[Op | Select, ...]
    operations: int


class _Origin(Enum):
    """Where the float64 of an expression comes from."""

    NONE = "none"  # it isn't float64, or is converted to it
    REQUESTED = "requested"  # an array, a scalar, a `cast`, `accumulate`
    PROMOTED = "promoted"


def unrequested(spec: Spec) -> tuple[Unrequested, ...]:
    """The outermost expressions of all statements that are computed in float64 although neither an operand nor the
    target is declared so."""
    results: list[Unrequested] = []
    for statement in spec.statements:
        roots = chain(
            ((expr, False) for expr in statement.subscripts), [(statement.value, _is_wanted(statement, spec))]
        )
        for root, is_wanted in roots:
            for expr in _unrequested(root, is_wanted):
                operations = [node for node in walk(expr) if _is_computed(node)]
                sources = tuple(node for node in operations if isinstance(node, Op | Select) and _is_source(node))
                results.append(Unrequested(statement, expr, sources, len(operations)))
    return tuple(results)


def integer_operands(source: Op | Select) -> tuple[Expr, ...]:
    """The operands whose conversion to float32 makes float32 of the operation: all integers beside a float, else
    one."""
    strong = [arg for arg in map(_unconverted, _operands(source)) if not _is_weak(arg)]
    integers = [arg for arg in strong if not arg.dtype.is_float]
    return tuple(integers if len(integers) < len(strong) else integers[:1])


def operand_types(source: Op | Select) -> tuple[DType, ...]:
    """The types of the operands that aren't literals, params or indices."""
    types = (arg.dtype for arg in map(_unconverted, _operands(source)) if not _is_weak(arg))
    return tuple(dict.fromkeys(types))


def _is_wanted(statement: Statement, spec: Spec) -> bool:
    """Whether the result of a statement is to be float64, or is read for one that is."""
    target = next((array for array in spec.arrays if array.name == statement.target), None)
    if target is None or not target.is_temporary:
        return target is not None and target.dtype == FLOAT64
    position = spec.statements.index(statement)
    later = spec.statements[position + 1 :]
    return any(_is_wanted(reader, spec) for reader in later if _reads(reader, statement.target))


def _reads(statement: Statement, name: str) -> bool:
    return any(isinstance(node, Read) and node.array == name for node in walk(statement.value))


def _unrequested(expr: Expr, is_wanted: bool) -> Iterator[Expr]:
    """The outermost promoted expressions. `is_wanted`: the result is to be float64."""
    origin = _origin(expr)
    if origin is _Origin.PROMOTED and not is_wanted:
        yield expr
        return
    for child in children(expr):
        joins = origin is not _Origin.NONE and child.dtype == expr.dtype
        yield from _unrequested(child, joins)


def _origin(expr: Expr) -> _Origin:
    match expr:
        case Read(dtype=dtype) | ScalarValue(dtype=dtype):
            return _Origin.REQUESTED if dtype == FLOAT64 else _Origin.NONE
        case Cast(to=to, is_written=is_written):
            return _Origin.REQUESTED if is_written and to == FLOAT64 else _Origin.NONE
        case Reduce(body=body, dtype=dtype) | Scan(body=body, dtype=dtype) if dtype == FLOAT64:
            inner = _origin(body)
            return _Origin.REQUESTED if inner is _Origin.NONE else inner
        case Op() | Select() if _is_computed(expr):
            inner_origins = {_origin(arg) for arg in _operands(expr)}
            if _Origin.REQUESTED in inner_origins:
                return _Origin.REQUESTED
            if _Origin.PROMOTED in inner_origins or _is_source(expr):
                return _Origin.PROMOTED
            return _Origin.REQUESTED  # the accumulate type
    return _Origin.NONE


def _is_computed(expr: Expr) -> bool:
    """Whether an operation, or a comparison, is in float64."""
    return isinstance(expr, Op | Select) and any(arg.dtype == FLOAT64 for arg in _operands(expr))


def _is_source(expr: Expr) -> bool:
    """Whether an operation is in float64 although no operand is."""
    if not isinstance(expr, Op | Select) or not _is_computed(expr):
        return False
    strong = [arg for arg in map(_unconverted, _operands(expr)) if not _is_weak(arg)]
    return FLOAT64 not in {arg.dtype for arg in strong} and any(not arg.dtype.is_float for arg in strong)


def _operands(expr: Op | Select) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Op) else (expr.then, expr.orelse)


def _unconverted(expr: Expr) -> Expr:
    """An operand without the conversion that the operation asks for."""
    return expr.arg if isinstance(expr, Cast) and not expr.is_written else expr


def _is_weak(expr: Expr) -> bool:
    """Whether it is made of literals, params and indices alone, which take the other operand's type."""
    return all(isinstance(node, Const | IndexValue | ParamValue | Op | Cast) for node in walk(expr))
