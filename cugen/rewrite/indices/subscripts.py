"""Subscripts after a substitution of indices, in canonical form."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.plan.context import Context
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op
from cugen.spec.prove.affine import Variable, affine_form, expression_of
from cugen.spec.types import INT64


def canonical_subscript(sub: Expr, length: Integer, indices: Mapping[str, Index], context: Context) -> Expr:
    """A subscript of a dimension of `length` elements as a sum of indices; one with quotients as it is."""
    params = {param.name: param for param in context.spec.params}
    form = affine_form(sub, params)
    if not all(isinstance(atom, Variable) for atom, _ in form.terms):
        return sub
    canonical = expression_of(form, params)
    # A bare subscript is in bounds: only of a dimension as long as the index.
    if isinstance(canonical, IndexValue) and context.extent(indices[canonical.name]) != length:
        return Op("add", (canonical, Const(0, INT64)), INT64)
    return canonical
