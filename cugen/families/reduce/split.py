"""Two-pass (split) reductions. Long ones with few results: partial results fill the device, a second launch reduces
them. Windows with short rows: their columns are reduced first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from cugen.families.reduce.columns import ColumnConfig
from cugen.families.reduce.config import (
    MIN_COLUMN_BLOCKS,
    THREADS_PER_SM,
    ThreadConfig,
    choose_config,
    is_cached_once,
    max_threads_per_column,
    part_block,
    point_count,
)
from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.families.reduce.recognition import match_reductions
from cugen.families.reduce.row_groups import column_seconds, rows_per_group
from cugen.families.reduce.rows import RowConfig
from cugen.families.reduce.short_rows import ShortRowConfig
from cugen.families.reduce.window_columns import with_stored_columns
from cugen.machine.devices import PLANNING_DEVICE
from cugen.plan.context import make_context
from cugen.plan.request import Refusal, Request, Single, Steps
from cugen.rewrite.split_reductions import ReductionSplitter
from cugen.spec.expressions import Index
from cugen.spec.model import Schedule

# Heuristics, tuned on H200.
MIN_ROW_BLOCKS = 2 * PLANNING_DEVICE.sms  # two per multiprocessor keep the device busy in a single pass
MIN_USED_FRACTION = 0.6  # of the waves of such blocks, each of which takes as long as the launch
EVEN_FRACTION = 0.95  # of the waves of parts
SATURATING_THREADS = 768 * PLANNING_DEVICE.sms  # with 64 bytes in flight each
MAX_WAVES = 4  # of the first pass: the partial last wave costs little
PLANNED_ROW_BLOCK_THREADS = 512
MIN_BYTES_PER_BLOCK = 3 << 17  # read in about the time of a second launch
MIN_LOAD_BATCHES = 64  # of a thread, whose latencies are more than a second launch takes
MIN_BYTES_PER_PART = 1 << 14
MIN_ROWS_PER_PART = 64  # of a reduction of columns
MIN_ROW_GROUPS_GAIN = 1.1  # of rows in groups, by rates that are rounded


def split(single: Single) -> Steps | None:
    """Both passes as statements; None where a single pass fills the device and reads whole sectors."""
    schedule = single.schedule
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    problem = match_reductions(single.request())
    if isinstance(problem, Refusal):
        return None
    config = choose_config(problem)
    if isinstance(config, RowConfig) and (steps := with_stored_columns(single, config)) is not None:
        return steps
    parts = _part_count(problem)
    if (steps := _steps_of_row_groups(single, problem, config, parts)) is not None:
        return steps
    if parts < 2 or (problem.column_index and is_cached_once(problem)):
        return None
    is_open = schedule == Schedule() and any(map(problem.shares_elements, problem.stages))
    steps = _steps(single, problem, {} if single.keeps_indices else problem.origins, parts, is_open=is_open)
    if isinstance(match_reductions(_first_request(single, steps)), Refusal):
        # Parts of fused indices are quotients and remainders in what is gathered at several of them.
        return _steps(single, problem, {}, parts, is_open=is_open)
    return steps


def _steps_of_row_groups(single: Single, problem: ReductionProblem, config: ThreadConfig, parts: int) -> Steps | None:
    """The steps with rows in groups, where they take less time than as many `parts` of single rows; None where steps
    are to share launches with those of statements of several stages, which have no groups."""
    rows = 1 if single.keeps_indices else rows_per_group(problem)
    if rows == 1 or not isinstance(config, ColumnConfig):
        return None
    steps = _steps(single, problem, problem.origins, 1, is_open=False, rows=rows)
    grouped = match_reductions(_first_request(single, steps))
    if isinstance(grouped, Refusal) or not grouped.column_index:
        return None
    wide, wide_parts = choose_config(grouped), _part_count(grouped)
    if not isinstance(wide, ColumnConfig) or wide.width <= config.width:
        return None
    seconds = column_seconds(problem, config, parts, is_stored=parts > 1)
    if MIN_ROW_GROUPS_GAIN * column_seconds(grouped, wide, wide_parts, is_stored=True) > seconds:
        return None
    return _steps(single, problem, problem.origins, wide_parts, is_open=False, rows=rows)


def _steps(
    single: Single,
    problem: ReductionProblem,
    origins: Mapping[str, tuple[Index, ...]],
    parts: int,
    *,
    is_open: bool,
    rows: int = 1,
) -> Steps:
    """The steps with parts of an index of the problem, or of one of those that it replaces where `origins` has none."""

    def indices(stage: Stage) -> tuple[Index, ...]:
        replaced = {name: indices for name, indices in problem.origins.items() if name not in origins}
        return tuple(index for i in stage.indices for index in replaced.get(i.name, (i,)))

    (statement,), stages = problem.unfused, [indices(stage) for stage in problem.stages]
    aligned = () if problem.column_index else [stage[-1] for stage in stages]
    columns = [index for index in problem.output_indices if index.name == problem.column_index]
    return ReductionSplitter(
        statement,
        single.context,
        stages,
        origins,
        parts,
        aligned=aligned,
        is_open=is_open,
        rows=rows,
        columns=[origin.name for origin in problem.origins.get(problem.column_index, columns)],
    ).steps()


def _first_request(single: Single, steps: Steps) -> Request:
    """The first of the steps as a kernel of its own."""
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    return replace(single, context=context, statement=steps.statements[0]).request(steps.open)


def _part_count(problem: ReductionProblem) -> int:
    """Parts per result; 1 where one pass fills the device, or where a second launch costs more than it saves."""
    split_k = dict(problem.request.schedule.tunables).get("split_k")
    if split_k is not None:
        return int(split_k)
    config = choose_config(problem)
    if isinstance(config, ShortRowConfig):
        return 1
    results = point_count(problem, problem.output_indices)
    longest = max(point_count(problem, stage.indices) for stage in problem.stages)
    element_bytes = max(problem.arrays[read.array].dtype.bytes for stage in problem.stages for read in stage.reads)
    if isinstance(config, RowConfig):
        blocks, min_blocks = -(-results // (config.rows * config.outer_rows)), MIN_ROW_BLOCKS
        wave = _resident_blocks(PLANNED_ROW_BLOCK_THREADS)
        parts = min(MAX_WAVES * wave // max(blocks, 1), longest * element_bytes // MIN_BYTES_PER_PART)
        fills_device = blocks >= min_blocks
    else:
        blocks = -(-results // (config.threads * config.width * config.outer_rows))
        threads, per_column = part_block(problem, config)
        wave, part_blocks = _resident_blocks(threads * per_column), -(-results // (threads * config.width))
        parts = _even_parts(part_blocks, wave, longest // MIN_ROWS_PER_PART)
        # Blocks may have fewer threads than those of a wave.
        part_threads = part_blocks * threads * min(per_column, max_threads_per_column(problem, threads))
        parts = max(parts, min(SATURATING_THREADS // part_threads, longest // MIN_ROWS_PER_PART))
        fills_device = blocks >= MIN_COLUMN_BLOCKS and _used_fraction(blocks, wave) >= MIN_USED_FRACTION
    busy = max(min(blocks, PLANNING_DEVICE.sms), 1)
    is_read_fast = results * longest * element_bytes // busy < MIN_BYTES_PER_BLOCK
    if fills_device or (is_read_fast and _load_batches(problem, config) < MIN_LOAD_BATCHES):
        return 1
    return max(parts, 1)


def _load_batches(problem: ReductionProblem, config: ThreadConfig) -> int:
    """Loads of a thread of a row, one after the other: those of a loop inside of others are in flight together, as far
    as it is unrolled. None of columns, whose parts are as long as they must be."""
    if not isinstance(config, RowConfig):
        return 0

    def batches(stage: Stage) -> int:
        *slower, fastest = map(problem.planned_extent, stage.indices)
        in_flight = config.threads * config.width * config.unroll
        return -(-prod(slower) // config.outer_threads) * -(-fastest // in_flight)

    return sum(map(batches, problem.stages))


def _even_parts(blocks: int, wave: int, maximum: int) -> int:
    """The fewest parts of columns with which whole waves are busy, or those that come closest."""
    counts = range(1, max(min(MAX_WAVES * wave // max(blocks, 1), maximum), 1) + 1)
    even = (parts for parts in counts if _used_fraction(parts * blocks, wave) >= EVEN_FRACTION)
    return next(even, max(counts, key=lambda parts: _used_fraction(parts * blocks, wave)))


def _used_fraction(blocks: int, wave: int) -> float:
    """The blocks, relative to those of whole waves."""
    return blocks / (wave * max(-(-blocks // wave), 1))


def _resident_blocks(threads: int) -> int:
    """Blocks of so many threads that are resident at once."""
    return PLANNING_DEVICE.sms * (THREADS_PER_SM // threads)
