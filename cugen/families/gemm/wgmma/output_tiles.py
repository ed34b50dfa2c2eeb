"""Which output tiles a block of a warp-specialised GEMM computes, one after the other, and over which part of K."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.named_sizes import NamedSizes
from cugen.families.gemm.problem import device_of
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.families.gemm.wgmma.operands.pixels import padded_channels, window_images
from cugen.machine.occupancy import clustered_multiprocessors
from cugen.pieces.blocks import append_definition, define, define_index, digits
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comment, Define, For, Loop, Node, Section
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer, symbol


@dataclass(frozen=True)
class KRange:
    """The part of K that a block sums in each of its output tiles: `length` terms from `offset` on, in `k_tiles`.

    `channels`: those of a tap of a window with padding, of which K is a multiple then; None without padding."""

    offset: Integer
    length: Integer
    k_tiles: Integer
    channels: Integer | None


class OutputTiles:
    """The output tiles of the launch, of which a cluster, or a single block, has one, or every so many: blocks are
    persistent then. `define` numbers them; stream-K derives from it. `extents` are those of the contraction's indices,
    of which that of K becomes a multiple of padded channels."""

    def __init__(
        self,
        contraction: Contraction,
        config: WgmmaConfig,
        lowering: Lowering,
        sizes: NamedSizes,
        extents: dict[str, Integer],
    ) -> None:
        self.contraction, self.config, self.lowering = contraction, config, lowering
        self.sizes, self.extents = sizes, extents
        self.rank: Integer = integer(0)
        self.rows = self._count(f"TILES_{contraction.side_m}", contraction.m.name, config.block_m)
        self.columns = self._count(f"TILES_{contraction.side_n}", contraction.n.name, config.block_n)
        self.channels = self._padded_channels()
        self.k_tiles = self._count("K_TILES", contraction.k.name, config.block_k)
        # The tiles of a cluster count as one.
        self.cluster_rows, self.cluster_columns = self.rows, self.columns
        if config.multicast > 1:
            self.cluster_rows = ceil_div(self.rows, config.multicast)
        if config.multicast_n > 1:
            self.cluster_columns = ceil_div(self.columns, config.multicast_n)
        batches = [extents[index.name] for index in contraction.batch]
        self.count = self.cluster_rows * self.cluster_columns * sympy.Mul(*batches)

    def _padded_channels(self) -> Integer | None:
        """The padded channels of a tap, of which the extent of K is a multiple then; None where they aren't padded."""
        padded = padded_channels(self.contraction, int(self.config.block_k))
        if padded is None:
            return None
        images, context, k = window_images(self.contraction), self.contraction.context, self.contraction.k.name
        assert images is not None
        channels = self.sizes.named("PADDED_CHANNELS", padded).expr
        self.extents[k] = self.extents[k] / context.extent(images.channels) * channels
        return channels

    def _count(self, name_hint: str, index: str, tile: int) -> Integer:
        """The tiles along an index, by a name where its extent is known and there are several."""
        count = ceil_div(self.extents[index], tile)
        known = self.contraction.context.static(self.sizes.unnamed(count))
        if known is None:
            return count
        return self.sizes.named(name_hint, known).expr if known > 1 else integer(1)

    @property
    def max_count(self) -> int:
        return bounds(self.count, self.lowering.ranges)[1]

    @property
    def sms(self) -> int:
        return device_of(self.contraction.request.target).sms

    @property
    def _clusters(self) -> int:
        """Clusters, or single blocks, that are resident at once."""
        return clustered_multiprocessors(self.sms, self.config.sharing) // self.config.sharing

    def define(self, block: BlockCoordinates) -> tuple[dict[str, Integer], tuple[Node, ...]]:
        """The origin of an output tile of a block, and its definitions, which a loop repeats if the block
        `is_persistent`."""
        self.cluster_index, self.rank = block.cluster_index, block.rank
        contraction, config = self.contraction, self.config
        nodes: list[Node] = []
        batches = [self.extents[index.name] for index in contraction.batch]
        tile, *batch = digits(self._number(), [self.cluster_rows * self.cluster_columns, *batches])
        for index, coordinate in zip(contraction.batch, batch, strict=True):
            nodes.append(define_index(index.name, coordinate, self.extents[index.name], self.lowering))
        if batch:
            tile = append_definition("tile_of_matrix", tile, nodes, self.lowering)
        row, column = self._rasterised(tile, nodes)
        if config.multicast > 1:
            row = row * config.multicast + block.rank_m
        if config.multicast_n > 1:
            column = column * config.multicast_n + block.rank_n
        m, n = contraction.m.name, contraction.n.name
        origin = {
            m: append_definition(f"{m}0", row * integer(config.block_m), nodes, self.lowering),
            n: append_definition(f"{n}0", column * integer(config.block_n), nodes, self.lowering),
        }
        self.k_range = self._define_k_range(nodes)
        return origin, tuple(nodes)

    def _rasterised(self, tile: Integer, nodes: list[Node]) -> tuple[Integer, Integer]:
        """The row and column of a tile's number: `raster` rows of tiles at a time, column by column."""
        raster, tiles_m = self.config.raster, self.cluster_rows
        if tiles_m != 1 and self.cluster_columns == 1:
            return tile, integer(0)
        if bounds(tiles_m, self.lowering.ranges)[1] <= raster:
            return Mod(tile, tiles_m), FloorDiv(tile, tiles_m)
        lines, order = ("columns", "row by row") if self.contraction.is_swapped else ("rows", "column by column")
        nodes.append(Comment(f"raster: {raster} {lines} of tiles at a time, {order}"))
        rows, per_group = integer(raster), integer(raster) * self.cluster_columns
        first_row = rows * append_definition("group", FloorDiv(tile, per_group), nodes, self.lowering)
        in_group = Mod(tile, per_group)
        known = self.contraction.context.static(self.sizes.unnamed(tiles_m))
        if known is not None and known % raster == 0:
            return first_row + Mod(tile, rows), FloorDiv(in_group, rows)
        rows = append_definition(lines, Minimum(tiles_m - first_row, rows), nodes, self.lowering)
        self.lowering.ranges[rows] = (1, int(raster))
        return first_row + Mod(in_group, rows), FloorDiv(in_group, rows)

    # Overridden by stream-K

    def _number(self) -> Integer:
        """The number of the output tile; of several of a block, in a loop over these."""
        config, lowering = self.config, self.lowering
        count = self.max_count
        clusters = min(count, self._clusters) if config.is_persistent else count
        lowering.ranges[symbol("blockIdx.x")] = (0, clusters * config.cluster - 1)
        self.is_persistent = clusters < count
        if not self.is_persistent:
            return self.cluster_index
        self.stride = self.sizes.named("CLUSTERS" if config.sharing > 1 else "BLOCKS", self._clusters)
        self.tile_index = replace(loop_variable("tile", self.count, lowering), range=(0, count - 1))
        lowering.ranges[self.tile_index.symbol] = self.tile_index.range
        before = self.tile_index.symbol - self.cluster_index
        wave = define("wave", FloorDiv(before, integer(self._clusters)), lowering)
        last = -(-count // self._clusters) - 1
        wave = replace(wave, index=replace(wave.index, range=(0, last)))
        self.wave_definition: Define = replace(wave, then=wave.index.symbol + 1)
        lowering.ranges[wave.index.symbol] = (0, last)
        return self.tile_index.symbol

    def blocks(self) -> Integer:
        """The blocks of the launch."""
        clusters = self.sizes.unnamed(self.count)
        if self.config.is_persistent:
            clusters = Minimum(clusters, integer(self._clusters))
        return clusters * self.config.cluster

    @property
    def wave(self) -> Integer | None:
        """The number of the output tile among those of the block; None if it has one only."""
        return self.wave_definition.index.symbol if self.is_persistent else None

    @property
    def k_tiles_before(self) -> Integer | None:
        """K-tiles of the block before those of the output tile; None if it has one tile only."""
        return None if self.wave is None else self.wave * self.k_range.k_tiles

    def refills(self) -> bool:
        """Whether a stage may be filled again."""
        waves = self.wave_definition.index.range[1] + 1 if self.is_persistent else 1
        k_tiles = bounds(ceil_div(self.k_range.length, self.config.block_k), self.lowering.ranges)[1]
        return bool(waves * k_tiles > self.config.stages)

    def _define_k_range(self, nodes: list[Node]) -> KRange:
        """The block's part of K: all of it, or with split-K a range of k-tiles."""
        name, size, block_k = self.contraction.k.name, self.config.split_k, integer(self.config.block_k)
        k_tiles = self.k_tiles
        if size == 1:
            return KRange(integer(0), self.extents[name], k_tiles, self.channels)
        nodes.append(Comment(f"split-K: the {size} blocks of a cluster each take a range of {name}"))
        offset = append_definition(
            "k_offset", block_k * FloorDiv(self.rank * k_tiles, integer(size)), nodes, self.lowering
        )
        end = block_k * FloorDiv((self.rank + 1) * k_tiles, integer(size))
        length = append_definition("k_length", end - offset, nodes, self.lowering)
        longest = bounds(ceil_div(k_tiles, size) * block_k, self.lowering.ranges)[1]
        self.lowering.ranges[length] = (int(self.config.block_k), longest)
        return KRange(offset, length, k_tiles, self.channels)

    def over(self, definitions: tuple[Node, ...], body: tuple[Section, ...]) -> tuple[Section, ...]:
        """The body for each output tile of the block."""
        if not self.is_persistent:
            return body
        sections = (Section("tile_coordinates", definitions), *body)
        loop = Loop(self.tile_index, self.cluster_index, self.count, self.stride, rolled=True)
        return (Section("output_tiles", (For(loop, (Section("wave", (self.wave_definition,)), *sections)),)),)
