"""Coordinates of a thread in a GEMM: block tile, sliced-K group, lane layout, and its offsets in the block tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Index
from cugen.plan.symbols import Integer, integer


@dataclass(frozen=True)
class ThreadCoordinates:
    """Coordinates that the copies, the main loop and the epilogue have in common; all in elements.

    `tile_origin` is the block tile's first M and N, `m_in_tile` and `n_in_tile` the thread tile's offset in it. The
    block's range of K begins at `k_offset`; its first k-tile is `k_residue` elements short and zero-filled at the
    front. `extents` are those of the GEMM's indices; `exact` names the indices whose tiles need no bounds check.
    `copy_thread` is the thread's number in its copy group.

    On tensor cores a lane loads B's fragments from `b_fragment_n` on, which isn't where its accumulators are, and its
    part of K from `lane_n` on."""

    contraction: Contraction
    config: TileConfig
    lowering: Lowering
    extents: Mapping[str, Integer]
    exact: Mapping[str, bool]
    k_residue: Integer
    k_offset: Integer
    index: Integer
    k_slice: Integer
    copy_thread: Integer
    tile_origin: Mapping[str, Integer]
    m_in_tile: Integer
    n_in_tile: Integer
    lane_m: Integer
    lane_n: Integer
    b_fragment_n: Integer
    _loops: dict[str, Index] = field(default_factory=dict)

    def loop_index(self, name_hint: str, count: int) -> Index:
        """The variable of an unrolled loop over `count` values; loops of the same hint share its name and range."""
        previous = self._loops.get(name_hint)
        name = previous.name if previous else self.lowering.names.allocate(name_hint)
        index = Index(name, integer(0), (0, max(count - 1, previous.range[1] if previous else 0)))
        self._loops[name_hint] = index
        self.lowering.ranges[index.symbol] = index.range
        return index
