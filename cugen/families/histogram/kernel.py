"""The kernel of a histogram: counters in shared memory are zeroed, added to by each element, and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cugen.families.histogram.config import HistogramConfig, padding, vector_reads
from cugen.families.histogram.recognition import Histogram, HistogramProblem, Term
from cugen.pieces.blocks import define, define_index, define_indices, digits, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, dense_array, new_lowering
from cugen.pieces.loop_variables import (
    index_loop_variable,
    loop_variable,
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
from cugen.plan.lowering.reductions import loop_bound, lower_condition
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Assign,
    AtomicAdd,
    Barrier,
    Comparison,
    Declare,
    For,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Maximum, Minimum, Mod, bounds, ceil_div, integer, symbol
from cugen.spec import expressions as spec
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, Read, free_indices, uses_indices, walk
from cugen.spec.types import INT64, UINT32

Grid = tuple[Integer, Integer, Integer]


class HistogramKernel:
    """The kernel of one group of statements, under construction."""

    def __init__(self, problem: HistogramProblem, config: HistogramConfig) -> None:
        self.problem, self.config = problem, config
        self.lowering = new_lowering(problem.request, problem.arrays)
        self.x, self.y = thread("x", config.threads, self.lowering), thread("y", config.rows, self.lowering)
        self.is_used = (config.rows > 1, config.replicas > 1, True)  # dimensions of the counters
        self.counters = tuple(map(self._counters, problem.histograms))
        pairs = zip(problem.histograms, self.counters, strict=True)
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
        self._loops(self.problem.reduced, scope)
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
        bins, replicas, rows = self.problem.bin_count, self.config.replicas, self.config.rows
        counters = f"{bins} bins" if replicas == 1 else f"{bins} bins, each of {replicas} counters"
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

    def _counters(self, histogram: Histogram) -> Array:
        """The counters of a histogram in shared memory: by row, replica and bin."""
        problem, config = self.problem, self.config
        statements = problem.request.group.statements
        target = next(s.target.lower() for s in statements if histogram.reduction in walk(s.value))
        name = self.lowering.names.allocate("bins" if len(problem.histograms) == 1 else f"{target}_bins")
        sizes = zip((config.rows, config.replicas, problem.bin_count), self.is_used, strict=True)
        used = [size for size, is_used in sizes if is_used]
        return dense_array(name, histogram.counter, used, "shared", padding(problem, config))

    def _access(self, bins: Array, number: Integer, replica: Integer, kind: str) -> Access:
        """A counter of the thread's row."""
        pairs = zip((self.y, replica, number), self.is_used, strict=True)
        return Access(bins, tuple(subscript for subscript, used in pairs if used), kind)

    def _zero(self) -> For:
        """The threads of a row zero its counters."""
        lowering, count = self.lowering, self.problem.bin_count
        number = loop_variable("counter", count, lowering, self.x)
        replica = shared_loop_variable("c", (0, self.config.replicas - 1), lowering)
        stores = tuple(
            Store(self._access(bins, number.symbol, value_of(replica), "store"), Const(0, bins.dtype))
            for bins in self.counters
        )
        return For(Loop(number, self.x, integer(count), self.config.threads), repeated(replica, stores))

    def _results(self) -> For:
        """The threads of a row add up the replicas of its counters, and store the results."""
        lowering, bins, count = self.lowering, self.problem.bins, self.problem.bin_count
        hint = bins[0].name if len(bins) == 1 else "bin"
        number = loop_variable(hint, count, lowering, self.x)
        scope = Scope(certain=False)
        extents = list(map(self.problem.context.extent, reversed(bins)))
        if len(bins) == 1:
            lowering.symbols[bins[0].name] = number.symbol
        else:
            scope.nodes += define_indices(bins[::-1], extents, digits(number.symbol, extents), lowering)
        for histogram, counters in zip(self.problem.histograms, self.counters, strict=True):
            value, dtype = self._counted(counters, number.symbol, scope), histogram.reduction.dtype
            scope.remember(histogram.reduction, value if value.dtype == dtype else Cast(value, dtype))
        lower_statements(self.problem.request, lowering, scope)
        return For(Loop(number, self.x, integer(count), self.config.threads), tuple(scope.nodes))

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

    def _loops(self, indices: Sequence[spec.Index], scope: Scope) -> None:
        """The loops over the reduced indices, whose last is distributed over the threads of the row."""
        index, *inner_indices = indices
        start, stop = self._range(index, inner_indices)
        if not stop.is_Symbol and not stop.free_symbols <= self.problem.context.ranges.keys():
            stop = self.lowering.define("stop", stop, scope)
        if inner_indices:
            loop = Loop(self._index(index, start, stop, 1), start, stop)
            self._append("outer", index, loop, scope, lambda inner: self._loops(inner_indices, inner))
            return
        width, threads = self.config.width, self.config.threads
        tail = "scalars"
        if width > 1 and start == 0 and not any(map(uses_indices, self._conditions())):
            is_whole = divisor(stop, self.problem.context) % width == 0
            first, step = self.x * width, threads * width
            end = stop if is_whole else stop - (width - 1)
            loop = Loop(self._index(index, first, stop, step), first, end, step, unroll_by=self.config.unroll)
            self._append("vectors", index, loop, scope, lambda inner: self._vector(index, inner))
            if is_whole:
                return
            start, tail = FloorDiv(stop, integer(width)) * width, "tail"
            if bounds(stop, self.lowering.ranges)[0] < 0:
                start = Maximum(start, integer(0))
        first, unroll = start + self.x, self.config.unroll if tail == "scalars" else 0
        name_hint = "" if tail == "scalars" else tail
        loop = Loop(self._index(index, first, stop, threads, name_hint), first, stop, threads, unroll_by=unroll)
        before = "before_tail" if tail == "tail" else "bounds"
        self._append(tail, index, loop, scope, self._element, before)

    def _append(
        self,
        name: str,
        index: spec.Index,
        loop: Loop,
        scope: Scope,
        fill: Callable[[Scope], None],
        before: str = "bounds",
    ) -> None:
        """Appends a loop over an index as the section `name`, with what `fill` puts into its body."""
        inner = Scope(scope, frozenset((index.name,)), certain=False, is_loop=True)
        fill(inner)
        append_loop(scope, before, name, For(loop, tuple(inner.nodes)))
        del self.lowering.symbols[index.name]

    def _conditions(self) -> tuple[Expr, ...]:
        return tuple(condition for _, term in self.terms for condition in term.conditions)

    def _range(self, index: spec.Index, inner: Sequence[spec.Index]) -> tuple[Integer, Integer]:
        """The range of an index outside of which a condition of all terms fails; these conditions are then implied."""
        lowering, variable = self.lowering, symbol(f"{index.name} of the loop")
        bounded = replace(lowering, symbols={**lowering.symbols, index.name: variable})
        start, stop = integer(0), self.problem.context.extent(index)
        undefined = {i.name for i in inner}
        first, *others = (term.conditions for _, term in self.terms)
        implied: list[Expr] = []
        for condition in (c for c in first if all(c in conditions for conditions in others)):
            if free_indices(condition) & undefined or index.name not in free_indices(condition):
                continue
            bound = loop_bound(bounded, condition, variable)
            if bound is None:
                continue
            implied.append(condition)
            limit = bound.right
            if bound.operator == "<":
                stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
            else:
                start = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
        self.terms = tuple(
            (bins, replace(term, conditions=tuple(c for c in term.conditions if c not in implied)))
            for bins, term in self.terms
        )
        return start, stop

    def _index(self, index: spec.Index, first: Integer, stop: Integer, step: int, name_hint: str = "") -> Index:
        """A loop variable, of 64 bits where the last increment could overflow 32."""
        lowering = self.lowering
        high = bounds(stop, lowering.ranges)[1]
        last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
        variable = replace(index_loop_variable(index.name, (0, last), lowering, name_hint), definition=first)
        lowering.limits[variable.symbol] = self.problem.context.extent(index)
        lowering.symbols[index.name] = variable.symbol
        return variable

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
        if self._needs_element_index(along, reads):
            inner.nodes.insert(0, define_index(along, first + lane.symbol, lowering.limits[first], lowering))
        self._element(inner)
        lowering.symbols[along] = first
        append_loop(scope, "load", "elements", unrolled(lane, inner.nodes))

    def _needs_element_index(self, along: str, vectors: Sequence[Read]) -> bool:
        """Whether the terms use the index of each element, not only that of its vector."""

        def uses(expr: Expr) -> bool:
            if isinstance(expr, Read) and expr in vectors:
                return False
            return expr == spec.IndexValue(along) or any(map(uses, spec.children(expr)))

        return any(uses(part) for _, term in self.terms for part in term.parts())

    def _element(self, scope: Scope) -> None:
        """Adds the terms of an element to the counters: the section `count`."""
        for bins, term in self.terms:
            self._add(bins, term, term.conditions, scope)
        append_section(scope, "count")

    def _add(self, bins: Array, term: Term, conditions: Sequence[Expr], scope: Scope) -> None:
        """Adds a term's value to the counter of its keys, under the conditions that are left."""
        if conditions:
            condition = lower_condition(self.lowering, conditions[0], scope)
            inner = scope if condition is None else Scope(scope, certain=False)
            self._add(bins, term, conditions[1:], inner)
            if condition is not None:
                scope.nodes.append(If(condition, tuple(inner.nodes)))
            return
        keys = [self._key(key, scope) for key in term.keys]
        extents = [self.problem.context.extent(index) for index in self.problem.bins]
        inside = self.lowering.inside(tuple(keys), tuple(extents))
        number = integer(0)
        for key, extent in zip(keys, extents, strict=True):
            number = number * extent + key
        inner = Scope(scope, certain=False) if inside.terms else scope
        value = self.lowering.lower(term.value, inner)
        value = replace(value, dtype=bins.dtype) if isinstance(value, Const) else Cast(value, bins.dtype)
        inner.nodes.append(AtomicAdd(self._access(bins, number, self.replica, "atomic"), value))
        if inside.terms:
            scope.nodes.append(If(inside, tuple(inner.nodes)))

    def _key(self, key: Expr, scope: Scope) -> Integer:
        """A key as an integer expression; one that is computed is named. Its range is that of its type."""
        lowering = self.lowering
        try:
            return to_integer(key, lowering.symbols)
        except NotAnInteger:
            value = lowering.lower(key, scope)
        if value.dtype == UINT32:  # differences of subscripts may be negative
            value = Cast(value, INT64)
        if type(value) is not Local:
            local = Local(lowering.name_for(key, "key", scope), value.dtype)
            scope.nodes.append(Let(local, value))
            value = local
        lowering.ranges[symbol(value.name)] = (value.dtype.lowest, value.dtype.highest)
        return symbol(value.name)
