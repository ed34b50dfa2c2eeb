"""Reductions of which data decides the terms, each of one result: ranges whose ends are elements, as the rows of a
sparse matrix in CSR format, and terms of one key, as the members of a cluster.

y[r] = sum(value[i] * x[column[i]], i, where=i >= start[r] and i < start[r + 1])
y[r, e] = sum(x[i, e], i, where=key[i] == r)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from cugen.plan.subscripts import is_widening
from cugen.spec.expressions import Cast, Expr, IndexValue, Op, Read, Reduce, conjuncts, free_indices, walk

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def ragged_indices(reduction: Reduce) -> Mapping[str, frozenset[str]]:
    """The reduced indices of such ranges, with the other indices that a range depends on. Elements of a range are taken
    as those of one result alone; ranges that overlap read them more than once."""
    reduced = {index.name for index in reduction.indices}
    ends: dict[str, dict[str, frozenset[str]]] = {name: {} for name in reduced}
    for name, direction, end in _ends(reduction):
        if not free_indices(end) & reduced:
            ends[name][direction] = free_indices(end)
    return {name: frozenset[str]().union(*sides.values()) for name, sides in ends.items() if len(sides) == 2}


def has_ragged_range(reduction: Reduce) -> bool:
    """Whether elements are the ends of a range that it reduces."""
    return bool(ragged_indices(reduction)) or has_nested_ranges(reduction)


def has_nested_ranges(reduction: Reduce) -> bool:
    """Whether elements that other reduced indices number end a range, as those of the cells around a particle do."""
    reduced = {index.name for index in reduction.indices}
    return any(free_indices(end) & (reduced - {name}) for name, _, end in _ends(reduction))


def _ends(reduction: Reduce) -> Iterator[tuple[str, str, Expr]]:
    """The elements that conditions compare reduced indices with: the index, `l` where it is less and `g` where it is
    greater, and the element."""
    reduced = {index.name for index in reduction.indices}
    for condition in conjuncts(reduction.where):
        match condition:
            case Op(name=operator, args=(left, right)) if operator in _MIRRORED:
                for side, end, direction in ((left, right, operator), (right, left, _MIRRORED[operator])):
                    name = _shifted_index(side, reduced)
                    if name in reduced and end.dtype.is_integer and _reads(end):
                        yield name, direction[0], end


def _shifted_index(expr: Expr, reduced: Set[str]) -> str:
    """The name of a reduced index, to which no other one is added, as in `part * chunk + i`; empty for others."""
    match expr:
        case IndexValue(name=name):
            return name
        case Cast(arg=arg) if is_widening(expr):
            return _shifted_index(arg, reduced)
        case Op(name="add", args=args) if not any(map(_reads, args)):
            moving = [arg for arg in args if free_indices(arg) & reduced]
            return _shifted_index(moving[0], reduced) if len(moving) == 1 else ""
    return ""


def is_of_key(condition: Expr) -> bool:
    """Whether a condition compares an element with what no element is part of."""
    match condition:
        case Op(name="eq", args=(left, right)) if left.dtype.is_integer and right.dtype.is_integer:
            return _reads(left) != _reads(right)
    return False


def keyed_indices(reduction: Reduce) -> Mapping[str, frozenset[str]]:
    """The reduced indices of terms with a key, with the other indices that the key is compared with."""
    reduced = {index.name for index in reduction.indices}
    keyed: dict[str, frozenset[str]] = {}
    for condition in filter(is_of_key, conjuncts(reduction.where)):
        assert isinstance(condition, Op)
        key, value = sorted(condition.args, key=_reads, reverse=True)
        moving = free_indices(key) & reduced
        if len(moving) == 1 and free_indices(value) and not free_indices(value) & reduced:
            (name,) = moving
            keyed[name] = keyed.get(name, frozenset()) | free_indices(value)
    return keyed


def _reads(expr: Expr) -> bool:
    return any(isinstance(node, Read) for node in walk(expr))
