"""Reductions of interleaved channels whose elements are no whole words, as those of RGB pixels in bytes.

    m[c] = sum(x[i, j, c], i, j)            x of shape [H, W, 3]
becomes
    m[0] = sum(x[i, j, 0], i, j);  m[1] = sum(x[i, j, 1], i, j);  m[2] = sum(x[i, j, 2], i, j)
so that a thread has the loads of all channels in flight: those of one are single bytes, of which a multiprocessor holds
too few. A short window that no other result shares, `y[i, j, c] = max(x[2 * i + r, 2 * j + s, c], r, s)`, has no loop
then, and vectors move its pixels. Long windows are left as they are written, and those that overlap, which are a
stencil's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

from cugen.plan.context import make_context
from cugen.rewrite.grouping import inlined_statements
from cugen.rewrite.hoist_reductions import at_typical_sizes, elements
from cugen.rewrite.indices.unrolled import unrolled, unrolling
from cugen.rewrite.readers import array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.sums.short_reductions import without_loops
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    Scan,
    children,
    free_indices,
    walk,
)
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.prove.affine import Variable, affine_form
from cugen.spec.prove.integers import evaluate

_MAX_CHANNELS = 6  # as many accumulators of a thread, and accesses of a vector (heuristic)
_WORD_BYTES = 4
_MIN_BYTES = 1 << 25  # of an array, which take longer to load than further launches to start (heuristic)


def with_interleaved_channels(spec: Spec) -> Spec:
    """The spec with such statements for each channel; the same object if there are none.

    Statements with a schedule are left as they are written, temporaries, what reads those that others read too or that
    are reduced, and what reads an array of dependent reductions, which share its elements with them."""
    inlined = {(s.target, s.subscripts): s for s in inlined_statements(spec)}
    shared, dependent = _shared_temporaries(spec), _arrays_of_dependent_reductions(inlined.values())
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        whole = inlined.get((statement.target, statement.subscripts), statement)
        read = {read.array for read in array_reads(whole)}
        is_left = bool(shared & {read.array for read in array_reads(statement)} or dependent & read)
        is_left |= any(spec.array(name).is_temporary for name in read)
        channels = None if is_left or schedule_of(spec, (statement,)) != Schedule() else _with_channels(whole, spec)
        if channels is None:
            statements.append(statement)
        else:
            each, index = channels
            statements += unrolled((each,), context.arrays, unrolling(index, elements((index,), spec) or 0), context)
    return spec.with_statements(statements)


def _arrays_of_dependent_reductions(statements: Iterable[Statement]) -> set[str]:
    """The arrays that reductions read of which terms are other reductions."""
    reductions = (node for statement in statements for node in walk(statement.value) if isinstance(node, Reduce))
    outer = (r.body for r in reductions if any(isinstance(node, Reduce | Scan) for node in walk(r.body)))
    return {node.array for body in outer for node in walk(body) if isinstance(node, Read)}


def _shared_temporaries(spec: Spec) -> set[str]:
    """The temporaries that several statements read."""
    readers = Counter(name for s in spec.statements for name in {read.array for read in array_reads(s)})
    return {name for name, count in readers.items() if count > 1 and spec.array(name).is_temporary}


def _with_channels(statement: Statement, spec: Spec) -> tuple[Statement, Index] | None:
    """The statement, without loops over short windows, and the index of its channels; None if it is no such."""
    index = None if spec.array(statement.target).is_temporary else _channel_index(statement, spec)
    if index is None:
        return None
    if any(_is_window(r, statement) for r in walk(statement.value) if isinstance(r, Reduce)):
        expanded = without_loops(statement, spec, is_stored=True)
        return None if expanded is None else (expanded, index)
    return (statement, index) if _bytes_read(statement, at_typical_sizes(spec)) >= _MIN_BYTES else None


def _channel_index(statement: Statement, spec: Spec) -> Index | None:
    """The index of interleaved channels that a statement's reductions have each for itself; None if there is none."""
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    if not reductions or any(isinstance(node, Scan) for node in walk(statement.value)) or _is_read(statement, spec):
        return None
    results = frozenset(index.name for index in statement.indices)
    if any(_outside_subscripts(r.body) & results or (r.where and free_indices(r.where) & results) for r in reductions):
        return None  # by key
    for index in statement.indices:
        count = elements((index,), spec)
        is_short = count is not None and 2 <= count <= _MAX_CHANNELS and IndexValue(index.name) in statement.subscripts
        if is_short and all(_is_of_channels(reduction, index, statement, spec) for reduction in reductions):
            return index
    return None


def _is_read(statement: Statement, spec: Spec) -> bool:
    """Whether another statement reads the results: it may share a launch with them."""
    return any(read.array == statement.target for s in spec.statements for read in array_reads(s))


def _outside_subscripts(expr: Expr) -> frozenset[str]:
    """The indices whose values are terms."""
    if isinstance(expr, Read):
        return frozenset()
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    return frozenset().union(*map(_outside_subscripts, children(expr)))


def _is_of_channels(reduction: Reduce, channel: Index, statement: Statement, spec: Spec) -> bool:
    """Whether a reduction reads pixels of which adjacent ones are its terms, or a window of its own for each result."""
    reads = [node for node in walk(reduction.body) if isinstance(node, Read)]
    pixels = [read for read in reads if _is_interleaved(read, channel, spec)]
    outputs = frozenset(index.name for index in statement.indices if index != channel)
    terms = {index.name: elements((index,), spec) for index in reduction.indices}
    arrays = {read.array for read in pixels}
    if not pixels or any(read.array in arrays and read not in pixels for read in reads):
        return False
    if any(isinstance(node, Read) for read in reads for sub in read.subscripts for node in walk(sub)):
        return False  # gathered
    along = [free_indices(read.subscripts[-2]) for read in pixels]
    if not all(names & terms.keys() for names in along):
        return False
    stored = _contiguous_indices(statement, spec)
    if any(names & outputs for names in along) and not all(stored & (names | {channel.name}) for names in along):
        return False
    return not any(_overlaps(sub, outputs, terms, spec) for read in reads for sub in read.subscripts)


def _contiguous_indices(statement: Statement, spec: Spec) -> frozenset[str]:
    """The indices along which results are adjacent in memory."""
    subscripts = zip(statement.subscripts, spec.array(statement.target).strides, strict=True)
    adjacent = (sub for sub, stride in subscripts if isinstance(stride, Const) and stride.value == 1)
    return frozenset[str]().union(*map(free_indices, adjacent))


def _is_interleaved(read: Read, channel: Index, spec: Spec) -> bool:
    """Whether adjacent elements in memory are all channels of one pixel, of no whole words together."""
    array, subscripts = spec.array(read.array), read.subscripts
    count = elements((channel,), spec)
    is_last = subscripts[-1] == IndexValue(channel.name) and len(subscripts) > 1
    if not is_last or any(channel.name in free_indices(sub) for sub in subscripts[:-1]):
        return False
    distances = [stride.value if isinstance(stride, Const) else None for stride in array.strides[-2:]]
    return distances == [count, 1] and bool((count or 0) * array.dtype.bytes % _WORD_BYTES)


def _bytes_read(statement: Statement, spec: Spec) -> int:
    """The bytes of the arrays that a statement reads; `spec` has no params without a value."""
    params = {param.name: param.value or 0 for param in spec.params}
    arrays = (spec.array(name) for name in {read.array for read in array_reads(statement)})
    return sum(prod(evaluate(extent, params) for extent in array.shape) * array.dtype.bytes for array in arrays)


def _is_window(reduction: Reduce, statement: Statement) -> bool:
    """Whether a subscript moves along a result and along the terms."""
    terms = {index.name for index in reduction.indices}
    outputs = {index.name for index in statement.indices}
    reads = (node for node in walk(reduction.body) if isinstance(node, Read))
    return any(names & terms and names & outputs for read in reads for names in map(free_indices, read.subscripts))


def _overlaps(sub: Expr, outputs: frozenset[str], terms: dict[str, int | None], spec: Spec) -> bool:
    """Whether adjacent results may read one element: the terms of a result are farther apart than the results."""
    names = free_indices(sub)
    if not (names & outputs and names & terms.keys()):
        return False
    distances = dict(affine_form(sub, {param.name: param for param in spec.params}).terms)
    extent = 1
    for name in names & terms.keys():
        count, distance = terms[name], distances.get(Variable(name), 0)
        if count is None or not distance:
            return True
        extent += (count - 1) * abs(distance)
    return any(abs(distances.get(Variable(name), 0)) < extent for name in names & outputs)
