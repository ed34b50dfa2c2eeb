"""The part that most families share: a group's statements for one element of the output."""

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
    """Computes and stores what every statement of the group yields at the thread's element.

    A result that a later statement of the group reads is kept in a local, rounded to the array's element type."""
    statements = request.group.statements
    lowering.prepare(tuple(s.value for s in statements))
    for position, statement in enumerate(statements):
        value = lowering.lower(statement.value, scope)
        declared = request.context.spec.array(statement.target)
        stored = declared.role != "temporary" or statement.target in request.stored
        own = Read(statement.target, statement.subscripts, declared.dtype.compute)
        read_later = any(_mentions(later, statement) for later in statements[position + 1 :])
        if statement.accumulate:
            value = Op("add", (_old(statement, own, lowering, scope), value), own.dtype)
        scope.forget(statement.target)
        if read_later or not stored:
            rounded: Expr = value if declared.dtype == value.dtype else Cast(value, declared.dtype)
            if not isinstance(rounded, Local):
                local = Local(_local_name(statement, lowering, stored), own.dtype)
                scope.nodes.append(Let(local, rounded))
                rounded = local
            for read in _own_reads(statements[position + 1 :], statement):
                scope.remember(read, rounded)
            value = rounded
        if stored:
            access = Access(lowering.arrays[statement.target], _subscripts(statement, lowering), "store")
            scope.nodes.append(Store(access, value))


def _local_name(statement: Statement, lowering: Lowering, stored: bool) -> str:
    """A temporary that lives in a register goes by its own name."""
    if not stored:
        return lowering.arrays[statement.target].symbol
    return lowering.names.allocate(f"{statement.target.lower()}_value")


def _old(statement: Statement, own: Read, lowering: Lowering, scope: Scope) -> Expr:
    known = scope.recall(own)
    if known is not None:
        return known
    local = Local(lowering.names.allocate(f"{statement.target.lower()}_old"), own.dtype)
    access = Access(lowering.arrays[statement.target], _subscripts(statement, lowering), "load")
    scope.nodes.append(Load(local, access))
    return local


def _subscripts(statement: Statement, lowering: Lowering) -> tuple[Integer, ...]:
    return tuple(to_integer(sub, lowering.symbols) for sub in statement.subscripts)


def _own_reads(later: tuple[Statement, ...], statement: Statement) -> list[Read]:
    return [
        node
        for s in later
        for node in walk(s.value)
        if isinstance(node, Read) and node.array == statement.target and node.subscripts == statement.subscripts
    ]


def _mentions(later: Statement, statement: Statement) -> bool:
    same_element = later.target == statement.target and later.subscripts == statement.subscripts
    return bool(_own_reads((later,), statement)) or (later.accumulate and same_element)
