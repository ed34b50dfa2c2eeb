"""Fuses dense output indices of elementwise statements and drops unit ones.

    y[i, j] = 2 * x[i, j]                   row-major x and y, [I, J]
becomes
    y[i] = 2 * x[i]                         over I * J elements
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import sympy

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds
from cugen.plan.traversal.substitution import substitute
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, children, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.types import INT64

_MAX_NAME_LENGTH = 8  # of a fused index, in characters


@dataclass(frozen=True, slots=True)
class CanonicalForm:
    """Statements over fused indices, and their arrays with the same dimensions fused."""

    statements: tuple[Statement, ...]
    arrays: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class _ArrayAccess:
    array: str
    subscripts: tuple[Expr, ...]

    def dimensions(self, name: str) -> tuple[int, ...]:
        """The dimensions that the index subscripts."""
        return tuple(n for n, sub in enumerate(self.subscripts) if sub == IndexValue(name))


def canonical(request: Request) -> CanonicalForm:
    """The group's statements without unit indices and with dense ones fused, unless the schedule has tile sizes.

    Indices in compound subscripts or under a boundary are kept."""
    form = CanonicalForm(request.group.statements, request.context.arrays)
    if request.schedule.block or request.schedule.thread:
        return form
    form = _without_unit_indices(form, request.context)
    while (fused := _fuse_once(form, request.context)) is not None:
        form = fused
    return form


def iteration_order(request: Request, form: CanonicalForm) -> tuple[spec.Index, ...]:
    """The indices by their strides in the first stored array, the contiguous one first."""
    context = request.context
    temporary = {array.name for array in context.spec.arrays if array.role == "temporary"} - set(request.stored)
    statement = next((s for s in form.statements if s.target not in temporary), form.statements[0])
    strides = {
        name: bounds(stride, context.ranges)[1]
        for sub, stride in zip(statement.subscripts, form.arrays[statement.target].strides, strict=True)
        for name in free_indices(sub)
    }
    order = statement.indices
    return tuple(sorted(order, key=lambda index: (strides[index.name], -order.index(index))))


def index_values(expr: Expr) -> frozenset[str]:
    """The indices whose value `expr` uses outside of subscripts."""
    if isinstance(expr, Read):
        return frozenset()
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    return frozenset[str]().union(*map(index_values, children(expr)))


def _without_unit_indices(form: CanonicalForm, context: Context) -> CanonicalForm:
    """Indices of extent 1 replaced by 0; at least one index is kept."""
    indices = form.statements[0].indices
    unit = [index for index in indices if context.static(to_integer(index.extent, context.symbols)) == 1]
    dropped: dict[str, Expr] = {index.name: Const(0, INT64) for index in unit[: len(indices) - 1]}
    if not dropped:
        return form
    remaining = tuple(index for index in indices if index.name not in dropped)
    return replace(form, statements=tuple(_rewritten(s, remaining, dropped) for s in form.statements))


def _rewritten(statement: Statement, indices: tuple[spec.Index, ...], replaced: Mapping[str, Expr]) -> Statement:
    return replace(
        statement,
        indices=indices,
        subscripts=tuple(substitute(sub, replaced) for sub in statement.subscripts),
        value=substitute(statement.value, replaced),
    )


def _fuse_once(form: CanonicalForm, context: Context) -> CanonicalForm | None:
    """The form with one pair of indices fused; None where none can be."""
    indices = form.statements[0].indices
    fixed = frozenset[str]().union(
        *(index_values(s.value) for s in form.statements), *map(_compound_indices, form.statements)
    )
    free = [index for index in indices if index.name not in fixed]
    accesses = list(_accesses(form.statements))
    for outer, inner in permutations(free, 2):
        names = outer.name, inner.name
        extents = [to_integer(index.extent, context.symbols) for index in (outer, inner)]
        if all(_is_fusible(access, form.arrays[access.array], names, extents) for access in accesses):
            dimensions = _fused_dimensions(accesses, outer.name, inner.name)
            if dimensions is not None:
                return _fused(form, context, outer, inner, dimensions)
    return None


def _compound_indices(statement: Statement) -> frozenset[str]:
    """The indices of compound subscripts, and of reads with a boundary."""
    names = {name for sub in statement.subscripts if not isinstance(sub, IndexValue) for name in free_indices(sub)}
    for node in walk(statement.value):
        if isinstance(node, Read):
            whole = node.boundary is not None or node.exact
            for sub in node.subscripts:
                if whole or not isinstance(sub, IndexValue):
                    names |= free_indices(sub)
    return frozenset(names)


def _accesses(statements: tuple[Statement, ...]) -> Iterator[_ArrayAccess]:
    for statement in statements:
        yield _ArrayAccess(statement.target, statement.subscripts)
        for node in walk(statement.value):
            if isinstance(node, Read):
                yield _ArrayAccess(node.array, node.subscripts)


def _is_fusible(access: _ArrayAccess, array: Array, names: tuple[str, str], extents: list[Integer]) -> bool:
    """Whether the access has both indices in dense dimensions, or neither index."""
    outer, inner = (access.dimensions(name) for name in names)
    if not outer and not inner:
        return True
    if len(outer) != 1 or len(inner) != 1 or not array.flat:
        return False
    (first,), (second,) = outer, inner
    return _equal(array.shape[second], extents[1]) and _equal(array.strides[first], array.strides[second] * extents[1])


def _fused_dimensions(accesses: list[_ArrayAccess], outer: str, inner: str) -> dict[str, tuple[int, int]] | None:
    """The pair of dimensions that is fused in each array; None where the accesses of an array disagree."""
    pairs: dict[str, tuple[int, int] | None] = {}
    for access in accesses:
        first, second = access.dimensions(outer), access.dimensions(inner)
        pair = (first[0], second[0]) if first and second else None
        if pairs.setdefault(access.array, pair) != pair:
            return None
    return {array: pair for array, pair in pairs.items() if pair is not None}


def _fused(
    form: CanonicalForm,
    context: Context,
    outer: spec.Index,
    inner: spec.Index,
    dimensions: Mapping[str, tuple[int, int]],
) -> CanonicalForm:
    name = _fused_name(form, context, outer, inner)
    index = spec.Index(name, Op("mul", (outer.extent, inner.extent), INT64))
    arrays = dict(form.arrays)
    for array, (first, second) in dimensions.items():
        arrays[array] = _without_dimension(form.arrays[array], first, second)

    def subscripts(array: str, subs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if array not in dimensions:
            return subs
        first, second = dimensions[array]
        return tuple(IndexValue(name) if n == second else sub for n, sub in enumerate(subs) if n != first)

    def on_read(read: Read) -> Expr:
        return replace(read, subscripts=subscripts(read.array, read.subscripts))

    statements = tuple(
        replace(
            statement,
            subscripts=subscripts(statement.target, statement.subscripts),
            indices=tuple(index if i == inner else i for i in statement.indices if i != outer),
            value=substitute(statement.value, {}, on_read),
        )
        for statement in form.statements
    )
    return CanonicalForm(statements, arrays)


def _without_dimension(array: Array, outer: int, inner: int) -> Array:
    """The array with dimension `outer` fused into `inner`."""
    whole = array.shape[outer] * array.shape[inner]
    shape = [whole if n == inner else extent for n, extent in enumerate(array.shape) if n != outer]
    strides = [stride for n, stride in enumerate(array.strides) if n != outer]
    return replace(array, shape=tuple(shape), strides=tuple(strides))


def _fused_name(form: CanonicalForm, context: Context, outer: spec.Index, inner: spec.Index) -> str:
    """`i` if the result is the only index, else `bh` of `b` and `h`, unless that is too long."""
    taken = {index.name for index in form.statements[0].indices} - {outer.name, inner.name} | context.symbols.keys()
    if len(form.statements[0].indices) == 2:
        return "i" if "i" not in taken else "element"
    name = outer.name + inner.name
    if len(name) > _MAX_NAME_LENGTH:
        name = "fused"
    while name in taken:
        name += "_"
    return name


def _equal(a: Integer, b: Integer) -> bool:
    return bool(a == b or sympy.expand(a - b) == 0)
