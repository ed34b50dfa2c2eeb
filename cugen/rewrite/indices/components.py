"""Sums whose results are short vectors, such as the force on each body, as a statement for each component.

    a[i, c] = sum((x[j, c] - x[i, c]) * f((x[j, 0] - x[i, 0]) ** 2 + (x[j, 1] - x[i, 1]) ** 2), j)       c from 0 to 1
becomes
    a[i, 0] = sum((x[j, 0] - x[i, 0]) * f(...), j);  a[i, 1] = sum((x[j, 1] - x[i, 1]) * f(...), j)
so that one thread computes all components of a result, and what they have in common once. The same is done to long
windows that slide along another index, `y[i, c] = sum(h[k] * x[4 * i + k, c], k)`, to long reductions of the same
elements for a few values, `y[c] = sum(x[n] <= q[c], n)`, and to a statement without loops beside others that write
other components of the same array: y[k, 0, c] beside y[k, 1, 0], p[n, c] beside p[n, 3 + q].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.plan.context import make_context
from cugen.rewrite.grouping import inlined_statements
from cugen.rewrite.hoist_reductions import elements
from cugen.rewrite.indices.unrolled import unrolled, unrolling
from cugen.rewrite.readers import array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

_MAX_COMPONENTS = 4
_MAX_FIELDS = 8  # that one of several statements writes of a row (heuristic)
_MAX_VALUES = 16  # for which a thread reduces the same elements (heuristic)
_MIN_SHARED_TERMS = 1024  # of a reduction of the same elements for a few values (heuristic)
_MIN_WINDOW = 16  # terms of a window; shorter ones are those of stencils along rows of components (heuristic)


def with_components(spec: Spec) -> Spec:
    """The spec with such statements for each component; the same object if there are none.

    Statements with a schedule are left as they are written, and temporaries, which are written once."""
    indices = {(s.target, s.subscripts): _vector_index(s, spec) for s in inlined_statements(spec)}
    if not any(indices.values()):
        return spec
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        index = indices.get((statement.target, statement.subscripts))
        if index is None:
            statements.append(statement)
        else:
            components = unrolling(index, elements((index,), spec) or 0)
            statements += unrolled((statement,), context.arrays, components, context)
    return replace(spec, statements=tuple(statements))


def _vector_index(statement: Statement, spec: Spec) -> Index | None:
    """The index of the components of a statement with its temporaries inlined: a short one, along which its terms read
    one element of an array, and certain others as well."""
    if spec.array(statement.target).is_temporary or schedule_of(spec, (statement,)) != Schedule():
        return None
    if not _has_loops(statement):
        return _index_of_fields(statement, spec)
    if not any(isinstance(node, Reduce) for node in walk(statement.value)):
        return None
    dimensions: dict[tuple[str, int], list[Expr]] = {}
    for read in array_reads(statement):
        for dimension, subscript in enumerate(read.subscripts):
            dimensions.setdefault((read.array, dimension), []).append(subscript)
    for index in statement.indices:
        count = elements((index,), spec)
        if count is None or not 2 <= count <= _MAX_VALUES or IndexValue(index.name) not in statement.subscripts:
            continue
        if _has_shared_terms(statement, index, spec):
            return index
        if count > _MAX_COMPONENTS:
            continue
        for subscripts in dimensions.values():
            if IndexValue(index.name) in subscripts and any(isinstance(sub, Const) for sub in subscripts):
                return index
        if statement.subscripts[-1] == IndexValue(index.name) and _has_long_windows(statement, index, spec):
            return index
    return None


def _has_long_windows(statement: Statement, component: Index, spec: Spec) -> bool:
    """Whether windows along one dimension slide along another index than that of the components."""
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    if any(len(reduction.indices) != 1 for reduction in reductions):
        return False
    terms = {index.name for reduction in reductions for index in reduction.indices}
    if any((elements(reduction.indices, spec) or 0) < _MIN_WINDOW for reduction in reductions):
        return False
    outputs = {index.name for index in statement.indices if index != component}
    windows = [names for names in map(free_indices, _subscripts(statement)) if names & terms and names & outputs]
    return bool(windows) and not any(component.name in names for names in windows)


def _has_shared_terms(statement: Statement, value: Index, spec: Spec) -> bool:
    """Whether all reductions are long ones, of elements that are the same for each `value`: those that have its index
    are the same for all terms."""
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    for reduction in reductions:
        terms = {index.name for index in reduction.indices}
        reads = [free_indices(node) for node in walk(reduction) if isinstance(node, Read)]
        inside: dict[Expr, Expr] = {node: Const(0, INT64) for node in walk(reduction) if isinstance(node, Read)}
        is_read_only = value.name not in free_indices(replaced(reduction, inside.get))
        of_value = [names for names in reads if value.name in names]
        length = elements(reduction.indices, spec)
        if not is_read_only or not of_value or any(names & terms for names in of_value):
            return False
        if not any(names & terms for names in reads) or (length is not None and length < _MIN_SHARED_TERMS):
            return False
    return True


def _subscripts(statement: Statement) -> Iterator[Expr]:
    return (subscript for read in array_reads(statement) for subscript in read.subscripts)


def _index_of_fields(statement: Statement, spec: Spec) -> Index | None:
    """A short index of a statement in whose place others, over its other indices, have constants or another one."""
    others = [s for s in spec.statements if s.target == statement.target and s.subscripts != statement.subscripts]
    if any(map(_has_loops, others)):
        return None
    for index in statement.indices:
        dimension = _field_dimension(statement, index, spec)
        if dimension is None:
            continue
        rows = set(statement.indices) - {index}
        for written in others:
            added = set(written.indices) - rows
            if set(written.indices) == rows and isinstance(written.subscripts[dimension], Const):
                return index
            if len(added) == 1 and added != {index} and len(written.indices) == len(statement.indices):
                (field,) = added
                if _field_dimension(written, field, spec) == dimension:
                    return index
    return None


def _field_dimension(statement: Statement, index: Index, spec: Spec) -> int | None:
    """The dimension of an array that a short index of a statement alone runs along."""
    count = elements((index,), spec)
    dimensions = [n for n, sub in enumerate(statement.subscripts) if index.name in free_indices(sub)]
    if count is None or not 2 <= count <= _MAX_FIELDS or len(dimensions) != 1:
        return None
    return dimensions[0] if free_indices(statement.subscripts[dimensions[0]]) == {index.name} else None


def _has_loops(statement: Statement) -> bool:
    return any(isinstance(node, Reduce | Scan) for node in walk(statement.value))
