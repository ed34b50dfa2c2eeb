"""Single-pass scans of long rows with decoupled look-back: one tile per block, prefixes from the preceding tiles.

Blocks take tiles in the order of their dynamic block ids, so that a block only waits for blocks that have started.
Tiles form groups of as many as a block has threads. Each thread of a block acquires one predecessor: the aggregate of
a preceding tile of the group, or the inclusive prefix that the last tile of the previous group has published. Their
reduction is the tile's exclusive prefix. The association is fixed: results are the same bits in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.rows import RowConfig, RowScan
from cugen.families.scan.scan_loop import Parts
from cugen.pieces import block_reduce as collective
from cugen.pieces.block_reduce import Accumulator, declare_accumulator, group_reduction
from cugen.pieces.block_scan import ScanLocals, combine_pair
from cugen.pieces.blocks import Blocks, define, digits, thread
from cugen.pieces.grid_sync import DynamicBlockIds, workspace_array
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import AcquireSpinWait, Assign, Comparison, Guard, If, Node, ReleaseFlag, Section, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Mod, bounds, integer, symbol
from cugen.spec.expressions import Expr, Local


@dataclass(frozen=True, slots=True)
class LookBackConfig(RowConfig):
    """The block of a tile; a tile is one of its iterations."""


@dataclass(frozen=True, slots=True)
class _TilePrefix:
    """The look-back state of one scan: `prefix` accumulates the tile's exclusive prefix; `partials` in global memory
    holds each tile's aggregate, or its inclusive prefix where it is the last of a group."""

    names: ScanLocals
    prefix: Local
    partials: Array


class LookBackScan(RowScan):
    """A row scan with one tile per block, each tile one iteration of the thread group."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, config: LookBackConfig) -> None:
        self.counts = [to_integer(index.extent, lowering.symbols) for index in problem.outer]
        super().__init__(problem, lowering, config)
        max_length = bounds(self.loop.extent, lowering.ranges)[1]
        self.thread_scan.max_elements = -(-max_length // config.step) * config.step
        # Forward, only the last tile of a row may be partial, and no tile uses its aggregate.
        self.thread_scan.needs_exact_totals = problem.pattern.reverse
        self.prefixes = tuple(self._tile_prefix(names) for names in self.thread_scan.names)

    @property
    def reason(self) -> str:
        config, along = self.config, self.problem.along.name
        return f"single pass along {along} with decoupled look-back: {config.threads} threads, tiles of {config.step}"

    @property
    def workspace(self) -> tuple[Array, ...]:
        return (self.block_ids.flags, *(p.partials for p in self.prefixes))

    def _blocks(self) -> Blocks:
        """A block per tile by its dynamic id: the tiles of a row in the direction of the scan, then the next row's."""
        lowering = self.lowering
        count = sympy.Mul(*self.counts)
        self.block_ids = DynamicBlockIds(self.problem.request, lowering, count)
        # The position of the block's tile in its row, in the direction of the scan.
        self.position: Integer = self.block_ids.block_id
        self.position_nodes: list[Node] = []
        axes = [axis for axis, n in enumerate(self.counts) if axis == 0 or bounds(n, lowering.ranges) != (1, 1)]
        coordinates = [integer(0)] * len(self.counts)
        coordinates[0] = self.position
        if len(axes) > 1 or self.problem.pattern.reverse:
            tiles = define("tiles", self.counts[0], lowering)
            self.position_nodes.append(tiles)
            sizes = (tiles.index.symbol, *(self.counts[axis] for axis in axes[1:]))
            for axis, digit in zip(axes, digits(self.block_ids.block_id, sizes), strict=True):
                coordinates[axis] = digit
            if self.problem.pattern.reverse:
                self._reverse(coordinates, tiles.index.symbol)
        return Blocks((count, integer(1), integer(1)), tuple(coordinates))

    def _reverse(self, coordinates: list[Integer], tiles: Integer) -> None:
        """Starts a reverse scan with the last tile of the row."""
        if coordinates[0] != self.position:
            position = define("position", coordinates[0], self.lowering)
            self.position_nodes.append(position)
            self.position = position.index.symbol
        coordinates[0] = tiles - 1 - self.position

    def _indices(self) -> tuple[Node, ...]:
        self.thread = thread("x", self.config.threads, self.lowering)
        self.has_groups = bounds(self.counts[0], self.lowering.ranges)[1] > self.config.threads
        nodes = super()._indices()
        if self.position_nodes and not self.problem.pattern.reverse and self.problem.tiles is not None:
            self.position = self.lowering.symbols[self.problem.tiles.index]
        *self.fetch_block_id, load_block_id = self.block_ids.fetch()
        return (load_block_id, *self.position_nodes, *nodes)

    def _block_id(self) -> Parts:
        *fetch, barrier = self.fetch_block_id
        return (("fetch_block_id", tuple(fetch)), ("block_id_fetched", (barrier,)))

    def _warp_totals(self, names: ScanLocals, buffers: int) -> Array:
        """The array of warp totals, aligned for vector loads behind the broadcast block id."""
        return replace(super()._warp_totals(names, buffers), align=16)

    def _tile_prefix(self, names: ScanLocals) -> _TilePrefix:
        base, dtype = ACCUMULATORS[names.scan.kind], names.scan.dtype
        prefix = Local(self.lowering.names.allocate(f"tile_prefix_{base}"), dtype)
        if (known := self.lowering.ranges.get(symbol(names.accumulator.name))) is not None:
            self.lowering.ranges[symbol(prefix.name)] = known
        partials = workspace_array(self.problem.request, f"{base}s", dtype, (1 + self.blocks.grid[0],))
        return _TilePrefix(names, prefix, partials)

    def _combine_warps(self, shared: dict[str, Array]) -> tuple[Section, ...]:
        """The exclusive prefix of each warp, including that of the tile."""
        lowering, threads = self.lowering, self.config.threads
        in_group, in_group_nodes = self.position, list[Node]()
        if self.has_groups:
            define_in_group = define("tile_in_group", Mod(self.position, integer(threads)), lowering)
            in_group, in_group_nodes = define_in_group.index.symbol, [define_in_group]
        predecessor = define(
            "predecessor", self.block_ids.block_id - in_group + self.thread, lowering, below=self.blocks.grid[0]
        )
        is_last_thread = Comparison(self.thread, "==", integer(threads - 1))
        is_inner_tile = Comparison(in_group, "<", integer(threads - 1))
        is_preceding = Comparison(self.thread, "<=", in_group)
        position = self.position - in_group + self.thread if self.has_groups else self.thread
        is_in_row = Comparison(position, ">", integer(0))
        accumulators = tuple(Accumulator(p.names.scan.kind, p.prefix) for p in self.prefixes)
        source = predecessor.index.symbol
        look_back: tuple[Node, ...] = (
            predecessor,
            AcquireSpinWait(self.block_ids.flag(source, "load"), self.block_ids.set),
            *(Assign(p.prefix, Element.of(Access(p.partials, (source,), "load"))) for p in self.prefixes),
        )
        publish = self._publish(tuple(p.names.block_total for p in self.prefixes))
        is_publishing = Guard((is_last_thread, is_inner_tile) if self.has_groups else (is_last_thread,))
        combine_warps = super()._combine_warps(shared)
        declared = tuple(node for accumulator in accumulators for node in declare_accumulator(accumulator))
        group = collective.ThreadGroup(threads, self.thread)
        reduction = group_reduction(group, accumulators, lowering, everywhere=True)
        publish_prefix: tuple[Node, ...] = ()
        if self.has_groups:
            inclusive = tuple(combine_pair(p.names, p.prefix, p.names.block_total) for p in self.prefixes)
            is_last_tile = Comparison(in_group, "==", integer(threads - 1))
            publish_prefix = (If(Guard((is_last_thread, is_last_tile)), self._publish(inclusive)),)
        return (
            *combine_warps,
            Section("publish_aggregate", (*in_group_nodes, If(is_publishing, publish))),
            Section("look_back", (*declared, If(Guard((is_in_row, is_preceding)), look_back))),
            *(section for section in reduction.body if isinstance(section, Section)),
            Section("publish_prefix", publish_prefix),
            Section(
                "add_tile_prefix",
                tuple(
                    Assign(p.names.warp_prefix, combine_pair(p.names, p.prefix, p.names.warp_prefix))
                    for p in self.prefixes
                ),
            ),
        )

    def _publish(self, values: tuple[Expr, ...]) -> tuple[Node, ...]:
        """Stores the tile's partials, then releases its flag."""
        index = 1 + self.block_ids.block_id
        stores = [
            Store(Access(p.partials, (index,), "store"), value) for p, value in zip(self.prefixes, values, strict=True)
        ]
        return (*stores, ReleaseFlag(self.block_ids.flag(index, "atomic"), self.block_ids.set))
