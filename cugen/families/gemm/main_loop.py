"""The walk of a product along its sum: copies that run ahead, reads of the next k, multiply-adds of this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.copy.pipeline import Ring
from cugen.families.gemm.fragments.simt import Fragments
from cugen.families.gemm.fragments.tensor import TensorFragments
from cugen.pieces.blocks import define
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    AwaitCopies,
    Barrier,
    Comment,
    CommitCopies,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Index,
    Loop,
    Node,
    Store,
    NamedBarrier,
)
from cugen.plan.scopes import Scope
from cugen.plan.substitution import substitute
from cugen.plan.symbols import Choice, FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Op, Read


class Walk:
    """A block's steps along `extent` of the summed index, which are `depth` with what fills up the first one; each
    thread adds to its `sums`, whose `groups` lie side by side."""

    def __init__(
        self, place: Place, rings: list[Ring], sums: Array, groups: tuple[int, int], extent: Integer, depth: Integer
    ) -> None:
        self.place, self.rings, self.sums = place, rings, sums
        self.groups, self.extent, self.depth = groups, extent, depth
        self.waits = any(ring.asynchronous for ring in rings)
        self.fewest = bounds(depth, place.lowering.ranges)[0]

    def first_stages(self) -> tuple[Node, ...]:
        """What the ring holds before the first step is computed."""
        place, shape = self.place, self.place.shape
        stage = place.loop_index("stage", shape.stages - 1)
        copies: list[Node] = []
        first: Integer = stage.symbol * shape.step
        certain = place.lead == 0 and self.fewest >= shape.step
        if certain and self.fewest < (shape.stages - 1) * shape.step:
            # Where there are fewer steps than stages, the last one is copied again.
            clamped = define("at_k", Minimum(first, self.depth - shape.step), place.lowering)
            copies.append(clamped)
            first = clamped.index.symbol
        for ring in self.rings:
            copies += ring.copies(stage.symbol, first, certain=certain)
        if self.waits:
            copies.append(CommitCopies())
        starts = tuple(ring.start for ring in self.rings if ring.start is not None)
        return (*starts, For(Loop(stage, integer(0), integer(shape.stages - 1), unroll=True), tuple(copies)))

    def steps(self) -> tuple[Node, ...]:
        """All steps. The values of the first k are read before them, those of each next k while the one before is
        multiplied, also across the barrier between two steps."""
        place, rings, waits, depth = self.place, self.rings, self.waits, self.depth
        found, shape, lowering = place.found, place.shape, place.lowering
        steps = bounds(ceil_div(self.extent, shape.step), lowering.ranges)[1]
        name = lowering.names.allocate(f"{found.k.name}0")
        past = Index(name, integer(0), (0, steps * shape.step))
        lowering.ranges[past.symbol] = (0, max(steps - 1, 0) * shape.step)
        step = FloorDiv(past.symbol, integer(shape.step))
        held = (
            TensorFragments(place, rings, self.sums)
            if shape.is_on_tensor_cores
            else Fragments(place, rings, self.groups)
        )
        own, pace = place.slice * shape.own_step, shape.pace
        in_shares = shape.is_on_tensor_cores and all(ring.is_spread_by(shape.own_step // pace) for ring in rings)
        turns = _Turns(step, steps, shape.stages, lowering)
        into = turns.define("next", shape.stages - 1)
        behind = past.symbol + (shape.stages - 1) * shape.step
        # Without a branch the compiler puts copies between multiply-adds.
        may_repeat = self.fewest >= (2 if place.lead != 0 else 1) * shape.step
        again = (Comment("behind the end of the sum its last step is copied again"),) if may_repeat else ()
        ahead = define("ahead", Minimum(behind, depth - shape.step) if may_repeat else behind, lowering)
        apart = shape.copies == "apart"
        assert not apart or (may_repeat and steps >= shape.stages)

        def copies_of(ring: Ring, share: tuple[Integer, int] | None = None) -> tuple[Node, ...]:
            return ring.copies(into.index.symbol, ahead.index.symbol, certain=True, share=share)

        def copies(done: Integer, count: int) -> tuple[Node, ...]:
            if steps < shape.stages:
                return ()
            parts = (node for ring in rings for node in copies_of(ring, (done, count)))
            nodes = (*(() if in_shares else (into, *again, ahead)), *parts)
            return nodes if may_repeat else (If(Guard((Comparison(behind, "<", depth),)), nodes),)

        def multiply(turn: Integer) -> tuple[Node, ...]:
            if isinstance(held, TensorFragments):
                return held.multiply(turn)
            return self._outer_product(held.factors(turn))

        commit = (CommitCopies(),) if waits else ()
        barrier = NamedBarrier(place.slice, shape.team_threads) if shape.teams > 1 else Barrier()
        arrival = (*((AwaitCopies(shape.stages - 2),) if waits else ()), barrier)
        following = turns.define("following", 1)
        k = place.loop_index(found.k.name, shape.own_step)
        turn = FloorDiv(k.symbol, integer(pace))
        inner = (
            *(self._apart(k, [copies_of(ring) for ring in rings], commit) if apart else ()),
            *held.read(turns.current.index.symbol, own + k.symbol, Mod(turn, integer(2))),
            *(copies(k.symbol - pace, pace) if in_shares else ()),
            *multiply(Mod(turn + 1, integer(2))),
        )
        body = (
            turns.current,
            *((into, *again, ahead) if apart or (in_shares and steps >= shape.stages) else ()),
            *(() if apart or in_shares else (*copies(integer(0), shape.own_step), *commit)),
            For(Loop(k, integer(pace), integer(shape.own_step), pace, unroll=True), inner),
            *((*copies(integer(shape.own_step - pace), pace), *commit) if in_shares else ()),
            *arrival,
            Comment("what follows the last step is read in vain"),
            following,
            *held.read(following.index.symbol, own, integer(0)),
            *multiply(integer(1)),
        )
        first = held.read(integer(0), own, integer(0))
        walk = (
            *arrival,
            Comment(f"{held.what}: one is multiplied while the other is read"),
            *held.declarations(),
            *first,
            For(Loop(past, integer(0), depth, shape.step), body),
        )
        # Sums are left where these copies go, and the next tile's steps will lie there.
        is_late = waits and (shape.leaves_sums or shape.stream > 0)
        late = Comment("copies that nobody reads may still be on their way")
        return (*walk, late, AwaitCopies(0)) if is_late else walk

    def _apart(self, k: Index, copies: list[tuple[Node, ...]], commit: tuple[Node, ...]) -> Iterator[Node]:
        """One operand's copies beside the products of a quarter of the step, the other one's beside those of half."""
        own = self.place.shape.own_step
        left, right = copies
        early, late = max(own // 4, 1), max(own // 2, 1)
        turns = {early: (*left, *right, *commit)} if early == late else {early: left, late: (*right, *commit)}
        for turn, nodes in turns.items():
            yield If(Guard((Comparison(k.symbol, "==", integer(turn)),)), nodes)

    def _outer_product(self, factors: dict[Read, Expr]) -> tuple[Node, ...]:
        """The products of all that a thread holds of one k are added to its sums."""
        place, shape, sums = self.place, self.place.shape, self.sums
        i, j = place.loop_index("i", shape.thread_rows), place.loop_index("j", shape.thread_columns)
        (reduction,) = place.found.sums
        scope = Scope()
        term = place.lowering.lower(substitute(reduction.body, {}, factors.get), scope)
        at = (i.symbol, j.symbol)
        add: Node = Accumulate(Access(sums, at, "store"), term)
        if not sums.dtype.is_float:
            total = Op("add", (Element.of(Access(sums, at, "load")), term), sums.dtype)
            add = Store(Access(sums, at, "store"), total)
        body = (*scope.nodes, add)
        outer, inner = (i, shape.thread_rows), (j, shape.thread_columns)
        winds = shape.order in ("serpentine", "zigzag")
        if shape.order == "columns" or (winds and shape.thread_columns > shape.thread_rows):
            outer, inner = inner, outer
        if not winds:
            return (_unrolled(outer, (_unrolled(inner, body),)),)
        lines, (along, count) = outer, inner
        line = "row" if along == j else "column"
        if shape.order == "serpentine" or lines[1] % 2:
            turn = place.loop_index("t", count)
            walked = _to_and_fro(along, lines[0].symbol, turn.symbol, count)
            text = f"serpentine: every other {line} is walked backwards"
            return (_unrolled(lines, (_unrolled((turn, count), (Comment(text), Define(walked), *body)),)),)
        pair, turn = place.loop_index("p", lines[1] // 2), place.loop_index("t", 2 * count)
        walked = _to_and_fro(along, pair.symbol, FloorDiv(turn.symbol, integer(2)), count)
        either = Mod(turn.symbol + FloorDiv(turn.symbol, integer(2)), integer(2))
        crossed = Index(lines[0].name, 2 * pair.symbol + either, lines[0].range)
        text = f"zigzag: two {line}s at a time, every other two are walked backwards"
        zigzag = (Comment(text), Define(walked), Define(crossed), *body)
        return (_unrolled((pair, lines[1] // 2), (_unrolled((turn, 2 * count), zigzag),)),)


class _Turns:
    """Which stage of a ring the step has, and those before and behind it. Where the ring goes round, the loop counts
    stages beside the steps: a remainder in each of them would cost more instructions than all else that is counted."""

    def __init__(self, step: Integer, steps: int, stages: int, lowering: Lowering) -> None:
        self.step, self.stages, self.lowering = step, integer(stages), lowering
        self.goes_round = steps > stages
        current = define("current", Mod(step, self.stages), lowering)
        self.current = replace(current, then=self._shown(current, 1)) if self.goes_round else current

    def define(self, wish: str, distance: int) -> Define:
        """The stage that is so many behind the step's."""
        node = define(wish, Mod(self.step + distance, self.stages), self.lowering)
        if not self.goes_round:
            return node
        return replace(node, index=replace(node.index, shown=self._shown(self.current, distance)))

    def _shown(self, current: Define, distance: int) -> Integer:
        now = current.index.symbol
        if self.stages == 2:
            return 1 - now
        if distance == 1:
            return Choice(now, self.stages - 1, now + 1, integer(0))
        assert distance == self.stages - 1
        return Choice(integer(0), now, now - 1, self.stages - 1)


def _to_and_fro(along: Index, line: Integer, turn: Integer, count: int) -> Index:
    """The place on a line after so many turns, on every other line counted from its end."""
    return Index(along.name, turn + Mod(line, integer(2)) * (count - 1 - 2 * turn), along.range)


def _unrolled(walk: tuple[Index, int], body: tuple[Node, ...]) -> Node:
    index, count = walk
    return For(Loop(index, integer(0), integer(count), unroll=True), body)
