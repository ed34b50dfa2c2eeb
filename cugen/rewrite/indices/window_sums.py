"""Long sums over windows with few results, such as the weight gradient of a depthwise convolution, as several sums of
the same terms.

    dw[c, r, s] = sum(dy[n, c, i, j] * x[n, c, i + r - 1, j + s - 1], n, i, j)       r and s from 0 to 2
becomes nine statements, the first of them
    dw[c, 0, 0] = sum(dy[n, c, i, j] * x[n, c, i - 1, j - 1], n, i, j)
so that all threads of a block have terms of each result, and load elements that these share once. One thread for each
result would leave most of the device idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.machine.devices import PLANNING_DEVICE
from cugen.plan.context import make_context
from cugen.rewrite.grouping import inlined_statements
from cugen.rewrite.hoist_reductions import at_typical_sizes, elements
from cugen.rewrite.indices.unrolled import unrolled, unrolling
from cugen.rewrite.readers import array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.spec.expressions import Index, IndexValue, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule, Spec, Statement

_MAX_SUMS = 25  # of a thread: a window of 5 x 5 (heuristic)
_MAX_RESULTS = 1024 * PLANNING_DEVICE.sms  # a thread for each of more fills the device (heuristic)
_MIN_TERMS = 1024  # of a result, for the threads of a block (heuristic)


def with_window_sums(spec: Spec) -> Spec:
    """The spec with a statement for each value of such indices; the same object if there are none.

    Statements with a schedule are left as they are written, and temporaries, which are written once."""
    indices = {(s.target, s.subscripts): tuple(_window_indices(s, spec)) for s in inlined_statements(spec)}
    if not any(indices.values()):
        return spec
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        sums: tuple[Statement, ...] = (statement,)
        for index in indices.get((statement.target, statement.subscripts), ()):
            sums = unrolled(sums, context.arrays, unrolling(index, elements((index,), spec) or 0), context)
        statements += sums
    return replace(spec, statements=tuple(statements))


def _window_indices(statement: Statement, spec: Spec) -> Iterator[Index]:
    """The indices along which windows of a statement slide, if it has few results of long sums."""
    if spec.array(statement.target).is_temporary or schedule_of(spec, (statement,)) != Schedule():
        return
    nodes = list(walk(statement.value))
    reductions = [node for node in nodes if isinstance(node, Reduce)]
    if not reductions or any(isinstance(node, Scan) for node in nodes):
        return
    terms = {index.name for reduction in reductions for index in reduction.indices}
    sliding = [
        i for i in statement.indices if _slides(i, terms, statement) and IndexValue(i.name) in statement.subscripts
    ]
    sums, typical = elements(tuple(sliding), spec), at_typical_sizes(spec)
    if not sliding or sums is None or not 2 <= sums <= _MAX_SUMS:
        return
    results = elements(statement.indices, typical) or 0
    shortest = min(elements(reduction.indices, typical) or 0 for reduction in reductions)
    if results > _MAX_RESULTS or shortest < _MIN_TERMS:
        return
    # Arrays that other indices tell apart make a GEMM, which shares terms in both directions.
    others = {index.name for index in statement.indices} - {index.name for index in sliding}
    shared = [free_indices(read) & others for read in array_reads(statement) if free_indices(read) & terms]
    if all(names == shared[0] for names in shared):
        yield from sliding


def _slides(index: Index, terms: set[str], statement: Statement) -> bool:
    """Whether all reads that an index moves are at sums of it and an index of the terms."""
    subscripts = [sub for read in array_reads(statement) for sub in read.subscripts if index.name in free_indices(sub)]
    return bool(subscripts) and all(free_indices(sub) & terms for sub in subscripts)
