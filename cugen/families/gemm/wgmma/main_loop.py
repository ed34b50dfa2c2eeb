"""The main loop of a GEMM by wgmma, for producer and consumers alike: one thread copies each k-tile of the block,
warpgroups multiply it."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.families.gemm.wgmma.config import (
    WgmmaConfig,
)
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates, WarpgroupCoordinates
from cugen.families.gemm.wgmma.operands.pixels import LastTile
from cugen.families.gemm.wgmma.operands.scales import ScaledSums, groups_of
from cugen.families.gemm.wgmma.operands.tiles import OperandTiles
from cugen.families.gemm.wgmma.output_tiles import KRange
from cugen.families.gemm.wgmma.pipeline import Pipeline
from cugen.machine.wgmma import WGMMA_M
from cugen.pieces.loop_variables import loop_variable, repeated, repeated_sections, unrolled, value_of
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    Assume,
    Comment,
    Comparison,
    Declare,
    Define,
    For,
    Guard,
    Index,
    Loop,
    Node,
    Section,
    when,
)
from cugen.plan.pipeline_nodes import (
    AwaitWgmmas,
    CommitWgmmas,
    FenceWgmma,
    Wgmma,
)
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, integer

_FIRST = integer(0)  # term of a k-tile


class MainLoop:
    """The loop over k-tiles. `k_tiles_before`: those of the block before the output tile, None where it has one
    only."""

    def __init__(
        self,
        thread: WarpgroupCoordinates,
        tiles: tuple[OperandTiles, ...],
        pipeline: Pipeline,
        k_range: KRange,
        *,
        k_tiles_before: Integer | None,
        block: BlockCoordinates,
    ) -> None:
        assert isinstance(thread.config, WgmmaConfig)
        self.config: WgmmaConfig = thread.config
        self.thread, self.contraction, self.lowering = thread, thread.contraction, thread.lowering
        self.tiles, self.pipeline, self.k_range = tiles, pipeline, k_range
        self.k_tiles_before, self.warpgroup, self.block = k_tiles_before, block.warpgroup, block
        self.last_tile = LastTile.of(self.contraction, self.config.wgmma)
        self.k0 = loop_variable(f"{self.contraction.k.name}0", k_range.length, self.lowering)
        # The k-tile's number among those of the block.
        k_tile = FloorDiv(self.k0.symbol, integer(self.config.block_k))
        self.fill = k_tile if k_tiles_before is None else k_tiles_before + k_tile
        self.filled_stage: Integer = pipeline.stage.symbol

    def produce(self) -> tuple[Section, ...]:
        """The copies of the producer's thread."""
        stage, first_pixel = self.filled_stage, self.first_pixel()
        body = (
            Section("stage", self._stage(self.pipeline.empty_parity)),
            Section("await_empty", self.pipeline.await_empty(stage)),
            *self._copies(stage, self.k0.symbol),
        )
        return first_pixel, self._over_k(body, "k_tiles")

    def first_pixel(self) -> Section:
        """The definitions that the copies of an output tile have in common, which they mention."""
        coordinates = self._coordinates(integer(0))
        nodes = (node for tiles in self.tiles for node in tiles.tile_definitions(coordinates, self.block))
        return Section("first_pixel", tuple(nodes))

    def _copies(self, stage: Integer, k: Integer) -> tuple[Section, ...]:
        """The copies to a stage, of the k-tile that begins with term `k` of the block's."""
        coordinates, barrier = self._coordinates(k), self.pipeline.full_barrier(stage)
        copies = (node for tiles in self.tiles for node in tiles.load(stage, barrier, coordinates, self.block))
        return Section("expect", (self.pipeline.expect(stage),)), Section("copies", tuple(copies))

    def _coordinates(self, k: Integer) -> dict[str, Integer]:
        """Those of a k-tile's first elements, by index."""
        batch = {i.name: self.lowering.symbols[i.name] for i in self.contraction.batch}
        return {**self.thread.tile_origin, **batch, self.contraction.k.name: self.k_range.offset + k}

    def consume(self, accumulators: Accumulators) -> tuple[Section, ...]:
        """The main loop of a consumer, with its sums in the accumulators."""
        (sums,) = accumulators.arrays
        return self._promoted(sums) if self.config.promotes else self._accumulated(sums)

    def _over_k(self, body: tuple[Section, ...], name: str) -> Section:
        """A loop over k-tiles."""
        loop = Loop(self.k0, integer(0), self.k_range.length, self.config.block_k, rolled=True)
        return Section(name, (For(loop, body),))

    def _stage(self, parity: Index) -> tuple[Define, ...]:
        """The k-tile's stage, and the parity of the phase that is awaited where stages are refilled."""
        stage = self.pipeline.define_stage(self.fill)
        return (self.pipeline.define_parity(parity, self.fill), stage) if self.pipeline.refills else (stage,)

    def _accumulated(self, sums: Array) -> tuple[Section, ...]:
        """Sums stay in the accumulators of the instruction; a k-tile is multiplied while the one before is waited
        for."""
        after_first = Comparison(self.k0.symbol, ">", integer(0))
        previous = self.pipeline.stage_of(self.filled_stage + integer(self.config.stages) - 1)
        body = (
            Section("stage", self._stage(self.pipeline.full_parity)),
            Section("await_full", (self.pipeline.await_full(self.filled_stage),)),
            *self._multiplied(sums, self.k0.symbol),
            Section("await_previous", (AwaitWgmmas(1),)),
            Section("release_previous", self.pipeline.release(previous, self.thread.lane, after_first)),
            *self._refill(),
        )
        release_last: tuple[Node, ...] = ()  # nothing waits for it in the block's only output tile
        if self.k_tiles_before is not None:
            last = self.k_tiles_before + self.k_range.k_tiles - 1
            release_last = self.pipeline.release(self.pipeline.stage_of(last), self.thread.lane)
        return (
            Section("accumulators", (*self._has_terms(), Declare(sums))),
            self._over_k(body, "k_tiles"),
            Section("await_last", (AwaitWgmmas(0),)),
            Section("release_last", release_last),
        )

    def _has_terms(self) -> tuple[Node, ...]:
        """That a block has a k-tile, where the compiler can't see it: ptxas serialises wgmmas before computations with
        sums that no wgmma may have written (C7514)."""
        length, is_split = self.k_range.length, self.config.split_k > 1 or self.config.stream_k > 0
        if is_split or self.contraction.context.static_extent(self.contraction.k) is not None:
            return ()
        assert bounds(length, self.lowering.ranges)[0] > 0
        return (Assume(Guard((Comparison(length, ">", integer(0)),))),)

    def _promoted(self, sums: Array) -> tuple[Section, ...]:
        """The sums of each k-tile, or of each group of its terms with scales of its own, are added to others by the
        threads; meanwhile other warpgroups multiply."""
        config, groups = self.config, groups_of(self.contraction, int(self.config.block_k))
        partials = replace(sums, symbol=self.lowering.names.allocate("partials"))
        group = self.thread.loop_index("k_group", groups)
        length = int(config.block_k) // groups
        first = value_of(group) * length if groups > 1 else _FIRST
        scaled = None
        if self.contraction.scales is not None:
            number = value_of(group) if groups > 1 else None
            scaled = ScaledSums(self.thread, self.k_range.offset + self.k0.symbol, number)
        full = (
            Section("stage", self._stage(self.pipeline.full_parity)),
            Section("await_full", (self.pipeline.await_full(self.filled_stage),)),
        )
        of_group = (
            Section("partials", (Declare(partials),)),
            Section("scales", scaled.loads("k-tile, while it is copied" if groups == 1 else "group") if scaled else ()),
            *(full if groups == 1 else ()),
            *self._multiplied(partials, integer(0), first, length if groups > 1 else None),
            Section("await_k_tile", (AwaitWgmmas(0),)),
        )
        promote = Section("promote", scaled.promote(partials, sums) if scaled else self._promote(partials, sums))
        release = (Section("release", self.pipeline.release(self.filled_stage, self.thread.lane)), *self._refill())
        body = (*of_group, *release, promote)
        if groups > 1:
            body = (*full, *repeated_sections("groups", group, (*of_group, promote), groups), *release)
        return Section("accumulators", (Declare(sums, zeroed=True),)), self._over_k(body, "k_tiles")

    def _promote(self, partials: Array, sums: Array) -> tuple[Node, ...]:
        i = self.thread.loop_index("i", self.config.thread_m)
        j = self.thread.loop_index("j", self.config.thread_n)
        element = Element.of(Access(partials, (i.symbol, j.symbol), "load"))
        add = Accumulate(Access(sums, (i.symbol, j.symbol), "store"), element)
        columns = unrolled(j, (add,), stop=self.config.thread_n)
        return Comment("the instruction keeps fewer bits than float32"), unrolled(
            i, (columns,), stop=self.config.thread_m
        )

    def _refill(self) -> tuple[Section, ...]:
        """What refills a stage of a k-tile before, where that isn't the producer's work."""
        return ()

    def _multiplied(
        self, accumulators: Array, before: Integer, first: Integer = _FIRST, length: int | None = None
    ) -> tuple[Section, ...]:
        """The multiplication of a k-tile that has been copied, or of `length` of its terms from the `first` one on;
        `before` terms are in the accumulators."""
        last = self.last_tile if length is None else None
        terms = last.terms if last else length or self.config.block_k
        return (
            Section("fence", (FenceWgmma(),)),
            Section("multiply", self._multiply(accumulators, before, 0, terms, first)),
            Section("commit", (CommitWgmmas(),)),
            Section("multiply_rest", self._multiply_rest(accumulators, before) if last else ()),
        )

    def _multiply_rest(self, accumulators: Array, before: Integer) -> tuple[Node, ...]:
        """The other instructions of k-tiles that are longer than the last one, as a group of their own: ptxas
        serialises wgmmas of a group in a branch."""
        last, block_k = self.last_tile, self.config.block_k
        if last is None or last.length == block_k:
            return ()
        k, length = self.k_range.offset + self.k0.symbol, self.thread.extents[self.contraction.k.name]
        if self.k_range.channels is not None:
            k, length = Mod(k, self.k_range.channels), self.k_range.channels
        body = (FenceWgmma(), *self._multiply(accumulators, before, last.terms, block_k), CommitWgmmas())
        return Comment("zeros follow the first terms of the last k-tile"), when(k, "<", length - integer(block_k), body)

    def _multiply(
        self, accumulators: Array, before: Integer, start: int, stop: int, first: Integer = _FIRST
    ) -> tuple[Node, ...]:
        """The instructions of terms of a k-tile, numbered from the `first` one on."""
        config, thread, (a, b), stage = self.config, self.thread, self.tiles, self.filled_stage
        k = thread.loop_index(self.contraction.k.name, config.block_k)
        matrix = thread.loop_index("matrix", config.matrices_m)
        i = value_of(matrix)
        row = self.warpgroup * integer(WGMMA_M * config.matrices_m) + WGMMA_M * i
        node = Wgmma(
            Access(accumulators, (2 * i, integer(0)), "store", int(config.block_n) // 4),
            Access(accumulators, (2 * i + 1, integer(0)), "store", int(config.block_n) // 4),
            a.matrix(stage, row, first + k.symbol),
            b.matrix(stage, integer(0), first + k.symbol),
            config.wgmma,
            int(config.block_n),
            before + k.symbol,
            a.block_bytes,
            b.block_bytes,
        )
        body = repeated(matrix, (node,), config.matrices_m)
        return (For(Loop(k, integer(start), integer(stop), config.wgmma.k, unroll=True), body),)
