"""Stream-K: as many blocks as are resident compute whole tiles, then divide the k-tiles of the last tiles evenly.

Ranges are fixed, and partial sums are added in block order: results don't depend on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.selection.cost_model import resident_blocks_per_sm
from cugen.families.gemm.selection.search_space import stream_k_schedule_of
from cugen.families.gemm.split.fix_up import FixUp
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.families.gemm.split.work_units import StreamKUnits
from cugen.pieces.blocks import Blocks, digits
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, Node, Section
from cugen.plan.symbols import Integer, integer


class StreamKKernel(GemmKernel):
    """The computation of an output tile in the body of a loop over the block's work units."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        super().__init__(contraction, config)
        schedule = stream_k_schedule_of(contraction, config)
        assert schedule is not None
        self.schedule = schedule
        resident = resident_blocks_per_sm(problem_of(contraction), config, contraction.request.target)
        if not config.blocks_per_sm and resident > 1:
            self.min_blocks_per_sm = resident  # the schedule relies on it

    def kernel(self) -> Kernel:
        made = super().kernel()
        return replace(made, work_units=self.units.of_kernel())

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        blocks = integer(self.schedule.blocks)
        self.block_ids = DynamicBlockIds(self.request, self.lowering, blocks, left_zero=True)
        partials = PartialsWorkspace.of(self.contraction, self.config, blocks)
        self.workspace = self.block_ids.flags, partials.array
        self.units = StreamKUnits(self.schedule, self.block_ids.block_id, self.lowering)
        self.fix_up = FixUp(self.units, self.block_ids, partials, Barrier())
        return Blocks((blocks, integer(1), integer(1)), digits(self.units.tile, counts))

    def _coordinates(self, blocks: Blocks) -> tuple[tuple[Section, ...], ThreadCoordinates]:
        block_k, size = integer(self.config.block_k), int(self.config.block_k)
        max_k = self.schedule.k_tiles * size
        begin, end = self.units.k_tile_begin, self.units.k_tile_end
        nodes: list[Node] = []
        k_offset = self._named("k_offset", block_k * begin, nodes, (0, max_k - size))
        self.k_extent = self._named("k_length", block_k * end - block_k * begin, nodes, (size, max_k))
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
        body = (
            Section("previous_tile_read", (Barrier(),) if self.units.has_several else ()),
            Section("unit_coordinates", self.tile_definitions),
            *super()._computation(pipelines, epilogue),
        )
        return Section("block_range", self.units.range_definitions), *self.units.loop(body)

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        return self.fix_up.sections(epilogue)

    def _reason(self) -> str:
        return f"{super()._reason()}; {self.schedule.text}"
