"""The kernel of a stencil: each thread loads its register windows, then computes and stores its outputs row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from cugen.families.stencil.channel_loop import ChannelAccumulators
from cugen.families.stencil.config import StencilConfig, access_width
from cugen.families.stencil.footprint import MAX_UNROLLED_TAPS, ChannelReduction, Footprint, explicit
from cugen.families.stencil.phases import phase
from cugen.families.stencil.register_window import RegisterWindow
from cugen.families.stencil.window_loads import counter_name, join_ranges, load_window, widen_ranges
from cugen.families.stencil.window_values import WindowLowering
from cugen.pieces.blocks import Blocks, define_index, make_grid, thread
from cugen.pieces.grid import AXES, divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import unrolled
from cugen.pieces.placement import literal_taps, stage_inputs
from cugen.pieces.sections import guarded
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import gather_stores
from cugen.plan.alignment import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import Comparison, For, Guard, If, Index, Let, Node, ReturnUnless, Section, Store, when
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.rewrite.dense_indices import index_values
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr
from cugen.spec.model import Statement


class StencilBuilder:
    """Builds the kernel of one group of statements."""

    family = "stencil"

    def __init__(
        self,
        request: Request,
        footprints: Mapping[str, Footprint],
        config: StencilConfig,
        channels: ChannelReduction | None = None,
    ) -> None:
        self.request, self.config, self.context = request, config, request.context
        self.whole = request  # all statements of the kernel
        base = new_lowering(request)
        self.lowering = WindowLowering(base.names, base.arrays, base.symbols, base.ranges, unroll=MAX_UNROLLED_TAPS)
        self.extents = list(map(self.context.extent, config.order))
        self.footprints = footprints
        self.statements = tuple(map(explicit, request.group.statements))
        self.accumulators = None if channels is None else ChannelAccumulators(self, channels)
        self.counters: dict[tuple[str, int], Index] = {}

    def kernel(self) -> Kernel:
        blocks = self.blocks()
        x, y, z, *_ = (*(self.config.threads.get(index.name, 1) for index in self.config.order[: len(AXES)]), 1, 1)
        block = (x, y, z)
        staged, prologue = stage_inputs(self.whole, self.lowering, block, self.windowed)
        taps, declared = literal_taps(self.whole, self.lowering)
        self.lowering.arrays = {**self.lowering.arrays, **staged, **taps}
        producer = self.producer(blocks)
        indices = self.indices(blocks)
        windows = self.make_windows()
        origins = dict(self.lowering.symbols)
        reloaded = () if self.accumulators is None else self.accumulators.reloaded(windows)
        loads = tuple(load_window(self.lowering, window, origins) for window in windows if window not in reloaded)
        accumulators, channel_loop = (
            ((), ()) if self.accumulators is None else self.accumulators.loop(reloaded, origins)
        )
        sections = (
            *prologue,
            Section("taps", declared),
            *producer,
            Section("indices", indices),
            Section("windows", (*loads, *self.tile_loads())),
            Section("accumulators", accumulators),
            Section("channel_loop", channel_loop),
            *self.each_row(origins, self._row),
        )
        self.widen_ranges(sections)
        return assemble(self.whole, self.lowering, self.family, sections, blocks.grid, block, reasons=self.reasons())

    @property
    def windowed(self) -> frozenset[str]:
        """The arrays of which a thread reads windows."""
        return frozenset(self.footprints)

    def producer(self, blocks: Blocks) -> tuple[Section, ...]:
        """Computes what the outputs read from shared memory."""
        return ()

    def tile_loads(self) -> tuple[Section, ...]:
        """The loads of register windows from shared memory."""
        return ()

    def widen_ranges(self, sections: tuple[Section, ...]) -> None:
        widen_ranges(sections, self.lowering.ranges)

    def blocks(self) -> Blocks:
        counts = [
            ceil_div(extent, self.config.per_block(index.name))
            for index, extent in zip(self.config.order, self.extents, strict=True)
        ]
        return make_grid(counts, self.lowering, self.request.target)

    def indices(self, blocks: Blocks) -> tuple[Node, ...]:
        """The indices of the thread's first output. Threads without outputs return."""
        lowering, nodes, terms = self.lowering, list[Node](), list[Comparison]()
        for axis, (index, extent, coordinate) in enumerate(
            zip(self.config.order, self.extents, blocks.coordinates, strict=True)
        ):
            outputs, threads = self.config.outputs.get(index.name, 1), self.config.threads.get(index.name, 1)
            position = thread(AXES[axis], threads, lowering) if axis < len(AXES) else integer(0)
            hint = f"{index.name}0" if outputs > 1 else index.name
            per_block = self.config.per_block(index.name)
            below = ceil_div(extent, per_block) * per_block + (outputs * threads - per_block)
            # Where `outputs` divides the extent, all outputs of a thread are in bounds if the first is.
            beyond = outputs - 1 if divides(outputs, extent, self.context) else 0
            value = coordinate * per_block + position * outputs
            node = define_index(index.name, value, extent - beyond, lowering, below=below, name_hint=hint)
            if not divides(per_block, extent, self.context):
                terms.append(Comparison(node.index.symbol, "<", extent))
            if per_block < outputs * threads:
                terms.append(Comparison(position, "<", integer(per_block // outputs)))
            nodes.insert(0, node)
        return (*nodes, *((ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()))

    def make_windows(self) -> list[RegisterWindow]:
        """The register windows that are loaded from global memory."""
        along, outputs, width = self.config.along, self.config.outputs, self.config.width
        windows = []
        for name, footprint in self.footprints.items():
            array = self.lowering.arrays[name]
            access = access_width(self.request, array, footprint, along, width)
            window = self.lowering.add_window(footprint, along, outputs, access, self.lowering.symbols)
            is_whole = divisor(array.shape[window.along], self.context) % access == 0
            windows.append(replace(window, whole_accesses=is_whole))
        return windows

    def each_row(
        self,
        origins: Mapping[str, Integer],
        fill: Callable[[Scope, Integer], None],
        unchecked: Collection[str] = (),
    ) -> tuple[Section, ...]:
        """The nodes that `fill` adds to the scope of each row of outputs whose first output is in bounds; along the
        `unchecked` indices of all rows.

        The sections are those of templates/macros/thread_outputs.cu.j2."""
        return self._loops(list(reversed(self.config.order[1:])), Scope(), origins, fill, unchecked)

    def _loops(
        self,
        indices: list[spec.Index],
        scope: Scope,
        origins: Mapping[str, Integer],
        fill: Callable[[Scope, Integer], None],
        unchecked: Collection[str],
    ) -> tuple[Section, ...]:
        """A loop per index along which the thread has several outputs, the slowest outermost."""
        if not indices:
            fill(scope, origins[self.config.along])
            return _compute_and_store(scope.nodes)
        index, *inner_indices = indices
        count = self.config.outputs.get(index.name, 1)
        if count == 1:
            self.lowering.set_offset(index.name, integer(0))
            return self._loops(inner_indices, scope, origins, fill, unchecked)
        lowering = self.lowering
        extent = self.extents[[i.name for i in self.config.order].index(index.name)]
        counter = self._output_counter(index.name, count)
        lowering.set_offset(index.name, counter.symbol)
        below = ceil_div(extent, count) * count
        output = define_index(index.name, origins[index.name] + counter.symbol, extent, lowering, below=below)
        names = frozenset((index.name, phase(index.name)))
        inner = Scope(scope, names)  # the first output is in bounds, else the thread has returned
        is_certain = index.name in unchecked or divides(count, extent, self.context)
        partial = () if is_certain else (Comparison(output.index.symbol, "<", extent),)
        body = guarded("if_output_in_bounds", partial, self._loops(inner_indices, inner, origins, fill, unchecked))
        lowering.symbols[index.name] = origins[index.name]
        return (
            Section("output_invariants", tuple(scope.nodes)),
            Section("output_loop", (unrolled(counter, (Section("output_index", (output,)), *body)),)),
        )

    def _output_counter(self, name: str, count: int) -> Index:
        """The loop variable over the thread's outputs along an index, shared by consecutive loops."""
        hint = self._counter_hint(name)
        nested = [index.name for index in self.config.order if self.config.outputs.get(index.name, 1) > 1]
        if [self._counter_hint(moved) for moved in nested].count(hint) > 1:
            hint = f"{name}_{hint}"
        key = (hint, count)
        if key not in self.counters:
            name = counter_name(self.lowering.loops, self.lowering.names, hint, self.lowering.symbols)
            self.counters[key] = Index(name, integer(0), (0, count - 1))
            join_ranges(self.lowering.ranges, {self.counters[key].symbol: (0, count - 1)})
        return self.counters[key]

    def _counter_hint(self, name: str) -> str:
        position = [index.name for index in self.config.order].index(name)
        moves = any(axis.index == name for footprint in self.footprints.values() for axis in footprint.axes)
        is_channel = not moves and position > (0 if self.accumulators is not None else 1)
        return "channel" if is_channel else ("v", "row", "plane", "slab")[min(position, 3)]

    def each_output(
        self, scope: Scope, first: Integer, fill: Callable[[Scope], None], values: tuple[Expr, ...] = ()
    ) -> None:
        """The nodes that `fill` adds to the scope of each output of a row; `values` may use the output's index."""
        if self.config.width == 1:
            self.lowering.set_offset(self.config.along, integer(0))
            fill(scope)
            return
        inner = self._output_scope(scope, first, values)
        fill(inner)
        self.lowering.symbols[self.config.along] = first
        scope.nodes.append(unrolled(self._output_counter(self.config.along, self.config.width), inner.nodes))

    def _output_scope(self, scope: Scope, first: Integer, values: tuple[Expr, ...]) -> Scope:
        """The scope of the loop over the outputs of a row."""
        lowering, along, width = self.lowering, self.config.along, self.config.width
        v = self._output_counter(along, width)
        lowering.set_offset(along, v.symbol)
        inner = Scope(scope, frozenset((along, phase(along))))
        if any(along in index_values(value) for value in values):
            below = ceil_div(self.extents[0], width) * width
            inner.nodes.append(define_index(along, first + v.symbol, self.extents[0], lowering, below=below))
        return inner

    def _row(self, scope: Scope, first: Integer) -> None:
        """Computes the outputs of a row in an unrolled loop and stores them as a vector, where all are in bounds."""
        lowering, along, width = self.lowering, self.config.along, self.config.width
        lowering.set_offset(along, integer(0))
        inner = scope if width == 1 else self._output_scope(scope, first, tuple(s.value for s in self.statements))
        if self.accumulators is not None:
            self.accumulators.load_result(inner)
        lower_statements(self.request.with_statements(self.statements), lowering, inner)
        if width == 1:
            return
        lowering.symbols[along] = first
        v = self._output_counter(along, width)
        if not self.config.is_vector:
            scope.nodes.append(unrolled(v, self._element_stores(inner.nodes, first + v.symbol)))
            return
        body, vectors = gather_stores(inner.nodes, self.request, v, lowering)
        scope.nodes += [Let(vector, None, mutable=True) for vector in vectors.vectors]
        stores = vectors.stores(lowering, lambda statement, vector: self._store(vector, statement, first, v))
        scope.nodes += [unrolled(v, body), *stores]

    def _element_stores(self, nodes: Sequence[Node], index: Integer) -> list[Node]:
        """The nodes of an output of a row with its stores, where it is in bounds."""
        statements = iter(self.request.stored_statements())
        stores = [
            Store(self._target(next(statements), index, 1), node.value) for node in nodes if _is_output_store(node)
        ]
        others = [node for node in nodes if not _is_output_store(node)]
        if divides(self.config.width, self.extents[0], self.context):
            return [*others, *stores]
        return [*others, when(index, "<", self.extents[0], tuple(stores))]

    def _store(self, vector: Vector, statement: Statement, first: Integer, v: Index) -> Node:
        width, extent = self.config.width, self.extents[0]
        vector_store = Store(self._target(statement, first, width), vector)
        if divides(width, extent, self.context):
            return vector_store
        element_store = Store(self._target(statement, first + v.symbol, 1), vector.component(v.symbol))
        single = when(first + v.symbol, "<", extent, (element_store,))
        return when(first + width, "<=", extent, (vector_store,), (unrolled(v, (single,)),))

    def _target(self, statement: Statement, index: Integer, width: int) -> Access:
        symbols = {**self.lowering.symbols, self.config.along: index}
        return access_of(self.lowering.arrays[statement.target], statement, symbols, "store", width)

    def reasons(self) -> tuple[str, ...]:
        counts = " x ".join(str(count) for count in reversed(self.config.outputs.values()))
        names = ", ".join(self.footprints)
        return (f"register windows of {names} for {counts} outputs per thread", self.config.reason)


def _compute_and_store(nodes: Sequence[Node]) -> tuple[Section, ...]:
    """The nodes of a row in two sections: the computation, and the stores of its results at the end."""
    end = len(nodes)
    while end and _is_store(nodes[end - 1]):
        end -= 1
    return (Section("compute", tuple(nodes[:end])), Section("store", tuple(nodes[end:])))


def _is_output_store(node: Node) -> TypeGuard[Store]:
    return isinstance(node, Store) and node.access.array.space != "register"


def _is_store(node: Node) -> bool:
    """Whether a node stores results to memory, where they are in bounds."""
    match node:
        case Store():
            return _is_output_store(node)
        case For():
            return all(map(_is_store, node.body))
        case If():
            return all(map(_is_store, (*node.then, *node.orelse)))
    return False
