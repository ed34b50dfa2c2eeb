"""Scans along contiguous memory: a thread group loops over each row, a few vectors per thread and iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.scan.recognition import ScanProblem
from cugen.families.scan.registers import Registers
from cugen.families.scan.scan_loop import Parts, scan_loop
from cugen.families.scan.thread_scan import ThreadScan
from cugen.pieces import block_reduce as collective
from cugen.pieces.block_reduce import Accumulator, reduce_group
from cugen.pieces.block_scan import WARP, ScanLocals, combine_pair, segment_total, select_above, warp_scan, warp_totals
from cugen.pieces.blocks import Blocks, define, limit, make_grid, thread
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
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Reduce


@dataclass(frozen=True, slots=True)
class RowConfig:
    """A thread group of `threads` per row, `rows` groups per block; each thread has `vectors` of `width` elements per
    iteration. `prefetch`: the loads of the next iteration overlap the scan of the current one."""

    threads: int
    rows: int
    vectors: int
    width: int
    prefetch: bool = False

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
    """Builds the kernel's sections, grid and block."""

    def __init__(self, problem: ScanProblem, lowering: Lowering, config: RowConfig) -> None:
        self.problem, self.lowering, self.config = problem, lowering, config
        self.blocks = self._blocks()
        self.rows_inside: tuple[Comparison, ...] = ()
        self.loop = scan_loop(problem, lowering, config.step)
        self.indices = self._indices()
        extent = self.loop.extent
        end = None if divides(config.width, extent, problem.request.context) else extent
        self.registers = Registers(problem, lowering, config.width, config.vectors, end)
        padded = -(-self.loop.max_length // config.step) * config.step
        self.thread_scan = ThreadScan(problem, lowering, self.registers, padded)

    def _blocks(self) -> Blocks:
        counts = [to_integer(index.extent, self.lowering.symbols) for index in self.problem.outer]
        counts[:1] = [ceil_div(count, self.config.rows) for count in counts[:1]]
        return make_grid(counts or [integer(1)], self.lowering, self.problem.request.target)

    @property
    def width(self) -> int:
        return self.config.width

    @property
    def reason(self) -> str:
        config, along = self.config, self.problem.along.name
        if config.threads == 1:
            return f"one thread per row along {along}, {config.vectors * config.width} elements per iteration"
        return f"a thread group of {config.threads} per row along {along}, {config.step} elements per iteration"

    @property
    def grid(self) -> tuple[Integer, Integer, Integer]:
        return self.blocks.grid

    @property
    def block(self) -> tuple[int, int, int]:
        return (*self.config.block, 1)

    def _indices(self) -> tuple[Node, ...]:
        """The row, and the thread's lane and warp. Rows out of bounds are clamped to the last one, since all lanes of a
        warp take part in shuffles, and not stored."""
        lowering, config, nodes = self.lowering, self.config, list[Node]()
        for axis, (row, coordinate) in enumerate(zip(self.problem.outer, self.blocks.coordinates, strict=False)):
            extent = to_integer(row.extent, lowering.symbols)
            size = config.rows if axis == 0 else 1
            number = coordinate * size + thread("y", size, lowering)
            if axis == 0 and not divides(size, extent, self.problem.request.context):
                unclamped = define(f"{row.name}_unclamped", number, lowering, below=ceil_div(extent, size) * size)
                self.rows_inside = (Comparison(unclamped.index.symbol, "<", extent),)
                node = define(row.name, Minimum(unclamped.index.symbol, extent - 1), lowering)
                nodes[:0] = [unclamped, node]
            else:
                node = define(row.name, number, lowering, below=extent)
                nodes.insert(0, node)
            lowering.symbols[row.name] = node.index.symbol
            limit(node.index, extent, lowering)
        number = thread("x", config.threads, lowering)
        lane = define("lane", Mod(number, integer(WARP)) if config.warps > 1 else number, lowering)
        self.lane = lane.index
        nodes.append(lane)
        self.warp: Index | None = None
        if config.warps > 1:
            warp = define("warp", FloorDiv(number, integer(WARP)), lowering)
            self.warp = warp.index
            nodes.append(warp)
        return tuple(nodes)

    # The loop over the row

    def parts(self) -> Parts:
        lowering, names, registers = self.lowering, self.thread_scan.names, self.registers
        lowering.prepare(tuple(s.value for s in self.problem.request.group.statements))
        top = Scope()
        body = Scope(top, certain=bounds(self.loop.extent, lowering.ranges)[0] >= 1)
        shared: dict[str, Array] = {}
        if self.warp is not None:
            buffers = 1 if self.loop.is_single else 2
            shared = {n.shared: self._warp_totals(n, buffers) for n in names}
        prefixes = tuple(self._reduce_preceding(reduction, top) for reduction in self.problem.prefix_reductions)
        first, inside = self._position("", self.loop.start)
        if self.config.prefetch and not self.loop.is_single and self.config.vectors > 1:
            prologue, load = self._prefetch()
            registers.set_first(first.index.symbol)
        else:
            registers.set_first(first.index.symbol)
            declared = registers.declare(inside, zeroed=bool(inside.terms) or registers.end is not None)
            prologue = (("registers", declared),)
            vectors = self.thread_scan.each_vector(first, registers.load(inside))
            load = (Section("load", (first, *vectors) if self.config.vectors == 1 else vectors),)
        scan_vectors = self._scan_vectors(body, first, inside)
        combine_warps = self._combine_warps(shared)
        result = self._scan_elements(body, first, inside)
        invariants = Section("step_invariants", tuple(body.nodes))
        loop = self.loop.around((invariants, *load, *scan_vectors, *combine_warps, result))
        return (
            *self._block_id(),
            ("indices", self.indices),
            ("shared", tuple(Declare(array) for array in shared.values())),
            ("tile_prefixes", prefixes),
            ("invariants", tuple(top.nodes)),
            *prologue,
            ("carry", tuple(self._carried())),
            *loop,
        )

    def _block_id(self) -> Parts:
        """The sections that define the dynamic block id, where the scan uses one."""
        return ()

    def _warp_totals(self, names: ScanLocals, buffers: int) -> Array:
        return warp_totals(names, self.config.warps, buffers)

    def _reduce_preceding(self, reduction: Reduce, top: Scope) -> Section:
        """The tile's exclusive prefix, from the aggregates of all preceding tiles: one reduction per warp."""
        lowering = self.lowering
        (bound,) = reduction.indices
        count = to_integer(bound.extent, lowering.symbols)
        high = bounds(count, lowering.ranges)[1]
        accumulator = Local(lowering.names.allocate(f"tile_prefix_{ACCUMULATORS[reduction.kind]}"), reduction.dtype)
        index = Index(lowering.names.allocate("preceding"), self.lane.symbol, (0, max(high - 1, 0)))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = count
        lowering.symbols[bound.name] = index.symbol
        inner = Scope(top, frozenset((bound.name,)), certain=False)
        accumulate(lowering, reduction, accumulator, inner)
        del lowering.symbols[bound.name]
        top.remember(reduction, accumulator)
        partial = (
            Let(accumulator, identity(reduction.kind, reduction.dtype), mutable=True),
            For(Loop(index, self.lane.symbol, count, WARP, unroll_by=8), tuple(inner.nodes)),
        )
        warp = collective.ThreadGroup(WARP, self.lane.symbol)
        result = reduce_group(warp, (Accumulator(reduction.kind, accumulator),), lowering, everywhere=True)
        return Section(accumulator.name, (*partial, *result))

    def _prefetch(self) -> tuple[Parts, tuple[Section, ...]]:
        """The loads of the first iteration, and those of the next one that each iteration issues before its scan."""
        prefetch = self.registers.prefetch_registers()
        declared = (*self.registers.declare(Guard(()), zeroed=False), *prefetch.declare(Guard(()), zeroed=True))
        loads = []
        for prefix, start in (("initial_", integer(0)), ("next_", self.loop.start + self.config.step)):
            first, inside = self._position(prefix, start, certain=False)
            prefetch.set_first(first.index.symbol)
            loads.append(self.thread_scan.each_vector(first, prefetch.load(inside)))
        initial, following = loads
        copy = self.thread_scan.each_vector(None, self.registers.copy_from(prefetch))
        return (
            (("registers", declared), ("initial_load", initial)),
            (Section("advance", copy), Section("prefetch", following)),
        )

    def _position(self, prefix: str, start: Integer, *, certain: bool = True) -> tuple[Define, Guard]:
        """The index of the thread's current vector in the iteration from `start`, and its bounds check."""
        config = self.config
        offset = start + self.lane.symbol * config.width + self.registers.vector_index * (config.lanes * config.width)
        if self.warp is not None:
            offset += self.warp.symbol * (config.vectors * config.lanes * config.width)
        name = self.problem.along.name if config.width == 1 else "first"
        return self.loop.position(f"{prefix}{name}", offset, config.width, certain=certain)

    def _carried(self) -> Iterator[Node]:
        """The prefix that iterations carry over."""
        for names in self.thread_scan.names:
            start = identity(names.scan.kind, names.scan.dtype)
            if self.warp is None:
                yield Let(names.warp_total, start, mutable=True)
            elif not self.loop.is_single:
                yield Let(names.block_total, start, mutable=True)

    def _scan_vectors(self, body: Scope, first: Define, inside: Guard) -> tuple[Section, ...]:
        """The exclusive prefix of each of the thread's vectors among the elements of its warp."""
        names, lanes = self.thread_scan.names, self.config.lanes
        reduced: list[Node] = [Let(n.inclusive, identity(n.scan.kind, n.scan.dtype), mutable=True) for n in names]
        reduced += self.thread_scan.reduce(body, [n.inclusive for n in names], inside)
        scanned = warp_scan(names, self.lane.name, lanes, 1, self.lowering) if lanes > 1 else ()
        nodes: list[Node] = []
        for n in names:
            if lanes == 1:
                nodes += [
                    self._set_prefix(n, n.warp_total),
                    Assign(n.warp_total, combine_pair(n, n.warp_total, n.inclusive)),
                ]
                continue
            prefix = combine_pair(n, n.warp_total, n.exclusive)
            nodes.append(self._set_prefix(n, select_above(self.lane.name, 1, prefix, n.warp_total)))
            nodes.append(Assign(n.warp_total, combine_pair(n, n.warp_total, segment_total(n, lanes))))
        declared: list[Node] = []
        for n in names:
            if self.config.vectors > 1:
                declared.append(Declare(self._prefixes(n)))
            else:
                declared.append(Let(Local(n.vector_prefix, n.scan.dtype), None, mutable=True))
            if self.warp is not None:
                declared.append(Let(n.warp_total, identity(n.scan.kind, n.scan.dtype), mutable=True))
        scope = "" if self.warp is None else " within its warp"
        vector = (
            Section("reduce_vector", tuple(reduced)),
            Section("scan_lanes", scanned),
            Section("set_vector_prefix", tuple(nodes)),
        )
        comment = Comment(f"Exclusive prefix of each vector{scope}.")
        vectors = self.thread_scan.each_vector(first, vector)
        return (
            Section("vector_prefixes", (comment, *declared)),
            *(vector if self.config.vectors == 1 else (Section("vectors", vectors),)),
        )

    def _prefixes(self, names: ScanLocals) -> Array:
        shape = (integer(self.config.vectors),)
        return Array("", names.vector_prefix, names.scan.dtype, shape, (integer(1),), "register", flat=False)

    def _set_prefix(self, names: ScanLocals, value: Expr) -> Node:
        if self.config.vectors > 1:
            return Store(Access(self._prefixes(names), (self.registers.vector_index,), "store"), value)
        return Assign(Local(names.vector_prefix, names.scan.dtype), value)

    def _get_prefix(self, names: ScanLocals) -> Local:
        if self.config.vectors > 1:
            return Element.of(Access(self._prefixes(names), (self.registers.vector_index,), "load"))
        return Local(names.vector_prefix, names.scan.dtype)

    def _combine_warps(self, shared: dict[str, Array]) -> tuple[Section, ...]:
        """The exclusive prefix of each warp, and the carry to the next iteration."""
        if self.warp is None:
            return ()
        names, warps, buffer = self.thread_scan.names, self.config.warps, self.loop.buffer_index
        stores = tuple(
            Store(Access(shared[n.shared], (*buffer, self.warp.symbol), "store"), n.warp_total) for n in names
        )
        declared = tuple(Let(n.warp_prefix, identity(n.scan.kind, n.scan.dtype), mutable=True) for n in names)
        if self.loop.is_single:
            declared += tuple(Let(n.block_total, identity(n.scan.kind, n.scan.dtype), mutable=True) for n in names)
        w = Index(self.lowering.names.allocate("w"), integer(0), (0, warps - 1))
        self.lowering.ranges[w.symbol] = w.range
        set_prefix = If(
            Guard((Comparison(w.symbol, "==", self.warp.symbol),)),
            tuple(Assign(n.warp_prefix, n.block_total) for n in names),
        )
        add = tuple(
            Assign(
                n.block_total,
                combine_pair(n, n.block_total, Element.of(Access(shared[n.shared], (*buffer, w.symbol), "load"))),
            )
            for n in names
        )
        return (
            Section("store_warp_totals", (If(Guard((Comparison(self.lane.symbol, "==", integer(0)),)), stores),)),
            Section("warp_totals_stored", (Barrier(),)),
            Section(
                "scan_warp_totals",
                (*declared, For(Loop(w, integer(0), integer(warps), unroll=True), (set_prefix, *add))),
            ),
        )

    def _scan_elements(self, body: Scope, first: Define, inside: Guard) -> Section:
        """The scan of each vector from its prefix, and the statements for each element."""
        start = tuple(
            Let(
                n.accumulator,
                combine_pair(n, n.warp_prefix, self._get_prefix(n)) if self.warp is not None else self._get_prefix(n),
                mutable=True,
            )
            for n in self.thread_scan.names
        )
        inside = Guard((*self.rows_inside, *inside.terms))
        stored = self.thread_scan.scan_and_store(body, [n.accumulator for n in self.thread_scan.names], inside)
        return Section("scan_vectors", self.thread_scan.each_vector(first, (*start, *stored)))
