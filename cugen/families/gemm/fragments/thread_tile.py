"""Multiply-accumulates of a thread tile on CUDA cores: an outer product of two fragments, and its order."""

from __future__ import annotations

from cugen.families.gemm.config import Order
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Accumulate, Comment, Define, For, Index, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Expr, Op, Read


def multiply_accumulate(thread: ThreadCoordinates, accumulators: Array, factors: dict[Read, Expr]) -> tuple[Node, ...]:
    """acc[i][j] += a[i] * b[j] over the thread tile, in the config's `order`."""
    i, j = thread.loop_index("i", thread.config.thread_m), thread.loop_index("j", thread.config.thread_n)
    (reduction,) = thread.contraction.sums
    scope = Scope()
    term = thread.lowering.lower(substitute(reduction.body, {}, factors.get), scope)
    element = (i.symbol, j.symbol)
    add: Node = Accumulate(Access(accumulators, element, "store"), term)
    if not accumulators.dtype.is_float:
        total = Op("add", (Element.of(Access(accumulators, element, "load")), term), accumulators.dtype)
        add = Store(Access(accumulators, element, "store"), total)
    return _in_order(thread, i, j, (*scope.nodes, add))


def _in_order(thread: ThreadCoordinates, i: Index, j: Index, body: tuple[Node, ...]) -> tuple[Node, ...]:
    """Unrolled loops over a thread tile. Serpentine order walks every other line backwards, so that one operand of each
    FMA is still in the register reuse cache; zigzag does so on two lines at a time."""
    config = thread.config
    lines, along = (i, config.thread_m), (j, config.thread_n)
    reverses = config.order in (Order.SERPENTINE, Order.ZIGZAG)
    if config.order == Order.COLUMNS or (reverses and config.thread_n > config.thread_m):
        lines, along = along, lines
    if not reverses:
        return (_unrolled(lines, (_unrolled(along, body),)),)
    (line, line_count), (element, count) = lines, along
    line_name = "row" if element == j else "column"
    if config.order == Order.SERPENTINE or line_count % 2:
        t = thread.loop_index("t", count)
        text = f"serpentine: every other {line_name} backwards"
        serpentine = (Comment(text), Define(_alternating(element, line.symbol, t.symbol, count)), *body)
        return (_unrolled(lines, (_unrolled((t, count), serpentine),)),)
    pair, t = thread.loop_index("p", line_count // 2), thread.loop_index("t", 2 * count)
    alternating = _alternating(element, pair.symbol, FloorDiv(t.symbol, integer(2)), count)
    line_of_pair = Mod(t.symbol + FloorDiv(t.symbol, integer(2)), integer(2))
    line_index = Index(line.name, 2 * pair.symbol + line_of_pair, line.range)
    text = f"zigzag: two {line_name}s at a time, every other two backwards"
    zigzag = (Comment(text), Define(alternating), Define(line_index), *body)
    return (_unrolled((pair, line_count // 2), (_unrolled((t, 2 * count), zigzag),)),)


def _alternating(element: Index, line: Integer, t: Integer, count: int) -> Index:
    """Element `t` of a line, counted from the end on odd lines."""
    return Index(element.name, t + Mod(line, integer(2)) * (count - 1 - 2 * t), element.range)


def _unrolled(loop: tuple[Index, int], body: tuple[Node, ...]) -> Node:
    index, count = loop
    return For(Loop(index, integer(0), integer(count), unroll=True), body)
