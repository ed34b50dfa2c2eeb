"""Reductions over values of rows, as a term that each row stores: the launch that reduces the row computes it, too.

    p[i, j] = log_softmax(x[i, j], j);  loss = sum(p[i, j] * w[i, j], i, j)
becomes
    loss_terms[i] = sum(p[i, j] * w[i, j], j);  loss = sum(loss_terms[i], i)
so that p needs no memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.readers import array_reads
from cugen.rewrite.temporaries import temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Read, Reduce, children, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import replaced


@dataclass(frozen=True, slots=True)
class RowTerms:
    """A spec in which the array `target` has the terms of a reduction, one per row."""

    spec: Spec
    target: str


def with_row_terms(spec: Spec, position: int) -> RowTerms | None:
    """The spec with the terms of a reduction of the statement at `position` in an array; None if it has none over rows
    that are reduced themselves."""
    statement = spec.statements[position]
    writers = _writers(spec.statements[:position], spec)
    for reduction in _outermost(statement.value):
        depends_on = set(_free_of_reductions(reduction.body, writers))
        rows = _rows(reduction, depends_on)
        term = _term(reduction, rows, writers)
        if not rows or term is None:
            continue
        used = free_indices(term)
        if not any(used <= free for free in depends_on):  # several terms of a row: a product of rows and others
            continue
        taken = taken_names(spec)
        name = fresh(f"{statement.target}_terms", taken)
        indices = (*(index for index in statement.indices if index.name in used), *rows)
        stored = temporary(name, indices, term, f"terms of: {statement.text}", statement, is_stored=True)
        total: dict[Expr, Expr] = {reduction: replace(reduction, body=stored.read, indices=rows)}
        last = replace(statement, value=replaced(statement.value, total.get))
        reads = {read.array for read in array_reads(stored.statement)}
        first = max(n for n in range(position + 1) if n == 0 or spec.statements[n - 1].target in reads)
        before, between = spec.statements[:first], spec.statements[first:position]
        statements = (*before, stored.statement, *between, last, *spec.statements[position + 1 :])
        return RowTerms(replace(spec, statements=statements, arrays=(*spec.arrays, stored.array)), name)
    return None


def _writers(statements: tuple[Statement, ...], spec: Spec) -> Mapping[str, Statement]:
    """The statements that alone write an array, a whole one."""
    counts = Counter(statement.target for statement in spec.statements)
    return {
        s.target: s
        for s in statements
        if counts[s.target] == 1 and not s.accumulate and all(isinstance(sub, IndexValue) for sub in s.subscripts)
    }


def _outermost(expr: Expr) -> Iterator[Reduce]:
    """The reductions that are in no other, without conditions and positions."""
    if isinstance(expr, Reduce):
        if not expr.is_position and expr.where is None:
            yield expr
        return
    for child in children(expr):
        yield from _outermost(child)


def _rows(reduction: Reduce, depends_on: set[frozenset[str]]) -> tuple[Index, ...]:
    """The indices that number the rows: those of the reduction on which all reductions in its terms depend."""
    names = {index.name for index in reduction.indices}
    choices = {free & names for free in depends_on}
    if len(choices) != 1:
        return ()
    (rows,) = choices
    return tuple(index for index in reduction.indices if index.name in rows)


def _free_of_reductions(expr: Expr, writers: Mapping[str, Statement]) -> Iterator[frozenset[str]]:
    """The free indices of each reduction in an expression, and in the statements that compute what it reads: none of
    results that are read elsewhere than at plain indices."""
    if isinstance(expr, Reduce):
        yield free_indices(expr)
        return
    if isinstance(expr, Read) and expr.array in writers:
        writer = writers[expr.array]
        subscripts = dict(zip((i.name for i in _in_order(writer)), map(free_indices, expr.subscripts), strict=True))
        is_plain = all(isinstance(sub, IndexValue) for sub in expr.subscripts)  # else several terms read one row
        earlier = dict(takewhile(lambda item: item[1] is not writer, writers.items()))  # an update reads what was there
        for free in _free_of_reductions(writer.value, earlier):
            names = (name for index in free for name in subscripts.get(index, frozenset()))
            yield frozenset(names) if is_plain else frozenset()
        return
    for child in children(expr):
        yield from _free_of_reductions(child, writers)


def _in_order(statement: Statement) -> Iterator[Index]:
    """The statement's indices in the order of its subscripts."""
    indices = {index.name: index for index in statement.indices}
    return (indices[sub.name] for sub in statement.subscripts if isinstance(sub, IndexValue))


def _term(reduction: Reduce, rows: tuple[Index, ...], writers: Mapping[str, Statement]) -> Expr | None:
    """The term of a row; None where it is an element already, or has its reductions in place: these are hoisted."""
    columns = tuple(index for index in reduction.indices if index not in rows)
    if columns:
        return replace(reduction, indices=columns)
    results = {name for name, writer in writers.items() if any(isinstance(node, Reduce) for node in walk(writer.value))}
    reads = (node for node in walk(reduction.body) if isinstance(node, Read))
    is_mapped = not isinstance(reduction.body, Read) and any(read.array in results for read in reads)
    return reduction.body if is_mapped else None
