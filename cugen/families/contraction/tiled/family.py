"""Contractions through shared tiles: a block stages a tile of each operand, then walks on along the summed index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.contraction.k_range import depth_range, where_they_hold
from cugen.families.contraction.recognition import Contraction, Operand, recognise
from cugen.families.contraction.tiled.config import Shape, choose_shape, refusals, staged
from cugen.families.contraction.tiled.shared_tiles import declare_tiles
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.plan.intervals import fits, interval
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Barrier,
    Comparison,
    Copy,
    Declare,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    ReturnUnless,
    Store,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import substitute
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer, symbol
from cugen.rewrite.im2col import split
from cugen.spec.expressions import Const, Expr, IndexValue, Local, Op, Read, Reduce, free_indices, walk
from cugen.spec.types import INT32


def build(request: Request) -> Kernel:
    found = recognise(request)
    assert isinstance(found, Contraction)
    return _Builder(found, choose_shape(found)).kernel()


class _Builder:
    """The kernel of one contraction, part by part."""

    def __init__(self, found: Contraction, shape: Shape) -> None:
        self.request, self.found, self.shape = found.request, found, shape
        self.lowering: Lowering = new_lowering(found.request)
        self.extents = {
            index.name: to_integer(index.extent, self.lowering.symbols)
            for index in (found.m, found.n, found.k, *found.batch)
        }
        sizes = {found.m.name: shape.rows, found.n.name: shape.columns, found.k.name: shape.step}
        self.exact = {name: divides(size, self.extents[name], found.request.context) for name, size in sizes.items()}
        self.tiles: dict[Read, Array] = {}
        self.loops: dict[str, Index] = {}

    def kernel(self) -> Kernel:
        found, shape = self.found, self.shape
        counts = [
            ceil_div(self.extents[found.n.name], shape.columns),
            ceil_div(self.extents[found.m.name], shape.rows),
            *(self.extents[index.name] for index in found.batch),
        ]
        blocks = lay_blocks(counts, self.lowering, self.request.target)
        indices = self._indices(blocks)
        self.tiles = declare_tiles(found, shape, self.lowering)
        declarations = tuple(Declare(tile) for tile in self.tiles.values())
        sums, running = self._sums()
        walk = self._walk(running)
        results = self._results(running)
        parts = (
            ("tiles", declarations),
            ("indices", indices),
            ("sums", sums),
            ("walk", (walk,)),
            ("results", results),
        )
        kernel = assemble(
            self.request, self.lowering, "tiled", parts, blocks.grid, (shape.threads_x, shape.threads_y, 1)
        )
        what = "a sum of products" if len(found.sums) == 1 else f"{len(found.sums)} sums of products"
        reason = (
            f"{what} over {found.k.name}: {shape.rows} x {shape.columns} of the output in each block, "
            f"{shape.thread_rows} x {shape.thread_columns} in each thread, {shape.step} of {found.k.name} staged"
        )
        return replace(kernel, reasons=(reason,))

    # Where the block and the thread stand

    def _indices(self, blocks: Blocks) -> tuple[Node, ...]:
        lowering, found, shape = self.lowering, self.found, self.shape
        nodes: list[Node] = []
        self.tx = self._builtin("threadIdx.x", "tx", shape.threads_x, nodes)
        self.ty = self._builtin("threadIdx.y", "ty", shape.threads_y, nodes)
        block_x, block_y, *places = blocks.places
        for index, place in zip(found.batch, places, strict=True):
            node = define(index.name, place, lowering)
            limit(node.index, self.extents[index.name], lowering)
            lowering.symbols[index.name] = node.index.symbol
            nodes.append(node)
        row0 = self._define(f"{found.m.name}0", block_y * shape.rows, nodes)
        column0 = self._define(f"{found.n.name}0", block_x * shape.columns, nodes)
        self.origin = {found.m.name: row0, found.n.name: column0}
        if shape.is_single:
            for index, thread in ((found.m, self.ty), (found.n, self.tx)):
                lowering.symbols[index.name] = self._define(index.name, self.origin[index.name] + thread, nodes)
        return tuple(nodes)

    def _builtin(self, name: str, wish: str, count: int, nodes: list[Node]) -> Integer:
        builtin = symbol(name)
        self.lowering.ranges[builtin] = (0, count - 1)
        return self._define(wish, builtin, nodes)

    def _define(self, wish: str, definition: Integer, nodes: list[Node]) -> Integer:
        index = Index(self.lowering.names.allocate(wish), definition, bounds(definition, self.lowering.ranges))
        self.lowering.ranges[index.symbol] = index.range
        nodes.append(Define(index))
        return index.symbol

    # Running sums: a local each, or an array in registers

    def _sums(self) -> tuple[tuple[Node, ...], dict[Reduce, Local | Array]]:
        shape = self.shape
        nodes: list[Node] = []
        running: dict[Reduce, Local | Array] = {}
        for reduction in self.found.sums:
            name, dtype = self.lowering.names.allocate("sum"), reduction.dtype
            if shape.is_single:
                local = Local(name, dtype)
                self._bound_sum(local, reduction)
                nodes.append(Let(local, Const(0, dtype), mutable=True))
                running[reduction] = local
            else:
                extents = (integer(shape.thread_rows), integer(shape.thread_columns))
                sums = Array("", name, dtype, extents, (extents[1], integer(1)), "register", flat=False)
                nodes.append(Declare(sums, zeroed=True))
                running[reduction] = sums
        return tuple(nodes), running

    def _bound_sum(self, local: Local, reduction: Reduce) -> None:
        """Where no sum of the operands' products can leave 32 bits, plain `+=` is right and need not wrap."""
        if local.dtype != INT32:
            return
        low, high = interval(reduction.body, {})
        steps = bounds(self.extents[self.found.k.name], self.lowering.ranges)[1]
        total = (min(low, 0) * steps, max(high, 0) * steps)
        if fits(total, INT32):
            self.lowering.ranges[symbol(local.name)] = total

    # The walk along k

    def _walk(self, running: dict[Reduce, Local | Array]) -> Node:
        found, shape, lowering = self.found, self.shape, self.lowering
        depth = self.extents[found.k.name]
        steps = bounds(ceil_div(depth, shape.step), lowering.ranges)[1]
        # The index counts past the last step before it stops.
        past = Index(lowering.names.allocate(f"{found.k.name}0"), integer(0), (0, steps * shape.step))
        lowering.ranges[past.symbol] = (0, max(steps - 1, 0) * shape.step)
        self.origin[found.k.name] = past.symbol
        sides = {
            found.m.name: (self.origin[found.m.name], shape.rows),
            found.n.name: (self.origin[found.n.name], shape.columns),
        }
        start, stop = depth_range(lowering, found.conditions, (found.k.name, depth), sides, shape.step)
        inner = Index(lowering.names.allocate(found.k.name), integer(0), (0, shape.step - 1))
        lowering.ranges[inner.symbol] = inner.range
        stage: list[Node] = []
        for operand in staged(found):
            stage += self._stage(operand)
        products = For(Loop(inner, integer(0), integer(shape.step), unroll=True), self._multiply(inner.symbol, running))
        body = (*stage, Barrier(), products, Barrier())
        return For(Loop(past, start, stop, shape.step), body)

    def _stage(self, operand: Operand) -> tuple[Node, ...]:
        """All threads of the block fill the operand's tile, neighbours along the dimension that is dense in memory."""
        tile, shape = self.tiles[operand.read], self.shape
        height, width = (int(extent) for extent in tile.shape)
        if (height, width) == (shape.threads_y, shape.threads_x):
            return (self._stage_element(operand, tile, self.ty, self.tx),)
        if height % shape.threads_y == 0 and width % shape.threads_x == 0:
            row = None if height == shape.threads_y else self._loop_index("r", height)
            column = None if width == shape.threads_x else self._loop_index("c", width)
            node: Node = self._stage_element(
                operand, tile, self.ty if row is None else row.symbol, self.tx if column is None else column.symbol
            )
            if column is not None:
                node = For(Loop(column, self.tx, integer(width), shape.threads_x), (node,))
            if row is not None:
                node = For(Loop(row, self.ty, integer(height), shape.threads_y), (node,))
            return (node,)
        element = self._loop_index("element", height * width)
        nodes: list[Node] = []
        position = element.symbol
        row, column = self._loop_index("r", height), self._loop_index("c", width)
        nodes.append(Define(replace(row, definition=FloorDiv(position, integer(width)))))
        nodes.append(Define(replace(column, definition=Mod(position, integer(width)))))
        nodes.append(self._stage_element(operand, tile, row.symbol, column.symbol))
        thread = self.ty * shape.threads_x + self.tx
        threads = shape.threads_x * shape.threads_y
        return (For(Loop(element, thread, integer(height * width), threads), tuple(nodes)),)

    def _loop_index(self, wish: str, count: int) -> Index:
        """The variable of a loop; loops that stand side by side share it."""
        known = self.loops.get(wish)
        name = known.name if known else self.lowering.names.allocate(wish)
        index = Index(name, integer(0), (0, max(count - 1, known.range[1] if known else 0)))
        self.loops[wish] = index
        self.lowering.ranges[index.symbol] = index.range
        return index

    def _stage_element(self, operand: Operand, tile: Array, row: Integer, column: Integer) -> Node:
        at = {operand.slow: self._at(operand.slow, row), operand.fast: self._at(operand.fast, column)}
        source = self._global(operand, at)
        guard = self._guard(operand, at)
        return Copy(Access(tile, (row, column), "store"), source, guard)

    def _at(self, name: str, offset: Integer) -> Integer:
        """The index whose distance from the tile's origin is `offset`, by its own name where the thread has one."""
        if self.shape.is_single:
            own = {self.found.m.name: self.ty, self.found.n.name: self.tx}
            if own.get(name) == offset:
                return self.lowering.symbols[name]
        return self.origin[name] + offset

    def _global(self, operand: Operand, at: dict[str, Integer]) -> Access:
        subscripts = tuple(to_integer(sub, {**self.lowering.symbols, **at}) for sub in operand.read.subscripts)
        return Access(self.request.context.arrays[operand.read.array], subscripts, "load")

    def _guard(self, operand: Operand, at: dict[str, Integer]) -> Guard:
        names = [sub.name for sub in operand.read.subscripts if isinstance(sub, IndexValue) and sub.name in at]
        return Guard(tuple(Comparison(at[n], "<", self.extents[n]) for n in names if not self.exact[n]))

    def _multiply(self, k: Integer, running: dict[Reduce, Local | Array]) -> tuple[Node, ...]:
        if not self.shape.is_single:
            return self._multiply_tile(k, running)
        nodes: list[Node] = []
        values = {o.read: self._factor(o, k, self.ty, nodes) for o in self.found.a_operands}
        values |= {o.read: self._factor(o, k, self.tx, nodes) for o in self.found.b_operands}
        for read, value in values.items():
            if isinstance(value, Element) and self._mentions(read) > 1:
                local = Local(self.lowering.names.allocate(read.array.lower()), value.dtype)
                nodes.append(Load(local, value.access))
                values[read] = local
        adds: list[Node] = []
        for reduction, total in running.items():
            assert isinstance(total, Local)
            term = self._term(reduction, values.get, adds)
            adds.append(Assign(total, Op("add", (total, term), total.dtype)))
        return (*nodes, *self._counted(self.found.conditions, k, {}, adds))

    def _mentions(self, read: Read) -> int:
        return sum(node == read for reduction in self.found.sums for node in walk(reduction.body))

    def _term(self, reduction: Reduce, on_read: Callable[[Read], Expr | None], nodes: list[Node]) -> Expr:
        """The term of a sum over what stands for its operands."""
        scope = Scope()
        value = self.lowering.lower(substitute(reduction.body, {}, on_read), scope)
        nodes += scope.nodes
        return value

    def _factor(self, operand: Operand, k: Integer, place: Integer, nodes: list[Node]) -> Expr:
        """One operand's value at k: from its tile, or from memory with zero outside."""
        tile = self.tiles.get(operand.read)
        if tile is not None:
            slow_is_depth = operand.slow == self.found.k.name
            return Element.of(Access(tile, (k, place) if slow_is_depth else (place, k), "load"))
        depth, outer = self.found.k.name, operand.mn.name
        at = {depth: self.origin[depth] + k, outer: self._at(outer, place)}
        guard = self._guard(operand, at)
        local = Local(self.lowering.names.allocate(operand.read.array.lower()), operand.read.dtype)
        zero = Const(0, local.dtype) if guard.terms else None
        nodes.append(Load(local, self._global(operand, at), guard if guard.terms else None, zero))
        return local

    def _multiply_tile(self, k: Integer, running: dict[Reduce, Local | Array]) -> tuple[Node, ...]:
        """A column of the left tile and a row of the right one go to registers; their outer product is added."""
        shape, lowering = self.shape, self.lowering
        nodes: list[Node] = []
        parts: dict[Read, tuple[Array, Integer]] = {}
        i, j = self._thread_indices()
        lefts = [(o, self.ty, shape.thread_rows, shape.threads_y, i) for o in self.found.a_operands]
        rights = [(o, self.tx, shape.thread_columns, shape.threads_x, j) for o in self.found.b_operands]
        for operand, thread, count, stride, index in (*lefts, *rights):
            name = lowering.names.allocate(operand.read.array.lower())
            part = Array("", name, operand.read.dtype, (integer(count),), (integer(1),), "register", flat=False)
            parts[operand.read] = part, index.symbol
            body: list[Node] = []
            value = self._factor(operand, k, thread + index.symbol * stride, body)
            body.append(Store(Access(part, (index.symbol,), "store"), value))
            nodes += [Declare(part), For(Loop(index, integer(0), integer(count), unroll=True), tuple(body))]

        def on_read(read: Read) -> Expr:
            part, place = parts[read]
            return Element.of(Access(part, (place,), "load"))

        adds: list[Node] = []
        at = (i.symbol, j.symbol)
        for reduction, sums in running.items():
            assert isinstance(sums, Array)
            term = self._term(reduction, on_read, adds)
            if sums.dtype.is_float:
                adds.append(Accumulate(Access(sums, at, "store"), term))
            else:
                old = Element.of(Access(sums, at, "load"))
                adds.append(Store(Access(sums, at, "store"), Op("add", (old, term), sums.dtype)))
        row, column = self.found.m.name, self.found.n.name
        places = {
            row: self.origin[row] + self.ty + i.symbol * shape.threads_y,
            column: self.origin[column] + self.tx + j.symbol * shape.threads_x,
        }
        across = [c for c in self.found.conditions if column in free_indices(c)]
        down = [c for c in self.found.conditions if column not in free_indices(c)]
        one = self._counted(across, k, places, adds)
        inner = For(Loop(j, integer(0), integer(shape.thread_columns), unroll=True), one)
        rows = self._counted(down, k, places, [inner])
        nodes.append(For(Loop(i, integer(0), integer(shape.thread_rows), unroll=True), rows))
        return tuple(nodes)

    def _counted(
        self, conditions: Sequence[Expr], k: Integer, places: dict[str, Integer], nodes: list[Node]
    ) -> tuple[Node, ...]:
        depth = self.found.k.name
        symbols = {**self.lowering.symbols, **places, depth: self.origin[depth] + k}
        return where_they_hold(self.lowering, conditions, symbols, nodes)

    def _thread_indices(self) -> tuple[Index, Index]:
        return self._loop_index("i", self.shape.thread_rows), self._loop_index("j", self.shape.thread_columns)

    # Results

    def _results(self, running: dict[Reduce, Local | Array]) -> tuple[Node, ...]:
        found, shape, lowering = self.found, self.shape, self.lowering
        open_names = [index.name for index in (found.m, found.n) if not self.exact[index.name]]
        scope = Scope()
        if shape.is_single:
            guard = self._result_guard(open_names)
            if guard.terms:
                scope.nodes.append(ReturnUnless(guard))
            for reduction, local in running.items():
                assert isinstance(local, Local)
                scope.remember(reduction, local)
            self._narrow()
            lower_statements(self.request, lowering, scope)
            return tuple(scope.nodes)
        i, j = self._thread_indices()
        rows: list[Node] = []
        row = self._define(found.m.name, self.origin[found.m.name] + self.ty + i.symbol * shape.threads_y, rows)
        columns: list[Node] = []
        column = self._define(
            found.n.name, self.origin[found.n.name] + self.tx + j.symbol * shape.threads_x, columns
        )
        lowering.symbols[found.m.name], lowering.symbols[found.n.name] = row, column
        guard = self._result_guard(open_names)
        self._narrow()
        for reduction, sums in running.items():
            assert isinstance(sums, Array)
            total = Local(lowering.names.allocate("total"), reduction.dtype)
            scope.nodes.append(Load(total, Access(sums, (i.symbol, j.symbol), "load")))
            scope.remember(reduction, total)
        lower_statements(self.request, lowering, scope)
        body = (If(guard, tuple(scope.nodes)),) if guard.terms else tuple(scope.nodes)
        inner = For(Loop(j, integer(0), integer(shape.thread_columns), unroll=True), (*columns, *body))
        return (For(Loop(i, integer(0), integer(shape.thread_rows), unroll=True), (*rows, inner)),)

    def _result_guard(self, names: list[str]) -> Guard:
        return Guard(tuple(Comparison(self.lowering.symbols[n], "<", self.extents[n]) for n in names))

    def _narrow(self) -> None:
        """Past the guard the indices are inside the output."""
        for index in (self.found.m, self.found.n):
            name = self.lowering.symbols[index.name]
            self.lowering.limits[name] = self.extents[index.name]


FAMILY = Family(
    "tiled",
    rank=30,
    doc="contractions through shared tiles, with register tiles where a thread owns several elements",
    refusals=refusals,
    build=build,
    split=split,
)
