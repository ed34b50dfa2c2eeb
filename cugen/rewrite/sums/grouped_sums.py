"""Sums over groups of consecutive terms, each with a factor of its own, as one sum over all terms.

    y[m, n] = sum(s[m, g] * sum(a[m, 128 * g + k] * b[n, 128 * g + k], k), g)
becomes
    y[m, n] = sum(s[m, k // 128] * a[m, k] * b[n, k], k)
which a GEMM computes that multiplies its partial sums by the factors. Of arrays with a dimension of groups,
    y[m, n] = sum(s[m, g] * sum(a[m, g, k] * b[n, g, k], k), g)
the sum is one over g and k.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.rewrite.sums.flattened import flattened
from cugen.spec.expressions import (
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    free_indices,
    outermost_reductions,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.affine import affine_form, multiply
from cugen.spec.rewriting import replaced, without_quotients
from cugen.spec.types import INT64, DType


def with_grouped_sums(statement: Statement, spec: Spec) -> Statement:
    """The statement with such sums as one; the same object if there are none."""
    names = frozenset(index.name for index in statement.indices)
    sums = {node: _joined(node, names, spec) for node in outermost_reductions(statement.value)}
    changed: dict[Expr, Expr] = {node: joined for node, joined in sums.items() if joined is not None}
    return replace(statement, value=replaced(statement.value, changed.get)) if changed else statement


def _joined(reduction: Reduce, names: frozenset[str], spec: Spec) -> Reduce | None:
    """The sum over one index, by the name of a group's terms, or over two where arrays have dimensions of both; None
    for sums of other terms than those of a group."""
    flat = flattened(reduction, names)
    if flat is reduction or flat.where is not None or len(flat.indices) != 2:
        return None
    group, term = flat.indices
    reads = [free_indices(node) for node in walk(flat.body) if isinstance(node, Read)]
    if not all(group.name in read for read in reads if term.name in read):
        return None
    params = {param.name: param for param in spec.params}
    length, of_group, of_term = (
        affine_form(expr, params) for expr in (term.extent, IndexValue(group.name), IndexValue(term.name))
    )
    offset = multiply(of_group, length)
    if offset is None:
        return None
    joint, others = offset + of_term, list[Expr]()
    extent: Expr = Op("mul", (group.extent, term.extent), INT64)

    def is_joint(sub: Expr) -> bool:
        return affine_form(sub, params) == joint

    def change(node: Expr) -> Expr | None:
        match node:
            case Read(subscripts=subscripts) if any(map(is_joint, subscripts)):
                subs = (IndexValue(term.name) if is_joint(sub) else replaced(sub, change) for sub in subscripts)
                return replace(node, subscripts=tuple(subs))
            case IndexValue(name=group.name):
                return Op("floordiv", (IndexValue(term.name), term.extent), INT64)
            case IndexValue(name=term.name):
                others.append(node)
        return None

    body = replaced(flat.body, change)
    if others:
        return flat
    dimensions = (
        spec.array(node.array).shape[n]
        for node in walk(flat.body)
        if isinstance(node, Read)
        for n, sub in enumerate(node.subscripts)
        if is_joint(sub)
    )
    whole = next((d for d in dimensions if affine_form(d, params) == affine_form(extent, params)), extent)
    return replace(flat, body=body, indices=(Index(term.name, whole),))


def operand_types(statement: Statement, spec: Spec) -> tuple[DType, ...]:
    """The stored types of what is read for each term of a statement's sums; scales are read for a group of terms."""
    types: dict[DType, None] = {}
    for reduction in (node for node in walk(statement.value) if isinstance(node, Reduce)):
        names = {index.name for index in reduction.indices}
        for read in (node for node in walk(reduction.body) if isinstance(node, Read)):
            if free_indices(without_quotients(read)) & names:
                types[spec.array(read.array).dtype] = None
    return tuple(types)
