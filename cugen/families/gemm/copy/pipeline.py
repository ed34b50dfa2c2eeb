"""Copy pipeline of one operand: a circular shared-memory buffer of `stages` k-tiles, its copies and its loads.

A tile is [BK][BM] of A and [BK][BN] of B: a thread's elements of one k are consecutive, and loaded as vectors. K-major
operands on tensor cores have tiles of their own layout, in `k_major`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.config import WARP, TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.window import WindowSource
from cugen.families.gemm.problem import copy_width, has_async_copies, problem_of, shared_bytes
from cugen.families.gemm.tensor_cores import MATRIX_ROW_BYTES, MATRIX_ROWS
from cugen.families.gemm.tile_layout import ASYNC_COPY_BYTES, tile_name
from cugen.pieces.blocks import define
from cugen.pieces.kernels import dense_array
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Start
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Index, Loop, Node, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Mod, integer
from cugen.spec.expressions import Const, IndexValue, Read

_SECTOR_BYTES = 32  # of a global memory transaction (CUDA programming guide)

Part = tuple[Integer, int]  # (first, count) of the `warp_k` equal parts of a k-tile


@dataclass(frozen=True, slots=True)
class CopyOffset:
    """Where a thread's copy begins in the k-tile, along K and along M or N; its number among those of the thread."""

    k: Integer
    mn: Integer
    number: Integer


def declare_tiles(contraction: Contraction, config: TileConfig, lowering: Lowering) -> dict[Read, Array]:
    """The arrays `As[stages][BK][BM + pad]` and `Bs[stages][BK][BN + pad]`; a single stage has no dimension."""
    problem = problem_of(contraction)
    exceeds_static = shared_bytes(problem, config) > contraction.request.target.shared_per_block
    all_dynamic = config.exchanges_in_shared or (
        not config.is_strided and (exceeds_static or any(operand.memory.dynamic for operand in contraction.operands))
    )
    tiles: dict[Read, Array] = {}
    offset = 0
    for operand, layout in zip(contraction.operands, problem.operands, strict=True):
        if not operand.is_staged:
            continue
        rows, length = layout.extents(config)
        pad, dynamic = layout.pad_for(config), all_dynamic or operand.memory.dynamic
        swizzle, swizzle_unit = layout.swizzle_for(config)
        sizes = (config.stages, rows, length) if config.is_multistage else (rows, length)
        name = lowering.names.allocate(tile_name(operand.array.name))
        tiles[operand.read] = replace(
            dense_array(name, operand.array.dtype, sizes, "shared", pad),
            name=operand.read.array,
            swizzle=swizzle,
            swizzle_unit=swizzle_unit,
            dynamic=dynamic,
            dynamic_offset=offset if dynamic else 0,
            align=0 if dynamic or config.is_strided else 16,
        )
        offset += layout.bytes_for(config) if dynamic else 0
    return tiles


@dataclass(frozen=True)
class OperandPipeline:
    """The circular buffer `tile` of one operand, or the tile of a single stage. `mn` is an offset in the block tile."""

    thread: ThreadCoordinates
    operand: Operand
    tile: Array

    @property
    def extent(self) -> int:
        return self.thread.config.block_m if self.operand.is_along_m else self.thread.config.block_n

    @property
    def width(self) -> int:
        """Vector width of a copy, in elements: rows of the tile are aligned to it, pad included."""
        width = copy_width(self.thread.contraction, self.operand, self.operand.mn)
        return math.gcd(width, self.extent, self.tile.pad)

    @property
    def asynchronous(self) -> bool:
        """Whether its copies bypass the registers of a thread, and with them the read-only cache."""
        has_size = self.width * self.tile.dtype.bytes in ASYNC_COPY_BYTES
        return self.thread.config.is_multistage and has_size and has_async_copies(self.thread.contraction, self.operand)

    @property
    def uses_registers(self) -> bool:
        """Whether a k-tile is loaded to registers before its k steps, and stored after them. Not single elements whose
        rows are apart by a distance that is known at launch only: each has an address of its own in registers, too."""
        thread = self.thread
        if self.asynchronous or not thread.config.copies_through_registers:
            return False
        context = thread.contraction.context
        return self.width > 1 or all(context.static(stride) is not None for stride in self.operand.array.strides)

    @cached_property
    def source_pointer(self) -> Start | None:
        """Pointer to the thread's first element of the first k-tile, if all subscripts of the operand are indices."""
        thread, operand = self.thread, self.operand
        is_pointed_to = operand.array.space not in ("texture", "constant")
        if not is_pointed_to or not all(isinstance(sub, IndexValue) for sub in operand.read.subscripts):
            return None
        k = thread.k_offset + self._first_k.index.symbol - thread.k_residue
        first = self._global_subscripts(k, self._first_mn.index.symbol)
        return Start(thread.lowering.names.allocate(f"{operand.read.array.lower()}_global"), operand.array, first)

    def _global_subscripts(self, k: Integer, mn: Integer) -> tuple[Integer, ...]:
        """Subscripts of the operand at a global k and an offset in the block tile."""
        thread, operand = self.thread, self.operand
        name = operand.mn.name
        symbols = {**thread.lowering.symbols, name: thread.coordinate(name, mn), thread.contraction.k.name: k}
        return tuple(to_integer(sub, symbols) for sub in operand.read.subscripts)

    def load(self, stage: Integer, k: Integer, mn: Integer, width: int) -> Access:
        return Access(self.tile, self.in_tile(stage, k, mn), "load", width)

    def tile_element(self, stage: Integer, k: Integer, mn: Integer, mn_in_matrix: Integer) -> Access:
        """A load of a single element of the tile; `mn_in_matrix` is its offset in matrices of 8 along M or N."""
        return self.load(stage, k, mn, 1)

    def in_tile(self, *subscripts: Integer) -> tuple[Integer, ...]:
        """Subscripts of the tile, without the stage where there is one only."""
        return subscripts[-len(self.tile.shape) :]

    def mma_load(self, stage: Integer, k: Integer, mn: Integer) -> Access:
        """A lane's load for a tensor-core fragment of four k, or of eight that are split, the first of them given: of a
        pair of these where K is contiguous in the tile."""
        return self.load(stage, k + self.lane_k, mn, 1)

    @property
    def lane_k(self) -> Integer:
        """The first k of a lane, of those that lanes load together."""
        return 2 * self.thread.lane_n if self.is_split else self.thread.lane_n

    @property
    def lane_elements(self) -> int:
        """Elements that a lane loads at once from a K-major tile."""
        return 2 if self.is_split else 1

    @property
    def is_split(self) -> bool:
        """Whether its elements are split in the fragments."""
        mma = self.thread.config.mma
        return mma is not None and mma.splits(is_a=self.operand.is_along_m)

    def matrix_load(self, stage: Integer, k: Integer, mn: Integer) -> Access:
        """The row of 16 bytes whose address a lane gives to `ldmatrix`, for matrices from `k` and `mn` of the warp's
        tile on. They are transposed unless the tile is K-major."""
        row_k, row_mn = (node.index.symbol for node in self._matrix_row)
        width = MATRIX_ROW_BYTES // self.tile.dtype.bytes
        return Access(self.tile, self.in_tile(stage, k + row_k, row_mn + mn), "matrix_load", width)

    @property
    def is_tile_k_major(self) -> bool:
        return False

    @property
    def loads_matrices(self) -> bool:
        """Whether fragments are loaded by `ldmatrix`."""
        mma = self.thread.config.mma
        return mma is not None and mma.loads_matrices(is_a=self.operand.is_along_m, is_k_major=self.is_tile_k_major)

    @cached_property
    def _matrix_row(self) -> tuple[Define, ...]:
        """Coordinates along K and along M or N of the lane's row for `ldmatrix`, in the warp's tile.

        Lanes 8 to 15 have the second matrix, along M of A and along K of B, and lanes 16 to 31 the next two."""
        lane, is_a = self.thread.lane, self.operand.is_along_m
        row, second = Mod(lane, integer(MATRIX_ROWS)), Mod(FloorDiv(lane, integer(MATRIX_ROWS)), integer(2))
        third = FloorDiv(lane, integer(2 * MATRIX_ROWS))
        row_of_second, row_of_third = Mod(lane, integer(2 * MATRIX_ROWS)), row + MATRIX_ROWS * third
        width = MATRIX_ROW_BYTES // self.tile.dtype.bytes
        if self.is_tile_k_major:
            k, mn = (width * third, row_of_second) if is_a else (width * second, row_of_third)
        else:
            k, mn = (row_of_third, width * second) if is_a else (row_of_second, width * third)
        mn += self.thread.warp_tile[0 if is_a else 1]
        names = self.thread.contraction.k.name, self.operand.mn.name
        return tuple(self._define(f"frag_{name}", value) for name, value in zip(names, (k, mn), strict=True))

    def definitions(self) -> tuple[Node, ...]:
        """Coordinates of the thread's first copy in the tile, and of its row for `ldmatrix`."""
        rows = self._matrix_row if self.loads_matrices else ()
        if self.operand.window is not None:
            comment = self._window.introduce(self.operand.mn.name, self.thread.contraction.k.name)
            return *comment, self._first_k, self._first_mn, *rows
        return self._first_k, self._first_mn, *rows

    @cached_property
    def _threads_along_k(self) -> int:
        """Threads that copy consecutive k. Of a K-major operand a few lanes copy one sector along K and the others
        adjacent rows: few global sectors, and few shared-memory bank conflicts of the transposed stores."""
        if not self.operand.is_k_major:
            return 1
        return math.gcd(self.thread.config.copy_group_k, max(_SECTOR_BYTES // self.tile.dtype.bytes, 1))

    @cached_property
    def _threads_along_mn(self) -> int:
        """Threads that copy elements of one k. At most a warp, so that the thread's other copies of that k are at
        offsets that fit the instruction."""
        if self._threads_along_k > 1:
            return self.thread.config.copy_group_threads // self._threads_along_k
        return math.gcd(self.extent // self.width, WARP)

    @cached_property
    def _first_k(self) -> Define:
        number, along_k = self.thread.copy_thread, self._threads_along_k
        k: Integer = FloorDiv(number, integer(self._threads_along_mn))
        if along_k > 1:
            k = Mod(number, integer(along_k)) * self.width
        return self._define(self.thread.contraction.k.name, k + self._group_k)

    @property
    def _group_k(self) -> Integer:
        """First k of the copy group's part of a k-tile."""
        config = self.thread.config
        return self.thread.k_slice * integer(config.copy_group_k) if config.copy_groups > 1 else integer(0)

    @cached_property
    def _first_mn(self) -> Define:
        number, along_k = self.thread.copy_thread, self._threads_along_k
        mn: Integer = Mod(number, integer(self._threads_along_mn)) * self.width
        if along_k > 1:
            mn = FloorDiv(number, integer(along_k))
        return self._define(self.operand.mn.name, mn)

    def _define(self, name_hint: str, definition: Integer) -> Define:
        return define(f"{self.operand.read.array.lower()}_{name_hint}", definition, self.thread.lowering)

    @cached_property
    def _extents_per_pass(self) -> tuple[int, int]:
        """Elements along M or N and along K that one copy of every thread covers."""
        along_k, along_mn = self._threads_along_k, self._threads_along_mn
        if along_k > 1:
            return along_mn, along_k * self.width
        return along_mn * self.width, self.thread.config.copy_group_threads // along_mn

    def divides_into(self, parts: int) -> bool:
        """Whether the copies of a k-tile can be issued in equal parts by all threads."""
        return self.thread.config.block_k % (parts * self._extents_per_pass[1]) == 0

    def copies(self, stage: Integer, k: Integer, *, in_bounds: bool, part: Part | None = None) -> tuple[Node, ...]:
        """Copies the k-tile at `k` of the block's range, or a part of it, to a stage; `in_bounds`: surely in range."""

        def copy(first: CopyOffset) -> tuple[Node, ...]:
            definitions, source, guard = self.source(k, first, in_bounds=in_bounds)
            return *definitions, self._copy_from(source, guard, self.target(stage, first))

        return self.each_copy(copy, part)

    @property
    def copies_per_thread(self) -> int:
        """Copies of a thread to a k-tile."""
        mn_per_pass, k_per_pass = self._extents_per_pass
        return -(-self.extent // mn_per_pass) * -(-self.thread.config.copy_group_k // k_per_pass)

    def each_copy(self, body: Callable[[CopyOffset], tuple[Node, ...]], part: Part | None = None) -> tuple[Node, ...]:
        """The body for each copy of a thread to a k-tile, or to a part of it, by the offset of its first element."""
        first_k, count_k, first_mn, count_mn = integer(0), self.thread.config.copy_group_k, integer(0), self.extent
        if part is not None:
            first_k, count_k, first_mn, count_mn = self._part(*part)
        tile_k, tile_mn = self._first_k.index.symbol + first_k, self._first_mn.index.symbol + first_mn
        mn_per_pass, k_per_pass = self._extents_per_pass
        loops: list[tuple[Index, int, int]] = []
        terms: list[Comparison] = []
        number: Integer = integer(0)
        if mn_per_pass < count_mn:
            index = self.thread.loop_index("c", count_mn)
            loops.append((index, count_mn, mn_per_pass))
            tile_mn += index.symbol
            number = FloorDiv(index.symbol, integer(mn_per_pass))
        if count_mn % mn_per_pass:
            terms.append(Comparison(tile_mn, "<", first_mn + integer(count_mn)))
        if k_per_pass < count_k:
            index = self.thread.loop_index("r", count_k)
            loops.append((index, count_k, k_per_pass))
            tile_k += index.symbol
            number += FloorDiv(index.symbol, integer(k_per_pass)) * -(-count_mn // mn_per_pass)
        if count_k % k_per_pass:
            terms.append(Comparison(tile_k, "<", self._group_k + first_k + integer(count_k)))
        nodes = body(CopyOffset(tile_k, tile_mn, number))
        if terms:
            nodes = (If(Guard(tuple(terms)), nodes),)
        for index, count, step in loops:
            nodes = (For(Loop(index, integer(0), integer(count), step, unroll=True), nodes),)
        return nodes

    def _part(self, first: Integer, count: int) -> tuple[Integer, int, Integer, int]:
        """(first k, count of k, first mn, count of mn) of a part of a k-tile."""
        slices_per_group = self.thread.config.sliced_k // self.thread.config.copy_groups
        return slices_per_group * first, slices_per_group * count, integer(0), self.extent

    def _tile_subscripts(self, stage: Integer, k: Integer, mn: Integer) -> tuple[Integer, ...]:
        return self.in_tile(stage, k, mn)

    @cached_property
    def _window(self) -> WindowSource:
        thread, window = self.thread, self.operand.window
        assert window is not None
        context = thread.contraction.context
        parts = (index for indices in window.parts.values() for index, _ in indices)
        extents = {**thread.extents, **{index.name: context.extent(index) for index in parts}}
        k = thread.contraction.k.name
        return WindowSource(window, self.operand.array, thread.lowering, context, k, extents)

    def _window_source(
        self, k: Integer, tile_mn: Integer, *, in_bounds: bool
    ) -> tuple[tuple[Node, ...], Access, Guard]:
        """As `_source`, with the definitions of the indices of a window's element."""
        thread, operand = self.thread, self.operand
        mn_name, k_name = operand.mn.name, thread.contraction.k.name
        mn = thread.coordinate(mn_name, tile_mn)
        terms = [] if thread.exact[mn_name] else [Comparison(mn, "<", thread.extents[mn_name])]
        inside_k = k
        if not in_bounds:
            terms += [Comparison(k, ">=", integer(0)), Comparison(k, "<", thread.extents[k_name])]
            inside_k = Maximum(k, integer(0))  # no quotients of negative numbers
        located = self._window.locate({mn_name: mn, k_name: inside_k})
        guard = thread.lowering.needed(Guard((*terms, *located.inside.terms)))
        source = Access(operand.array, located.subscripts, "load", self.width, span=operand.read.span)
        return located.definitions, source, guard

    def _source(self, k: Integer, tile_mn: Integer, *, in_bounds: bool) -> tuple[Access, Guard]:
        """An access to the operand in global memory, and its bounds check; `in_bounds` if `k` is known to be."""
        thread, operand = self.thread, self.operand
        mn_name, k_name, terms = operand.mn.name, thread.contraction.k.name, list[Comparison]()
        subscripts = self._global_subscripts(k, tile_mn)
        source = Access(
            operand.array, subscripts, "load", self.width, start=self.source_pointer, span=operand.read.span
        )
        for sub in operand.read.subscripts:
            if sub == IndexValue(mn_name) and not thread.exact[mn_name]:
                terms.append(Comparison(thread.coordinate(mn_name, tile_mn), "<", thread.extents[mn_name]))
            elif sub == IndexValue(k_name) and not in_bounds:
                terms += [Comparison(k, ">=", integer(0)), Comparison(k, "<", thread.extents[k_name])]
        return source, thread.lowering.needed(Guard(tuple(terms)))

    def source(self, k_tile: Integer, first: CopyOffset, *, in_bounds: bool) -> tuple[tuple[Node, ...], Access, Guard]:
        """What a copy reads of the k-tile, and its bounds check; before them, definitions of the indices of a window's
        element. Elements outside the matrix are zeros."""
        k = self.thread.k_offset + k_tile + first.k - self.thread.k_residue
        if self.operand.window is not None:
            return self._window_source(k, first.mn, in_bounds=in_bounds)
        return (), *self._source(k, first.mn, in_bounds=in_bounds)

    def target(self, stage: Integer, first: CopyOffset) -> Access:
        """What a copy writes of a stage."""
        kind = "async_copy" if self.asynchronous else "store"
        return Access(self.tile, self._tile_subscripts(stage, first.k, first.mn), kind, self.width)

    def _copy_from(self, source: Access, guard: Guard, target: Access) -> Node:
        if guard.terms and not self.asynchronous and self.width == 1:
            zero = Store(replace(target), Const(0, self.tile.dtype.compute))
            return If(guard, (Copy(target, source),), (zero,))
        return Copy(target, source, guard if guard.terms else None)
