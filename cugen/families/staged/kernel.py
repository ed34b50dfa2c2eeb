"""The kernel of a staged computation: the block fills its tiles, then each thread computes its outputs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from cugen.families.staged.config import StagedConfig
from cugen.families.staged.copies import StagedTile, fill_tiles, make_tile, run_width
from cugen.families.staged.lowering import StagedLowering
from cugen.families.staged.tile import Tile
from cugen.families.staged.tile_walk import TileWalk
from cugen.pieces.blocks import define_index, make_grid, thread
from cugen.pieces.grid import AXES, divides
from cugen.pieces.kernels import assemble, new_lowering, tile_bytes
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.sections import guarded
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, Comparison, Declare, Guard, Node, ReturnUnless, Section
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, ceil_div, integer


class StagedBuilder:
    """Builds the kernel of one group of statements."""

    def __init__(self, request: Request, config: StagedConfig) -> None:
        self.request, self.config, self.context = request, config, request.context
        base = new_lowering(request)
        self.lowering = StagedLowering(base.names, base.arrays, base.symbols, base.ranges)
        self.extents = list(map(self.context.extent, config.order))
        self.dynamic_bytes = 0  # of the tiles made so far

    def kernel(self) -> Kernel:
        config, lowering = self.config, self.lowering
        spans = [config.span(index.name) for index in config.order]
        counts = [ceil_div(extent, span) for extent, span in zip(self.extents, spans, strict=True)]
        blocks = make_grid(counts, lowering, self.request.target)
        coordinates = dict(zip((index.name for index in config.order), blocks.coordinates, strict=True))
        if config.walk is None:
            origins = Scope()
            declared, copies, stored = self.tiles(config.tiles, coordinates, origins)
            first = Section("origins", tuple(origins.nodes))
            sections = (declared, first, copies, stored, *self._outputs(coordinates))
        else:
            sections = TileWalk(self, config.walk).sections(coordinates)
        return assemble(
            self.request, lowering, "staged", sections, blocks.grid, config.block, reasons=(self._reason(),)
        )

    def tiles(
        self,
        tiles: Sequence[Tile],
        blocks: Mapping[str, Integer],
        origins: Scope,
        known: Mapping[sympy.Symbol, int] | None = None,
    ) -> tuple[Section, ...]:
        """The declarations of tiles, the copies by all threads of the block, and the barrier after them; the first
        elements of the tiles are defined in `origins`.

        `blocks`: the block's coordinate along each index, in spans of the tiles; `known`: divisors of their symbols,
        where tiles are copied by vectors."""
        lowering = self.lowering
        made: list[StagedTile] = []
        for tile in tiles:
            memory = self.context.spec.array(tile.array).memory
            staged = make_tile(lowering, tile, memory, blocks, origins)
            if memory.dynamic:
                staged = staged.placed_at(self.dynamic_bytes)
                self.dynamic_bytes += (tile_bytes(staged.array, lowering.ranges) + 15) // 16 * 16
            made.append(staged)
            lowering.staged |= dict.fromkeys(tile.reads, staged)

        def width_of(staged: StagedTile) -> int:
            return 1 if known is None else run_width(staged, self.context, known)

        copies = fill_tiles(lowering, made, self.config.block, width_of)
        return (
            Section("tiles", tuple(Declare(tile.array) for tile in made)),
            Section("copies", copies),
            Section("tiles_stored", (Barrier(),) if made else ()),
        )

    def _outputs(self, blocks: Mapping[str, Integer]) -> tuple[Section, ...]:
        """The outputs of a thread, in a loop along each index of which it has several."""
        nodes: list[Node] = []
        terms: list[Comparison] = []
        several: list[tuple[str, Integer, Integer, int]] = []  # index, its extent, the thread's first output, count
        lowering, config = self.lowering, self.config
        for axis, (index, extent) in enumerate(zip(config.order, self.extents, strict=True)):
            name, count = index.name, config.outputs.get(index.name, 1)
            size = config.threads.get(name, 1)
            local = thread(AXES[axis], size, lowering) if axis < len(AXES) else integer(0)
            first = blocks[name] * config.span(name) + local
            lowering.local[name] = local
            if count > 1:
                several.insert(0, (name, extent, first, count))
                continue
            below = ceil_div(extent, config.span(name)) * config.span(name)
            node = define_index(name, first, extent, lowering, below=below)
            nodes.insert(0, node)
            if not divides(config.span(name), extent, self.context):
                terms.insert(0, Comparison(node.index.symbol, "<", extent))
        returns = (ReturnUnless(Guard(tuple(terms))),) if terms else ()
        return (Section("indices", (*nodes, *returns)), *self._each(several))

    def _each(self, several: list[tuple[str, Integer, Integer, int]]) -> tuple[Section, ...]:
        """The loops over the thread's outputs, the slowest index outermost; in them the statements."""
        lowering = self.lowering
        if not several:
            scope = Scope()
            lower_statements(self.request, lowering, scope)
            return (Section("compute", tuple(scope.nodes)),)
        (name, extent, first, count), *inner = several
        size = self.config.threads.get(name, 1)
        counter = loop_variable(f"{name}_step", count, lowering)
        lowering.local[name] = lowering.local[name] + counter.symbol * size
        below = ceil_div(extent, self.config.span(name)) * self.config.span(name)
        output = define_index(name, first + counter.symbol * size, extent, lowering, below=below)
        is_whole = divides(self.config.span(name), extent, self.context)
        partial = () if is_whole else (Comparison(output.index.symbol, "<", extent),)
        body = guarded("if_output_in_bounds", partial, self._each(inner))
        return (Section("output_loop", (unrolled(counter, (Section("output_index", (output,)), *body)),)),)

    def _reason(self) -> str:
        tiles = []
        for tile in self.config.tiles:
            size = " x ".join(str(tile.sides[d].count) for d in tile.dimensions)
            swizzle = self.context.spec.array(tile.array).memory.swizzle and len(tile.dimensions) == 1
            identity = ", whose swizzle leaves its single row as it is" if swizzle else ""
            tiles.append(
                f"a tile of {size} of {tile.array}, each element read {tile.reuse:.1f} times by the block{identity}"
            )
        walk = self.config.walk
        return "; ".join(tiles) + ("" if walk is None else f"; {walk.step} values of {walk.index.name} at a time")
