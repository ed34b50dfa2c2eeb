"""Two-pass (split) reduction for few results of long reductions: partial results that fill the device, then their
reduction in a second launch.

Both passes are statements of the spec language. The first reduces chunks of equal length of one index, the second the
partial results. The order of summation depends on the sizes alone, so that results are reproducible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.reduce.accumulate import all_of
from cugen.families.reduce.config import THREADS_PER_SM, choose_config, point_count
from cugen.families.reduce.recognition import ReductionProblem, match_reductions
from cugen.families.reduce.rows import RowConfig
from cugen.families.reduce.short_rows import ShortRowConfig
from cugen.machine.devices import PLANNING_DEVICE
from cugen.pieces.block_reduce import WARP
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Group, Refusal, Request, Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.align_reductions import collected, rebuilt
from cugen.rewrite.fuse_dimensions import delinearised, product
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, walk
from cugen.spec.model import Array, Statement
from cugen.spec.prove.affine import text_of
from cugen.spec.types import BOOL, INT64

# Heuristics, tuned on H200.
MIN_ROW_BLOCKS = 2 * PLANNING_DEVICE.sms  # two per multiprocessor keep the device busy in a single pass
MIN_COLUMN_BLOCKS = 200  # of up to 1024 threads
MAX_WAVES = 4  # of the first pass: the partial last wave costs little
PLANNED_ROW_BLOCK_THREADS = 512
MIN_BYTES_PER_BLOCK = 3 << 17  # read in about the time of a second launch
MIN_BYTES_PER_PART = 1 << 14
MIN_ROWS_PER_PART = 64  # of a reduction of columns
CHUNK_MULTIPLE = 4096  # elements of a row: full vectors for all threads of a block


def split(single: Single) -> Steps | None:
    """Both passes as statements; None where the results of a single pass fill the device."""
    schedule = single.schedule
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    request = Request("", Group((single.statement,)), single.context, schedule, single.target)
    problem = match_reductions(request)
    if isinstance(problem, Refusal):
        return None
    parts = _part_count(problem)
    return None if parts < 2 else _Splitter(problem, parts).steps()


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
        blocks, min_blocks = -(-results // config.rows), MIN_ROW_BLOCKS
        wave = _resident_blocks(PLANNED_ROW_BLOCK_THREADS)
        to_fill = MAX_WAVES * wave // max(blocks, 1)
        max_parts = longest * element_bytes // MIN_BYTES_PER_PART
    else:
        blocks, min_blocks = -(-results // (config.threads * config.width)), MIN_COLUMN_BLOCKS
        full_warp_blocks = -(-results // (max(config.threads, WARP) * config.width))
        wave = _resident_blocks(config.threads * config.threads_per_column)
        to_fill = MAX_WAVES * wave // max(full_warp_blocks, 1)
        max_parts = longest // MIN_ROWS_PER_PART
    busy = max(min(blocks, PLANNING_DEVICE.sms), 1)
    if blocks >= min_blocks or results * longest * element_bytes // busy < MIN_BYTES_PER_BLOCK:
        return 1
    return max(min(to_fill, max_parts), 1)


def _resident_blocks(threads: int) -> int:
    """Blocks of so many threads that are resident at once."""
    return PLANNING_DEVICE.sms * (THREADS_PER_SM // threads)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """One index split into chunks: `element` counts within chunk `number`, which starts at `number * chunk`.

    `coordinates` are the values of the indices that the split one was fused from; `in_range` is the condition that the
    element exists."""

    number: Index
    element: Index
    coordinates: Mapping[str, Expr]
    in_range: Expr | None


class _Splitter:
    """The passes of one statement, reduction by reduction."""

    def __init__(self, problem: ReductionProblem, parts: int) -> None:
        self.problem, self.parts = problem, parts
        (self.statement,) = problem.unfused
        self.taken = {array.name for array in problem.request.context.spec.arrays}
        self.taken |= {index.name for stage in problem.stages for index in stage.indices}
        self.taken |= {index.name for index in (*self.statement.indices, *problem.output_indices)}
        self.part = self._name("part")
        self.steps_before: list[Statement] = []
        self.tuned: list[str] = []
        self.temporaries: list[Array] = []

    def steps(self) -> Steps:
        statement, value = self.statement, self.statement.value
        while remaining := collected((replace(statement, value=value),)):
            self.results = {reduction: self._of_partials(reduction) for reduction in remaining[0]}
            if len(remaining) == 1:
                break
            # Results that later reductions need are stored, for all of their parts to read.
            stored = {reduction: self._stored(result, reduction) for reduction, result in self.results.items()}
            value = self._with(value, stored)
        last = replace(statement, value=self._with(value, self.results))
        open_ = (array.name for array in self.temporaries if array.name not in self.tuned)
        return Steps((*self.steps_before, last), tuple(self.temporaries), tuple(open_), tuple(self.tuned))

    def _with(self, value: Expr, results: Mapping[Reduce, Expr]) -> Expr:
        return rebuilt(value, lambda node: results.get(node) if isinstance(node, Reduce) else None)

    def _of_partials(self, reduction: Reduce) -> Expr:
        """The second pass: the reduction of the partial results, which a step before it stores."""
        chunks = self._chunks(reduction)
        body = substitute(reduction.body, chunks.coordinates)
        where = None if reduction.where is None else substitute(reduction.where, chunks.coordinates)
        unsplit = tuple(index for index in reduction.indices if index.name not in chunks.coordinates)
        conditions = [condition for condition in (chunks.in_range, where) if condition is not None]
        partial = replace(reduction, body=body, where=all_of(conditions), indices=(*unsplit, chunks.element))
        indices = (chunks.number, *self.statement.indices)
        if reduction.kind not in ("argmax", "argmin"):
            stored = self._partials(partial, indices, "parts", self._text(reduction, chunks))
            return replace(reduction, body=stored, where=None, indices=(chunks.number,))
        # The chunk with the extreme element, then the element's position in the chunk.
        kind = reduction.kind.removeprefix("arg")
        extreme = replace(partial, kind=kind, dtype=reduction.body.dtype)
        position = self._partials(partial, indices, "positions", self._text(reduction, chunks))
        value = self._partials(extreme, indices, "parts", self._text(replace(reduction, kind=kind), chunks))
        has_element: Expr | None = None
        if reduction.where is not None:
            has_element = Op("ge", (position, Const(0, INT64)), BOOL)
        winner = replace(reduction, body=value, where=has_element, indices=(chunks.number,))
        chunk_number = self._stored(winner, reduction, "part")
        in_chunk = replace(position, subscripts=(chunk_number, *position.subscripts[1:]))
        return Op("add", (Op("mul", (chunk_number, chunks.element.extent), INT64), in_chunk), INT64)

    def _chunks(self, reduction: Reduce) -> _Chunks:
        problem = self.problem
        names = {index.name for index in reduction.indices}
        fitting = [stage for stage in problem.stages if self._names(stage.indices) <= names]
        stage = max(fitting, key=lambda stage: len(self._names(stage.indices)))
        long = [index for index in stage.indices if problem.max_extent(index) >= 2 * self.parts]
        index = long[0] if long else max(stage.indices, key=problem.max_extent)
        origins = problem.origins.get(index.name, (index,))
        total = product(tuple(origin.extent for origin in origins))
        multiple = CHUNK_MULTIPLE if index == stage.fastest and not problem.column_index else 1
        chunk, count, is_even = self._chunk_length(index, total, multiple)
        number = IndexValue(self.part)
        position = Op("add", (Op("mul", (number, chunk), INT64), IndexValue(index.name)), INT64)
        in_range = None if is_even else Op("lt", (position, total), BOOL)
        coordinates = delinearised(position, tuple(origin.extent for origin in origins))
        return _Chunks(
            Index(self.part, Const(count, INT64)),
            Index(index.name, chunk),
            {origin.name: digit for origin, digit in zip(origins, coordinates, strict=True)},
            in_range,
        )

    def _names(self, indices: tuple[Index, ...]) -> set[str]:
        return {origin.name for index in indices for origin in self.problem.origins.get(index.name, (index,))}

    def _chunk_length(self, index: Index, total: Expr, multiple: int) -> tuple[Expr, int, bool]:
        """The elements of a chunk, the number of chunks, and whether all of them are full."""
        extent = self.problem.request.context.static(self.problem.extent(index))
        if extent is not None:
            length = -(-extent // self.parts)
            while multiple > 1 and length < 16 * multiple:
                multiple //= 2
            chunk = -(-length // multiple) * multiple
            return Const(chunk, INT64), -(-extent // chunk), extent % chunk == 0
        step = self.parts * multiple
        padded = Op("add", (total, Const(step - 1, INT64)), INT64)
        multiples = Op("floordiv", (padded, Const(step, INT64)), INT64)
        scaled = multiples if multiple == 1 else Op("mul", (multiples, Const(multiple, INT64)), INT64)
        return scaled, self.parts, False

    def _partials(self, reduction: Reduce, indices: tuple[Index, ...], suffix: str, text: str) -> Read:
        """The step of the first pass, to which the schedule's tunables apply."""
        stored = self._step(reduction, indices, suffix, text)
        self.tuned.append(stored.array)
        return stored

    def _step(self, reduction: Reduce, indices: tuple[Index, ...], suffix: str, text: str) -> Read:
        """Adds the statement that stores a reduction in a temporary; returns the read of it."""
        kind = ACCUMULATORS[reduction.kind] if self._has_several_reductions() and suffix == "parts" else ""
        name = self._name("_".join(filter(None, (self.statement.target, kind, suffix))))
        shape = tuple(index.extent for index in indices)
        strides = tuple(product(shape[dimension + 1 :]) for dimension in range(len(shape)))
        self.temporaries.append(Array(name, shape, reduction.dtype, "temporary", strides, is_temporary=True))
        subscripts = tuple(IndexValue(index.name) for index in indices)
        subscripted = f"[{', '.join(index.name for index in indices)}]" if indices else ""
        self.steps_before.append(
            Statement(
                name, subscripts, indices, reduction, text=f"{name}{subscripted} = {text}", span=self.statement.span
            )
        )
        return Read(name, subscripts, reduction.dtype)

    def _stored(self, result: Expr, reduction: Reduce, suffix: str = "") -> Read:
        assert isinstance(result, Reduce)
        return self._step(
            result, self.statement.indices, suffix or ACCUMULATORS[reduction.kind], f"{result.kind} of the parts"
        )

    def _has_several_reductions(self) -> bool:
        return sum(isinstance(node, Reduce) for node in walk(self.statement.value)) > 1

    def _text(self, reduction: Reduce, chunks: _Chunks) -> str:
        element, chunk = chunks.element.name, text_of(chunks.element.extent)
        position = f"{chunks.number.name} * {chunk} + {element}"
        return f"{reduction.kind} over {element} < {chunk} at {position}, of: {self.statement.text}"

    def _name(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name
