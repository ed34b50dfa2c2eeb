"""Stores what a scan reads in the layout of its results, where the two have different contiguous dimensions.

    y[j, i] = cumsum(x[i, j], j)
becomes
    y_terms[j, i] = x[i, j];  y[j, i] = cumsum(y_terms[j, i], j)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cugen.plan.context import make_context
from cugen.plan.request import Single, Steps
from cugen.plan.symbols import bounds
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.hoist_reductions import are_in_bounds
from cugen.rewrite.stored.terms import MIN_TERMS
from cugen.rewrite.temporaries import last_request, steps_of, temporary
from cugen.spec.expressions import Const, Expr, IndexValue, Reduce, Scan, walk
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced


def with_transposed_operand(single: Single) -> Steps | None:
    """The steps, where specialised families take both; None for anything but one scan of stored elements."""
    statement, spec = single.statement, single.context.spec
    scans = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Scan)))
    if single.schedule != Schedule() or len(scans) != 1 or single.is_specialised(single.request()):
        return None
    (scan,) = scans
    if scan.where is not None or any(isinstance(node, Reduce | Scan) for node in walk(scan.body)):
        return None
    if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
        return None
    by_name = {index.name: scan.inner if index.name == scan.outer else index for index in statement.indices}
    dimensions = {sub.name: n for n, sub in enumerate(statement.subscripts) if isinstance(sub, IndexValue)}
    if prod(map(single.context.max_extent, by_name.values())) < MIN_TERMS:
        return None
    strides, ranges = single.context.arrays[statement.target].strides, single.context.ranges
    fastest_last = sorted(dimensions, key=lambda name: bounds(strides[dimensions[name]], ranges), reverse=True)
    indices = tuple(by_name[name] for name in fastest_last)
    if not are_in_bounds(scan.body, indices, spec):
        return None
    name = fresh(f"{statement.target}_terms", taken_names(spec))
    terms = temporary(name, indices, scan.body, f"terms of: {statement.text}", statement, is_stored=True)
    of_terms: dict[Expr, Expr] = {scan: replace(scan, body=terms.read)}
    last = replace(statement, value=replaced(statement.value, of_terms.get))
    steps = replace(steps_of([terms], last), opens_last=True, again=(name, last.target))
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    request = replace(single, statement=terms.statement, context=context).request()
    is_better = single.is_specialised(request) and single.is_specialised(last_request(single, steps))
    return steps if is_better else None
