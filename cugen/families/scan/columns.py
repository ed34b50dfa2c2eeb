"""Scans across memory: neighbouring threads have neighbouring columns and walk along them, alone or with others that
have the next stretch of the same columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.scan.elements import Elements
from cugen.families.scan.recognition import Work
from cugen.families.scan.registers import Registers, guarded
from cugen.families.scan.steps import steps_of
from cugen.pieces.block_scan import WARP, Names, above, joined, scan_lanes
from cugen.pieces.blocks import define, lay_blocks, limit, thread
from cugen.pieces.grid import divides
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import identity
from cugen.plan.memory import Access, Array, Element, Vector
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
    ReturnUnless,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer
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
        self.columns_inside: tuple[Comparison, ...] = ()
        self.steps = steps_of(work, lowering, strips.step)
        self.indices = self._indices()
        self.registers = Registers(work, lowering, strips.width, strips.vectors, None)
        self.elements = Elements(work, lowering, self.registers, max(self.steps.longest, 1))
        self.registers.begin_at(self.first)
        names = self.elements.names
        self.running = tuple(self._values(n.running) for n in names)
        self.so_far = tuple(self._values(n.so_far) for n in names)
        self.own = tuple(self._values(n.own) for n in names)
        self.shared: dict[str, Array] = {}
        self.slot: Scope | None = None

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

    def _values(self, local: Local) -> Local:
        if self.strips.width == 1:
            return local
        return Vector(local.name, local.dtype, local.dtype, self.strips.width)

    def _present(self, values: tuple[Local, ...]) -> list[Local]:
        """The value of each scan in the present column."""
        number = self.registers.number.symbol
        return [value.component(number) if isinstance(value, Vector) else value for value in values]

    def _start_at_nothing(self, values: tuple[Local, ...]) -> tuple[Node, ...]:
        nodes: list[Node] = []
        inner: list[Node] = []
        for names, value, present in zip(self.elements.names, values, self._present(values), strict=True):
            nothing = identity(names.scan.kind, names.scan.dtype)
            if not isinstance(value, Vector) or names.scan.kind == "sum":
                nodes.append(Let(value, nothing, mutable=True))
            else:
                nodes.append(Let(value, None, mutable=True))
                inner.append(Assign(present, nothing))
        return (*nodes, *self.registers.each_element(inner))

    # The walk

    def parts(self) -> Parts:
        lowering, elements, strips = self.lowering, self.elements, self.strips
        lowering.prepare(tuple(s.value for s in self.work.request.group.statements))
        top = Scope()
        body = Scope(top, certain=bounds(self.steps.extent, lowering.ranges)[0] >= 1)
        strip = thread("y", strips.strips, lowering)
        ahead = self.steps.start + strip * strips.vectors + self.registers.place
        place, inside = self.steps.place(self.work.along.name, ahead)
        lowering.symbols[self.work.along.name] = place.index.symbol
        inside = Guard((*self.columns_inside, *inside.terms))
        load = (
            *self.registers.declare(inside, zeroed=False),
            *elements.each_vector(place, self.registers.load(inside)),
        )
        if strips.vectors == 1:
            load = (place, *load)
        across: tuple[Node, ...] = ()
        if strips.strips > 1:
            self.shared = {n.shared: self._group_results(n) for n in elements.names}
            across = self._across(body, place, inside)
        slot = self._slot(body, inside)
        stored = elements.store_results(slot, self._present(self.running), Guard(()))
        result = elements.each_vector(place, guarded(inside, (*slot.nodes, *stored)))
        if strips.strips > 1:
            result = (Comment("The running values, element by element."), *result)
        carried = self._start_at_nothing(self.so_far if strips.strips > 1 else self.running)
        walk = self.steps.loop((*body.nodes, *load, *across, *result))
        return (
            ("indices", self.indices),
            ("shared", tuple(Declare(array) for array in self.shared.values())),
            ("rows", (*top.nodes, *carried, *walk)),
        )

    def _slot(self, body: Scope, inside: Guard) -> Scope:
        """The scope of one element of each column: the same for both walks where they aren't in blocks of their own."""
        own_block = self.strips.vectors > 1 or inside.terms
        if own_block or self.slot is None:
            self.slot = Scope(body, frozenset((self.work.along.name,)), certain=not inside.terms)
        return self.slot

    def _group_results(self, names: Names) -> Array:
        """A place in shared memory for what each group of strips combines to, in each of its columns."""
        strips = self.strips
        buffers = [] if self.steps.is_one else [2]
        columns = [] if strips.width == 1 else [strips.width]
        sizes = [*buffers, *columns, strips.groups, strips.threads]
        shape = tuple(map(integer, sizes))
        strides = tuple(integer(math.prod(sizes[n + 1 :])) for n in range(len(sizes)))
        return Array("", names.shared, names.scan.dtype, shape, strides, "shared", flat=False)

    def _result_of(self, names: Names, group: Integer, kind: str) -> Access:
        """The present column of a group of strips."""
        column = () if self.strips.width == 1 else (self.registers.number.symbol,)
        place = (*self.steps.buffer, *column, group, thread("x", self.strips.threads, self.lowering))
        return Access(self.shared[names.shared], place, kind)

    def _across(self, body: Scope, place: Define, inside: Guard) -> tuple[Node, ...]:
        """What the strips in front combine to, and the carry of the step."""
        strips, elements, registers = self.strips, self.elements, self.registers
        slot = self._slot(body, inside)
        partial = elements.combine(slot, self._present(self.own), inside)
        taken, slot.nodes = tuple(slot.nodes), []
        other = Index(self.lowering.names.allocate("group"), integer(0), (0, strips.groups - 1))
        self.lowering.ranges[other.symbol] = other.range
        group = FloorDiv(thread("y", strips.strips, self.lowering), integer(strips.in_a_warp))
        reached = If(
            Guard((Comparison(other.symbol, "==", group),)),
            tuple(Assign(value, so_far) for value, so_far in zip(self.running, self.so_far, strict=True)),
        )
        take = [
            Assign(value, joined(n, value, Element.of(self._result_of(n, other.symbol, "load"))))
            for n, value in zip(elements.names, self._present(self.so_far), strict=True)
        ]
        join = [
            Assign(value, joined(n, value, own))
            for n, value, own in zip(elements.names, self._present(self.running), self._present(self.own), strict=True)
        ]
        return (
            Comment("What each strip combines to, and what the strips in front of it do."),
            *self._start_at_nothing(self.own),
            *elements.each_vector(place, guarded(inside, (*taken, *partial))),
            *registers.each_element(tuple(self._tell_groups(group))),
            Barrier(),
            *(Let(value, None, mutable=True) for value in self.running),
            For(Loop(other, integer(0), integer(strips.groups), unroll=True), (reached, *registers.each_element(take))),
            *(registers.each_element(join) if strips.in_a_warp > 1 else ()),
        )

    def _tell_groups(self, group: Integer) -> Iterator[Node]:
        """Strips of a warp combine by shuffles; the last one tells the other groups. Afterwards a strip's own value is
        what those before it in the warp combine to."""
        strips, names, own = self.strips, self.elements.names, self._present(self.own)
        results = [self._result_of(n, group, "store") for n in names]
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
