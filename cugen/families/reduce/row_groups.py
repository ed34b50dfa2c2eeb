"""Columns of rows that begin anywhere, such as those of odd length: with rows in groups, vectors go on from one row to
the next, and are aligned in each group.

    y[j] = sum(x[i, j], i)                          x: [M, 155] of bfloat16
becomes
    y_parts[part, row, j] = sum(x[8 * (part * chunk + i) + row, j], i);  y[j] = sum(y_parts[part, row, j], part, row)
with 8 * 155 columns, row and j fused, in the first step.
"""

from __future__ import annotations

import math

from cugen.families.reduce.columns import ColumnConfig, column_width
from cugen.families.reduce.config import (
    THREADS_PER_SM,
    max_columns_per_thread,
    min_element_bytes,
    point_count,
)
from cugen.families.reduce.problem import ReductionProblem
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.latency import bandwidth_share
from cugen.plan.alignment import divisor
from cugen.rewrite.temporaries import storing_seconds
from cugen.spec.expressions import free_indices


def rows_per_group(problem: ReductionProblem) -> int:
    """The fewest rows whose columns vectors of full width divide; 1 where their width is that already, and where the
    steps would be other than one pass over a fixed number of rows and one over its results."""
    if not problem.column_index or len(problem.stages) > 1 or problem.request.schedule.tunables:
        return 1
    (stage,), context = problem.stages, problem.context
    if len(stage.all_indices) > 1 or any(reduction.is_position for reduction in stage.reductions):
        return 1
    (index,) = (index for index in problem.output_indices if index.name == problem.column_index)
    width, extent = max_columns_per_thread(problem), context.static_extent(stage.fastest)
    rows = width // math.gcd(width, divisor(context.extent(index), context))
    is_narrow = column_width(problem).count < width
    return rows if is_narrow and extent is not None and extent >= 2 * rows else 1


def column_seconds(problem: ReductionProblem, config: ColumnConfig, parts: int, *, is_stored: bool) -> float:
    """The time of a pass in so many parts over all columns, by what threads load ahead, and, of results that a second
    pass reads, that of storing them."""
    device, block = PLANNING_DEVICE, config.threads * config.threads_per_column * config.outer_rows
    results = parts * point_count(problem, problem.output_indices)
    blocks = max(results // (config.threads * config.width * config.outer_rows), 1)
    resident = min(device.sms * max(THREADS_PER_SM // block, 1), blocks)
    ahead = resident * block * config.unroll * config.width * min_element_bytes(problem)
    moved = stored = 0
    for stage in problem.stages:
        arrays = {read.array for read in stage.reads if problem.column_index in free_indices(read)}
        points = point_count(problem, (*problem.output_indices, *stage.all_indices))
        moved += points * sum(problem.arrays[name].dtype.bytes for name in arrays)
        stored += results * sum(reduction.dtype.bytes for reduction in stage.reductions)
    seconds = moved / (device.bandwidth * bandwidth_share(device, ahead))
    return seconds + (storing_seconds(stored, device) if is_stored else 0.0)
