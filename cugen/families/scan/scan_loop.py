"""The loop along a scan: over the whole index or one tile of it, forward or backward."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from cugen.families.scan.recognition import ScanProblem
from cugen.pieces.blocks import define
from cugen.pieces.grid import divides
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comparison, Define, For, Guard, Index, Loop, Node, Section
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Minimum, Mod, bounds, integer

Parts = tuple[tuple[str, tuple[Node, ...]], ...]  # sections of a kernel, by name


@dataclass(frozen=True, slots=True)
class ScanLoop:
    """A loop of `step` elements per iteration. `start` counts from 0 in the direction of the scan, and is the constant
    0 where there is one iteration. `extent` is that of the scanned index, `length` what the loop covers of it."""

    problem: ScanProblem
    lowering: Lowering
    step: int
    extent: Integer
    length: Integer
    start: Integer

    @property
    def max_length(self) -> int:
        """Upper bound of `length` in elements."""
        return bounds(self.length, self.lowering.ranges)[1]

    @property
    def is_single(self) -> bool:
        return not self.start.is_Symbol

    @property
    def buffer_index(self) -> tuple[Integer, ...]:
        """Double-buffer index, so that one barrier per iteration is enough; empty for a single iteration."""
        return () if self.is_single else (Mod(FloorDiv(self.start, integer(self.step)), integer(2)),)

    def around(self, sections: tuple[Section, ...]) -> Parts:
        """The loop with the sections as its body; a single iteration is the sections alone."""
        if not isinstance(self.start, sympy.Symbol):
            return tuple((section.name, section.body) for section in sections)
        index = Index(self.start.name, self.start, self.lowering.ranges[self.start])
        return (("main_loop", (For(Loop(index, integer(0), self.length, self.step), sections),)),)

    def position(self, name: str, offset: Integer, width: int = 1, *, certain: bool = True) -> tuple[Define, Guard]:
        """The index of a vector of `width` elements at `offset` in the direction of the scan, and its bounds check.

        `certain`: the offset is within an iteration that runs.
        """
        problem, lowering, context = self.problem, self.lowering, self.problem.request.context
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
            position = define(name, begin + offset, lowering)
            inside = Comparison(position.index.symbol, "<", self.extent)
        if certain and self._has_whole_iterations():
            return position, Guard(())
        return position, lowering.needed(Guard((inside,)))

    def _has_whole_iterations(self) -> bool:
        """Whether the loop surely covers whole iterations, with at least one where there is no loop."""
        problem, context = self.problem, self.problem.request.context
        if problem.tiles is not None:
            length = problem.tiles.length
            return length % self.step == 0 and divides(length, self.extent, context)
        return not self.is_single and divides(self.step, self.extent, context)


def scan_loop(problem: ScanProblem, lowering: Lowering, step: int) -> ScanLoop:
    """The loop, with a loop variable where there may be several iterations."""
    extent = to_integer(problem.along.extent, lowering.symbols)
    length = extent if problem.tiles is None else integer(problem.tiles.length)
    max_length = bounds(length, lowering.ranges)[1]
    if max_length <= step:
        return ScanLoop(problem, lowering, step, extent, length, integer(0))
    last = max_length - (step if divides(step, length, problem.request.context) else 1)
    # The increment past the last element must not overflow a 32-bit loop variable.
    max_start = last if last + step <= INT32_MAX else last + step
    start = Index(lowering.names.allocate("start"), integer(0), (0, max_start))
    lowering.ranges[start.symbol] = start.range
    return ScanLoop(problem, lowering, step, extent, length, start.symbol)
