"""Conditions that leave out the terms of a product's sum whose window is outside of an array, as its boundary.

    y[n, f, i] = sum(x[n, c, i + r - 1] * w[f, c, r] if 0 <= i + r - 1 < W else 0, c, r)
becomes the same without the condition, with `boundary: zero` for the read of x: a convolution as it is written with a
padded array, which a GEMM takes; and so does a factor `where(0 <= i + r - 1 < W, x[n, c, i + r - 1], 0)`. Such terms
are 0 but where the other factor is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce

from cugen.spec.expressions import (
    Boundary,
    Const,
    Expr,
    IndexValue,
    Op,
    Read,
    Reduce,
    Select,
    conjuncts,
    factors_of_product,
    free_indices,
)
from cugen.spec.model import Array, Param, Spec, Statement
from cugen.spec.prove.affine import AffineForm, affine_form
from cugen.spec.prove.guards import comparison
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL

_ZERO = Boundary("zero")


def with_padded_windows(spec: Spec) -> Spec:
    """The spec with boundaries in place of such conditions; the same object if there are none."""
    params, arrays = {param.name: param for param in spec.params}, {array.name: array for array in spec.arrays}

    def changed(statement: Statement) -> Statement:
        names = frozenset(index.name for index in statement.indices)
        return replace(statement, value=replaced(statement.value, lambda node: _padded(node, names, params, arrays)))

    statements = tuple(map(changed, spec.statements))
    return spec if statements == spec.statements else replace(spec, statements=statements)


def _padded(
    node: Expr, outputs: frozenset[str], params: Mapping[str, Param], arrays: Mapping[str, Array]
) -> Reduce | None:
    """A sum with a boundary for its window; None of another."""
    if not isinstance(node, Reduce) or node.kind != "sum":
        return None

    def padded_read(factor: Expr) -> Expr | None:
        """A window that is chosen where it is inside, else 0."""
        match factor:
            case Select(condition=condition, then=Read() as read, orelse=Const(value=0)):
                inside = list(_conditions(read, params, arrays))
                is_padded = all(_is_one_of(part, inside, params) for part in conjuncts(condition))
                return replace(read, boundary=_ZERO) if is_padded and _may_have_boundary(read) else None
        return None

    body = replaced(node.body, padded_read)
    windows = [read for read in factors_of_product(body, node.dtype) if not _is_plain(read)]
    # As in a convolution, not in a correlation of a signal with itself: outputs along which the window is the same.
    if len(windows) != 1 or not _may_have_boundary(windows[0]) or outputs <= free_indices(windows[0]):
        return None
    (window,) = windows
    inside = list(_conditions(window, params, arrays))
    kept = [condition for condition in conjuncts(node.where) if not _is_one_of(condition, inside, params)]
    if len(kept) == len(conjuncts(node.where)) and body == node.body:
        return None
    changes: dict[Expr, Expr] = {window: replace(window, boundary=_ZERO)}
    where = reduce(lambda a, b: Op("and", (a, b), BOOL), kept) if kept else None
    return replace(node, body=replaced(body, changes.get), where=where)


def _may_have_boundary(read: Read) -> bool:
    return read.boundary in (None, _ZERO) and not read.exact


def _is_plain(read: Read) -> bool:
    return all(isinstance(sub, IndexValue) for sub in read.subscripts)


def _conditions(window: Read, params: Mapping[str, Param], arrays: Mapping[str, Array]) -> Iterator[AffineForm]:
    """What isn't negative where a window is inside of its array."""
    for sub, extent in zip(window.subscripts, arrays[window.array].shape, strict=True):
        if not isinstance(sub, IndexValue):
            form = affine_form(sub, params)
            yield from (form, affine_form(extent, params) - 1 - form)


def _is_one_of(condition: Expr, forms: list[AffineForm], params: Mapping[str, Param]) -> bool:
    match condition:
        case Op(name="lt" | "le" | "gt" | "ge" as name, args=(left, right)):
            ((form,),) = comparison(name, affine_form(left, params), affine_form(right, params))
            return form in forms
    return False
