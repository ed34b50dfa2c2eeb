"""Scans across contiguous memory: adjacent threads have adjacent columns; one or more threads share a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.scan.exchange import Exchange, exchange_sections
from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.registers import Registers, declaration
from cugen.families.scan.scan_loop import ScanLoop
from cugen.families.scan.thread_scan import ThreadScan
from cugen.pieces.block_reduce import WARP
from cugen.pieces.block_scan import segment_total, select_above, warp_scan
from cugen.pieces.blocks import define, define_index, define_indices, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import identity
from cugen.plan.memory import Array
from cugen.plan.nodes import Assign, Comparison, Define, Guard, If, Let, Node, ReturnUnless, Section
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, ceil_div, integer


@dataclass(frozen=True, slots=True)
class ColumnConfig:
    """`threads` along adjacent columns, each with `width` of them; `threads_per_column` along the scan, each with
    `vectors` consecutive elements of a column per iteration; `outer` along the next index."""

    threads: int
    threads_per_column: int
    vectors: int
    width: int
    outer: int = 1

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
        """Groups of lanes of a column: several exchange their aggregates through shared memory."""
        return self.threads_per_column // self.lanes_per_column


class ColumnScan:
    """The steps of a kernel, its grid and block."""

    block_id: tuple[Section, ...] = ()
    workspace: tuple[Array, ...] = ()

    def __init__(self, problem: ScanProblem, lowering: Lowering, config: ColumnConfig) -> None:
        self.problem, self.lowering, self.config = problem, lowering, config
        self.block = (*config.block, config.outer)
        self.loop = ScanLoop(problem, lowering, config.step)
        self.in_bounds: tuple[Comparison, ...] = ()
        self.indices = self._indices()
        self.registers = Registers(problem, lowering, config.width, config.vectors)
        self.registers.set_first(lowering.symbols[problem.fastest.name])
        self.y = thread("y", config.threads_per_column, lowering)
        self.thread_scan = ThreadScan(problem, lowering, self.registers, 1)
        self.names = self.thread_scan.names
        self.exchange: Exchange | None = None
        if config.partials > 1:
            columns = (config.width,) if config.width > 1 else ()
            column = (self.registers.element_counter.symbol,) if config.width > 1 else ()
            if config.outer > 1:
                columns, column = (*columns, config.outer), (*column, thread("z", config.outer, lowering))
            sizes = (*columns, config.partials, config.threads)
            self.exchange = Exchange(self.thread_scan, self.loop, sizes, lambda group: (*column, group, self.x))

    @property
    def reason(self) -> str:
        config, along = self.config, self.problem.along.name
        columns = f"{config.width} columns" if config.width > 1 else "one column"
        count = config.threads_per_column
        threads = f"one thread for {columns}" if count == 1 else f"{count} threads share {columns}"
        return f"{threads} along {along}, {config.step} elements per iteration"

    def _indices(self) -> tuple[Node, ...]:
        lowering, config, fastest, context = self.lowering, self.config, self.problem.fastest, self.problem.context
        extent, outer = context.extent(fastest), list(map(context.extent, self.problem.outer))
        count = ceil_div(extent, config.threads * config.width)
        outer_counts = [ceil_div(outer[0], config.outer), *outer[1:]] if outer else []
        blocks = make_grid([count, *outer_counts], lowering, self.problem.request.target)
        self.grid, self.x = blocks.grid, thread("x", config.threads, lowering)
        coordinates, terms = list(blocks.coordinates[1 : len(outer) + 1]), list[Comparison]()
        if config.outer > 1:
            coordinates[0] = coordinates[0] * config.outer + thread("z", config.outer, lowering)
        nodes = define_indices(self.problem.outer, outer, coordinates, lowering)
        if config.outer > 1 and not divides(config.outer, outer[0], context):
            terms.append(Comparison(lowering.symbols[self.problem.outer[0].name], "<", outer[0]))
        number = blocks.coordinates[0] * config.threads + self.x
        name_hint = "" if config.width == 1 else "first"
        node = define_index(fastest.name, number * config.width, extent, lowering, name_hint=name_hint)
        nodes.append(node)
        if not divides(config.threads * config.width, extent, context):
            terms.append(Comparison(node.index.symbol, "<", extent))
        if config.threads_per_column > 1:
            self.in_bounds = tuple(terms)
        elif terms:
            nodes.append(ReturnUnless(Guard(tuple(terms))))
        if config.lanes_per_column > 1:
            row = Mod(thread("y", config.threads_per_column, lowering), integer(config.lanes_per_column))
            lane = define("lane", row * config.threads + self.x, lowering)
            self.lane = lane.index
            nodes.append(lane)
        return tuple(nodes)

    def carry(self) -> tuple[Node, ...]:
        """Declares what iterations carry over."""
        if self.config.threads_per_column == 1:
            return self.thread_scan.initialise(n.accumulator for n in self.names)
        if self.exchange is None and self.loop.is_single:
            return ()
        return self.thread_scan.initialise(n.block_total for n in self.names)

    def position(self, start: Integer) -> tuple[Define, Guard]:
        """The index of the thread's current elements along the columns, and their bounds check."""
        along, offset = self.problem.along.name, self.y * self.config.vectors + self.registers.vector_index
        position, inside = self.loop.position(along, start + offset)
        self.lowering.symbols[along] = position.index.symbol
        return position, Guard((*self.in_bounds, *inside.terms))

    def load(self, position: Define, inside: Guard) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
        """The sections before the loop, and those of an iteration."""
        defined = (position,) if self.config.vectors == 1 else ()
        declared = self.registers.declare(inside, zeroed=False)
        load = self.registers.each_vector(position, self.registers.load(inside))
        return (), (Section("load", (*defined, *declared, *load)),)

    def combine(self, body: Scope, position: Define, inside: Guard) -> tuple[Section, ...]:
        """The exclusive prefix of each thread's elements, and the carry to the next iteration."""
        if self.config.threads_per_column == 1:
            return ()
        reduced = self.registers.each_vector(position, self.thread_scan.reduce(body, inside))
        initialised = self.thread_scan.initialise(n.partial for n in self.names)
        prefix = self._scan_lanes() if self.exchange is None else self._scan_groups(self.exchange)
        return (Section("reduce_elements", (*initialised, *reduced)), *prefix)

    def _scan_lanes(self) -> tuple[Section, ...]:
        """The prefix of a thread of a column whose threads are in one warp, with shuffles alone."""
        config, values = self.config, self.registers.value
        distance, lanes = config.threads, config.threads * config.lanes_per_column
        nodes: list[Node] = [Let(n.inclusive, values(n.partial), mutable=True) for n in self.names]
        nodes += warp_scan(self.names, self.lane.name, lanes, distance, self.lowering)
        for n in self.names:
            if self.loop.is_single:
                prefix = select_above(self.lane.name, distance, n.exclusive, identity(n.scan.kind, n.scan.dtype))
            else:
                so_far = values(n.block_total)
                prefix = select_above(self.lane.name, distance, n.combine(so_far, n.exclusive), so_far)
            nodes.append(Assign(values(n.accumulator), prefix))
            if not self.loop.is_single:
                nodes.append(n.add(values(n.block_total), segment_total(n, lanes, lanes - distance + self.x)))
        declared = (declaration(n.accumulator) for n in self.names)
        return (Section("scan_lanes", (*declared, *self.registers.each_element(nodes))),)

    def _scan_groups(self, exchange: Exchange) -> tuple[Section, ...]:
        """The prefix of a thread of a column whose groups of lanes exchange their aggregates."""
        config, registers, values = self.config, self.registers, self.registers.value
        index = loop_variable("group", config.partials, self.lowering)
        group = FloorDiv(self.y, integer(config.lanes_per_column))
        accumulators = [n.accumulator for n in self.names]
        store = registers.each_element(tuple(self._store_partials(exchange, group)))
        scan = exchange.scan(index, group, accumulators)
        add_prefix = [n.add(values(n.accumulator), values(n.partial)) for n in self.names]
        return (
            *exchange_sections(store, (*map(declaration, accumulators), *scan)),
            Section("add_lane_prefix", registers.each_element(add_prefix) if config.lanes_per_column > 1 else ()),
        )

    def _store_partials(self, exchange: Exchange, group: Integer) -> Iterator[Node]:
        """Stores the partial aggregates. Threads of a column in the same warp are scanned with shuffles, their last one
        stores; afterwards `partial` holds the exclusive prefix within the warp."""
        partials = [self.registers.value(n.partial) for n in self.names]
        if self.config.lanes_per_column == 1:
            yield from exchange.store(group, partials)
            return
        distance, lanes = self.config.threads, self.config.threads * self.config.lanes_per_column
        yield from (Let(n.inclusive, value, mutable=True) for n, value in zip(self.names, partials, strict=True))
        yield from warp_scan(self.names, self.lane.name, lanes, distance, self.lowering)
        for n, value in zip(self.names, partials, strict=True):
            start = identity(n.scan.kind, n.scan.dtype)
            yield Assign(value, select_above(self.lane.name, distance, n.exclusive, start))
        last = Guard((Comparison(self.lane.symbol, ">=", integer(lanes - distance)),))
        yield If(last, exchange.store(group, [n.inclusive for n in self.names]))

    def scan(self, body: Scope, inside: Guard) -> tuple[Node, ...]:
        """Scans the current elements from the thread's prefix."""
        return self.thread_scan.scan_and_store(body, inside)
