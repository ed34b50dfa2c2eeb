"""Stores the result of a GEMM in the order of its operands, where its own interleaves their dimensions.

    z[a, e, b, f] = sum(x[a, b, k] * y[e, f, k], k)
becomes
    z_product[a, b, e, f] = sum(x[a, b, k] * y[e, f, k], k)
    z[a, e, b, f] = z_product[a, b, e, f]
The first is one GEMM of a * b by e * f results, in whole tiles. As it is written it would be a batch of a * e GEMMs, of
b by f results each. A tile that is larger than these computes results that nobody needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby
from math import prod

from cugen.machine.devices import PLANNING_DEVICE
from cugen.plan.request import Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.stored_operands import operands_of
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES, steps_of, storing_seconds, temporary
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced

_TILE = 64  # results along a dimension that tiles come in (heuristic)
_MIN_SPEEDUP = 1.5  # of the arithmetic that is saved, over the copy (heuristic)


def with_ordered_output(single: Single, batch_family: str) -> Steps | None:
    """The product and its copy; None where the output interleaves no dimensions, an operand is no matrix, or the copy
    takes longer than the results that it saves. `batch_family` takes batches of small matrices."""
    statement = single.statement
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    operands = operands_of(single, reduction) if single.schedule == Schedule() else None
    if not all(
        isinstance(sub, IndexValue) for read in walk(reduction) if isinstance(read, Read) for sub in read.subscripts
    ):
        return None
    sizes = {i.name: single.context.typical_extent(i) or 0 for i in (*statement.indices, *reduction.indices)}
    if operands is None or 0 in sizes.values():
        return None
    a, b = (free_indices(operand) for operand in operands)
    indices = [index for index in statement.indices if sizes[index.name] > 1]
    sides = [_runs(indices, a - b), _runs(indices, b - a)]
    if max(map(len, sides)) < 2 or not all(sides) or not _is_faster(single, reduction, sides, sizes, batch_family):
        return None
    # The last dimension stays the last one: the copy is one of rows.
    sides.sort(key=lambda runs: indices[-1] in runs[-1])
    ordered = [index for runs in sides for run in runs for index in run]
    ordered = [index for index in statement.indices if index not in ordered] + ordered
    taken = taken_names(single.context.spec, (*statement.indices, *reduction.indices))
    name = fresh(f"{statement.target}_product", taken)
    what = f"in the order of the operands: {statement.text}"
    # A matrix in the epilogue is read in the order of the output.
    without: dict[Expr, Expr] = {reduction: Const(0, reduction.dtype)}
    value = reduction if _reads_matrix(replaced(statement.value, without.get)) else statement.value
    stored = temporary(name, tuple(ordered), value, what, statement, is_stored=True)
    if value == statement.value and not statement.accumulate:
        dtype = single.context.arrays[statement.target].dtype
        stored = replace(
            stored, array=replace(stored.array, dtype=dtype), read=replace(stored.read, dtype=dtype.compute)
        )
    reads: dict[Expr, Expr] = {value: stored.read}
    copied = replaced(statement.value, reads.get)
    steps = steps_of((stored,), replace(statement, value=copied), again=True)
    return replace(steps, opens_last=True)


def _reads_matrix(value: Expr) -> bool:
    return any(isinstance(node, Read) and len(node.subscripts) > 1 for node in walk(value))


def _runs(indices: Sequence[Index], names: Set[str]) -> list[list[Index]]:
    """The dimensions of an operand, by those that follow each other in the output."""
    runs = groupby(indices, key=lambda index: index.name in names)
    return [list(run) for is_of_operand, run in runs if is_of_operand]


def _is_faster(
    single: Single,
    reduction: Reduce,
    sides: Sequence[Sequence[Sequence[Index]]],
    sizes: Mapping[str, int],
    batch_family: str,
) -> bool:
    """Whether whole tiles save more time than the copy takes. Otherwise tiles have the last run of each operand; but
    other families take batches of small matrices, whose arithmetic takes less time than a copy."""

    def count(run: Iterable[Index]) -> int:
        return prod(sizes[index.name] for index in run)

    def computed(results: int) -> float:
        return -(-results // _TILE) * _TILE / results

    of_batch = prod(computed(count(runs[-1])) for runs in sides)
    of_one = prod(computed(prod(map(count, runs))) for runs in sides)
    types = [single.context.arrays[node.array].dtype for node in walk(reduction.body) if isinstance(node, Read)]
    widest = max(types, key=lambda dtype: dtype.bits)
    peaks = dict(PLANNING_DEVICE.peaks)
    peak = peaks.get(f"tensor_{widest.name}", peaks["float32"])
    multiplying = 2 * count((*single.statement.indices, *reduction.indices)) / peak
    saved = (of_batch - of_one) * multiplying
    stored = count(single.statement.indices) * single.context.arrays[single.statement.target].dtype.bytes
    copying = storing_seconds(stored, PLANNING_DEVICE)
    of_sides = {index.name for runs in sides for run in runs for index in run}
    is_batch = any(sizes[index.name] > 1 and index.name not in of_sides for index in single.statement.indices)
    if stored > MAX_TEMPORARY_BYTES or saved <= _MIN_SPEEDUP * copying:
        return False
    if multiplying > copying:
        return True
    return not is_batch and single.first_family(single.request()) != batch_family
