"""Reductions of windows that are separable, as one pass along each dimension.

    y[i, j] = sum(g[r] * g[s] * x[i + r - 5, j + s - 5], r, s)
becomes
    y_pass[i, j] = sum(g[s] * x[i, j + s - 5], s);  y[i, j] = sum(g[r] * y_pass[i + r - 5, j], r)
which are R + S terms in place of R * S. Of several arrays, columns further on may be read, as those at a disparity d:
    y[i, j, d] = sum(abs(x[i + r, j + s] - z[i + r, j + s - d]), r, s)
A boundary is one of each dimension, so that rows beyond it are those of the
pass. A sum has no more roundings then, and other reductions have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cugen.machine.mma import WORD_BYTES
from cugen.plan.traversal.vanishing import vanishes
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.hoist_reductions import are_in_bounds, at_typical_sizes, elements
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.rewrite.sums.flattened import flattened
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES, Temporary, temporary
from cugen.spec.expressions import (
    Boundary,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    Scan,
    free_indices,
    outermost_reductions,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import replaced

_MIN_TERMS_PER_ELEMENT = 24  # saved for each element of a pass; windows of 5 x 5 take as long at once (heuristic)
_MIN_SAVED_TERMS = 1 << 26  # that take longer than a launch (heuristic)
_MIN_TERMS_PER_STORED_BYTE = 16  # saved, from which on a pass may be a launch of its own (heuristic)
_VECTOR_BYTES = 16
_KINDS = ("sum", "max", "min", "any", "all")


@dataclass(frozen=True, slots=True)
class _Pass:
    """A reduction along one dimension, and the reduction of its results."""

    stored: Temporary
    of_passes: Reduce


@dataclass(frozen=True, slots=True)
class _Window:
    """The reads of a window, of arrays of one boundary and of rows of the same numbers. Its last dimension with reduced
    indices is `along`: subscripts of it have the reduced indices `inner` and an index of the results, `column`. In one
    of them there is no other; others may be those of columns further on, `j + s - d`."""

    reads: tuple[Read, ...]
    along: int
    inner: frozenset[str]
    column: Index

    @property
    def subscripts(self) -> tuple[Expr, ...]:
        """Those of rows, and one of columns."""
        return self.reads[0].subscripts

    @property
    def boundary(self) -> Boundary | None:
        return self.reads[0].boundary


def with_separable_windows(spec: Spec, is_placed: Callable[[Statement, Spec], bool]) -> Spec:
    """The spec with passes in temporaries where they save enough terms; the same object if there are none. Statements
    that ask for a placement stay as they are."""
    arrays, statements = spec.arrays, list[Statement]()
    for statement in spec.statements:
        current = statement
        while not is_placed(statement, spec):
            here = replace(spec, arrays=arrays)
            taken = taken_names(here)
            reductions = dict.fromkeys(outermost_reductions(current.value))
            passes = ((r, _first_pass(r, current, here, set(taken))) for r in reductions)
            reduction, first = next(((r, p) for r, p in passes if p), (None, None))
            if reduction is None or first is None:
                break
            second: dict[Expr, Expr] = {reduction: first.of_passes}
            statements.append(first.stored.statement)
            arrays = (*arrays, first.stored.array)
            current = replace(current, value=replaced(current.value, second.get))
        statements.append(current)
    return spec if arrays == spec.arrays else replace(spec, arrays=arrays, statements=tuple(statements))


def _first_pass(reduction: Reduce, statement: Statement, spec: Spec, taken: set[str]) -> _Pass | None:
    """The pass along the last dimension of the only window that is read, whose terms are separable; None where it saves
    too few of them."""
    reduction = flattened(reduction, _of(statement))
    window = _window_of(reduction, statement, spec)
    split = None if window is None else _split_factors(reduction, window)
    if window is None or split is None:
        return None
    inside, outside = split
    array, along, column = spec.array(window.reads[0].array), window.along, window.column
    rows = tuple(
        column if n == along else _row(sub, extent, statement, taken)
        for n, (sub, extent) in enumerate(zip(window.subscripts, array.shape, strict=True))
    )
    body = product_of(inside)
    further = _further_indices(window, body, rows, statement)
    if further is None or not _keeps_boundary(reduction, window, body, (*rows, *further), spec):
        return None
    indices = _in_order(rows, further, statement)
    value = _along_rows(reduction, window, body, rows)
    if len({index.name for index in indices}) < len(indices) or not are_in_bounds(value, indices, spec):
        return None
    of_rest = tuple(index for index in reduction.indices if index.name not in window.inner)
    has_launch = _launch_pays(value, statement, indices, of_rest, spec)
    if has_launch is None:
        return None
    names = " and ".join(read.array for read in window.reads)
    what = f"{reduction.kind} along dimension {along} of {names}, of: {statement.text}"
    name = fresh(f"{statement.target}_pass", taken)
    stored = temporary(name, indices, value, what, statement, is_stored=has_launch)
    stored = replace(stored, array=replace(stored.array, boundary=window.boundary))
    row_subscripts = {row: sub for n, (row, sub) in enumerate(zip(rows, window.subscripts, strict=True)) if n != along}
    read_at = tuple(row_subscripts.get(index, IndexValue(index.name)) for index in indices)
    read = replace(stored.read, subscripts=read_at, boundary=window.boundary)
    return _Pass(stored, replace(reduction, body=product_of([Factor(read), *outside]), indices=of_rest))


def _window_of(reduction: Reduce, statement: Statement, spec: Spec) -> _Window | None:
    """The only window of a reduction without a condition; None where its dimensions share an index."""
    names = {index.name for index in reduction.indices}
    moved = [node for node in walk(reduction.body) if isinstance(node, Read) and len(free_indices(node) & names) > 1]
    reads = tuple(dict.fromkeys(moved))
    has_loops = any(isinstance(node, Reduce | Scan) for node in walk(reduction.body))
    if not reads or reduction.kind not in _KINDS or reduction.where is not None or has_loops:
        return None
    spread = [dimension for dimension, sub in enumerate(reads[0].subscripts) if free_indices(sub) & names]
    along = spread[-1]
    if len(spread) < 2 or len({_rows_of(read, along, names, spec) for read in reads}) != 1:
        return None
    outer = [free_indices(read.subscripts[along]) & _of(statement) for read in reads]
    column = next((only for only in outer if len(only) == 1), frozenset())
    inner = free_indices(reads[0].subscripts[along]) & names
    others = [free_indices(sub) for n, sub in enumerate(reads[0].subscripts) if n != along]
    if not column or not all(column <= of_read for of_read in outer):
        return None
    if any((inner | frozenset().union(*outer)) & used for used in others):
        return None
    if any(not names <= free_indices(read) or read.exact or _gathers(read) for read in reads):
        return None
    if statement.target in {read.array for read in reads}:
        return None
    (index,) = (index for index in statement.indices if index.name in column)
    return _Window(reads, along, frozenset(inner), index)


def _rows_of(read: Read, along: int, names: set[str], spec: Spec) -> tuple[object, ...]:
    """What the reads of a window have in common: all but which columns they are of, and how many these arrays have."""
    if len(read.subscripts) <= along:
        return (read,)
    rows, shape = list(read.subscripts), list(spec.array(read.array).shape)
    inner = free_indices(rows.pop(along)) & names
    del shape[along]
    return inner, tuple(rows), tuple(shape), read.boundary


def _split_factors(reduction: Reduce, window: _Window) -> tuple[list[Factor], list[Factor]] | None:
    """The factors of a term that the pass along the last dimension has, and the others; None where one is of both."""
    factors = list(factors_of(reduction.body)) if reduction.kind == "sum" else [Factor(reduction.body)]
    inside = [factor for factor in factors if factor.indices & window.inner]
    outside = [factor for factor in factors if factor not in inside]
    if all(factor.is_divisor for factor in inside) or any(factor.indices & window.inner for factor in outside):
        return None
    return inside, outside


def _along_rows(reduction: Reduce, window: _Window, body: Expr, rows: tuple[Index, ...]) -> Reduce:
    """The reduction of the terms `body` along the last dimension, of all rows."""

    def in_row(read: Read) -> Read:
        pairs = enumerate(zip(read.subscripts, rows, strict=True))
        subscripts = tuple(sub if n == window.along else IndexValue(row.name) for n, (sub, row) in pairs)
        return replace(read, subscripts=subscripts)

    moved: dict[Expr, Expr] = {read: in_row(read) for read in window.reads}
    of_inner = tuple(index for index in reduction.indices if index.name in window.inner)
    return replace(reduction, body=replaced(body, moved.get), indices=of_inner)


def _further_indices(
    window: _Window, body: Expr, rows: tuple[Index, ...], statement: Statement
) -> tuple[Index, ...] | None:
    """The indices of the results by which columns are further on, as disparities of a stereo match; None where a term
    depends on others than those, its row and its column. Factors of such an index, as filters of several features, are
    those of a GEMM."""
    pairs = zip(window.subscripts, rows, strict=True)
    known = {row.name for sub, row in pairs if sub == IndexValue(row.name)} | window.inner
    columns = frozenset().union(*(free_indices(read.subscripts[window.along]) for read in window.reads))
    anywhere: dict[Expr, Expr] = {read: replace(read, subscripts=()) for read in window.reads}
    if not free_indices(replaced(body, anywhere.get)) <= known | columns:
        return None
    names = columns - known - {window.column.name}
    indices = tuple(index for index in statement.indices if index.name in names)
    return indices if len(indices) == len(names) else None


def _in_order(rows: tuple[Index, ...], further: tuple[Index, ...], statement: Statement) -> tuple[Index, ...]:
    """The indices of a pass: those beside rows and columns are in the order of the results."""
    positions = {index.name: n for n, index in enumerate(statement.indices)}
    indices = list(rows)
    for index in further:
        later = (n for n, row in enumerate(indices) if positions.get(row.name, -1) > positions[index.name])
        indices.insert(next(later, len(indices)), index)
    return tuple(indices)


def _launch_pays(
    value: Reduce, statement: Statement, indices: tuple[Index, ...], of_rest: tuple[Index, ...], spec: Spec
) -> bool | None:
    """Whether the pass may be a launch of its own; None where it saves too few terms at all, or is too large."""
    sizes, element_bytes = at_typical_sizes(spec), value.dtype.bytes
    results, size, inner_terms, rest_terms, row_size = (
        elements(counted, sizes) or 0 for counted in (statement.indices, indices, value.indices, of_rest, indices[-1:])
    )
    saved = results * inner_terms * rest_terms - size * inner_terms - results * rest_terms
    min_saved = max(_MIN_TERMS_PER_ELEMENT * size, _MIN_SAVED_TERMS)
    if not (0 < size * element_bytes <= MAX_TEMPORARY_BYTES and saved >= min_saved):
        return None
    # Both passes in one launch load tiles, by single elements where rows aren't whole vectors: wide halos take longer.
    has_partial_vectors = row_size * element_bytes % _VECTOR_BYTES != 0
    return has_partial_vectors and saved >= _MIN_TERMS_PER_STORED_BYTE * size * max(element_bytes, WORD_BYTES)


def _of(statement: Statement) -> frozenset[str]:
    return frozenset(index.name for index in statement.indices)


def _gathers(window: Read) -> bool:
    return any(isinstance(node, Read) for sub in window.subscripts for node in walk(sub))


def _keeps_boundary(reduction: Reduce, window: _Window, body: Expr, indices: tuple[Index, ...], spec: Spec) -> bool:
    """Whether the reduction of a row beyond the edge is the boundary's value there: one of an element, unless that is
    none or 0 because an extent that is known at launch may be 0."""
    if window.boundary is None:
        return True
    if window.boundary.mode not in ("zero", "value") and elements(indices, spec) is not None:
        return True
    if reduction.kind == "sum":
        return window.boundary.mode != "value" and vanishes(body)
    return body == window.reads[0]


def _row(subscript: Expr, extent: Expr, statement: Statement, taken: set[str]) -> Index:
    """The index of a dimension: that of the statement which is its subscript; else a new one of its extent, named after
    the only one in it."""
    inside = [index for index in statement.indices if index.name in free_indices(subscript)]
    if len(inside) != 1:
        return Index(fresh(f"{statement.target}_row", taken), extent)
    return inside[0] if subscript == IndexValue(inside[0].name) else Index(inside[0].name, extent)
