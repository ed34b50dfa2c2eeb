"""Lowers a group's statements for one element of the output; shared by most families."""

from __future__ import annotations

from cugen.pieces.sections import guarded_nodes
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Let, Load, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import Integer, integer
from cugen.rewrite.fresh_names import fresh
from cugen.spec.expressions import Expr, Index, IndexValue, Local, Op, Read, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import converted
from cugen.spec.types import DType


def lower_statements(request: Request, lowering: Lowering, scope: Scope) -> None:
    """Computes and stores every statement's value at the thread's element.

    A result that a later statement reads is kept in a local, rounded to the array's element type; none reads those of
    partial statements."""
    statements = request.group.statements
    lowering.prepare(tuple(s.value for s in statements))
    for position, statement in enumerate(statements):
        if statement.is_partial:
            _lower_partial(statement, lowering, scope)
            continue
        value = lowering.lower(statement.value, scope)
        declared = request.context.spec.array(statement.target)
        stored = request.is_stored(statement)
        target = Read(statement.target, statement.subscripts, declared.dtype.compute)
        element, later = (statement.target, statement.subscripts), statements[position + 1 :]
        reads = (node for s in later for node in walk(s.value) if isinstance(node, Read))
        later_reads = [read for read in reads if (read.array, read.subscripts) == element]
        is_accumulated = any(s.accumulate and (s.target, s.subscripts) == element for s in later)
        if statement.accumulate:
            value = Op("add", (_old_value(statement, target, lowering, scope), value), target.dtype)
        scope.forget(statement.target, statement.subscripts)
        if later_reads or is_accumulated or not stored:
            rounded = converted(value, declared.dtype)
            if not isinstance(rounded, Local):
                # A temporary in a register keeps its name from the spec.
                temporary = "" if stored else lowering.arrays[statement.target].symbol
                local = Local(temporary or lowering.names.allocate(f"{statement.target.lower()}_value"), target.dtype)
                scope.nodes.append(Let(local, rounded))
                rounded = local
            for read in later_reads:
                scope.remember(read, rounded)
            value = rounded
        if stored:
            scope.nodes.append(Store(_access(statement, lowering, "store"), value))


def read_of_sum(
    rows: Index, columns: Index, extents: tuple[Integer, Integer], dtype: DType, lowering: Lowering
) -> Read:
    """A read of an array of rows and columns that stands for a sum in registers: statements of it are elementwise."""
    name = fresh("accumulated", set(lowering.arrays))
    array = Array(name, lowering.names.allocate("accumulated"), dtype, extents, (extents[1], integer(1)), "register")
    lowering.arrays = {**lowering.arrays, name: array}
    return Read(name, (IndexValue(rows.name), IndexValue(columns.name)), dtype)


def _lower_partial(statement: Statement, lowering: Lowering, scope: Scope) -> None:
    """Computes and stores the value of a statement, which no other reads, where its target has the element."""
    access = _access(statement, lowering, "store")
    inner = Scope(scope, certain=False)
    value = lowering.lower(statement.value, inner)
    if statement.accumulate:
        target = Read(statement.target, statement.subscripts, access.array.dtype.compute)
        value = Op("add", (_old_value(statement, target, lowering, inner), value), target.dtype)
    inner.nodes.append(Store(access, value))
    scope.nodes += guarded_nodes(lowering.inside(access.subscripts, access.array.shape), inner.nodes)
    scope.forget(statement.target, statement.subscripts)


def _old_value(statement: Statement, target: Read, lowering: Lowering, scope: Scope) -> Expr:
    if (known := scope.recall(target)) is not None:
        return known
    local = Local(lowering.names.allocate(f"{statement.target.lower()}_old"), target.dtype)
    scope.nodes.append(Load(local, _access(statement, lowering, "load")))
    return local


def _access(statement: Statement, lowering: Lowering, kind: str) -> Access:
    return access_of(lowering.arrays[statement.target], statement, lowering.symbols, kind)
