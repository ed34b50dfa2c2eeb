"""Weights that adjacent outputs read far apart, as in a depthwise convolution with channels last, in another order.

    y[n, i, j, c] = sum(x[n, i + r, j + s, c] * w[c, r, s], r, s)
becomes
    w_ordered[r, s, c] = w[c, r, s]
    y[n, i, j, c] = sum(x[n, i + r, j + s, c] * w_ordered[r, s, c], r, s)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from cugen.pieces.grid import fastest_first
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import MIN_MULTIPLY_ADDS, Temporary, last_request, steps_of, temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Read, bound_indices, walk
from cugen.spec.model import Memory, Schedule
from cugen.spec.rewriting import replaced

MIN_OUTPUTS_PER_WEIGHT = 16  # outputs that outweigh the copy of a weight (heuristic)


def with_ordered_weights(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The copies, and the statement that reads them; None where the original `is_taken` by the family, or the other one
    is not."""
    statement = single.statement
    if single.schedule != Schedule() or not statement.indices:
        return None
    (along, *_) = fastest_first(single.request())
    indices = {index.name: index for index in (*statement.indices, *bound_indices(statement.value))}
    extent = single.context.planned_extent
    if prod(map(extent, indices.values())) < MIN_MULTIPLY_ADDS:
        return None
    reads = dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Read))
    weights = [read for read in reads if _is_strided(read, along, indices, single)]
    outputs = prod(map(extent, statement.indices))
    if not weights or any(MIN_OUTPUTS_PER_WEIGHT * _size(read, indices, single) > outputs for read in weights):
        return None
    if is_taken(single.request()):
        return None
    copies = _copies(weights, along, indices, single)
    values: dict[Expr, Expr] = {read: copy.read for read, copy in copies.items()}
    steps = steps_of(tuple(copies.values()), replace(statement, value=replaced(statement.value, values.get)))
    return steps if is_taken(last_request(single, steps)) else None


def _is_strided(read: Read, along: Index, indices: dict[str, Index], single: Single) -> bool:
    """Whether adjacent outputs read elements of an input that are apart, and all of its subscripts are different
    indices."""
    array, declared = single.context.arrays[read.array], single.context.spec.array(read.array)
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    if len(set(names)) < len(read.subscripts) or along.name not in names or not set(names) <= indices.keys():
        return False
    if declared.role != "input" or declared.values is not None or declared.memory != Memory():
        return False
    return read.boundary is None and not read.exact and array.strides[names.index(along.name)] != 1


def _size(read: Read, indices: dict[str, Index], single: Single) -> int:
    names = (sub.name for sub in read.subscripts if isinstance(sub, IndexValue))
    return prod(single.context.planned_extent(indices[name]) for name in names)


def _copies(weights: list[Read], along: Index, indices: dict[str, Index], single: Single) -> dict[Read, Temporary]:
    spec = single.context.spec
    taken = taken_names(spec, indices.values())
    copies = {}
    for read in weights:
        names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
        order = (*(indices[name] for name in names if name != along.name), along)
        what = f"{read.array}[{', '.join(names)}]"
        name = fresh(f"{read.array}_ordered", taken)
        copies[read] = temporary(name, order, read, what, single.statement, is_stored=True)
    return copies
