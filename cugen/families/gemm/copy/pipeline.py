"""The ring of stages of a product: how each operand gets from memory into its tile, and is read there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.gemm.config import WARP, Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.problem import copy_width, problem_of, sides, tile_bytes
from cugen.pieces.blocks import define
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Start
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Index, Loop, Node, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Const, IndexValue

_SECTOR = 32  # bytes of memory that come together
_ASYNCHRONOUS = (4, 8, 16)  # bytes that a thread may copy without waiting


def declare_tiles(found: Contraction, shape: Shape, lowering: Lowering) -> tuple[Array, ...]:
    """`As[stages][step][rows + pad]`, and the same of the other operand: k is the slow index of both, so that a thread
    reads neighbours at once. Tensor cores take single elements: for these a tile lies as its operand does."""
    context = found.request.context
    problem = problem_of(found)
    sizes = tile_bytes(problem, shape)
    asked = any(context.spec.array(operand.read.array).memory.dynamic for operand in found.operands)
    dynamic = asked or shape.leaves_sums or sum(sizes) > found.request.target.shared_per_block
    tiles = []
    offsets, pads = (0, sizes[0]), problem.pads_of(shape)
    for operand, (slow, fast), offset, pad in zip(found.operands, sides(problem, shape), offsets, pads, strict=True):
        source = context.arrays[operand.read.array]
        pitch = fast + pad
        tiles.append(
            Array(
                operand.read.array,
                lowering.names.allocate(f"{source.symbol}s"),
                source.dtype,
                (integer(shape.stages), integer(slow), integer(fast)),
                (integer(slow * pitch), integer(pitch), integer(1)),
                "shared",
                flat=False,
                pad=pad,
                dynamic=dynamic,
                dynamic_offset=offset if dynamic else 0,
                align=0 if dynamic else 16,
            )
        )
    return tuple(tiles)


@dataclass(frozen=True)
class Ring:
    """The stages of one operand."""

    place: Place
    operand: Operand
    tile: Array

    @property
    def extent(self) -> int:
        return int(self.tile.shape[-1])

    @property
    def width(self) -> int:
        return copy_width(self.place.found, self.operand, self.extent)

    @property
    def asynchronous(self) -> bool:
        kinds = self.place.found.request.target.shared_kinds
        return "async_copy" in kinds and self.width * self.tile.dtype.bytes in _ASYNCHRONOUS

    def alignments(self) -> Iterator[tuple[str, int]]:
        if self.width > 1:
            yield self.operand.read.array, self.width * self.tile.dtype.bytes

    @cached_property
    def start(self) -> Start | None:
        """Where the thread's copies of the first step begin, of operands whose subscripts are plain indices."""
        place, operand = self.place, self.operand
        if not all(isinstance(sub, IndexValue) for sub in operand.read.subscripts):
            return None
        first = self._subscripts(place.begin + self._first_k.index.symbol - place.lead, self._first_column.index.symbol)
        array = place.found.request.context.arrays[operand.read.array]
        return Start(place.lowering.names.allocate(f"{operand.read.array.lower()}_from"), array, first)

    def _subscripts(self, k: Integer, column: Integer) -> tuple[Integer, ...]:
        """Those of the operand for one k, and one place in the block's tile."""
        place, operand = self.place, self.operand
        outer = operand.mn.name
        at = {outer: place.origin[outer] + column, place.found.k.name: k}
        return tuple(to_integer(sub, {**place.lowering.symbols, **at}) for sub in operand.read.subscripts)

    def read(self, stage: Integer, k: Integer, place: Integer, width: int) -> Access:
        """A thread's neighbours of one k."""
        return Access(self.tile, (stage, k, place), "load", width)

    def lane_read(self, stage: Integer, k: Integer, place: Integer) -> Access:
        """What a lane on tensor cores reads of the four k from the given one on."""
        return self.read(stage, k + self.place.lane_column, place, 1)

    def places(self) -> tuple[Define, ...]:
        """Which elements of a stage the thread copies first."""
        return self._first_k, self._first_column

    @cached_property
    def _along(self) -> int:
        """Threads that copy different k side by side. Where memory holds neighbours along k, a few lanes copy a sector
        of these and the others rows beside it, so that what they read and what they write lies close together."""
        if self.operand.fast == self.operand.mn.name:
            return 1
        return math.gcd(self.place.shape.team_step, max(_SECTOR // self.tile.dtype.bytes, 1))

    @cached_property
    def _across(self) -> int:
        """Threads that copy different places along the row or column at one k: no more than a warp has, so that what
        else a thread copies of that k lies near enough to need no address of its own."""
        if self._along > 1:
            return self.place.shape.team_threads // self._along
        return math.gcd(self.extent // self.width, WARP)

    @cached_property
    def _first_k(self) -> Define:
        member, name = self.place.member, self.place.found.k.name
        k = Mod(member, integer(self._along)) if self._along > 1 else FloorDiv(member, integer(self._across))
        return define(f"{self.operand.read.array.lower()}_{name}", k + self._own_k, self.place.lowering)

    @property
    def _own_k(self) -> Integer:
        """Where the team's part of a step begins."""
        shape = self.place.shape
        return self.place.slice * shape.team_step if shape.teams > 1 else integer(0)

    @cached_property
    def _first_column(self) -> Define:
        member, name = self.place.member, self.operand.mn.name
        column: Integer = FloorDiv(member, integer(self._along))
        if self._along == 1:
            column = Mod(member, integer(self._across)) * self.width
        return define(f"{self.operand.read.array.lower()}_{name}", column, self.place.lowering)

    @cached_property
    def _paces(self) -> tuple[int, int]:
        """How far all threads get at a time, along the row or column and along k."""
        down = self._along if self._along > 1 else self.place.shape.team_threads // self._across
        return self._across * self.width, down

    def is_spread_by(self, parts: int) -> bool:
        """Whether all threads have the same to do in each part of a stage."""
        return self.place.shape.step % (parts * self._paces[1]) == 0

    def copies(
        self, stage: Integer, first: Integer, *, certain: bool, share: tuple[Integer, int] | None = None
    ) -> tuple[Node, ...]:
        """All threads fill a stage with the step that begins at `first`, each team with its part of it; `certain` says
        that there is such a step. A `share` of the stage is as much as so many of a slice's products are of all, after
        so many others."""
        start_k, step, start, reach = self._share(*(share or (integer(0), self.place.shape.own_step)))
        k, column = self._first_k.index.symbol + start_k, self._first_column.index.symbol + start
        across, down = self._paces
        loops: list[tuple[Index, int, int]] = []
        terms: list[Comparison] = []
        for wish, pace, begin, extent in (("c", across, start, reach), ("r", down, self._own_k + start_k, step)):
            if pace < extent:
                index = self.place.loop_index(wish, extent)
                loops.append((index, extent, pace))
                if wish == "c":
                    column += index.symbol
                else:
                    k += index.symbol
            if extent % pace:
                terms.append(Comparison(column if wish == "c" else k, "<", begin + extent))
        node: Node = self._copy(stage, first, certain, k, column)
        if terms:
            node = If(Guard(tuple(terms)), (node,))
        for index, extent, pace in loops:
            node = For(Loop(index, integer(0), integer(extent), pace, unroll=True), (node,))
        return (node,)

    def _share(self, done: Integer, count: int) -> tuple[Integer, int, Integer, int]:
        """The first k of a share and how many, its first row or column and how many."""
        slices = self.place.shape.slices // self.place.shape.teams
        return slices * done, slices * count, integer(0), self.extent

    def _at(self, stage: Integer, k: Integer, column: Integer) -> tuple[Integer, ...]:
        """Where an element lies in the tile."""
        return stage, k, column

    def _copy(self, stage: Integer, first: Integer, certain: bool, k: Integer, column: Integer) -> Node:
        place, operand = self.place, self.operand
        outer, depth = operand.mn.name, place.found.k.name
        at = {outer: place.origin[outer] + column, depth: place.begin + first + k - place.lead}
        array = place.found.request.context.arrays[operand.read.array]
        source = Access(array, self._subscripts(at[depth], column), "load", self.width, start=self.start)
        terms = []
        for sub in operand.read.subscripts:
            if sub == IndexValue(outer) and not place.exact[outer]:
                terms.append(Comparison(at[outer], "<", place.extents[outer]))
            elif sub == IndexValue(depth) and not certain:
                terms.append(Comparison(at[depth], ">=", integer(0)))
                terms.append(Comparison(at[depth], "<", place.extents[depth]))
        guard = place.lowering.needed(Guard(tuple(terms)))
        kind = "async_copy" if self.asynchronous else "store"
        target = Access(self.tile, self._at(stage, k, column), kind, self.width)
        if guard.terms and not self.asynchronous and self.width == 1:
            zero = Store(Access(self.tile, self._at(stage, k, column), "store"), Const(0, self.tile.dtype.compute))
            return If(guard, (Copy(target, source),), (zero,))
        return Copy(target, source, guard if guard.terms else None)
