"""What depends on the order of statements: reads before writes, reads of a statement's own target, and roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Expr, Read, walk
from cugen.spec.linear import linear_form, text_of
from cugen.spec.model import Array, Param, Statement

_INTERNAL = ("register", "scratch", "shared")


def reads_of(statement: Statement) -> list[Read]:
    """Every read of the right side, gathers included."""
    return [part for part in walk(statement.value) if isinstance(part, Read)]


def check_order(
    statements: Sequence[Statement], arrays: Mapping[str, Array], params: Mapping[str, Param], report: Reporter
) -> None:
    """Report what the order of statements makes wrong, and arrays and temporaries that are of no use."""
    written: dict[str, int] = {}
    last: dict[str, int] = {}
    read: dict[str, None] = {}
    for position, statement in enumerate(statements):
        last[statement.target] = position
    for position, statement in enumerate(statements):
        for access in reads_of(statement):
            read[access.array] = None
            if access.array == statement.target and not _same(access.subscripts, statement.subscripts, params):
                _tell_moving_target(access, statement, report)
            elif _is_internal(arrays[access.array], last) and access.array not in written:
                _tell_too_early(access, report)
        if statement.accumulate and _is_internal(arrays[statement.target], last) and statement.target not in written:
            _tell_added_too_early(statement, report)
        written.setdefault(statement.target, position)
    for name, array in arrays.items():
        if name not in read and name not in written:
            report.error(
                "CG1312",
                f"no statement reads or writes `{name}`",
                array.span,
                key=f"arrays.{name}",
                label="untouched",
                help="remove it, or use it in `compute`",
            )
        elif name not in read and _is_internal(array, last):
            cure = f"read it, or declare `{name}` under `arrays` to make it an output"
            if not array.is_temporary:
                cure = "read it, or give it `memory: global` to make it an output"
            report.error("CG1311", f"nobody reads `{name}`", array.span, label="never read", help=cure)


def _same(a: Sequence[Expr], b: Sequence[Expr], params: Mapping[str, Param]) -> bool:
    return [linear_form(x, params) for x in a] == [linear_form(y, params) for y in b]


def _is_internal(array: Array, written: Mapping[str, int]) -> bool:
    """Whether an array lives only between statements: undeclared, or pinned to a place the caller can't see."""
    return array.is_temporary or (array.name in written and array.memory.space in _INTERNAL)


def _tell_moving_target(access: Read, statement: Statement, report: Reporter) -> None:
    report.error(
        "CG1309",
        f"`{text_of(access)}` reads elements of `{statement.target}` that this statement overwrites elsewhere",
        access.span,
        label="old or new value?",
        help="write another array, or use a scan such as `cumsum`",
    )


def _tell_too_early(access: Read, report: Reporter) -> None:
    report.error(
        "CG1310",
        f"`{access.array}` is read before it is written",
        access.span,
        label="has no value yet",
        help="move the statement that writes it up",
    )


def _tell_added_too_early(statement: Statement, report: Reporter) -> None:
    report.error(
        "CG1310",
        f"`{statement.target}` is added to before it is written",
        statement.span,
        label="has no value yet",
        help="write it with `=` first, or give it `memory: global`",
    )


def with_roles(statements: Sequence[Statement], arrays: Mapping[str, Array]) -> tuple[Array, ...]:
    """All arrays with their roles. What is read where its last write is still to come, or added to, comes from the
    caller as well."""
    last = {statement.target: position for position, statement in enumerate(statements)}
    inout: dict[str, None] = {}
    for position, statement in enumerate(statements):
        if statement.accumulate:
            inout[statement.target] = None
        for access in reads_of(statement):
            if last.get(access.array, -1) >= position:
                inout[access.array] = None
    result: list[Array] = []
    for name, array in arrays.items():
        if array.values is not None:
            role = "baked"
        elif _is_internal(array, last):
            role = "temporary"
        elif name in inout:
            role = "inout"
        else:
            role = "output" if name in last else "input"
        result.append(replace(array, role=role))
    return tuple(result)
