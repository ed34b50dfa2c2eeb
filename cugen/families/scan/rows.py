"""Scans along contiguous memory: a thread group loops over each row, a few vectors per thread and iteration."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.scan.exchange import Exchange, exchange_sections
from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.registers import Registers, declaration
from cugen.families.scan.scan_loop import ScanLoop
from cugen.families.scan.thread_scan import ThreadScan
from cugen.pieces.block_reduce import WARP, Accumulator, ThreadGroup, reduce_group
from cugen.pieces.block_scan import segment_total, select_above, warp_scan
from cugen.pieces.blocks import Blocks, define, define_indices, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.vectors import define_misalignment
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, accumulate, identity
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Comparison, Define, For, Guard, Let, Loop, Node, Section, when
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Reduce


@dataclass(frozen=True, slots=True)
class RowConfig:
    """A thread group of `threads` per row, `rows` groups per block; each thread has `vectors` of `width` elements per
    iteration. `prefetch`: the loads of the next iteration overlap the scan of the current one. `shifted`: the first
    vector starts at a multiple of its width, which may be before the row."""

    threads: int
    rows: int
    vectors: int
    width: int
    prefetch: bool = False
    shifted: bool = False

    @property
    def lanes(self) -> int:
        return min(self.threads, WARP)

    @property
    def warps(self) -> int:
        return max(self.threads // WARP, 1)

    @property
    def step(self) -> int:
        return self.threads * self.vectors * self.width

    @property
    def block(self) -> tuple[int, int]:
        return self.threads, self.rows


class RowScan:
    """The steps of a kernel, its grid and block."""

    block_id: tuple[Section, ...] = ()
    workspace: tuple[Array, ...] = ()

    def __init__(self, problem: ScanProblem, lowering: Lowering, config: RowConfig) -> None:
        self.problem, self.lowering, self.config = problem, lowering, config
        self.blocks = self._blocks()
        self.grid, self.block = self.blocks.grid, (*config.block, 1)
        self.loop = ScanLoop(problem, lowering, config.step, config.width - 1 if config.shifted else 0)
        self.in_bounds: tuple[Comparison, ...] = ()
        self.indices = self._indices()
        if config.shifted:
            shift = self._misalignment()
            self.indices += (shift,)
            self.loop.shift = shift.index.symbol
        self.registers = Registers(problem, lowering, config.width, config.vectors, shifted=config.shifted)
        self.thread_scan = ThreadScan(problem, lowering, self.registers, config.step)
        self.names = self.thread_scan.names
        self.prefixes = [self.registers.per_vector(n.vector_prefix) for n in self.names]
        self.exchange: Exchange | None = None
        if config.warps > 1:
            self.exchange = Exchange(self.thread_scan, self.loop, (config.warps,), lambda warp: (warp,))

    def _blocks(self) -> Blocks:
        counts = list(map(self.problem.context.extent, self.problem.outer))
        counts[:1] = [ceil_div(count, self.config.rows) for count in counts[:1]]
        return make_grid(counts or [integer(1)], self.lowering, self.problem.request.target)

    @property
    def reason(self) -> str:
        config, along = self.config, self.problem.along.name
        if config.threads == 1:
            return f"one thread per row along {along}, {config.vectors * config.width} elements per iteration"
        return f"a thread group of {config.threads} per row along {along}, {config.step} elements per iteration"

    def _indices(self) -> tuple[Node, ...]:
        """The row, and the thread's lane and warp. Rows out of bounds are clamped to the last one, since all lanes of a
        warp take part in shuffles, and not stored."""
        lowering, config, outer = self.lowering, self.config, self.problem.outer
        extents = list(map(self.problem.context.extent, outer))
        coordinates = list(self.blocks.coordinates[: len(outer)])
        unclamped = list[Node]()
        if outer:
            coordinates[0] = coordinates[0] * config.rows + thread("y", config.rows, lowering)
            if not divides(config.rows, extents[0], self.problem.context):
                below = ceil_div(extents[0], config.rows) * config.rows
                node = define(f"{outer[0].name}_unclamped", coordinates[0], lowering, below=below)
                unclamped.append(node)
                self.in_bounds = (Comparison(node.index.symbol, "<", extents[0]),)
                coordinates[0] = Minimum(node.index.symbol, extents[0] - 1)
        rows = define_indices(outer, extents, coordinates, lowering)
        nodes = [*rows[:-1], *unclamped, *rows[-1:]]
        number = thread("x", config.threads, lowering)
        lane = define("lane", Mod(number, integer(WARP)) if config.warps > 1 else number, lowering)
        self.lane = lane.index
        nodes.append(lane)
        self.warp = integer(0)
        if config.warps > 1:
            warp = define("warp", FloorDiv(number, integer(WARP)), lowering)
            self.warp = warp.index.symbol
            nodes.append(warp)
        return tuple(nodes)

    def _misalignment(self) -> Define:
        """The elements before the row at which its first vector starts."""
        statement, lowering = self.problem.request.stored_statements()[0], self.lowering
        reference, along = (statement.target, statement.subscripts), self.problem.along.name
        return define_misalignment(lowering.arrays, reference, along, self.config.width, lowering, lowering.symbols)

    def carry(self) -> tuple[Node, ...]:
        """Declares what iterations carry over."""
        if self.exchange is None:
            return self.thread_scan.initialise(n.warp_total for n in self.names)
        return () if self.loop.is_single else self.thread_scan.initialise(n.block_total for n in self.names)

    def reduce_preceding(self, reduction: Reduce, top: Scope) -> Section:
        """The tile's exclusive prefix, from the aggregates of all preceding tiles: one reduction per warp."""
        lowering = self.lowering
        (bound,) = reduction.indices
        count = self.problem.context.extent(bound)
        accumulator = Local(lowering.names.allocate(f"tile_prefix_{ACCUMULATORS[reduction.kind]}"), reduction.dtype)
        index = loop_variable("preceding", count, lowering, self.lane.symbol)
        lowering.symbols[bound.name] = index.symbol
        inner = Scope(top, frozenset((bound.name,)), certain=False)
        accumulate(lowering, reduction, accumulator, inner)
        del lowering.symbols[bound.name]
        top.remember(reduction, accumulator)
        partial = (
            Let(accumulator, identity(reduction.kind, reduction.dtype), mutable=True),
            For(Loop(index, self.lane.symbol, count, WARP, unroll_by=8), tuple(inner.nodes)),
        )
        warp = ThreadGroup(WARP, self.lane.symbol)
        result = reduce_group(warp, (Accumulator(reduction.kind, accumulator),), lowering, everywhere=True)
        return Section(accumulator.name, (*partial, *result))

    def position(self, start: Integer, prefix: str = "", *, certain: bool = True) -> tuple[Define, Guard]:
        """The index of the thread's current vector in the iteration from `start`, and its bounds check."""
        config = self.config
        vector = (self.warp * config.vectors + self.registers.vector_index) * config.lanes + self.lane.symbol
        name = self.problem.along.name if config.width == 1 else "first"
        return self.loop.position(f"{prefix}{name}", start + vector * config.width, config.width, certain=certain)

    def load(self, first: Define, inside: Guard) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
        """The sections before the loop, and those of an iteration."""
        registers = self.registers
        if self.config.prefetch and not self.loop.is_single and self.config.vectors > 1:
            return self._prefetch(first)
        registers.set_first(first.index.symbol)
        declared = registers.declare(inside, zeroed=bool(inside.terms) or registers.end is not None)
        defined = (first,) if self.config.vectors == 1 else ()
        load = registers.each_vector(first, registers.load(inside))
        return (Section("registers", declared),), (Section("load", (*defined, *load)),)

    def _prefetch(self, current: Define) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
        """The loads of the first iteration, and those of the next one that each iteration issues before its scan."""
        prefetch = self.registers.prefetch_registers()
        declared = (*self.registers.declare(Guard(()), zeroed=False), *prefetch.declare(Guard(()), zeroed=True))
        loads = []
        for prefix, start in (("initial_", integer(0)), ("next_", self.loop.start + self.config.step)):
            first, inside = self.position(start, prefix, certain=False)
            prefetch.set_first(first.index.symbol)
            loads.append(prefetch.each_vector(first, prefetch.load(inside)))
        self.registers.set_first(current.index.symbol)
        initial, following = loads
        copy = self.registers.each_vector(None, self.registers.copy_from(prefetch))
        return (
            (Section("registers", declared), Section("initial_load", initial)),
            (Section("advance", copy), Section("prefetch", following)),
        )

    def combine(self, body: Scope, first: Define, inside: Guard) -> tuple[Section, ...]:
        """The exclusive prefix of each vector among those of its warp, then that of the warp."""
        registers = self.registers
        vector = self._scan_lanes(body, inside)
        vectors = vector if self.config.vectors == 1 else (Section("vectors", registers.each_vector(first, vector)),)
        comment = Comment(f"exclusive prefix of each vector{' within its warp' if self.exchange else ''}")
        declared: list[Node] = []
        for n, prefix in zip(self.names, self.prefixes, strict=True):
            if self._is_single_vector:
                continue
            declared.append(declaration(prefix))
            if self.exchange:
                declared.append(Let(n.warp_total, identity(n.scan.kind, n.scan.dtype), mutable=True))
        warps = self._combine_warps(self.exchange) if self.exchange else ()
        return (Section("vector_prefixes", (comment, *declared)), *vectors, *warps)

    @property
    def _is_single_vector(self) -> bool:
        """Whether a warp has one vector per lane in an iteration, so that no others are before them."""
        return self.config.vectors == 1 and self.exchange is not None

    def _scan_lanes(self, body: Scope, inside: Guard) -> tuple[Section, ...]:
        """The current vector's exclusive prefix, in `prefixes`; `warp_total` is extended by the vectors of the warp."""
        names, lanes, lane = self.names, self.config.lanes, self.lane.name
        reduced = (*self.thread_scan.initialise(n.inclusive for n in names), *self.thread_scan.reduce(body, inside))
        scanned = warp_scan(names, lane, lanes, 1, self.lowering) if lanes > 1 else ()
        nodes: list[Node] = []
        for n, prefix in zip(names, self.prefixes, strict=True):
            if self._is_single_vector:
                assert isinstance(prefix, Local)
                nothing = identity(n.scan.kind, n.scan.dtype)
                nodes.append(Let(prefix, select_above(lane, 1, n.exclusive, nothing) if lanes > 1 else nothing))
                nodes.append(Let(n.warp_total, segment_total(n, lanes) if lanes > 1 else n.inclusive))
                continue
            value: Expr = n.warp_total
            total: Expr = n.inclusive
            if lanes > 1:
                value = select_above(lane, 1, n.combine(n.warp_total, n.exclusive), n.warp_total)
                total = segment_total(n, lanes)
            nodes += [self.registers.assign(prefix, value), n.add(n.warp_total, total)]
        return (
            Section("reduce_vector", reduced),
            Section("scan_lanes", scanned),
            Section("set_vector_prefix", tuple(nodes)),
        )

    def _combine_warps(self, exchange: Exchange) -> tuple[Section, ...]:
        """The exclusive prefix of each warp, and the carry to the next iteration."""
        store = when(self.lane.symbol, "==", integer(0), exchange.store(self.warp, [n.warp_total for n in self.names]))
        prefixes = [n.warp_prefix for n in self.names]
        declared = self.thread_scan.initialise(prefixes)
        if self.loop.is_single:
            declared += self.thread_scan.initialise(n.block_total for n in self.names)
        w = loop_variable("w", self.config.warps, self.lowering)
        return exchange_sections((store,), (*declared, *exchange.scan(w, self.warp, prefixes)))

    def scan(self, body: Scope, inside: Guard) -> tuple[Node, ...]:
        """Scans the current vector from its prefix."""
        start: list[Node] = []
        for n, stored in zip(self.names, self.prefixes, strict=True):
            prefix = self.registers.current(stored)
            value = n.combine(n.warp_prefix, prefix) if self.exchange else prefix
            start.append(Let(n.accumulator, value, mutable=True))
        inside = Guard((*self.in_bounds, *inside.terms))
        return (*start, *self.thread_scan.scan_and_store(body, inside))
