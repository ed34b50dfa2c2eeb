"""Stream-K of a warp-specialised GEMM: each block computes whole output tiles, then its range of the last tiles'
k-tiles. Producer and consumers pass the same work units; consumers exchange partial sums through the workspace."""

from __future__ import annotations

import math
from dataclasses import replace

from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.split.fix_up import FixUp
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.families.gemm.split.work_units import StreamKUnits
from cugen.families.gemm.wgmma.kernel import CommonNodes, WgmmaKernel
from cugen.families.gemm.wgmma.output_tiles import KRange, OutputTiles
from cugen.families.gemm.wgmma.split.work_units import stream_k_schedule_of
from cugen.pieces.blocks import append_definition
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.pieces.kernels import dense_array
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Declare, NamedBarrier, Node, Section
from cugen.plan.symbols import FloorDiv, Integer, integer
from cugen.spec.types import INT32


class DistributedTiles(OutputTiles):
    """The work units of a block, whose number is dynamic: the blocks of the launch are as many as are resident, one on
    each multiprocessor."""

    def _number(self) -> Integer:
        self.is_persistent = True
        self.schedule = stream_k_schedule_of(self.contraction, self.config)
        blocks = integer(self.schedule.blocks)
        self.block_ids = DynamicBlockIds(self.contraction.request, self.lowering, blocks, left_zero=True)
        width = math.gcd(MAX_ACCESS_BYTES // self.contraction.reductions[0].dtype.bytes, self.config.thread_n)
        self.partials = PartialsWorkspace.of(self.contraction, self.config, blocks, width)
        self.units = StreamKUnits(self.schedule, self.block_ids.block_id, self.lowering, is_pipelined=True)
        return self.units.tile

    def blocks(self) -> Integer:
        return integer(self.schedule.blocks)

    def _define_k_range(self, nodes: list[Node]) -> KRange:
        begin, end, size = self.units.k_tile_begin, self.units.k_tile_end, int(self.config.block_k)
        block_k, max_k = integer(self.config.block_k), self.schedule.max_k_tiles_per_unit * size
        max_offset = (self.schedule.k_tiles - 1) * size
        offset = append_definition("k_offset", block_k * begin, nodes, self.lowering, (0, max_offset))
        length = append_definition("k_length", block_k * (end - begin), nodes, self.lowering, (size, max_k))
        return KRange(offset, length, FloorDiv(length, block_k), self.channels)

    @property
    def wave(self) -> Integer | None:
        return self.units.unit.symbol if self.units.has_several else None

    @property
    def k_tiles_before(self) -> Integer | None:
        return self.units.k_tiles_before

    def refills(self) -> bool:
        return self.units.has_several or self.schedule.max_k_tiles_per_unit > self.config.stages

    def over(self, definitions: tuple[Node, ...], body: tuple[Section, ...]) -> tuple[Section, ...]:
        function = f"{self.contraction.request.name}_work_unit"
        return self.units.loop((Section("tile_coordinates", definitions), *body), function)


class StreamKWgmmaKernel(WgmmaKernel):
    """The kernel of blocks with such work units, which exchange partial sums."""

    output_tiles: DistributedTiles

    def kernel(self) -> Kernel:
        made = super().kernel()
        return replace(made, work_units=self.output_tiles.units.of_kernel())

    def _output_tiles(self) -> DistributedTiles:
        return DistributedTiles(self.contraction, self.config, self.lowering, self.sizes, self.extents)

    @property
    def workspace(self) -> tuple[Array, ...]:
        return self.output_tiles.block_ids.flags, self.output_tiles.partials.array

    def _common(self, offset: int) -> CommonNodes:
        block_ids, name = self.output_tiles.block_ids, self.lowering.names.allocate("shared_block_id")
        shared = replace(dense_array(name, INT32, (1,), "shared"), dynamic=True, dynamic_offset=offset)
        fetch = block_ids.fetch_to(Access(shared, (integer(0),), "store"))
        load = block_ids.load_from(Access(shared, (integer(0),), "load"))
        return CommonNodes((Declare(shared),), (fetch,), (Section("block_id", (load,)),))

    def _after_main_loop(self, epilogue: Epilogue) -> tuple[Section, ...]:
        tiles = self.output_tiles
        # Others than those of single warpgroups in the epilogue.
        consumers = NamedBarrier(integer(self.config.consumers), self.config.consumer_threads)
        return FixUp(tiles.units, tiles.block_ids, tiles.partials, consumers).sections(epilogue)

    def _reason(self) -> str:
        return f"{super()._reason()}; {self.output_tiles.schedule.text}"
