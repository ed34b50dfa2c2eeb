"""The kernel of a contraction: coordinates, copies, main loop and epilogue of a block tile, by its tile config.

Split-K and stream-K derive from it; they change which tiles and which range of K a block takes, and the epilogue. The
strided layout of `tiled` has other coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.k_range import grows_with
from cugen.families.gemm.config import WARP, Stores, TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.k_major import pipeline_of
from cugen.families.gemm.copy.pipeline import OperandPipeline, declare_tiles
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.families.gemm.main_loop import MainLoop, Multistage, SingleStage
from cugen.families.gemm.named_sizes import NamedSizes
from cugen.families.gemm.problem import device_of, fragment_widths, problem_of, registers_with_copies, shared_bytes
from cugen.families.gemm.selection.cost_model import resident_blocks_per_sm
from cugen.families.gemm.shared_epilogue import SharedEpilogue
from cugen.machine.occupancy import occupancy, portable_blocks
from cugen.pieces.blocks import Blocks, append_definition, define_constant, define_index, make_grid
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Declare, Node, Section
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, Range, bounds, ceil_div, integer, symbol

_REGISTERS_NOT_ESTIMATED = 48  # of a thread, that ptxas took at most beyond the estimate (measured for sm_90)


class GemmKernel:
    """Builder of the kernel of one GEMM with one tile config."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        self.contraction, self.request = contraction, contraction.request
        self.lowering: Lowering = new_lowering(contraction.request)
        self.sizes = NamedSizes(contraction, self.lowering)
        self.config = config = self._with_named_sizes(config)
        symbols, context = self.lowering.symbols, contraction.request.context
        m, n, k = contraction.m, contraction.n, contraction.k
        self.extents = {i.name: to_integer(i.extent, symbols) for i in (m, n, k, *contraction.batch)}
        sizes = {m.name: config.block_m, n.name: config.block_n, k.name: config.block_k}
        self.exact = {name: divides(size, self.extents[name], context) for name, size in sizes.items()}
        widths = self.fragment_widths = fragment_widths(contraction, config)
        self.thread_at = partial(
            ThreadCoordinates, contraction, config, self.lowering, self.extents, self.exact, widths
        )
        # The last tile along M or N is shifted inward and overlaps the previous one: no copy needs a bounds check.
        self.shifted = {
            name: not self.exact[name] and bounds(self.extents[name], self.lowering.ranges)[0] >= sizes[name]
            for name in ((m.name, n.name) if self._may_shift() else ())
        }
        self.exact |= {name: True for name, is_shifted in self.shifted.items() if is_shifted}
        self.min_blocks_per_sm = config.blocks_per_sm or self._relied_blocks_per_sm()
        self.k_extent = self.extents[k.name]  # of the block's range

    def _relied_blocks_per_sm(self) -> int:
        """The resident blocks that the choice of tiles relies on, where ptxas might take registers for fewer of them; 0
        to leave it to ptxas, as for `tiled`, whose tiles aren't chosen by the model."""
        if self.config.is_strided:
            return 0
        contraction, config, target = self.contraction, self.config, self.request.target
        problem = problem_of(contraction)
        resident = resident_blocks_per_sm(problem, config, target)
        bound = min(resident, portable_blocks(target, config.threads))
        if problem.term_registers and self._blocks_with(problem.term_registers) < bound:
            return 0  # ptxas would spill them
        blocks = math.prod(
            -(-size // tile) for size, tile in ((problem.m, config.block_m), (problem.n, config.block_n))
        )
        if blocks * problem.batch * config.split_k <= device_of(target).sms * (resident - 1):
            return 0
        return bound if self._blocks_with(_REGISTERS_NOT_ESTIMATED) < bound else 0

    def _blocks_with(self, further_registers: int) -> int:
        """The resident blocks where a thread has further registers than those that are estimated."""
        problem, config, target = problem_of(self.contraction), self.config, self.request.target
        registers = min(registers_with_copies(problem, config) + further_registers, target.registers_per_thread)
        return occupancy(target, config.threads, registers, shared_bytes(problem, config)).blocks_per_sm

    def kernel(self) -> Kernel:
        contraction, config, lowering = self.contraction, self.config, self.lowering
        counts = [*self._grid_counts(), *(self.extents[index.name] for index in contraction.batch)]
        blocks = self._make_grid(counts)
        tiles = declare_tiles(contraction, config, lowering)
        coordinates, thread = self._coordinates(blocks)
        epilogue = (SharedEpilogue if config.exchanges_in_shared else Epilogue)(thread)
        pipelines = [
            pipeline_of(thread, operand, tiles.get(operand.read, operand.array)) for operand in contraction.operands
        ]
        sections = (
            Section("tiles", (*self._declarations(tuple(tiles.values())), *epilogue.declarations())),
            *coordinates,
            Section("copy_coordinates", tuple(node for pipeline in pipelines for node in pipeline.definitions())),
            *self._computation(pipelines, epilogue),
        )
        x, y, z = map(self.sizes.unnamed, blocks.grid)
        return assemble(
            self.request,
            lowering,
            self.template,
            (self.sizes.section(sections), *sections),
            (x, y, z),
            (int(config.lanes_n), int(config.lanes_m), 1) if config.is_strided else (config.threads, 1, 1),
            minimum_blocks=self.min_blocks_per_sm,
            workspace=self.workspace,
            reasons=(self._reason(),),
            cluster=config.split_k if config.uses_cluster else 1,
        )

    def _computation(self, pipelines: list[OperandPipeline], epilogue: Epilogue) -> tuple[Section, ...]:
        accumulators = epilogue.accumulators
        main_loop = self._main_loop(pipelines, accumulators)
        return Section("accumulators", accumulators.declarations), *main_loop.sections(), *self._epilogue(epilogue)

    # Overridden by split-K, stream-K and the strided layout

    template = "gemm"
    workspace: tuple[Array, ...] = ()

    def _main_loop(self, pipelines: list[OperandPipeline], accumulators: Accumulators) -> MainLoop:
        main_loop = Multistage if self.config.is_multistage else SingleStage
        # A range of k-tiles has the zeros of the K residue already: a part of K, and one that conditions bound.
        is_in_k_tiles = self.config.splits_tiles or self.contraction.conditions
        k_padded = self.k_extent if is_in_k_tiles else self.k_extent + accumulators.thread.k_residue
        return main_loop(pipelines, accumulators, self.k_extent, k_padded)

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        return make_grid(counts, self.lowering, self.request.target)

    def _k_offset(self, nodes: list[Node]) -> Integer:
        """The first k of the block's range; appends its definition to `nodes`."""
        return integer(0)

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        return epilogue.sections()

    def _declarations(self, tiles: tuple[Array, ...]) -> tuple[Node, ...]:
        contraction, config = self.contraction, self.config
        stages = f"circular buffer of {config.stages} stages" if config.is_multistage else "a single stage"
        layout = f"[{contraction.k.name}][{contraction.m.name} or {contraction.n.name}]"
        if config.uses_tensor_cores:
            layout = "tiles in the layout of their operands"
        elif config.is_multistage:
            layout = f"[stage]{layout}"
        return (Comment(f"{stages}, {layout}"), *map(Declare, tiles))

    def _grid_counts(self) -> tuple[Integer, Integer]:
        """Block tiles along N and along M, with the names of their sizes."""
        tiles_n = ceil_div(self.extents[self.contraction.n.name], self.config.block_n)
        tiles_m = ceil_div(self.extents[self.contraction.m.name], self.config.block_m)
        raster = self.config.raster
        return (tiles_n * raster, FloorDiv(tiles_m, integer(raster))) if raster > 1 else (tiles_n, tiles_m)

    def _reason(self) -> str:
        config = self.config
        stages = f"{config.stages} stages" if config.is_multistage else "1 stage"
        slices = f", {config.sliced_k} k slices" if config.sliced_k > 1 else ""
        stores = ", stores through shared memory" if config.stores == Stores.SHARED else ""
        return (
            f"GEMM: block tile {config.block_m} x {config.block_n} x {config.block_k}, thread tile {config.thread_m} x "
            f"{config.thread_n}, {config.threads} threads, {stages}{slices}{stores}"
        )

    def _named(self, name_hint: str, definition: Integer, nodes: list[Node], within: Range | None = None) -> Integer:
        """An index, `within` a range that may be narrower than its definition shows; appends it to `nodes`."""
        return append_definition(name_hint, definition, nodes, self.lowering, within)

    def _with_named_sizes(self, config: TileConfig) -> TileConfig:
        """The config with names in C for the sizes of its tiles."""
        named = replace(
            config,
            block_m=self.sizes.named("BM", config.block_m),
            block_n=self.sizes.named("BN", config.block_n),
            block_k=self.sizes.named("BK", config.block_k),
            stages=self.sizes.named("STAGES", config.stages) if config.is_multistage else 1,
        )
        if not config.is_scalar:
            thread_m, thread_n = self.sizes.named("TM", config.thread_m), self.sizes.named("TN", config.thread_n)
            named = replace(named, thread_m=thread_m, thread_n=thread_n)
        return replace(named, lanes_m=named.block_m // named.thread_m) if config.is_strided else named

    def _coordinates(self, blocks: Blocks) -> tuple[tuple[Section, ...], ThreadCoordinates]:
        """Index definitions before the main loop, and the thread's coordinates."""
        tile_definitions: list[Node] = []
        k_offset = self._k_offset(tile_definitions)
        tile_origin, k_residue = self._tile_coordinates(blocks, tile_definitions)
        thread_definitions, thread = self._thread_coordinates(tile_origin, k_residue, k_offset)
        if self.contraction.conditions:
            thread = self._bounded(thread, tile_definitions)
        tile_coordinates = Section("tile_coordinates", tuple(tile_definitions))
        return (tile_coordinates, Section("thread_coordinates", thread_definitions)), thread

    def _bounded(self, thread: ThreadCoordinates, nodes: list[Node]) -> ThreadCoordinates:
        """The coordinates with a range of k-tiles that the sum's conditions bound; appends it to `nodes`."""
        block_k, residue = self.config.block_k, thread.k_residue
        start, stop = thread.k_bounds.k_range(self.k_extent, residue)
        k_offset = (start + residue).expand()
        nodes.append(Comment("the k-tiles with an unmasked term"))
        if k_offset != 0:
            k_offset = self._named("k_offset", k_offset, nodes)
        self.k_extent = self._named("k_length", ceil_div(stop + residue, block_k) * integer(block_k) - k_offset, nodes)
        return replace(thread, k_offset=k_offset)

    def _tile_coordinates(self, blocks: Blocks, nodes: list[Node]) -> tuple[dict[str, Integer], Integer]:
        """The block tile's origin and its K residue; appends their definitions to `nodes`."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        x, y, *batch_coordinates = blocks.coordinates
        for index, coordinate in zip(contraction.batch, batch_coordinates, strict=True):
            nodes.append(define_index(index.name, coordinate, self.extents[index.name], lowering))
        if config.raster > 1:
            nodes.append(Comment(f"raster: {config.raster} rows of tiles at a time, column by column"))
            y, x = y * config.raster + Mod(x, integer(config.raster)), FloorDiv(x, integer(config.raster))
        elif contraction.conditions:
            y, x = self._longest_first(y, x, nodes)
        if any(self.shifted.values()):
            nodes.append(Comment("tiles at the edge are shifted inside and overlap others: they need no bounds checks"))
        origin = {}
        for index, tile, size in ((contraction.m, y, config.block_m), (contraction.n, x, config.block_n)):
            offset = tile * integer(size)
            if self.shifted.get(index.name):
                offset = Minimum(offset, self.extents[index.name] - integer(size))
            origin[index.name] = self._named(f"{index.name}0", offset, nodes)
        return origin, self._k_residue(nodes)

    def _longest_first(self, y: Integer, x: Integer, nodes: list[Node]) -> tuple[Integer, Integer]:
        """The tile's row and column, reversed where its range of k grows with them, so that no long one begins last."""
        contraction, context = self.contraction, self.request.context
        counts = self._grid_counts()[::-1]
        tiles = []
        for index, tile, count in zip((contraction.m, contraction.n), (y, x), counts, strict=True):
            is_known = context.static(self.sizes.unnamed(count)) is not None
            is_reversed = is_known and grows_with(self.request, contraction.conditions, contraction.k.name, index.name)
            tiles.append(count - 1 - tile if is_reversed else tile)
        if tiles != [y, x]:
            nodes.append(Comment("from the tiles with the longest ranges of k on"))
        return tiles[0], tiles[1]

    def _thread_coordinates(
        self, tile_origin: dict[str, Integer], k_residue: Integer, k_offset: Integer
    ) -> tuple[tuple[Node, ...], ThreadCoordinates]:
        """Thread, sliced-K group, warp and lane, and the thread tile's offset in the block tile."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        nodes: list[Node] = []
        lowering.ranges[symbol("threadIdx.x")] = (0, config.threads - 1)

        named = partial(self._named, nodes=nodes)
        thread = named("thread", symbol("threadIdx.x"))
        lane = named("lane", Mod(thread, integer(WARP)))
        k_slice: Integer = integer(0)
        thread_in_slice = thread
        if config.sliced_k > 1:
            pipeline = "" if config.copy_groups == 1 else ", with copies and barriers of its own"
            name = contraction.k.name
            text = f"sliced-K: each warp group multiplies {config.warp_k} of the {config.block_k} {name} of a tile"
            nodes.append(Comment(text + pipeline))
            slice_threads = integer(WARP * config.warps_per_slice)
            k_slice = named("k_slice", FloorDiv(thread, slice_threads))
            thread_in_slice = lane
            if config.warps_per_slice > 1:
                thread_in_slice = named("thread_in_slice", Mod(thread, slice_threads))
        warp = named("warp", FloorDiv(thread_in_slice, integer(WARP))) if config.warps_per_slice > 1 else integer(0)
        layout = "as in MMA accumulators" if config.uses_tensor_cores else "interleaved so that lane pairs broadcast"
        text = f"warp tile {config.warp_m} x {config.warp_n}, lanes {config.lanes_m} x {config.lanes_n} {layout}"
        nodes.append(Comment(text))
        warp_m, warp_n = FloorDiv(warp, integer(config.warps_n)), Mod(warp, integer(config.warps_n))
        if config.warps_m == 1:
            warp_m, warp_n = integer(0), warp
        lane_m, lane_n = map(named, ("lane_m", "lane_n"), self._lane_layout(lane))
        width_m, width_n = self.fragment_widths
        warp_tile_m = integer(self.sizes.named("WM", config.warp_m))
        warp_tile_n = integer(self.sizes.named("WN", config.warp_n))
        warp_m, warp_n = warp_m * warp_tile_m, warp_n * warp_tile_n
        if config.uses_tensor_cores:  # for the fragments as well
            warp_m = named("warp_m", warp_m) if config.warps_m > 1 else warp_m
            warp_n = named("warp_n", warp_n) if config.warps_n > 1 else warp_n
        thread_m = named("thread_m", warp_m + lane_m * width_m)
        thread_n = named("thread_n", warp_n + lane_n * width_n)
        b_fragment_n = thread_n
        if self._loads_elements_of_b():
            b_fragment_n = named("b_frag_n", warp_n + lane_m)
        coordinates = self.thread_at(
            k_residue=k_residue,
            k_offset=k_offset,
            index=thread,
            k_slice=k_slice,
            copy_thread=thread_in_slice if config.copy_groups > 1 else thread,
            tile_origin=tile_origin,
            m_in_tile=thread_m,
            n_in_tile=thread_n,
            lane_m=lane_m,
            lane_n=lane_n,
            lane=lane,
            warp_tile=(warp_m, warp_n),
            b_fragment_n=b_fragment_n,
        )
        return tuple(nodes), coordinates

    def _loads_elements_of_b(self) -> bool:
        """Whether lanes load single elements of B's fragments for tensor cores."""
        mma, b_tile = self.config.mma, problem_of(self.contraction).operands[-1]
        is_k_major = b_tile.is_tile_k_major(self.config)
        return mma is not None and not mma.loads_matrices(is_a=False, is_k_major=is_k_major)

    def _k_residue(self, nodes: list[Node]) -> Integer:
        """Elements by which the first k-tile is short of BK: zero-filled, so that all other k-tiles are full. In the
        strided layout it is the last k-tile that is partial."""
        name, block_k, extent = self.contraction.k.name, self.config.block_k, self.extents[self.contraction.k.name]
        if self.exact[name] or self.config.is_strided:
            return integer(0)
        nodes.append(Comment(f"the first k-tile begins at {name} = -k_residue, so that all others are full"))
        static_extent = self.request.context.static(extent)
        if static_extent is not None:
            residue = define_constant("k_residue", -static_extent % block_k, self.lowering)
            nodes.append(residue)
            return residue.index.symbol
        padded = ceil_div(extent, block_k) * integer(block_k)
        return self._named("k_residue", padded - extent, nodes, (0, int(block_k) - 1))

    def _lane_layout(self, lane: Integer) -> tuple[Integer, Integer]:
        """The lane's coordinates in its warp tile. Lanes i and i ^ 1 differ along the shorter side: vector loads of the
        longer one are the same address for both (broadcast), and those of the shorter for i and i ^ 2."""
        lanes_m, lanes_n = self.config.lanes_m, self.config.lanes_n
        if self.config.uses_tensor_cores:
            return FloorDiv(lane, integer(lanes_n)), Mod(lane, integer(lanes_n))
        short, long = min(lanes_m, lanes_n), max(lanes_m, lanes_n)
        along_long = Mod(FloorDiv(lane, integer(2)), integer(long))
        along_short: Integer = Mod(lane, integer(2))
        if short > 2:
            along_short = along_short + FloorDiv(lane, integer(2 * long)) * 2
        return (along_short, along_long) if lanes_m == short else (along_long, along_short)

    def _may_shift(self) -> bool:
        """Whether two blocks may store the same output: no statement reads or accumulates what is stored, and both have
        the sums in one order. A condition's ranges of k are those of tiles at multiples of their size."""
        request, config = self.request, self.config
        written = {s.target for s in request.group.statements}
        written -= {a.name for a in request.context.spec.arrays if a.role == "temporary"} - set(request.stored)
        accumulates = any(s.accumulate for s in request.group.statements)
        depends = accumulates or any(r.array in written for r in request.reads())
        return not (depends or config.is_strided or config.stream_k or self.contraction.conditions)
