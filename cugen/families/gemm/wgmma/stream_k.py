"""Stream-K of a warp-specialised GEMM: each block computes whole output tiles, then its range of the last tiles'
k-tiles. Producer and consumers pass the same work units; consumers exchange partial sums through the workspace."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.split.fix_up import FixUp
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.families.gemm.split.work_units import StreamKUnits
from cugen.families.gemm.wgmma.kernel import BlockNodes, WgmmaKernel
from cugen.families.gemm.wgmma.main_loop import KRange
from cugen.families.gemm.wgmma.split.work_units import stream_k_schedule_of
from cugen.pieces.blocks import append_definition
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.pieces.kernels import dense_array
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Declare, NamedBarrier, Node, Section
from cugen.plan.symbols import FloorDiv, Integer, integer
from cugen.spec.types import INT32


class StreamKWgmmaKernel(WgmmaKernel):
    """The blocks of the launch are as many as are resident, one on each multiprocessor."""

    def kernel(self) -> Kernel:
        made = super().kernel()
        return replace(made, work_units=self.units.of_kernel())

    def _tile_number(self) -> Integer:
        self.is_persistent = True
        self.schedule = stream_k_schedule_of(self.contraction, self.config)
        blocks = integer(self.schedule.blocks)
        self.block_ids = DynamicBlockIds(self.request, self.lowering, blocks, left_zero=True)
        width = MAX_ACCESS_BYTES // self.contraction.reductions[0].dtype.bytes
        partials = PartialsWorkspace.of(self.contraction, self.config, blocks, width)
        self.workspace = self.block_ids.flags, partials.array
        self.units = StreamKUnits(self.schedule, self.block_ids.block_id, self.lowering, is_pipelined=True)
        # Others than those of single warpgroups in the epilogue.
        consumers = NamedBarrier(integer(self.config.consumers), self.config.consumer_threads)
        self.fix_up = FixUp(self.units, self.block_ids, partials, consumers)
        return self.units.tile

    def _blocks(self) -> Integer:
        return integer(self.schedule.blocks)

    def _block(self, offset: int) -> BlockNodes:
        name = self.lowering.names.allocate("shared_block_id")
        shared = replace(dense_array(name, INT32, (1,), "shared"), dynamic=True, dynamic_offset=offset)
        fetch = self.block_ids.fetch_to(Access(shared, (integer(0),), "store"))
        load = self.block_ids.load_from(Access(shared, (integer(0),), "load"))
        return BlockNodes((Declare(shared),), (fetch,), (Section("block_id", (load,)),))

    def _define_k_range(self, nodes: list[Node]) -> KRange:
        begin, end, size = self.units.k_tile_begin, self.units.k_tile_end, int(self.config.block_k)
        block_k, max_k = integer(self.config.block_k), self.schedule.max_k_tiles_per_unit * size
        max_offset = (self.schedule.k_tiles - 1) * size
        offset = append_definition("k_offset", block_k * begin, nodes, self.lowering, (0, max_offset))
        length = append_definition("k_length", block_k * (end - begin), nodes, self.lowering, (size, max_k))
        return KRange(offset, length, FloorDiv(length, block_k), self.channels)

    def _wave(self) -> Integer | None:
        return self.units.unit.symbol if self.units.has_several else None

    def _k_tiles_before(self) -> Integer | None:
        return self.units.k_tiles_before

    def _refills(self) -> bool:
        return self.units.has_several or self.schedule.max_k_tiles_per_unit > self.config.stages

    def _over_tiles(self, definitions: list[Node], body: tuple[Section, ...]) -> tuple[Section, ...]:
        function = f"{self.request.name}_work_unit"
        return self.units.loop((Section("tile_coordinates", tuple(definitions)), *body), function)

    def _after_main_loop(self, epilogue: Epilogue) -> tuple[Section, ...]:
        return self.fix_up.sections(epilogue)

    def _reason(self) -> str:
        return f"{super()._reason()}; {self.schedule.text}"
