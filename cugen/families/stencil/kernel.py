"""The kernel of a stencil: each thread loads its windows, then computes and stores its outputs row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cugen.families.stencil.channel_loop import Sums
from cugen.families.stencil.config import Shape, load_width
from cugen.families.stencil.footprint import Walk, Window, explicit
from cugen.families.stencil.register_window import Held, counter_name, hold, join_ranges, load_window, widen_ranges
from cugen.families.stencil.taps import literal_taps
from cugen.families.stencil.window_values import WindowLowering, index_values
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import place
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.nodes import Assign, Comparison, For, Guard, If, Index, Let, Loop, Node, ReturnUnless, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr
from cugen.spec.model import Statement

_UNROLL = 64  # windows are arrays in registers, so the loops over them must be unrolled


class Builder:
    """The kernel of one group."""

    def __init__(self, request: Request, windows: Mapping[str, Window], shape: Shape, walk: Walk | None = None) -> None:
        self.request, self.shape, self.context = request, shape, request.context
        base = new_lowering(request)
        self.lowering = WindowLowering(base.names, base.arrays, base.symbols, base.ranges, unroll=_UNROLL)
        self.extents = [to_integer(index.extent, base.symbols) for index in shape.order]
        self.windows = windows
        self.statements = tuple(map(explicit, request.group.statements))
        self.sums = None if walk is None else Sums(self, walk)
        self.counters: dict[tuple[str, int], Index] = {}

    def kernel(self) -> Kernel:
        blocks = self.blocks()
        across, down, *_ = (*(self.shape.threads.get(index.name, 1) for index in self.shape.order[:2]), 1)
        block = (across, down, 1)
        staged, prologue = place(self.request, self.lowering, block)
        taps, declared = literal_taps(self.request, self.lowering)
        self.lowering.arrays = {**self.lowering.arrays, **staged, **taps}
        indices = self.indices(blocks)
        held = self.hold()
        origins = dict(self.lowering.symbols)
        moving = () if self.sums is None else self.sums.windows(held)
        loads = tuple(node for one in held if one not in moving for node in self.load(one, origins))
        walk = () if self.sums is None else self.sums.walk(moving, origins)
        parts = (
            ("staging", (*prologue, *declared)),
            ("indices", indices),
            ("windows", loads),
            ("walk", walk),
            ("outputs", self.outputs(origins)),
        )
        widen_ranges(tuple(node for _, nodes in parts for node in nodes), self.lowering.ranges)
        kernel = assemble(
            self.request, self.lowering, "stencil", parts, blocks.grid, block, alignments=self.alignments(held)
        )
        return replace(kernel, reasons=self._reasons())

    def blocks(self) -> Blocks:
        counts = [
            ceil_div(extent, self.shape.per_block(index.name))
            for index, extent in zip(self.shape.order, self.extents, strict=True)
        ]
        return lay_blocks(counts, self.lowering, self.request.target)

    def indices(self, blocks: Blocks) -> tuple[Node, ...]:
        """Where the thread's outputs begin; threads without any end here."""
        lowering, nodes, terms = self.lowering, list[Node](), list[Comparison]()
        for axis, (index, extent, at) in enumerate(zip(self.shape.order, self.extents, blocks.places, strict=True)):
            outputs, threads = self.shape.outputs.get(index.name, 1), self.shape.threads.get(index.name, 1)
            own = thread("xy"[axis], threads, lowering) if axis < 2 else integer(0)
            wish = f"{index.name}0" if outputs > 1 else index.name
            per_block = self.shape.per_block(index.name)
            below = ceil_div(extent, per_block) * per_block + (outputs * threads - per_block)
            node = define(wish, at * per_block + own * outputs, lowering, below=below)
            lowering.symbols[index.name] = node.index.symbol
            if divisor(extent, self.context) % per_block:
                terms.append(Comparison(node.index.symbol, "<", extent))
            if per_block < outputs * threads:
                terms.append(Comparison(own, "<", integer(per_block // outputs)))
            # Where its outputs divide the extent, all of a thread's are inside if the first is.
            beyond = outputs - 1 if divisor(extent, self.context) % outputs == 0 else 0
            limit(node.index, extent - beyond, lowering)
            nodes.insert(0, node)
        return (*nodes, *((ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()))

    def hold(self) -> list[Held]:
        """The windows that come from memory."""
        return [self.hold_one(window, self.lowering.arrays[name]) for name, window in self.windows.items()]

    def load(self, held: Held, origins: Mapping[str, Integer]) -> tuple[Node, ...]:
        return load_window(self.lowering, held, origins, self.shape.outputs)

    def hold_one(self, window: Window, source: Array) -> Held:
        scale = window.axes[window.axis_along(self.shape.along)].scale
        chunk = min(load_width(self.request, source, window, self.shape.along), scale * self.shape.width)
        symbol = self.lowering.names.allocate(f"{window.array.lower()}_window")
        held = hold(window, source, self.shape.along, self.shape.outputs, chunk, symbol)
        self.lowering.held.update(dict.fromkeys(window.reads, held))
        return held

    # The outputs of a thread

    def outputs(self, origins: Mapping[str, Integer]) -> tuple[Node, ...]:
        return self.each_row(origins, self._row)

    def each_row(self, origins: Mapping[str, Integer], fill: Callable[[Scope, Integer], None]) -> tuple[Node, ...]:
        """What `fill` puts into the scope of each row of outputs, where the first of them is inside."""
        outer = Scope()
        self._loops(list(reversed(self.shape.order[1:])), outer, origins, fill)
        return tuple(outer.nodes)

    def _loops(
        self,
        indices: list[spec.Index],
        scope: Scope,
        origins: Mapping[str, Integer],
        fill: Callable[[Scope, Integer], None],
    ) -> None:
        """A loop for each index along which the thread has several outputs, the slowest outermost."""
        if not indices:
            fill(scope, origins[self.shape.along])
            return
        index, *rest = indices
        count = self.shape.outputs.get(index.name, 1)
        if count == 1:
            self.lowering.places[index.name] = integer(0)
            self._loops(rest, scope, origins, fill)
            return
        lowering = self.lowering
        extent = self.extents[[one.name for one in self.shape.order].index(index.name)]
        number = self._number(index.name, count)
        lowering.places[index.name] = number.symbol
        below = ceil_div(extent, count) * count
        own = define(index.name, origins[index.name] + number.symbol, lowering, below=below)
        lowering.symbols[index.name] = own.index.symbol
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        may_end = divisor(extent, self.context) % count != 0
        limit(own.index, extent, lowering)
        self._loops(rest, inner, origins, fill)
        body = tuple(inner.nodes)
        if may_end:
            body = (If(Guard((Comparison(own.index.symbol, "<", extent),)), body),)
        loop = Loop(number, integer(0), integer(count), unroll=True)
        scope.nodes.append(For(loop, (own, *body)))
        lowering.symbols[index.name] = origins[index.name]

    def _number(self, name: str, count: int) -> Index:
        """The number of an output among the thread's own along an index."""
        position = [one.name for one in self.shape.order].index(name)
        if position < 2:
            return self.counter("v" if position == 0 else "row", count)
        moves = any(axis.index == name for window in self.windows.values() for axis in window.axes)
        return self.counter("plane" if moves else "channel", count)

    def counter(self, wish: str, count: int) -> Index:
        """The variable of a loop of so many steps; loops side by side share it."""
        key = (wish, count)
        if key not in self.counters:
            name = counter_name(self.lowering.loops, self.lowering.names, wish)
            self.counters[key] = Index(name, integer(0), (0, count - 1))
            join_ranges(self.lowering.ranges, {self.counters[key].symbol: (0, count - 1)})
        return self.counters[key]

    def each_output(
        self, scope: Scope, first: Integer, fill: Callable[[Scope], None], values: tuple[Expr, ...] = ()
    ) -> None:
        """What `fill` puts into the scope of each output of a row; `values` are those that may mention its place."""
        if self.shape.width == 1:
            self.lowering.places[self.shape.along] = integer(0)
            fill(scope)
            return
        inner = self._side_by_side(scope, first, values)
        fill(inner)
        self.lowering.symbols[self.shape.along] = first
        loop = Loop(
            self._number(self.shape.along, self.shape.width), integer(0), integer(self.shape.width), unroll=True
        )
        scope.nodes.append(For(loop, tuple(inner.nodes)))

    def _side_by_side(self, scope: Scope, first: Integer, values: tuple[Expr, ...]) -> Scope:
        """The scope of the loop over the outputs of a row."""
        lowering, along, width = self.lowering, self.shape.along, self.shape.width
        v = self._number(along, width)
        lowering.places[along] = v.symbol
        inner = Scope(scope, frozenset((along,)))
        if any(along in index_values(value) for value in values):
            below = ceil_div(self.extents[0], width) * width
            own = define(along, first + v.symbol, lowering, below=below)
            limit(own.index, self.extents[0], lowering)
            lowering.symbols[along] = own.index.symbol
            inner.nodes.append(own)
        return inner

    def _row(self, scope: Scope, first: Integer) -> None:
        """The outputs side by side: computed one by one, stored at once where they are all inside."""
        lowering, along, width = self.lowering, self.shape.along, self.shape.width
        request = replace(self.request, group=replace(self.request.group, statements=self.statements))
        lowering.places[along] = integer(0)
        inner = scope if width == 1 else self._side_by_side(scope, first, tuple(s.value for s in self.statements))
        if self.sums is not None:
            self.sums.recall(inner)
        lower_statements(request, lowering, inner)
        if width == 1:
            return
        lowering.symbols[along] = first
        v = self._number(along, width)
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
        width, dtype = self.shape.width, self.lowering.arrays[target].dtype
        name = target.lower()
        wish = f"{name}_{width}" if name[-1].isdigit() else f"{name}{width}"
        return Vector(self.lowering.names.allocate(wish), dtype.compute, dtype, width)

    def _store(self, vector: Vector, statement: Statement, first: Integer, v: Index) -> tuple[Node, ...]:
        width, extent = self.shape.width, self.extents[0]
        whole = Store(self._target(statement, first, width), vector)
        if divisor(extent, self.context) % width == 0:
            return (whole,)
        guard = Guard((Comparison(first + width, "<=", extent),))
        one = Store(self._target(statement, first + v.symbol, 1), vector.component(v.symbol))
        single = If(Guard((Comparison(first + v.symbol, "<", extent),)), (one,))
        return (If(guard, (whole,), (For(Loop(v, integer(0), integer(width), unroll=True), (single,)),)),)

    def _target(self, statement: Statement, place: Integer, width: int) -> Access:
        symbols = {**self.lowering.symbols, self.shape.along: place}
        subscripts = tuple(to_integer(sub, symbols) for sub in statement.subscripts)
        return Access(self.lowering.arrays[statement.target], subscripts, "store", width)

    # What the caller must know

    def alignments(self, held: list[Held]) -> tuple[tuple[str, int], ...]:
        bytes_: dict[str, int] = {}
        for one in held:
            if one.chunk > 1:
                bytes_[one.window.array] = one.chunk * one.source.dtype.bytes
        if self.shape.width > 1:
            for statement in filter(self.is_stored, self.statements):
                size = self.shape.width * self.lowering.arrays[statement.target].dtype.bytes
                bytes_[statement.target] = max(size, bytes_.get(statement.target, 0))
        arrays = self.context.spec.arrays
        return tuple((a.name, bytes_[a.name]) for a in arrays if a.name in bytes_ and not a.is_temporary)

    def _reasons(self) -> tuple[str, ...]:
        counts = " x ".join(str(count) for count in reversed(self.shape.outputs.values()))
        names = ", ".join(self.windows)
        return (f"windows of {names}: a thread keeps those of {counts} outputs in registers", self.shape.reason)
