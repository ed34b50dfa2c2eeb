"""The steps in which threads walk along a scan: all of the index, or one segment of it, forward or backward."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from cugen.families.scan.recognition import Work
from cugen.pieces.blocks import define
from cugen.pieces.grid import divides
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comparison, Define, For, Guard, Index, Loop, Node
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Minimum, Mod, bounds, integer


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of `step` elements from `start` on, which counts from 0 in the direction of the scan; it is 0 itself where
    one step is enough. `extent` is the scanned index's, `walked` what is walked of it."""

    work: Work
    lowering: Lowering
    step: int
    extent: Integer
    walked: Integer
    start: Integer

    @property
    def longest(self) -> int:
        """How many elements are walked at most."""
        return bounds(self.walked, self.lowering.ranges)[1]

    @property
    def is_one(self) -> bool:
        return not self.start.is_Symbol

    @property
    def buffer(self) -> tuple[Integer, ...]:
        """Which of two buffers a step uses, so that one barrier a step is enough."""
        return () if self.is_one else (Mod(FloorDiv(self.start, integer(self.step)), integer(2)),)

    def loop(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes once for each step."""
        if not isinstance(self.start, sympy.Symbol):
            return nodes
        index = Index(self.start.name, self.start, self.lowering.ranges[self.start])
        return (For(Loop(index, integer(0), self.walked, self.step), nodes),)

    def place(self, name: str, ahead: Integer, width: int = 1, *, certain: bool = True) -> tuple[Define, Guard]:
        """Where `width` neighbours begin that are `ahead` of the first element in the direction of the scan, and when
        they are inside; `certain` where `ahead` is within a step that is made."""
        work, lowering, context = self.work, self.lowering, self.work.request.context
        whole = self.extent
        if not divides(width, self.extent, context):
            whole = FloorDiv(self.extent + (width - 1), integer(width)) * width
        begin, end = integer(0), whole
        if work.segments is not None:
            begin = lowering.symbols[work.segments.index] * work.segments.length
            end = begin + work.segments.length
            if not divides(work.segments.length, self.extent, context):
                end = Minimum(end, whole)
        if work.walk.reverse:
            place = define(name, end - width - ahead, lowering)
            inside = Comparison(place.index.symbol, ">=", begin)
        else:
            place = define(name, begin + ahead, lowering)
            inside = Comparison(place.index.symbol, "<", self.extent)
        if certain and self._ends_with_step():
            return place, Guard(())
        return place, lowering.needed(Guard((inside,)))

    def _ends_with_step(self) -> bool:
        """Whether what is walked surely is whole steps, and at least one where no loop asks."""
        work, context = self.work, self.work.request.context
        if work.segments is not None:
            length = work.segments.length
            return length % self.step == 0 and divides(length, self.extent, context)
        return not self.is_one and divides(self.step, self.extent, context)


def steps_of(work: Work, lowering: Lowering, step: int) -> Steps:
    """Steps of so many elements, with the index that counts them where there may be several."""
    extent = to_integer(work.along.extent, lowering.symbols)
    walked = extent if work.segments is None else integer(work.segments.length)
    longest = bounds(walked, lowering.ranges)[1]
    if longest <= step:
        return Steps(work, lowering, step, extent, walked, integer(0))
    last = longest - (step if divides(step, walked, work.request.context) else 1)
    # The step beyond the last element must not overflow the loop's index.
    most = last if last + step <= INT32_MAX else last + step
    start = Index(lowering.names.allocate("start"), integer(0), (0, most))
    lowering.ranges[start.symbol] = start.range
    return Steps(work, lowering, step, extent, walked, start.symbol)
