"""Distributes a sum over what it adds where that has sums itself, so that all of them can be summed in another order.

    h[n, v] = sum(x[n, k] * w[v, k], k) + b[v];  y[n] = sum(h[n, v], v) / V
becomes
    y_sum = sum(b[v], v);  y[n] = (sum(x[n, k] * w[v, k], k, v) + y_sum) / V
which is a matrix times a vector, as `contraction_order` finds, in place of a GEMM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.grouping import is_single_temporary
from cugen.rewrite.readers import Readers, array_reads
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.rewrite.sums.flattened import flattened
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import converted, replaced


def with_distributed_sums(spec: Spec, position: int) -> tuple[Spec, Statement] | None:
    """The spec with the sums of the statement at `position` distributed, temporaries that it alone reads among what
    they add, and the statement; None where none of them adds sums."""
    inlined, statement = _with_inlined_sums(spec, position)
    taken = taken_names(spec)
    names = {index.name for index in statement.indices}
    invariants: list[Temporary] = []

    def distributed(node: Expr) -> Expr | None:
        if isinstance(node, Scan):
            return node
        if not isinstance(node, Reduce):
            return None
        terms = list(_terms(node.body)) if _is_plain(node, node) else []
        if not any(_is_plain(factor.expr, node) for term in terms for factor in term):
            return node
        result: Expr | None = None
        for term in terms:
            added: Expr = flattened(replace(node, body=product_of(term)), names)
            indices = tuple(index for index in statement.indices if index.name in free_indices(added))
            is_nested = any(_adds_sums(factor.expr) for factor in term)
            if not is_nested and len(indices) < len(statement.indices):
                name = fresh(f"{statement.target}_sum", taken)
                invariants.append(temporary(name, indices, added, f"terms of: {statement.text}", statement))
                added = invariants[-1].read
            result = added if result is None else Op("add", (result, added), node.dtype)
        return result

    value = replaced(statement.value, distributed)
    if value == statement.value:
        return None
    new = replace(statement, value=value)
    statements: list[Statement] = []
    for kept in inlined:
        statements += (*(stored.statement for stored in invariants), new) if kept is statement else (kept,)
    arrays = (*spec.arrays, *(stored.array for stored in invariants))
    written = {s.target for s in statements}
    arrays = tuple(a for a in arrays if a.role != "temporary" or a.name in written)
    return replace(spec, statements=tuple(statements), arrays=arrays), new


def _with_inlined_sums(spec: Spec, position: int) -> tuple[tuple[Statement, ...], Statement]:
    """The statements with temporaries of sums that the one at `position` alone reads, once, inlined, and that one."""
    statements, written = list(spec.statements), Counter(s.target for s in spec.statements)
    reader = statements[position]
    for before in reversed(spec.statements[:position]):
        reads = [node for node in walk(reader.value) if isinstance(node, Read) and node.array == before.target]
        number = statements.index(before)
        is_alone = Readers(statements).positions(before.target, number + 1) == [statements.index(reader)]
        changed = {s.target for s in statements[number:]} & {read.array for read in array_reads(before)}
        loops = [node for node in walk(before.value) if isinstance(node, Reduce | Scan)]
        has_sums = all(isinstance(node, Reduce) and node.kind == "sum" for node in loops)
        is_plain = len(reads) == 1 and not any(read.boundary is not None or read.exact for read in reads)
        if not (is_plain and has_sums and is_alone and not changed and is_single_temporary(before, spec, written)):
            continue
        if spec.array(before.target).memory.space is not None:
            continue
        inlined = replace(reader, value=substitute(reader.value, {}, partial(_value, before, spec)))
        statements[statements.index(reader)] = inlined
        statements.remove(before)
        reader = inlined
    return tuple(statements), reader


def _value(source: Statement, spec: Spec, read: Read) -> Expr | None:
    if read.array != source.target:
        return None
    names = (sub.name for sub in source.subscripts if isinstance(sub, IndexValue))
    value = substitute(source.value, dict(zip(names, read.subscripts, strict=True)))
    return converted(value, spec.array(read.array).dtype)


def _is_plain(expr: Expr, outer: Reduce) -> bool:
    """Whether an expression is an unconditional sum in the type of another."""
    return isinstance(expr, Reduce) and expr.kind == "sum" and expr.where is None and expr.dtype == outer.dtype


def _terms(expr: Expr) -> Iterator[list[Factor]]:
    """The factors of what an expression adds, with products of sums expanded."""
    match expr:
        case Op(name="add", args=(left, right)) if left.dtype == right.dtype == expr.dtype:
            yield from _terms(left)
            yield from _terms(right)
        case Op(name="sub", args=(left, right)) if left.dtype == right.dtype == expr.dtype:
            yield from _terms(left)
            for term in _terms(right):
                yield [Factor(Const(-1, expr.dtype)), *term]
        case _:
            factors = list(factors_of(expr))
            sums = [n for n, factor in enumerate(factors) if not factor.is_divisor and _adds_sums(factor.expr)]
            if len(factors) == 1 or len(sums) != 1:
                yield factors
                return
            others = factors[: sums[0]] + factors[sums[0] + 1 :]
            for term in _terms(factors[sums[0]].expr):
                yield [*others, *term]


def _adds_sums(expr: Expr) -> bool:
    return any(isinstance(node, Reduce) for node in walk(expr))
