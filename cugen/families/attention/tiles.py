"""Tiles of q, k and v in shared memory: their copies, and the matrices that `ldmatrix` loads from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cugen.families.attention.config import MATRIX, MATRIX_ROW, STAGES, AttentionConfig, pad_of
from cugen.families.attention.recognition import Attention
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import define
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.vectors import widest_at
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Start
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Index, Loop, Node, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Mod, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Read

_ASYNC_COPY_BYTES = (4, 8, 16)  # sizes of one cp.async (PTX ISA)


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The row of a matrix that a lane loads by `ldmatrix`, in a block of 16 by 16 elements, and its first column, or
    what the column of the block is permuted with."""

    row: Integer
    column: Integer
    swizzle: Integer
    definitions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of rows `outer` of a matrix, each with all its elements `inner`, padded by zeros; with `stages` a buffer
    of several."""

    attention: Attention
    lowering: Lowering
    read: Read
    outer: spec.Index
    inner: spec.Index
    array: Array
    rows: int
    width: int  # of a row
    threads: int
    copied: int  # elements of a copy
    per_row: int  # threads
    first_row: Define
    first_column: Define
    swizzled_column: Define | None  # the first column as it is in the tile, of all of the thread's rows

    @property
    def asynchronous(self) -> bool:
        """Whether its copies bypass the registers of a thread, and with them the read-only cache."""
        is_global = self.attention.array(self.read).space == "global"
        return is_global and self.copied * self.array.dtype.bytes in _ASYNC_COPY_BYTES

    @property
    def definitions(self) -> tuple[Node, ...]:
        """Coordinates of the thread's first copy."""
        return tuple(filter(None, (self.first_row, self.first_column, self.swizzled_column)))

    def copies(self, stage: Integer, origin: Integer, start: Start, *, exact: bool) -> tuple[Node, ...]:
        """Copies the rows from `origin` on, by the pointer `start`; `exact`: the matrix has all of them."""
        rows_at_once, columns_at_once = self.threads // self.per_row, self.per_row * self.copied
        row, column = self.first_row.index.symbol, self.first_column.index.symbol
        swizzled = None if self.swizzled_column is None else self.swizzled_column.index.symbol
        loops: list[tuple[Index, int, int]] = []
        if rows_at_once < self.rows:
            r = shared_loop_variable("r", (0, self.rows - 1), self.lowering)
            row, loops = row + r.symbol, [(r, self.rows, rows_at_once)]
        if columns_at_once < self.width:
            c = shared_loop_variable("c", (0, self.width - 1), self.lowering)
            column, loops = column + c.symbol, [*loops, (c, self.width, columns_at_once)]
            swizzled = None if swizzled is None else swizzled + c.symbol
        if swizzled is None:
            swizzled = column if self.array.pad else _swizzled(row, column)
        nodes = self._copy(
            Access(self.array, self._in_tile(stage, row, swizzled), self._kind, self.copied),
            origin + row,
            column,
            start,
            exact=exact,
        )
        if rows_at_once > self.rows:
            nodes = (If(Guard((Comparison(row, "<", integer(self.rows)),)), nodes),)
        for index, count, step in reversed(loops):
            nodes = (For(Loop(index, integer(0), integer(count), step, unroll=True), nodes),)
        return nodes

    def _in_matrix(self, outer: Integer, inner: Integer) -> tuple[Integer, ...]:
        """Subscripts of the matrix."""
        symbols = {**self.lowering.symbols, self.outer.name: outer, self.inner.name: inner}
        return tuple(to_integer(sub, symbols) for sub in self.read.subscripts)

    def pointer(self, origin: Integer) -> Start:
        """The thread's first element of the tile at `origin`."""
        name = self.lowering.names.allocate(f"{self.read.array.lower()}_global")
        first = self._in_matrix(origin + self.first_row.index.symbol, self.first_column.index.symbol)
        return Start(name, self.attention.array(self.read), first)

    @property
    def _kind(self) -> str:
        return "async_copy" if self.asynchronous else "store"

    def _copy(self, target: Access, outer: Integer, column: Integer, start: Start, *, exact: bool) -> tuple[Node, ...]:
        """One copy of a thread, or zeros outside of the matrix."""
        context = self.attention.context
        subscripts = self._in_matrix(outer, column)
        array = self.attention.array(self.read)
        source = Access(array, subscripts, "load", self.copied, start=start, span=self.read.span)
        terms = [] if exact else [Comparison(outer, "<", context.extent(self.outer))]
        if context.static_extent(self.inner) != self.width:
            terms.append(Comparison(column, "<", context.extent(self.inner)))
        if not terms or self.copied > 1:
            return (Copy(target, source, Guard(tuple(terms)) if terms else None),)
        zero = Store(replace(target), Const(0, self.array.dtype.compute))
        return (If(Guard(tuple(terms)), (Copy(target, source),), (zero,)),)

    def matrices(self, stage: Integer, row: Integer, column: Integer, lane: MatrixRow) -> Access:
        """The row of 16 bytes whose address a lane gives to `ldmatrix`, of matrices from a row and a column on."""
        in_row = column + lane.column if self.array.pad else BitXor(column, lane.swizzle)
        return Access(self.array, self._in_tile(stage, row + lane.row, in_row), "matrix_load", MATRIX_ROW)

    def _in_tile(self, *subscripts: Integer) -> tuple[Integer, ...]:
        """Subscripts of the tile, without the stage where there is one only."""
        return subscripts[-len(self.array.shape) :]


def make_tiles(
    attention: Attention, config: AttentionConfig, lowering: Lowering, thread: Integer, sizes: Sequence[int]
) -> tuple[Tile, Tile, Tile]:
    """The tiles of q, k and v; `sizes` are the block's rows, the keys of a step, and the widths of rows of k and v, as
    the kernel names them."""
    rows, keys, depth, columns = sizes
    forms = (
        (attention.query, attention.row, attention.depth, rows, depth, 1),
        (attention.keys, attention.key, attention.depth, keys, depth, STAGES),
        (attention.values, attention.key, attention.column, keys, columns, STAGES),
    )
    is_dynamic = config.has_dynamic_tiles(attention.request.target)
    tiles, offset = list[Tile](), 0
    for read, outer, inner, count, width, stages in forms:
        source = attention.array(read)
        name = lowering.names.allocate(f"{read.array}s")
        extents = (stages, count, width) if stages > 1 else (count, width)
        pad = pad_of(int(width))
        tile = replace(
            dense_array(name, source.dtype, extents, "shared", pad),
            name=read.array,
            dynamic=is_dynamic,
            dynamic_offset=offset if is_dynamic else 0,
            align=0 if is_dynamic else 16,
        )
        offset += stages * int(count) * (int(width) + pad) * source.dtype.bytes
        copied = math.gcd(widest_at(source, read.subscripts, inner.name, attention.context).count, int(width))
        copied = math.gcd(copied, attention.context.static_extent(inner) or 1)
        # As many rows at once as are permuted differently: a thread's copies are in one column of the tile.
        per_row = math.gcd(int(width) // copied, min(WARP_SIZE, config.threads // MATRIX_ROW))
        hint = read.array.lower()
        first_row = define(f"{hint}_row", FloorDiv(thread, integer(per_row)), lowering)
        first_column = define(f"{hint}_column", Mod(thread, integer(per_row)) * copied, lowering)
        swizzled = None
        if not pad and per_row * copied % (MATRIX_ROW * MATRIX_ROW) == 0:
            in_tile = _swizzled(first_row.index.symbol, first_column.index.symbol)
            swizzled = define(f"{hint}_swizzled", in_tile, lowering)
        made = first_row, first_column, swizzled
        form = attention, lowering, read, outer, inner, tile, int(count), int(width), config.threads, copied, per_row
        tiles.append(Tile(*form, *made))
    q, k, v = tiles
    return q, k, v


def _swizzled(row: Integer, column: Integer) -> Integer:
    """The column of an element in a swizzled tile."""
    return BitXor(column, MATRIX_ROW * Mod(row, integer(MATRIX_ROW)))


def matrix_rows(lane: Integer, lowering: Lowering) -> tuple[MatrixRow, MatrixRow]:
    """The lane's row of the first operand, or of one that is transposed, and that of the second operand. Lanes 8 to 15
    have the second matrix, and lanes 16 to 31 the next two (PTX ISA, ldmatrix)."""
    second, third = Mod(FloorDiv(lane, integer(MATRIX_ROW)), integer(2)), FloorDiv(lane, integer(MATRIX))
    row_of_matrix = Mod(lane, integer(MATRIX_ROW))
    rows = (
        ("a", Mod(lane, integer(MATRIX)), MATRIX_ROW * third),
        ("b", row_of_matrix + MATRIX_ROW * third, MATRIX_ROW * second),
    )
    made = list[MatrixRow]()
    for name, row, column in rows:
        of_row, of_column = define(f"{name}_row", row, lowering), define(f"{name}_column", column, lowering)
        mask = BitXor(of_column.index.symbol, MATRIX_ROW * row_of_matrix)
        swizzle = define(f"{name}_swizzle", mask, lowering)
        symbols = of_row.index.symbol, of_column.index.symbol, swizzle.index.symbol
        made.append(MatrixRow(*symbols, (of_row, of_column, swizzle)))
    a, b = made
    return a, b
