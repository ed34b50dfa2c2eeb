"""Results that are short rows, each of a few terms that the whole row shares: one thread computes a row.

    q[m, k] = x[id[m, k]] - y[m, k];  z[m, k] = min(abs(q[m, j]), j, where=j != k)          k from 0 to 2
becomes
    z[m, 0] = minimum(abs(x[id[m, 1]] - y[m, 1]), abs(x[id[m, 2]] - y[m, 2]));  z[m, 1] = ...;  z[m, 2] = ...
so that each element, and each gathered one, is read once, by vectors of those beside it; the terms are common
subexpressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from cugen.plan.context import make_context
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.grouping import is_single_temporary
from cugen.rewrite.hoist_reductions import elements
from cugen.rewrite.indices.unrolled import unrolled, unrolling
from cugen.rewrite.readers import array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.sums.short_reductions import OPERATORS
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, Scan, conjuncts, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.rewriting import converted, rebuild
from cugen.spec.types import INT64

# Heuristics: beyond them the terms stay loops.
_MAX_ROW = 8  # results of a thread
_MAX_TERMS = 8  # of one reduction
_MAX_NODES = 2000  # of the expressions of a row
_MIN_ROWS = 1 << 18  # a thread each: enough to fill a large GPU
_COMPARISONS = {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}


@dataclass(frozen=True, slots=True)
class ShortRows:
    """The spec with `results` in place of the statements `replaced`: one of an array, and those of temporaries that it
    alone reads."""

    spec: Spec
    results: tuple[Statement, ...]
    replaced: tuple[Statement, ...]


def with_short_rows(spec: Spec, position: int) -> ShortRows | None:
    """The statement at a position with a thread for each row of its results; None where the rows or their terms are
    long, or few."""
    statement = spec.statements[position]
    if spec.array(statement.target).is_temporary or statement.accumulate or not statement.indices:
        return None
    inner = _temporaries(spec, position)
    if _inlined_nodes(statement.value, inner) > _MAX_NODES:
        return None
    value = _inlined(statement.value, inner, spec)
    reductions = [node for node in walk(value) if isinstance(node, Reduce)]
    if any(isinstance(node, Read) and node.array == statement.target for node in walk(value)):
        return None  # other results of the row would read what the first ones store
    row = statement.indices[-1]
    length = elements((row,), spec)
    if not reductions or length is None or not 2 <= length <= _MAX_ROW or _loops_are_long(value, spec):
        return None
    rows = [elements((index,), spec) for index in statement.indices[:-1]]
    if not rows or None in rows or prod(filter(None, rows)) < _MIN_ROWS:
        return None
    if IndexValue(row.name) not in statement.subscripts or not _is_free((statement, *inner.values()), spec):
        return None
    context = make_context(spec)
    results = []
    for result in unrolled((replace(statement, value=value),), context.arrays, unrolling(row, length), context):
        terms = _of_terms(result.value, spec)
        if terms is None:
            return None
        results.append(replace(result, value=terms))
    if sum(1 for result in results for _ in walk(result.value)) > _MAX_NODES:
        return None
    return _replaced(spec, position, tuple(results), inner)


def _temporaries(spec: Spec, position: int) -> dict[str, Statement]:
    """The statements of the temporaries that a statement reads, directly or through others, whose inputs no statement
    between them writes."""
    written = Counter(statement.target for statement in spec.statements)
    wanted = {read.array for read in array_reads(spec.statements[position])}
    temporaries: dict[str, Statement] = {}
    changed: set[str] = set()
    for statement in reversed(spec.statements[:position]):
        reads = {read.array for read in array_reads(statement)}
        is_wanted = statement.target in wanted and is_single_temporary(statement, spec, written)
        if is_wanted and not reads & changed:
            temporaries[statement.target] = statement
            wanted |= reads
        else:
            changed.add(statement.target)
    return temporaries


def _inlined_nodes(value: Expr, temporaries: dict[str, Statement]) -> int:
    """Nodes of the value with its temporaries inlined, the last one first; there may be exponentially many."""
    nodes: dict[str, int] = {}

    def count(expr: Expr) -> int:
        return sum(1 + (nodes.get(node.array, 0) if isinstance(node, Read) else 0) for node in walk(expr))

    for name, statement in reversed(temporaries.items()):
        nodes[name] = count(statement.value)
    return count(value)


def _inlined(value: Expr, temporaries: Mapping[str, Statement], spec: Spec) -> Expr:
    def on_read(read: Read) -> Expr | None:
        source = temporaries.get(read.array)
        if source is None or read.boundary is not None or read.exact:
            return None
        names = [sub.name for sub in source.subscripts if isinstance(sub, IndexValue)]
        expression = substitute(source.value, dict(zip(names, read.subscripts, strict=True)))
        return _inlined(converted(expression, spec.array(read.array).dtype), temporaries, spec)

    return substitute(value, {}, on_read)


def _loops_are_long(value: Expr, spec: Spec) -> bool:
    for node in walk(value):
        if isinstance(node, Scan):
            return True
        if isinstance(node, Reduce):
            count = elements(node.indices, spec)
            if node.kind not in OPERATORS or count is None or not 1 <= count <= _MAX_TERMS:
                return True
    return False


def _is_free(statements: tuple[Statement, ...], spec: Spec) -> bool:
    """Whether the statements have no schedule, and read arrays without placements, by divisions without remainders."""
    reads = [read for statement in statements for read in array_reads(statement)]
    is_placed = any(spec.array(read.array).memory.space not in (None, "global") for read in reads)
    return (
        not is_placed
        and all(schedule_of(spec, (s,)) == Schedule() for s in statements)
        and not any(read.exact for read in reads)
    )


def _of_terms(expr: Expr, spec: Spec) -> Expr | None:
    """The expression with its reductions as terms; None where a condition isn't known for each of them."""
    unknown: list[Reduce] = []

    def change(node: Expr) -> Expr:
        if not isinstance(node, Reduce):
            return rebuild(node, change)
        terms = list(_terms(node, spec))
        if not terms or None in terms:
            unknown.append(node)
            return node
        first, *others = (converted(change(term), node.dtype) for term in terms if term is not None)
        for term in others:
            first = Op(OPERATORS[node.kind], (first, term), node.dtype)
        return first

    result = change(expr)
    return None if unknown else result


def _terms(reduction: Reduce, spec: Spec) -> Iterator[Expr | None]:
    """The terms whose condition holds; None for one whose condition is not known."""
    params = {param.name: param for param in spec.params}
    names = [index.name for index in reduction.indices]
    for values in product(*(range(elements((index,), spec) or 0) for index in reduction.indices)):
        known: dict[str, Expr] = {name: Const(value, INT64) for name, value in zip(names, values, strict=True)}
        holds = True
        for condition in conjuncts(reduction.where):
            match substitute(condition, known):
                case Op(name=name, args=(left, right)) if name in _COMPARISONS and left.dtype.is_integer:
                    difference = affine_form(left, params) - affine_form(right, params)
                case _:
                    yield None
                    return
            if not difference.is_constant:
                yield None
                return
            sign = (difference.constant > 0) - (difference.constant < 0)
            holds = holds and sign in _COMPARISONS[name]
        if holds:
            yield substitute(reduction.body, known)


def _replaced(spec: Spec, position: int, results: tuple[Statement, ...], inner: Mapping[str, Statement]) -> ShortRows:
    statements = [*spec.statements[:position], *results, *spec.statements[position + 1 :]]
    removed = [spec.statements[position]]
    for temporary in inner.values():  # readers before what they read
        others = [statement for statement in statements if statement is not temporary]
        if not any(read.array == temporary.target for statement in others for read in array_reads(statement)):
            statements = others
            removed.append(temporary)
    gone = {statement.target for statement in removed} - {results[0].target}
    arrays = tuple(array for array in spec.arrays if array.name not in gone)
    return ShortRows(replace(spec, statements=tuple(statements), arrays=arrays), results, tuple(removed))
