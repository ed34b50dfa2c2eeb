"""Copies of single elements to a tile in the layout of its operand, and loads from it.

Adjacent threads copy along the operand's fast dimension (coalesced). An operand that the spec keeps out of shared
memory has no tile: it is loaded from where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.families.gemm.copy.pipeline import OperandPipeline, Part
from cugen.plan.memory import Access, Element, Start
from cugen.plan.nodes import Copy, Define, For, Load, Loop, Node
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Const, Expr, Local


@dataclass(frozen=True)
class ElementCopies(OperandPipeline):
    """The tile of one operand, `tile[slow][fast]`; `tile` is the operand's array where it has none."""

    @property
    def width(self) -> int:
        return 1

    @property
    def source_pointer(self) -> Start | None:
        return None

    def definitions(self) -> tuple[Node, ...]:
        return ()

    def copies(self, stage: Integer, k: Integer, *, in_bounds: bool, part: Part | None = None) -> tuple[Node, ...]:
        if not self.operand.is_staged:
            return ()
        thread, config = self.thread, self.thread.config
        threads_y, threads_x = config.lanes_m, config.lanes_n
        height, width = (self.extent, config.block_k) if self.operand.is_k_major else (config.block_k, self.extent)
        if height % threads_y == 0 and width % threads_x == 0:
            r = thread.loop_index("r", height) if height > threads_y else None
            c = thread.loop_index("c", width) if width > threads_x else None
            node = self._copy_element(k, in_bounds, r.symbol if r else thread.lane_m, c.symbol if c else thread.lane_n)
            if c is not None:
                node = For(Loop(c, thread.lane_n, integer(width), threads_x), (node,))
            if r is not None:
                node = For(Loop(r, thread.lane_m, integer(height), threads_y), (node,))
            return (node,)
        element = thread.loop_index("element", height * width)
        row, column = thread.loop_index("r", height), thread.loop_index("c", width)
        define_row = Define(replace(row, definition=FloorDiv(element.symbol, integer(width))))
        define_column = Define(replace(column, definition=Mod(element.symbol, integer(width))))
        body = (define_row, define_column, self._copy_element(k, in_bounds, row.symbol, column.symbol))
        return (For(Loop(element, thread.index, integer(height * width), config.threads), body),)

    def _copy_element(self, k_tile: Integer, in_bounds: bool, row: Integer, column: Integer) -> Node:
        k, mn = (column, row) if self.operand.is_k_major else (row, column)
        source, guard = self._source(k_tile + k, mn, in_bounds=in_bounds)
        return Copy(Access(self.tile, (row, column), "store"), source, guard)

    def element(self, k_tile: Integer, k: Integer, mn: Integer) -> tuple[Expr, tuple[Node, ...]]:
        """The element at an offset in the tile, and the load that it needs: zero outside of the matrix."""
        if self.operand.is_staged:
            return Element.of(Access(self.tile, (mn, k) if self.operand.is_k_major else (k, mn), "load")), ()
        source, guard = self._source(k_tile + k, mn, in_bounds=self.thread.exact[self.thread.contraction.k.name])
        local = Local(self.thread.lowering.names.allocate(self.tile.name.lower()), self.operand.read.dtype)
        return local, (Load(local, source, guard, Const(0, local.dtype)) if guard.terms else Load(local, source),)
