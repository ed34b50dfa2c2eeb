"""Lowers a group's statements for one element of the output; shared by most families."""

from __future__ import annotations

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access
from cugen.plan.nodes import Let, Load, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Cast, Expr, Local, Op, Read, walk
from cugen.spec.model import Statement


def lower_statements(request: Request, lowering: Lowering, scope: Scope) -> None:
    """Computes and stores every statement's value at the thread's element.

    A result that a later statement reads is kept in a local, rounded to the array's element type."""
    statements = request.group.statements
    lowering.prepare(tuple(s.value for s in statements))
    for position, statement in enumerate(statements):
        value = lowering.lower(statement.value, scope)
        declared = request.context.spec.array(statement.target)
        stored = declared.role != "temporary" or statement.target in request.stored
        target = Read(statement.target, statement.subscripts, declared.dtype.compute)
        read_later = any(_mentions(later, statement) for later in statements[position + 1 :])
        if statement.accumulate:
            value = Op("add", (_old_value(statement, target, lowering, scope), value), target.dtype)
        scope.forget(statement.target)
        if read_later or not stored:
            rounded: Expr = value if declared.dtype == value.dtype else Cast(value, declared.dtype)
            if not isinstance(rounded, Local):
                local = Local(_local_name(statement, lowering, stored), target.dtype)
                scope.nodes.append(Let(local, rounded))
                rounded = local
            for read in _reads_of(statements[position + 1 :], statement):
                scope.remember(read, rounded)
            value = rounded
        if stored:
            access = Access(lowering.arrays[statement.target], _subscripts(statement, lowering), "store")
            scope.nodes.append(Store(access, value))


def _local_name(statement: Statement, lowering: Lowering, stored: bool) -> str:
    """A temporary in a register keeps its name from the spec."""
    if not stored:
        return lowering.arrays[statement.target].symbol
    return lowering.names.allocate(f"{statement.target.lower()}_value")


def _old_value(statement: Statement, target: Read, lowering: Lowering, scope: Scope) -> Expr:
    known = scope.recall(target)
    if known is not None:
        return known
    local = Local(lowering.names.allocate(f"{statement.target.lower()}_old"), target.dtype)
    access = Access(lowering.arrays[statement.target], _subscripts(statement, lowering), "load")
    scope.nodes.append(Load(local, access))
    return local


def _subscripts(statement: Statement, lowering: Lowering) -> tuple[Integer, ...]:
    return tuple(to_integer(sub, lowering.symbols) for sub in statement.subscripts)


def _reads_of(later: tuple[Statement, ...], statement: Statement) -> list[Read]:
    return [
        node
        for s in later
        for node in walk(s.value)
        if isinstance(node, Read) and node.array == statement.target and node.subscripts == statement.subscripts
    ]


def _mentions(later: Statement, statement: Statement) -> bool:
    same_element = later.target == statement.target and later.subscripts == statement.subscripts
    return bool(_reads_of((later,), statement)) or (later.accumulate and same_element)
