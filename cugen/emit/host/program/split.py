"""Whether a kernel can run on some rows of its arrays at a time, so that copies and kernels overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm

from cugen.abi.manifest import ArrayArgument, Manifest
from cugen.emit.host.program.codes import NOT_SPLIT
from cugen.spec.diagnostics import Reporter, SpecError
from cugen.spec.expressions import NOWHERE, Expr, IndexValue, ParamValue, Read, Span, bound_indices, children, walk
from cugen.spec.model import Array, Param, Spec, Statement
from cugen.spec.types import DTYPES

PARTS = 32  # at most
_TEXTURE_ALIGNMENT = 512  # bytes, of the memory of a texture


@dataclass(frozen=True, slots=True)
class Split:
    """The kernel runs on rows of `arrays`, of which the param `rows` is the number; a part begins at a multiple of
    `multiple` rows."""

    rows: str
    arrays: frozenset[str]
    multiple: int


class _NotSplit(Exception):
    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.span = span


def make_split(spec: Spec, manifest: Manifest, params: Mapping[str, int]) -> Split:
    """How the work is split, with these values of all params. SpecError (CG2402) where it can't be, with a reason for
    each dynamic param."""
    report = Reporter(spec.path, spec.text)
    candidates = [param for param in spec.params if param.is_dynamic]
    for param in candidates:
        try:
            arrays = _split_arrays(spec, param)
            split = Split(param.name, arrays, _multiple(param, arrays, manifest))
            _check_last_part(split, params[param.name], param, spec)
        except _NotSplit as why:
            message = f"the work can't be split along `{param.name}`: {why}"
            report.error(NOT_SPLIT, message, why.span, help="`--emit main` writes a program without parts")
        else:
            return split
    if not candidates:
        report.error(
            NOT_SPLIT,
            "no size is left to the launch, so that the kernel can't run on a part of its arrays",
            spec.statements[0].span,
            help="make the number of rows dynamic, such as `params: {M: {range: [1, 65536], default: 4096}}`",
        )
    raise SpecError(report.diagnostics)


def _split_arrays(spec: Spec, param: Param) -> frozenset[str]:
    """The arrays whose rows the param counts; _NotSplit where the rows can't be computed by themselves."""
    split = {array.name for array in spec.arrays if array.shape and _is_param(array.shape[0], param)}
    for array in spec.arrays:
        _check_array(array, param, array.name in split)
    for statement in spec.statements:
        _check_statement(statement, param, split)
    for array in spec.arrays:
        if array.role in ("output", "inout") and array.name not in split:
            raise _NotSplit(f"`{array.name}` is written, and has no row for each", array.span)
    copied = [array for array in spec.arrays if array.name in split and array.memory.allocation == "device"]
    for roles, direction in ((("input", "inout"), "in"), (("output", "inout"), "out")):
        if not any(array.role in roles for array in copied):
            raise _NotSplit(f"no rows are copied {direction}", spec.statements[0].span)
    return frozenset(split)


def _check_array(array: Array, param: Param, is_split: bool) -> None:
    others = array.shape[1:] if is_split else array.shape
    if any(_mentions(extent, param) for extent in others):
        raise _NotSplit(f"`{array.name}` has it as an extent other than its first", array.span)
    if any(_mentions(stride, param) for stride in array.strides):
        raise _NotSplit(f"the rows of `{array.name}` aren't contiguous", array.span)


def _check_statement(statement: Statement, param: Param, split: set[str]) -> None:
    if statement.target not in split:
        if any(isinstance(n, Read) and n.array in split for n in walk(statement.value)):
            raise _NotSplit(f"`{statement.target}` depends on all rows", statement.span)
        return
    (row, *others) = statement.subscripts
    if not isinstance(row, IndexValue):
        raise _NotSplit(f"a row of `{statement.target}` has a number of its own", statement.span)
    if any(_mentions(index.extent, param) for index in bound_indices(statement.value)):
        raise _NotSplit("all rows are reduced", statement.span)
    for expr in (*others, statement.value):
        if (found := next(_uses(expr, row.name, param, split), None)) is not None:
            reason, span = found
            raise _NotSplit(reason, span if span.line else statement.span)


def _uses(expr: Expr, row: str, param: Param, split: set[str]) -> Iterator[tuple[str, Span]]:
    """Uses of the row's number, of the number of rows, and of other rows."""
    match expr:
        case IndexValue(name=name) if name == row:
            yield f"the value depends on the number of the row, `{row}`", NOWHERE
        case ParamValue(name=name) if name == param.name:
            yield "the value depends on the number of rows", NOWHERE
        case Read(array=name, subscripts=subscripts) if name in split:
            if subscripts[0] != IndexValue(row):
                yield f"`{name}` is read in other rows, too", expr.span
            for subscript in subscripts[1:]:
                yield from _uses(subscript, row, param, split)
        case _:
            for child in children(expr):
                yield from _uses(child, row, param, split)


def _check_last_part(split: Split, rows: int, param: Param, spec: Spec) -> None:
    """Of `rows` rows; the program divides as this does."""
    if rows == 0:
        raise _NotSplit("the default has no rows", param.span)
    part_rows = (rows // PARTS // split.multiple + 1) * split.multiple
    if (last := (rows - 1) % part_rows + 1) < param.minimum:
        raise _NotSplit(
            f"the last of the parts would have {last} rows, and the kernel takes {param.allowed}", param.span
        )


def _multiple(param: Param, arrays: frozenset[str], manifest: Manifest) -> int:
    """Rows whose bytes are a multiple of each array's alignment, and that the kernel allows."""
    multiple = param.multiple_of
    textures = {argument.name for argument in manifest.texture_arguments()}
    for argument in manifest.arguments:
        if isinstance(argument, ArrayArgument) and argument.name in arrays:
            row = argument.strides[0] if isinstance(argument.strides[0], int) else 1
            alignment = max(argument.alignment, _TEXTURE_ALIGNMENT if argument.name in textures else 1)
            multiple = lcm(multiple, alignment // gcd(alignment, row * DTYPES[argument.dtype].bytes))
    return multiple


def _is_param(expr: Expr, param: Param) -> bool:
    return isinstance(expr, ParamValue) and expr.name == param.name


def _mentions(expr: Expr, param: Param) -> bool:
    return any(_is_param(node, param) for node in walk(expr))
