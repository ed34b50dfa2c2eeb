"""Splits the reductions of a statement into reductions of chunks, and the reductions of their results.

    y[i] = sum(x[i, j], j)
becomes
    y_parts[part, i] = sum(x[i, part * chunk + j], j < chunk);  y[i] = sum(y_parts[part, i], part)
and with rows in groups of 8, so that vectors of columns go on from one row to the next,
    y[j] = sum(x[i, j], i)
becomes, with what is left of the last group beside it,
    y_parts[part, row, j] = sum(x[8 * (part * chunk + i) + row, j], i < chunk);  y[j] = sum(y_parts[part, row, j], ...)

With `whole` indices, whose values are the parts, where none of the indices has enough of these,
    y = sum(f(x[i, j], x[j, k], x[i, k]), i, j, k)
becomes
    y_parts[i, k] = sum(f(x[i, j], x[j, k], x[i, k]), j);  y = sum(y_parts[i, k], i, k)

The order of summation depends on the sizes alone, so that results are reproducible."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2

from cugen.machine.devices import PLANNING_DEVICE
from cugen.plan.context import Context
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.align_reductions import collected
from cugen.rewrite.fresh_names import constants_of, fresh, taken_names
from cugen.rewrite.fuse_dimensions import delinearised, product
from cugen.rewrite.indices.row_groups import group_of_rows
from cugen.rewrite.sums.short_reductions import OPERATORS
from cugen.rewrite.temporaries import Temporary, steps_of, temporary
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, conjunction, walk
from cugen.spec.model import Statement
from cugen.spec.prove.affine import text_of
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT64

CHUNK_MULTIPLE = 4096  # elements of a row: full vectors for all threads of a block
_SINGLE_ELEMENT = Const(1, INT64)
MIN_RUN_ELEMENTS = 32  # of a part of the contiguous index: one for each lane of a warp (heuristic)
MAX_ROUNDED_RUN_ELEMENTS = 512  # of a run that threads share, a few elements each (heuristic)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """One index split into chunks: `element` counts within chunk `number`, which starts at `number * chunk`. Elements
    are groups of rows where there is an index `row`.

    `coordinates`: values of the indices that the split one was fused from; `in_range`: that the element exists. `after`
    counts the rows after the last group, with `coordinates_after`."""

    number: Index
    element: Index
    coordinates: Mapping[str, Expr]
    in_range: Expr | None
    row: Index | None = None
    after: Index | None = None
    coordinates_after: Mapping[str, Expr] = field(default_factory=dict)


class ReductionSplitter:
    """The passes of one statement, reduction by reduction, with `parts` results of the first for each of the second.

    `stages` are the fused indices of its reductions, `origins` what each was fused from; chunks of the `aligned` ones
    start at multiples of vectors. The steps of the first pass belong to the family that asks, or, `open`, to any. With
    `rows` in a group, results before those of the second pass have one more index, before the `columns`. With `whole`
    indices, the last of which is the fastest of the partial results, these aren't split."""

    def __init__(
        self,
        statement: Statement,
        context: Context,
        stages: Sequence[tuple[Index, ...]],
        origins: Mapping[str, tuple[Index, ...]],
        parts: int,
        *,
        aligned: Collection[Index] = (),
        is_open: bool = False,
        rows: int = 1,
        columns: Collection[str] = (),
        whole: Sequence[str] = (),
    ) -> None:
        self.statement, self.context, self.stages, self.origins = statement, context, stages, origins
        self.parts, self.aligned, self.is_open = parts, aligned, is_open
        self.rows, self.columns, self.whole = rows, columns, whole
        in_use = (index for indices in (*stages, statement.indices) for index in indices)
        self.taken = taken_names(context.spec, in_use) | set(origins)
        self.part = fresh("part", self.taken)
        self.row = fresh("row", self.taken) if rows > 1 else ""
        self.temporaries: list[Temporary] = []

    def steps(self) -> Steps:
        last = self.statement
        while remaining := collected((last,)):
            partials = {reduction: self._of_partials(reduction) for reduction in remaining[0]}
            if len(remaining) > 1:
                # Results that later reductions need are stored, for all of their parts to read.
                partials = {reduction: self._stored(result, reduction) for reduction, result in partials.items()}
            results: dict[Expr, Expr] = dict(partials.items())
            last = replace(last, value=replaced(last.value, results.get))
            if len(remaining) == 1:
                break
        # The schedule's tunables apply to the steps of the first pass.
        tuned = (t.statement.target for t in self.temporaries if self.part in (i.name for i in t.statement.indices))
        named = () if self.is_open else tuple(tuned)
        # Partial results of threads may be many: the family that reduces them splits their reduction once more.
        return steps_of(self.temporaries, last, tuned=named, splits_last=self.is_open)

    def _of_partials(self, reduction: Reduce) -> Expr:
        """The second pass: the reduction of the partial results, which a step before it stores."""
        if self.whole:
            return self._of_index_partials(reduction)
        chunks = self._chunks(reduction)
        body = substitute(reduction.body, chunks.coordinates)
        where = None if reduction.where is None else substitute(reduction.where, chunks.coordinates)
        unsplit = tuple(index for index in reduction.indices if index.name not in chunks.coordinates)
        conditions = [condition for condition in (chunks.in_range, where) if condition is not None]
        # A chunk of one element needs no loop, and its index is that of the chunk for all terms.
        elements = () if unsplit and chunks.element.extent == _SINGLE_ELEMENT else (chunks.element,)
        partial = replace(reduction, body=body, where=conjunction(conditions), indices=(*unsplit, *elements))
        if chunks.row is not None:
            return self._of_row_partials(reduction, partial, chunks, chunks.row)
        indices = (chunks.number, *self.statement.indices)
        if not reduction.is_position:
            stored = self._step(partial, indices, "parts", self._text(reduction, chunks))
            return replace(reduction, body=stored, where=None, indices=(chunks.number,))
        # The chunk with the extreme element, then the element's position in the chunk.
        kind = reduction.kind.removeprefix("arg")
        extreme = replace(partial, kind=kind, dtype=reduction.body.dtype)
        position = self._step(partial, indices, "positions", self._text(reduction, chunks))
        value = self._step(extreme, indices, "parts", self._text(replace(reduction, kind=kind), chunks))
        has_element = None if reduction.where is None else Op("ge", (position, Const(0, INT64)), BOOL)
        winner = replace(reduction, body=value, where=has_element, indices=(chunks.number,))
        chunk_number = self._stored(winner, reduction, "part")
        in_chunk = replace(position, subscripts=(chunk_number, *position.subscripts[1:]))
        return Op("add", (Op("mul", (chunk_number, chunks.element.extent), INT64), in_chunk), INT64)

    def _of_index_partials(self, reduction: Reduce) -> Expr:
        """The second pass over the partial results of the values of indices."""
        known = {index.name: index for index in reduction.indices}
        whole = tuple(known[name] for name in self.whole)
        partial = replace(reduction, indices=tuple(index for index in reduction.indices if index not in whole))
        text = f"{reduction.kind} over {', '.join(index.name for index in partial.indices)}, of: {self.statement.text}"
        stored = self._step(partial, (*self.statement.indices, *whole), "parts", text)
        return replace(reduction, body=stored, where=None, indices=whole)

    def _of_row_partials(self, reduction: Reduce, partial: Reduce, chunks: _Chunks, row: Index) -> Expr:
        """The second pass over the partial results of each row of a group, and over the rows after the last group."""
        number = next(n for n, index in enumerate(self.statement.indices) if index.name in self.columns)
        outer, columns = self.statement.indices[:number], self.statement.indices[number:]
        stored = self._step(partial, (chunks.number, *outer, row, *columns), "parts", self._text(reduction, chunks))
        result = replace(reduction, body=stored, where=None, indices=(chunks.number, row))
        if chunks.after is None:
            return result
        body = substitute(reduction.body, chunks.coordinates_after)
        where = None if reduction.where is None else substitute(reduction.where, chunks.coordinates_after)
        unsplit = tuple(index for index in reduction.indices if index.name not in chunks.coordinates_after)
        of_last = replace(reduction, body=body, where=where, indices=(*unsplit, chunks.after))
        return Op(OPERATORS[reduction.kind], (result, of_last), reduction.dtype)

    def _chunks(self, reduction: Reduce) -> _Chunks:
        names = {index.name for index in reduction.indices}
        fitting = [indices for indices in self.stages if self._names(indices) <= names]
        indices = max(fitting, key=lambda indices: len(self._names(indices)))
        index = self._split_index(indices)
        origins = self.origins.get(index.name, (index,))
        total = product(tuple(origin.extent for origin in origins))
        if self.rows > 1:
            return self._chunks_of_groups(index, origins)
        multiple = CHUNK_MULTIPLE if index in self.aligned else 1
        chunk, count, is_even = self._chunk_length(index, total, multiple)
        number = IndexValue(self.part)
        position: Expr = Op("add", (Op("mul", (number, chunk), INT64), IndexValue(index.name)), INT64)
        if chunk == _SINGLE_ELEMENT:
            position = number
        in_range = None if is_even else Op("lt", (position, total), BOOL)
        coordinates = delinearised(position, tuple(origin.extent for origin in origins))
        return _Chunks(
            Index(self.part, Const(count, INT64)),
            Index(index.name, chunk),
            {origin.name: digit for origin, digit in zip(origins, coordinates, strict=True)},
            in_range,
        )

    def _chunks_of_groups(self, index: Index, origins: tuple[Index, ...]) -> _Chunks:
        """The chunks of an index of fixed extent, in groups of rows."""
        extent = self.context.static_extent(index)
        assert extent is not None
        groups, left = divmod(extent, self.rows)
        chunk = -(-groups // self.parts)
        count = -(-groups // chunk)
        start = Op("mul", (IndexValue(self.part), Const(chunk, INT64)), INT64)
        group = Op("add", (start, IndexValue(index.name)), INT64)
        extents, names = tuple(origin.extent for origin in origins), [origin.name for origin in origins]
        after = Op("add", (Const(groups * self.rows, INT64), IndexValue(index.name)), INT64)
        return _Chunks(
            Index(self.part, Const(count, INT64)),
            Index(index.name, Const(chunk, INT64)),
            dict(zip(names, delinearised(group_of_rows(group, self.row, self.rows), extents), strict=True)),
            None if groups % chunk == 0 else Op("lt", (group, Const(groups, INT64)), BOOL),
            Index(self.row, Const(self.rows, INT64)),
            Index(index.name, Const(left, INT64)) if left else None,
            dict(zip(names, delinearised(after, extents), strict=True)),
        )

    def _split_index(self, indices: tuple[Index, ...]) -> Index:
        """The slowest index that is long enough, else the longest one; the slower one with the most parts where that is
        the contiguous one, parts of which are short runs, and these are as many or leave no multiprocessor idle."""
        extent = self.context.planned_extent
        aligned = [index for index in indices if index in self.aligned]
        if long := [i for i in indices if extent(i) >= self.parts * (MIN_RUN_ELEMENTS if i in aligned else 2)]:
            return long[0]

        def parts(index: Index) -> int:
            return -(-extent(index) // max(-(-extent(index) // self.parts), 1))

        longest = max(indices, key=extent)
        if longest not in aligned or len(indices) == 1:
            return longest
        slower = max(indices[:-1], key=parts)
        return slower if extent(slower) >= PLANNING_DEVICE.sms or parts(slower) >= parts(longest) else longest

    def _names(self, indices: tuple[Index, ...]) -> set[str]:
        return {origin.name for index in indices for origin in self.origins.get(index.name, (index,))}

    def _chunk_length(self, index: Index, total: Expr, multiple: int) -> tuple[Expr, int, bool]:
        """The elements of a chunk, the number of chunks, and whether all of them are full."""
        extent = self.context.static(self.context.extent(index))
        if extent is not None:
            length = -(-extent // self.parts)
            if multiple > 1 and MIN_RUN_ELEMENTS <= length < MAX_ROUNDED_RUN_ELEMENTS:
                # Threads along a run are a power of two, of which none is idle then.
                length = 1 << round(log2(length))
            while multiple > 1 and length < 16 * multiple:
                multiple //= 2
            chunk = -(-length // multiple) * multiple
            return Const(chunk, INT64), -(-extent // chunk), extent % chunk == 0
        step = self.parts * multiple
        padded = Op("add", (total, Const(step - 1, INT64)), INT64)
        multiples = Op("floordiv", (padded, Const(step, INT64)), INT64)
        scaled = multiples if multiple == 1 else Op("mul", (multiples, Const(multiple, INT64)), INT64)
        return scaled, self.parts, False

    def _step(self, value: Expr, indices: tuple[Index, ...], suffix: str, text: str) -> Read:
        """Adds the statement that stores a reduction, or an expression of some, in a temporary; returns its read."""
        names = [self.statement.target + constants_of(self.statement), suffix]
        reductions = [node for node in walk(self.statement.value) if isinstance(node, Reduce)]
        if isinstance(value, Reduce) and suffix == "parts" and len(reductions) > 1:
            names.insert(1, ACCUMULATORS[value.kind])
        name = fresh("_".join(names), self.taken)
        stored = temporary(name, indices, value, text, self.statement)
        self.temporaries.append(stored)
        return stored.read

    def _stored(self, result: Expr, reduction: Reduce, suffix: str = "") -> Read:
        kind = result.kind if isinstance(result, Reduce) else reduction.kind
        suffix = suffix or ACCUMULATORS[reduction.kind]
        return self._step(result, self.statement.indices, suffix, f"{kind} of the parts")

    def _text(self, reduction: Reduce, chunks: _Chunks) -> str:
        element, chunk = chunks.element.name, text_of(chunks.element.extent)
        position = f"{chunks.number.name} * {chunk} + {element}"
        if chunks.row is not None:
            position = f"{self.rows} * ({position}) + {chunks.row.name}"
        return f"{reduction.kind} over {element} < {chunk} at {position}, of: {self.statement.text}"
