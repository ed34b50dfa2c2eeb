"""Coordinates of a thread: block tile, sliced-K group, lane layout, and its offsets in the block tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.k_range import BlockExtent, KBounds
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.tensor_cores import MMA_M, MMA_N
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Index
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


@dataclass(frozen=True)
class ThreadCoordinates:
    """Coordinates that the copies, the main loop and the epilogue have in common; all in elements.

    `tile_origin` is the block tile's first M and N, `m_in_tile` and `n_in_tile` the thread tile's offset in it, made of
    vectors of `fragment_widths` elements. The block's range of K begins at `k_offset`; its first k-tile is `k_residue`
    elements short and zero-filled at the front. `extents` are those of the contraction's indices; `exact` names the
    indices whose tiles need no bounds check. `copy_thread` is the thread's number in its copy group.

    On tensor cores a lane loads single elements of B's fragments from `b_fragment_n` on, which isn't where its
    accumulators are, and its part of K from `lane_n` on; matrices are loaded from the warp's tile, at `warp_tile`, by
    `lane`."""

    contraction: Contraction
    config: TileConfig
    lowering: Lowering
    extents: Mapping[str, Integer]
    exact: Mapping[str, bool]
    fragment_widths: tuple[int, int]
    index: Integer
    copy_thread: Integer
    tile_origin: Mapping[str, Integer]
    m_in_tile: Integer
    n_in_tile: Integer
    lane_m: Integer
    lane_n: Integer
    lane: Integer = sympy.S.Zero
    warp_tile: tuple[Integer, Integer] = (sympy.S.Zero, sympy.S.Zero)
    b_fragment_n: Integer = sympy.S.Zero
    k_slice: Integer = sympy.S.Zero
    k_residue: Integer = sympy.S.Zero
    k_offset: Integer = sympy.S.Zero
    _loops: dict[str, str] = field(default_factory=dict)

    def loop_index(self, name_hint: str, count: int, loop: str = "") -> Index:
        """The variable of a loop over `count` values; loops of the same hint or `loop` share its name. The range of its
        symbol is that of the longest."""
        loop, last = loop or name_hint, int(count) - 1
        if (name := self._loops.get(loop)) is None:
            name = self._loops[loop] = self.lowering.names.allocate(name_hint)
        index = Index(name, integer(0), (0, last))
        _, longest = self.lowering.ranges.get(index.symbol, index.range)
        self.lowering.ranges[index.symbol] = 0, max(last, longest)
        return index

    @property
    def k_bounds(self) -> KBounds:
        config = self.config
        return self._k_bounds_of((integer(0), config.block_m), (integer(0), config.block_n), config.block_k)

    def k_bounds_of_fragment(self, m: Integer, n: Integer) -> KBounds:
        """The bounds of k in the accumulators of one tensor-core instruction, at offsets in the warp tile."""
        assert self.config.mma is not None
        rows, columns = (self.warp_tile[0] + m, MMA_M), (self.warp_tile[1] + n, MMA_N)
        return self._k_bounds_of(rows, columns, self.config.mma.k)

    def _k_bounds_of(self, rows: BlockExtent, columns: BlockExtent, block_k: int) -> KBounds:
        """The bounds of k in a part of the block tile."""
        contraction = self.contraction
        parts = {contraction.m.name: rows, contraction.n.name: columns}
        extents = {name: (self.tile_origin[name] + offset, size) for name, (offset, size) in parts.items()}
        return KBounds(self.lowering, contraction.conditions, contraction.k.name, extents, block_k)

    def coordinate(self, name: str, offset: Integer) -> Integer:
        """M or N at an offset in the block tile. Those of a thread's single accumulator are indices of the kernel."""
        if self.config.is_scalar and offset == (self.m_in_tile if name == self.contraction.m.name else self.n_in_tile):
            return self.lowering.symbols[name]
        return self.tile_origin[name] + offset

    def row(self, i: Integer) -> Integer:
        """The offset in the block tile of row `i` of the thread tile."""
        width = self.fragment_widths[0]
        if self.config.thread_m == width > 1:
            return self.m_in_tile + i
        stride = integer(self.config.lanes_m * width)
        return self.m_in_tile + FloorDiv(i, integer(width)) * stride + Mod(i, integer(width))

    def column(self, vector: Integer, width: int) -> Integer:
        """The offset in the block tile of the thread tile's vector of `width` columns."""
        if self.config.thread_n == self.fragment_widths[1]:
            return self.n_in_tile + vector * width
        per_fragment = integer(self.fragment_widths[1] // width)
        stride = integer(self.config.lanes_n * self.fragment_widths[1])
        return self.n_in_tile + FloorDiv(vector, per_fragment) * stride + Mod(vector, per_fragment) * width
