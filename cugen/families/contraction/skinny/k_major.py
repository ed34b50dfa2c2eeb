"""Few rows times a matrix whose columns lie along memory: a warp walks along several of them at once, for all rows."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.skinny.config import WARP, Shape
from cugen.families.contraction.skinny.multiply import (
    Loaded,
    add_term,
    alignments,
    is_plain,
    loop_index,
    number,
    repeat,
    running,
)
from cugen.families.contraction.skinny.recognition import Skinny
from cugen.pieces.block_reduce import Accumulator, ThreadGroup, reduce_group
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Comparison, Declare, For, Guard, If, Index, Let, Loop, Node, ReturnUnless
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, Integer, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Local

_TOGETHER = 2  # rounds of loads in flight


def build_rows(found: Skinny, shape: Shape) -> Kernel:
    request, lowering = found.request, new_lowering(found.request)
    lowering.arrays = found.arrays
    lane, warp = thread("x", WARP, lowering), thread("y", shape.warps, lowering)
    indices = _indices(found, shape, lowering, warp)
    lowering.prepare(tuple(statement.value for statement in request.group.statements))
    sums = running(found, shape.columns, lowering)
    loaded = (
        Loaded(found, found.matrix, found.depth, shape.columns, shape.width, lowering),
        Loaded(found, found.rows, found.depth, 1, shape.width, lowering),
    )
    walk = _walk(found, shape, lowering, lane, sums, loaded)
    results = _results(found, shape, lowering, lane, sums)
    parts = (
        ("indices", indices[0]),
        ("walk", (Declare(sums, zeroed=True), *walk)),
        ("results", results),
    )
    kernel = assemble(
        request,
        lowering,
        "skinny",
        parts,
        indices[1],
        (WARP, shape.warps, 1),
        alignments=alignments(found, loaded),
    )
    rows = f"{found.count} rows at once" if found.count > 1 else "one row"
    many = f"a warp reads {shape.columns} columns of {found.matrix.array}, {shape.width} terms of each in a lane"
    return replace(kernel, reasons=(f"{rows}: each element of {found.matrix.array} is read once", many))


def _indices(
    found: Skinny, shape: Shape, lowering: Lowering, warp: Integer
) -> tuple[tuple[Node, ...], tuple[Integer, Integer, Integer]]:
    """Where the warp begins; one beyond the last column ends."""
    extent = found.extent(found.many)
    span = shape.columns * shape.warps
    counts = [ceil_div(extent, span), *(found.extent(index) for index in found.batch)]
    blocks = make_grid(counts, lowering, found.request.target)
    nodes: list[Node] = []
    for index, place in zip(found.batch, blocks.coordinates[1:], strict=False):
        node = define(index.name, place, lowering, below=found.extent(index))
        limit(node.index, found.extent(index), lowering)
        lowering.symbols[index.name] = node.index.symbol
        nodes.append(node)
    below = ceil_div(extent, span) * span
    node = define(f"{found.many.name}0", blocks.coordinates[0] * span + warp * shape.columns, lowering, below=below)
    lowering.symbols[found.many.name] = node.index.symbol
    nodes.append(node)
    if not divides(span, extent, found.request.context):
        nodes.append(ReturnUnless(Guard((Comparison(node.index.symbol, "<", extent),))))
        limit(node.index, extent, lowering)
    return tuple(nodes), blocks.grid


def _walk(
    found: Skinny, shape: Shape, lowering: Lowering, lane: Integer, sums: Array, loaded: tuple[Loaded, Loaded]
) -> tuple[Node, ...]:
    """Rounds along the sum: each lane loads its terms of every column and of every row, and adds the products."""
    extent, width, step = found.extent(found.depth), shape.width, shape.width * WARP
    first = lowering.symbols[found.many.name]
    matrix, rows = loaded
    high = bounds(extent, lowering.ranges)[1]
    last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
    own = Index(lowering.names.allocate(f"{found.depth.name}0"), lane * width, (0, last))
    lowering.ranges[own.symbol] = own.range
    lowering.limits[own.symbol] = extent
    lowering.symbols[found.depth.name] = own.symbol
    i, j, v = _loops(found, shape, lowering)
    column, before = _column(found, shape, lowering, number(j, shape.columns))
    lowering.symbols[found.many.name] = column
    body = [*matrix.load(j, before)]
    if found.few is not None:
        lowering.symbols[found.few.name] = number(i, found.count)
    each_row = rows.load(i)
    outer = Scope()
    around = Scope(outer, frozenset((found.depth.name,)), certain=False)
    scope = Scope(around, frozenset((found.depth.name, found.many.name)), certain=False)
    place, row, of = number(v, width), number(i, found.count), number(j, shape.columns)
    if not is_plain(found):
        column, before = _column(found, shape, lowering, of, first)
        scope.nodes += before
        lowering.symbols[found.many.name] = column
        lowering.symbols[found.depth.name] = lowering.define(found.depth.name, own.symbol + place, scope)
        if found.few is not None:
            lowering.symbols[found.few.name] = lowering.define(found.few.name, row, scope)
    known = {found.matrix: matrix.value(of, place), found.rows: rows.value(integer(0), place)}
    add_term(found, lowering, scope, sums, (row, of), known)
    products = repeat(j, shape.columns, repeat(v, width, tuple(scope.nodes)))
    terms = repeat(i, found.count, (*each_row, *products))
    lowering.symbols[found.many.name] = first
    rounds = -(-high // step)
    loop = Loop(own, lane * width, extent, step, unroll_by=min(_TOGETHER, rounds) if rounds > 1 else 0)
    return (*outer.nodes, For(loop, (*body, *around.nodes, *terms)))


def _loops(found: Skinny, shape: Shape, lowering: Lowering) -> tuple[Index, Index, Index]:
    return (
        loop_index("i", found.count, lowering),
        loop_index("j", shape.columns, lowering),
        loop_index("v", shape.width, lowering),
    )


def _column(
    found: Skinny, shape: Shape, lowering: Lowering, ahead: Integer, first: Integer | None = None
) -> tuple[Integer, tuple[Node, ...]]:
    """One of the warp's columns; beyond the last, it is read again."""
    place = (lowering.symbols[found.many.name] if first is None else first) + ahead
    extent = found.extent(found.many)
    if shape.columns == 1 or divides(shape.columns, extent, found.request.context):
        return place, ()
    node = define(found.many.name, Minimum(place, extent - 1), lowering)
    return node.index.symbol, (node,)


def _results(found: Skinny, shape: Shape, lowering: Lowering, lane: Integer, sums: Array) -> tuple[Node, ...]:
    """The lanes' shares of each result added up, in a butterfly; the first lane stores it."""
    i, j, _ = _loops(found, shape, lowering)
    row, of = number(i, found.count), number(j, shape.columns)
    total = Local(lowering.names.allocate("total"), sums.dtype)
    share = Element.of(Access(sums, (row, of), "load"))
    combined = reduce_group(ThreadGroup(WARP, lane), (Accumulator("sum", total),), lowering, everywhere=True)
    scope = Scope()
    extent = found.extent(found.many)
    terms = [Comparison(lane, "==", integer(0))]
    column = define(found.many.name, lowering.symbols[found.many.name] + of, lowering)
    if not divides(shape.columns, extent, found.request.context):
        terms.append(Comparison(column.index.definition, "<", extent))
    limit(column.index, extent, lowering)
    lowering.symbols[found.many.name] = column.index.symbol
    nodes: list[Node] = [column]
    if found.few is not None:
        node = define(found.few.name, row, lowering)
        lowering.symbols[found.few.name] = node.index.symbol
        nodes.append(node)
    scope.remember(found.reduction, total)
    lower_statements(found.request, lowering, scope)
    body = (Let(total, share, mutable=True), *combined, If(Guard(tuple(terms)), (*nodes, *scope.nodes)))
    return repeat(j, shape.columns, repeat(i, found.count, body))
