"""The kernel of a warp-specialised GEMM: one thread of a producer warp copies k-tiles by TMA, warpgroups multiply them
by wgmma, and the blocks, one on each multiprocessor, loop over the output tiles (persistence)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.named_sizes import NamedSizes
from cugen.families.gemm.tensor_cores import FRAGMENT_WIDTHS
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates, WarpgroupCoordinates
from cugen.families.gemm.wgmma.epilogues.pairs import MatrixEpilogue, PairEpilogue
from cugen.families.gemm.wgmma.epilogues.rows import RowEpilogue, row_buffer_bytes, stores_rows
from cugen.families.gemm.wgmma.epilogues.tensor_store import TensorStoreEpilogue, stores_by_tma
from cugen.families.gemm.wgmma.epilogues.transposed import TransposedEpilogue
from cugen.families.gemm.wgmma.main_loop import MainLoop
from cugen.families.gemm.wgmma.operands.pixels import PixelTiles, TapTiles, window_images
from cugen.families.gemm.wgmma.operands.tiles import OperandTiles
from cugen.families.gemm.wgmma.output_tiles import OutputTiles
from cugen.families.gemm.wgmma.pipeline import Pipeline
from cugen.families.gemm.wgmma.roles import Roles
from cugen.families.gemm.wgmma.split.cluster_epilogue import ClusterEpilogue, partials_bytes
from cugen.families.gemm.wgmma.swapped_operands import as_computed
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Barrier, ClusterBarrier, Comment, Declare, Node, Section
from cugen.plan.pipeline_nodes import PrefetchTensorMap
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer

_Loop = TypeVar("_Loop", bound=MainLoop)


class CommonNodes(NamedTuple):
    """What all blocks have in common: declarations, what one thread does before the first barrier of the block, and
    what all threads define after it."""

    declarations: tuple[Node, ...] = ()
    initialisation: tuple[Node, ...] = ()
    definitions: tuple[Section, ...] = ()


class WgmmaKernel:
    """Builder of the kernel of one GEMM with one config. Stream-K derives from it, and the form without a producer."""

    def __init__(self, contraction: Contraction, config: WgmmaConfig) -> None:
        self.contraction = contraction = as_computed(contraction, config)
        self.request = contraction.request
        self.lowering: Lowering = new_lowering(contraction.request)
        self.sizes = NamedSizes(contraction, self.lowering)
        sides = ((contraction.side_m, config.block_m), (contraction.side_n, config.block_n))
        tile = {side: self.sizes.named(f"B{side}", size) for side, size in sorted(sides)}
        self.config = config = replace(
            config,
            block_m=tile[contraction.side_m],
            block_n=tile[contraction.side_n],
            block_k=self.sizes.named("BK", config.block_k),
            stages=self.sizes.named("STAGES", config.stages),
            raster=self.sizes.named("RASTER", config.raster),
        )
        symbols, context = self.lowering.symbols, self.request.context
        self.extents = {index.name: to_integer(index.extent, symbols) for index in contraction.indices}
        # Blocks of a cluster have tiles beyond the last one where their number isn't a multiple of theirs.
        tiles = {contraction.m.name: config.block_m * config.multicast}
        tiles |= {contraction.n.name: config.block_n * config.multicast_n}
        self.exact = {name: divides(size, self.extents[name], context) for name, size in tiles.items()}
        self.output_tiles = self._output_tiles()

    def kernel(self) -> Kernel:
        config, lowering = self.config, self.lowering
        self.tiles, offset = self._operand_tiles()
        self.block = BlockCoordinates(self.contraction, config, lowering)
        origin, tile_definitions = self.output_tiles.define(self.block)
        self.thread = self._thread_coordinates(origin)
        epilogue, offset = self._epilogue(offset)
        copied_bytes = sum(tiles.stage_bytes for tiles in self.tiles)
        refills = self.output_tiles.refills()
        self.pipeline = Pipeline(config, lowering, self.block, offset, copied_bytes, refills=refills)
        declared = (*(Declare(tiles.tile) for tiles in self.tiles), *epilogue.declarations())
        common = self._common(offset + int(config.stages) * config.barrier_bytes)
        text = f"circular buffer of {config.stages} stages, swizzled rows of 128 bytes"
        maps = [tiles.source for tiles in self.tiles]
        maps += [epilogue.target] if isinstance(epilogue, TensorStoreEpilogue) else []
        initialisation = (*map(PrefetchTensorMap, maps), *self.pipeline.initialisation(), *common.initialisation)
        is_persistent = self.output_tiles.is_persistent
        sections = (
            Section("tiles", (Comment(text), *declared, *self.pipeline.declarations(), *common.declarations)),
            Section("thread_coordinates", self.block.definitions),
            Section("tile_coordinates", () if is_persistent else tile_definitions),
            *self._computation(initialisation, tile_definitions, epilogue, common),
        )
        return assemble(
            self.request,
            lowering,
            "wgmma",
            (self.sizes.section(sections), *sections),
            (self.output_tiles.blocks(), integer(1), integer(1)),
            (config.block_threads, 1, 1),
            minimum_blocks=1,
            workspace=self.workspace,
            reasons=(self._reason(),),
            cluster=config.cluster,
        )

    def _operand_tiles(self) -> tuple[tuple[OperandTiles, ...], Integer]:
        """The tiles of the operands, from the start of shared memory on, and the offset behind them."""
        tiles: list[OperandTiles] = []
        offset = 0
        for operand in self.contraction.operands:
            tiles.append(self._tiles_of(operand, offset))
            offset = tiles[-1].bytes + offset
        return tuple(tiles), offset

    def _tiles_of(self, operand: Operand, offset: int) -> OperandTiles:
        contraction, lowering = self.contraction, self.lowering
        tiles = OperandTiles.of(contraction, operand, self.config, lowering, offset)
        images, channels = window_images(contraction), self.output_tiles.channels
        if images is None:
            return tiles
        number = self.request.context.extent(images.channels)
        if operand.window is not None:
            return PixelTiles.over(tiles, contraction, lowering, number if channels is None else channels)
        return tiles if channels is None else TapTiles.over(tiles, contraction, (number, channels))

    def _thread_coordinates(self, origin: dict[str, Integer]) -> WarpgroupCoordinates:
        block = self.block
        return WarpgroupCoordinates(
            self.contraction,
            self.config,
            self.lowering,
            self.extents,
            self.exact,
            FRAGMENT_WIDTHS,
            index=block.thread,
            copy_thread=block.thread,
            tile_origin=origin,
            m_in_tile=block.m_in_tile,
            n_in_tile=block.n_in_tile,
            lane_m=block.lane_m,
            lane_n=block.lane_n,
            lane=block.lane,
        )

    def _epilogue(self, offset: int) -> tuple[Epilogue, int]:
        """The epilogue, whose buffers are at an offset in shared memory, and the offset behind them."""
        if self.config.split_k > 1:  # in the memory of the tiles
            return ClusterEpilogue(self.thread), max(offset, partials_bytes(self.contraction, self.config))
        if stores_by_tma(self.contraction):
            matrices = MatrixEpilogue if self.config.stores_matrices else PairEpilogue
            kind = TransposedEpilogue if self.config.swaps_ab else matrices
            by_tma = kind(self.thread, self.block, offset, wave=self.output_tiles.wave)
            return by_tma, offset + by_tma.bytes
        if stores_rows(self.contraction, self.config):
            rows = RowEpilogue(self.thread, self.block, offset, wave=self.output_tiles.wave)
            return rows, offset + row_buffer_bytes(self.contraction, self.config)
        return Epilogue(self.thread), offset

    def _computation(
        self,
        initialisation: tuple[Node, ...],
        tile_definitions: tuple[Node, ...],
        epilogue: Epilogue,
        common: CommonNodes,
    ) -> tuple[Section, ...]:
        """What one thread does before the first barrier of the block, and the roles after it."""
        config, output_tiles = self.config, self.output_tiles
        main_loop = self._main_loop(MainLoop)
        producing = main_loop.produce()
        tile = *main_loop.consume(epilogue.accumulators), *self._after_main_loop(epilogue)
        consuming = (*output_tiles.over(tile_definitions, tile), *self._drain(epilogue))
        roles, is_shared = Roles(config, self.request.target, self.block.thread), config.sharing > 1
        waits = self.pipeline.refills or output_tiles.is_persistent or config.gives_registers or is_shared
        if waits:
            producing = output_tiles.over(tile_definitions, producing)
            before, after = roles.specialised(initialisation, producing, consuming)
        else:
            before, after = roles.copying_first(initialisation, producing, consuming)
        return (
            before,
            Section("barriers_initialised", (ClusterBarrier() if is_shared else Barrier(),)),
            *common.definitions,
            after,
            *(epilogue.reduce_cluster(self.block.rank) if isinstance(epilogue, ClusterEpilogue) else ()),
            Section("cluster_copied", (ClusterBarrier(),) if is_shared else ()),
        )

    def _main_loop(self, kind: type[_Loop]) -> _Loop:
        output_tiles, block = self.output_tiles, self.block
        return kind(
            self.thread,
            self.tiles,
            self.pipeline,
            output_tiles.k_range,
            k_tiles_before=output_tiles.k_tiles_before,
            block=block,
        )

    @staticmethod
    def _drain(epilogue: Epilogue) -> tuple[Section, ...]:
        """After the last output tile of the block."""
        return (Section("drain_stores", epilogue.drain()),) if isinstance(epilogue, TensorStoreEpilogue) else ()

    # Overridden by stream-K

    @property
    def workspace(self) -> tuple[Array, ...]:
        return ()

    def _output_tiles(self) -> OutputTiles:
        return OutputTiles(self.contraction, self.config, self.lowering, self.sizes, self.extents)

    def _common(self, offset: int) -> CommonNodes:
        """`offset` is that of free shared memory."""
        return CommonNodes()

    def _after_main_loop(self, epilogue: Epilogue) -> tuple[Section, ...]:
        return epilogue.sections()

    def _described_blocks(self, tiles: int) -> str:
        return (
            f"{self.config.consumers} consumer warpgroups, {tiles} tiles on {min(tiles, self.output_tiles.sms)} blocks"
        )

    def _reason(self) -> str:
        config = self.config
        sizes = f"{config.block_m} x {config.block_n} x {config.block_k}"
        if config.swaps_ab:
            sizes = f"{config.block_n} x {config.block_m} x {config.block_k}, transposed (swap_ab)"
        blocks = self._described_blocks(self.output_tiles.max_count)
        return f"GEMM by wgmma and TMA: block tile {sizes}, {config.stages} stages, {blocks}"
