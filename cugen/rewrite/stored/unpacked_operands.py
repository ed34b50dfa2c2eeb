"""Stores numbers that share a byte or a word one by one, so that a GEMM of few rows reads them in vectors.

    y[m, n] = sum(x[m, k] * ((w[n, k // 2] >> k % 2 * 4) & 15), k)
becomes
    w_unpacked[n, k] = (w[n, k // 2] >> k % 2 * 4) & 15
    y[m, n] = sum(x[m, k] * w_unpacked[n, k], k)
With more rows operands are stored as matrices of the other one's type; a single row is a reduction that unpacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from cugen.plan.request import Request, Single, Steps
from cugen.plan.subscripts import type_range
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import last_request, steps_of, temporary
from cugen.spec.expressions import Expr, Op, Read, Reduce, Scan, Select, children, free_indices, walk
from cugen.spec.model import Schedule
from cugen.spec.rewriting import converted, replaced
from cugen.spec.types import INT8, UINT8

MAX_ROWS = 16  # of a skinny GEMM; with more, `stored_operands` pays off
_MIN_MULTIPLY_ADDS = 1 << 21  # below, the second launch costs more than it saves (heuristic)
_MAX_BYTES = 1 << 29


def with_unpacked_operand(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The statement that stores the operand, and the sum that reads it; None without one, where the sum `is_taken` by a
    family as it is, or isn't then."""
    statement, extent = single.statement, single.context.max_extent
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.where is not None or single.schedule != Schedule():
        return None
    if any(isinstance(node, Select) for node in walk(statement.value)):  # which may keep a subscript in bounds
        return None
    indices = (*statement.indices, *reduction.indices)
    for value in _packed_values(reduction.body, {index.name for index in reduction.indices}):
        dimensions = tuple(index for index in indices if index.name in free_indices(value))
        rows = prod(extent(index) for index in statement.indices if index not in dimensions)
        size = prod(map(extent, dimensions))
        if not 1 < rows <= MAX_ROWS or rows * size < _MIN_MULTIPLY_ADDS or size > _MAX_BYTES:
            continue
        if is_taken(single.request()):
            return None
        low, high = type_range(value)
        dtype = next(dtype for dtype in (UINT8, INT8) if dtype.lowest <= low and high <= dtype.highest)
        array = next(node.array for node in walk(value) if isinstance(node, Read))
        taken = taken_names(single.context.spec, indices)
        what = f"{array} as it is read by: {statement.text}"
        stored = temporary(fresh(f"{array}_unpacked", taken), dimensions, value, what, statement, is_stored=True)
        stored = replace(stored, array=replace(stored.array, dtype=dtype), read=replace(stored.read, dtype=dtype))
        reads: dict[Expr, Expr] = {value: converted(stored.read, value.dtype)}
        steps = steps_of((stored,), replace(statement, value=replaced(statement.value, reads.get)))
        if is_taken(last_request(single, steps)):
            return steps
    return None


def _packed_values(expr: Expr, names: set[str]) -> Iterator[Expr]:
    """The largest expressions of integers that fit a byte, and read an array at a quotient of some index."""
    if expr.dtype.is_integer and free_indices(expr) & names and any(map(_is_packed, walk(expr))):
        low, high = type_range(expr)
        if any(dtype.lowest <= low and high <= dtype.highest for dtype in (UINT8, INT8)):
            yield expr
            return
    if not isinstance(expr, Read):
        for part in children(expr):
            yield from _packed_values(part, names)


def _is_packed(node: Expr) -> bool:
    """Whether several numbers are in an element of an array: it is read at a quotient, and shifted."""
    if not isinstance(node, Op) or node.name != "shr":
        return False
    reads = (read for read in walk(node) if isinstance(read, Read))
    return any(
        isinstance(n, Op) and n.name == "floordiv" for read in reads for sub in read.subscripts for n in walk(sub)
    )
