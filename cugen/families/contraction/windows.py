"""Contractions whose operand is read at computed subscripts, as a convolution reads its input.

    y[n, h, w, o] = sum(x[n, h + r - 1, w + s - 1, c] * f[o, r, s, c], r, s, c)
becomes, with the indices fused that all other arrays hold densely,
    y[nhw, o] = sum(x[nhw // (H * W), nhw // W % H + rsc // (S * C) - 1, nhw % W + rsc // C % S - 1, rsc % C]
                    * f[o, rsc], rsc)
A family that computes these subscripts while it copies a tile needs no unfolded array (implicit im2col).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.families.contraction.digits import with_digits
from cugen.pieces.kernels import new_lowering
from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.vectors import widest_at
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fresh_names import taken_names
from cugen.rewrite.fuse_dimensions import (
    FusedStatements,
    delinearised,
    fused,
    joined_name,
    squeezed,
    subscripted,
    without_unit_dimensions,
)
from cugen.spec.expressions import (
    Expr,
    Index,
    IndexValue,
    Local,
    Read,
    Reduce,
    free_indices,
    uses_indices,
    walk,
)
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced


@dataclass(frozen=True, slots=True)
class Window:
    """A read over the indices that M or N and K were fused from. `parts` has, for each fused index, these indices,
    slowest first, with their values."""

    read: Read
    parts: Mapping[str, tuple[tuple[Index, Expr], ...]]

    @property
    def linear(self) -> Read:
        """The read over the fused indices."""
        values: dict[Expr, Expr] = {IndexValue(i.name): value for parts in self.parts.values() for i, value in parts}
        return replace(self.read, subscripts=tuple(replaced(sub, values.get) for sub in self.read.subscripts))

    @property
    def indices(self) -> int:
        """Indices that are computed from those which they are fused into."""
        return sum(len(parts) for parts in self.parts.values() if len(parts) > 1)

    def is_contiguous_along(self, name: str, array: Array) -> bool:
        """Whether a fused index alone decides where along the array's contiguous dimension an element is."""
        if 1 not in array.strides:
            return False
        names = free_indices(self.read.subscripts[array.strides.index(1)])
        return bool(names) and names <= {index.name for index, _ in self.parts[name]}

    def copy_width(self, array: Array, along: str, context: Context) -> int:
        """Elements, consecutive in the array and along a fused index, that are aligned, and inside or outside
        together."""
        index, _ = self.parts[along][-1]
        if 1 not in array.strides:
            return 1
        width = widest_at(array, self.read.subscripts, index.name, context).count
        extents = (context.extent(index), array.shape[array.strides.index(1)])
        return math.gcd(width, *(divisor(extent, context) for extent in extents))


@lru_cache(maxsize=16)
def with_linear_windows(request: Request) -> tuple[Request, Mapping[Read, Window]] | Refusal | None:
    """The request with indices fused and its window over them, by its linear read; None where it has none, and a
    refusal where it has several."""
    statements = with_common_indices(request.group.statements, request.context)
    try:
        reductions = [node for stage in collected(statements) for node in stage]
    except NotInStages:
        return None
    if len({node.indices for node in reductions}) != 1:
        return None
    current = without_unit_dimensions(FusedStatements(statements, request.context.arrays), request.context)
    operands = {read for statement in current.statements for read in _operands(statement)}
    reads = {read for read in operands if _is_window(read)}
    if len(reads) > 1:
        names = ", ".join(sorted({read.array for read in reads}))
        return Refusal(f"takes one operand at computed subscripts or with a boundary, not {len(reads)}: {names}")
    if not reads:
        return None
    (read,) = reads
    hidden = Local(f"window {read.array}", read.dtype)
    without = tuple(_with(statement, read, hidden) for statement in current.statements)
    others = _indices_of(read.array, without)
    plain = replace(current, statements=without)
    plain = plain if others else squeezed(plain, request.context)
    fixed = others | _batch(current.statements[0], read, operands - reads)
    result = fused(plain, request.context, joined_name, fixed=fixed)
    window = _window(result, read, request.context)
    changed = request.with_statements(tuple(_with(s, hidden, window.linear) for s in result.statements))
    return replace(changed, context=replace(request.context, arrays=result.arrays)), {window.linear: window}


def window_refusal(request: Request, read: Read, window: Window, conditions: tuple[Expr, ...]) -> Refusal | None:
    """Why the subscripts of a window can't be computed while it is copied. All threads load tiles, also those whose sum
    is masked, or in a branch that isn't taken, by `conditions`."""
    lowering = new_lowering(request)
    parts = [index for indices in window.parts.values() for index, _ in indices]
    symbols = dict(lowering.symbols)
    symbols |= {i.name: loop_variable(i.name, request.context.extent(i), lowering).symbol for i in parts}
    try:
        subscripts = tuple(to_integer(sub, symbols) for sub in window.read.subscripts)
    except NotAnInteger:
        return Refusal(f"takes integer subscripts; those of {read.array} are not")
    is_inside = not lowering.inside(subscripts, request.context.arrays[read.array].shape).terms
    if read.boundary is None and not is_inside and any(map(uses_indices, conditions)):
        return Refusal(f"loads tiles unconditionally; {read.array} is in bounds only under a condition")
    return None


def _operands(statement: Statement) -> Iterator[Read]:
    """The reads in terms of reductions."""
    for node in walk(statement.value):
        if isinstance(node, Reduce):
            yield from (read for read in walk(node.body) if isinstance(read, Read))


def _batch(statement: Statement, window: Read, others: Set[Read]) -> frozenset[str]:
    """The output indices of both operands, which can't be a part of M or N."""
    names = frozenset[str]().union(*map(free_indices, others))
    return frozenset(index.name for index in statement.indices) & free_indices(window) & names


def _indices_of(array: str, statements: tuple[Statement, ...]) -> frozenset[str]:
    """The indices of the accesses to an array: the window needs its dimensions as they are."""
    accesses = (subscripts for name, subscripts in subscripted(statements) if name == array)
    return frozenset[str]().union(*(free_indices(sub) for subscripts in accesses for sub in subscripts))


def _with(statement: Statement, old: Expr, new: Expr) -> Statement:
    return replace(statement, value=replaced(statement.value, lambda node: new if node == old else None))


def _is_window(read: Read) -> bool:
    """Whether subscripts are computed from indices, or may be outside of the array."""
    computed = any(free_indices(sub) and not isinstance(sub, IndexValue) for sub in read.subscripts)
    return (computed or read.boundary is not None) and not read.exact


def _origins(result: FusedStatements, read: Read) -> dict[str, tuple[Index, ...]]:
    """The indices that the read depends on, by the fused index that they are part of."""
    names = free_indices(read)
    groups = [result.statements[0].indices, *(stage[0].indices for stage in collected(result.statements))]
    origins = {index.name: result.origins.get(index.name, (index,)) for group in groups for index in group}
    return {name: parts for name, parts in origins.items() if names & {part.name for part in parts}}


def _window(result: FusedStatements, read: Read, context: Context) -> Window:
    """The window of a read, over the indices that M or N and K were fused from, and the digits of these."""
    origins = _origins(result, read)
    taken = taken_names(context.spec, (index for indices in origins.values() for index in indices)) | set(origins)
    parts: dict[str, tuple[tuple[Index, Expr], ...]] = {}
    for name, indices in origins.items():
        digits = list[Index]()
        for index in indices:
            read, of_index = with_digits(read, index, context, taken)
            digits += of_index
        parts[name] = _parts(name, tuple(digits))
    return Window(read, parts)


def _parts(name: str, parts: tuple[Index, ...]) -> tuple[tuple[Index, Expr], ...]:
    values = delinearised(IndexValue(name), tuple(part.extent for part in parts))
    return tuple(zip(parts, values, strict=True))
