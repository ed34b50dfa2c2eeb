"""Reductions over ranges whose ends are elements, as the rows of a sparse matrix in CSR format:

y[r] = sum(value[i] * x[column[i]], i, where=i >= start[r] and i < start[r + 1])
"""

from __future__ import annotations

from collections.abc import Mapping

from cugen.plan.subscripts import is_widening
from cugen.spec.expressions import Cast, Expr, IndexValue, Op, Read, Reduce, conjuncts, free_indices, walk

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def ragged_indices(reduction: Reduce) -> Mapping[str, frozenset[str]]:
    """The reduced indices of such ranges, with the other indices that a range depends on: no two ranges need have the
    same elements, so that these are of one result alone."""
    reduced = {index.name for index in reduction.indices}
    ends: dict[str, dict[str, frozenset[str]]] = {name: {} for name in reduced}
    for condition in conjuncts(reduction.where):
        match condition:
            case Op(name=operator, args=(left, right)) if operator in _MIRRORED:
                for side, other, direction in ((left, right, operator), (right, left, _MIRRORED[operator])):
                    name = _bare_index(side)
                    is_element = other.dtype.is_integer and any(isinstance(node, Read) for node in walk(other))
                    if name in reduced and is_element and not free_indices(other) & reduced:
                        ends[name][direction[0]] = free_indices(other)
    return {name: frozenset[str]().union(*found.values()) for name, found in ends.items() if len(found) == 2}


def _bare_index(expr: Expr) -> str:
    """The name of an index, in any type that holds its values; empty for other expressions."""
    match expr:
        case IndexValue(name=name):
            return name
        case Cast(arg=arg) if is_widening(expr):
            return _bare_index(arg)
    return ""
