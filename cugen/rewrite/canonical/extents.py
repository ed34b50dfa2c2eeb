"""One form for equal extents: dimensions that one index runs along get the same tree, however their shapes are written.

    x: [M, 2 * D], y: [M, DO] with DO = 2 * D, and y[m, n] = x[m, n]
becomes
    x: [M, DO], y: [M, DO]
so that families compare extents by their trees. Dimensions that no index has in common keep their own, as M and N of
the same value. An extent whose value is 1 is the literal 1: a stride that it is a factor of is seen as contiguous.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from cugen.spec.expressions import Const, Expr, Index, IndexValue, ParamValue, Read, Reduce, Scan, bound_indices, walk
from cugen.spec.model import Array, Spec, Statement
from cugen.spec.prove.affine import AffineForm, affine_form
from cugen.spec.resolve.keys.layout import dense_strides
from cugen.spec.rewriting import rebuild, replaced
from cugen.spec.types import INT64

_UNIT_EXTENT = AffineForm((), 1)
_Dimension = tuple[Hashable, ...]  # (array, position) or (statement, index name)


def with_canonical_extents(spec: Spec) -> Spec:
    """The spec with one tree for the extents of connected dimensions; the same object if they agree."""
    classes = _Classes(spec)
    for number, statement in enumerate(spec.statements):
        _connect(classes, statement, number, spec)
    chosen = classes.chosen()
    if not chosen:
        return spec
    arrays = tuple(_array(array, chosen) for array in spec.arrays)
    statements = tuple(_statement(statement, number, chosen) for number, statement in enumerate(spec.statements))
    return replace(spec, arrays=arrays, statements=statements)


class _Classes:
    """Dimensions of equal extents that indices connect (a disjoint-set forest)."""

    def __init__(self, spec: Spec) -> None:
        self._params = {param.name: param for param in spec.params}
        self._order = {param.name: position for position, param in enumerate(spec.params)}
        self._parents: dict[_Dimension, _Dimension] = {}
        self._extents: dict[_Dimension, Expr] = {}
        for array in spec.arrays:
            for position, extent in enumerate(array.shape):
                self.add((array.name, position), extent)

    def add(self, dimension: _Dimension, extent: Expr) -> None:
        """Adds a dimension as a class of its own, unless it is in one."""
        self._parents.setdefault(dimension, dimension)
        self._extents.setdefault(dimension, extent)

    def connect(self, a: _Dimension, a_extent: Expr, b: _Dimension, b_extent: Expr) -> None:
        """Joins two dimensions, unless one may be longer than the other."""
        if a_extent != b_extent and affine_form(a_extent, self._params) != affine_form(b_extent, self._params):
            return
        self.add(a, a_extent)
        self.add(b, b_extent)
        self._parents[self._root(a)] = self._root(b)

    def _root(self, dimension: _Dimension) -> _Dimension:
        while self._parents[dimension] != dimension:
            dimension = self._parents[dimension]
        return dimension

    def chosen(self) -> Mapping[_Dimension, Expr]:
        """The extent of each dimension whose class has several, or is 1; the simplest, the first of the params."""
        members: dict[_Dimension, list[_Dimension]] = {}
        for dimension in self._parents:
            members.setdefault(self._root(dimension), []).append(dimension)
        result: dict[_Dimension, Expr] = {}
        for dimensions in members.values():
            extents = list(dict.fromkeys(self._extents[dimension] for dimension in dimensions))
            if affine_form(extents[0], self._params) == _UNIT_EXTENT:
                extents = [Const(1, INT64)]
            elif len(extents) == 1:
                continue
            result |= dict.fromkeys(dimensions, min(extents, key=self._rank))
        return result

    def _rank(self, extent: Expr) -> tuple[int, int, int]:
        names = [self._order.get(node.name, 0) for node in walk(extent) if isinstance(node, ParamValue)]
        return sum(1 for _ in walk(extent)), isinstance(extent, Const), min(names, default=0)


def _connect(classes: _Classes, statement: Statement, number: int, spec: Spec) -> None:
    shapes = {array.name: array.shape for array in spec.arrays}
    bound = {index.name: index for index in (*statement.indices, *bound_indices(statement.value))}
    for name, bound_index in bound.items():
        classes.add((number, name), bound_index.extent)
    target = Read(statement.target, statement.subscripts, statement.value.dtype)
    for node in (target, *walk(statement.value)):
        if isinstance(node, Scan):
            inner, outer = node.inner, bound[node.outer]
            classes.connect((number, inner.name), inner.extent, (number, outer.name), outer.extent)
        if not isinstance(node, Read):
            continue
        for position, sub in enumerate(node.subscripts):
            if isinstance(sub, IndexValue) and (index := bound.get(sub.name)) is not None:
                extent = shapes[node.array][position]
                classes.connect((number, index.name), index.extent, (node.array, position), extent)


def _array(array: Array, chosen: Mapping[_Dimension, Expr]) -> Array:
    shape = tuple(chosen.get((array.name, n), extent) for n, extent in enumerate(array.shape))
    if shape == array.shape:
        return array
    for column in (False, True):
        if array.strides == dense_strides(array.shape, column=column):
            return replace(array, shape=shape, strides=dense_strides(shape, column=column))
    changed = {old: new for old, new in zip(array.shape, shape, strict=True) if old != new}
    return replace(array, shape=shape, strides=tuple(replaced(stride, changed.get) for stride in array.strides))


def _statement(statement: Statement, number: int, chosen: Mapping[_Dimension, Expr]) -> Statement:
    def index(old: Index) -> Index:
        return replace(old, extent=chosen.get((number, old.name), old.extent))

    def change(expr: Expr) -> Expr:
        match expr:
            case Reduce(indices=indices):
                expr = replace(expr, indices=tuple(map(index, indices)))
            case Scan(inner=inner):
                expr = replace(expr, inner=index(inner))
        return rebuild(expr, change)

    return replace(statement, indices=tuple(map(index, statement.indices)), value=change(statement.value))
