"""The kernel of a stencil: each thread loads its register windows, then computes and stores its outputs row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cugen.families.stencil.channel_loop import ChannelAccumulators
from cugen.families.stencil.config import StencilConfig, load_width
from cugen.families.stencil.footprint import ChannelReduction, Footprint, explicit
from cugen.families.stencil.register_window import (
    RegisterWindow,
    counter_name,
    join_ranges,
    load_window,
    make_window,
    widen_ranges,
)
from cugen.families.stencil.taps import literal_taps
from cugen.families.stencil.window_values import WindowLowering, index_values
from cugen.pieces.blocks import Blocks, define, limit, make_grid, thread
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import stage_inputs
from cugen.pieces.sections import SectionGroup
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.nodes import (
    Assign,
    Comparison,
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
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr
from cugen.spec.model import Statement

MAX_UNROLLED_TRIPS = 64  # loops over register arrays must be unrolled


class StencilBuilder:
    """Builds the kernel of one group of statements."""

    def __init__(
        self,
        request: Request,
        footprints: Mapping[str, Footprint],
        config: StencilConfig,
        channels: ChannelReduction | None = None,
    ) -> None:
        self.request, self.config, self.context = request, config, request.context
        base = new_lowering(request)
        self.lowering = WindowLowering(base.names, base.arrays, base.symbols, base.ranges, unroll=MAX_UNROLLED_TRIPS)
        self.extents = [to_integer(index.extent, base.symbols) for index in config.order]
        self.footprints = footprints
        self.statements = tuple(map(explicit, request.group.statements))
        self.accumulators = None if channels is None else ChannelAccumulators(self, channels)
        self.counters: dict[tuple[str, int], Index] = {}

    def kernel(self) -> Kernel:
        blocks = self.blocks()
        x, y, *_ = (*(self.config.threads.get(index.name, 1) for index in self.config.order[:2]), 1)
        block = (x, y, 1)
        staged, prologue = stage_inputs(self.request, self.lowering, block)
        taps, declared = literal_taps(self.request, self.lowering)
        self.lowering.arrays = {**self.lowering.arrays, **staged, **taps}
        indices = self.indices(blocks)
        windows = self.make_windows()
        origins = dict(self.lowering.symbols)
        reloaded = () if self.accumulators is None else self.accumulators.reloaded(windows)
        loads = tuple(self.load(window, origins) for window in windows if window not in reloaded)
        accumulators, channel_loop = (
            ((), ()) if self.accumulators is None else self.accumulators.loop(reloaded, origins)
        )
        sections = (
            *prologue,
            Section("taps", declared),
            Section("indices", indices),
            Section("windows", loads),
            Section("accumulators", accumulators),
            Section("channel_loop", channel_loop),
            *self.outputs(origins),
        )
        widen_ranges(sections, self.lowering.ranges)
        parts = [(section.name, section.body) for section in sections]
        kernel = assemble(
            self.request, self.lowering, "stencil", parts, blocks.grid, block, alignments=self.alignments(windows)
        )
        return replace(kernel, reasons=self._reasons())

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
            position = thread("xy"[axis], threads, lowering) if axis < 2 else integer(0)
            hint = f"{index.name}0" if outputs > 1 else index.name
            per_block = self.config.per_block(index.name)
            below = ceil_div(extent, per_block) * per_block + (outputs * threads - per_block)
            node = define(hint, coordinate * per_block + position * outputs, lowering, below=below)
            lowering.symbols[index.name] = node.index.symbol
            if divisor(extent, self.context) % per_block:
                terms.append(Comparison(node.index.symbol, "<", extent))
            if per_block < outputs * threads:
                terms.append(Comparison(position, "<", integer(per_block // outputs)))
            # Where `outputs` divides the extent, all outputs of a thread are in bounds if the first is.
            beyond = outputs - 1 if divisor(extent, self.context) % outputs == 0 else 0
            limit(node.index, extent - beyond, lowering)
            nodes.insert(0, node)
        return (*nodes, *((ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()))

    def make_windows(self) -> list[RegisterWindow]:
        """The register windows that are loaded from global memory."""
        return [self.make_window(footprint, self.lowering.arrays[name]) for name, footprint in self.footprints.items()]

    def load(self, window: RegisterWindow, origins: Mapping[str, Integer]) -> SectionGroup:
        return load_window(self.lowering, window, origins, self.config.outputs)

    def make_window(self, footprint: Footprint, source: Array) -> RegisterWindow:
        scale = footprint.axes[footprint.axis_along(self.config.along)].scale
        access_width = min(load_width(self.request, source, footprint, self.config.along), scale * self.config.width)
        symbol = self.lowering.names.allocate(f"{footprint.array.lower()}_window")
        window = make_window(footprint, source, self.config.along, self.config.outputs, access_width, symbol)
        self.lowering.windows.update(dict.fromkeys(footprint.reads, window))
        return window

    # Outputs of a thread

    def outputs(self, origins: Mapping[str, Integer]) -> tuple[Section, ...]:
        return self.each_row(origins, self._row)

    def each_row(self, origins: Mapping[str, Integer], fill: Callable[[Scope, Integer], None]) -> tuple[Section, ...]:
        """The nodes that `fill` adds to the scope of each row of outputs whose first output is in bounds.

        The sections are those of templates/macros/thread_outputs.cu.j2."""
        outer = Scope()
        return self._loops(list(reversed(self.config.order[1:])), outer, origins, fill)

    def _loops(
        self,
        indices: list[spec.Index],
        scope: Scope,
        origins: Mapping[str, Integer],
        fill: Callable[[Scope, Integer], None],
    ) -> tuple[Section, ...]:
        """A loop per index along which the thread has several outputs, the slowest outermost."""
        if not indices:
            fill(scope, origins[self.config.along])
            return _compute_and_store(scope.nodes)
        index, *inner_indices = indices
        count = self.config.outputs.get(index.name, 1)
        if count == 1:
            self.lowering.output_offsets[index.name] = integer(0)
            return self._loops(inner_indices, scope, origins, fill)
        lowering = self.lowering
        extent = self.extents[[i.name for i in self.config.order].index(index.name)]
        counter = self._output_counter(index.name, count)
        lowering.output_offsets[index.name] = counter.symbol
        below = ceil_div(extent, count) * count
        output = define(index.name, origins[index.name] + counter.symbol, lowering, below=below)
        lowering.symbols[index.name] = output.index.symbol
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        is_partial = divisor(extent, self.context) % count != 0
        limit(output.index, extent, lowering)
        body = self._loops(inner_indices, inner, origins, fill)
        if is_partial:
            inside = If(Guard((Comparison(output.index.symbol, "<", extent),)), body)
            body = (Section("if_output_in_bounds", (inside,)),)
        loop = Loop(counter, integer(0), integer(count), unroll=True)
        lowering.symbols[index.name] = origins[index.name]
        return (
            Section("output_invariants", tuple(scope.nodes)),
            Section("output_loop", (For(loop, (Section("output_index", (output,)), *body)),)),
        )

    def _output_counter(self, name: str, count: int) -> Index:
        """The loop variable over the thread's outputs along an index."""
        position = [i.name for i in self.config.order].index(name)
        if position < 2:
            return self.counter("v" if position == 0 else "row", count)
        moves = any(axis.index == name for footprint in self.footprints.values() for axis in footprint.axes)
        return self.counter("plane" if moves else "channel", count)

    def counter(self, hint: str, count: int) -> Index:
        """A loop variable of `count` iterations, shared by consecutive loops."""
        key = (hint, count)
        if key not in self.counters:
            name = counter_name(self.lowering.loops, self.lowering.names, hint)
            self.counters[key] = Index(name, integer(0), (0, count - 1))
            join_ranges(self.lowering.ranges, {self.counters[key].symbol: (0, count - 1)})
        return self.counters[key]

    def each_output(
        self, scope: Scope, first: Integer, fill: Callable[[Scope], None], values: tuple[Expr, ...] = ()
    ) -> None:
        """The nodes that `fill` adds to the scope of each output of a row; `values` may use the output's index."""
        if self.config.width == 1:
            self.lowering.output_offsets[self.config.along] = integer(0)
            fill(scope)
            return
        inner = self._output_scope(scope, first, values)
        fill(inner)
        self.lowering.symbols[self.config.along] = first
        loop = Loop(
            self._output_counter(self.config.along, self.config.width),
            integer(0),
            integer(self.config.width),
            unroll=True,
        )
        scope.nodes.append(For(loop, tuple(inner.nodes)))

    def _output_scope(self, scope: Scope, first: Integer, values: tuple[Expr, ...]) -> Scope:
        """The scope of the loop over the outputs of a row."""
        lowering, along, width = self.lowering, self.config.along, self.config.width
        v = self._output_counter(along, width)
        lowering.output_offsets[along] = v.symbol
        inner = Scope(scope, frozenset((along,)))
        if any(along in index_values(value) for value in values):
            below = ceil_div(self.extents[0], width) * width
            output = define(along, first + v.symbol, lowering, below=below)
            limit(output.index, self.extents[0], lowering)
            lowering.symbols[along] = output.index.symbol
            inner.nodes.append(output)
        return inner

    def _row(self, scope: Scope, first: Integer) -> None:
        """Computes the outputs of a row in an unrolled loop and stores them as a vector, where all are in bounds."""
        lowering, along, width = self.lowering, self.config.along, self.config.width
        request = replace(self.request, group=replace(self.request.group, statements=self.statements))
        lowering.output_offsets[along] = integer(0)
        inner = scope if width == 1 else self._output_scope(scope, first, tuple(s.value for s in self.statements))
        if self.accumulators is not None:
            self.accumulators.load_result(inner)
        lower_statements(request, lowering, inner)
        if width == 1:
            return
        lowering.symbols[along] = first
        v = self._output_counter(along, width)
        stored = [s for s in self.statements if self.is_stored(s)]
        results: list[tuple[Vector, Statement]] = []
        body: list[Node] = []
        for node in inner.nodes:
            if isinstance(node, Store) and node.access.array.space != "register":
                statement = stored[len(results)]
                vector = self.vector(statement.target)
                scope.nodes.append(Let(vector, None, mutable=True))
                body.append(Assign(vector.component(v.symbol), node.value))
                results.append((vector, statement))
            else:
                body.append(node)
        scope.nodes.append(For(Loop(v, integer(0), integer(width), unroll=True), tuple(body)))
        for vector, statement in results:
            scope.nodes += self._store(vector, statement, first, v)

    def is_stored(self, statement: Statement) -> bool:
        role = self.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored

    def vector(self, target: str) -> Vector:
        width, dtype = self.config.width, self.lowering.arrays[target].dtype
        name = target.lower()
        hint = f"{name}_{width}" if name[-1].isdigit() else f"{name}{width}"
        return Vector(self.lowering.names.allocate(hint), dtype.compute, dtype, width)

    def _store(self, vector: Vector, statement: Statement, first: Integer, v: Index) -> tuple[Node, ...]:
        width, extent = self.config.width, self.extents[0]
        vector_store = Store(self._target(statement, first, width), vector)
        if divisor(extent, self.context) % width == 0:
            return (vector_store,)
        guard = Guard((Comparison(first + width, "<=", extent),))
        element_store = Store(self._target(statement, first + v.symbol, 1), vector.component(v.symbol))
        single = If(Guard((Comparison(first + v.symbol, "<", extent),)), (element_store,))
        return (If(guard, (vector_store,), (For(Loop(v, integer(0), integer(width), unroll=True), (single,)),)),)

    def _target(self, statement: Statement, index: Integer, width: int) -> Access:
        symbols = {**self.lowering.symbols, self.config.along: index}
        subscripts = tuple(to_integer(sub, symbols) for sub in statement.subscripts)
        return Access(self.lowering.arrays[statement.target], subscripts, "store", width)

    # Alignment and reasons

    def alignments(self, windows: list[RegisterWindow]) -> tuple[tuple[str, int], ...]:
        bytes_: dict[str, int] = {}
        for window in windows:
            if window.access_width > 1:
                bytes_[window.footprint.array] = window.access_width * window.source.dtype.bytes
        if self.config.width > 1:
            for statement in filter(self.is_stored, self.statements):
                size = self.config.width * self.lowering.arrays[statement.target].dtype.bytes
                bytes_[statement.target] = max(size, bytes_.get(statement.target, 0))
        arrays = self.context.spec.arrays
        return tuple((a.name, bytes_[a.name]) for a in arrays if a.name in bytes_ and not a.is_temporary)

    def _reasons(self) -> tuple[str, ...]:
        counts = " x ".join(str(count) for count in reversed(self.config.outputs.values()))
        names = ", ".join(self.footprints)
        return (f"register windows of {names} for {counts} outputs per thread", self.config.reason)


def _compute_and_store(nodes: Sequence[Node]) -> tuple[Section, ...]:
    """The nodes of a row in two sections: the computation, and the stores of its results at the end."""
    end = len(nodes)
    while end and _is_store(nodes[end - 1]):
        end -= 1
    return (Section("compute", tuple(nodes[:end])), Section("store", tuple(nodes[end:])))


def _is_store(node: Node) -> bool:
    """Whether a node stores results to memory, where they are in bounds."""
    match node:
        case Store():
            return node.access.array.space != "register"
        case For():
            return all(map(_is_store, node.body))
        case If():
            return all(map(_is_store, (*node.then, *node.orelse)))
    return False
