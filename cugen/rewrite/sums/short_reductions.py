"""Short reductions over pairs, such as squared distances of points, as the expressions of their terms.

    d[i, j] = sum((p[i, c] - q[j, c]) ** 2, c);  y[i] = min(d[i, j], j)             c from 0 to 2
becomes
    d[i, j] = (p[i, 0] - q[j, 0]) ** 2 + (p[i, 1] - q[j, 1]) ** 2 + (p[i, 2] - q[j, 2]) ** 2;  y[i] = min(d[i, j], j)
and d is recomputed where it is read: all pairs take more memory than the two sets, and some arithmetic takes less time
than that. The same holds for the reduction written inside the other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from cugen.rewrite.grouping import inlined_statements, is_single_temporary
from cugen.rewrite.hoist_reductions import elements
from cugen.rewrite.readers import Readers, array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, Scan, children, free_indices, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.rewriting import rebuild, replaced

# Heuristics: beyond them the terms stay a loop.
_MAX_TERMS = 8
_MAX_REPEATED_TERMS = 4  # the same, where several outputs would compute each result
_MAX_STORED_RATIO = 2  # more terms of a result that is computed once
_MAX_NODES = 160  # of the expression of all terms

OPERATORS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def with_short_reductions(spec: Spec) -> Spec:
    """The spec with short reductions over pairs unrolled, where another reduction has them as terms, directly or
    through a temporary; the same object if there are none. Statements with a schedule, and those that read an array
    with a placement, are left as they are written."""
    statements = list(spec.statements)
    for position, statement in enumerate(statements):
        if _is_free(statement, spec):
            if _is_reduced_temporary(position, spec):
                statements[position] = replace(statement, value=_all_unrolled(statement.value, spec))
            else:
                statements[position] = replace(statement, value=_nested_unrolled(statement.value, statement, spec))
    changed = tuple(statements)
    return spec if changed == spec.statements else replace(spec, statements=changed)


def without_loops(statement: Statement, spec: Spec, *, is_stored: bool = False) -> Statement | None:
    """The statement with all of its reductions unrolled, as those of colours and of coordinates are; None where one is
    long, has a condition, or reads a window, and where there are none. Where the result `is_stored`, they may be longer
    and read at other subscripts, as `x[8 * j + k]`, that none tests."""
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    if not reductions or not _is_free(statement, spec):
        return None
    if any(isinstance(node, Scan) for node in walk(statement.value)):
        return None
    ratio, is_read = (_MAX_STORED_RATIO, _is_unguarded) if is_stored else (1, _is_of_elements)
    if not all(_has_few_terms(r, ratio * _max_terms(r, statement), spec) and is_read(r) for r in reductions):
        return None
    value = _all_unrolled(statement.value, spec)
    return replace(statement, value=value) if sum(1 for _ in walk(value)) <= _MAX_NODES else None


def _is_free(statement: Statement, spec: Spec) -> bool:
    spaces = (spec.array(read.array).memory.space for read in array_reads(statement))
    return schedule_of(spec, (statement,)) == Schedule() and all(space in (None, "global") for space in spaces)


def _nested_unrolled(expr: Expr, statement: Statement, spec: Spec, bound: frozenset[str] = frozenset()) -> Expr:
    """The expression with the reductions unrolled that depend on `bound`, the indices of those around them."""
    if isinstance(expr, Scan):
        return expr
    if isinstance(expr, Reduce):
        if bound & free_indices(expr) and _is_short(expr, _max_terms(expr, statement), spec):
            return _unrolled(expr, spec)
        bound |= {index.name for index in expr.indices}
    return rebuild(expr, lambda part: _nested_unrolled(part, statement, spec, bound))


def _all_unrolled(expr: Expr, spec: Spec) -> Expr:
    return _unrolled(expr, spec) if isinstance(expr, Reduce) else rebuild(expr, lambda part: _all_unrolled(part, spec))


def _max_terms(value: Expr, reader: Statement) -> int:
    """The most terms for a value that a statement reads: fewer if outputs along some index have it in common."""
    return _MAX_TERMS if {index.name for index in reader.indices} <= free_indices(value) else _MAX_REPEATED_TERMS


def _is_short(reduction: Reduce, max_terms: int, spec: Spec) -> bool:
    """Whether it may be unrolled: it is over pairs, by a few terms at bare indices, and has no conditions or reductions
    inside."""
    if not _has_few_terms(reduction, max_terms, spec):
        return False
    if not _is_of_elements(reduction):
        return False
    reads = (node for node in walk(reduction.body) if isinstance(node, Read))
    is_of_pairs = all(not free_indices(reduction) <= free_indices(read) for read in reads)
    count = elements(reduction.indices, spec) or 0
    return is_of_pairs and count * sum(1 for _ in walk(reduction.body)) <= _MAX_NODES


def _is_of_elements(reduction: Reduce) -> bool:
    """Whether all reads are at bare indices, or at subscripts that are numbers once the reduction is unrolled."""
    reads = (node for node in walk(reduction.body) if isinstance(node, Read))
    return all(_is_bare(sub, reduction, read) for read in reads for sub in read.subscripts)


def _is_bare(sub: Expr, reduction: Reduce, read: Read) -> bool:
    if isinstance(sub, IndexValue | Const):
        return True
    is_inside = read.boundary is None and not read.exact and not any(isinstance(node, Read) for node in walk(sub))
    return is_inside and free_indices(sub) <= {index.name for index in reduction.indices}


def _is_unguarded(reduction: Reduce) -> bool:
    """Whether all reads are in bounds, at subscripts that aren't gathered."""
    reads = [node for node in walk(reduction.body) if isinstance(node, Read)]
    subscripts = (sub for read in reads for sub in read.subscripts)
    is_gathered = any(isinstance(node, Read) for sub in subscripts for node in walk(sub))
    return not is_gathered and all(read.boundary is None and not read.exact for read in reads)


def _has_few_terms(reduction: Reduce, max_terms: int, spec: Spec) -> bool:
    """Whether it combines a few terms, without conditions or reductions inside."""
    count = elements(reduction.indices, spec)
    if reduction.kind not in OPERATORS or reduction.where is not None or count is None or not 1 <= count <= max_terms:
        return False
    return not any(isinstance(node, Reduce | Scan) for node in walk(reduction.body))


def _is_reduced_temporary(position: int, spec: Spec) -> bool:
    """Whether a statement computes a temporary by short reductions, and others read it as terms of reductions alone."""
    statement = spec.statements[position]
    array = spec.array(statement.target)
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    if not array.is_temporary or array.memory.space is not None or not reductions:
        return False
    if not is_single_temporary(statement, spec, Counter(s.target for s in spec.statements)):
        return False
    later = spec.statements[position + 1 :]
    if {s.target for s in later} & {read.array for read in array_reads(statement)}:
        return False
    inlined = inlined_statements(spec)
    readers = [inlined[n] for n in Readers(inlined).positions(array.name)]
    reads = [(reader, read) for reader in readers for read in _reads(reader.value, array.name)]
    if not reads or not all(is_term for _, (_, is_term) in reads):
        return False
    limit = min(_max_terms(read, reader) for reader, (read, _) in reads)
    pairs = frozenset(index.name for index in statement.indices)
    return all(free_indices(r) >= pairs and _is_short(r, limit, spec) for r in reductions)


def _reads(expr: Expr, array: str, bound: frozenset[str] = frozenset()) -> Iterator[tuple[Read, bool]]:
    """The reads of an array, each with whether it is a term of a reduction, over some index of its subscripts."""
    if isinstance(expr, Read) and expr.array == array:
        yield expr, expr.boundary is None and not expr.exact and bool(free_indices(expr) & bound)
    if isinstance(expr, Reduce):
        bound |= {index.name for index in expr.indices}
    for part in children(expr):
        yield from _reads(part, array, bound)


def _unrolled(reduction: Reduce, spec: Spec) -> Expr:
    """The terms of a reduction, combined from the first to the last."""
    names = [index.name for index in reduction.indices]
    ranges = (range(elements((index,), spec) or 0) for index in reduction.indices)
    terms = []
    for values in product(*ranges):
        known: dict[Expr, Expr] = {
            IndexValue(name): Const(value, IndexValue(name).dtype) for name, value in zip(names, values, strict=True)
        }
        terms.append(replaced(reduction.body, known.get))
    result = terms[0]
    for term in terms[1:]:
        result = Op(OPERATORS[reduction.kind], (result, term), reduction.dtype)
    return result
