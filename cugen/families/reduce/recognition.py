"""Matches reductions that read each element for a single result, over as few fused dimensions as possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.pieces.vectors import divisor
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import FusedStatements, with_fused_dimensions
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Read, Reduce, free_indices, walk
from cugen.spec.model import Statement

IN_MEMORY = ("global", "readonly")  # where coalescing matters


@dataclass(frozen=True, slots=True)
class Stage:
    """Reductions over the same indices (fastest last), computed in one pass; `reads` depend on these indices.

    `extremes` pairs each max and min with the argmax or argmin of the stage that yields it as well."""

    indices: tuple[spec.Index, ...]
    reductions: tuple[Reduce, ...]
    reads: tuple[Read, ...]
    extremes: tuple[tuple[Reduce, Reduce], ...] = ()

    @property
    def fastest(self) -> spec.Index:
        return self.indices[-1]


@dataclass(frozen=True, slots=True)
class ReductionProblem:
    """A group's reductions over fused dimensions: the output indices (fastest first), and the stages in order of use.

    `column_index` is the output index along which the input is contiguous: then threads take columns. It is empty
    where the input is contiguous along each stage's fastest index: then threads share rows."""

    request: Request  # its statements hold the reductions of the stages
    unfused: tuple[Statement, ...]  # the statements before dimensions were fused
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[spec.Index, ...]]  # the indices that each fused one replaces
    output_indices: tuple[spec.Index, ...]
    stages: tuple[Stage, ...]
    column_index: str

    def extent(self, index: spec.Index) -> Integer:
        return to_integer(index.extent, self.request.context.symbols)

    def max_extent(self, index: spec.Index) -> int:
        return bounds(self.extent(index), dict(self.request.context.ranges))[1]


def match_reductions(request: Request) -> ReductionProblem | Refusal:
    """The reductions of the group's statements, or the reason against this family."""
    statements = request.group.statements
    try:
        if not collected(statements):
            return Refusal("needs a reduction; here is none")
    except NotInStages as error:
        return Refusal(str(error))
    refusal = _form_refusal(statements)
    if refusal is not None:
        return refusal
    unfused = with_common_indices(statements, request.context)
    return _by_orientation(request, unfused, with_fused_dimensions(unfused, request.context))


def _form_refusal(statements: tuple[Statement, ...]) -> Refusal | None:
    written = [statement.target for statement in statements]
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            return Refusal(f"subscripts outputs by indices alone; {statement.target} has an expression")
    for read in _reads_inside(statements):
        if read.array in written:
            return Refusal(f"{read.array} is read by the reduction and written by the same kernel")
    return None


def _reads_inside(statements: tuple[Statement, ...]) -> Iterator[Read]:
    for statement in statements:
        for reduction in (node for node in walk(statement.value) if isinstance(node, Reduce)):
            yield from (node for node in walk(reduction) if isinstance(node, Read))


def _by_orientation(
    request: Request, unfused: tuple[Statement, ...], fused: FusedStatements
) -> ReductionProblem | Refusal:
    """The stages with their indices in memory order, all along rows or all along columns."""
    output_indices = _fastest_first(fused)
    names = [index.name for index in output_indices]
    stages: list[Stage] = []
    columns: list[str] = []
    for reductions in collected(fused.statements):
        stage = _stage(request, fused, names, reductions)
        if isinstance(stage, Refusal):
            return stage
        stages.append(stage[0])
        columns.append(stage[1])
    if len(set(columns)) > 1:
        return Refusal("reduces either rows or columns in one launch; here are both")
    column_index = columns[0]
    if column_index:
        output_indices = tuple(sorted(output_indices, key=lambda index: index.name != column_index))
    group = replace(request.group, statements=fused.statements)
    return ReductionProblem(
        request=replace(request, group=group),
        unfused=unfused,
        arrays=fused.arrays,
        origins=fused.origins,
        output_indices=output_indices,
        stages=tuple(stages),
        column_index=column_index,
    )


def _stage(
    request: Request, fused: FusedStatements, output_names: list[str], reductions: tuple[Reduce, ...]
) -> tuple[Stage, str] | Refusal:
    """One stage, and the output index along which its input is contiguous, empty where that is a reduced index."""
    indices = reductions[0].indices
    reduced = {index.name for index in indices}
    names = {*reduced, *output_names}
    inside = {node: None for r in reductions for node in operand_nodes(r) if isinstance(node, Read)}
    moving = tuple(read for read in inside if free_indices(read) & reduced)
    for read in moving:
        if not _is_supported(read, reduced, indices, output_names, request):
            return Refusal(f"subscripts inputs by indices alone; {read.array} has an expression")
    if not moving:
        return Refusal("reduces array elements; here all values come from indices")
    largest = max(moving, key=lambda read: len(free_indices(read) & names))
    if not set(output_names) <= free_indices(largest):
        return Refusal("reads each element for one result; here several results share every element")
    strides = _strides(largest, fused, names, request)
    fastest = _smallest(strides, request)
    if fastest is None:
        return Refusal(f"the contiguous dimension of {largest.array} depends on params")
    rank = len(free_indices(largest) & names)
    for read in moving:
        if len(free_indices(read) & names) < rank or fused.arrays[read.array].space not in IN_MEMORY:
            continue
        if _smallest(_strides(read, fused, names, request), request) != fastest:
            return Refusal(f"consecutive {fastest} are not contiguous in {read.array}")
    order = tuple(sorted(indices, key=lambda index: _slowness(index, strides, fastest, request)))
    extremes = tuple((r, arg) for r in reductions if (arg := _arg_reduction(r, reductions)) is not None)
    computed = tuple(r for r in reductions if all(r != extreme for extreme, _ in extremes))
    return Stage(order, computed, moving, extremes), "" if fastest in reduced else fastest


def _arg_reduction(reduction: Reduce, candidates: tuple[Reduce, ...]) -> Reduce | None:
    """The argmax or argmin of the same values as a max or min."""
    same = (reduction.body, reduction.where, reduction.dtype)
    matches = (c for c in candidates if c.kind == f"arg{reduction.kind}" and (c.body, c.where, c.body.dtype) == same)
    return next(matches, None)


def operand_nodes(reduction: Reduce) -> Iterator[Expr]:
    """All nodes of the body and condition, except those of nested reductions."""
    open_: list[Expr] = list(spec.children(reduction))
    while open_:
        expr = open_.pop(0)
        if not isinstance(expr, Reduce):
            yield expr
            open_ += spec.children(expr)


def _is_supported(
    read: Read, reduced: set[str], indices: tuple[spec.Index, ...], output_names: list[str], request: Request
) -> bool:
    """Whether each reduced index is a subscript by itself, or the offset in a chunk: `part * chunk + i`."""
    if read.boundary is not None:
        return False
    symbols = {**request.context.symbols, **{name: symbol(name) for name in (*reduced, *output_names)}}
    for sub in read.subscripts:
        used = free_indices(sub) & reduced
        if not used or isinstance(sub, IndexValue):
            continue
        if len(used) != 1 or any(isinstance(node, Read) for node in walk(sub)):
            return False
        (name,) = used
        try:
            subscript = to_integer(sub, symbols)
        except NotAnInteger:
            return False
        start = (subscript - symbol(name)).expand()
        (index,) = (index for index in indices if index.name == name)
        extent = to_integer(index.extent, request.context.symbols)
        chunk_names = [output for output in output_names if symbol(output) in start.free_symbols]
        if symbol(name) in start.free_symbols or len(chunk_names) != 1:
            return False
        chunk = symbol(chunk_names[0])
        stride = start.coeff(chunk)
        if chunk in (start - stride * chunk).free_symbols or (stride - extent).expand() != 0:
            return False
    return True


def _strides(read: Read, fused: FusedStatements, names: set[str], request: Request) -> dict[str, Integer]:
    """The stride of a read along each index, in elements, where it is constant."""
    array = fused.arrays[read.array]
    symbols = {**request.context.symbols, **{name: symbol(name) for name in names}}
    strides: dict[str, Integer] = {}
    for sub, stride in zip(read.subscripts, array.strides, strict=True):
        for name in sorted(free_indices(sub) & names):
            try:
                subscript = to_integer(sub, symbols).expand()
            except NotAnInteger:
                continue
            step = subscript.coeff(symbol(name))
            if symbol(name) not in (subscript - step * symbol(name)).free_symbols:
                strides[name] = strides.get(name, integer(0)) + stride * step
    return strides


def _smallest(strides: Mapping[str, Integer], request: Request) -> str | None:
    """The index with the smallest stride; None where that depends on params."""
    contiguous = [name for name, stride in strides.items() if stride == 1]
    if contiguous:
        return contiguous[-1]
    known = {name: request.context.static(stride) for name, stride in strides.items()}
    fixed = {name: value for name, value in known.items() if value is not None}
    return min(fixed, key=lambda name: fixed[name]) if fixed and len(fixed) == len(strides) else None


def _slowness(index: spec.Index, strides: Mapping[str, Integer], fastest: str, request: Request) -> tuple[int, int]:
    """A sort key: large strides first, the fastest index last; indices without a constant stride in written order."""
    if index.name == fastest:
        return (1, 0)
    stride = strides.get(index.name)
    if stride is None:
        return (0, 0)
    return (0, -max(bounds(stride, dict(request.context.ranges))[1], divisor(stride, request.context)))


def _fastest_first(fused: FusedStatements) -> tuple[spec.Index, ...]:
    """The output's indices, the contiguous one first, then from right to left."""
    statement = fused.statements[0]
    target = fused.arrays[statement.target]
    order = list(reversed(statement.indices))
    for sub, stride in zip(statement.subscripts, target.strides, strict=True):
        if stride == 1 and isinstance(sub, IndexValue):
            order.sort(key=lambda index: index.name != sub.name)
    return tuple(order)
