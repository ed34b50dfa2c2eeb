"""Split-K by launches: long sums of few results as a batch of GEMMs over ranges of K, whose partial sums are added.

    c[m, n] = sum(a[m, k] * b[k, n], k)
becomes
    c_parts[part, m, n] = sum(a[m, part, k] * b[part, k, n], k < length);  c[m, n] = sum(c_parts[part, m, n], part)
with `a` and `b` as arrays of ranges. The tiles of such a GEMM are fewer than the multiprocessors, and one block would
add the partial sums of all others. Ranges have equal lengths, which keep the alignment of rows along K.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.registry import first_family
from cugen.machine.devices import modelled_device
from cugen.plan.context import Context, make_context
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.rewrite.sums.batched_parts import stored_parts
from cugen.rewrite.temporaries import storing_seconds
from cugen.schedule.splitting.single_statements import is_placed, single_of
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Reduce, Scan, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

_MIN_TERMS = 4096  # of whose ranges each has enough terms for a pipeline (heuristic)
_ALIGNED_ELEMENTS = 64  # of a range, as far as K is a multiple: a row of TMA's swizzle (heuristic)
_MIN_SPEEDUP = 1.25  # by the models, to pay for a second launch (heuristic)
_MAX_COUNTS = 3  # of ranges, that are planned


def with_batched_ranges(spec: Spec) -> Spec:
    """The spec with GEMMs over ranges of K where the models expect them to take less time; the same object if there are
    none."""
    for statement in spec.statements:
        if not is_placed(statement, spec) and (reduction := _long_sum(statement, make_context(spec))) is not None:
            spec = _fastest(spec, statement, reduction)
    return spec


def _long_sum(statement: Statement, context: Context) -> Reduce | None:
    """The sum of a statement, if it has no other loop, and has more terms than results."""
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    terms = [context.static_extent(index) for index in reduction.indices]
    results = [context.static_extent(index) for index in _outputs(statement, reduction)]
    if len(terms) != 1 or terms[0] is None or None in results or len(results) < 2:
        return None
    is_long = terms[0] >= max(_MIN_TERMS, math.prod(extent for extent in results if extent is not None))
    return reduction if is_long else None


def _fastest(spec: Spec, statement: Statement, reduction: Reduce) -> Spec:
    """The spec with the sum in the number of ranges that takes the least time, or as it is."""
    context, device = make_context(spec), modelled_device(spec.target)
    whole = _seconds(statement, context)
    terms = context.static_extent(reduction.indices[0])
    if whole is None or terms is None:
        return spec
    shortest, fastest = whole / _MIN_SPEEDUP, spec
    results = math.prod(context.static_extent(index) or 1 for index in _outputs(statement, reduction))
    for count in _counts(terms, device.sms):
        split = _with_ranges(spec, statement, reduction, count, terms // count)
        targets = {known.target for known in spec.statements}
        (partial,) = (added for added in split.statements if added.target not in targets)
        of_ranges = _seconds(partial, make_context(split))
        stored = storing_seconds(count * results * reduction.dtype.bytes, device)
        if of_ranges is not None and of_ranges + stored < shortest:
            shortest, fastest = of_ranges + stored, split
    return fastest


def _seconds(statement: Statement, context: Context) -> float | None:
    """The predicted time of a GEMM; None for what other families take."""
    request = single_of(statement, context).request()
    family = first_family(request)
    return None if family is None or family.predicted_seconds is None else family.predicted_seconds(request)


def _counts(terms: int, multiprocessors: int) -> Iterator[int]:
    """The numbers of ranges of equal lengths that are closest to the multiprocessors."""
    unit = math.gcd(terms, _ALIGNED_ELEMENTS)
    counts = (count for count in range(2, 2 * multiprocessors + 1) if terms // unit % count == 0)
    yield from sorted(counts, key=lambda count: abs(math.log(count / multiprocessors)))[:_MAX_COUNTS]


def _outputs(statement: Statement, reduction: Reduce) -> tuple[Index, ...]:
    """The indices of the sum's results."""
    return tuple(index for index in statement.indices if index.name in free_indices(reduction))


def _with_ranges(spec: Spec, statement: Statement, reduction: Reduce, count: int, length: int) -> Spec:
    (k,) = reduction.indices
    taken = taken_names(spec, (*statement.indices, k))
    part = Index(fresh("part", taken), Const(count, INT64))
    start = Op("mul", (IndexValue(part.name), Const(length, INT64)), INT64)
    body = substitute(reduction.body, {k.name: Op("add", (start, IndexValue(k.name)), INT64)})
    in_ranges = replace(reduction, body=body, indices=(part, Index(k.name, Const(length, INT64))))
    whole: dict[Expr, Expr] = {reduction: in_ranges}
    divided = replace(statement, value=replaced(statement.value, whole.get))
    parts, total = stored_parts(divided, in_ranges, part, taken)
    statements = [new for old in spec.statements for new in ((parts.statement, total) if old is statement else (old,))]
    return with_split_dimensions(replace(spec, arrays=(*spec.arrays, parts.array), statements=tuple(statements)))
