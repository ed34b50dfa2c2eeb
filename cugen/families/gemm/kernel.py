"""The GEMM kernel: thread coordinates, prologue, main loop and epilogue of one block tile.

Split-K and stream-K derive from it; they change which tiles and which range of K a block takes, and the epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import WARP, TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.k_major import pipeline_of
from cugen.families.gemm.copy.pipeline import OperandPipeline, declare_tiles
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.main_loop import MainLoop, prologue
from cugen.families.gemm.problem import fragment_widths
from cugen.families.gemm.reduction_epilogue import ReductionEpilogue
from cugen.pieces.blocks import Blocks, define, limit, make_grid
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Declare, Define, Index, Node, Section
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer, symbol


class GemmKernel:
    """Builder of the kernel of one GEMM with one tile config; `why` is the reason for that config."""

    def __init__(self, contraction: Contraction, config: TileConfig, why: str = "") -> None:
        self.contraction, self.config, self.why = contraction, config, why
        self.request = contraction.request
        self.lowering: Lowering = new_lowering(contraction.request)
        symbols, context = self.lowering.symbols, contraction.request.context
        m, n, k = contraction.m, contraction.n, contraction.k
        self.extents = {i.name: to_integer(i.extent, symbols) for i in (m, n, k, *contraction.batch)}
        sizes = {m.name: config.block_m, n.name: config.block_n, k.name: config.block_k}
        self.exact = {name: divides(size, self.extents[name], context) for name, size in sizes.items()}
        self.fragment_widths = fragment_widths(contraction, config)
        # The last tile along M or N is shifted inward and overlaps the previous one: no copy needs a bounds check.
        self.shifted = {
            name: not self.exact[name] and bounds(self.extents[name], self.lowering.ranges)[0] >= sizes[name]
            for name in ((m.name, n.name) if _may_store_twice(contraction) else ())
        }
        self.exact.update({name: True for name, is_shifted in self.shifted.items() if is_shifted})
        self.min_blocks_per_sm = config.blocks_per_sm
        self.k_extent = self.extents[k.name]  # of the block's range

    def kernel(self) -> Kernel:
        contraction, config, lowering = self.contraction, self.config, self.lowering
        counts = [*self._grid_counts(), *(self.extents[index.name] for index in contraction.batch)]
        blocks = self._make_grid(counts)
        tiles = declare_tiles(contraction, config, lowering)
        epilogue_type = ReductionEpilogue if config.reduces_in_shared else Epilogue
        epilogue = epilogue_type(contraction, config, lowering, self.extents, self.exact, self.fragment_widths)
        coordinates, thread = self._coordinates(blocks)
        pairs = zip(contraction.operands, tiles, strict=True)
        pipelines = [pipeline_of(thread, operand, tile) for operand, tile in pairs]
        copy_coordinates = tuple(node for pipeline in pipelines for node in pipeline.definitions())
        sections = (
            Section("tiles", (*self._declarations(tiles), *epilogue.declarations())),
            *coordinates,
            Section("copy_coordinates", copy_coordinates),
            *self._computation(thread, pipelines, epilogue),
        )
        alignments: dict[str, int] = {}
        for name, size in (*(a for pipeline in pipelines for a in pipeline.alignments()), *epilogue.alignments()):
            alignments[name] = max(alignments.get(name, 0), size)
        arrays = self.request.context.spec.arrays
        kernel = assemble(
            self.request,
            lowering,
            "gemm",
            tuple((section.name, section.body) for section in sections),
            blocks.grid,
            (config.threads, 1, 1),
            minimum_blocks=self.min_blocks_per_sm,
            alignments=tuple((a.name, alignments[a.name]) for a in arrays if a.name in alignments),
            workspace=self.workspace,
        )
        return replace(kernel, reasons=self._reasons())

    def _computation(
        self, thread: ThreadCoordinates, pipelines: list[OperandPipeline], epilogue: Epilogue
    ) -> tuple[Section, ...]:
        """The computation of the block's output tile."""
        accumulators = self._declare_accumulators()
        k_padded = self._k_padded(thread)
        first_copies = prologue(thread, pipelines, k_padded)
        main_loop = MainLoop(thread, pipelines, accumulators, self.fragment_widths, self.k_extent, k_padded)
        return (
            Section("accumulators", (Declare(accumulators, zeroed=True),)),
            *first_copies,
            *main_loop.sections(),
            *self._epilogue(epilogue, accumulators, thread),
        )

    # Overridden by split-K and stream-K

    workspace: tuple[Array, ...] = ()

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        return make_grid(counts, self.lowering, self.request.target)

    def _k_offset(self, nodes: list[Node]) -> Integer:
        """The first k of the block's range; appends its definition to `nodes`."""
        return integer(0)

    def _k_padded(self, thread: ThreadCoordinates) -> Integer:
        """The length of the block's range, with the zeros of the K residue."""
        return self.k_extent + thread.k_residue

    def _epilogue(self, epilogue: Epilogue, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        return epilogue.sections(accumulators, thread)

    # Declarations and launch

    def _declarations(self, tiles: tuple[Array, ...]) -> tuple[Node, ...]:
        contraction = self.contraction
        layout = f"[stage][{contraction.k.name}][{contraction.m.name} or {contraction.n.name}]"
        if self.config.uses_tensor_cores:
            layout = "tiles in the layout of their operands"
        text = f"circular buffer of {self.config.stages} stages, {layout}"
        return (Comment(text), *(Declare(tile) for tile in tiles))

    def _declare_accumulators(self) -> Array:
        extents = (integer(self.config.thread_m), integer(self.config.thread_n))
        name = self.lowering.names.allocate("acc")
        dtype = self.contraction.sums[0].dtype
        return Array("", name, dtype, extents, (extents[1], integer(1)), "register", flat=False)

    def _grid_counts(self) -> tuple[Integer, Integer]:
        tiles_n = ceil_div(self.extents[self.contraction.n.name], self.config.block_n)
        tiles_m = ceil_div(self.extents[self.contraction.m.name], self.config.block_m)
        raster = self.config.raster
        return (tiles_n * raster, FloorDiv(tiles_m, integer(raster))) if raster > 1 else (tiles_n, tiles_m)

    def _reasons(self) -> tuple[str, ...]:
        config = self.config
        slices = f", {config.sliced_k} k slices" if config.sliced_k > 1 else ""
        return (
            f"GEMM: block tile {config.block_m} x {config.block_n} x {config.block_k}, thread tile {config.thread_m} x "
            f"{config.thread_n}, {config.threads} threads, {config.stages} stages{slices}",
            *((self.why,) if self.why else ()),
        )

    def _define_with_range(self, name_hint: str, definition: Integer, low: int, high: int) -> Define:
        """An index whose range is narrower than its definition shows."""
        index = Index(self.lowering.names.allocate(name_hint), definition, (low, high))
        self.lowering.ranges[index.symbol] = index.range
        return Define(index)

    # Coordinates

    def _coordinates(self, blocks: Blocks) -> tuple[tuple[Section, ...], ThreadCoordinates]:
        """Index definitions before the main loop, and the thread's coordinates."""
        tile_definitions: list[Node] = []
        k_offset = self._k_offset(tile_definitions)
        tile_origin, k_residue = self._tile_coordinates(blocks, tile_definitions)
        thread_definitions, thread = self._thread_coordinates(tile_origin, k_residue, k_offset)
        sections = (
            Section("tile_coordinates", tuple(tile_definitions)),
            Section("thread_coordinates", thread_definitions),
        )
        return sections, thread

    def _tile_coordinates(self, blocks: Blocks, nodes: list[Node]) -> tuple[dict[str, Integer], Integer]:
        """The block tile's origin and its K residue; appends their definitions to `nodes`."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        x, y, *batch_coordinates = blocks.coordinates
        for index, coordinate in zip(contraction.batch, batch_coordinates, strict=True):
            node = define(index.name, coordinate, lowering)
            nodes.append(node)
            limit(node.index, self.extents[index.name], lowering)
            lowering.symbols[index.name] = node.index.symbol
        if config.raster > 1:
            nodes.append(Comment(f"raster: {config.raster} rows of tiles at a time, column by column"))
            y, x = y * config.raster + Mod(x, integer(config.raster)), FloorDiv(x, integer(config.raster))
        origin = {}
        for index, offset, size in (
            (contraction.m, y * config.block_m, config.block_m),
            (contraction.n, x * config.block_n, config.block_n),
        ):
            node = define(f"{index.name}0", self._shifted_inward(index.name, offset, size), lowering)
            nodes.append(node)
            origin[index.name] = node.index.symbol
        return origin, self._k_residue(nodes)

    def _thread_coordinates(
        self, tile_origin: dict[str, Integer], k_residue: Integer, k_offset: Integer
    ) -> tuple[tuple[Node, ...], ThreadCoordinates]:
        """Thread, sliced-K group, warp and lane, and the thread tile's offset in the block tile."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        nodes: list[Node] = []
        lowering.ranges[symbol("threadIdx.x")] = (0, config.threads - 1)

        def named(name_hint: str, definition: Integer) -> Integer:
            node = define(name_hint, definition, lowering)
            nodes.append(node)
            return node.index.symbol

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
        warp: Integer = integer(0)
        if config.warps_per_slice > 1:
            warp = named("warp", FloorDiv(thread_in_slice, integer(WARP)))
        layout = "as in MMA accumulators" if config.uses_tensor_cores else "interleaved so that lane pairs broadcast"
        nodes.append(
            Comment(f"warp tile {config.warp_m} x {config.warp_n}, lanes {config.lanes_m} x {config.lanes_n} {layout}")
        )
        warp_m, warp_n = FloorDiv(warp, integer(config.warps_n)), Mod(warp, integer(config.warps_n))
        if config.warps_m == 1:
            warp_m, warp_n = integer(0), warp
        lane_m, lane_n = self._lane_layout(lane)
        lane_m, lane_n = named("lane_m", lane_m), named("lane_n", lane_n)
        width_m, width_n = self.fragment_widths
        thread_m = named("thread_m", warp_m * config.warp_m + lane_m * width_m)
        thread_n = named("thread_n", warp_n * config.warp_n + lane_n * width_n)
        b_fragment_n = thread_n
        if config.uses_tensor_cores:
            b_fragment_n = named("b_frag_n", warp_n * config.warp_n + lane_m)
        coordinates = ThreadCoordinates(
            contraction=contraction,
            config=config,
            lowering=lowering,
            extents=self.extents,
            exact=self.exact,
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
            b_fragment_n=b_fragment_n,
        )
        return tuple(nodes), coordinates

    def _shifted_inward(self, name: str, offset: Integer, size: int) -> Integer:
        return Minimum(offset, self.extents[name] - size) if self.shifted.get(name) else offset

    def _k_residue(self, nodes: list[Node]) -> Integer:
        """Elements by which the first k-tile is short of BK: zero-filled, so that all other k-tiles are full."""
        name, block_k = self.contraction.k.name, self.config.block_k
        extent = self.extents[name]
        if self.exact[name]:
            return integer(0)
        static_extent = self.request.context.static(extent)
        if static_extent is not None:
            return integer(-static_extent % block_k)
        padded = ceil_div(extent, block_k) * block_k
        node = define("k_residue", padded - extent, self.lowering, below=integer(block_k))
        self.lowering.ranges[node.index.symbol] = (0, block_k - 1)
        nodes.append(replace(node, index=replace(node.index, range=(0, block_k - 1))))
        return node.index.symbol

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


def _may_store_twice(contraction: Contraction) -> bool:
    """Whether two blocks may store the same output: no statement reads or accumulates what is stored."""
    request = contraction.request
    written = {s.target for s in request.group.statements}
    written -= {a.name for a in request.context.spec.arrays if a.role == "temporary"} - set(request.stored)
    return not any(s.accumulate for s in request.group.statements) and not any(
        read.array in written for read in request.reads()
    )
