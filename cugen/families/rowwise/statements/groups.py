"""Splits an index into groups (`c // K`, as in group norm) into two: the group, and the member of the group.

Statements per group subscript an array by `g * K + k`, those per element by `c`. With `g` and `k` in both, and a
dimension for each in the array, they run over the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, permutations

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, symbol
from cugen.rewrite.fresh_names import fresh
from cugen.rewrite.fuse_dimensions import subscripted
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, bound_indices, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class GroupSplit:
    """An index of extent `whole` as `groups` of `size`, which divides it."""

    whole: Expr
    groups: Expr
    size: Expr


def split_groups(
    statements: tuple[Statement, ...], context: Context
) -> tuple[tuple[Statement, ...], Mapping[str, Array]]:
    """The statements and arrays with such an index split; unchanged if there is none, or several of a statement."""
    split = _find_split(statements, context)
    if split is None or any(len(_split_names(statement, split)) > 1 for statement in statements):
        return statements, context.arrays
    splitter = _Splitter(split, context, statements)
    return tuple(map(splitter.statement, statements)), splitter.arrays


def _find_split(statements: tuple[Statement, ...], context: Context) -> GroupSplit | None:
    for statement in statements:
        extents = {index.name: index.extent for index in statement.indices}
        for read in (node for node in walk(statement.value) if isinstance(node, Read)):
            for sub, groups in zip(read.subscripts, context.spec.array(read.array).shape, strict=True):
                match sub:
                    case Op(name="floordiv", args=(IndexValue(name=name), size)) if name in extents:
                        whole, count, each = (to_integer(e, context.symbols) for e in (extents[name], groups, size))
                        is_whole = (whole - count * each).expand() == 0
                        if is_whole or context.static(whole) == context.static(count * each) is not None:
                            return GroupSplit(extents[name], groups, size)
    return None


def _split_names(statement: Statement, split: GroupSplit) -> list[str]:
    """The indices of a statement that are split, by their extent."""
    return [index.name for index in statement.indices if index.extent == split.whole]


class _Splitter:
    """Splits the same index in every statement. `dimensions` are those of each array that are split."""

    def __init__(self, split: GroupSplit, context: Context, statements: tuple[Statement, ...]) -> None:
        self.split, self.context = split, context
        self.dimensions: dict[str, tuple[int, ...]] = {}
        taken = {index.name for s in statements for index in (*s.indices, *bound_indices(s.value))}
        self.names = tuple(fresh(name, taken) for name in ("group", "member"))
        for statement in statements:
            for array, subscripts in subscripted((statement,)):
                names = _split_names(statement, split)
                matches = [d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue) and sub.name in names]
                if matches:
                    self.dimensions[array] = tuple(sorted({*self.dimensions.get(array, ()), *matches}))
        self.arrays = {name: self._array(array) for name, array in context.arrays.items()}

    def _array(self, array: Array) -> Array:
        dimensions = self.dimensions.get(array.name, ())
        size, groups = (to_integer(e, self.context.symbols) for e in (self.split.size, self.split.groups))
        shape: list[Integer] = []
        strides: list[Integer] = []
        for dimension, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            is_split = dimension in dimensions
            shape += [groups, size] if is_split else [extent]
            strides += [size * stride, stride] if is_split else [stride]
        # Outer strides in terms of groups * size, so that the dimensions are recognised as dense.
        whole = to_integer(self.split.whole, self.context.symbols)
        if dimensions and whole.is_Symbol:
            strides = [stride.xreplace({whole: groups * size}) for stride in strides]
        return replace(array, shape=tuple(shape), strides=tuple(strides))

    def statement(self, statement: Statement) -> Statement:
        matches = _split_names(statement, self.split)
        group, member = self.names
        indices: list[Index] = []
        for index in statement.indices:
            pair = [Index(group, self.split.groups), Index(member, self.split.size)]
            indices += pair if index.name in matches else [index]
        name = matches[0] if matches else ""
        return replace(
            statement,
            indices=tuple(indices),
            subscripts=self._subscripts(statement.target, statement.subscripts, name),
            value=self._value(statement.value, name),
        )

    def _value(self, expr: Expr, name: str) -> Expr:
        group, member = map(IndexValue, self.names)
        divided = (IndexValue(name), self.split.size)
        match expr:
            case Op(name="floordiv", args=args) if args == divided:
                return group
            case Op(name="mod", args=args) if args == divided:
                return member
            case IndexValue(name=index) if index == name:
                return Op("add", (Op("mul", (group, self.split.size), INT64), member), INT64)
        changed = rebuild(expr, lambda part: self._value(part, name))
        if isinstance(expr, Read) and isinstance(changed, Read):
            return replace(changed, subscripts=self._subscripts(expr.array, expr.subscripts, name))
        return changed

    def _subscripts(self, array: str, subscripts: tuple[Expr, ...], name: str) -> tuple[Expr, ...]:
        dimensions = self.dimensions.get(array, ())
        parts = (self._pair(s, name) if d in dimensions else (self._value(s, name),) for d, s in enumerate(subscripts))
        return tuple(chain.from_iterable(parts))

    def _pair(self, sub: Expr, name: str) -> tuple[Expr, Expr]:
        """The group and the member of a subscript."""
        if sub == IndexValue(name):
            return IndexValue(self.names[0]), IndexValue(self.names[1])
        value = self._value(sub, name)
        for group, member in permutations([node for node in walk(value) if isinstance(node, IndexValue)], 2):
            if group != member and self._is_sum(value, group, member):
                return group, member
        return Op("floordiv", (value, self.split.size), INT64), Op("mod", (value, self.split.size), INT64)

    def _is_sum(self, value: Expr, group: IndexValue, member: IndexValue) -> bool:
        """Whether a subscript is group · size + member."""
        symbols = {**self.context.symbols, group.name: symbol(group.name), member.name: symbol(member.name)}
        try:
            difference = to_integer(value, symbols) - symbols[group.name] * to_integer(self.split.size, symbols)
        except NotAnInteger:
            return False
        return bool((difference - symbols[member.name]).expand() == 0)
