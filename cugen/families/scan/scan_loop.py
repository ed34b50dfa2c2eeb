"""The loop along a scan: over the whole index or one tile of it, forward or backward."""

from __future__ import annotations

from cugen.families.scan.recognition import ScanProblem
from cugen.pieces.blocks import define
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comparison, Define, For, Guard, Index, Loop, Section
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Minimum, Mod, bounds, integer


class ScanLoop:
    """A loop of `step` elements per iteration. `start` counts from 0 in the direction of the scan, and is the constant
    0 where there is one iteration. `extent` is that of the scanned index, `length` what the loop covers of it, from
    `shift` elements before the row on, at most `max_shift`."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, step: int, max_shift: int = 0) -> None:
        self.problem, self.lowering, self.step, self.max_shift = problem, lowering, step, max_shift
        self.shift: Integer = integer(0)
        self.extent = problem.context.extent(problem.along)
        self.length = self.extent if problem.tiles is None else integer(problem.tiles.length)
        self.length += max_shift
        self.start: Integer = integer(0)
        self.index: Index | None = None
        max_length = bounds(self.length, lowering.ranges)[1]
        if max_length > step:
            last = max_length - (step if divides(step, self.length, problem.context) else 1)
            # The increment past the last element must not overflow a 32-bit loop variable.
            max_start = last if last + step <= INT32_MAX else last + step
            self.index = loop_variable("start", max_start + 1, lowering)
            self.start = self.index.symbol

    @property
    def is_single(self) -> bool:
        return self.index is None

    @property
    def buffer_index(self) -> tuple[Integer, ...]:
        """Double-buffer index, so that one barrier per iteration is enough; empty for a single iteration."""
        return () if self.is_single else (Mod(FloorDiv(self.start, integer(self.step)), integer(2)),)

    def around(self, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """The loop with the sections as its body; a single iteration is the sections alone."""
        if self.index is None:
            return sections
        return (Section("main_loop", (For(Loop(self.index, integer(0), self.length, self.step), sections),)),)

    def position(self, name: str, offset: Integer, width: int = 1, *, certain: bool = True) -> tuple[Define, Guard]:
        """The index of a vector of `width` elements at `offset` in the direction of the scan, and its bounds check.

        `certain`: the offset is within an iteration that runs."""
        problem, lowering, context = self.problem, self.lowering, self.problem.context
        padded = self.extent
        if not divides(width, self.extent, context):
            padded = FloorDiv(self.extent + (width - 1), integer(width)) * width
        begin, end = integer(0), padded
        if problem.tiles is not None:
            begin = lowering.symbols[problem.tiles.index] * problem.tiles.length
            end = begin + problem.tiles.length
            if not divides(problem.tiles.length, self.extent, context):
                end = Minimum(end, padded)
        if problem.pattern.reverse:
            position = define(name, end - width - offset, lowering)
            inside = Comparison(position.index.symbol, ">=", begin)
        else:
            position = define(name, begin + offset - self.shift, lowering)
            inside = Comparison(position.index.symbol, "<", self.extent)
        if certain and self._has_whole_iterations():
            return position, Guard(())
        return position, lowering.needed(Guard((inside,)))

    def _has_whole_iterations(self) -> bool:
        """Whether the loop surely covers whole iterations, with at least one where there is no loop."""
        if self.max_shift:
            return False
        if self.problem.tiles is not None:
            length = self.problem.tiles.length
            return length % self.step == 0 and divides(length, self.extent, self.problem.context)
        return not self.is_single and divides(self.step, self.extent, self.problem.context)
