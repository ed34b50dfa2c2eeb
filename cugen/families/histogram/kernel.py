"""The kernel of a histogram: counters in shared memory are zeroed, added to by each element, and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.histogram.config import HistogramConfig, padding, vector_reads
from cugen.pieces.blocks import define, define_index, define_indices, digits, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, dense_array, new_lowering
from cugen.pieces.keyed.kernel import KeyedKernel, Update
from cugen.pieces.keyed.problem import KeyedProblem, KeyedReduction
from cugen.pieces.loop_variables import (
    repeated,
    shared_loop_variable,
    unrolled,
    value_of,
)
from cugen.pieces.sections import append_loop, append_section, guarded
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import vector_of
from cugen.plan.alignment import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Assign,
    AtomicAdd,
    Barrier,
    Comparison,
    Declare,
    For,
    If,
    Let,
    Load,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Mod, bounds, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, uses_indices, walk

Grid = tuple[Integer, Integer, Integer]


class HistogramKernel(KeyedKernel):
    """The kernel of one group of statements, under construction."""

    def __init__(self, problem: KeyedProblem, config: HistogramConfig) -> None:
        super().__init__(problem, new_lowering(problem.request, problem.arrays))
        self.config = config
        self.x, self.y = thread("x", config.threads, self.lowering), thread("y", config.rows, self.lowering)
        self.is_used = (config.rows > 1, config.replicas > 1, True)  # dimensions of the counters
        self.counters = tuple(map(self._counters, problem.reductions))
        pairs = zip(problem.reductions, self.counters, strict=True)
        self.terms = tuple((bins, term) for histogram, bins in pairs for term in histogram.terms)
        self.replica: Integer = integer(0)

    def kernel(self) -> Kernel:
        lowering = self.lowering
        indices, outside, grid = self._rows()
        if self.config.replicas > 1:
            replica = define("replica", Mod(self.x, integer(self.config.replicas)), lowering)
            self.replica = replica.index.symbol
            indices = (*indices, replica)
        lowering.prepare(tuple(part for term in self.problem.terms for part in term.parts()))
        scope = Scope(certain=not outside)
        self.loops(self.problem.reduced, scope)
        loops = tuple(node for node in scope.nodes if isinstance(node, Section))
        assert len(loops) == len(scope.nodes), "a node is in no section"
        sections = (
            Section("counters", tuple(map(Declare, self.counters))),
            Section("indices", indices),
            Section("zero", (self._zero(),)),
            Section("zeroed", (Barrier(),)),
            *guarded("if_row", outside, loops),
            Section("counted", (Barrier(),)),
            *guarded("if_result", outside, (Section("results", (self._results(),)),)),
        )
        block = (self.config.threads, self.config.rows, 1)
        return assemble(self.problem.request, lowering, "histogram", sections, grid, block, reasons=(self._reason(),))

    def _reason(self) -> str:
        replicas, rows = self.config.replicas, self.config.rows
        bins = f"{'' if self.problem.has_fixed_bins else 'up to '}{self.problem.max_bin_count} bins"
        counters = bins if replicas == 1 else f"{bins}, each of {replicas} counters"
        return f"a block counts {'a row' if rows == 1 else f'{rows} rows'} of elements into {counters}"

    def _rows(self) -> tuple[tuple[Node, ...], tuple[Comparison, ...], Grid]:
        """The indices of the thread's row, what fails past the last row, and the grid."""
        lowering, indices, context = self.lowering, self.problem.rows, self.problem.context
        if not indices:
            return (), (), (integer(1), integer(1), integer(1))
        first, *others = extents = list(map(context.extent, indices))
        counts = [ceil_div(first, self.config.rows), *others]
        blocks = make_grid(counts, lowering, self.problem.request.target)
        nodes = define_indices(indices[1:], others, blocks.coordinates[1 : len(extents)], lowering)
        value = blocks.coordinates[0] * self.config.rows + self.y
        row = define_index(indices[0].name, value, first, lowering, below=counts[0] * self.config.rows)
        is_whole = divides(self.config.rows, first, context)
        outside = () if is_whole else (Comparison(row.index.symbol, "<", first),)
        return (*nodes, row), outside, blocks.grid

    # The counters

    def _counters(self, histogram: KeyedReduction) -> Array:
        """The counters of a histogram in shared memory: by row, replica and bin."""
        problem, config = self.problem, self.config
        statements = problem.request.group.statements
        target = next(s.target.lower() for s in statements if histogram.reduction in walk(s.value))
        name = self.lowering.names.allocate("bins" if len(problem.reductions) == 1 else f"{target}_bins")
        sizes = zip((config.rows, config.replicas, problem.max_bin_count), self.is_used, strict=True)
        used = [size for size, is_used in sizes if is_used]
        return dense_array(name, histogram.accumulator, used, "shared", padding(problem, config))

    def _access(self, bins: Array, number: Integer, replica: Integer, kind: str) -> Access:
        """A counter of the thread's row."""
        pairs = zip((self.y, replica, number), self.is_used, strict=True)
        return Access(bins, tuple(subscript for subscript, used in pairs if used), kind)

    def _zero(self) -> For:
        """The threads of a row zero its counters."""
        lowering, count = self.lowering, self.problem.bin_extent
        number = self.bin_variable("counter", self.x)
        replica = shared_loop_variable("c", (0, self.config.replicas - 1), lowering)
        stores = tuple(
            Store(self._access(bins, number.symbol, value_of(replica), "store"), Const(0, bins.dtype))
            for bins in self.counters
        )
        return For(Loop(number, self.x, count, self.config.threads), repeated(replica, stores))

    def _results(self) -> For:
        """The threads of a row add up the replicas of its counters, and store the results."""
        lowering, bins, count = self.lowering, self.problem.bins, self.problem.bin_extent
        number = self.bin_variable(bins[0].name if len(bins) == 1 else "bin", self.x)
        scope = Scope(certain=False)
        extents = list(map(self.problem.context.extent, reversed(bins)))
        if len(bins) == 1:
            lowering.symbols[bins[0].name] = number.symbol
        else:
            scope.nodes += define_indices(bins[::-1], extents, digits(number.symbol, extents), lowering)
        for histogram, counters in zip(self.problem.reductions, self.counters, strict=True):
            value, dtype = self._counted(counters, number.symbol, scope), histogram.reduction.dtype
            scope.remember(histogram.reduction, value if value.dtype == dtype else Cast(value, dtype))
        lower_statements(self.problem.request, lowering, scope)
        return For(Loop(number, self.x, count, self.config.threads), tuple(scope.nodes))

    def _counted(self, bins: Array, number: Integer, scope: Scope) -> Expr:
        """The sum of the replicas of a counter."""
        lowering, dtype = self.lowering, bins.dtype
        if self.config.replicas == 1:
            local = Local(lowering.names.allocate("total"), dtype)
            scope.nodes.append(Load(local, self._access(bins, number, integer(0), "load")))
            return local
        total = Local(lowering.names.allocate("total"), dtype)
        replica = shared_loop_variable("c", (0, self.config.replicas - 1), lowering)
        element = Element.of(self._access(bins, number, replica.symbol, "load"))
        scope.nodes.append(Let(total, Const(0, dtype), mutable=True))
        scope.nodes.append(unrolled(replica, (Assign(total, Op("add", (total, element), dtype)),)))
        return total

    # The elements

    def innermost(self, index: spec.Index, start: Integer, stop: Integer, scope: Scope) -> None:
        """Vectors where whole ones are contiguous, and single elements; the threads of the row take turns."""
        width, threads = self.config.width, self.config.threads
        tail = "scalars"
        if width > 1 and start == 0 and not any(map(uses_indices, self.conditions())):
            is_whole = divisor(stop, self.problem.context) % width == 0
            first, step = self.x * width, threads * width
            end = stop if is_whole else stop - (width - 1)
            loop = Loop(self.loop_index(index, first, stop, step), first, end, step, unroll_by=self.config.unroll)
            self.append("vectors", index, loop, scope, lambda inner: self._vector(index, inner))
            if is_whole:
                return
            start, tail = FloorDiv(stop, integer(width)) * width, "tail"
            if bounds(stop, self.lowering.ranges)[0] < 0:
                start = Maximum(start, integer(0))
        first, unroll = start + self.x, self.config.unroll if tail == "scalars" else 0
        name_hint = "" if tail == "scalars" else tail
        loop = Loop(self.loop_index(index, first, stop, threads, name_hint), first, stop, threads, unroll_by=unroll)
        before = "before_tail" if tail == "tail" else "bounds"
        self.append(tail, index, loop, scope, self._element, before)

    def _vector(self, index: spec.Index, scope: Scope) -> None:
        """Loads a vector of each read, and counts its elements."""
        lowering, width = self.lowering, self.config.width
        first, along = lowering.symbols[index.name], index.name
        lane = shared_loop_variable("v", (0, width - 1), lowering)
        inner = Scope(scope, frozenset((along,)))
        reads = vector_reads(self.problem)
        for read in reads:
            array = lowering.arrays[read.array]
            vector = vector_of(array, read.array, width, lowering)
            subscripts = tuple(to_integer(sub, lowering.symbols) for sub in read.subscripts)
            scope.nodes.append(Load(vector, Access(array, subscripts, "load", width, span=read.span)))
            element = Local(lowering.name_for(read, lowering.read_names[read], inner), read.dtype)
            inner.nodes.append(Let(element, vector.component(lane.symbol)))
            inner.remember(read, element)
        if self.uses_index(along, reads.__contains__):
            inner.nodes.insert(0, define_index(along, first + lane.symbol, lowering.limits[first], lowering))
        self._element(inner)
        lowering.symbols[along] = first
        append_loop(scope, "load", "elements", unrolled(lane, inner.nodes))

    def _element(self, scope: Scope) -> None:
        """Adds the terms of an element to the counters: the section `count`."""
        for bins, term in self.terms:
            self.add([(bins, term.value)], term.keys, term.conditions, scope)
        append_section(scope, "count")

    def update(self, updates: Sequence[Update], keys: Sequence[Integer], scope: Scope) -> None:
        number, inside = self.bin_of(keys)
        inner = Scope(scope, certain=False) if inside.terms else scope
        for bins, summand in updates:
            value = self.lowering.lower(summand, inner)
            value = replace(value, dtype=bins.dtype) if isinstance(value, Const) else Cast(value, bins.dtype)
            inner.nodes.append(AtomicAdd(self._access(bins, number, self.replica, "atomic"), value))
        if inside.terms:
            scope.nodes.append(If(inside, tuple(inner.nodes)))
