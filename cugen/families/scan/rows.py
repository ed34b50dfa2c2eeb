"""Scans along neighbours in memory: a team of threads walks each row in steps, every thread a few vectors at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.scan.elements import Elements
from cugen.families.scan.recognition import Work
from cugen.families.scan.registers import Registers
from cugen.families.scan.steps import steps_of
from cugen.pieces import block_reduce as collective
from cugen.pieces.block_reduce import Running, combine_team
from cugen.pieces.block_scan import WARP, Names, above, joined, scan_lanes, warp_results, whole
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.pieces.grid import divides
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, accumulate, identity
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comment,
    Comparison,
    Declare,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Loop,
    Node,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Reduce

Parts = tuple[tuple[str, tuple[Node, ...]], ...]


@dataclass(frozen=True, slots=True)
class Team:
    """`threads` walk a row together, each with `vectors` of `width` elements a step; `rows` such teams are a block.
    `ahead`: while they scan a step, they load the next one."""

    threads: int
    rows: int
    vectors: int
    width: int
    ahead: bool = False

    @property
    def lanes(self) -> int:
        return min(self.threads, WARP)

    @property
    def warps(self) -> int:
        return max(self.threads // WARP, 1)

    @property
    def step(self) -> int:
        return self.threads * self.vectors * self.width


class RowScan:
    """The kernel's parts, its grid and its block."""

    def __init__(self, work: Work, lowering: Lowering, team: Team) -> None:
        self.work, self.lowering, self.team = work, lowering, team
        self.blocks = self._blocks()
        self.rows_inside: tuple[Comparison, ...] = ()
        self.steps = steps_of(work, lowering, team.step)
        self.indices = self._indices()
        extent = self.steps.extent
        end = None if divides(team.width, extent, work.request.context) else extent
        self.registers = Registers(work, lowering, team.width, team.vectors, end)
        padded = -(-self.steps.longest // team.step) * team.step
        self.elements = Elements(work, lowering, self.registers, padded)

    def _blocks(self) -> Blocks:
        counts = [to_integer(index.extent, self.lowering.symbols) for index in self.work.rest]
        counts[:1] = [ceil_div(count, self.team.rows) for count in counts[:1]]
        return lay_blocks(counts or [integer(1)], self.lowering, self.work.request.target)

    @property
    def width(self) -> int:
        return self.team.width

    @property
    def reason(self) -> str:
        team, along = self.team, self.work.along.name
        if team.threads == 1:
            return f"one thread walks along {along}, {team.vectors * team.width} elements at a time"
        return f"{team.threads} threads walk along {along} together, {team.step} neighbours at a time"

    @property
    def grid(self) -> tuple[Integer, Integer, Integer]:
        return self.blocks.grid

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.team.threads, self.team.rows, 1)

    def _indices(self) -> tuple[Node, ...]:
        """The row, and the thread's place in its team. A row that isn't there is the last one once more, since all
        lanes of a warp take part in shuffles; nothing of it is stored."""
        lowering, team, nodes = self.lowering, self.team, list[Node]()
        for axis, (row, place) in enumerate(zip(self.work.rest, self.blocks.places, strict=False)):
            extent = to_integer(row.extent, lowering.symbols)
            size = team.rows if axis == 0 else 1
            number = place * size + thread("y", size, lowering)
            if axis == 0 and not divides(size, extent, self.work.request.context):
                asked = define(f"own_{row.name}", number, lowering, below=ceil_div(extent, size) * size)
                self.rows_inside = (Comparison(asked.index.symbol, "<", extent),)
                node = define(row.name, Minimum(asked.index.symbol, extent - 1), lowering)
                nodes[:0] = [asked, node]
            else:
                node = define(row.name, number, lowering, below=extent)
                nodes.insert(0, node)
            lowering.symbols[row.name] = node.index.symbol
            limit(node.index, extent, lowering)
        number = thread("x", team.threads, lowering)
        lane = define("lane", Mod(number, integer(WARP)) if team.warps > 1 else number, lowering)
        self.lane = lane.index
        nodes.append(lane)
        self.warp: Index | None = None
        if team.warps > 1:
            warp = define("warp", FloorDiv(number, integer(WARP)), lowering)
            self.warp = warp.index
            nodes.append(warp)
        return tuple(nodes)

    # The walk

    def parts(self) -> Parts:
        lowering, names, registers = self.lowering, self.elements.names, self.registers
        lowering.prepare(tuple(s.value for s in self.work.request.group.statements))
        top = Scope()
        body = Scope(top, certain=bounds(self.steps.extent, lowering.ranges)[0] >= 1)
        shared: dict[str, Array] = {}
        if self.warp is not None:
            buffers = 1 if self.steps.is_one else 2
            shared = {n.shared: self._warp_results(n, buffers) for n in names}
        fronts = tuple(node for front in self.work.fronts for node in self._look_back(front, top))
        first, inside = self._place("", self.steps.start)
        if self.team.ahead and not self.steps.is_one and self.team.vectors > 1:
            before, load = self._load_ahead()
            registers.begin_at(first.index.symbol)
        else:
            registers.begin_at(first.index.symbol)
            before = registers.declare(inside, zeroed=bool(inside.terms) or registers.end is not None)
            load = self.elements.each_vector(first, registers.load(inside))
        if self.team.vectors == 1:
            load = (first, *load)
        partial = self._partial(body, first, inside)
        across = self._across(shared)
        result = self._result(body, first, inside)
        walk = self.steps.loop((*body.nodes, *load, *partial, *across, *result))
        return (
            ("indices", self.indices),
            ("shared", tuple(Declare(array) for array in shared.values())),
            ("rows", (*fronts, *top.nodes, *before, *self._carried(), *walk)),
        )

    def _warp_results(self, names: Names, buffers: int) -> Array:
        return warp_results(names, self.team.warps, buffers)

    def _look_back(self, front: Reduce, top: Scope) -> tuple[Node, ...]:
        """Lanes share what the segments in front of the present one combine to; every warp does it for itself."""
        lowering = self.lowering
        (bound,) = front.indices
        count = to_integer(bound.extent, lowering.symbols)
        high = bounds(count, lowering.ranges)[1]
        running = Local(lowering.names.allocate(f"{ACCUMULATORS[front.kind]}_of_segments"), front.dtype)
        index = Index(lowering.names.allocate("earlier"), self.lane.symbol, (0, max(high - 1, 0)))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = count
        lowering.symbols[bound.name] = index.symbol
        inner = Scope(top, frozenset((bound.name,)), certain=False)
        accumulate(lowering, front, running, inner)
        del lowering.symbols[bound.name]
        top.remember(front, running)
        return (
            Comment("What the segments in front combine to; every warp does it for itself."),
            Let(running, identity(front.kind, front.dtype), mutable=True),
            For(Loop(index, self.lane.symbol, count, WARP, unroll_by=8), tuple(inner.nodes)),
            *combine_team(
                collective.Team(WARP, self.lane.symbol), (Running(front.kind, running),), lowering, everywhere=True
            ),
        )

    def _load_ahead(self) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The loads of the first step, and in each step those of the next one: they are under way while the threads
        scan what they have."""
        ahead = self.registers.ahead()
        declared = (*self.registers.declare(Guard(()), zeroed=False), *ahead.declare(Guard(()), zeroed=True))
        loads = []
        for prefix, start in (("initial_", integer(0)), ("next_", self.steps.start + self.team.step)):
            first, inside = self._place(prefix, start, certain=False)
            ahead.begin_at(first.index.symbol)
            loads.append(self.elements.each_vector(first, ahead.load(inside)))
        here, following = loads
        take = self.elements.each_vector(None, self.registers.take(ahead))
        return (*declared, *here), (*take, *following)

    def _place(self, prefix: str, start: Integer, *, certain: bool = True) -> tuple[Define, Guard]:
        """Where the thread's present vector begins in the step from `start`, and when it is inside."""
        team = self.team
        ahead = start + self.lane.symbol * team.width + self.registers.place * (team.lanes * team.width)
        if self.warp is not None:
            ahead += self.warp.symbol * (team.vectors * team.lanes * team.width)
        name = self.work.along.name if team.width == 1 else "first"
        return self.steps.place(f"{prefix}{name}", ahead, team.width, certain=certain)

    def _carried(self) -> Iterator[Node]:
        """What all steps before combine to."""
        for names in self.elements.names:
            nothing = identity(names.scan.kind, names.scan.dtype)
            if self.warp is None:
                yield Let(names.warp, nothing, mutable=True)
            elif not self.steps.is_one:
                yield Let(names.so_far, nothing, mutable=True)

    def _partial(self, body: Scope, first: Define, inside: Guard) -> tuple[Node, ...]:
        """What comes before each of the thread's vectors in its warp's stretch of the step."""
        names, lanes = self.elements.names, self.team.lanes
        nodes: list[Node] = [Let(n.own, identity(n.scan.kind, n.scan.dtype), mutable=True) for n in names]
        nodes += self.elements.combine(body, [n.own for n in names], inside)
        if lanes > 1:
            nodes += scan_lanes(names, self.lane.name, lanes, 1, self.lowering)
        for n in names:
            if lanes == 1:
                nodes += [self._set_before(n, n.warp), Assign(n.warp, joined(n, n.warp, n.own))]
                continue
            nodes.append(self._set_before(n, above(self.lane.name, 1, joined(n, n.warp, n.lower), n.warp)))
            nodes.append(Assign(n.warp, joined(n, n.warp, whole(n, lanes))))
        declared: list[Node] = []
        for n in names:
            if self.team.vectors > 1:
                declared.append(Declare(self._before(n)))
            else:
                declared.append(Let(Local(n.before, n.scan.dtype), None, mutable=True))
            if self.warp is not None:
                declared.append(Let(n.warp, identity(n.scan.kind, n.scan.dtype), mutable=True))
        where = "" if self.warp is None else " in the stretch of its warp"
        return (Comment(f"What comes before each vector{where}."), *declared, *self.elements.each_vector(first, nodes))

    def _before(self, names: Names) -> Array:
        shape = (integer(self.team.vectors),)
        return Array("", names.before, names.scan.dtype, shape, (integer(1),), "register", flat=False)

    def _set_before(self, names: Names, value: Expr) -> Node:
        if self.team.vectors > 1:
            return Store(Access(self._before(names), (self.registers.place,), "store"), value)
        return Assign(Local(names.before, names.scan.dtype), value)

    def _get_before(self, names: Names) -> Local:
        if self.team.vectors > 1:
            return Element.of(Access(self._before(names), (self.registers.place,), "load"))
        return Local(names.before, names.scan.dtype)

    def _across(self, shared: dict[str, Array]) -> tuple[Node, ...]:
        """What the warps in front combine to, and the carry of the step."""
        if self.warp is None:
            return ()
        names, warps, buffer = self.elements.names, self.team.warps, self.steps.buffer
        mine = tuple(Store(Access(shared[n.shared], (*buffer, self.warp.symbol), "store"), n.warp) for n in names)
        before = tuple(Let(n.in_front, identity(n.scan.kind, n.scan.dtype), mutable=True) for n in names)
        if self.steps.is_one:
            before += tuple(Let(n.so_far, identity(n.scan.kind, n.scan.dtype), mutable=True) for n in names)
        other = Index(self.lowering.names.allocate("w"), integer(0), (0, warps - 1))
        self.lowering.ranges[other.symbol] = other.range
        reached = If(
            Guard((Comparison(other.symbol, "==", self.warp.symbol),)),
            tuple(Assign(n.in_front, n.so_far) for n in names),
        )
        take = tuple(
            Assign(n.so_far, joined(n, n.so_far, Element.of(Access(shared[n.shared], (*buffer, other.symbol), "load"))))
            for n in names
        )
        return (
            Comment("What the warps in front combine to."),
            If(Guard((Comparison(self.lane.symbol, "==", integer(0)),)), mine),
            Barrier(),
            *before,
            For(Loop(other, integer(0), integer(warps), unroll=True), (reached, *take)),
        )

    def _result(self, body: Scope, first: Define, inside: Guard) -> tuple[Node, ...]:
        """The running value from what comes before, element by element, and the statements with it."""
        start = tuple(
            Let(
                n.running,
                joined(n, n.in_front, self._get_before(n)) if self.warp is not None else self._get_before(n),
                mutable=True,
            )
            for n in self.elements.names
        )
        inside = Guard((*self.rows_inside, *inside.terms))
        stored = self.elements.store_results(body, [n.running for n in self.elements.names], inside)
        nodes = self.elements.each_vector(first, (*start, *stored))
        return (Comment("The running values, element by element."), *nodes)
