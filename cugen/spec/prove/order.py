"""What depends on the order of statements: reads before writes, reads of a statement's own target, and roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Expr, IndexValue, Read, walk
from cugen.spec.model import Array, Param, Statement
from cugen.spec.prove.linear import linear_form, text_of

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
            if access.array == statement.target and not (
                _same(access.subscripts, statement.subscripts, params)
                or _apart(access.subscripts, statement.subscripts, params)
            ):
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


def _apart(a: Sequence[Expr], b: Sequence[Expr], params: Mapping[str, Param]) -> bool:
    """Whether two places are in different rows of an array, or the like, whatever the indices are."""
    forms = [(linear_form(x, params), linear_form(y, params)) for x, y in zip(a, b, strict=True)]
    return any(x.is_constant and y.is_constant and x.constant != y.constant for x, y in forms)


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


def _makes(statement: Statement, access: Read, arrays: Mapping[str, Array], params: Mapping[str, Param]) -> bool:
    """Whether a statement surely writes the element that is read: it runs along whole dimensions, or is in the row."""
    if statement.target != access.array or statement.accumulate:
        return False
    extents = {index.name: linear_form(index.extent, params) for index in statement.indices}
    for own, sub, size in zip(statement.subscripts, access.subscripts, arrays[access.array].shape, strict=True):
        if isinstance(own, IndexValue):
            if extents[own.name] != linear_form(size, params):
                return False
        else:
            form = linear_form(own, params)
            if not form.is_constant or form != linear_form(sub, params):
                return False
    return True


def with_roles(
    statements: Sequence[Statement], arrays: Mapping[str, Array], params: Mapping[str, Param]
) -> tuple[Array, ...]:
    """All arrays with their roles. What is read where its last write is still to come, or added to, comes from the
    caller as well, but for elements that an earlier statement made."""
    last = {statement.target: position for position, statement in enumerate(statements)}
    inout: dict[str, None] = {}
    for position, statement in enumerate(statements):
        if statement.accumulate:
            inout[statement.target] = None
        for access in reads_of(statement):
            made = any(_makes(earlier, access, arrays, params) for earlier in statements[:position])
            if last.get(access.array, -1) >= position and not made:
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
