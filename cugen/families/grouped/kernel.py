"""The kernel of reductions by key: each thread updates accumulators of its own, one for each bin, then threads combine
those of a bin over the lanes, and store the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from cugen.families.grouped.config import TESTED_KEYS, GroupedConfig, tests_warps
from cugen.families.grouped.recognition import column_of, column_reads, is_plain
from cugen.machine.requests.banks import BANKS
from cugen.pieces.block_reduce import WARP, Accumulator, ThreadGroup, reduce_group
from cugen.pieces.blocks import append_definition, define, define_index, define_indices, digits, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, dense_array, new_lowering
from cugen.pieces.keyed.kernel import KeyedKernel, Update
from cugen.pieces.keyed.problem import KeyedProblem, KeyedReduction
from cugen.pieces.loop_variables import loop_variable, repeated, shared_loop_variable, unrolled, value_of
from cugen.pieces.sections import append_loop, append_section, guarded, guarded_nodes
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import gather_stores, vector_of
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.reductions import ACCUMULATORS, combine, identity
from cugen.plan.memory import Access, Array, Element, IndexLocal, Vector
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comparison,
    Copy,
    Declare,
    For,
    Guard,
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
from cugen.plan.subscripts import access_of, to_integer
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, bounds, ceil_div, integer
from cugen.plan.traversal.usage import mentions
from cugen.rewrite.dense_indices import index_values
from cugen.spec import expressions as spec
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, Read, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.types import BOOL, INT32, UINT32, UINT64

_MAX_UNROLL = 16  # lanes that are combined at once
Grid = tuple[Integer, Integer, Integer]


class GroupedKernel(KeyedKernel):
    """The kernel of one group of statements, under construction."""

    def __init__(self, problem: KeyedProblem, config: GroupedConfig) -> None:
        super().__init__(problem, new_lowering(problem.request, problem.arrays))
        self.config, self.column = config, column_of(problem)
        self.block = (config.threads, config.lanes, 1) if config.threads > 1 else (config.lanes, 1, 1)
        self.x = thread("x", config.threads, self.lowering)
        self.y = thread("y" if config.threads > 1 else "x", config.lanes, self.lowering)
        # Dimensions of the accumulators: by bin, column of the thread, lane, and thread along the columns.
        self.is_used = (config.bins > 1, config.width > 1, config.lanes > 1, config.threads > 1)
        self.accumulators = tuple(map(self._accumulators, problem.reductions))
        self.reductions = dict(zip(self.accumulators, problem.reductions, strict=True))
        pairs = zip(problem.reductions, self.accumulators, strict=True)
        self.terms = tuple((array, term) for keyed, array in pairs for term in keyed.terms)
        self.ahead: dict[Read, Vector] = {}  # what is loaded of the current element
        self.registers: dict[Read, Array] = {}  # of a batch
        self.first_bin: Integer = integer(0)
        self.stop_bin: Integer = problem.bin_extent

    @property
    def has_all_bins(self) -> bool:
        """Whether a block has all bins."""
        return self.problem.has_fixed_bins and self.config.bins == self.problem.bin_count

    def kernel(self) -> Kernel:
        lowering = self.lowering
        indices, outside, grid = self._indices()
        lowering.prepare(tuple(part for term in self.problem.terms for part in term.parts()))
        scope = Scope(certain=not outside)
        self.loops(self.problem.reduced, scope)
        loops = tuple(node for node in scope.nodes if isinstance(node, Section))
        assert len(loops) == len(scope.nodes), "a node is in no section"
        sections = (
            Section("accumulators", tuple(map(Declare, self.accumulators))),
            Section("indices", indices),
            Section("start", self._start()),
            *guarded("if_column", outside, loops),
            *((Section("combined", (Barrier(),)),) if self.config.lanes > 1 else ()),
            *guarded("if_result", outside, (Section("results", (self._results(),)),)),
        )
        reasons = (self._reason(),)
        return assemble(self.problem.request, lowering, "grouped", sections, grid, self.block, reasons=reasons)

    def _reason(self) -> str:
        bins, count = self.config.bins, self.problem.bin_count
        which = f"{bins} of {count} bins" if bins < count else f"{bins} bins"
        return f"each thread has accumulators of its own for {which}"

    def _indices(self) -> tuple[tuple[Node, ...], tuple[Comparison, ...], Grid]:
        """The first bin of the block, the indices of its row and the thread's columns, what fails past the last
        column, and the grid."""
        lowering, context, config = self.lowering, self.problem.context, self.config
        rows = [index for index in self.problem.rows if index != self.column]
        columns = context.extent(self.column) if self.column else integer(1)
        tile = config.threads * config.width
        counts = [ceil_div(self.problem.bin_extent, config.bins), ceil_div(columns, tile)]
        extents = list(map(context.extent, rows))
        blocks = make_grid([*counts, *extents], lowering, self.problem.request.target)
        coordinates = (*blocks.coordinates, *[integer(0)] * (2 + len(rows) - len(blocks.coordinates)))
        nodes: list[Node] = define_indices(rows, extents, coordinates[2:], lowering)
        if not self.has_all_bins:
            hint = self.problem.bins[0].name if len(self.problem.bins) == 1 else "bin"
            below = self.problem.bin_extent
            first = define(f"first_{hint}", coordinates[0] * config.bins, lowering, below=below)
            stop = define(f"stop_{hint}", Minimum(first.index.symbol + config.bins, self.stop_bin), lowering)
            self.first_bin, self.stop_bin = first.index.symbol, stop.index.symbol
            nodes += (first, stop)
        if self.column is None:
            return tuple(nodes), (), blocks.grid
        value = (coordinates[1] * config.threads + self.x) * config.width
        hint = f"first_{self.column.name}" if config.width > 1 else self.column.name
        node = define_index(self.column.name, value, columns, lowering, below=counts[1] * tile, name_hint=hint)
        is_whole = divides(tile, columns, context)
        outside = () if is_whole else (Comparison(node.index.symbol, "<", columns),)
        return (*nodes, node), outside, blocks.grid

    def _bin_name(self) -> str:
        return self.problem.bins[0].name if len(self.problem.bins) == 1 else "bin"

    # The accumulators

    def _accumulators(self, keyed: KeyedReduction) -> Array:
        """The accumulators of a reduction in shared memory: those of a warp for one bin are in as many banks."""
        config, statements = self.config, self.problem.request.group.statements
        target = next(s.target.lower() for s in statements if keyed.reduction in walk(s.value))
        kind = ACCUMULATORS[keyed.reduction.kind]
        name = self.lowering.names.allocate(kind if len(self.problem.reductions) == 1 else f"{target}_{kind}")
        sizes = zip((config.bins, config.width, config.lanes, config.threads), self.is_used, strict=True)
        return dense_array(name, keyed.accumulator, [size for size, used in sizes if used], "shared")

    def _access(self, array: Array, number: Integer, column: Integer, lane: Integer, kind: str) -> Access:
        pairs = zip((number, column, lane, self.x), self.is_used, strict=True)
        return Access(array, tuple(subscript for subscript, used in pairs if used), kind)

    def _start(self) -> tuple[Node, ...]:
        """Each thread's accumulators are the identity."""
        lowering = self.lowering
        number = shared_loop_variable("b", (0, self.config.bins - 1), lowering)
        lane = self._column_lane()
        starts = tuple(
            Store(
                self._access(array, value_of(number), value_of(lane), self.y, "store"),
                identity(keyed.reduction.kind, array.dtype),
            )
            for array, keyed in self.reductions.items()
        )
        body = repeated(lane, starts)
        if self.config.bins == 1:
            return body
        return (For(Loop(number, integer(0), integer(self.config.bins)), body),)

    def _column_lane(self) -> Index:
        return shared_loop_variable("v", (0, self.config.width - 1), self.lowering)

    # The elements

    def innermost(self, index: spec.Index, start: Integer, stop: Integer, scope: Scope) -> None:
        """Chunks of keys that a warp tests, batches of elements that are loaded ahead, and single elements; the lanes
        take turns."""
        lanes, first, tile = self.config.lanes, start, 1
        sizes = {"batches": lanes * self.config.batch} if self.config.batch > 1 and self._reads_ahead(index) else {}
        if sizes and tests_warps(self.problem, self.config):
            sizes = {"chunks": TESTED_KEYS, **sizes}
        counts = {name: FloorDiv(stop - start, integer(size)) for name, size in sizes.items()}
        some = next((name for name, count in counts.items() if bounds(count, self.lowering.ranges)[1] > 0), "")
        if some:
            count, tile = counts[some], sizes[some]
            append = self._append_chunks if some == "chunks" else self._append_batches
            append(index, start, count, scope)
            is_positive = bounds(count, self.lowering.ranges)[0] >= 0
            first = start + (count * tile if is_positive else Maximum(count * tile, integer(0)))
        if some and divides(tile, stop - start, self.problem.context):
            return
        first += self.y
        variable = self.loop_index(index, first, stop, lanes, "tail" if some else "")
        before = "before_tail" if some else "bounds"
        self.append("tail", index, Loop(variable, first, stop, lanes), scope, self._element, before)

    def _append_batches(self, index: spec.Index, start: Integer, count: Integer, scope: Scope) -> None:
        number = loop_variable("batch", count, self.lowering)
        loop = Loop(number, integer(0), count)
        self.append("batches", index, loop, scope, lambda inner: self._batch(index, start, number, inner))

    def _append_chunks(self, index: spec.Index, start: Integer, count: Integer, scope: Scope) -> None:
        number = loop_variable("chunk", count, self.lowering)
        loop = Loop(number, integer(0), count)
        self.append("chunks", index, loop, scope, lambda inner: self._chunk(index, start, number, inner))

    def _chunk(self, index: spec.Index, start: Integer, number: Index, scope: Scope) -> None:
        """A warp tests a chunk of keys, and looks at its batches if one of them is of the block's bins."""
        lowering, first = self.lowering, start + number.symbol * TESTED_KEYS
        element = shared_loop_variable("key", (0, TESTED_KEYS // WARP - 1), lowering)
        lowering.symbols[index.name] = first + element.symbol * WARP + Mod(self.x, integer(WARP))
        nearest = self._append_distances(element, Scope(scope, frozenset((index.name,))), scope)
        group = ThreadGroup(WARP, Mod(self.x, integer(WARP)))
        scope.nodes += reduce_group(group, (Accumulator("min", nearest),), lowering, everywhere=True)
        append_section(scope, "tests")
        inner = Scope(scope, certain=False)
        self._append_batches(index, first, integer(TESTED_KEYS // self.config.batch), inner)
        lowering.symbols[index.name] = first
        scope.nodes.append(Section("if_key", (If(self._has_key(nearest), tuple(inner.nodes)),)))

    def _batch(self, index: spec.Index, start: Integer, number: Index, scope: Scope) -> None:
        """Loads a batch of elements, and combines them with the accumulators."""
        lowering, config, name = self.lowering, self.config, index.name
        value = start + number.symbol * (config.lanes * config.batch) + self.y
        first = append_definition(f"first_{name}", value, scope.nodes, lowering)
        element = shared_loop_variable("u", (0, config.batch - 1), lowering)
        position = first + element.symbol * config.lanes
        extent = self.problem.context.extent(index)
        lowering.symbols[name] = position
        inner = Scope(scope, frozenset((name,)))
        loads: list[Node] = []
        for read in self._reads_ahead(index):
            array = lowering.arrays[read.array]
            hint = lowering.names.allocate(f"{read.array.lower()}_ahead")
            subscripts = tuple(to_integer(sub, lowering.symbols) for sub in read.subscripts)
            if config.width > 1 and self.column is not None and self.column.name in free_indices(read):
                vectors = Vector(hint, array.dtype.compute, array.dtype, config.width, config.batch)
                scope.nodes.append(Let(vectors, None, mutable=True))
                source = Access(array, subscripts, "load", config.width, span=read.span)
                loads.append(Load(vectors.indexed(element.symbol), source))
                self.ahead[read] = vectors.indexed(element.symbol)
                continue
            ahead = replace(dense_array(hint, array.dtype, (config.batch,), "register"), name=read.array)
            self.registers[read] = ahead
            scope.nodes.append(Declare(ahead))
            source = Access(array, subscripts, "load", span=read.span)
            loads.append(Copy(Access(ahead, (element.symbol,), "store"), source))
            local = Local(lowering.name_for(read, lowering.read_names[read], inner), read.dtype)
            inner.nodes.append(Load(local, Access(ahead, (element.symbol,), "load")))
            inner.remember(read, local)
        scope.nodes.append(unrolled(element, loads))
        if self.uses_index(name, self._is_ahead):
            inner.nodes.insert(0, define_index(name, position, extent, lowering))
        self._element(inner)
        self.ahead.clear()
        elements = unrolled(element, inner.nodes)
        if config.loaded_ahead or len(self.problem.bins) > 1:
            append_loop(scope, "load", "elements", elements)
            return
        append_section(scope, "load")
        tested = Scope(scope, frozenset((name,)))
        for read, ahead in self.registers.items():
            tested.remember(read, Element.of(Access(ahead, (element.symbol,), "load")))
        nearest = self._append_distances(element, tested, scope)
        append_section(scope, "tests")
        scope.nodes.append(Section("if_key", (If(self._has_key(nearest), (Section("elements", (elements,)),)),)))

    def _append_distances(self, element: Index, tested: Scope, scope: Scope) -> Local:
        """The least distance of some elements' keys from the block's first bin, which is a large one for keys below
        it."""
        lowering = self.lowering
        values = [lowering.lower(key, tested) for (key,) in dict.fromkeys(term.keys for term in self.problem.terms)]
        dtype = UINT64 if any(value.dtype.bits > UINT32.bits for value in values) else UINT32
        nearest = Local(lowering.names.allocate("nearest"), dtype)
        first = Cast(IndexLocal(self.first_bin.name, INT32), dtype)
        distance: Expr = nearest
        for value in values:
            distance = Op("minimum", (distance, Op("sub", (Cast(value, dtype), first), dtype)), dtype)
        scope.nodes.append(Let(nearest, Const(dtype.highest, dtype), mutable=True))
        scope.nodes.append(unrolled(element, (*tested.nodes, Assign(nearest, distance))))
        return nearest

    def _has_key(self, nearest: Local) -> Expr:
        """Whether a key may be one of the block's bins."""
        return Op("lt", (nearest, Const(self.config.bins, nearest.dtype)), BOOL)

    def _reads_ahead(self, index: spec.Index) -> tuple[Read, ...]:
        """The reads that are in bounds for all elements: those of keys and conditions, and those of values that are
        loaded ahead of their tests."""
        tests = {node for term in self.problem.terms for part in (*term.keys, *term.conditions) for node in walk(part)}
        return tuple(
            read
            for read in self.problem.reads()
            if index.name in free_indices(read)
            and (self.config.loaded_ahead or read in tests)
            and is_plain(read, self.problem)
        )

    def _is_ahead(self, read: Read) -> bool:
        """Whether a read is loaded ahead of the loop over a batch."""
        return read in self.ahead or is_plain(read, self.problem)

    def _element(self, scope: Scope) -> None:
        """Combines the terms of an element with the accumulators of their keys: the section `update`."""
        for (keys, conditions), terms in groupby(self.terms, lambda pair: (pair[1].keys, pair[1].conditions)):
            self.add([(array, term.value) for array, term in terms], keys, conditions, scope)
        append_section(scope, "update")

    def update(self, updates: Sequence[Update], keys: Sequence[Integer], scope: Scope) -> None:
        """Values that are loaded before their keys are tested are loaded for several elements at once."""
        number, inside = self.bin_of(keys)
        if not self.has_all_bins:
            of_block = Comparison(number, ">=", self.first_bin), Comparison(number, "<", self.stop_bin)
            inside = Guard(of_block if len(keys) == 1 else (*inside.terms, *of_block))
        inner = Scope(scope, certain=False) if inside.terms else scope
        loaded = scope if self.config.loaded_ahead else inner
        if not self.has_all_bins:
            within = (0, self.config.bins - 1)
            number = append_definition("bin", number - self.first_bin, inner.nodes, self.lowering, within)
        if self.config.width == 1:
            values = [self.lowering.lower(value, loaded) for _, value in updates]
            nodes = self._combined(updates, values, number, integer(0))
        else:
            nodes = self._vector(updates, number, loaded)
        inner.nodes += nodes
        if inside.terms:
            scope.nodes += guarded_nodes(inside, inner.nodes)

    def _combined(
        self, updates: Sequence[Update], values: Sequence[Expr], number: Integer, column: Integer
    ) -> list[Node]:
        nodes: list[Node] = []
        for (array, _), value in zip(updates, values, strict=True):
            typed = Const(value.value, array.dtype) if isinstance(value, Const) else _as(value, array)
            element = Element.of(self._access(array, number, column, self.y, "load"))
            combined = combine(self.reductions[array].reduction.kind, element, typed)
            nodes.append(Store(self._access(array, number, column, self.y, "store"), combined))
        return nodes

    def _vector(self, updates: Sequence[Update], number: Integer, scope: Scope) -> list[Node]:
        """Loads a vector of columns for each read; the loop over its columns."""
        assert self.column is not None
        lowering, width, along = self.lowering, self.config.width, self.column.name
        first, lane = lowering.symbols[along], self._column_lane()
        inner = Scope(scope, frozenset((along,)))
        used = {node for _, value in updates for node in walk(value)}
        for read in (read for read in column_reads(self.problem, self.column) if read in used):
            if (vector := self.ahead.get(read)) is None:
                array = lowering.arrays[read.array]
                vector = vector_of(array, read.array, width, lowering)
                subscripts = tuple(to_integer(sub, lowering.symbols) for sub in read.subscripts)
                scope.nodes.append(Load(vector, Access(array, subscripts, "load", width, span=read.span)))
            inner.remember(read, vector.component(lane.symbol))
        if any(along in index_values(value) for _, value in updates):
            inner.nodes.append(define_index(along, first + lane.symbol, lowering.limits[first], lowering))
        values = [lowering.lower(value, inner) for _, value in updates]
        inner.nodes += self._combined(updates, values, number, lane.symbol)
        lowering.symbols[along] = first
        return [unrolled(lane, inner.nodes)]

    # The results

    def _results(self) -> For:
        """The lanes share the bins: each combines all accumulators of one, and stores the results."""
        lowering, bins, lanes = self.lowering, self.problem.bins, self.config.lanes
        first = self.first_bin + self.y
        number = self.bin_variable(self._bin_name(), first)
        scope = Scope(certain=False)
        extents = list(map(self.problem.context.extent, reversed(bins)))
        if len(bins) == 1:
            lowering.symbols[bins[0].name] = number.symbol
        else:
            scope.nodes += define_indices(bins[::-1], extents, digits(number.symbol, extents), lowering)
        if self.config.width == 1:
            self._remember_results(number.symbol, integer(0), scope)
            lower_statements(self.problem.request, lowering, scope)
        else:
            self._vector_results(number.symbol, scope)
        return For(Loop(number, first, self.stop_bin, lanes), tuple(scope.nodes))

    def _remember_results(self, number: Integer, column: Integer, scope: Scope) -> None:
        for array, keyed in self.reductions.items():
            scope.remember(keyed.reduction, self._total(array, keyed, number - self.first_bin, column, scope))

    def _total(self, array: Array, keyed: KeyedReduction, number: Integer, column: Integer, scope: Scope) -> Expr:
        """The accumulators of a bin combined over the lanes. Threads of a warp that have different bins begin at
        different lanes, whose accumulators are in different banks."""
        lowering, lanes, kind = self.lowering, self.config.lanes, keyed.reduction.kind
        total = Local(lowering.names.allocate("total"), array.dtype)
        if lanes == 1:
            scope.nodes.append(Load(total, self._access(array, number, column, integer(0), "load")))
            return total
        lane = shared_loop_variable("lane", (0, lanes - 1), lowering)
        position = Mod(lane.symbol + number, integer(lanes)) if self.config.threads < BANKS else lane.symbol
        element = Element.of(self._access(array, number, column, position, "load"))
        scope.nodes.append(Let(total, identity(kind, array.dtype), mutable=True))
        combined = (Assign(total, combine(kind, total, element)),)
        loop = Loop(lane, integer(0), integer(lanes), unroll_by=_MAX_UNROLL)
        scope.nodes.append(unrolled(lane, combined) if lanes <= _MAX_UNROLL else For(loop, combined))
        return total

    def _vector_results(self, number: Integer, scope: Scope) -> None:
        """The results of the thread's columns, which vectors store."""
        assert self.column is not None
        lowering, width, along = self.lowering, self.config.width, self.column.name
        first, lane = lowering.symbols[along], self._column_lane()
        inner = Scope(scope, frozenset((along,)))
        column = define_index(along, first + lane.symbol, lowering.limits[first], lowering)
        self._remember_results(number, lane.symbol, inner)
        lower_statements(self.problem.request, lowering, inner)
        lowering.symbols[along] = first
        nodes, gathered = gather_stores(inner.nodes, self.problem.request, lane, lowering)

        def store(statement: Statement, vector: Local) -> Store:
            return Store(
                access_of(lowering.arrays[statement.target], statement, lowering.symbols, "store", width), vector
            )

        if mentions(nodes, column.index.name):
            nodes.insert(0, column)
        declared = [Let(vector, None, mutable=True) for vector in gathered.vectors]
        scope.nodes += (*declared, unrolled(lane, nodes), *gathered.stores(lowering, store))


def _as(value: Expr, array: Array) -> Expr:
    return value if value.dtype == array.dtype else Cast(value, array.dtype)
