"""Stencils of narrow elements in rows of odd length, which begin anywhere: a thread has one vector of outputs, from the
first aligned element of its row on, and what it reads of other rows is in aligned vectors of these.

    y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])        rows of 1357 bfloat16
Rows begin 1357 elements apart, 5 more than a multiple of 8: what is above a vector of outputs begins 3 elements after
an aligned one, and what is below it 5, in each row. The outputs at both ends of a row have a thread each, after its
vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.families.stencil.config import MAX_NARROW_BYTES, StencilConfig, elements_of
from cugen.families.stencil.footprint import Footprint
from cugen.machine.features import FUNNEL_SHIFTS
from cugen.pieces.block_reduce import WARP
from cugen.pieces.blocks import define, define_index, make_grid, thread
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import gather_stores, vector_of
from cugen.pieces.vectors import MAX_ACCESS_BYTES, define_misalignment, to_alignment
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.reads import within
from cugen.plan.memory import FUNNEL_SHIFT, Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Guard, If, Let, Load, Node, ReturnUnless, Section, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of, to_integer
from cugen.plan.symbols import Choice, Integer, ceil_div, integer
from cugen.rewrite.dense_indices import index_values
from cugen.spec.expressions import Const, IndexValue, Op, Read, free_indices
from cugen.spec.model import Schedule, Statement
from cugen.spec.types import INT64

MIN_ROW_WARPS = 1  # of vectors: shorter rows were not faster (measured on H200)
BLOCK_ROWS = 8  # that share what they read in L1
LINE_BYTES = 128  # a cache line (CUDA programming guide)


@dataclass(frozen=True, slots=True)
class RowVectors:
    """`count` vectors of `width` outputs in each row, from `first` elements after the row's first aligned one on, and
    `ends`, the outputs before and after them. Of the row at a distance, a vector reads those that start at `starts`,
    relative to its first output."""

    width: int
    first: int
    count: int
    ends: int
    starts: Mapping[tuple[str, int], tuple[int, ...]]

    def parts(self, name: str, row: int, column: int) -> tuple[int, int]:
        """The start of the vector with an element, and the element's position in it."""
        start = max(start for start in self.starts[name, row] if start <= column)
        return start, column - start


def row_vectors(request: Request, footprints: Mapping[str, Footprint], config: StencilConfig) -> RowVectors | None:
    """The vectors of rows whose length is fixed, where these take fewer lines of the L1 than the elements one by one;
    None for other rows, and where a schedule has other outputs per thread."""
    context, order = request.context, config.order
    if len(order) != 2 or config.width > 1 or config.periods or replace(request.schedule, family=None) != Schedule():
        return None
    length, rows = map(context.static_extent, order)
    arrays = [*(context.arrays[s.target] for s in request.stored_statements()), *map(context.arrays.get, footprints)]
    if length is None or rows is None or not FUNNEL_SHIFTS.is_on(request.target):
        return None
    if any(statement.target in footprints for statement in request.group.statements):
        return None
    if not all(array is not None and _is_plain(array, (rows, length), request) for array in arrays):
        return None
    if not all(map(_is_bare, request.group.statements)) or not all(map(_is_of_points, footprints.values())):
        return None
    width = MAX_ACCESS_BYTES // max(array.dtype.bytes for array in arrays if array is not None)
    if length % 2 == 0 or length < MIN_ROW_WARPS * WARP * width:
        return None
    starts: dict[tuple[str, int], tuple[int, ...]] = {}
    for name, footprint in footprints.items():
        for row in sorted({point[0] for point in footprint.points}):
            columns = [point[1] for point in footprint.points if point[0] == row]
            shift = -(row * length) % width
            first = (min(columns) - shift) // width
            last = (max(columns) + width - 1 - shift) // width
            starts[name, row] = tuple(shift + width * number for number in range(first, last + 1))
    low, high = min(0, *(s[0] for s in starts.values())), max(0, *(s[-1] for s in starts.values())) + width - 1
    first = -(low // width) * width
    count = (length - 1 - high - (width - 1) - first) // width + 1
    vectors = RowVectors(width, first, count, length - width * count, starts)
    return vectors if count >= vectors.ends and _takes_fewer_lines(vectors, footprints, config, arrays) else None


def _is_plain(array: Array | None, shape: tuple[int, int], request: Request) -> bool:
    """Whether an array is dense, in rows of narrow elements as long as those of the outputs."""
    if array is None or (array.space != "global" and array.space != "readonly") or not array.flat:
        return False
    sizes = tuple(map(request.context.static, array.shape)), tuple(map(request.context.static, array.strides))
    return sizes == (shape, (shape[1], 1)) and array.dtype.bytes <= MAX_NARROW_BYTES


def _is_bare(statement: Statement) -> bool:
    names = tuple(IndexValue(index.name) for index in statement.indices)
    return statement.subscripts == names and not statement.accumulate and not statement.is_partial


def _is_of_points(footprint: Footprint) -> bool:
    """Whether each read is of a point of the footprint, and zero outside."""
    axes = [(axis.scale, axis.period) for axis in footprint.axes]
    boundary = footprint.boundary
    names = {axis.index for axis in footprint.axes}
    has_points = all(free_indices(read) <= names and not read.exact for read in footprint.reads)
    return axes == [(1, 1), (1, 1)] and has_points and (boundary is None or boundary.mode == "zero")


def _takes_fewer_lines(
    vectors: RowVectors, footprints: Mapping[str, Footprint], config: StencilConfig, arrays: Sequence[Array | None]
) -> bool:
    """Whether the accesses of a warp's vectors are in fewer lines than those of its elements, which share windows."""
    element_bytes = max(array.dtype.bytes for array in arrays if array is not None)
    stores = len(arrays) - len(footprints)
    loads = elements_of(footprints, config.outputs) / math.prod(config.outputs.values())
    of_elements = vectors.width * (loads + stores) * _lines(WARP * element_bytes, element_bytes)
    of_vectors = (sum(map(len, vectors.starts.values())) + stores) * _lines(WARP * MAX_ACCESS_BYTES, MAX_ACCESS_BYTES)
    return of_vectors < of_elements


def _lines(run_bytes: int, alignment: int) -> float:
    """The lines of a run that begins at any multiple of an alignment, on average."""
    return (run_bytes + LINE_BYTES - alignment) / LINE_BYTES


def _direction(distance: int, before: str, after: str) -> str:
    """`above`, or `above2` at a distance of two; empty for none."""
    number = str(abs(distance)) if abs(distance) > 1 else ""
    return f"{before if distance < 0 else after}{number}" if distance else ""


class UnalignedRowsKernel:
    """The kernel of one group of statements, as `row_vectors` has its vectors."""

    def __init__(
        self, request: Request, footprints: Mapping[str, Footprint], config: StencilConfig, vectors: RowVectors
    ) -> None:
        self.request, self.footprints, self.vectors = request, footprints, vectors
        self.lowering = new_lowering(request)
        self.column, self.row = config.order
        self.length, self.rows = map(request.context.extent, config.order)

    def kernel(self) -> Kernel:
        lowering, vectors = self.lowering, self.vectors
        counts = [integer(-(-vectors.count // WARP)), ceil_div(self.rows, BLOCK_ROWS)]
        blocks = make_grid(counts, lowering, self.request.target)
        x, y = thread("x", WARP, lowering), thread("y", BLOCK_ROWS, lowering)
        row_index = blocks.coordinates[1] * BLOCK_ROWS + y
        row = define_index(self.row.name, row_index, self.rows, lowering, below=counts[1] * BLOCK_ROWS)
        inside = Guard((Comparison(row.index.symbol, "<", self.rows),))
        number = define("number", blocks.coordinates[0] * WARP + x, lowering)
        target = next(iter(self.request.stored_statements()))
        output = target.target, target.subscripts
        misalignment = define_misalignment(
            lowering.arrays, output, self.column.name, vectors.width, lowering, lowering.symbols
        )
        start = to_alignment(misalignment.index.definition, vectors.width) + vectors.first
        first = define(f"first_{self.column.name}", start, lowering)
        sections = (
            Section("indices", (row, ReturnUnless(inside), number, first)),
            Section("row_vectors", (self._vector(number.index.symbol, first.index.symbol),)),
            Section("row_ends", (self._end(number.index.symbol, first.index.symbol),)),
        )
        reason = f"rows of {target.target} begin anywhere: the elements at both ends of one are computed one by one"
        names = ", ".join(self.footprints)
        reasons = f"vectors of {names} for {vectors.width} outputs of a row per thread", reason
        return assemble(
            self.request, lowering, "stencil", sections, blocks.grid, (WARP, BLOCK_ROWS, 1), reasons=reasons
        )

    def _vector(self, number: Integer, first: Integer) -> If:
        """The outputs of a vector, where the thread has one."""
        lowering, vectors, along = self.lowering, self.vectors, self.column.name
        last = vectors.first + (vectors.width - 1) + vectors.width * (vectors.count - 1)
        value = first + vectors.width * number
        column = define_index(along, value, self.length, lowering, below=integer(last + 1))
        scope = Scope(certain=False)
        loaded = self._load(column.index.symbol, scope)
        lane = loop_variable("v", vectors.width, lowering)
        inner = Scope(scope, frozenset((along,)))
        if any(along in index_values(s.value) for s in self.request.group.statements):
            inner.nodes.append(define_index(along, column.index.symbol + lane.symbol, self.length, lowering))
        for read, vector in loaded.items():
            inner.remember(read, vector.component(lane.symbol))
        loads = tuple(scope.nodes)
        scope.nodes.clear()
        lower_statements(self.request, lowering, inner)
        lowering.symbols[along] = column.index.symbol
        body, gathered = gather_stores(inner.nodes, self.request, lane, lowering)

        def store(statement: Statement, vector: Vector) -> Store:
            target = lowering.arrays[statement.target]
            return Store(access_of(target, statement, lowering.symbols, "store", vectors.width), vector)

        declared = [Let(vector, None, mutable=True) for vector in gathered.vectors]
        compute = (*scope.nodes, *declared, unrolled(lane, body), *gathered.stores(lowering, store))
        sections = Section("loads", (column, *loads)), Section("outputs", compute)
        return If(Guard((Comparison(number, "<", integer(vectors.count)),)), sections)

    def _load(self, column: Integer, scope: Scope) -> dict[Read, Vector]:
        """Loads the vectors of all rows, and gives that of each read, of the elements of two of them or of one."""
        loaded: dict[Read, Vector] = {}
        for name, footprint in self.footprints.items():
            array = self.lowering.arrays[name]
            aligned: dict[tuple[int, int], Vector] = {}
            for (of, row), starts in self.vectors.starts.items():
                if of == name:
                    aligned |= {(row, start): v for start, v in self._load_row(footprint, row, starts, column, scope)}
            for read in footprint.reads:
                row, offset = self._point(read)
                start, position = self.vectors.parts(name, row, offset)
                loaded[read] = aligned[row, start]
                if position:
                    halves = aligned[row, start], aligned[row, start + self.vectors.width]
                    directions = _direction(row, "above", "below"), _direction(offset, "left", "right")
                    which = tuple(filter(None, directions))
                    vector = vector_of(array, name, self.vectors.width, self.lowering, which=which)
                    shifted = Op(FUNNEL_SHIFT, (*halves, Const(position, INT64)), vector.dtype)
                    scope.nodes.append(Let(vector, shifted))
                    loaded[read] = vector
        return loaded

    def _load_row(
        self, footprint: Footprint, row: int, starts: tuple[int, ...], column: Integer, scope: Scope
    ) -> list[tuple[int, Vector]]:
        """Loads the vectors of a row at a distance; zeros where there is no such row."""
        lowering, array = self.lowering, self.lowering.arrays[footprint.array]
        of_row = lowering.symbols[self.row.name] + row
        narrow = replace(array, shape=(array.shape[0], integer(1)))
        _, guard, _ = within(lowering, footprint.read, (of_row, integer(0)), narrow, scope)
        vectors: list[tuple[int, Vector]] = []
        for number, start in enumerate(starts):
            which = _direction(row, "above", "below") or "row", f"part{number}"
            vector = vector_of(array, footprint.array, self.vectors.width, lowering, which=which)
            vectors.append((start, vector))
        nodes: list[Node] = []
        for start, vector in vectors:
            subscripts = of_row, column + start
            access = Access(array, subscripts, "load", self.vectors.width, span=footprint.read.span)
            if guard is None:
                scope.nodes.append(Load(vector, access))
            else:
                scope.nodes.append(Let(vector, Const(0, vector.dtype), mutable=True))
                nodes.append(Assign(vector, Element(array.symbol, array.dtype.compute, access)))
        if guard is not None:
            scope.nodes.append(If(guard, tuple(nodes)))
        return vectors

    def _point(self, read: Read) -> tuple[int, int]:
        """The row and the column of a read, relative to those of the output."""
        zero = {**self.request.context.symbols, self.row.name: integer(0), self.column.name: integer(0)}
        row, column = (int(to_integer(sub, zero)) for sub in read.subscripts)
        return row, column

    def _end(self, number: Integer, first: Integer) -> If:
        """An output before or after the vectors of a row, where the thread has one."""
        lowering, vectors = self.lowering, self.vectors
        after = number + vectors.width * vectors.count
        value = Choice(number, first, number, after)
        end = define_index(self.column.name, value, self.length, lowering, below=self.length, name_hint="end")
        scope = Scope(certain=False)
        lower_statements(self.request, lowering, scope)
        guard = Guard((Comparison(number, "<", integer(vectors.ends)),))
        return If(guard, (Section("output", (end, *scope.nodes)),))
