"""Stream-K: as many blocks as are resident compute whole tiles, then divide the k-tiles of the last tiles evenly.

Where a tile has several blocks, all but the last one store their partial sums in the workspace and release a flag. The
last one waits for them and adds their partial sums in block order (fix-up). Ranges are fixed: results don't depend on
timing. Exactly one thread of the grid waits for a flag, and clears it for the next launch. A block has a lower dynamic
id than the one that waits for it, so no block waits for one that hasn't begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.selection.cost_model import resident_blocks_per_sm
from cugen.families.gemm.selection.search_space import stream_k_schedule_of
from cugen.families.gemm.shared_epilogue import SharedEpilogue
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.pieces.blocks import Blocks, digits
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.kernel import Kernel, WorkUnits
from cugen.plan.nodes import AcquireSpinWait, Barrier, Comment, For, Loop, Node, ReleaseFlag, Section, Store, when
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, bounds, ceil_div, integer


class StreamKKernel(GemmKernel):
    """A loop over the block's work units. Unit `u` is whole tile `block_id + blocks * u` at first, then a tile of the
    block's range of k-tiles, from the range's end: peers of other blocks come first."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        super().__init__(contraction, config)
        schedule = stream_k_schedule_of(contraction, config)
        assert schedule is not None
        self.schedule = schedule
        resident = resident_blocks_per_sm(problem_of(contraction), config, contraction.request.target)
        if not config.blocks_per_sm and resident > 1:
            self.min_blocks_per_sm = resident  # the schedule relies on it

    def kernel(self) -> Kernel:
        made, schedule = super().kernel(), self.schedule
        units = WorkUnits(self.tile, self.k_tile_begin, self.k_tile_end, schedule.tiles, schedule.k_tiles)
        return replace(made, work_units=units)

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        lowering, blocks = self.lowering, integer(self.schedule.blocks)
        self.block_ids = DynamicBlockIds(self.request, lowering, blocks, left_zero=True)
        self.partials = PartialsWorkspace.of(self.contraction, self.config, blocks)
        self.workspace = self.block_ids.flags, self.partials.array
        self.range_definitions = self._define_range()
        self.max_units = self.schedule.whole_tiles_per_block + self.schedule.units_per_range[1]
        self.unit = loop_variable("work_unit", self.max_units, lowering)
        self.unit_definitions = self._define_unit()
        return Blocks((blocks, integer(1), integer(1)), digits(self.tile, counts))

    def _define_range(self) -> tuple[Node, ...]:
        """The block's range of k-tiles, counted over all tiles."""
        schedule, block_id = self.schedule, self.block_ids.block_id
        per_block, k_tiles = schedule.k_tiles_per_block, schedule.k_tiles
        start, stop = schedule.whole_tiles * k_tiles, schedule.tiles * k_tiles
        text = f"{schedule.text}: {k_tiles} k-tiles of a tile, {per_block} of a block"
        nodes: list[Node] = [Comment(text), Comment("the block's range of k-tiles")]
        begin = start + per_block * block_id
        if start + per_block * (schedule.blocks - 1) > stop:
            begin = Minimum(begin, integer(stop))
        self.range_begin = self._named("range_begin", begin, nodes, (start, stop))
        end = self.range_begin + per_block
        if start + per_block * schedule.blocks > stop:
            end = Minimum(end, integer(stop))
        self.range_end = self._named("range_end", end, nodes, (start, stop))
        last = FloorDiv(self.range_end - 1, integer(k_tiles))
        self.last_tile = self._named("last_tile", last, nodes, (0, schedule.tiles - 1))
        return tuple(nodes)

    def _define_unit(self) -> tuple[Node, ...]:
        """A work unit: its tile and its range of the tile's k-tiles."""
        schedule, unit, whole = self.schedule, self.unit.symbol, integer(self.schedule.whole_tiles_per_block)
        k_tiles = integer(schedule.k_tiles)
        nodes: list[Node] = [Comment("from the end of the range, since other blocks wait for the tile that it ends in")]
        whole_tile = self.block_ids.block_id + schedule.blocks * unit
        tile = self._whole_or_distributed(whole_tile, self.last_tile + whole - unit)
        self.tile = self._named("tile", tile, nodes, (0, schedule.tiles - 1))
        tile_start = k_tiles * self.tile
        begin = self._whole_or_distributed(integer(0), Maximum(self.range_begin - tile_start, integer(0)))
        end = self._whole_or_distributed(k_tiles, Minimum(self.range_end - tile_start, k_tiles))
        self.k_tile_begin = self._named("k_tile_begin", begin, nodes, (0, schedule.k_tiles))
        self.k_tile_end = self._named("k_tile_end", end, nodes, (0, schedule.k_tiles))
        return tuple(nodes)

    def _whole_or_distributed(self, whole: Integer, distributed: Integer) -> Integer:
        count = self.schedule.whole_tiles_per_block
        return Choice(self.unit.symbol, integer(count), whole, distributed) if count else distributed

    def _coordinates(self, blocks: Blocks) -> tuple[tuple[Section, ...], ThreadCoordinates]:
        block_k, size = integer(self.config.block_k), int(self.config.block_k)
        max_k = self.schedule.k_tiles * size
        nodes: list[Node] = []
        k_offset = self._named("k_offset", block_k * self.k_tile_begin, nodes, (0, max_k - size))
        length = block_k * self.k_tile_end - block_k * self.k_tile_begin
        self.k_extent = self._named("k_length", length, nodes, (size, max_k))
        tile_origin, k_residue = self._tile_coordinates(blocks, nodes)
        self.tile_definitions = tuple(nodes)
        definitions, thread = self._thread_coordinates(tile_origin, k_residue, k_offset)
        *fetch, barrier, load = self.block_ids.fetch()
        sections = (
            Section("fetch_block_id", tuple(fetch)),
            Section("block_id_fetched", (barrier,)),
            Section("block_id", (load,)),
            Section("thread_coordinates", definitions),
        )
        return sections, thread

    def _computation(self, pipelines: list[OperandPipeline], epilogue: Epilogue) -> tuple[Section, ...]:
        """The computation of an output tile in the body of a loop over the block's work units."""
        body = (
            Section("previous_tile_read", (Barrier(),)),
            Section("tile_coordinates", self.tile_definitions),
            *super()._computation(pipelines, epilogue),
        )
        minimum, maximum = self.schedule.units_per_range
        if minimum < maximum:
            body = (Section("if_k_tiles", (when(self.k_tile_begin, "<", self.k_tile_end, body),)),)
        loop = Loop(self.unit, integer(0), integer(self.max_units), rolled=True)
        unit = Section("unit_range", self.unit_definitions)
        return Section("block_range", self.range_definitions), Section("work_units", (For(loop, (unit, *body)),))

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        schedule, block_id = self.schedule, self.block_ids.block_id
        nodes: list[Node] = []
        count = ceil_div(self.k_tile_begin, schedule.k_tiles_per_block)
        peers = self._named("peers", count, nodes, (0, schedule.max_peers))
        first_peer = self._named("first_peer", block_id - peers, nodes, (0, schedule.blocks - 1))
        store = self._store_partials(epilogue)
        finish = (Section("peer_coordinates", tuple(nodes)), *self._finish(epilogue, first_peer, peers))
        fix_up = when(self.k_tile_end, "<", integer(schedule.k_tiles), store, finish)
        return *epilogue.stage_slices(), Section("fix_up", (fix_up,))

    def _store_partials(self, epilogue: Epilogue) -> tuple[Section, ...]:
        """Stores the block's partial sums to its slot and releases its flag."""
        block_id = self.block_ids.block_id
        release = ReleaseFlag(self.block_ids.flag(1 + block_id, "atomic"), self.block_ids.set)
        release_flag = Section("release_flag", (release,))
        return (
            *self.partials.store(epilogue, block_id),
            Section("partials_stored", (Barrier(),)),
            Section("first_thread", (when(epilogue.thread.index, "==", integer(0), (release_flag,)),)),
        )

    def _finish(self, epilogue: Epilogue, first_peer: Integer, peers: Integer) -> tuple[Section, ...]:
        """Waits for the peers, which began the tile, and adds their partial sums in block order; then the epilogue."""
        thread = epilogue.thread
        min_peers, max_peers = bounds(peers, thread.lowering.ranges)
        peer = thread.loop_index("p", max_peers)
        slot = first_peer + peer.symbol
        flag = 1 + first_peer + thread.index
        wait = AcquireSpinWait(self.block_ids.flag(flag, "load"), self.block_ids.set)
        clear = Store(self.block_ids.flag(flag, "store"), self.block_ids.clear)
        waiting = Section("acquire_flag", (wait,)), Section("clear_flag", (clear,))
        wait_for_peers = (
            Section("waiting_threads", (when(thread.index, "<", peers, waiting),)),
            Section("peers_stored", (Barrier(),)),
        )
        if isinstance(epilogue, SharedEpilogue):
            loop = Loop(peer, integer(0), peers, rolled=not peers.is_Integer)
            partial = self.partials.vectors(slot, "load")
            return *wait_for_peers, *epilogue.fix_up(loop, partial, begins_with_slices=True)
        add = Section("add", (self.partials.add(epilogue, slot),))
        add_partials = For(Loop(peer, integer(0), peers, rolled=True), (add,))
        fix_up: tuple[Section, ...] = (*wait_for_peers, Section("add_partials", (add_partials,)))
        if min_peers == 0:
            fix_up = (Section("if_peers", (when(peers, ">", integer(0), fix_up),)),)
        return (*fix_up, *epilogue.sections())

    def _reason(self) -> str:
        return f"{super()._reason()}; {self.schedule.text}"
