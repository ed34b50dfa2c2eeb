"""Scans across memory: neighbouring threads have neighbouring columns and walk along them, alone or with others that
have the next stretch of the same columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cugen.families.blocks import define, lay_blocks, limit, thread
from cugen.families.grid import divides
from cugen.families.prefix import WARP, Names, above, joined, scan_lanes
from cugen.families.scan_elements import Elements
from cugen.families.scan_form import Work, ends_with_step, segment_ends
from cugen.families.scan_registers import Registers, guarded
from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Barrier,
    Comment,
    Comparison,
    Declare,
    Define,
    Element,
    For,
    Guard,
    If,
    Index,
    Let,
    Loop,
    Node,
    ReturnUnless,
    Store,
    Vector,
)
from cugen.plan.lowering import Lowering
from cugen.plan.reductions import identity
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Local

Parts = tuple[tuple[str, tuple[Node, ...]], ...]


@dataclass(frozen=True, slots=True)
class Strips:
    """`threads` beside each other, each with `width` columns; `strips` of them follow each other along the scan, and
    take `vectors` elements of each column in a step."""

    threads: int
    strips: int
    vectors: int
    width: int

    @property
    def step(self) -> int:
        return self.strips * self.vectors

    @property
    def in_a_warp(self) -> int:
        """Strips that follow each other in a warp."""
        return min(max(WARP // self.threads, 1), self.strips)

    @property
    def groups(self) -> int:
        """Strips, or warps of strips, that meet in shared memory."""
        return self.strips // self.in_a_warp


class ColumnScan:
    """The kernel's parts, its grid and its block."""

    def __init__(self, work: Work, lowering: Lowering, strips: Strips) -> None:
        self.work, self.lowering, self.strips = work, lowering, strips
        self.extent = to_integer(work.along.extent, lowering.symbols)
        # What threads walk: all of a column, or a segment.
        self.walked = self.extent if work.segments is None else integer(work.segments.length)
        self.longest = bounds(self.walked, lowering.ranges)[1]
        self.columns_inside: tuple[Comparison, ...] = ()
        self.start = self._start()
        self.indices = self._indices()
        self.registers = Registers(work, lowering, strips.width, strips.vectors, None)
        self.elements = Elements(work, lowering, self.registers, max(self.longest, 1))
        self.registers.begin_at(self.first)
        self.running = {n.running.name: self._values(n) for n in self.elements.names}

    @property
    def width(self) -> int:
        return self.strips.width

    @property
    def reason(self) -> str:
        strips, along = self.strips, self.work.along.name
        beside = f"{strips.width} columns" if strips.width > 1 else "one column"
        if strips.strips == 1:
            return f"a thread has {beside} and walks along {along}, {strips.vectors} elements at a time"
        return f"{strips.strips} threads share {beside} and walk along {along}, {strips.step} elements at a time"

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.strips.threads, self.strips.strips, 1)

    def _indices(self) -> tuple[Node, ...]:
        lowering, strips, fast = self.lowering, self.strips, self.work.fast
        extent = to_integer(fast.extent, lowering.symbols)
        rest = [to_integer(index.extent, lowering.symbols) for index in self.work.rest]
        blocks = lay_blocks(
            [ceil_div(extent, strips.threads * strips.width), *rest], lowering, self.work.request.target
        )
        self.grid = blocks.grid
        nodes: list[Node] = []
        for row, count, place in zip(self.work.rest, rest, blocks.places[1:], strict=True):
            node = define(row.name, place, lowering, below=count)
            lowering.symbols[row.name] = node.index.symbol
            limit(node.index, count, lowering)
            nodes.insert(0, node)
        number = blocks.places[0] * strips.threads + thread("x", strips.threads, lowering)
        name = fast.name if strips.width == 1 else "first"
        node = define(name, number * strips.width, lowering)
        self.first = lowering.symbols[fast.name] = node.index.symbol
        nodes.append(node)
        if not divides(strips.threads * strips.width, extent, self.work.request.context):
            inside = Comparison(node.index.symbol, "<", extent)
            if strips.strips == 1:
                nodes.append(ReturnUnless(Guard((inside,))))
            else:
                self.columns_inside = (inside,)
        limit(node.index, extent, lowering)
        if strips.in_a_warp > 1:
            strip = thread("y", strips.strips, lowering)
            lane = define(
                "lane",
                Mod(strip, integer(strips.in_a_warp)) * strips.threads + thread("x", strips.threads, lowering),
                lowering,
            )
            self.lane = lane.index
            nodes.append(lane)
        return tuple(nodes)

    # Running values, one for each column of the thread

    def _values(self, names: Names) -> tuple[Local, Local, Local]:
        """The running value, what all steps before combine to, and what the thread's own elements do."""
        if self.strips.width == 1:
            return names.running, names.so_far, names.own
        dtype, width = names.scan.dtype, self.strips.width

        def vector(local: Local) -> Vector:
            return Vector(local.name, dtype, dtype, width)

        return vector(names.running), vector(names.so_far), vector(names.own)

    def _columns(self, which: int) -> list[Local]:
        """The value of each scan in the present column."""
        found = [values[which] for values in self.running.values()]
        return [v.component(self.registers.number.symbol) if isinstance(v, Vector) else v for v in found]

    def _start_at_nothing(self, which: int) -> tuple[Node, ...]:
        nodes: list[Node] = []
        inner: list[Node] = []
        for names, values, present in zip(
            self.elements.names, self.running.values(), self._columns(which), strict=True
        ):
            nothing = identity(names.scan.kind, names.scan.dtype)
            if not isinstance(values[which], Vector) or names.scan.kind == "sum":
                nodes.append(Let(values[which], nothing, mutable=True))
            else:
                nodes.append(Let(values[which], None, mutable=True))
                inner.append(Assign(present, nothing))
        return (*nodes, *self._each_column(inner))

    def _each_column(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return self.registers.each_element(nodes)

    # The walk

    def parts(self) -> Parts:
        lowering, elements, strips = self.lowering, self.elements, self.strips
        lowering.prepare(tuple(s.value for s in self.work.request.group.statements))
        top = Scope()
        low = bounds(self.extent, lowering.ranges)[0]
        body = Scope(top, certain=low >= 1)
        start = self.start
        own, inside = self._position(start)
        lowering.symbols[self.work.along.name] = own.index.symbol
        inside = Guard((*self.columns_inside, *inside.terms))
        load = elements.each_vector(own, self.registers.load(inside))
        if strips.vectors == 1:
            load = (own, *load)
        self.shared = {n.shared: self._group_results(n) for n in elements.names} if strips.strips > 1 else {}
        across = self._across(body, own, inside, start) if strips.strips > 1 else ()
        slot = Scope(body, frozenset((self.work.along.name,)), certain=not inside.terms)
        stored = elements.store_results(slot, self._columns(0), Guard(()))
        result = elements.each_vector(own, guarded(inside, (*slot.nodes, *stored)))
        if strips.strips > 1:
            result = (Comment("The running values, element by element."), *result)
        carried = self._start_at_nothing(1 if strips.strips > 1 else 0)
        registers = self.registers.declare(inside, zeroed=False)
        walk: tuple[Node, ...] = (*body.nodes, *registers, *load, *across, *result)
        if self.longest > strips.step:
            index = Index(str(start), start, lowering.ranges[start])
            walk = (For(Loop(index, integer(0), self.walked, strips.step), walk),)
        return (
            ("indices", self.indices),
            ("shared", tuple(Declare(array) for array in self.shared.values())),
            ("rows", (*top.nodes, *carried, *walk)),
        )

    def _start(self) -> Integer:
        if self.longest <= self.strips.step:
            return integer(0)
        lowering, step = self.lowering, self.strips.step
        whole_steps = divides(step, self.walked, self.work.request.context)
        last = self.longest - (step if whole_steps else 1)
        # The step beyond the last element must not overflow the loop's index.
        most = last if last + step <= INT32_MAX else last + step
        index = Index(lowering.names.allocate("start"), integer(0), (0, most))
        lowering.ranges[index.symbol] = index.range
        return index.symbol

    def _position(self, start: Integer) -> tuple[Define, Guard]:
        """The thread's present element of each column, and when there is one."""
        ahead = start + thread("y", self.strips.strips, self.lowering) * self.strips.vectors + self.registers.place
        name = self.work.along.name
        begin, end = segment_ends(self.work, self.extent, self.lowering)
        if self.work.walk.reverse:
            own = define(name, end - 1 - ahead, self.lowering)
            guard = Guard((Comparison(own.index.symbol, ">=", begin),))
        else:
            own = define(name, begin + ahead, self.lowering)
            guard = Guard((Comparison(own.index.symbol, "<", self.extent),))
        if ends_with_step(self.work, self.extent, self.strips.step, self.lowering):
            guard = Guard(())
        return own, self.lowering.needed(guard)

    def _group_results(self, names: Names) -> Array:
        """A place in shared memory for what each group of strips combines to, in each of its columns."""
        strips = self.strips
        sizes = [strips.width, strips.groups, strips.threads]
        if self.longest > strips.step:
            sizes.insert(0, 2)
        if strips.width == 1:
            sizes.remove(1)
        shape = tuple(map(integer, sizes))
        strides = tuple(integer(math.prod(sizes[n + 1 :])) for n in range(len(sizes)))
        return Array("", names.shared, names.scan.dtype, shape, strides, "shared", flat=False)

    def _result_of(self, names: Names, group: Integer, kind: str, start: Integer) -> Access:
        """The present column of a group of strips."""
        strips = self.strips
        buffer = () if self.longest <= strips.step else (Mod(FloorDiv(start, integer(strips.step)), integer(2)),)
        column = () if strips.width == 1 else (self.registers.number.symbol,)
        place = (*buffer, *column, group, thread("x", strips.threads, self.lowering))
        return Access(self.shared[names.shared], place, kind)

    def _across(self, body: Scope, own: Define, inside: Guard, start: Integer) -> tuple[Node, ...]:
        """What the strips in front combine to, and the carry of the step."""
        strips, elements = self.strips, self.elements
        slot = Scope(body, frozenset((self.work.along.name,)), certain=not inside.terms)
        partial = elements.combine(slot, self._columns(2), Guard(()))
        other = Index(self.lowering.names.allocate("group"), integer(0), (0, strips.groups - 1))
        self.lowering.ranges[other.symbol] = other.range
        group = FloorDiv(thread("y", strips.strips, self.lowering), integer(strips.in_a_warp))
        reached = If(
            Guard((Comparison(other.symbol, "==", group),)),
            tuple(Assign(values[0], values[1]) for values in self.running.values()),
        )
        take = [
            Assign(value, joined(n, value, Element.of(self._result_of(n, other.symbol, "load", start))))
            for n, value in zip(elements.names, self._columns(1), strict=True)
        ]
        join = [
            Assign(value, joined(n, value, own))
            for n, value, own in zip(elements.names, self._columns(0), self._columns(2), strict=True)
        ]
        return (
            Comment("What each strip combines to, and what the strips in front of it do."),
            *self._start_at_nothing(2),
            *elements.each_vector(own, guarded(inside, (*slot.nodes, *partial))),
            *self._each_column(tuple(self._tell_groups(group, start))),
            Barrier(),
            *(Let(values[0], None, mutable=True) for values in self.running.values()),
            For(Loop(other, integer(0), integer(strips.groups), unroll=True), (reached, *self._each_column(take))),
            *(self._each_column(join) if strips.in_a_warp > 1 else ()),
        )

    def _tell_groups(self, group: Integer, start: Integer) -> Iterator[Node]:
        """Strips of a warp combine by shuffles; the last one tells the other groups. Afterwards a strip's own value is
        what those before it in the warp combine to."""
        strips, names, own = self.strips, self.elements.names, self._columns(2)
        results = [self._result_of(n, group, "store", start) for n in names]
        if strips.in_a_warp == 1:
            yield from (Store(result, value) for result, value in zip(results, own, strict=True))
            return
        apart, lanes = strips.threads, strips.threads * strips.in_a_warp
        scans = [replace(n, own=Local(n.before, n.scan.dtype)) for n in names]
        yield from (Let(scan.own, value, mutable=True) for scan, value in zip(scans, own, strict=True))
        yield from scan_lanes(scans, self.lane.name, lanes, apart, self.lowering)
        for scan, value in zip(scans, own, strict=True):
            nothing = identity(scan.scan.kind, scan.scan.dtype)
            yield Assign(value, above(self.lane.name, apart, scan.lower, nothing))
        last = Guard((Comparison(self.lane.symbol, ">=", integer(lanes - apart)),))
        yield If(last, tuple(Store(result, scan.own) for result, scan in zip(results, scans, strict=True)))
