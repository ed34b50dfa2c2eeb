"""An index that is cut into groups (`c // K`, as group norm has it) as two: the group, and the place in it.

Statements over groups subscript an array by `g * K + k`, those over all elements by `c`; once both say `g` and `k`, and
the array has a dimension for each, they run over the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.substitution import rebuilt
from cugen.plan.symbols import Integer, symbol
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, Reduce, walk
from cugen.spec.model import Statement
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an index of extent `whole` falls into `groups` of `size`, which divides it."""

    whole: Expr
    groups: Expr
    size: Expr


def cut_groups(
    statements: tuple[Statement, ...], context: Context
) -> tuple[tuple[Statement, ...], Mapping[str, Array]]:
    """The statements with such an index cut, and their arrays; both as they are where there is none."""
    cut = _find(statements, context)
    if cut is None:
        return statements, context.arrays
    cutter = _Cutter(cut, context, statements)
    return tuple(map(cutter.statement, statements)), cutter.arrays


def _find(statements: tuple[Statement, ...], context: Context) -> Cut | None:
    for statement in statements:
        extents = {index.name: index.extent for index in statement.indices}
        for read in (node for node in walk(statement.value) if isinstance(node, Read)):
            for sub, groups in zip(read.subscripts, context.spec.array(read.array).shape, strict=True):
                match sub:
                    case Op(name="floordiv", args=(IndexValue(name=name), size)) if name in extents:
                        whole = to_integer(extents[name], context.symbols)
                        parts = to_integer(groups, context.symbols) * to_integer(size, context.symbols)
                        if _is_same(whole, parts, context):
                            return Cut(extents[name], groups, size)
    return None


def _is_same(a: Integer, b: Integer, context: Context) -> bool:
    known = context.static(a)
    return bool((a - b).expand() == 0) or (known is not None and known == context.static(b))


class _Cutter:
    """Cuts every statement along the same index; `split` has the dimensions of arrays that fall into groups."""

    def __init__(self, cut: Cut, context: Context, statements: tuple[Statement, ...]) -> None:
        self.cut, self.context = cut, context
        self.split: dict[str, tuple[int, ...]] = {}
        taken = {i.name for s in statements for i in s.indices}
        taken |= {i.name for s in statements for n in walk(s.value) if isinstance(n, Reduce) for i in n.indices}
        self.names = tuple(_fresh(name, taken) for name in ("group", "member"))
        for statement in statements:
            for array, subscripts in _places(statement):
                own = {i.name for i in statement.indices if i.extent == cut.whole}
                found = tuple(d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue) and sub.name in own)
                if found:
                    self.split[array] = tuple(sorted({*self.split.get(array, ()), *found}))
        self.arrays = {name: self._array(array) for name, array in context.arrays.items()}

    def _array(self, array: Array) -> Array:
        dimensions = self.split.get(array.name, ())
        size, groups = (to_integer(e, self.context.symbols) for e in (self.cut.size, self.cut.groups))
        shape: list[Integer] = []
        strides: list[Integer] = []
        for dimension, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            cut = dimension in dimensions
            shape += [groups, size] if cut else [extent]
            strides += [size * stride, stride] if cut else [stride]
        # Strides over the index that is cut count its groups, so that the dimensions are seen to be dense.
        whole = to_integer(self.cut.whole, self.context.symbols)
        if dimensions and whole.is_Symbol:
            strides = [stride.xreplace({whole: groups * size}) for stride in strides]
        return replace(array, shape=tuple(shape), strides=tuple(strides))

    def statement(self, statement: Statement) -> Statement:
        own = [index.name for index in statement.indices if index.extent == self.cut.whole]
        if len(own) > 1:
            return statement
        group, member = self.names
        indices: list[Index] = []
        for index in statement.indices:
            cut = [Index(group, self.cut.groups), Index(member, self.cut.size)]
            indices += cut if index.name in own else [index]
        name = own[0] if own else ""
        return replace(
            statement,
            indices=tuple(indices),
            subscripts=self._subscripts(statement.target, statement.subscripts, name),
            value=self._value(statement.value, name),
        )

    def _value(self, expr: Expr, name: str) -> Expr:
        group, member = map(IndexValue, self.names)
        match expr:
            case Op(name="floordiv", args=(IndexValue(name=own), size)) if own == name and size == self.cut.size:
                return group
            case Op(name="mod", args=(IndexValue(name=own), size)) if own == name and size == self.cut.size:
                return member
            case IndexValue(name=own) if own == name:
                return Op("add", (Op("mul", (group, self.cut.size), INT64), member), INT64)
            case Read():
                exact = tuple((self._value(dividend, name), divisor) for dividend, divisor in expr.exact)
                return replace(expr, subscripts=self._subscripts(expr.array, expr.subscripts, name), exact=exact)
        return rebuilt(expr, lambda part: self._value(part, name))

    def _subscripts(self, array: str, subscripts: tuple[Expr, ...], name: str) -> tuple[Expr, ...]:
        dimensions = self.split.get(array, ())
        found: list[Expr] = []
        for dimension, sub in enumerate(subscripts):
            if dimension in dimensions:
                found += self._pair(sub, name)
            else:
                found.append(self._value(sub, name))
        return tuple(found)

    def _pair(self, sub: Expr, name: str) -> tuple[Expr, Expr]:
        """The group of a subscript and the place in it."""
        if sub == IndexValue(name):
            return IndexValue(self.names[0]), IndexValue(self.names[1])
        value = self._value(sub, name)
        for group in (node for node in walk(value) if isinstance(node, IndexValue)):
            for member in (node for node in walk(value) if isinstance(node, IndexValue)):
                if group != member and self._is_sum(value, group, member):
                    return group, member
        return Op("floordiv", (value, self.cut.size), INT64), Op("mod", (value, self.cut.size), INT64)

    def _is_sum(self, value: Expr, group: IndexValue, member: IndexValue) -> bool:
        """Whether a subscript is group · size + member."""
        symbols = {**self.context.symbols, group.name: symbol(group.name), member.name: symbol(member.name)}
        try:
            found = to_integer(value, symbols) - symbols[group.name] * to_integer(self.cut.size, symbols)
        except NotAnInteger:
            return False
        return bool((found - symbols[member.name]).expand() == 0)


def _places(statement: Statement) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    yield statement.target, statement.subscripts
    yield from ((node.array, node.subscripts) for node in walk(statement.value) if isinstance(node, Read))


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
