"""Stream-K: as many blocks as are resident compute whole tiles, then divide the k-tiles of the last tiles evenly.

Where a tile has several blocks, all but the last one store their partial sums in the workspace and release a flag. The
last one waits for them and adds their partial sums in block order (fix-up). Ranges are fixed: results don't depend on
timing.
"""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.selection.cost_model import resident_blocks_per_sm
from cugen.families.gemm.split.fixup import FixUp
from cugen.families.gemm.split.partials import PartialsWorkspace, stage_slices
from cugen.families.gemm.stream_k_schedule import StreamKSchedule
from cugen.pieces.blocks import Blocks, digits
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.plan.memory import Array
from cugen.plan.nodes import Barrier, Comment, Comparison, For, Guard, If, Index, Loop, Node, Section
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, ceil_div, integer


class StreamKKernel(GemmKernel):
    """A loop over the block's work units. Unit `u` is whole tile `block_id + blocks * u` at first, then a tile of the
    block's range of k-tiles, from the range's end: peers of other blocks come first."""

    def __init__(self, contraction: Contraction, config: TileConfig, schedule: StreamKSchedule, why: str = "") -> None:
        super().__init__(contraction, config, why)
        self.schedule = schedule
        resident = resident_blocks_per_sm(problem_of(contraction), config, contraction.request.target)
        if not config.blocks_per_sm and resident > 1:
            self.min_blocks_per_sm = resident  # the schedule relies on it
        # Tiles that overlap would store one output from two blocks, as sums in different orders.
        self.exact.update({name: False for name, is_shifted in self.shifted.items() if is_shifted})
        self.shifted = {}

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        lowering, blocks = self.lowering, integer(self.schedule.blocks)
        self.block_ids = DynamicBlockIds(self.request, lowering, blocks, left_zero=True)
        self.fix_up = FixUp(self.block_ids, PartialsWorkspace.of(self.contraction, self.config, blocks))
        self.workspace = self.fix_up.workspace
        self.range_definitions = self._define_range()
        self.unit = Index(lowering.names.allocate("work_unit"), integer(0), (0, self._max_units - 1))
        lowering.ranges[self.unit.symbol] = self.unit.range
        self.unit_definitions = self._define_unit()
        return Blocks((blocks, integer(1), integer(1)), digits(self.tile, counts))

    @property
    def _max_units(self) -> int:
        return self.schedule.whole_tiles_per_block + self.schedule.units_per_range[1]

    def _define_range(self) -> tuple[Node, ...]:
        """The block's range of k-tiles, counted over all tiles."""
        schedule, block_id = self.schedule, self.block_ids.block_id
        per_block, k_tiles = schedule.k_tiles_per_block, schedule.k_tiles
        start, stop = schedule.whole_tiles * k_tiles, schedule.tiles * k_tiles
        begin = start + per_block * block_id
        if start + per_block * (schedule.blocks - 1) > stop:
            begin = Minimum(begin, integer(stop))
        range_begin = self._define_with_range("range_begin", begin, start, stop)
        self.range_begin = range_begin.index.symbol
        end = self.range_begin + per_block
        if start + per_block * schedule.blocks > stop:
            end = Minimum(end, integer(stop))
        range_end = self._define_with_range("range_end", end, start, stop)
        self.range_end = range_end.index.symbol
        last = FloorDiv(self.range_end - 1, integer(k_tiles))
        last_tile = self._define_with_range("last_tile", last, 0, schedule.tiles - 1)
        self.last_tile = last_tile.index.symbol
        text = f"{schedule.text}: {k_tiles} k-tiles of a tile, {per_block} of a block"
        return Comment(text), Comment("the block's range of k-tiles"), range_begin, range_end, last_tile

    def _define_unit(self) -> tuple[Node, ...]:
        """A work unit: its tile and its range of the tile's k-tiles."""
        schedule, unit, whole = self.schedule, self.unit.symbol, integer(self.schedule.whole_tiles_per_block)
        k_tiles = integer(schedule.k_tiles)
        whole_tile = self.block_ids.block_id + schedule.blocks * unit
        tile_id = self._whole_or_distributed(whole_tile, self.last_tile + whole - unit)
        tile = self._define_with_range("tile", tile_id, 0, schedule.tiles - 1)
        self.tile = tile.index.symbol
        tile_start = k_tiles * self.tile
        begin = self._whole_or_distributed(integer(0), Maximum(self.range_begin - tile_start, integer(0)))
        end = self._whole_or_distributed(k_tiles, Minimum(self.range_end - tile_start, k_tiles))
        k_tile_begin = self._define_with_range("k_tile_begin", begin, 0, schedule.k_tiles)
        k_tile_end = self._define_with_range("k_tile_end", end, 0, schedule.k_tiles)
        self.k_tile_begin, self.k_tile_end = k_tile_begin.index.symbol, k_tile_end.index.symbol
        text = "from the end of the range, since other blocks wait for the tile that it ends in"
        return Comment(text), tile, k_tile_begin, k_tile_end

    def _whole_or_distributed(self, whole: Integer, distributed: Integer) -> Integer:
        count = self.schedule.whole_tiles_per_block
        return Choice(self.unit.symbol, integer(count), whole, distributed) if count else distributed

    def _coordinates(self, blocks: Blocks) -> tuple[tuple[Section, ...], ThreadCoordinates]:
        block_k = self.config.block_k
        max_k = self.schedule.k_tiles * block_k
        k_offset = self._define_with_range("k_offset", block_k * self.k_tile_begin, 0, max_k - block_k)
        length = block_k * (self.k_tile_end - self.k_tile_begin)
        k_length = self._define_with_range("k_length", length, block_k, max_k)
        self.k_extent = k_length.index.symbol
        nodes: list[Node] = [k_offset, k_length]
        tile_origin, k_residue = self._tile_coordinates(blocks, nodes)
        self.tile_definitions = tuple(nodes)
        definitions, thread = self._thread_coordinates(tile_origin, k_residue, k_offset.index.symbol)
        *fetch, barrier, load = self.block_ids.fetch()
        sections = (
            Section("fetch_block_id", tuple(fetch)),
            Section("block_id_fetched", (barrier,)),
            Section("block_id", (load,)),
            Section("thread_coordinates", definitions),
        )
        return sections, thread

    def _k_padded(self, thread: ThreadCoordinates) -> Integer:
        return self.k_extent

    def _computation(
        self, thread: ThreadCoordinates, pipelines: list[OperandPipeline], epilogue: Epilogue
    ) -> tuple[Section, ...]:
        """The computation of an output tile in the body of a loop over the block's work units."""
        body = (
            Section("previous_tile_read", (Barrier(),)),
            Section("tile_coordinates", self.tile_definitions),
            *super()._computation(thread, pipelines, epilogue),
        )
        minimum, maximum = self.schedule.units_per_range
        if minimum < maximum:
            has_k_tiles = Guard((Comparison(self.k_tile_begin, "<", self.k_tile_end),))
            body = (Section("if_k_tiles", (If(has_k_tiles, body),)),)
        loop = Loop(self.unit, integer(0), integer(self._max_units), rolled=True)
        unit = Section("unit_range", self.unit_definitions)
        return Section("block_range", self.range_definitions), Section("work_units", (For(loop, (unit, *body)),))

    def _epilogue(self, epilogue: Epilogue, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        schedule, block_id = self.schedule, self.block_ids.block_id
        count = ceil_div(self.k_tile_begin, schedule.k_tiles_per_block)
        peers = self._define_with_range("peers", count, 0, schedule.max_peers)
        first = block_id - peers.index.symbol
        first_peer = self._define_with_range("first_peer", first, 0, schedule.blocks - 1)
        store = self.fix_up.store_partials(epilogue, accumulators, thread, block_id)
        slot = first_peer.index.symbol
        fix_up = self.fix_up.epilogue(epilogue, accumulators, thread, slot, peers.index.symbol, slot)
        is_unfinished = Guard((Comparison(self.k_tile_end, "<", integer(schedule.k_tiles)),))
        staged = stage_slices(epilogue, accumulators, thread)
        peer_coordinates = Section("peer_coordinates", (peers, first_peer))
        return *staged, Section("fix_up", (If(is_unfinished, store, (peer_coordinates, *fix_up)),))

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; {self.schedule.text}", *others)
