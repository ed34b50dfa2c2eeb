"""The kernel of a product on CUDA cores: a ring of stages in shared memory, outer products in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import WARP, Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.copy.k_major import ring_of
from cugen.families.gemm.copy.pipeline import Ring, declare_tiles
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.main_loop import Walk
from cugen.families.gemm.problem import groups
from cugen.families.gemm.sliced_k import PartedResults
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Declare, Define, Index, Node
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer, symbol


class GemmKernel:
    """The kernel of one product, part by part."""

    def __init__(self, found: Contraction, shape: Shape, why: str = "") -> None:
        self.found, self.shape, self.why = found, shape, why
        self.request = found.request
        self.lowering: Lowering = new_lowering(found.request)
        symbols = self.lowering.symbols
        indices = (found.m, found.n, found.k, *found.batch)
        self.extents = {index.name: to_integer(index.extent, symbols) for index in indices}
        sizes = {found.m.name: shape.rows, found.n.name: shape.columns, found.k.name: shape.step}
        self.exact = {n: divides(size, self.extents[n], found.request.context) for n, size in sizes.items()}
        self.groups = groups(found, shape)
        # The last tile of a row or column reaches back over its neighbour, and no copy needs to ask where the edge is.
        self.shifted = {
            name: not self.exact[name] and bounds(self.extents[name], self.lowering.ranges)[0] >= sizes[name]
            for name in ((found.m.name, found.n.name) if _may_repeat(found) else ())
        }
        self.exact.update({name: True for name, shifted in self.shifted.items() if shifted})
        self.blocks = shape.blocks  # that are to fit a multiprocessor
        self.depth = self.extents[found.k.name]  # how much of the sum a block walks

    def kernel(self) -> Kernel:
        found, shape, lowering = self.found, self.shape, self.lowering
        counts = [*self._grid_counts(), *(self.extents[index.name] for index in found.batch)]
        blocks = self._lay(counts)
        tiles = declare_tiles(found, shape, lowering)
        kind = PartedResults if shape.leaves_sums else Results
        results = kind(found, shape, lowering, self.extents, self.exact, self.groups)
        indices, place = self._indices(blocks)
        rings = [ring_of(place, operand, tile) for operand, tile in zip(found.operands, tiles, strict=True)]
        indices += tuple(node for ring in rings for node in ring.places())
        declarations = (*self._declarations(tiles), *results.declarations())
        parts = (("tiles", declarations), ("indices", indices), *self._work(place, rings, results))
        alignments: dict[str, int] = {}
        for name, size in (*(a for ring in rings for a in ring.alignments()), *results.alignments()):
            alignments[name] = max(alignments.get(name, 0), size)
        arrays = self.request.context.spec.arrays
        kernel = assemble(
            self.request,
            lowering,
            "gemm",
            parts,
            blocks.grid,
            (shape.threads, 1, 1),
            minimum_blocks=self.blocks,
            alignments=tuple((a.name, alignments[a.name]) for a in arrays if a.name in alignments),
            workspace=self.workspace,
        )
        return replace(kernel, reasons=self._reasons())

    def _work(self, place: Place, rings: list[Ring], results: Results) -> tuple[tuple[str, tuple[Node, ...]], ...]:
        """A tile's sum and its results, in parts."""
        sums = self._declare_sums()
        walk = Walk(place, rings, sums, self.groups, self.depth, self._length(place))
        return (
            ("sums", (Declare(sums, zeroed=True),)),
            ("first", walk.first_stages()),
            ("walk", walk.steps()),
            ("results", self._results(results, sums, place)),
        )

    # What is different where several blocks share a tile

    workspace: tuple[Array, ...] = ()

    def _lay(self, counts: Sequence[Integer]) -> Blocks:
        return lay_blocks(counts, self.lowering, self.request.target)

    def _begin(self, nodes: list[Node]) -> Integer:
        """Where the block's part of the sum begins; `nodes` take what must be known before all else."""
        return integer(0)

    def _length(self, place: Place) -> Integer:
        """How much of the sum is walked at a time, with what fills up the first step."""
        return self.depth + place.lead

    def _results(self, results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
        return results.nodes(sums, place)

    def _declarations(self, tiles: tuple[Array, ...]) -> tuple[Node, ...]:
        how = f"in which {self.found.k.name} is slow: k-major"
        if self.shape.is_on_tensor_cores:
            how = "of tiles that lie as the operands do"
        text = f"a ring of {self.shape.stages} stages, {how}"
        return (Comment(text), *(Declare(tile) for tile in tiles))

    def _grid_counts(self) -> tuple[Integer, Integer]:
        across = ceil_div(self.extents[self.found.n.name], self.shape.columns)
        down = ceil_div(self.extents[self.found.m.name], self.shape.rows)
        raster = self.shape.raster
        return (across * raster, FloorDiv(down, integer(raster))) if raster > 1 else (across, down)

    def _reasons(self) -> tuple[str, ...]:
        found, shape = self.found, self.shape
        slices = f", in {shape.slices} slices of a step" if shape.slices > 1 else ""
        return (
            f"a product: {shape.rows} x {shape.columns} of the output in each block of {shape.threads} threads, "
            f"{shape.thread_rows} x {shape.thread_columns} in each thread, {shape.stages} stages of {shape.step} of "
            f"{found.k.name}{slices}",
            *((self.why,) if self.why else ()),
        )

    def _known(self, wish: str, definition: Integer, low: int, high: int) -> Define:
        """A named index of which more is known than its definition shows."""
        index = Index(self.lowering.names.allocate(wish), definition, (low, high))
        self.lowering.ranges[index.symbol] = index.range
        return Define(index)

    # Where the block and the thread stand

    def _indices(self, blocks: Blocks) -> tuple[tuple[Node, ...], Place]:
        """What stands in front of the sum, and where the thread stands by it."""
        of_tile: list[Node] = []
        begin = self._begin(of_tile)
        origin, lead = self._origin(blocks, of_tile)
        of_thread, place = self._thread_indices(origin, lead, begin)
        return (*of_tile, *of_thread), place

    def _origin(self, blocks: Blocks, nodes: list[Node]) -> tuple[dict[str, Integer], Integer]:
        """The block's first row and column, and its lead; `nodes` take their definitions."""
        found, shape, lowering = self.found, self.shape, self.lowering
        x, y, *places = blocks.places
        for index, place in zip(found.batch, places, strict=True):
            node = define(index.name, place, lowering)
            nodes.append(node)
            limit(node.index, self.extents[index.name], lowering)
            lowering.symbols[index.name] = node.index.symbol
        if shape.raster > 1:
            nodes.append(Comment(f"{shape.raster} rows of tiles are walked column by column"))
            y, x = y * shape.raster + Mod(x, integer(shape.raster)), FloorDiv(x, integer(shape.raster))
        origin = {}
        for index, first, size in (
            (found.m, y * shape.rows, shape.rows),
            (found.n, x * shape.columns, shape.columns),
        ):
            node = define(f"{index.name}0", self._inward(index.name, first, size), lowering)
            nodes.append(node)
            origin[index.name] = node.index.symbol
        return origin, self._lead(nodes)

    def _thread_indices(
        self, origin: dict[str, Integer], lead: Integer, begin: Integer
    ) -> tuple[tuple[Node, ...], Place]:
        found, shape, lowering = self.found, self.shape, self.lowering
        nodes: list[Node] = []
        lowering.ranges[symbol("threadIdx.x")] = (0, shape.threads - 1)

        def name(wish: str, definition: Integer) -> Integer:
            node = define(wish, definition, lowering)
            nodes.append(node)
            return node.index.symbol

        thread = name("thread", symbol("threadIdx.x"))
        lane = name("lane", Mod(thread, integer(WARP)))
        part: Integer = integer(0)
        member = thread
        if shape.slices > 1:
            alone = "" if shape.teams == 1 else "; it copies these itself, and waits for no other"
            text = f"each of {shape.slices} slices takes {shape.own_step} of every {shape.step} products{alone}"
            nodes.append(Comment(text))
            size = integer(WARP * shape.warps)
            part = name("slice", FloorDiv(thread, size))
            member = name("thread_in_slice", Mod(thread, size)) if shape.warps > 1 else lane
        warp = name("warp", FloorDiv(member, integer(WARP))) if shape.warps > 1 else integer(0)
        nodes.append(Comment(f"the warp's share is {shape.warp_rows} x {shape.warp_columns}"))
        lane_row, lane_column = self._lane_places(lane)
        down, across = FloorDiv(warp, integer(shape.warps_across)), Mod(warp, integer(shape.warps_across))
        if shape.warps_down == 1:
            down, across = integer(0), warp
        order = "as tensor cores have them" if shape.is_on_tensor_cores else "neighbours so that pairs read alike"
        nodes.append(Comment(f"its lanes lie {shape.lanes} x {shape.lane_columns}, {order}"))
        lane_row, lane_column = name("lane_row", lane_row), name("lane_column", lane_column)
        row = name("row", down * shape.warp_rows + lane_row * self.groups[0])
        column = name("column", across * shape.warp_columns + lane_column * self.groups[1])
        read_column = column
        if shape.is_on_tensor_cores:
            read_column = name(f"read_{found.n.name}", across * shape.warp_columns + lane_row)
        place = Place(
            found,
            shape,
            lowering,
            self.extents,
            self.exact,
            lead,
            begin,
            thread,
            part,
            member if shape.teams > 1 else thread,
            origin,
            row,
            column,
            lane_row,
            lane_column,
            read_column,
        )
        return tuple(nodes), place

    def _inward(self, name: str, first: Integer, size: int) -> Integer:
        return Minimum(first, self.extents[name] - size) if self.shifted.get(name) else first

    def _lead(self, nodes: list[Node]) -> Integer:
        """How many products short of a step the first one is, which is filled up with zeros: so all others are full."""
        name, step = self.found.k.name, self.shape.step
        extent = self.extents[name]
        if self.exact[name]:
            return integer(0)
        known = self.request.context.static(extent)
        if known is not None:
            return integer(-known % step)
        node = define("lead", ceil_div(extent, step) * step - extent, self.lowering, below=integer(step))
        self.lowering.ranges[node.index.symbol] = (0, step - 1)
        nodes.append(replace(node, index=replace(node.index, range=(0, step - 1))))
        return node.index.symbol

    def _lane_places(self, lane: Integer) -> tuple[Integer, Integer]:
        """The lane's place in its warp's share. Lanes i and i ^ 1 differ along the shorter side, so that a wide read
        of the longer one is the same for both, and one of the shorter is the same for i and i ^ 2."""
        down, across = self.shape.lanes, self.shape.lane_columns
        if self.shape.is_on_tensor_cores:
            return FloorDiv(lane, integer(across)), Mod(lane, integer(across))
        short, long = min(down, across), max(down, across)
        along = Mod(FloorDiv(lane, integer(2)), integer(long))
        other: Integer = Mod(lane, integer(2))
        if short > 2:
            other = other + FloorDiv(lane, integer(2 * long)) * 2
        return (other, along) if down == short else (along, other)

    # The sums

    def _declare_sums(self) -> Array:
        shape = self.shape
        extents = (integer(shape.thread_rows), integer(shape.thread_columns))
        name = self.lowering.names.allocate("sum")
        dtype = self.found.sums[0].dtype
        return Array("", name, dtype, extents, (extents[1], integer(1)), "register", flat=False)


def _may_repeat(found: Contraction) -> bool:
    """Whether two blocks may compute the same output: nothing that is stored is read."""
    request = found.request
    written = {s.target for s in request.group.statements}
    written -= {a.name for a in request.context.spec.arrays if a.role == "temporary"} - set(request.stored)
    return not any(s.accumulate for s in request.group.statements) and not any(
        read.array in written for read in request.reads()
    )
