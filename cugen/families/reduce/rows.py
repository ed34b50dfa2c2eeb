"""Reductions of neighbours in memory: the threads of a team share each row, several of them in flight at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.families.reduce.accumulate import (
    Neighbours,
    Terms,
    kept_reads,
    main_read,
    named_stop,
    needs_place,
    offset,
    ranged,
    results_of,
    take,
    take_neighbours,
    together,
    wide_reads,
    widest,
    with_starts,
)
from cugen.families.reduce.recognition import Reduction, Stage
from cugen.pieces.block_reduce import WARP, Running, Team, combine_team, first_values
from cugen.pieces.blocks import define, lay_blocks, limit, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import WIDEST, Width, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Vector
from cugen.plan.nodes import Comment, Comparison, For, Guard, If, Index, Loop, Node, ReturnUnless
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Maximum, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, Local, Op, Read, Reduce, walk

Parts = tuple[tuple[str, tuple[Node, ...]], ...]


_LONG_ENOUGH = 256  # elements of a row, for what is before and after its vectors to be few


@dataclass(frozen=True, slots=True)
class RowShape:
    """`threads` along the row times `across` along the next slower reduced index share a result; `teams` of them make a
    block. A thread has `unroll` loads of `width` elements in flight."""

    threads: int
    across: int
    teams: int
    width: int
    unroll: int


@dataclass(frozen=True, slots=True)
class Built:
    """The pieces of a kernel."""

    parts: Parts
    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]


def row_width(found: Reduction, stage: Stage) -> Width:
    """How many neighbours of a row one access may move; the first of them may lie amid the row where otherwise each
    access would move less than four bytes."""
    along = stage.fastest.name
    reads = wide_reads(found, stage, along)
    if not reads:
        return Width(1, f"neighbours along {along} are no neighbours in memory")
    width = min((widest(found, read, along) for read in reads), key=lambda width: width.count)
    main = main_read(found, stage)
    array = found.arrays[main.array]
    if any(isinstance(node, Read) for sub in main.subscripts for node in walk(sub)):
        return width
    if width.count * array.dtype.bytes >= 4 or array.space == "readonly" or found.most(stage.fastest) < _LONG_ENOUGH:
        return width
    most = WIDEST // array.dtype.bytes
    return Width(most, f"a row of {array.name} may begin amid {most} elements: the first few are loaded one by one")


def build_rows(found: Reduction, lowering: Lowering, shape: RowShape) -> Built:
    return _Rows(found, lowering, shape).built()


class _Rows:
    """The kernel of one group: every thread reduces its share of the row, then the team combines."""

    def __init__(self, found: Reduction, lowering: Lowering, shape: RowShape) -> None:
        self.request: Request = found.request
        self.found, self.lowering, self.shape = found, lowering, shape
        self.x = thread("x", shape.threads, lowering)
        self.y = thread("y", shape.across * shape.teams, lowering)
        lane = self.x + self.y * shape.threads if shape.across > 1 else self.x
        number = self.y if shape.across == 1 else integer(0)
        self.team = Team(shape.threads * shape.across, lane, shape.teams, number)
        self.starts: dict[sympy.Symbol, Integer] = {}  # by name, as defined
        self.vectors: dict[Read, Vector] = {}
        self.beyond: tuple[Comparison, ...] = ()  # fails for teams without a row

    def built(self) -> Built:
        lowering, shape = self.lowering, self.shape
        counts = [self.found.extent(index) for index in self.found.kept]
        blocks = lay_blocks(
            [ceil_div(count, shape.teams if axis == 0 else 1) for axis, count in enumerate(counts)],
            lowering,
            self.request.target,
        )
        indices: list[Node] = []
        for axis, (row, extent, place) in enumerate(zip(self.found.kept, counts, blocks.places, strict=False)):
            teams = shape.teams if axis == 0 else 1
            own = self.team.number if axis == 0 else integer(0)
            node = define(row.name, place * teams + own, lowering, below=ceil_div(extent, teams) * teams)
            lowering.symbols[row.name] = node.index.symbol
            if not divides(teams, extent, self.request.context):
                self.beyond = (Comparison(node.index.symbol, "<", extent),)
            limit(node.index, extent, lowering)
            indices.insert(0, node)
        if self.beyond and self.team.threads >= WARP:
            indices.append(ReturnUnless(Guard(self.beyond)))
            self.beyond = ()
        self.found, starts = with_starts(self.found, lowering)
        self.starts = {node.index.symbol: node.index.definition for node in starts}
        self.request = self.found.request
        indices += starts
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        scope = Scope()
        parts: list[tuple[str, tuple[Node, ...]]] = [("indices", tuple(indices))]
        for position, stage in enumerate(self.found.stages):
            is_last = position == len(self.found.stages) - 1
            runs = tuple(running(self.found, reduction, lowering) for reduction in stage.reductions)
            walk = self._walk(stage, runs, scope)
            combined = combine_team(self.team, runs, lowering, everywhere=not is_last)
            parts.append((f"walk {position}", walk))
            parts.append((f"team {position}", (*self._remark(position), *combined)))
            for reduction, value in results_of(stage, runs).items():
                scope.remember(reduction, value)
        lower_statements(self.request, lowering, scope)
        first = [*self.beyond]
        if shape.threads > 1:
            first.append(Comparison(self.x, "==", integer(0)))
        if shape.across > 1:
            first.append(Comparison(self.y, "==", integer(0)))
        ends = (ReturnUnless(Guard(tuple(first))),) if first else ()
        parts.append(("result", (*ends, *scope.nodes)))
        block = (shape.threads, shape.across * shape.teams, 1)
        return Built(tuple(parts), blocks.grid, block)

    def _remark(self, position: int) -> tuple[Node, ...]:
        if position or self.team.threads == 1:
            return ()
        if self.team.warps > 1:
            return (Comment("A butterfly of shuffles in each warp; then the warps meet in shared memory."),)
        return (Comment("A butterfly of shuffles: after it every lane holds the result of its team."),)

    # A thread's share

    def _walk(self, stage: Stage, runs: Sequence[Running], scope: Scope) -> tuple[Node, ...]:
        start = len(scope.nodes)
        inner = Scope(scope, certain=False) if self.beyond else scope
        own = len(inner.nodes)
        for read in kept_reads(stage, ""):
            self.lowering.lower(read, inner)
        self._outer(stage, tuple(runs), (), inner)
        if self.beyond:
            scope.nodes.append(If(Guard(self.beyond), tuple(inner.nodes)))
            own = start
        hoisted, loops = scope.nodes[start:own], scope.nodes[own:]
        nodes = (*hoisted, *(node for run in runs for node in first_values(run)), *loops)
        scope.nodes.clear()
        return nodes

    def _outer(self, stage: Stage, runs: tuple[Running, ...], dropped: tuple[Expr, ...], scope: Scope) -> None:
        """The loops over the slower indices of the reduction, the last of which several rows of threads share."""
        lowering = self.lowering
        index = next(index for index in stage.indices if index.name not in lowering.symbols)
        if index == stage.fastest:
            self._along(stage, runs, dropped, scope)
            return
        shared = index == stage.indices[-2] and self.shape.across > 1
        terms = ranged(self.found, stage, runs, index, lowering)
        first, step = (terms.start + self.y, self.shape.across) if shared else (terms.start, 1)
        own = loop_index(self.found, lowering, index, first, terms.stop, step)
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        self._outer(stage, runs, (*dropped, *terms.upper, *terms.lower), inner)
        together = self.shape.unroll // self._rounds(stage) if index == stage.indices[-2] else 0
        scope.nodes.append(For(Loop(own, first, terms.stop, step, unroll_by=together), tuple(inner.nodes)))
        del lowering.symbols[index.name]

    def _rounds(self, stage: Stage) -> int:
        """How often a thread goes on along the row, at most."""
        return -(-self.found.most(stage.fastest) // (self.shape.threads * self.shape.width))

    def _loop(self, stage: Stage, own: Index, first: Integer, stop: Integer, step: int) -> Loop:
        """A loop along the row with several rounds side by side: all of them where rows follow each other in a loop."""
        rounds = self._rounds(stage)
        if len(stage.indices) > 1 and 1 < rounds <= 4:
            return Loop(own, first, stop, step, unroll=True)
        return Loop(own, first, stop, step, unroll_by=min(self.shape.unroll, rounds) if rounds > 1 else 0)

    def _along(self, stage: Stage, runs: tuple[Running, ...], dropped: tuple[Expr, ...], scope: Scope) -> None:
        """The loops along the row: over vectors, and before and after them over the elements that fill none."""
        found, lowering, width = self.found, self.lowering, self.shape.width
        index = stage.fastest
        terms = ranged(found, stage, runs, index, lowering)
        dropped += (*terms.upper, *terms.lower)
        wide = together(found, stage, width) if width > 1 else ()
        if not wide:
            self._elements(named_stop(found, terms, lowering, scope), terms.start, dropped, scope)
            return
        place = (offset(found, wide[0], lowering.symbols, index.name) + terms.start).expand()
        place = sympy.Add(*(term for term in sympy.Add.make_args(place) if not self._is_multiple(term)))
        is_aligned = place == 0
        is_whole = is_aligned and self._is_multiple(terms.stop - terms.start)
        terms = named_stop(found, terms, lowering, scope)
        start = terms.start
        if not is_aligned:
            ahead = Mod(width - Mod(place, integer(width)), integer(width))
            start = lowering.define("first", terms.start + ahead, scope)
            self._elements(replace(terms, stop=Minimum(start, terms.stop)), terms.start, dropped, scope, wish="head")
        stop = terms.stop if is_whole else terms.stop - (width - 1)
        first, step = start + self.x * width, self.shape.threads * width
        wish = f"first_{index.name}" if needs_place(stage, index.name, wide, dropped) else ""
        own = loop_index(found, lowering, index, first, terms.stop, step, wish)
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        take_neighbours(
            terms, Neighbours(index.name, width, wide, self.vectors), lowering, inner, dropped, lambda _, __: runs
        )
        scope.nodes.append(For(self._loop(stage, own, first, stop, step), tuple(inner.nodes)))
        del lowering.symbols[index.name]
        if not is_whole:
            rest = start + FloorDiv(terms.stop - start, integer(width)) * width
            if bounds(terms.stop - start, lowering.ranges)[0] < 0:
                rest = Maximum(rest, start)
            self._elements(terms, rest, dropped, scope, wish="tail")

    def _is_multiple(self, expr: Integer) -> bool:
        """Whether the width surely divides it."""
        return divisor(expr.xreplace(self.starts).expand(), self.request.context) % self.shape.width == 0

    def _elements(
        self, terms: Terms, start: Integer, dropped: tuple[Expr, ...], scope: Scope, *, wish: str = ""
    ) -> None:
        """A loop over single elements."""
        lowering, threads, index = self.lowering, self.shape.threads, terms.stage.fastest
        first = start + self.x
        own = loop_index(self.found, lowering, index, first, terms.stop, threads, wish)
        low = bounds(terms.stop - first, lowering.ranges)[0]
        inner = Scope(scope, frozenset((index.name,)), certain=low >= 1)
        take(terms, lowering, inner, dropped)
        loop = self._loop(terms.stage, own, first, terms.stop, threads)
        if wish:
            loop = Loop(own, first, terms.stop, threads)
        scope.nodes.append(For(loop, tuple(inner.nodes)))
        del lowering.symbols[index.name]


def loop_index(
    found: Reduction, lowering: Lowering, index: spec.Index, first: Integer, stop: Integer, step: int, wish: str = ""
) -> Index:
    """A loop's variable, wide where the step beyond the end could overflow an int; loops side by side share names."""
    high = bounds(stop, lowering.ranges)[1]
    last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
    own = replace(shared_loop_variable(wish or index.name, (0, last), lowering), definition=first)
    lowering.limits[own.symbol] = found.extent(index)
    lowering.symbols[index.name] = own.symbol
    return own


def running(found: Reduction, reduction: Reduce, lowering: Lowering) -> Running:
    """Names for its running values."""
    value = Local(lowering.names.allocate(_wishes(found)[reduction]), reduction.dtype)
    if reduction.kind not in ("argmax", "argmin"):
        return Running(reduction.kind, value)
    name = "largest" if reduction.kind == "argmax" else "smallest"
    return Running(reduction.kind, value, Local(lowering.names.allocate(name), reduction.body.dtype))


def _wishes(found: Reduction) -> dict[Reduce, str]:
    """What the reductions are called: by their kind, and where there are several of one kind by what they take."""
    wishes: dict[Reduce, str] = {}
    for stage in found.stages:
        for reduction in stage.reductions:
            word = ACCUMULATORS[reduction.kind]
            own = ["sum_of_squares"] if reduction.kind == "sum" and _is_square(reduction.body) else []
            own += [f"{word}_of_{read.array.lower()}" for read in stage.reads if read in walk(reduction)]
            targets = [s.target.lower() for s in found.request.group.statements if reduction in walk(s.value)]
            candidates = [word, *own, *(f"{word}_for_{target}" for target in targets)]
            wishes[reduction] = next((c for c in candidates if c not in wishes.values()), word)
    return wishes


def _is_square(body: Expr) -> bool:
    match body:
        case Op(name="mul", args=(first, second)):
            return first == second
        case Op(name="pow", args=(_, Const(value=2))):
            return True
    return False
