"""Scans across contiguous memory: adjacent threads have adjacent columns; one or more threads share a column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.registers import Registers, guarded
from cugen.families.scan.scan_loop import Parts, scan_loop
from cugen.families.scan.thread_scan import ThreadScan
from cugen.pieces.block_scan import WARP, ScanLocals, combine_pair, select_above, warp_scan
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, identity
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Assign,
    Barrier,
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
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Local


@dataclass(frozen=True, slots=True)
class ColumnConfig:
    """`threads` along adjacent columns, each with `width` of them; `threads_per_column` along the scan, each with
    `vectors` consecutive elements of a column per iteration."""

    threads: int
    threads_per_column: int
    vectors: int
    width: int

    @property
    def step(self) -> int:
        return self.threads_per_column * self.vectors

    @property
    def block(self) -> tuple[int, int]:
        return self.threads, self.threads_per_column

    @property
    def lanes_per_column(self) -> int:
        """Threads of a column in the same warp."""
        return min(max(WARP // self.threads, 1), self.threads_per_column)

    @property
    def partials(self) -> int:
        """Partial aggregates of a column that are exchanged through shared memory."""
        return self.threads_per_column // self.lanes_per_column


class ColumnScan:
    """Builds the kernel's sections, grid and block."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, config: ColumnConfig) -> None:
        self.problem, self.lowering, self.config = problem, lowering, config
        self.columns_inside: tuple[Comparison, ...] = ()
        self.loop = scan_loop(problem, lowering, config.step)
        self.indices = self._indices()
        self.registers = Registers(problem, lowering, config.width, config.vectors, None)
        self.thread_scan = ThreadScan(problem, lowering, self.registers, max(self.loop.max_length, 1))
        self.registers.set_first(self.first)
        names = self.thread_scan.names = tuple(map(self._column_locals, self.thread_scan.names))
        self.accumulators = tuple(self._values(n.accumulator) for n in names)
        self.totals = tuple(self._values(n.block_total) for n in names)
        self.partials = tuple(self._values(n.inclusive) for n in names)
        self.shared: dict[str, Array] = {}
        self.element_scope: Scope | None = None

    @property
    def width(self) -> int:
        return self.config.width

    @property
    def reason(self) -> str:
        config, along = self.config, self.problem.along.name
        columns = f"{config.width} columns" if config.width > 1 else "one column"
        if config.threads_per_column == 1:
            return f"one thread for {columns} along {along}, {config.vectors} elements per iteration"
        return (
            f"{config.threads_per_column} threads share {columns} along {along}, {config.step} elements per iteration"
        )

    @property
    def block(self) -> tuple[int, int, int]:
        return (*self.config.block, 1)

    def _indices(self) -> tuple[Node, ...]:
        lowering, config, fastest = self.lowering, self.config, self.problem.fastest
        extent = to_integer(fastest.extent, lowering.symbols)
        outer = [to_integer(index.extent, lowering.symbols) for index in self.problem.outer]
        blocks = make_grid(
            [ceil_div(extent, config.threads * config.width), *outer], lowering, self.problem.request.target
        )
        self.grid = blocks.grid
        nodes: list[Node] = []
        for index, count, coordinate in zip(self.problem.outer, outer, blocks.coordinates[1:], strict=True):
            node = define(index.name, coordinate, lowering, below=count)
            lowering.symbols[index.name] = node.index.symbol
            limit(node.index, count, lowering)
            nodes.insert(0, node)
        number = blocks.coordinates[0] * config.threads + thread("x", config.threads, lowering)
        name = fastest.name if config.width == 1 else "first"
        node = define(name, number * config.width, lowering)
        self.first = lowering.symbols[fastest.name] = node.index.symbol
        nodes.append(node)
        if not divides(config.threads * config.width, extent, self.problem.request.context):
            inside = Comparison(node.index.symbol, "<", extent)
            if config.threads_per_column == 1:
                nodes.append(ReturnUnless(Guard((inside,))))
            else:
                self.columns_inside = (inside,)
        limit(node.index, extent, lowering)
        if config.lanes_per_column > 1:
            row = Mod(thread("y", config.threads_per_column, lowering), integer(config.lanes_per_column))
            lane = define("lane", row * config.threads + thread("x", config.threads, lowering), lowering)
            self.lane = lane.index
            nodes.append(lane)
        return tuple(nodes)

    # Accumulators, one for each column of the thread

    def _column_locals(self, names: ScanLocals) -> ScanLocals:
        """Locals for columns: `inclusive` is the thread's partial aggregate, `vector_prefix` names its warp scan."""
        base = ACCUMULATORS[names.scan.kind]
        partial = Local(self.lowering.names.allocate(f"partial_{base}"), names.scan.dtype)
        return replace(names, inclusive=partial, vector_prefix=names.inclusive.name)

    def _values(self, local: Local) -> Local:
        if self.config.width == 1:
            return local
        return Vector(local.name, local.dtype, local.dtype, self.config.width)

    def _current(self, values: tuple[Local, ...]) -> list[Local]:
        """The accumulator of each scan for the current column."""
        column = self.registers.element_counter.symbol
        return [value.component(column) if isinstance(value, Vector) else value for value in values]

    def _initialise(self, values: tuple[Local, ...]) -> tuple[Node, ...]:
        nodes: list[Node] = []
        inner: list[Node] = []
        for names, value, current in zip(self.thread_scan.names, values, self._current(values), strict=True):
            start = identity(names.scan.kind, names.scan.dtype)
            if not isinstance(value, Vector) or names.scan.kind == "sum":
                nodes.append(Let(value, start, mutable=True))
            else:
                nodes.append(Let(value, None, mutable=True))
                inner.append(Assign(current, start))
        return (*nodes, *self.registers.each_element(inner))

    # The loop along the columns

    def parts(self) -> Parts:
        lowering, thread_scan, config = self.lowering, self.thread_scan, self.config
        lowering.prepare(tuple(s.value for s in self.problem.request.group.statements))
        top = Scope()
        body = Scope(top, certain=bounds(self.loop.extent, lowering.ranges)[0] >= 1)
        offset = (
            self.loop.start
            + thread("y", config.threads_per_column, lowering) * config.vectors
            + self.registers.vector_index
        )
        position, inside = self.loop.position(self.problem.along.name, offset)
        lowering.symbols[self.problem.along.name] = position.index.symbol
        inside = Guard((*self.columns_inside, *inside.terms))
        load = (
            *self.registers.declare(inside, zeroed=False),
            *thread_scan.each_vector(position, self.registers.load(inside)),
        )
        if config.vectors == 1:
            load = (position, *load)
        combine: tuple[Section, ...] = ()
        if config.threads_per_column > 1:
            self.shared = {n.shared: self._partials(n) for n in thread_scan.names}
            combine = self._combine_threads(body, position, inside)
        scope = self._element_scope(body, inside)
        stored = thread_scan.scan_and_store(scope, self._current(self.accumulators), Guard(()))
        result = thread_scan.each_vector(position, guarded(inside, (*scope.nodes, *stored)))
        carried = self._initialise(self.totals if config.threads_per_column > 1 else self.accumulators)
        step = (
            Section("step_invariants", tuple(body.nodes)),
            Section("load", load),
            *combine,
            Section("scan_elements", result),
        )
        return (
            ("indices", self.indices),
            ("shared", tuple(Declare(array) for array in self.shared.values())),
            ("invariants", tuple(top.nodes)),
            ("carry", carried),
            *self.loop.around(step),
        )

    def _element_scope(self, body: Scope, inside: Guard) -> Scope:
        """The scope of one element of each column, shared by reduction and scan unless each has its own C++ block."""
        has_block = self.config.vectors > 1 or inside.terms
        if has_block or self.element_scope is None:
            self.element_scope = Scope(body, frozenset((self.problem.along.name,)), certain=not inside.terms)
        return self.element_scope

    def _partials(self, names: ScanLocals) -> Array:
        """The shared-memory array of partial aggregates, per warp and column."""
        config = self.config
        buffers = [] if self.loop.is_single else [2]
        columns = [] if config.width == 1 else [config.width]
        sizes = [*buffers, *columns, config.partials, config.threads]
        shape = tuple(map(integer, sizes))
        strides = tuple(integer(math.prod(sizes[n + 1 :])) for n in range(len(sizes)))
        return Array("", names.shared, names.scan.dtype, shape, strides, "shared", flat=False)

    def _partial(self, names: ScanLocals, group: Integer, kind: str) -> Access:
        """The partial aggregate of a warp, for the current column."""
        column = () if self.config.width == 1 else (self.registers.element_counter.symbol,)
        subscripts = (*self.loop.buffer_index, *column, group, thread("x", self.config.threads, self.lowering))
        return Access(self.shared[names.shared], subscripts, kind)

    def _combine_threads(self, body: Scope, position: Define, inside: Guard) -> tuple[Section, ...]:
        """The exclusive prefix of each thread's elements, and the carry to the next iteration."""
        config, thread_scan, registers = self.config, self.thread_scan, self.registers
        scope = self._element_scope(body, inside)
        reduced = thread_scan.reduce(scope, self._current(self.partials), inside)
        reads, scope.nodes = tuple(scope.nodes), []
        preceding = Index(self.lowering.names.allocate("group"), integer(0), (0, config.partials - 1))
        self.lowering.ranges[preceding.symbol] = preceding.range
        group = FloorDiv(thread("y", config.threads_per_column, self.lowering), integer(config.lanes_per_column))
        set_prefix = If(
            Guard((Comparison(preceding.symbol, "==", group),)),
            tuple(Assign(value, total) for value, total in zip(self.accumulators, self.totals, strict=True)),
        )
        add = [
            Assign(value, combine_pair(n, value, Element.of(self._partial(n, preceding.symbol, "load"))))
            for n, value in zip(thread_scan.names, self._current(self.totals), strict=True)
        ]
        add_warp_prefix = [
            Assign(value, combine_pair(n, value, partial))
            for n, value, partial in zip(
                thread_scan.names, self._current(self.accumulators), self._current(self.partials), strict=True
            )
        ]
        return (
            Section(
                "reduce_elements",
                (
                    *self._initialise(self.partials),
                    *thread_scan.each_vector(position, guarded(inside, (*reads, *reduced))),
                ),
            ),
            Section("store_aggregates", registers.each_element(tuple(self._store_partials(group)))),
            Section("aggregates_stored", (Barrier(),)),
            Section(
                "scan_aggregates",
                (
                    *(Let(value, None, mutable=True) for value in self.accumulators),
                    For(
                        Loop(preceding, integer(0), integer(config.partials), unroll=True),
                        (set_prefix, *registers.each_element(add)),
                    ),
                ),
            ),
            Section("add_lane_prefix", registers.each_element(add_warp_prefix) if config.lanes_per_column > 1 else ()),
        )

    def _store_partials(self, group: Integer) -> Iterator[Node]:
        """Stores the partial aggregates. Threads of a column in the same warp are scanned with shuffles, their last one
        stores; afterwards `partials` holds the exclusive prefix within the warp."""
        config, names, partials = self.config, self.thread_scan.names, self._current(self.partials)
        results = [self._partial(n, group, "store") for n in names]
        if config.lanes_per_column == 1:
            yield from (Store(result, value) for result, value in zip(results, partials, strict=True))
            return
        distance, lanes = config.threads, config.threads * config.lanes_per_column
        scans = [replace(n, inclusive=Local(n.vector_prefix, n.scan.dtype)) for n in names]
        yield from (Let(scan.inclusive, value, mutable=True) for scan, value in zip(scans, partials, strict=True))
        yield from warp_scan(scans, self.lane.name, lanes, distance, self.lowering)
        for scan, value in zip(scans, partials, strict=True):
            start = identity(scan.scan.kind, scan.scan.dtype)
            yield Assign(value, select_above(self.lane.name, distance, scan.exclusive, start))
        last = Guard((Comparison(self.lane.symbol, ">=", integer(lanes - distance)),))
        yield If(last, tuple(Store(result, scan.inclusive) for result, scan in zip(results, scans, strict=True)))
