"""Statements over as few indices as their memory needs: what every array walks densely, or ignores, is one index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import sympy

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import substitute
from cugen.plan.symbols import Integer, bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, children, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.types import INT64

_LONG = 8  # a merged index's name is no longer than this


@dataclass(frozen=True, slots=True)
class Form:
    """Statements, and the arrays that they touch as they see them."""

    statements: tuple[Statement, ...]
    arrays: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class _Place:
    array: str
    subscripts: tuple[Expr, ...]

    def dimensions(self, name: str) -> tuple[int, ...]:
        """The dimensions that the index walks along."""
        return tuple(n for n, sub in enumerate(self.subscripts) if sub == IndexValue(name))


def canonical(request: Request) -> Form:
    """The group's statements with extents of 1 dropped and indices merged, as far as that is certain.

    Indices that are part of a subscript, or that a boundary looks at, stay, as do those that the schedule names."""
    form = Form(request.group.statements, request.context.arrays)
    if request.schedule.block or request.schedule.thread:
        return form
    form = _without_ones(form, request.context)
    while (merged := _merge_once(form, request.context)) is not None:
        form = merged
    return form


def walking_order(request: Request, form: Form) -> tuple[spec.Index, ...]:
    """The indices, the one that walks what is stored contiguously first, the others by their strides there."""
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
    """The indices whose value `expr` uses other than in subscripts."""
    if isinstance(expr, Read):
        return frozenset()
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    return frozenset[str]().union(*map(index_values, children(expr)))


def _without_ones(form: Form, context: Context) -> Form:
    """Indices that have one value are that value; the last one stays, so that there is something to walk along."""
    indices = form.statements[0].indices
    ones = [index for index in indices if context.static(to_integer(index.extent, context.symbols)) == 1]
    dropped: dict[str, Expr] = {index.name: Const(0, INT64) for index in ones[: len(indices) - 1]}
    if not dropped:
        return form
    kept = tuple(index for index in indices if index.name not in dropped)
    return replace(form, statements=tuple(_rewritten(s, kept, dropped) for s in form.statements))


def _rewritten(statement: Statement, indices: tuple[spec.Index, ...], replaced: Mapping[str, Expr]) -> Statement:
    return replace(
        statement,
        indices=indices,
        subscripts=tuple(substitute(sub, replaced) for sub in statement.subscripts),
        value=substitute(statement.value, replaced),
    )


def _merge_once(form: Form, context: Context) -> Form | None:
    """The form with one pair of indices made one; None where no two can be."""
    indices = form.statements[0].indices
    own = frozenset[str]().union(*(index_values(s.value) for s in form.statements), *map(_fixed, form.statements))
    free = [index for index in indices if index.name not in own]
    places = list(_places(form.statements))
    for outer, inner in permutations(free, 2):
        extents = [to_integer(index.extent, context.symbols) for index in (outer, inner)]
        if all(_walks_both(place, form.arrays[place.array], (outer.name, inner.name), extents) for place in places):
            pairs = _pairs(places, outer.name, inner.name)
            if pairs is not None:
                return _merged(form, context, outer, inner, pairs)
    return None


def _fixed(statement: Statement) -> frozenset[str]:
    """The indices of which subscripts say more than where they stand."""
    found = {name for sub in statement.subscripts if not isinstance(sub, IndexValue) for name in free_indices(sub)}
    for node in walk(statement.value):
        if isinstance(node, Read):
            whole = node.boundary is not None or node.exact
            for sub in node.subscripts:
                if whole or not isinstance(sub, IndexValue):
                    found |= free_indices(sub)
    return frozenset(found)


def _places(statements: tuple[Statement, ...]) -> Iterator[_Place]:
    for statement in statements:
        yield _Place(statement.target, statement.subscripts)
        for node in walk(statement.value):
            if isinstance(node, Read):
                yield _Place(node.array, node.subscripts)


def _walks_both(place: _Place, array: Array, names: tuple[str, str], extents: list[Integer]) -> bool:
    """Whether the place walks along both indices as along one, or along neither."""
    outer, inner = (place.dimensions(name) for name in names)
    if not outer and not inner:
        return True
    if len(outer) != 1 or len(inner) != 1 or not array.flat:
        return False
    (first,), (second,) = outer, inner
    return _equal(array.shape[second], extents[1]) and _equal(array.strides[first], array.strides[second] * extents[1])


def _pairs(places: list[_Place], outer: str, inner: str) -> dict[str, tuple[int, int]] | None:
    """The two dimensions that become one in each array; None where that isn't the same for all its places."""
    found: dict[str, tuple[int, int] | None] = {}
    for place in places:
        first, second = place.dimensions(outer), place.dimensions(inner)
        pair = (first[0], second[0]) if first and second else None
        if found.setdefault(place.array, pair) != pair:
            return None
    return {array: pair for array, pair in found.items() if pair is not None}


def _merged(
    form: Form, context: Context, outer: spec.Index, inner: spec.Index, pairs: Mapping[str, tuple[int, int]]
) -> Form:
    name = _merged_name(form, context, outer, inner)
    index = spec.Index(name, Op("mul", (outer.extent, inner.extent), INT64))
    arrays = dict(form.arrays)
    for array, (first, second) in pairs.items():
        arrays[array] = _without_dimension(form.arrays[array], first, second)

    def subscripts(array: str, subs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if array not in pairs:
            return subs
        first, second = pairs[array]
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
    return Form(statements, arrays)


def _without_dimension(array: Array, outer: int, inner: int) -> Array:
    """The array with dimension `outer` made part of `inner`."""
    whole = array.shape[outer] * array.shape[inner]
    shape = [whole if n == inner else extent for n, extent in enumerate(array.shape) if n != outer]
    strides = [stride for n, stride in enumerate(array.strides) if n != outer]
    return replace(array, shape=tuple(shape), strides=tuple(strides))


def _merged_name(form: Form, context: Context, outer: spec.Index, inner: spec.Index) -> str:
    """`i` where one index is all that is left, else `bh` of `b` and `h`, unless that is long or means something."""
    taken = {index.name for index in form.statements[0].indices} - {outer.name, inner.name} | context.symbols.keys()
    if len(form.statements[0].indices) == 2:
        return "i" if "i" not in taken else "element"
    name = outer.name + inner.name
    if len(name) > _LONG:
        name = "rest"
    while name in taken:
        name += "_"
    return name


def _equal(a: Integer, b: Integer) -> bool:
    return bool(a == b or sympy.expand(a - b) == 0)
