"""Reductions inside others, such as the scores in an attention's softmax, as statements of their own.

Written in one expression, an inner reduction would be computed anew in every step of the outer one. As a temporary
it is computed once, by the family that does it best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from cugen.plan.schedules import schedule_of
from cugen.plan.substitution import rebuilt
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Read, Reduce, Scan, children, free_indices, walk
from cugen.spec.model import Array, Schedule, Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.resolve.statements import dense_strides

_SHORT = 16  # steps that are sooner done in place than stored
_SHORT_AGAIN = 4  # where each result would be computed several times
_MOST_BYTES = 2**33  # of a temporary


@dataclass(frozen=True, slots=True)
class _Inner:
    """A reduction and the indices outside it that it depends on, in the order in which it mentions them."""

    reduction: Reduce
    free: tuple[Index, ...]
    is_nested: bool  # whether it changes with an index that another reduction or scan binds

    @property
    def form(self) -> tuple[Expr, tuple[Expr, ...]]:
        """Equal for reductions that differ in the names of their indices alone."""
        names = {index.name: f"@{place}" for place, index in enumerate(self.free)}
        return _renamed(self.reduction, names), tuple(index.extent for index in self.free)


def hoisted(spec: Spec) -> Spec:
    """The spec with inner reductions in temporaries; the spec itself where nothing is gained or a schedule is fixed."""
    statements: list[Statement] = []
    temporaries: list[Array] = []
    taken = {array.name for array in spec.arrays} | {p.name for p in spec.params} | {s.name for s in spec.scalars}
    for statement in spec.statements:
        current = statement
        while schedule_of(spec, (statement,)) == Schedule():
            found = list(_inner(current.value, {index.name: index for index in statement.indices}, ()))
            chosen = next((one for one in found if one.is_nested and _is_worth_it(one, current, spec)), None)
            if chosen is None:
                factor = _factor(current, spec)
                if factor is not None:
                    made, array = _stored(factor, current, taken)
                    taken.add(array.name)
                    statements.append(made)
                    temporaries.append(array)
                    place = tuple(IndexValue(index.name) for index in made.indices)
                    read = Read(array.name, place, array.dtype)
                    current = replace(current, value=_with(current.value, factor[0], read))
                break
            alike = [one for one in found if one.form == chosen.form]
            order = _order(chosen, current)
            made, array = _temporary(alike[0], order, current, taken)
            taken.add(array.name)
            statements.append(made)
            temporaries.append(array)
            reads = {one.reduction: _read(one, order, array) for one in alike}
            current = replace(current, value=_replaced(current.value, reads))
        statements.append(current)
    if not temporaries:
        return spec
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *temporaries))


def _inner(expr: Expr, known: Mapping[str, Index], bound: tuple[str, ...]) -> Iterator[_Inner]:
    """Every reduction below `expr`, the inner ones first; `bound` names the indices that others bind round it."""
    if isinstance(expr, Reduce | Scan):
        own = expr.indices if isinstance(expr, Reduce) else (expr.inner,)
        inside = {**known, **{index.name: index for index in own}}
        names = (*bound, *(index.name for index in own))
        for part in (expr.body, *(() if expr.where is None else (expr.where,))):
            yield from _inner(part, inside, names)
    else:
        for part in () if isinstance(expr, Read) else children(expr):
            yield from _inner(part, known, bound)
    if isinstance(expr, Reduce):
        used = free_indices(expr)
        mentioned = dict.fromkeys(node.name for node in walk(expr) if isinstance(node, IndexValue))
        free = tuple(known[name] for name in mentioned if name in used)
        yield _Inner(expr, free, any(name in used for name in bound))


def _is_worth_it(inner: _Inner, statement: Statement, spec: Spec) -> bool:
    """Whether it is long, safe to compute at every place, and its results are no more than memory holds."""
    reduction = inner.reduction
    if reduction.kind in ("argmax", "argmin") or not inner.free:
        return False
    steps = [_value(index.extent, spec) for index in reduction.indices]
    is_repeated = any(index not in inner.free for index in statement.indices)
    short = _SHORT_AGAIN if is_repeated else _SHORT
    if all(step is not None for step in steps) and prod(step or 0 for step in steps) <= short:
        return False
    sizes = [_value(index.extent, spec) for index in inner.free]
    known = prod(size for size in sizes if size is not None)
    if known * reduction.dtype.bytes > _MOST_BYTES:
        return False
    return all(_is_safe(node) for node in walk(reduction) if isinstance(node, Read))


def _is_safe(read: Read) -> bool:
    """Whether the read is inside its array wherever its indices are: guards round a reduction are not round its
    temporary."""
    return read.boundary is not None or all(isinstance(sub, IndexValue | Const) for sub in read.subscripts)


def _factor(statement: Statement, spec: Spec) -> tuple[Expr, tuple[Index, ...]] | None:
    """What the terms of a sum have in common over an index of the result and hold reductions, with its indices: the
    weights of an attention's values. It is found in the largest part that is so."""
    known = {index.name: index for index in statement.indices}
    for node in walk(statement.value):
        if not isinstance(node, Reduce) or node.kind != "sum" or node.where is not None:
            continue
        if not known.keys() <= free_indices(node):
            continue
        inside = {**known, **{index.name: index for index in node.indices}}
        own = {index.name for index in node.indices}
        open_: list[Expr] = [node.body]
        while open_:
            part = open_.pop(0)
            if isinstance(part, Read | Reduce | Scan) or not any(isinstance(n, Reduce) for n in walk(part)):
                continue
            used = free_indices(part)
            if used & own and not known.keys() <= used and used <= inside.keys():
                indices = tuple(index for name, index in inside.items() if name in used)
                sizes = [_value(index.extent, spec) or 1 for index in indices]
                reads = [n for n in walk(part) if isinstance(n, Read)]
                if prod(sizes) * part.dtype.bytes <= _MOST_BYTES and all(map(_is_safe, reads)):
                    return part, indices
            open_ += children(part)
    return None


def _stored(factor: tuple[Expr, tuple[Index, ...]], statement: Statement, taken: set[str]) -> tuple[Statement, Array]:
    """The statement that makes a factor, and its temporary."""
    value, indices = factor
    name = f"{statement.target}_weights"
    while name in taken:
        name += "_"
    shape = tuple(index.extent for index in indices)
    array = Array(name, shape, value.dtype, "temporary", dense_strides(shape), is_temporary=True)
    subscripts = tuple(IndexValue(index.name) for index in indices)
    text = f"{name}[{', '.join(index.name for index in indices)}] = weights of: {statement.text}"
    return Statement(name, subscripts, indices, value, text=text, span=statement.span), array


def _with(expr: Expr, part: Expr, read: Read) -> Expr:
    return read if expr == part else rebuilt(expr, lambda inner: _with(inner, part, read))


def _value(extent: Expr, spec: Spec) -> int | None:
    form = affine_form(extent, {param.name: param for param in spec.params})
    return form.constant if form.is_constant else None


def _order(inner: _Inner, statement: Statement) -> tuple[int, ...]:
    """The places of the free indices as dimensions: those of the statement first, as it has them."""
    own = [index.name for index in statement.indices]
    place = {name: position for position, name in enumerate(own)}
    return tuple(sorted(range(len(inner.free)), key=lambda at: place.get(inner.free[at].name, len(own))))


def _temporary(inner: _Inner, order: tuple[int, ...], statement: Statement, taken: set[str]) -> tuple[Statement, Array]:
    reduction = inner.reduction
    indices = tuple(inner.free[place] for place in order)
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


def _read(inner: _Inner, order: tuple[int, ...], array: Array) -> Read:
    return Read(array.name, tuple(IndexValue(inner.free[place].name) for place in order), array.dtype)


def _replaced(expr: Expr, reads: Mapping[Reduce, Read]) -> Expr:
    if isinstance(expr, Reduce) and expr in reads:
        return reads[expr]
    if isinstance(expr, Scan):
        where = None if expr.where is None else _replaced(expr.where, reads)
        return replace(expr, body=_replaced(expr.body, reads), where=where)
    return rebuilt(expr, lambda part: _replaced(part, reads))


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with its indices renamed, bound ones by their depth."""
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
