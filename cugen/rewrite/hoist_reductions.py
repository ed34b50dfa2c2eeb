"""Hoists reductions that are nested in others into temporaries (loop-invariant code motion).

    y[i] = sum(exp(sum(a[j, k] * b[i, k], k)), j)
becomes
    y_sum[i, j] = sum(a[j, k] * b[i, k], k);  y[i] = sum(exp(y_sum[i, j]), j)
so that each is computed once, by the family that suits it, such as the scores of an attention by a GEMM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, prod

from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    Scan,
    bound_indices,
    children,
    free_indices,
    walk,
)
from cugen.spec.model import Array, Memory, Schedule, Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.prove.bounds import BoundsChecker
from cugen.spec.rewriting import rebuild, replaced

_MAX_INLINE_TERMS = 16  # a shorter nested reduction is cheaper in place than through memory (heuristic)
_MAX_REPEATED_INLINE_TERMS = 4  # the same, where each result would be computed several times
_MIN_BROADCAST_TERMS = 1 << 21  # of all outputs; fewer take a device less time than a second launch (heuristic)
_MIN_OUTPUTS_OF_A_RESULT = 4  # for a launch of its own (heuristic)
_MAX_TEMPORARY_BYTES = 2**33


@dataclass(frozen=True, slots=True)
class _NestedReduction:
    """A reduction and its free indices, in the order of their first use."""

    reduction: Reduce
    free: tuple[Index, ...]
    is_nested: bool  # whether a free index is bound by an enclosing reduction or scan
    enclosing: tuple[Index, ...]  # the indices of the enclosing reductions and scans
    is_reduced: bool  # whether a reduction encloses it

    @property
    def canonical(self) -> tuple[Expr, tuple[Expr, ...]]:
        """The reduction up to the names of its indices, with the extents of its free indices."""
        names = {index.name: f"@{position}" for position, index in enumerate(self.free)}
        return _renamed(self.reduction, names), tuple(index.extent for index in self.free)


def hoisted(
    spec: Spec,
    keeps_nested: Callable[[Statement], bool] = lambda statement: False,
    needs_stages: Callable[[Statement, Spec], bool] = lambda statement, spec: False,
) -> Spec:
    """The spec with nested reductions in temporaries; the same object if none is hoisted.

    Statements with a schedule are left as they are written, and those of `keeps_nested`. Those of `needs_stages` are
    slow with any reduction in place: short ones are hoisted, too."""
    stages = _Stages(spec)
    for statement in spec.statements:
        current, has_schedule = statement, schedule_of(spec, (statement,)) != Schedule()
        weights: list[Temporary] = []
        while not has_schedule:
            nested = list(_reductions(current.value, {index.name: index for index in statement.indices}, ()))
            chosen = next((r for r in nested if _is_profitable(r, current, spec)), None)
            if chosen is None:
                so_far = replace(spec, arrays=(*spec.arrays, *stages.arrays))
                candidates = [r for r in nested if _is_stage(r, current, so_far)]
                chosen = candidates[0] if candidates and needs_stages(current, so_far) else None
            if chosen is not None and current is statement and keeps_nested(statement):
                break
            reads = stages.of_reduction(chosen, nested, current) if chosen else stages.of_factor(weights, current)
            if not reads:
                break
            current = replace(current, value=replaced(current.value, reads.get))
        stages.statements.append(current)
    if not stages.arrays:
        return spec
    return replace(spec, statements=tuple(stages.statements), arrays=(*spec.arrays, *stages.arrays))


class _Stages:
    """The statements and temporaries of a spec, while its reductions are hoisted."""

    def __init__(self, spec: Spec) -> None:
        self.statements: list[Statement] = []
        self.arrays: list[Array] = []
        self._spec, self._taken = spec, taken_names(spec)

    def of_reduction(
        self, chosen: _NestedReduction, nested: list[_NestedReduction], statement: Statement
    ) -> dict[Expr, Expr]:
        """Stores a reduction; the reads in place of all that are the same over other indices."""
        identical = [reduction for reduction in nested if reduction.canonical == chosen.canonical]
        first, order = identical[0], _dimensions(chosen, statement)
        indices = tuple(first.free[position] for position in order)
        what = f"{first.reduction.kind} over {', '.join(index.name for index in first.reduction.indices)},"
        name = f"{statement.target}_{first.reduction.kind}"
        stored = self._store(name, indices, first.reduction, what, statement)
        reads: dict[Expr, Expr] = {}
        for r in identical:
            subscripts = tuple(IndexValue(r.free[position].name) for position in order)
            reads[r.reduction] = replace(stored.read, subscripts=subscripts)
        return reads

    def of_factor(self, weights: list[Temporary], statement: Statement) -> dict[Expr, Expr]:
        """Stores the invariant factor of a sum, unless one of the `weights` has its values; the read in its place."""
        factor = _invariant_factor(statement, self._spec)
        if factor is None:
            return {}
        value, indices = factor
        known = {index.name: index for index in (*statement.indices, *indices)}
        read = next(filter(None, (stored.read_of(value, known) for stored in weights)), None)
        if read is None:
            weights.append(self._store(f"{statement.target}_weights", indices, value, "weights", statement))
            read = weights[-1].read
            # Once its reduction is split off, it would be recomputed where it is read.
            self.arrays[-1] = replace(self.arrays[-1], memory=Memory("scratch"))
        return {value: read}

    def _store(self, name: str, indices: tuple[Index, ...], value: Expr, what: str, source: Statement) -> Temporary:
        stored = temporary(fresh(name, self._taken), indices, value, f"{what} of: {source.text}", source)
        self.statements.append(stored.statement)
        self.arrays.append(stored.array)
        return stored


def _reductions(
    expr: Expr, known: Mapping[str, Index], bound: tuple[str, ...], *, is_reduced: bool = False
) -> Iterator[_NestedReduction]:
    """All reductions of `expr`, inner ones first; `bound` names the indices of enclosing reductions and scans."""
    inner_is_reduced = is_reduced or isinstance(expr, Reduce)
    if isinstance(expr, Reduce | Scan):
        indices = expr.indices if isinstance(expr, Reduce) else (expr.inner,)
        inside = {**known, **{index.name: index for index in indices}}
        names = (*bound, *(index.name for index in indices))
        for part in (expr.body, *(() if expr.where is None else (expr.where,))):
            yield from _reductions(part, inside, names, is_reduced=inner_is_reduced)
    else:
        for part in () if isinstance(expr, Read) else children(expr):
            yield from _reductions(part, known, bound, is_reduced=inner_is_reduced)
    if isinstance(expr, Reduce):
        used = free_indices(expr)
        mentioned = dict.fromkeys(node.name for node in walk(expr) if isinstance(node, IndexValue))
        free = tuple(known[name] for name in mentioned if name in used)
        is_nested = any(name in used for name in bound)
        yield _NestedReduction(expr, free, is_nested, tuple(known[name] for name in bound), is_reduced)


def _dimensions(nested: _NestedReduction, statement: Statement) -> list[int]:
    """The order of the temporary's dimensions, by number of the free index: the batch of a GEMM comes first, so that
    the results of each matrix are adjacent; then the statement's indices, in its order, then others."""
    rank = {index.name: n for n, index in enumerate(statement.indices)}
    reads = [free_indices(node) for node in walk(nested.reduction.body) if isinstance(node, Read)]
    is_product = any((a - b) & rank.keys() and (b - a) & rank.keys() for a, b in combinations(reads, 2))
    batch = frozenset.intersection(*reads) - rank.keys() if is_product else frozenset[str]()

    def rank_of(position: int) -> tuple[bool, int]:
        name = nested.free[position].name
        return name not in batch, rank.get(name, len(rank))

    return sorted(range(len(nested.free)), key=rank_of)


def _is_profitable(nested: _NestedReduction, statement: Statement, spec: Spec) -> bool:
    """Whether the reduction is long, in bounds everywhere, and its temporary within the size limit."""
    reduction = nested.reduction
    is_repeated = any(index not in nested.free for index in statement.indices)
    if not nested.is_nested and not (is_repeated and _outweighs_enclosing(nested, spec)):
        return False
    extents = [_value(index.extent, spec) for index in reduction.indices]
    max_terms = _MAX_REPEATED_INLINE_TERMS if is_repeated else _MAX_INLINE_TERMS
    if all(extent is not None for extent in extents) and prod(extent or 0 for extent in extents) <= max_terms:
        return False
    sizes = [_value(index.extent, spec) for index in nested.free]
    known = prod(size for size in sizes if size is not None)
    if known * reduction.dtype.bytes > _MAX_TEMPORARY_BYTES:
        return False
    # A window is left in its statement, where it slides, unless each result would be computed several times.
    return not _windows(reduction) or (is_repeated and are_in_bounds(reduction, nested.free, spec))


def _is_stage(nested: _NestedReduction, statement: Statement, spec: Spec) -> bool:
    """Whether the reduction may be a launch of its own: it is in bounds everywhere, and it is long or has no more
    results than an array that it reads has elements, as pooled windows but not all pairs of two sets. One that is
    nested in no other is computed once for several outputs, if these take longer than the launch. Sizes that are known
    at launch are taken to be typical ones."""
    reduction = nested.reduction
    typical = at_typical_sizes(spec)
    is_broadcast = _is_broadcast(nested, statement, typical)
    if not (nested.is_nested or is_broadcast):
        return False
    terms = elements(reduction.indices, typical)
    is_long = is_broadcast or (terms is not None and terms > _MAX_INLINE_TERMS)
    is_small = is_long or has_no_more_elements(reduction, nested.free, typical)
    results = elements(nested.free, typical)
    if results is None or results * reduction.dtype.bytes > _MAX_TEMPORARY_BYTES:
        return False
    return is_small and are_in_bounds(reduction, nested.free, spec)


def _is_broadcast(nested: _NestedReduction, statement: Statement, spec: Spec) -> bool:
    """Whether many outputs have one result of a reduction, and its terms take longer than another launch."""
    terms, outputs = elements(nested.reduction.indices, spec), elements(statement.indices, spec)
    results = elements(nested.free, spec)
    if nested.is_reduced or terms is None or outputs is None or results is None:
        return False
    is_shared = _MIN_OUTPUTS_OF_A_RESULT * results <= outputs
    return is_shared and terms > _MAX_REPEATED_INLINE_TERMS and terms * outputs >= _MIN_BROADCAST_TERMS


def has_no_more_elements(
    value: Expr, indices: tuple[Index, ...], spec: Spec, recomputed: Set[str] = frozenset()
) -> bool:
    """Whether a value over `indices` has no more elements than an array that it reads, other than `recomputed` ones."""
    results = elements(indices, spec)
    read = {node.array for node in walk(value) if isinstance(node, Read)} - recomputed
    shapes = [spec.array(name).shape for name in read]
    largest = max((prod(_value(extent, spec) or 0 for extent in shape) for shape in shapes), default=0)
    return results is not None and results <= largest


def elements(indices: tuple[Index, ...], spec: Spec) -> int | None:
    """The product of the extents; None where one is dynamic."""
    sizes = [_value(index.extent, spec) for index in indices]
    return None if None in sizes else prod(size or 0 for size in sizes)


def at_typical_sizes(spec: Spec) -> Spec:
    """The spec with typical values of the params that are known at launch."""
    return replace(spec, params=tuple(replace(param, value=param.typical) for param in spec.params))


def _outweighs_enclosing(nested: _NestedReduction, spec: Spec) -> bool:
    """Whether an invariant reduction, the same in all steps of the enclosing ones, is longer than they are. Else it is
    a stage of the same row, which costs no more than the others."""
    inner = [_value(index.extent, spec) for index in nested.reduction.indices]
    outer = [_value(index.extent, spec) for index in nested.enclosing]
    if not outer or None in outer:
        return False
    return prod(inf if extent is None else extent for extent in inner) > prod(extent or 0 for extent in outer)


def _windows(value: Expr) -> list[Read]:
    """The reads whose subscripts are more than indices, and that a guard may keep in bounds."""
    reads = (node for node in walk(value) if isinstance(node, Read) and node.boundary is None)
    return [r for r in reads if not all(isinstance(subscript, IndexValue | Const) for subscript in r.subscripts)]


def are_in_bounds(value: Expr, indices: tuple[Index, ...], spec: Spec) -> bool:
    """Whether the reads of a value over `indices` are in bounds without the guards that enclose it: its temporary has
    none of them."""
    params, arrays = {param.name: param for param in spec.params}, {array.name: array for array in spec.arrays}
    checker = BoundsChecker(params, arrays, Reporter(spec.file, spec.text), spec.require)
    known = (*indices, *bound_indices(value))
    return all(checker.stays_in_bounds(read, known) for read in _windows(value))


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
                if prod(sizes) * part.dtype.bytes <= _MAX_TEMPORARY_BYTES and are_in_bounds(part, indices, spec):
                    return part, indices
            queue += children(part)
    return None


def _value(extent: Expr, spec: Spec) -> int | None:
    form = affine_form(extent, {param.name: param for param in spec.params})
    return form.constant if form.is_constant else None


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with its indices renamed, bound ones by their nesting depth."""
    match expr:
        case IndexValue(name=name):
            return IndexValue(names.get(name, name))
        case Reduce():
            inner = {**names, **{index.name: f"#{len(names) + n}" for n, index in enumerate(expr.indices)}}
            bound = tuple(replace(index, name=inner[index.name]) for index in expr.indices)
            return rebuild(replace(expr, indices=bound), lambda part: _renamed(part, inner))
        case Scan():
            inner = {**names, expr.inner.name: f"#{len(names)}"}
            bound_index, outer = replace(expr.inner, name=inner[expr.inner.name]), names.get(expr.outer, expr.outer)
            return rebuild(replace(expr, inner=bound_index, outer=outer), lambda part: _renamed(part, inner))
    return rebuild(expr, lambda part: _renamed(part, names))
