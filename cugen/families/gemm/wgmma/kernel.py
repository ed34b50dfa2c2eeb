"""The kernel of a warp-specialised GEMM: one thread of a producer warp copies k-tiles by TMA, warpgroups multiply them
by wgmma, and the blocks, one on each multiprocessor, loop over the output tiles (persistence)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import sympy

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.gemm.config import WARP
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.problem import device_of
from cugen.families.gemm.tensor_cores import FRAGMENT_WIDTHS
from cugen.families.gemm.wgmma.config import (
    ACCUMULATOR_LANES_N,
    PRODUCER_REGISTERS,
    WgmmaConfig,
    available_registers,
)
from cugen.families.gemm.wgmma.coordinates import WarpgroupCoordinates
from cugen.families.gemm.wgmma.epilogue import TensorStoreEpilogue, stores_by_tma
from cugen.families.gemm.wgmma.main_loop import KRange, MainLoop
from cugen.families.gemm.wgmma.operands import OperandTiles
from cugen.families.gemm.wgmma.pipeline import Pipeline
from cugen.families.gemm.wgmma.pixels import PixelTiles, TapTiles, padded_channels, window_images
from cugen.families.gemm.wgmma.split.cluster_epilogue import ClusterEpilogue, partials_bytes
from cugen.machine.occupancy import clustered_multiprocessors
from cugen.machine.target import MAX_BLOCKS
from cugen.machine.wgmma import WARPGROUP, WGMMA_M
from cugen.pieces.blocks import define, define_index, define_size, digits
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import (
    Barrier,
    ClusterBarrier,
    Comment,
    Comparison,
    Declare,
    Define,
    For,
    Guard,
    If,
    Loop,
    Node,
    Section,
    when,
)
from cugen.plan.pipeline_nodes import PrefetchTensorMap, SetMaxRegisters
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, Size, bounds, ceil_div, integer, symbol
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import free_symbols

_Loop = TypeVar("_Loop", bound=MainLoop)


class BlockNodes(NamedTuple):
    """What all blocks have in common: declarations, what one thread does before the first barrier of the block, and
    what all threads define after it."""

    declarations: tuple[Node, ...] = ()
    initialisation: tuple[Node, ...] = ()
    definitions: tuple[Section, ...] = ()


class WgmmaKernel:
    """Builder of the kernel of one GEMM with one config. Stream-K derives from it, and the form without a producer."""

    def __init__(self, contraction: Contraction, config: WgmmaConfig) -> None:
        self.contraction, self.request = contraction, contraction.request
        self.lowering: Lowering = new_lowering(contraction.request)
        self.sizes: dict[sympy.Symbol, Define] = {}
        self.config = config = replace(
            config,
            block_m=self._size("BM", config.block_m),
            block_n=self._size("BN", config.block_n),
            block_k=self._size("BK", config.block_k),
            stages=self._size("STAGES", config.stages),
            raster=self._size("RASTER", config.raster),
        )
        symbols, context = self.lowering.symbols, self.request.context
        indices = contraction.indices
        self.extents = {index.name: to_integer(index.extent, symbols) for index in indices}
        # Blocks of a cluster have tiles beyond the last one where their number isn't a multiple of theirs.
        sizes = {contraction.m.name: config.block_m * config.multicast}
        sizes |= {contraction.n.name: config.block_n * config.multicast_n}
        self.exact = {name: divides(size, self.extents[name], context) for name, size in sizes.items()}
        self.tiles_m = self._count("TILES_M", contraction.m.name, config.block_m)
        self.tiles_n = self._count("TILES_N", contraction.n.name, config.block_n)
        self.channels = self._padded_channels()
        self.k_tiles = self._count("K_TILES", contraction.k.name, config.block_k)

    def _padded_channels(self) -> Integer | None:
        """The padded channels of a tap, of which the extent of K is a multiple then; None where they aren't padded."""
        padded = padded_channels(self.contraction, int(self.config.block_k))
        if padded is None:
            return None
        images, context, k = window_images(self.contraction), self.request.context, self.contraction.k.name
        assert images is not None
        channels = self._size("PADDED_CHANNELS", padded).expr
        self.extents[k] = self.extents[k] / context.extent(images.channels) * channels
        return channels

    def kernel(self) -> Kernel:
        config, contraction, lowering = self.config, self.contraction, self.lowering
        pieces: list[OperandTiles] = []
        offset = 0
        for operand in contraction.operands:
            pieces.append(self._tiles_of(operand, offset))
            offset = pieces[-1].bytes + offset
        self.tiles = tuple(pieces)
        thread_definitions, tile_definitions = self._coordinates()
        epilogue, offset = self._epilogue(self._wave(), offset)
        copied_bytes = sum(tiles.box_bytes for tiles in self.tiles)
        self.pipeline = Pipeline(config, lowering, offset, copied_bytes, refills=self._refills())
        declared = (*(Declare(tiles.tile) for tiles in self.tiles), *epilogue.declarations())
        block = self._block(offset + int(config.stages) * config.barrier_bytes)
        text = f"circular buffer of {config.stages} stages, swizzled rows of 128 bytes"
        maps = [tiles.source for tiles in self.tiles]
        maps += [epilogue.target] if isinstance(epilogue, TensorStoreEpilogue) else []
        initialisation = (*map(PrefetchTensorMap, maps), *self.pipeline.initialisation(), *block.initialisation)
        sections = (
            Section("tiles", (Comment(text), *declared, *self.pipeline.declarations(), *block.declarations)),
            Section("thread_coordinates", tuple(thread_definitions)),
            Section("tile_coordinates", () if self.is_persistent else tuple(tile_definitions)),
            *self._computation(initialisation, tile_definitions, epilogue, block),
        )
        used = free_symbols(dissolved(sections))
        sizes = Section("sizes", tuple(node for name, node in self.sizes.items() if name in used))
        return assemble(
            self.request,
            lowering,
            "wgmma",
            (sizes, *sections),
            (self._blocks(), integer(1), integer(1)),
            (config.block_threads, 1, 1),
            minimum_blocks=1,
            workspace=self.workspace,
            reasons=(self._reason(),),
            cluster=config.cluster,
        )

    def _computation(
        self, initialisation: tuple[Node, ...], tile_definitions: list[Node], epilogue: Epilogue, block: BlockNodes
    ) -> tuple[Section, ...]:
        """What one thread does before the first barrier of the block, and the roles after it."""
        main_loop = self._main_loop(MainLoop)
        producing = main_loop.produce()
        tile = *main_loop.consume(epilogue.accumulators), *self._after_main_loop(epilogue)
        consuming = self._over_tiles(tile_definitions, tile)
        consumers = (self._registers(increases=True), *consuming, *self._drain(epilogue))
        copies_first, init, roles = self._roles(tile_definitions, initialisation, producing, consumers)
        is_shared = self.config.sharing > 1
        return (
            Section("copies_first", copies_first),
            Section("initialise_barriers", init),
            Section("barriers_initialised", (ClusterBarrier() if is_shared else Barrier(),)),
            *block.definitions,
            Section("roles", roles),
            *(epilogue.reduce_cluster(self.rank) if isinstance(epilogue, ClusterEpilogue) else ()),
            Section("cluster_copied", (ClusterBarrier(),) if is_shared else ()),
        )

    def _main_loop(self, kind: type[_Loop]) -> _Loop:
        return kind(
            self.thread,
            self.tiles,
            self.pipeline,
            self.k_range,
            k_tiles_before=self._k_tiles_before(),
            warpgroup=self.warpgroup,
            rank=self.rank,
        )

    @staticmethod
    def _drain(epilogue: Epilogue) -> tuple[Section, ...]:
        """After the last output tile of the block."""
        return (Section("drain_stores", epilogue.drain()),) if isinstance(epilogue, TensorStoreEpilogue) else ()

    # Overridden by stream-K

    workspace: tuple[Array, ...] = ()

    def _blocks(self) -> Integer:
        """The blocks of the launch."""
        clusters = self._unnamed(self.tile_count)
        if self.config.is_persistent:
            clusters = Minimum(clusters, integer(self._clusters))
        return clusters * self.config.cluster

    def _block(self, offset: int) -> BlockNodes:
        """`offset` is that of free shared memory."""
        return BlockNodes()

    def _wave(self) -> Integer | None:
        """The number of the output tile among those of the block; None if it has one only."""
        return self.wave.index.symbol if self.is_persistent else None

    def _k_tiles_before(self) -> Integer | None:
        """K-tiles of the block before those of the output tile; None if it has one tile only."""
        return self.wave.index.symbol * self.k_range.k_tiles if self.is_persistent else None

    def _after_main_loop(self, epilogue: Epilogue) -> tuple[Section, ...]:
        return epilogue.sections()

    def _refills(self) -> bool:
        """Whether a stage may be filled again."""
        waves = self.wave.index.range[1] + 1 if self.is_persistent else 1
        k_tiles = bounds(ceil_div(self.k_range.length, self.config.block_k), self.lowering.ranges)[1]
        return waves * k_tiles > self.config.stages

    def _epilogue(self, wave: Integer | None, offset: int) -> tuple[Epilogue, int]:
        """The epilogue, whose buffers are at an offset in shared memory, and the offset behind them."""
        if self.config.split_k > 1:  # in the memory of the tiles
            return ClusterEpilogue(self.thread), max(offset, partials_bytes(self.contraction, self.config))
        if stores_by_tma(self.contraction):
            by_tma = TensorStoreEpilogue(self.thread, self.warpgroup, self.thread_of_warpgroup, offset, wave=wave)
            return by_tma, offset + by_tma.bytes
        return Epilogue(self.thread), offset

    @property
    def _copies_first(self) -> bool:
        """Whether one thread copies all k-tiles before the barrier of the block: it refills no stage, so it waits for
        nobody, and the latency of the copies begins with the kernel."""
        config = self.config
        return not (self.pipeline.refills or self.is_persistent or config.gives_registers or config.sharing > 1)

    def _roles(
        self,
        tile_definitions: list[Node],
        initialisation: tuple[Node, ...],
        producing: tuple[Section, ...],
        consumers: tuple[Section, ...],
    ) -> tuple[tuple[Node, ...], tuple[Node, ...], tuple[Node, ...]]:
        """What is copied before the barrier of the block, the initialisation before it, and the roles after it."""
        if self._copies_first:
            first = (Section("initialise", initialisation), *producing)
            roles = when(self.index, "<", self._consumer_threads, consumers)
            return (If(self._producing(Comparison(self.index, ">=", self._consumer_threads)), first),), (), (roles,)
        # Of a producer warpgroup only the first warp copies.
        of_warp = [Comparison(self.index, "<", self._consumer_threads + WARP)] if self.config.gives_registers else []
        producer = If(self._producing(*of_warp), self._over_tiles(tile_definitions, producing))
        producers = (self._registers(increases=False), Section("producer", (producer,)))
        init = when(self.index, "==", integer(0), initialisation)
        return (), (init,), (when(self.index, ">=", self._consumer_threads, producers, consumers),)

    def _producing(self, *of_warp: Comparison) -> Guard:
        """The condition of the thread that copies, in a branch of its warp where no comparisons choose that."""
        return Guard((Comparison(self.index, "==", self._consumer_threads),), of_warp)

    def _tiles_of(self, operand: Operand, offset: int) -> OperandTiles:
        contraction, lowering = self.contraction, self.lowering
        tiles = OperandTiles.of(contraction, operand, self.config, lowering, offset)
        images = window_images(contraction)
        if images is None:
            return tiles
        number = self.request.context.extent(images.channels)
        if operand.window is not None:
            return PixelTiles.over(tiles, contraction, lowering, number if self.channels is None else self.channels)
        return tiles if self.channels is None else TapTiles.over(tiles, contraction, (number, self.channels))

    def _registers(self, *, increases: bool) -> Section:
        """What consumers take (`increases`) of the producer's registers."""
        target, count = self.request.target, PRODUCER_REGISTERS
        if increases:
            count = available_registers(self.config, target.registers_per_sm, target.registers_per_thread)
        return Section("registers", (SetMaxRegisters(count, increases),) if self.config.gives_registers else ())

    @property
    def _sms(self) -> int:
        return device_of(self.request.target).sms

    @property
    def _clusters(self) -> int:
        """Clusters, or single blocks, that are resident at once."""
        return clustered_multiprocessors(self._sms, self.config.sharing) // self.config.sharing

    @property
    def _consumer_threads(self) -> Integer:
        return integer(self.config.consumer_threads)

    def _size(self, name_hint: str, value: int) -> Size:
        node = define_size(name_hint, value, self.contraction.indices, self.lowering)
        self.sizes[node.index.symbol] = node
        return Size(value, node.index.symbol)

    def _count(self, name_hint: str, index: str, tile: int) -> Integer:
        """The tiles along an index, by a name where its extent is known and there are several."""
        count = ceil_div(self.extents[index], tile)
        known = self.request.context.static(self._unnamed(count))
        if known is None:
            return count
        return self._size(name_hint, known).expr if known > 1 else integer(1)

    def _unnamed(self, expr: Integer) -> Integer:
        """The expression without names of sizes, for the launch."""
        return expr.xreplace({name: node.index.definition for name, node in self.sizes.items()})

    def _define(self, name_hint: str, definition: Integer, nodes: list[Node]) -> Integer:
        node = define(name_hint, definition, self.lowering)
        nodes.append(node)
        return node.index.symbol

    def _coordinates(self) -> tuple[list[Node], list[Node]]:
        """Definitions of the thread's coordinates, and of an output tile's."""
        config, contraction, lowering = self.config, self.contraction, self.lowering
        nodes: list[Node] = []
        lowering.ranges[symbol("threadIdx.x")] = (0, config.block_threads - 1)
        self.index = self._define("thread", symbol("threadIdx.x"), nodes)
        self.lane = self._define("lane", Mod(self.index, integer(WARP)), nodes)
        # Threads of the producer warp use none of these.
        self.warpgroup: Integer = integer(0)
        if config.consumers > 1:
            self.warpgroup = self._define("warpgroup", FloorDiv(self.index, integer(WARPGROUP)), nodes)
            lowering.ranges[self.warpgroup] = (0, config.consumers - 1)
        self.thread_of_warpgroup = self.index
        if config.consumers > 1:
            self.thread_of_warpgroup = self._define("thread_of_warpgroup", Mod(self.index, integer(WARPGROUP)), nodes)
        rows = WGMMA_M * config.matrices_m
        warp = FloorDiv(self.thread_of_warpgroup, integer(WARP))
        m = self.warpgroup * rows + 16 * warp + FloorDiv(self.lane, integer(ACCUMULATOR_LANES_N))
        self.cluster_index, self.rank = FloorDiv(symbol("blockIdx.x"), integer(config.cluster)), integer(0)
        lowering.ranges[symbol("blockIdx.x")] = (0, MAX_BLOCKS - 1)
        if config.cluster > 1:
            self.rank = self._define("rank", Mod(symbol("blockIdx.x"), integer(config.cluster)), nodes)
        thread_m = self._define("thread_m", m, nodes)
        thread_n = self._define("thread_n", 2 * Mod(self.lane, integer(ACCUMULATOR_LANES_N)), nodes)
        lowering.ranges[thread_m] = (0, int(config.block_m) - 1)
        origin, tile_definitions = self._tile_coordinates()
        self.thread = WarpgroupCoordinates(
            contraction,
            config,
            lowering,
            self.extents,
            self.exact,
            FRAGMENT_WIDTHS,
            index=self.index,
            copy_thread=self.index,
            tile_origin=origin,
            m_in_tile=thread_m,
            n_in_tile=thread_n,
            lane_m=FloorDiv(self.lane, integer(ACCUMULATOR_LANES_N)),
            lane_n=Mod(self.lane, integer(ACCUMULATOR_LANES_N)),
            lane=self.lane,
        )
        return nodes, tile_definitions

    def _tile_coordinates(self) -> tuple[dict[str, Integer], list[Node]]:
        """The origin of output tile `tile` of the block's loop."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        m, n = contraction.m.name, contraction.n.name
        tiles_m, tiles_n = self.tiles_m, self.tiles_n
        batches = [self.extents[index.name] for index in contraction.batch]
        if config.multicast > 1:  # the tiles of a cluster count as one
            tiles_m = ceil_div(tiles_m, config.multicast)
        if config.multicast_n > 1:
            tiles_n = ceil_div(tiles_n, config.multicast_n)
        self.cluster_rows, self.cluster_columns = tiles_m, tiles_n
        self.tile_count = tiles_m * tiles_n * sympy.Mul(*batches)
        nodes: list[Node] = []
        tile, *batch = digits(self._tile_number(), [tiles_m * tiles_n, *batches])
        for index, coordinate in zip(contraction.batch, batch, strict=True):
            nodes.append(define_index(index.name, coordinate, self.extents[index.name], lowering))
        if batch:
            tile = self._define("tile_of_matrix", tile, nodes)
        row, column = self._rasterised(tile, nodes)
        if config.multicast > 1:
            row = row * config.multicast + self.rank
        if config.multicast_n > 1:
            column = column * config.multicast_n + self.rank
        origin = {
            m: self._define(f"{m}0", row * integer(config.block_m), nodes),
            n: self._define(f"{n}0", column * integer(config.block_n), nodes),
        }
        self.k_range = self._define_k_range(nodes)
        return origin, nodes

    def _tile_number(self) -> Integer:
        """The number of the output tile; of several of a block, in a loop over these."""
        config, lowering = self.config, self.lowering
        count = bounds(self.tile_count, lowering.ranges)[1]
        clusters = min(count, self._clusters) if config.is_persistent else count
        lowering.ranges[symbol("blockIdx.x")] = (0, clusters * config.cluster - 1)
        self.is_persistent = clusters < count
        if not self.is_persistent:
            return self.cluster_index
        self.stride = self._size("CLUSTERS" if config.sharing > 1 else "BLOCKS", self._clusters)
        self.tile_index = replace(loop_variable("tile", self.tile_count, lowering), range=(0, count - 1))
        lowering.ranges[self.tile_index.symbol] = self.tile_index.range
        before = self.tile_index.symbol - self.cluster_index
        self.wave = define("wave", FloorDiv(before, integer(self._clusters)), lowering)
        last = -(-count // self._clusters) - 1
        self.wave = replace(self.wave, index=replace(self.wave.index, range=(0, last)))
        self.wave = replace(self.wave, then=self.wave.index.symbol + 1)
        lowering.ranges[self.wave.index.symbol] = (0, last)
        return self.tile_index.symbol

    def _rasterised(self, tile: Integer, nodes: list[Node]) -> tuple[Integer, Integer]:
        """The row and column of a tile's number: `raster` rows of tiles at a time, column by column."""
        raster, tiles_m = self.config.raster, self.cluster_rows
        if bounds(tiles_m, self.lowering.ranges)[1] <= raster:
            return Mod(tile, tiles_m), FloorDiv(tile, tiles_m)
        nodes.append(Comment(f"raster: {raster} rows of tiles at a time, column by column"))
        rows, per_group = integer(raster), integer(raster) * self.cluster_columns
        first_row = rows * self._define("group", FloorDiv(tile, per_group), nodes)
        in_group = Mod(tile, per_group)
        known = self.request.context.static(self._unnamed(tiles_m))
        if known is not None and known % raster == 0:
            return first_row + Mod(tile, rows), FloorDiv(in_group, rows)
        rows = self._define("rows", Minimum(tiles_m - first_row, rows), nodes)
        self.lowering.ranges[rows] = (1, int(raster))
        return first_row + Mod(in_group, rows), FloorDiv(in_group, rows)

    def _define_k_range(self, nodes: list[Node]) -> KRange:
        """The block's part of K: all of it, or with split-K a range of k-tiles."""
        name, size, block_k = self.contraction.k.name, self.config.split_k, integer(self.config.block_k)
        k_tiles = self.k_tiles
        if size == 1:
            return KRange(integer(0), self.extents[name], k_tiles, self.channels)
        nodes.append(Comment(f"split-K: the {size} blocks of a cluster each take a range of {name}"))
        offset = self._define("k_offset", block_k * FloorDiv(self.rank * k_tiles, integer(size)), nodes)
        end = block_k * FloorDiv((self.rank + 1) * k_tiles, integer(size))
        length = self._define("k_length", end - offset, nodes)
        longest = bounds(ceil_div(k_tiles, size) * block_k, self.lowering.ranges)[1]
        self.lowering.ranges[length] = (int(self.config.block_k), longest)
        return KRange(offset, length, k_tiles, self.channels)

    def _over_tiles(self, definitions: list[Node], body: tuple[Section, ...]) -> tuple[Section, ...]:
        """The body for each output tile of the block."""
        if not self.is_persistent:
            return body
        sections = (Section("tile_coordinates", tuple(definitions)), *body)
        loop = Loop(self.tile_index, self.cluster_index, self.tile_count, self.stride, rolled=True)
        return (Section("output_tiles", (For(loop, (Section("wave", (self.wave,)), *sections)),)),)

    def _described_blocks(self, tiles: int) -> str:
        return f"{self.config.consumers} consumer warpgroups, {tiles} tiles on {min(tiles, self._sms)} blocks"

    def _reason(self) -> str:
        config = self.config
        tiles = bounds(self.tile_count, self.lowering.ranges)[1]
        return (
            f"GEMM by wgmma and TMA: block tile {config.block_m} x {config.block_n} x {config.block_k}, "
            f"{config.stages} stages, {self._described_blocks(tiles)}"
        )
