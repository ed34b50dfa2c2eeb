"""Single-pass scans of long rows with decoupled look-back: one tile per block, prefixes from the preceding tiles.

Blocks take tiles in the order of their dynamic block ids, so that a block only waits for blocks that have started.
Tiles form groups of as many as a block has threads. Each thread of a block acquires one predecessor: the aggregate of
a preceding tile of the group, or the inclusive prefix that the last tile of the previous group has published. Their
reduction is the tile's exclusive prefix. The association is fixed: results are the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.families.scan.exchange import Exchange
from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.rows import RowConfig, RowScan
from cugen.pieces.block_reduce import Accumulator, ThreadGroup, declare_accumulator, group_reduction
from cugen.pieces.block_scan import ScanLocals
from cugen.pieces.blocks import Blocks, define, digits, thread
from cugen.pieces.grid_sync import DynamicBlockIds, workspace_array
from cugen.plan.intervals import bound_local, local_symbol
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import AcquireSpinWait, Assign, Comparison, Guard, If, Node, ReleaseFlag, Section, Store
from cugen.plan.symbols import Integer, Mod, bounds, integer
from cugen.spec.expressions import Expr, Local


@dataclass(frozen=True, slots=True)
class LookBackConfig(RowConfig):
    """The block of a tile; a tile is one of its iterations."""


class LookBackScan(RowScan):
    """A row scan with one tile per block, each tile one iteration of the thread group.

    `accumulators` are the tile's exclusive prefixes; `partials` in global memory hold each tile's aggregate, or its
    inclusive prefix where it is the last of a group."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, config: LookBackConfig) -> None:
        self.counts = list(map(problem.context.extent, problem.outer))
        super().__init__(problem, lowering, config)
        self.accumulators = tuple(Accumulator(n.scan.kind, self._tile_prefix(n)) for n in self.names)
        self.partials = [
            workspace_array(problem.request, f"{ACCUMULATORS[n.scan.kind]}s", n.scan.dtype, (1 + self.grid[0],))
            for n in self.names
        ]
        self.workspace = (self.block_ids.flags, *self.partials)
        if self.exchange is not None:
            # Aligned for vector loads, behind the broadcast block id.
            self.exchange.arrays = [replace(array, align=16) for array in self.exchange.arrays]

    @property
    def reason(self) -> str:
        config, along = self.config, self.problem.along.name
        return f"single pass along {along} with decoupled look-back: {config.threads} threads, tiles of {config.step}"

    def _blocks(self) -> Blocks:
        """A block per tile by its dynamic id: the tiles of a row in the direction of the scan, then the next row's."""
        lowering = self.lowering
        count = sympy.Mul(*self.counts)
        self.block_ids = DynamicBlockIds(self.problem.request, lowering, count)
        # The position of the block's tile in its row, in the direction of the scan.
        self.tile_position: Integer = self.block_ids.block_id
        self.position_nodes: list[Node] = []
        axes = [axis for axis, n in enumerate(self.counts) if axis == 0 or bounds(n, lowering.ranges) != (1, 1)]
        coordinates = [integer(0)] * len(self.counts)
        coordinates[0] = self.tile_position
        if len(axes) > 1 or self.problem.pattern.reverse:
            tiles = define("tiles", self.counts[0], lowering)
            self.position_nodes.append(tiles)
            sizes = (tiles.index.symbol, *(self.counts[axis] for axis in axes[1:]))
            for axis, digit in zip(axes, digits(self.block_ids.block_id, sizes), strict=True):
                coordinates[axis] = digit
            if self.problem.pattern.reverse:  # starts with the last tile of the row
                if len(axes) > 1:
                    position = define("position", coordinates[0], lowering)
                    self.position_nodes.append(position)
                    self.tile_position = position.index.symbol
                coordinates[0] = tiles.index.symbol - 1 - self.tile_position
        return Blocks((count, integer(1), integer(1)), tuple(coordinates))

    def _indices(self) -> tuple[Node, ...]:
        self.thread = thread("x", self.config.threads, self.lowering)
        self.has_groups = bounds(self.counts[0], self.lowering.ranges)[1] > self.config.threads
        nodes = super()._indices()
        if self.position_nodes and not self.problem.pattern.reverse and self.problem.tiles is not None:
            self.tile_position = self.lowering.symbols[self.problem.tiles.index]
        *fetch, barrier, load_block_id = self.block_ids.fetch()
        self.block_id = (Section("fetch_block_id", tuple(fetch)), Section("block_id_fetched", (barrier,)))
        return (load_block_id, *self.position_nodes, *nodes)

    def _tile_prefix(self, names: ScanLocals) -> Local:
        name = self.lowering.names.allocate(f"tile_prefix_{ACCUMULATORS[names.scan.kind]}")
        prefix = Local(name, names.scan.dtype)
        if (known := self.lowering.ranges.get(local_symbol(names.accumulator.name))) is not None:
            bound_local(self.lowering.ranges, prefix, known)
        return prefix

    def _combine_warps(self, exchange: Exchange) -> tuple[Section, ...]:
        """The exclusive prefix of each warp, including that of the tile."""
        names, last_thread = self.names, integer(self.config.threads - 1)
        combine_warps = super()._combine_warps(exchange)
        in_group, in_group_nodes = self.tile_position, list[Node]()
        if self.has_groups:
            tile_in_group = define("tile_in_group", Mod(self.tile_position, last_thread + 1), self.lowering)
            in_group, in_group_nodes = tile_in_group.index.symbol, [tile_in_group]
        prefixes = [(n, accumulator.value) for n, accumulator in zip(names, self.accumulators, strict=True)]
        is_publishing = [Comparison(self.thread, "==", last_thread)]
        publish_prefix: tuple[Node, ...] = ()
        if self.has_groups:
            is_last_tile = Guard((*is_publishing, Comparison(in_group, "==", last_thread)))
            inclusive = [n.combine(prefix, n.block_total) for n, prefix in prefixes]
            publish_prefix = (If(is_last_tile, self._publish(inclusive)),)
            is_publishing.append(Comparison(in_group, "<", last_thread))
        publish = If(Guard(tuple(is_publishing)), self._publish([n.block_total for n in names]))
        group = ThreadGroup(self.config.threads, self.thread)
        reduction = group_reduction(group, self.accumulators, self.lowering, everywhere=True)
        add_prefix = (Assign(n.warp_prefix, n.combine(prefix, n.warp_prefix)) for n, prefix in prefixes)
        return (
            *combine_warps,
            Section("publish_aggregate", (*in_group_nodes, publish)),
            Section("look_back", self._look_back(in_group)),
            *(section for section in reduction.body if isinstance(section, Section)),
            Section("publish_prefix", publish_prefix),
            Section("add_tile_prefix", tuple(add_prefix)),
        )

    def _look_back(self, in_group: Integer) -> tuple[Node, ...]:
        """Each thread acquires one predecessor of the tile, which is number `in_group` of its group."""
        number = self.block_ids.block_id - in_group + self.thread
        predecessor = define("predecessor", number, self.lowering, below=self.grid[0])
        source = predecessor.index.symbol
        wait = AcquireSpinWait(self.block_ids.flag(source, "load"), self.block_ids.set)
        pairs = zip(self.accumulators, self.partials, strict=True)
        loads = (Assign(a.value, Element.of(Access(partials, (source,), "load"))) for a, partials in pairs)
        is_in_row = Comparison(self.tile_position - in_group + self.thread, ">", integer(0))
        is_preceding = Comparison(self.thread, "<=", in_group)
        declared = (node for accumulator in self.accumulators for node in declare_accumulator(accumulator))
        return (*declared, If(Guard((is_in_row, is_preceding)), (predecessor, wait, *loads)))

    def _publish(self, values: Sequence[Expr]) -> tuple[Node, ...]:
        """Stores the tile's partials, then releases its flag."""
        index = 1 + self.block_ids.block_id
        pairs = zip(self.partials, values, strict=True)
        stores = (Store(Access(partials, (index,), "store"), value) for partials, value in pairs)
        return (*stores, ReleaseFlag(self.block_ids.flag(index, "atomic"), self.block_ids.set))
