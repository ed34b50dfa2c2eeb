"""The passes over a row as plan nodes: loops over a thread's elements, each followed by the group's reductions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cugen.families.rowwise.config import RowConfig
from cugen.families.rowwise.passes.online_softmax import OnlineSoftmax, online_pairs, online_step
from cugen.families.rowwise.passes.schedule import RowPass, element_reads, use_counts, uses_element_index
from cugen.families.rowwise.passes.storage_levels import (
    UNROLL_BEYOND_REGISTERS,
    RowIndexing,
    Segment,
    Storage,
    StorageLevel,
    ascending_count,
    segments,
)
from cugen.families.rowwise.row_buffers import CachedValue, RowBuffers
from cugen.families.rowwise.row_storage import storage_type
from cugen.families.rowwise.row_vectors import is_vector, reads_vector
from cugen.families.rowwise.statements.names import RowNames, name_hint
from cugen.families.rowwise.statements.recognition import Output, RowProblem, evaluated_nodes
from cugen.families.rowwise.statements.results import Results, with_reciprocals
from cugen.families.rowwise.thread_group import RowThreadGroup
from cugen.pieces.block_reduce import Accumulator, declare_accumulator, new_accumulator
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.sections import SectionGroup, append_loop, append_section
from cugen.pieces.vector_body import load_inside
from cugen.pieces.vectors import load_shifted
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import unnamed
from cugen.plan.lowering.reductions import ACCUMULATORS, accumulate, combine
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import Assign, Comparison, Define, Guard, If, Index, Let, Load, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import INT32_MAX, Integer, bounds, integer
from cugen.spec.expressions import Expr, Local, Op, Read, Reduce, walk
from cugen.spec.types import DType


@dataclass
class VectorCode:
    """The code for one vector of a level's slot: nodes before, in and after the loop over its elements, where an online
    softmax comes before the stores.

    It has `width` elements; `first` is the index of the first one in the row."""

    storage: Storage
    width: int
    slot: Integer
    first: Integer
    vector_scope: Scope
    element_scope: Scope
    online_softmax: list[Node] = field(default_factory=list)
    stores: list[Node] = field(default_factory=list)

    @property
    def after(self) -> tuple[Section, ...]:
        sections = (Section("online_softmax", tuple(self.online_softmax)), Section("store", tuple(self.stores)))
        return tuple(filter(None, sections))


class RowPasses:
    """Builds the nodes of one row, in order, in `root`: one section per pass, then the outputs of one value per row.

    `in_range` guards the stores where some thread groups of the last block have no row of their own. `edges`, of rows
    that begin anywhere: the index of the first element of the vectors, and that of the thread's edge element."""

    def __init__(
        self,
        problem: RowProblem,
        lowering: Lowering,
        config: RowConfig,
        group: RowThreadGroup,
        in_range: Guard,
        edges: tuple[Integer, Integer] | None = None,
    ) -> None:
        self.request, self.problem, self.lowering, self.config = problem.request, problem, lowering, config
        self.group, self.in_range = group, in_range
        self.column = problem.column
        self.root = Scope()
        self.results = Results()
        self.names = RowNames(problem, lowering, self.results)
        self.buffers = RowBuffers(problem, config, group, self.names)
        self.element_name = ""
        self.extent = self.request.context.extent(self.column)
        self.shortest, self.longest = bounds(self.extent, lowering.ranges)
        width = config.width.count
        self.lane = self._loop_symbol("v", width)  # of the element in its vector
        slot = self._loop_symbol("s", max((level.slots for level in config.levels), default=0))
        offset = group.thread_in_row * width
        self.indexing = RowIndexing(self._first_index(), slot, offset, config.stride, self.extent)
        if edges is not None:
            head, edge = edges
            margin = width if config.shifted else 0
            indexing = replace(self.indexing, offset=offset + head, width=width, edge=edge)
            self.indexing = replace(indexing, head=head, margin=margin)
        is_uncached = any(not level.is_cached for level in config.levels) and self.shortest >= 1
        self.pairs = online_pairs(config.levels[0].passes) if is_uncached else {}
        self.online: dict[Reduce, OnlineSoftmax] = {}  # by the sum, once the pass of its maximum has begun
        self.straight_line: dict[Storage, Integer] = {}  # the element index of a level's only slot, by storage

    def _loop_symbol(self, name: str, count: int) -> Integer:
        """The variable of loops over numbers below `count`; 0 where there is nothing to loop over."""
        return integer(0) if count <= 1 else loop_variable(name, count, self.lowering).symbol

    def _first_index(self) -> Index:
        """The row index of a vector's first element."""
        lowering, config, name = self.lowering, self.config, self.column.name
        passes = (row_pass for level in config.levels for row_pass in level.passes)
        has_element_index = config.width.count > 1 and any(self._needs_element_index(p) for p in passes)
        last = max(self.longest - 1, 0)
        if self.longest + config.stride > INT32_MAX:
            last = self.longest + config.stride  # the increment past the last element must not overflow
        end = max((level.start + level.slots for level in config.levels), default=0) * config.stride
        end += config.width.count - 1 if config.edges else 0
        name = lowering.names.allocate(f"first_{name}" if has_element_index else name)
        index = Index(name, integer(0), (0, max(last, end - 1)))
        lowering.ranges[index.symbol] = (0, last)
        lowering.limits[index.symbol] = self.extent
        return index

    def _element_index(self, first: Integer) -> Index:
        """The row index of one of a vector's elements."""
        lowering = self.lowering
        if not self.element_name:
            self.element_name = lowering.names.allocate(self.column.name)
        index = Index(self.element_name, first + self.lane, (0, max(self.longest - 1, 0)))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = self.extent
        return index

    def build_pass(self, number: int, *, broadcast: bool) -> None:
        """The loops over the thread's elements, and the reductions over the thread group."""
        lowering, root, levels = self.lowering, self.root, self.config.all_levels
        segment_sections: list[Node] = []
        # Uncached elements first: the previous pass read them last, so that they may still be in the caches. Shared
        # memory is filled before the registers, while registers are free.
        order = sorted(levels, key=lambda level: (level.is_cached, level.storage == Storage.REGISTERS))
        for level in order:
            values = self._values(level.passes[number])
            lowering.prepare(values)
            self.names.hoist(values, self.column.name, root)
        append_section(root, "invariants")
        accumulators = {
            reduction: new_accumulator(
                self.names.allocate(reduction, ACCUMULATORS[reduction.kind]), reduction, lowering
            )
            for reduction in levels[0].passes[number].reductions
        }
        for reduction, accumulator in accumulators.items():
            root.nodes += self._declarations(reduction, accumulator)
        append_section(root, "accumulators")
        start = len(root.nodes)
        # What straight-line code of single elements computes is known in the code of all other levels.
        in_branches = self.config.width.count == 1 and len(levels) > 1
        in_order = ascending_count(order)
        for position, level in enumerate(order):
            row_pass = level.passes[number]
            for expr in row_pass.cached:
                root.nodes += self.buffers.allocate(level, expr)
            if self._has_work(level, number):
                lowering.prepare(self._values(row_pass))
                shortest = self.shortest - self.indexing.uncovered
                for segment in segments(level, self.config.stride, shortest, in_branches=in_branches):
                    of_level = {r: a for r, a in accumulators.items() if level.is_cached or r not in self.online}
                    self._segment(row_pass, of_level, segment, is_ascending=position < in_order)
                    segment_sections.append(SectionGroup("segment", tuple(root.nodes[start:])))
                    del root.nodes[start:]
        root.nodes.append(Section("segments", tuple(segment_sections)))
        is_first = not any(row_pass.reductions for row_pass in levels[0].passes[:number])
        root.nodes += self.group.combine(tuple(accumulators.values()), lowering, broadcast=broadcast, is_first=is_first)
        root.nodes[number:] = [SectionGroup("pass", tuple(root.nodes[number:]))]
        self.results.locals.update({reduction: a.value for reduction, a in accumulators.items()})

    def _has_work(self, level: StorageLevel, number: int) -> bool:
        row_pass = level.passes[number]
        has_terms = level.is_cached or any(reduction not in self.online for reduction in row_pass.reductions)
        return bool(row_pass.cached or row_pass.outputs or (row_pass.reductions and has_terms))

    def _declarations(self, reduction: Reduce, accumulator: Accumulator) -> tuple[Node, ...]:
        """Initialises an accumulator; an online-softmax pair shares one (max, sum) state where the row is uncached."""
        if reduction in self.online:
            online = self.online[reduction]
            rescaled = online.rescaled_sum(self.results.locals[online.maximum])
            return (Let(accumulator.value, rescaled, mutable=True),)
        if reduction not in self.pairs:
            return declare_accumulator(accumulator)
        names, total = self.lowering.names, self.pairs[reduction]
        thread_max = Local(names.allocate("thread_max"), reduction.dtype)
        online = OnlineSoftmax(reduction, total, thread_max, Local(names.allocate("thread_sum"), total.dtype))
        self.online[total] = online
        return (*declare_accumulator(accumulator), *online.initial_state())

    def _values(self, row_pass: RowPass) -> tuple[Expr, ...]:
        inner = map(self.results.resolved, row_pass.values[: len(row_pass.values) - len(row_pass.outputs)])
        return (*inner, *map(self._stored_value, row_pass.outputs))

    def _stored_value(self, output: Output) -> Expr:
        """The value to store. For outputs of 16 bits and less, divisions by row invariants become multiplications by
        their reciprocal: so few bytes per element leave no time for a division."""
        value = self.results.resolved(output.value)
        if self.lowering.arrays[output.target].dtype.bits > 16:
            return value
        return with_reciprocals(value, self.column.name, self.results, self.buffers.holds)

    def _is_vector(self, expr: Expr, width: int) -> bool:
        is_vector = self.config.moves_vectors(expr) or (width > 1 and self.config.is_shifted(expr))
        return is_vector and reads_vector(expr, self.problem, width)

    def _needs_element_index(self, row_pass: RowPass) -> bool:
        """Whether the code uses the index of each element, not only that of its vector."""
        along, arrays, width = self.column.name, self.problem.arrays, self.config.width.count
        reads = element_reads(row_pass, along)
        if uses_element_index(row_pass, along) or not all(self._is_vector(read, width) for read in reads):
            return True
        return not all(is_vector(arrays[o.target], o.subscripts, along) for o in row_pass.outputs)

    def _segment(
        self, row_pass: RowPass, accumulators: dict[Reduce, Accumulator], segment: Segment, *, is_ascending: bool
    ) -> None:
        """The code of a pass for one segment: a loop over vectors, and in it one over the elements of each.
        `is_ascending`: they are after the thread's elements of all segments before."""
        lowering, along = self.lowering, self.column.name
        if segment.is_straight_line:  # its code goes to the root, too
            append_section(self.root, "declarations")
        code = self._vector_code(segment)
        outer, inner, width = code.vector_scope, code.element_scope, code.width
        lowering.symbols[along] = code.first
        if width > 1 and self._needs_element_index(row_pass):
            index = self._element_index(code.first)
            lowering.symbols[along] = index.symbol
            inner.nodes.append(Define(index))
        self._read_cache(row_pass, code)
        self._load(row_pass, code)
        self._fill_cache(row_pass, code)
        append_section(inner, "load")
        for reduction, accumulator in accumulators.items():
            resolved = self.results.resolved(reduction)
            assert isinstance(resolved, Reduce)
            if reduction in self.pairs and not segment.level.is_cached:
                online = self.online[self.pairs[reduction]]
                value = lowering.lower(resolved.body, inner)
                code.online_softmax += online_step(online, value, lowering, (outer, inner), self.lane, width)
            else:
                position, extreme = accumulator.value, accumulator.extreme
                accumulate(lowering, resolved, position, inner, extreme, is_ascending=is_ascending)
        append_section(inner, "accumulate")
        self._store_elements(row_pass, code)
        append_section(inner, "store")
        del lowering.symbols[along]
        if width > 1 and inner.nodes:
            each = Index(str(self.lane), integer(0), (0, width - 1))
            append_loop(outer, "load", "elements", unrolled(each, inner.nodes))
        append_section(outer, "load")
        terms = self.in_range.terms if row_pass.outputs else ()
        if segment.is_straight_line:
            is_guarded = terms and code.after
            outer.nodes += (Section("store", (If(Guard(terms), code.after),)),) if is_guarded else code.after
            return
        body = tuple(node for node in outer.nodes if isinstance(node, Section))
        unroll = UNROLL_BEYOND_REGISTERS if row_pass.cached else self.config.unroll
        vectors = self.indexing.loop_over(segment, (*body, *code.after), terms, unroll)
        append_section(self.root, "declarations")
        self.root.nodes += vectors
        if segment.level.is_cached:
            return
        for maximum, total in self.pairs.items():
            if a := accumulators.get(maximum):
                self.root.nodes.append(Assign(a.value, combine(a.kind, a.value, self.online[total].thread_max)))
        append_section(self.root, "thread_maximum")

    def _inner_scope(self, scope: Scope) -> Scope:
        return Scope(scope, frozenset((self.column.name,)), certain=self.shortest >= 1 or scope is not self.root)

    def _vector_code(self, segment: Segment) -> VectorCode:
        """Empty code for the vectors of a segment. Straight-line code goes to the root, without scopes of its own."""
        storage, slot = segment.level.storage, self.indexing.slot_of(segment)
        if storage == Storage.EDGES:
            scope = self._inner_scope(self.root)
            return VectorCode(storage, 1, slot, self.indexing.edge, scope, scope)
        first = self._straight_line_index(segment) if segment.is_straight_line else self.indexing.first.symbol
        outer = self.root if segment.is_straight_line else self._inner_scope(self.root)
        width = self.config.width.count
        inner = self._inner_scope(outer) if width > 1 else outer
        return VectorCode(storage, width, slot, first, outer, inner)

    def _straight_line_index(self, segment: Segment) -> Integer:
        """The element index of a level's only slot, defined once where its accesses are of single elements."""
        storage, start = segment.level.storage, self.indexing.start_of(segment)
        if self.config.width.count == 1 and storage not in self.straight_line:
            index = Index(self.lowering.names.allocate(self.column.name), start, self.indexing.first.range)
            self.lowering.ranges[index.symbol] = (0, max(self.longest - 1, 0))
            self.root.nodes.append(Define(index))
            self.straight_line[storage] = index.symbol
        return self.straight_line.get(storage, start)

    # The code for one element

    def _read_cache(self, row_pass: RowPass, code: VectorCode) -> None:
        counts = use_counts(row_pass)
        for expr in row_pass.reused:
            resolved = self.results.resolved(expr)
            cached = self.buffers.cached[code.storage, resolved]
            if cached.is_shared and cached.width > 1:
                vector = self._vector(expr, cached.element, code.vector_scope)
                code.vector_scope.nodes.append(Load(vector, cached.access(code.slot, "load")))
                value: Expr = vector.component(self.lane)
            else:
                value = cached.get(code.slot, self.lane)
            uses = self._uses(expr, counts)
            is_overwritten = self._is_overwritten_before_use(expr, cached, row_pass, code.storage)
            if is_overwritten:
                uses += 2
            named = self._named(expr, value, uses, code.element_scope, copied=is_overwritten)
            code.element_scope.remember(resolved, named)

    def _is_overwritten_before_use(self, expr: Expr, cached: CachedValue, row_pass: RowPass, storage: Storage) -> bool:
        """Whether another value than one computed from `expr` overwrites its buffer in this pass."""
        buffers, resolved = self.buffers.cached, self.results.resolved
        writers = [value for value in row_pass.cached if buffers[storage, resolved(value)] is cached]
        return any(expr not in evaluated_nodes(value, {expr}) for value in writers)

    def _uses(self, expr: Expr, counts: Mapping[Expr, int]) -> int:
        """How often the code uses a value; subscripts count as several uses, since they need a name."""
        return counts.get(expr, 0) + 2 * (expr in self.lowering.subscripts)

    def _named(self, expr: Expr, value: Expr, count: int, scope: Scope, *, copied: bool = False) -> Expr:
        """The value, as a named local where it is used more than once; `copied` where its own local changes before."""
        if count < 2 or (isinstance(value, Local) and type(value) is Local and not copied):
            return value
        name = name_hint(expr)
        is_taken = isinstance(expr, Read) and name == self.lowering.arrays[expr.array].symbol
        name = self.lowering.name_for(expr, f"{name}_value" if is_taken else name, scope)
        scope.nodes.append(Let(Local(name, expr.dtype), value))
        return Local(name, expr.dtype)

    def _load(self, row_pass: RowPass, code: VectorCode) -> None:
        """Vector loads, into the cache's registers or into vectors; other reads are loaded where they are used."""
        counts, inner = use_counts(row_pass), code.element_scope
        for read in element_reads(row_pass, self.column.name):
            if not self._is_vector(read, code.width):
                continue
            vector = self._vector(read, self.lowering.arrays[read.array].dtype, code.vector_scope)
            cached = self.buffers.cached[code.storage, read] if read in row_pass.cached else None
            if self.config.is_shifted(read):
                self._load_shifted(read, vector, code)
                if uses := self._uses(read, counts):
                    inner.remember(read, self._named(read, vector.component(self.lane), uses, inner))
                continue
            source = self._vector_access(read, "load", code)
            if cached is None or not self._fills_cache(read, cached):
                load_inside(read, vector, source, self.lowering, code.vector_scope)
                if cached is not None:
                    inner.remember(read, vector.component(self.lane))
            else:
                code.vector_scope.nodes += cached.fill(code.slot, vector, source)
                vector = cached.buffer.indexed(code.slot) if isinstance(cached.buffer, Vector) else vector
            if uses := self._uses(read, counts):
                inner.remember(read, self._named(read, vector.component(self.lane), uses, inner))

    def _load_shifted(self, read: Read, vector: Vector, code: VectorCode) -> None:
        """Two aligned vectors of a row that all rows share, and the elements of the thread's vector in these."""
        symbols = {**self.lowering.symbols, self.column.name: code.first}
        load_shifted(read, vector, self.column.name, self.indexing.head, symbols, self.lowering, code.vector_scope)

    def _fills_cache(self, expr: Expr, cached: CachedValue) -> bool:
        """Whether a vector load goes to the cache as it is: it has the cache's type and no bounds check."""
        is_checked = isinstance(expr, Read) and expr.boundary is not None
        return not (is_checked or self.config.is_shifted(expr)) and cached.element == storage_type(expr, self.problem)

    def _fill_cache(self, row_pass: RowPass, code: VectorCode) -> None:
        counts, inner = use_counts(row_pass), code.element_scope
        for expr in sorted(row_pass.cached, key=lambda e: sum(1 for _ in walk(e))):
            resolved = self.results.resolved(expr)
            cached = self.buffers.cached[code.storage, resolved]
            if self._is_vector(expr, code.width) and self._fills_cache(expr, cached):
                continue
            value = self.lowering.lower(resolved, inner)
            if self._uses(expr, counts):
                value = self._named(expr, value, 2, inner)
                inner.remember(resolved, value)
            else:
                value = unnamed(value, inner)
            if cached.is_shared and cached.width > 1:
                self._store_vector(expr, cached.access(code.slot, "store"), value, code)
            else:
                inner.nodes.append(cached.put(code.slot, self.lane, value))

    def _store_elements(self, row_pass: RowPass, code: VectorCode) -> None:
        """Stores of the per-element outputs; vector stores follow the loop over a vector's elements."""
        for output in row_pass.outputs:
            value = self.lowering.lower(self._stored_value(output), code.element_scope)
            array = self.problem.arrays[output.target]
            if code.width > 1 and is_vector(array, output.subscripts, self.column.name):
                target = self._vector_access(output.element, "store", code)
                self._store_vector(output.element, target, value, code)
            else:
                target = access_of(array, output.element, self.lowering.symbols, "store")
                code.element_scope.nodes.append(Store(target, value))

    def _store_vector(self, expr: Expr, target: Access, value: Expr, code: VectorCode) -> None:
        """Gathers the values of all elements in a vector, stored by one access."""
        vector = self._vector(expr, target.array.dtype, code.vector_scope)
        code.vector_scope.nodes.append(Let(vector, None, mutable=True))
        code.element_scope.nodes.append(Assign(vector.component(self.lane), value))
        code.stores.append(Store(target, vector))

    def _vector(self, expr: Expr, element: DType, scope: Scope) -> Vector:
        """A register vector, such as `x4` for four elements of x."""
        name, width = name_hint(expr), self.config.width.count
        name = f"{name}{'_' if name[-1].isdigit() else ''}{width}"
        key = Op("vector", (expr,), expr.dtype)
        return Vector(self.lowering.name_for(key, name, scope), element.compute, element, width)

    def _vector_access(self, element: Read, kind: str, code: VectorCode) -> Access:
        symbols = {**self.lowering.symbols, self.column.name: code.first}
        return access_of(self.lowering.arrays[element.array], element, symbols, kind, self.config.width.count)

    def row_outputs(self, outputs: tuple[Output, ...]) -> Section:
        """The stores of the outputs of one value per row, by the first thread of the group."""
        lowering, passes = self.lowering, len(self.root.nodes)
        terms = self.in_range.terms
        if self.group.threads > 1:
            terms = (Comparison(self.group.thread_in_row, "==", integer(0)), *terms)
        scope = Scope(self.root, certain=False) if terms else self.root
        values = tuple(self.results.resolved(output.value) for output in outputs)
        lowering.prepare(values)
        for output, value in zip(outputs, values, strict=True):
            result = lowering.lower(value, scope)
            array = lowering.arrays[output.target]
            scope.nodes.append(Store(access_of(array, output.element, lowering.symbols, "store"), result))
        if terms and outputs:
            self.root.nodes.append(If(Guard(terms), tuple(scope.nodes)))
        stores = tuple(self.root.nodes[passes:])
        del self.root.nodes[passes:]
        return Section("row_outputs", stores)
