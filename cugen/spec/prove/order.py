"""Data flow between statements: uses before definition, reads of a statement's own target, and array roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Expr, IndexValue, Read, Sample, walk
from cugen.spec.model import Array, Param, Statement
from cugen.spec.prove.affine import affine_form, text_of

_INTERNAL_SPACES = ("register", "scratch", "shared")


def reads_of(statement: Statement) -> list[Read]:
    """All reads of the right side, including those in subscripts of gathers."""
    return [part for part in walk(statement.value) if isinstance(part, Read)]


def check_order(
    statements: Sequence[Statement], arrays: Mapping[str, Array], params: Mapping[str, Param], report: Reporter
) -> None:
    """Reports uses before definition, reads of elements that the statement overwrites, and unused arrays."""
    written: dict[str, int] = {}
    last: dict[str, int] = {}
    read: dict[str, None] = {}
    for position, statement in enumerate(statements):
        last[statement.target] = position
    for position, statement in enumerate(statements):
        for access in reads_of(statement):
            read[access.array] = None
            if access.array == statement.target and not (
                _is_same_element(access.subscripts, statement.subscripts, params)
                or _are_disjoint(access.subscripts, statement.subscripts, params)
            ):
                _report_overwritten_read(access, statement, report)
            elif _is_internal(arrays[access.array], last) and access.array not in written:
                _report_early_read(access, report)
        read.update({part.array: None for part in walk(statement.value) if isinstance(part, Sample)})
        if statement.accumulate and _is_internal(arrays[statement.target], last) and statement.target not in written:
            _report_early_accumulation(statement, report)
        written.setdefault(statement.target, position)
    for name, array in arrays.items():
        if name not in read and name not in written:
            report.error(
                "CG1312",
                f"no statement reads or writes `{name}`",
                array.span,
                key=f"arrays.{name}",
                label="unused",
                help="remove it, or use it in `compute`",
            )
        elif name not in read and _is_internal(array, last):
            help = f"read it, or declare `{name}` under `arrays` to make it an output"
            if not array.is_temporary:
                help = "read it, or give it `memory: global` to make it an output"
            report.error("CG1311", f"`{name}` is never read", array.span, label="never read", help=help)
        elif name not in written and array.values is None and array.memory.space == "scratch":
            report.error(
                "CG2010",
                f"`{name}` is in scratch memory, and no statement writes it",
                array.memory.span,
                key=f"arrays.{name}.memory",
                label="of the launcher: the caller can't fill it",
                help="remove `memory`: an input is in global memory, or write it in `compute`",
            )


def _is_same_element(a: Sequence[Expr], b: Sequence[Expr], params: Mapping[str, Param]) -> bool:
    return [affine_form(x, params) for x in a] == [affine_form(y, params) for y in b]


def _are_disjoint(a: Sequence[Expr], b: Sequence[Expr], params: Mapping[str, Param]) -> bool:
    """Whether two accesses are disjoint for all index values: they differ in a constant subscript."""
    forms = [(affine_form(x, params), affine_form(y, params)) for x, y in zip(a, b, strict=True)]
    return any(x.is_constant and y.is_constant and x.constant != y.constant for x, y in forms)


def _is_internal(array: Array, written: Mapping[str, int]) -> bool:
    """Whether an array is internal to the kernel: undeclared, or written in a memory space the caller can't access."""
    return array.is_temporary or (array.name in written and array.memory.space in _INTERNAL_SPACES)


def _report_overwritten_read(access: Read, statement: Statement, report: Reporter) -> None:
    report.error(
        "CG1309",
        f"`{text_of(access)}` reads elements of `{statement.target}` that this statement overwrites",
        access.span,
        label="old or new value?",
        help="write another array, or use a scan such as `cumsum`",
    )


def _report_early_read(access: Read, report: Reporter) -> None:
    report.error(
        "CG1310",
        f"`{access.array}` is read before it is written",
        access.span,
        label="has no value yet",
        help="move the statement that writes it up",
    )


def _report_early_accumulation(statement: Statement, report: Reporter) -> None:
    report.error(
        "CG1310",
        f"`{statement.target}` is added to before it is written",
        statement.span,
        label="has no value yet",
        help="write it with `=` first, or give it `memory: global`",
    )


def _defines(statement: Statement, access: Read, arrays: Mapping[str, Array], params: Mapping[str, Param]) -> bool:
    """Whether a statement certainly writes the element that is read: per dimension, by a full index range or the same
    constant."""
    if statement.target != access.array or statement.accumulate:
        return False
    extents = {index.name: affine_form(index.extent, params) for index in statement.indices}
    for written, read, size in zip(statement.subscripts, access.subscripts, arrays[access.array].shape, strict=True):
        if isinstance(written, IndexValue):
            if extents[written.name] != affine_form(size, params):
                return False
        else:
            form = affine_form(written, params)
            if not form.is_constant or form != affine_form(read, params):
                return False
    return True


def with_roles(
    statements: Sequence[Statement], arrays: Mapping[str, Array], params: Mapping[str, Param]
) -> tuple[Array, ...]:
    """All arrays with their roles. An array that is read before its last write, or added to, is inout, unless an
    earlier statement defines the elements that are read."""
    last = {statement.target: position for position, statement in enumerate(statements)}
    inout: dict[str, None] = {}
    for position, statement in enumerate(statements):
        if statement.accumulate:
            inout[statement.target] = None
        for access in reads_of(statement):
            is_defined = any(_defines(earlier, access, arrays, params) for earlier in statements[:position])
            if last.get(access.array, -1) >= position and not is_defined:
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
