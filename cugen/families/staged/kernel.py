"""The kernel of a staged computation: the block fills its tiles, then each thread computes its outputs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy

from cugen.families.staged.config import StagedConfig
from cugen.families.staged.copies import StagedTile, fill_tiles, make_tile, run_width
from cugen.families.staged.lowering import StagedLowering
from cugen.families.staged.tile import Side, Tile
from cugen.families.staged.tile_walk import TileWalk
from cugen.families.staged.walk import Walk
from cugen.pieces.blocks import define_constant, define_index, make_grid, thread
from cugen.pieces.grid import AXES, divides
from cugen.pieces.kernels import assemble, new_lowering, tile_bytes
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.sections import guarded
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, Comparison, Declare, Define, Guard, Node, ReturnUnless, Section
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, Size, ceil_div, integer
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import free_symbols


class StagedBuilder:
    """Builds the kernel of one group of statements."""

    family = "staged"

    def __init__(self, request: Request, config: StagedConfig) -> None:
        self.request, self.config, self.context = request, config, request.context
        base = new_lowering(request)
        self.lowering = StagedLowering(base.names, base.arrays, base.symbols, base.ranges, filled=base.filled)
        self.extents = list(map(self.context.extent, config.order))
        self.dynamic_bytes = 0  # of the tiles made so far
        self.sizes: dict[tuple[str, int], Define] = {}  # by hints for their names
        self.spans = {index.name: config.span(index.name) for index in config.order}
        self.block = config.block

    def kernel(self) -> Kernel:
        config, lowering = self.config, self.lowering
        if config.walk is None:
            self.spans = {name: self._named(f"BLOCK_{name.upper()}", span) for name, span in self.spans.items()}
            threads = [self._threads(index.name) for index in config.order[: len(AXES)]]
            x, y, z = (*threads, *config.block[len(threads) :])
            self.block = x, y, z
        counts = [ceil_div(extent, span) for extent, span in zip(self.extents, self.spans.values(), strict=True)]
        blocks = make_grid(counts, lowering, self.request.target)
        coordinates = dict(zip((index.name for index in config.order), blocks.coordinates, strict=True))
        if config.walk is None:
            origins = Scope()
            declared, copies, stored = self.tiles(tuple(map(self._with_sizes, config.tiles)), coordinates, origins)
            first = Section("origins", tuple(origins.nodes))
            sections = (declared, first, copies, stored, *self._outputs(coordinates))
        else:
            sections = self.walk_sections(config.walk, coordinates)
        values = {node.index.symbol: node.index.definition for node in self.sizes.values()}
        x, y, z = (count.xreplace(values) for count in blocks.grid)
        used = free_symbols(dissolved(sections))
        sizes = Section("sizes", tuple(node for node in self.sizes.values() if node.index.symbol in used))
        return assemble(
            self.request, lowering, self.family, (sizes, *sections), (x, y, z), config.block, reasons=(self.reason(),)
        )

    def walk_sections(self, walk: Walk, blocks: Mapping[str, Integer]) -> tuple[Section, ...]:
        """The sections of a kernel that walks; `blocks`: the block's coordinates, by index."""
        return TileWalk(self, walk).sections(blocks)

    def _named(self, name_hint: str, value: int) -> int:
        """A size with a name in C, the same for equal sizes; 1 has none."""
        if value == 1:
            return value
        if (name_hint, value) not in self.sizes:
            self.sizes[name_hint, value] = define_constant(name_hint, value, self.lowering)
        return Size(value, self.sizes[name_hint, value].index.symbol)

    def _threads(self, name: str) -> int:
        """The threads of the block along an index."""
        if self.config.outputs.get(name, 1) == 1:
            return self.spans[name]
        return self._named(f"THREADS_{name.upper()}", self.config.threads.get(name, 1))

    def _with_sizes(self, tile: Tile) -> Tile:
        """The tile with names for the sides that move from block to block."""
        return replace(tile, sides=tuple(self._with_size(side) if side.steps else side for side in tile.sides))

    def _with_size(self, side: Side) -> Side:
        steps = []
        for name, step in side.steps:
            factor, remainder = divmod(step, int(self.spans[name]))
            steps.append((name, step if remainder else self.spans[name] * factor))
        name = side.steps[0][0].upper()
        low = side.low
        if low < 0:
            halo = self._named(f"HALO_{name}", -low)
            low = Size(low, -integer(halo))
        return Side(tuple(steps), low, self._named(f"TILE_{name}", side.count))

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

        copies = fill_tiles(lowering, made, self.block, width_of)
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
            first = blocks[name] * integer(self.spans[name]) + local
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
        threads = integer(self._threads(name))
        counter = loop_variable(f"{name}_step", count, lowering)
        lowering.local[name] = lowering.local[name] + counter.symbol * threads
        below = ceil_div(extent, self.config.span(name)) * self.config.span(name)
        output = define_index(name, first + counter.symbol * threads, extent, lowering, below=below)
        is_whole = divides(self.config.span(name), extent, self.context)
        partial = () if is_whole else (Comparison(output.index.symbol, "<", extent),)
        body = guarded("if_output_in_bounds", partial, self._each(inner))
        return (Section("output_loop", (unrolled(counter, (Section("output_index", (output,)), *body)),)),)

    def reason(self) -> str:
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
