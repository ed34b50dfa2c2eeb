"""Copy pipeline of one operand: a circular shared-memory buffer of `stages` k-tiles, its copies and its loads.

A tile is [BK][BM] of A and [BK][BN] of B: a thread's elements of one k are consecutive, and loaded as vectors. K-major
operands on tensor cores have tiles of their own layout, in `k_major`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.gemm.config import WARP, TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.problem import copy_width, pipeline_bytes, problem_of, tile_extents
from cugen.pieces.blocks import define
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Start
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Index, Loop, Node, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Const, IndexValue

_SECTOR_BYTES = 32  # of a global memory transaction (CUDA programming guide)
_ASYNC_COPY_BYTES = (4, 8, 16)  # sizes of one cp.async (PTX ISA)


def declare_tiles(contraction: Contraction, config: TileConfig, lowering: Lowering) -> tuple[Array, ...]:
    """The shared-memory arrays `As[stages][BK][BM + pad]` and `Bs[stages][BK][BN + pad]`."""
    context = contraction.request.context
    problem = problem_of(contraction)
    sizes = pipeline_bytes(problem, config)
    is_requested = any(context.spec.array(operand.read.array).memory.dynamic for operand in contraction.operands)
    exceeds_static = sum(sizes) > contraction.request.target.shared_per_block
    dynamic = is_requested or config.reduces_in_shared or exceeds_static
    tiles = []
    for operand, (rows, length), offset, pad in zip(
        contraction.operands,
        tile_extents(problem, config),
        (0, sizes[0]),
        problem.pads_for(config),
        strict=True,
    ):
        source = context.arrays[operand.read.array]
        pitch = length + pad
        tiles.append(
            Array(
                operand.read.array,
                lowering.names.allocate(f"{source.symbol}s"),
                source.dtype,
                (integer(config.stages), integer(rows), integer(length)),
                (integer(rows * pitch), integer(pitch), integer(1)),
                "shared",
                flat=False,
                pad=pad,
                dynamic=dynamic,
                dynamic_offset=offset if dynamic else 0,
                align=0 if dynamic else 16,
            )
        )
    return tuple(tiles)


@dataclass(frozen=True)
class OperandPipeline:
    """The circular buffer `tile` of one operand. `mn` is the operand's M or N offset in the block tile."""

    thread: ThreadCoordinates
    operand: Operand
    tile: Array

    @property
    def extent(self) -> int:
        """The tile's BM or BN."""
        return int(self.tile.shape[-1])

    @property
    def width(self) -> int:
        """Vector width of a copy, in elements."""
        return copy_width(self.thread.contraction, self.operand, self.extent)

    @property
    def asynchronous(self) -> bool:
        kinds = self.thread.contraction.request.target.shared_kinds
        return "async_copy" in kinds and self.width * self.tile.dtype.bytes in _ASYNC_COPY_BYTES

    def alignments(self) -> Iterator[tuple[str, int]]:
        """Bytes that the operand's pointer must be aligned to."""
        if self.width > 1:
            yield self.operand.read.array, self.width * self.tile.dtype.bytes

    @cached_property
    def source_pointer(self) -> Start | None:
        """Pointer to the thread's first element of the first k-tile, if all subscripts of the operand are indices."""
        thread, operand = self.thread, self.operand
        if not all(isinstance(sub, IndexValue) for sub in operand.read.subscripts):
            return None
        k = thread.k_offset + self._first_k.index.symbol - thread.k_residue
        first = self._global_subscripts(k, self._first_mn.index.symbol)
        array = thread.contraction.request.context.arrays[operand.read.array]
        return Start(thread.lowering.names.allocate(f"{operand.read.array.lower()}_global"), array, first)

    def _global_subscripts(self, k: Integer, mn: Integer) -> tuple[Integer, ...]:
        """Subscripts of the operand at a global k and an offset in the block tile."""
        thread, operand = self.thread, self.operand
        name = operand.mn.name
        indices = {name: thread.tile_origin[name] + mn, thread.contraction.k.name: k}
        return tuple(to_integer(sub, {**thread.lowering.symbols, **indices}) for sub in operand.read.subscripts)

    def load(self, stage: Integer, k: Integer, mn: Integer, width: int) -> Access:
        """A vector load of consecutive elements of one k."""
        return Access(self.tile, (stage, k, mn), "load", width)

    def mma_load(self, stage: Integer, k: Integer, mn: Integer) -> Access:
        """A lane's load for a tensor-core fragment of four k, the first of them given."""
        return self.load(stage, k + self.thread.lane_n, mn, 1)

    def definitions(self) -> tuple[Define, ...]:
        """Coordinates of the thread's first copy in the tile."""
        return self._first_k, self._first_mn

    @cached_property
    def _threads_along_k(self) -> int:
        """Threads that copy consecutive k. Of a K-major operand a few lanes copy one sector along K and the others
        adjacent rows: few global sectors, and few shared-memory bank conflicts of the transposed stores."""
        if self.operand.fast == self.operand.mn.name:
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
        number, name = self.thread.copy_thread, self.thread.contraction.k.name
        along_k = integer(self._threads_along_k)
        k = Mod(number, along_k) if self._threads_along_k > 1 else FloorDiv(number, integer(self._threads_along_mn))
        return define(f"{self.operand.read.array.lower()}_{name}", k + self._group_k, self.thread.lowering)

    @property
    def _group_k(self) -> Integer:
        """First k of the copy group's part of a k-tile."""
        config = self.thread.config
        return self.thread.k_slice * config.copy_group_k if config.copy_groups > 1 else integer(0)

    @cached_property
    def _first_mn(self) -> Define:
        number, name = self.thread.copy_thread, self.operand.mn.name
        mn: Integer = FloorDiv(number, integer(self._threads_along_k))
        if self._threads_along_k == 1:
            mn = Mod(number, integer(self._threads_along_mn)) * self.width
        return define(f"{self.operand.read.array.lower()}_{name}", mn, self.thread.lowering)

    @cached_property
    def _extents_per_pass(self) -> tuple[int, int]:
        """Elements along M or N and along K that one copy of every thread covers."""
        along_k = self._threads_along_k
        if along_k == 1:
            along_k = self.thread.config.copy_group_threads // self._threads_along_mn
        return self._threads_along_mn * self.width, along_k

    def divides_into(self, parts: int) -> bool:
        """Whether the copies of a k-tile can be issued in equal parts by all threads."""
        return self.thread.config.block_k % (parts * self._extents_per_pass[1]) == 0

    def copies(
        self, stage: Integer, k: Integer, *, in_bounds: bool, part: tuple[Integer, int] | None = None
    ) -> tuple[Node, ...]:
        """Copies of the k-tile that begins at `k` of the block's range, into a stage; `in_bounds` if it is known to be
        inside the range. `part` is (first, count) of the `warp_k` equal parts of a k-tile; without it, all of them."""
        first_k, count_k, first_mn, count_mn = self._part(*(part or (integer(0), self.thread.config.warp_k)))
        tile_k, tile_mn = self._first_k.index.symbol + first_k, self._first_mn.index.symbol + first_mn
        mn_per_pass, k_per_pass = self._extents_per_pass
        loops: list[tuple[Index, int, int]] = []
        terms: list[Comparison] = []
        if mn_per_pass < count_mn:
            index = self.thread.loop_index("c", count_mn)
            loops.append((index, count_mn, mn_per_pass))
            tile_mn += index.symbol
        if count_mn % mn_per_pass:
            terms.append(Comparison(tile_mn, "<", first_mn + count_mn))
        if k_per_pass < count_k:
            index = self.thread.loop_index("r", count_k)
            loops.append((index, count_k, k_per_pass))
            tile_k += index.symbol
        if count_k % k_per_pass:
            terms.append(Comparison(tile_k, "<", self._group_k + first_k + count_k))
        node: Node = self._copy(stage, k, in_bounds, tile_k, tile_mn)
        if terms:
            node = If(Guard(tuple(terms)), (node,))
        for index, count, step in loops:
            node = For(Loop(index, integer(0), integer(count), step, unroll=True), (node,))
        return (node,)

    def _part(self, first: Integer, count: int) -> tuple[Integer, int, Integer, int]:
        """(first k, count of k, first mn, count of mn) of a part of a k-tile."""
        slices_per_group = self.thread.config.sliced_k // self.thread.config.copy_groups
        return slices_per_group * first, slices_per_group * count, integer(0), self.extent

    def _tile_subscripts(self, stage: Integer, k: Integer, mn: Integer) -> tuple[Integer, ...]:
        return stage, k, mn

    def _copy(self, stage: Integer, k_tile: Integer, in_bounds: bool, tile_k: Integer, tile_mn: Integer) -> Node:
        """One copy of the thread; elements outside the matrix become zeros."""
        thread, operand = self.thread, self.operand
        mn_name, k_name = operand.mn.name, thread.contraction.k.name
        mn, k = thread.tile_origin[mn_name] + tile_mn, thread.k_offset + k_tile + tile_k - thread.k_residue
        array = thread.contraction.request.context.arrays[operand.read.array]
        source = Access(array, self._global_subscripts(k, tile_mn), "load", self.width, start=self.source_pointer)
        terms = []
        for sub in operand.read.subscripts:
            if sub == IndexValue(mn_name) and not thread.exact[mn_name]:
                terms.append(Comparison(mn, "<", thread.extents[mn_name]))
            elif sub == IndexValue(k_name) and not in_bounds:
                terms.append(Comparison(k, ">=", integer(0)))
                terms.append(Comparison(k, "<", thread.extents[k_name]))
        guard = thread.lowering.needed(Guard(tuple(terms)))
        kind = "async_copy" if self.asynchronous else "store"
        target = Access(self.tile, self._tile_subscripts(stage, tile_k, tile_mn), kind, self.width)
        if guard.terms and not self.asynchronous and self.width == 1:
            zeroed = Access(self.tile, self._tile_subscripts(stage, tile_k, tile_mn), "store")
            zero = Store(zeroed, Const(0, self.tile.dtype.compute))
            return If(guard, (Copy(target, source),), (zero,))
        return Copy(target, source, guard if guard.terms else None)
