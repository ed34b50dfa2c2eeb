"""Hoists reductions that are nested in others into temporaries (loop-invariant code motion).

    y[i] = sum(exp(sum(a[j, k] * b[i, k], k)), j)
becomes
    y_sum[i, j] = sum(a[j, k] * b[i, k], k);  y[i] = sum(exp(y_sum[i, j]), j)
so that each is computed once, by the family that suits it, such as the scores of an attention by a GEMM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from cugen.plan.traversal.substitution import rebuilt
from cugen.rewrite.schedules import schedule_of
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Read, Reduce, Scan, children, free_indices, walk
from cugen.spec.model import Array, Schedule, Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.resolve.statements import dense_strides

_MAX_INLINE_TERMS = 16  # a shorter nested reduction is cheaper in place than through memory (heuristic)
_MAX_REPEATED_INLINE_TERMS = 4  # the same, where each result would be computed several times
_MAX_TEMPORARY_BYTES = 2**33


@dataclass(frozen=True, slots=True)
class _NestedReduction:
    """A reduction and its free indices, in the order of their first use."""

    reduction: Reduce
    free: tuple[Index, ...]
    is_nested: bool  # whether a free index is bound by an enclosing reduction or scan

    @property
    def canonical(self) -> tuple[Expr, tuple[Expr, ...]]:
        """The reduction up to the names of its indices, with the extents of its free indices."""
        names = {index.name: f"@{position}" for position, index in enumerate(self.free)}
        return _renamed(self.reduction, names), tuple(index.extent for index in self.free)


def hoisted(spec: Spec) -> Spec:
    """The spec with nested reductions in temporaries; the same object if none is hoisted.

    Statements with a schedule are left as they are written."""
    statements: list[Statement] = []
    temporaries: list[Array] = []
    taken = {array.name for array in spec.arrays} | {p.name for p in spec.params} | {s.name for s in spec.scalars}
    for statement in spec.statements:
        current = statement
        while schedule_of(spec, (statement,)) == Schedule():
            nested = list(_reductions(current.value, {index.name: index for index in statement.indices}, ()))
            chosen = next((r for r in nested if r.is_nested and _is_profitable(r, current, spec)), None)
            if chosen is None:
                factor = _invariant_factor(current, spec)
                if factor is not None:
                    definition, array = _factor_temporary(factor, current, taken)
                    taken.add(array.name)
                    statements.append(definition)
                    temporaries.append(array)
                    subscripts = tuple(IndexValue(index.name) for index in definition.indices)
                    read = Read(array.name, subscripts, array.dtype)
                    current = replace(current, value=_with_read(current.value, factor[0], read))
                break
            identical = [reduction for reduction in nested if reduction.canonical == chosen.canonical]
            order = _dimension_order(chosen, current)
            definition, array = _temporary(identical[0], order, current, taken)
            taken.add(array.name)
            statements.append(definition)
            temporaries.append(array)
            reads = {reduction.reduction: _read(reduction, order, array) for reduction in identical}
            current = replace(current, value=_replaced(current.value, reads))
        statements.append(current)
    if not temporaries:
        return spec
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *temporaries))


def _reductions(expr: Expr, known: Mapping[str, Index], bound: tuple[str, ...]) -> Iterator[_NestedReduction]:
    """All reductions of `expr`, inner ones first; `bound` names the indices of enclosing reductions and scans."""
    if isinstance(expr, Reduce | Scan):
        indices = expr.indices if isinstance(expr, Reduce) else (expr.inner,)
        inside = {**known, **{index.name: index for index in indices}}
        names = (*bound, *(index.name for index in indices))
        for part in (expr.body, *(() if expr.where is None else (expr.where,))):
            yield from _reductions(part, inside, names)
    else:
        for part in () if isinstance(expr, Read) else children(expr):
            yield from _reductions(part, known, bound)
    if isinstance(expr, Reduce):
        used = free_indices(expr)
        mentioned = dict.fromkeys(node.name for node in walk(expr) if isinstance(node, IndexValue))
        free = tuple(known[name] for name in mentioned if name in used)
        yield _NestedReduction(expr, free, any(name in used for name in bound))


def _is_profitable(nested: _NestedReduction, statement: Statement, spec: Spec) -> bool:
    """Whether the reduction is long, in bounds everywhere, and its temporary within the size limit."""
    reduction = nested.reduction
    if reduction.kind in ("argmax", "argmin") or not nested.free:
        return False
    extents = [_value(index.extent, spec) for index in reduction.indices]
    is_repeated = any(index not in nested.free for index in statement.indices)
    max_terms = _MAX_REPEATED_INLINE_TERMS if is_repeated else _MAX_INLINE_TERMS
    if all(extent is not None for extent in extents) and prod(extent or 0 for extent in extents) <= max_terms:
        return False
    sizes = [_value(index.extent, spec) for index in nested.free]
    known = prod(size for size in sizes if size is not None)
    if known * reduction.dtype.bytes > _MAX_TEMPORARY_BYTES:
        return False
    return all(_is_in_bounds(node) for node in walk(reduction) if isinstance(node, Read))


def _is_in_bounds(read: Read) -> bool:
    """Whether the read is in bounds without the guards that enclose the reduction: its temporary has none of them."""
    return read.boundary is not None or all(isinstance(sub, IndexValue | Const) for sub in read.subscripts)


def _invariant_factor(statement: Statement, spec: Spec) -> tuple[Expr, tuple[Index, ...]] | None:
    """The largest part of a sum's term that holds a reduction and doesn't depend on all output indices; its indices.

    In an attention's output it is the softmax, which all columns of the values share."""
    known = {index.name: index for index in statement.indices}
    for node in walk(statement.value):
        if not isinstance(node, Reduce) or node.kind != "sum" or node.where is not None:
            continue
        if not known.keys() <= free_indices(node):
            continue
        inside = {**known, **{index.name: index for index in node.indices}}
        summed = {index.name for index in node.indices}
        queue: list[Expr] = [node.body]
        while queue:
            part = queue.pop(0)
            if isinstance(part, Read | Reduce | Scan) or not any(isinstance(n, Reduce) for n in walk(part)):
                continue
            used = free_indices(part)
            if used & summed and not known.keys() <= used and used <= inside.keys():
                indices = tuple(index for name, index in inside.items() if name in used)
                sizes = [_value(index.extent, spec) or 1 for index in indices]
                reads = [n for n in walk(part) if isinstance(n, Read)]
                if prod(sizes) * part.dtype.bytes <= _MAX_TEMPORARY_BYTES and all(map(_is_in_bounds, reads)):
                    return part, indices
            queue += children(part)
    return None


def _factor_temporary(
    factor: tuple[Expr, tuple[Index, ...]], statement: Statement, taken: set[str]
) -> tuple[Statement, Array]:
    """The statement that computes a factor, and its temporary."""
    value, indices = factor
    name = f"{statement.target}_weights"
    while name in taken:
        name += "_"
    shape = tuple(index.extent for index in indices)
    array = Array(name, shape, value.dtype, "temporary", dense_strides(shape), is_temporary=True)
    subscripts = tuple(IndexValue(index.name) for index in indices)
    text = f"{name}[{', '.join(index.name for index in indices)}] = weights of: {statement.text}"
    return Statement(name, subscripts, indices, value, text=text, span=statement.span), array


def _with_read(expr: Expr, part: Expr, read: Read) -> Expr:
    return read if expr == part else rebuilt(expr, lambda child: _with_read(child, part, read))


def _value(extent: Expr, spec: Spec) -> int | None:
    form = affine_form(extent, {param.name: param for param in spec.params})
    return form.constant if form.is_constant else None


def _dimension_order(nested: _NestedReduction, statement: Statement) -> tuple[int, ...]:
    """The positions of the free indices as dimensions: first those of the statement, in its order."""
    names = [index.name for index in statement.indices]
    rank = {name: position for position, name in enumerate(names)}
    return tuple(sorted(range(len(nested.free)), key=lambda n: rank.get(nested.free[n].name, len(names))))


def _temporary(
    nested: _NestedReduction, order: tuple[int, ...], statement: Statement, taken: set[str]
) -> tuple[Statement, Array]:
    """The statement that computes a reduction, and its temporary."""
    reduction = nested.reduction
    indices = tuple(nested.free[position] for position in order)
    name = f"{statement.target}_{reduction.kind}"
    while name in taken:
        name += "_"
    shape = tuple(index.extent for index in indices)
    array = Array(name, shape, reduction.dtype, "temporary", dense_strides(shape), is_temporary=True)
    over = ", ".join(index.name for index in reduction.indices)
    subscripted = ", ".join(index.name for index in indices)
    text = f"{name}[{subscripted}] = {reduction.kind} over {over}, of: {statement.text}"
    subscripts = tuple(IndexValue(index.name) for index in indices)
    return Statement(name, subscripts, indices, reduction, text=text, span=statement.span), array


def _read(nested: _NestedReduction, order: tuple[int, ...], array: Array) -> Read:
    return Read(array.name, tuple(IndexValue(nested.free[position].name) for position in order), array.dtype)


def _replaced(expr: Expr, reads: Mapping[Reduce, Read]) -> Expr:
    if isinstance(expr, Reduce) and expr in reads:
        return reads[expr]
    if isinstance(expr, Scan):
        where = None if expr.where is None else _replaced(expr.where, reads)
        return replace(expr, body=_replaced(expr.body, reads), where=where)
    return rebuilt(expr, lambda part: _replaced(part, reads))


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with its indices renamed, bound ones by their nesting depth."""
    match expr:
        case IndexValue(name=name):
            return IndexValue(names.get(name, name))
        case Read():
            exact = tuple((_renamed(dividend, names), divisor) for dividend, divisor in expr.exact)
            return replace(expr, subscripts=tuple(_renamed(sub, names) for sub in expr.subscripts), exact=exact)
        case Reduce():
            inner = {**names, **{index.name: f"#{len(names) + n}" for n, index in enumerate(expr.indices)}}
            bound = tuple(replace(index, name=inner[index.name]) for index in expr.indices)
            where = None if expr.where is None else _renamed(expr.where, inner)
            return replace(expr, indices=bound, body=_renamed(expr.body, inner), where=where)
        case Scan():
            inner = {**names, expr.inner.name: f"#{len(names)}"}
            where = None if expr.where is None else _renamed(expr.where, inner)
            bound_index = replace(expr.inner, name=inner[expr.inner.name])
            outer = names.get(expr.outer, expr.outer)
            return replace(expr, inner=bound_index, outer=outer, body=_renamed(expr.body, inner), where=where)
    return rebuilt(expr, lambda part: _renamed(part, names))
