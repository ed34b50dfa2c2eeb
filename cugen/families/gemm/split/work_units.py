"""The work units of a block in stream-K: whole tiles first, then the tiles of its range of k-tiles.

Other blocks wait for the partial sums of the tile that the range ends in, whose peers the block itself waits for in the
tile that it begins in: that one comes last.
"""

from __future__ import annotations

from functools import partial

from cugen.families.gemm.stream_k_schedule import StreamKSchedule
from cugen.pieces.blocks import append_definition
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.kernel import WorkUnits
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comment, For, FunctionCall, Loop, Node, Section, when
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, integer


class StreamKUnits:
    """A loop over the block's work units. Unit `u` is whole tile `block_id + blocks * u` at first, then a tile of the
    block's range of k-tiles: `tile`, from `k_tile_begin` to below `k_tile_end`. `is_pipelined`: copies run on from one
    unit to the next, whose k-tiles are numbered, `k_tiles_before` in the units before; and the tiles in the middle of
    the range come first, so that blocks read the same k at the same time, from L2."""

    def __init__(
        self, schedule: StreamKSchedule, block_id: Integer, lowering: Lowering, *, is_pipelined: bool = False
    ) -> None:
        self.schedule, self.block_id, self.lowering = schedule, block_id, lowering
        self.is_pipelined = is_pipelined
        self.max_units = schedule.whole_tiles_per_block + schedule.units_per_range[1]
        self.range_definitions = self._define_range()
        self.unit = loop_variable("work_unit", self.max_units, lowering)
        self.k_tiles_before: Integer | None = None
        self.definitions = self._define_unit() if self.has_several else self._define_only_unit()

    @property
    def has_several(self) -> bool:
        """Whether a block may have several units."""
        return self.max_units > 1

    def of_kernel(self) -> WorkUnits:
        """The units, for reports and proofs."""
        schedule = self.schedule
        names = self.tile, self.k_tile_begin, self.k_tile_end
        return WorkUnits(*names, schedule.tiles, schedule.k_tiles, self.k_tiles_before)

    def loop(self, body: tuple[Section, ...], function: str = "") -> tuple[Section, ...]:
        """The loop over the units, if a block has several, with the body in a branch where it may have fewer than
        others. A `function` has the definitions, those of the block's range too, which saves registers."""
        minimum, maximum = self.schedule.units_per_range
        if minimum < maximum:
            body = (Section("if_k_tiles", (when(self.k_tile_begin, "<", self.k_tile_end, body),)),)
        unit = self._call(function) if function else Section("unit_range", self.definitions)
        if not self.has_several:
            return unit, *body
        loop = Loop(self.unit, integer(0), integer(self.max_units), rolled=True)
        return (Section("work_units", (For(loop, (unit, *body)),)),)

    def _call(self, function: str) -> FunctionCall:
        results: list[Integer] = [self.tile, self.k_tile_begin, self.k_tile_end]
        purpose = "A work unit of a block: k-tiles `k_tile_begin` to below `k_tile_end` of an output tile"
        if self.k_tiles_before is not None:
            results.append(self.k_tiles_before)
            purpose += ", after `k_tiles_before` others of the block"
        definitions = (*self.range_definitions, *self.definitions)
        return FunctionCall("work_unit", definitions, function, tuple(results), f"{purpose}.")

    def _define_range(self) -> tuple[Node, ...]:
        """The block's range of k-tiles, counted over all tiles."""
        schedule = self.schedule
        per_block, k_tiles = schedule.k_tiles_per_block, schedule.k_tiles
        start, stop = schedule.whole_tiles * k_tiles, schedule.tiles * k_tiles
        text = f"{schedule.text}: {k_tiles} k-tiles of a tile, {per_block} of a block"
        nodes: list[Node] = [Comment(text), Comment("the block's range of k-tiles")]
        named = partial(append_definition, nodes=nodes, lowering=self.lowering)
        begin = start + per_block * self.block_id
        if start + per_block * (schedule.blocks - 1) > stop:
            begin = Minimum(begin, integer(stop))
        self.range_begin = named("range_begin", begin, within=(start, stop))
        end = self.range_begin + per_block
        if start + per_block * schedule.blocks > stop:
            end = Minimum(end, integer(stop))
        self.range_end = named("range_end", end, within=(start + 1, stop))
        if self.has_several:
            last = FloorDiv(self.range_end - 1, integer(k_tiles))
            self.last_tile = named("last_tile", last, within=(0, schedule.tiles - 1))
        if self.has_several and self.is_pipelined:
            whole, (minimum, maximum) = schedule.whole_tiles_per_block, schedule.units_per_range
            last = whole + self.last_tile - FloorDiv(self.range_begin, integer(k_tiles))
            self.last_unit = named("last_unit", last, within=(whole + minimum - 1, whole + maximum - 1))
        return tuple(nodes)

    def _define_only_unit(self) -> tuple[Node, ...]:
        """The only unit of a block: its range, which is in one tile."""
        k_tiles, nodes = integer(self.schedule.k_tiles), list[Node]()
        named = partial(append_definition, nodes=nodes, lowering=self.lowering)
        self.tile = named("tile", FloorDiv(self.range_begin, k_tiles), within=(0, self.schedule.tiles - 1))
        within = 0, self.schedule.k_tiles
        self.k_tile_begin = named("k_tile_begin", self.range_begin - k_tiles * self.tile, within=within)
        self.k_tile_end = named("k_tile_end", self.range_end - k_tiles * self.tile, within=within)
        return tuple(nodes)

    def _define_unit(self) -> tuple[Node, ...]:
        """A work unit: its tile and its range of the tile's k-tiles."""
        schedule, unit, whole = self.schedule, self.unit.symbol, integer(self.schedule.whole_tiles_per_block)
        k_tiles = integer(schedule.k_tiles)
        nodes: list[Node] = []
        named = partial(append_definition, nodes=nodes, lowering=self.lowering)
        distributed = self.last_tile + whole - unit
        if self.is_pipelined:
            nodes.append(Comment("the middle of the range, then the tile that it ends in, and last where it begins"))
            ends = Choice(unit, self.last_unit, self.last_tile, distributed)
            outer_tile = named("outer_tile", ends, within=(0, schedule.tiles - 1))
            distributed = Choice(unit, self.last_unit - 1, distributed - 1, outer_tile)
        else:
            nodes.append(Comment("from the end of the range, since other blocks wait for the tile that it ends in"))
        tile = self._whole_or_distributed(self.block_id + schedule.blocks * unit, distributed)
        self.tile = named("tile", tile, within=(0, schedule.tiles - 1))
        tile_start = k_tiles * self.tile
        begin = self._whole_or_distributed(integer(0), Maximum(self.range_begin - tile_start, integer(0)))
        end = self._whole_or_distributed(k_tiles, Minimum(self.range_end - tile_start, k_tiles))
        self.k_tile_begin = named("k_tile_begin", begin, within=(0, schedule.k_tiles))
        self.k_tile_end = named("k_tile_end", end, within=(0, schedule.k_tiles))
        if self.is_pipelined:
            maximum = schedule.k_tiles * schedule.whole_tiles_per_block + schedule.k_tiles_per_block
            self.k_tiles_before = named("k_tiles_before", self._k_tiles_before(), within=(0, maximum))
        return tuple(nodes)

    def _k_tiles_before(self) -> Integer:
        """The k-tiles of the block in the units before this one."""
        unit, k_tiles = self.unit.symbol, integer(self.schedule.k_tiles)
        whole = integer(self.schedule.whole_tiles_per_block)
        of_block = k_tiles * whole + self.range_end - self.range_begin
        of_unit = self.k_tile_end - self.k_tile_begin
        return Choice(unit, self.last_unit, k_tiles * unit, of_block - of_unit)

    def _whole_or_distributed(self, whole: Integer, distributed: Integer) -> Integer:
        """A value of units that are whole tiles, and of others."""
        count = self.schedule.whole_tiles_per_block
        return Choice(self.unit.symbol, integer(count), whole, distributed) if count else distributed
