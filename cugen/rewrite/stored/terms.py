"""Stores the terms of reductions that read an array at other elements than their own, for families to reduce.

    y = sum(abs(x[i + 1, j] - x[i, j]), i, j)
becomes
    y_terms[i, j] = abs(x[i + 1, j] - x[i, j]);  y = sum(y_terms[i, j], i, j)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE
from cugen.plan.context import make_context
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.hoist_reductions import are_in_bounds, has_no_more_elements
from cugen.rewrite.stored.sectors import requested_sectors
from cugen.rewrite.temporaries import Temporary, last_request, temporary
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    Scan,
    outermost_reductions,
    walk,
)
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced

MIN_TERMS = 1 << 20  # that take longer in single threads than another launch (heuristic)
MIN_TERMS_OF_RESULT = 32  # fewer take a thread less time than their store and loads (heuristic)
MIN_SERIAL_TERMS = 1 << 8  # of a thread; fewer take less time than a second launch (heuristic)
THREADS_TO_FILL_DEVICE = 1024 * PLANNING_DEVICE.sms  # half of the resident ones hide latencies (heuristic)
MIN_SECTORS_RATIO = 2  # of what is requested without and with stored terms: lines may stay in L1 (heuristic)


def with_stored_terms(single: Single, *, in_other_orders: bool = False) -> Steps | None:
    """The steps, where specialised families take all of them; None where there is nothing to store. Several reductions
    that no family takes together are stored one by one. Stored are terms that read a window, or, `in_other_orders`, an
    array once more with its indices in another order."""
    is_stored = _permutes_indices if in_other_orders else _is_window
    statement = single.statement
    reductions = tuple(dict.fromkeys(outermost_reductions(statement.value)))
    if single.schedule != Schedule() or not reductions:
        return None
    taken = taken_names(single.context.spec)
    terms: list[Temporary] = []
    of_terms: dict[Expr, Expr] = {}
    for reduction in reductions:
        if (indices := _indices_of_terms(reduction, single)) is None:
            return None
        of_terms[reduction] = reduction
        if is_stored(reduction.body):
            name = fresh(f"{statement.target}_terms", taken)
            what = f"terms of: {statement.text}"
            terms.append(temporary(name, indices, reduction.body, what, statement, is_stored=True))
            of_terms[reduction] = replace(reduction, body=terms[-1].read)
    if not terms or single.is_specialised(single.request()):
        return None
    steps = _steps(single, terms, of_terms)
    if not single.is_specialised(last_request(single, steps)) and len(reductions) > 1:
        results: dict[Expr, Temporary] = {}
        for reduction in reductions:
            name = fresh(f"{statement.target}_{ACCUMULATORS[reduction.kind]}", taken)
            what = f"{reduction.kind} of terms of: {statement.text}"
            value = of_terms[reduction]
            results[reduction] = temporary(name, statement.indices, value, what, statement, is_stored=True)
        reads: dict[Expr, Expr] = {reduction: result.read for reduction, result in results.items()}
        steps = _steps(single, [*terms, *results.values()], reads)
    context = make_context(replace(single.context.spec, arrays=(*single.context.spec.arrays, *steps.temporaries)))
    is_map = not any(isinstance(node, Reduce) for node in walk(steps.statements[-1].value))
    checked = steps.statements[:-1] if is_map else steps.statements
    requests = (replace(single, statement=step, context=context).request() for step in checked)
    return steps if all(map(single.is_specialised, requests)) else None


def _indices_of_terms(reduction: Reduce, single: Single) -> tuple[Index, ...] | None:
    """The indices of a reduction's terms; None where these can't be stored, or are more than what they read."""
    body, spec = reduction.body, single.context.spec
    if reduction.where is not None or any(isinstance(node, Reduce | Scan) for node in walk(body)):
        return None
    known = {index.name: index for index in (*single.statement.indices, *reduction.indices)}
    # In the order of their use: the last ones are those of the fastest dimensions that are read.
    names = dict.fromkeys(node.name for node in walk(body) if isinstance(node, IndexValue))
    indices = tuple(known[name] for name in names)
    if not set(reduction.indices) <= set(indices) or not has_no_more_elements(body, indices, spec):
        return None
    if prod(map(single.context.max_extent, indices)) < MIN_TERMS:
        return None
    if prod(map(single.context.max_extent, reduction.indices)) < MIN_TERMS_OF_RESULT:
        return None
    if not _has_few_threads(reduction, single) and not _has_strided_lanes(body, indices, single):
        return None
    return indices if are_in_bounds(body, indices, spec) else None


def _has_few_threads(reduction: Reduce, single: Single) -> bool:
    """Whether one thread for each result leaves most of the device idle for longer than another launch takes."""
    extent = single.context.max_extent
    terms, results = prod(map(extent, reduction.indices)), prod(map(extent, single.statement.indices))
    return terms >= MIN_SERIAL_TERMS and results < THREADS_TO_FILL_DEVICE


def _has_strided_lanes(body: Expr, indices: tuple[Index, ...], single: Single) -> bool:
    """Whether a warp with a result in each lane requests many more sectors for its reads than for terms in the order of
    their indices, with the store and the load of these."""
    statement, context = single.statement, single.context
    strides = context.arrays[statement.target].strides
    written = zip(statement.subscripts, strides, strict=True)
    fastest = {sub.name for sub, stride in written if stride == 1 and isinstance(sub, IndexValue)}
    results = sorted(statement.indices, key=lambda index: index.name in fastest)
    stored = requested_sectors(body, indices, context) + 2 * WARP_SIZE * body.dtype.bytes // SECTOR_BYTES
    return requested_sectors(body, results, context) >= MIN_SECTORS_RATIO * stored


def _steps(single: Single, temporaries: list[Temporary], values: Mapping[Expr, Expr]) -> Steps:
    """The steps that compute temporaries, and the statement with `values` in place of its reductions."""
    last = replace(single.statement, value=replaced(single.statement.value, values.get))
    names = tuple(stored.array.name for stored in temporaries)
    statements = (*(stored.statement for stored in temporaries), last)
    arrays = tuple(stored.array for stored in temporaries)
    return Steps(statements, arrays, names, again=(*names, last.target), opens_last=True)


def _is_window(body: Expr) -> bool:
    """Whether some read has a subscript that is more than an index."""
    reads = (node for node in walk(body) if isinstance(node, Read))
    return any(not isinstance(sub, IndexValue | Const) for read in reads for sub in read.subscripts)


def _permutes_indices(body: Expr) -> bool:
    """Whether two reads of an array have the same indices in another order, as those of a matrix and its transpose."""
    reads = dict.fromkeys(node for node in walk(body) if isinstance(node, Read) and len(node.subscripts) > 1)
    elements = [(read.array, frozenset(read.subscripts)) for read in reads]
    return not _is_window(body) and len(set(elements)) < len(elements)
