"""Accumulators of a thread tile, and their multiply-accumulates on CUDA cores: an outer product of two fragments.

A term may be another function of two elements than their product, and be accumulated by a minimum or maximum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cugen.families.contraction.k_range import guarded
from cugen.families.gemm.config import Order
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, unrolled, value_of
from cugen.plan.intervals import bound_local, interval
from cugen.plan.lowering.reductions import combine, identity
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Comment,
    Comparison,
    Declare,
    Define,
    Guard,
    If,
    Index,
    Let,
    Node,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Choice, FloorDiv, Integer, Mod, bounds, integer
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Const, Expr, Local, Read, Reduce, free_indices
from cugen.spec.types import INT32

Factor = Callable[[Read], Expr | None]  # an operand's element


class Accumulators:
    """A thread's accumulators: an array for each reduction, a local for a tile of one element; `declarations` give them
    the reduction's identity."""

    def __init__(self, thread: ThreadCoordinates) -> None:
        self.thread, self.config, self.lowering = thread, thread.config, thread.lowering
        self.values: list[Array | Local] = []
        declarations: list[Node] = []
        for reduction in thread.contraction.reductions:
            name, dtype = self.lowering.names.allocate("acc"), reduction.dtype
            if self.config.is_scalar:
                accumulator = Local(name, dtype)
                _record_range(thread, accumulator, reduction)
                self.values.append(accumulator)
                declarations.append(Let(accumulator, Const(0, dtype), mutable=True))
            else:
                array = dense_array(name, dtype, (self.config.thread_m, self.config.thread_n), "register")
                self.values.append(array)
                sizes = {"i": self.config.thread_m, "j": self.config.thread_n}
                declarations += declare_accumulators(thread, reduction, array, sizes)
        self.declarations = tuple(declarations)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(value for value in self.values if isinstance(value, Array))

    def multiply_accumulate(self, factor: Factor, k_tile: Integer, k: Integer) -> tuple[Node, ...]:
        """acc[i][j] += a[i] * b[j] over the thread tile for every reduction, in the config's `order`; `factor` is an
        operand's element at `k` of the k-tile that begins at the global `k_tile`. The zeros of the K residue are left
        out where they aren't neutral."""
        nodes = self._multiply_accumulate(factor, k_tile, k)
        contraction = self.thread.contraction
        if contraction.has_neutral_padding or self.thread.exact[contraction.k.name]:
            return nodes
        assert not self.config.is_strided, "the zeros are behind the last k"
        guard = self.lowering.needed(Guard((Comparison(k_tile + k, ">=", integer(0)),)))
        return (If(guard, nodes),) if guard.terms else nodes

    def _multiply_accumulate(self, factor: Factor, k_tile: Integer, k: Integer) -> tuple[Node, ...]:
        """The same for all k. Masked terms are left out; but for the strided layout, in boundary tiles only, since
        others have none."""
        thread, contraction, config, lowering = self.thread, self.thread.contraction, self.config, self.lowering
        conditions = contraction.conditions
        symbols = {**lowering.symbols, contraction.k.name: k_tile + k}
        if config.is_scalar:
            return guarded(lowering, conditions, symbols, self.add_terms((), factor))
        i, j = thread.loop_index("i", config.thread_m), thread.loop_index("j", config.thread_n)
        row, column = value_of(i), value_of(j)
        adds = self.add_terms((row, column), factor)
        in_order = _in_order(thread, i, j, tuple(adds))
        if not conditions:
            return in_order
        m, n = contraction.m.name, contraction.n.name
        symbols[m] = thread.tile_origin[m] + thread.row(row)
        symbols[n] = thread.tile_origin[n] + thread.column(column, 1)
        # A condition without n is tested once for each i, outside the loop over j; in the long unrolled loop of
        # resident operands, where branches are predicates, at each element.
        of_element = [c for c in conditions if config.is_resident or n in free_indices(c)]
        of_row = [condition for condition in conditions if condition not in of_element]
        if not config.is_strided:
            adds = self.add_terms((row, column), factor)
        of_columns = repeated(j, guarded(lowering, of_element, symbols, adds), config.thread_n)
        masked = repeated(i, guarded(lowering, of_row, symbols, list(of_columns)), config.thread_m)
        if config.is_strided:
            return masked
        in_order = (Comment("no term of the k-tile is masked"), *in_order)
        return (If(thread.k_bounds.unmasked(k_tile), in_order, masked),)

    def add_terms(self, element: tuple[Integer, ...], factor: Factor) -> list[Node]:
        """Adds the term of every reduction to its accumulator, that at `element` of an array."""
        nodes: list[Node] = []
        for reduction, accumulator in zip(self.thread.contraction.reductions, self.values, strict=True):
            scope = Scope()
            term = self.lowering.lower(substitute(reduction.body, {}, factor), scope)
            nodes += scope.nodes
            if isinstance(accumulator, Local):
                nodes.append(Assign(accumulator, combine(reduction.kind, accumulator, term)))
            else:
                nodes.append(accumulate(reduction, accumulator, element, term))
        return nodes


def _record_range(thread: ThreadCoordinates, accumulator: Local, reduction: Reduce) -> None:
    """Records the range of an int32 accumulator that provably can't overflow: plain `+=` then needs no wraparound."""
    if accumulator.dtype != INT32:
        return
    low, high = interval(reduction.body, {})
    terms = bounds(thread.extents[thread.contraction.k.name], thread.lowering.ranges)[1]
    bound_local(thread.lowering.ranges, accumulator, (min(low, 0) * terms, max(high, 0) * terms))


def declare_accumulators(
    thread: ThreadCoordinates, reduction: Reduce, array: Array, sizes: Mapping[str, int]
) -> tuple[Node, ...]:
    """Declares accumulators of a reduction with its identity; `sizes` are those of the dimensions, by hints for the
    names of loop variables."""
    if reduction.kind == "sum":
        return (Declare(array, zeroed=True),)
    loops = [(thread.loop_index(hint, size), size) for hint, size in sizes.items()][: len(array.shape)]
    target = Access(array, tuple(value_of(index) for index, _ in loops), "store")
    nodes: tuple[Node, ...] = (Store(target, identity(reduction.kind, array.dtype)),)
    for index, size in reversed(loops):
        nodes = repeated(index, nodes, size)
    return Declare(array), *nodes


def accumulate(reduction: Reduce, array: Array, element: tuple[Integer, ...], value: Expr) -> Node:
    """Combines an element of an array of accumulators with a value, as the reduction does."""
    target = Access(array, element, "store")
    if reduction.kind == "sum" and array.dtype.is_float:
        return Accumulate(target, value)
    return Store(target, combine(reduction.kind, Element.of(Access(array, element, "load")), value))


def _in_order(thread: ThreadCoordinates, i: Index, j: Index, body: tuple[Node, ...]) -> tuple[Node, ...]:
    """Unrolled loops over a thread tile. Serpentine order walks every other line backwards, so that one operand of each
    FMA is still in the register reuse cache; zigzag does so on two lines at a time."""
    config = thread.config
    lines, along = (i, config.thread_m), (j, config.thread_n)
    reverses = config.order in (Order.SERPENTINE, Order.ZIGZAG)
    if config.order == Order.COLUMNS or (reverses and config.thread_n > config.thread_m):
        lines, along = along, lines
    if not reverses:
        return repeated(lines[0], repeated(along[0], body, along[1]), lines[1])
    (line, line_count), (element, count) = lines, along
    line_name = "row" if element == j else "column"
    if config.order == Order.SERPENTINE or line_count % 2:
        t = thread.loop_index("t", count)
        text = f"serpentine: every other {line_name} backwards"
        serpentine = (Comment(text), Define(_alternating(element, line.symbol, t.symbol, count)), *body)
        return (unrolled(line, (unrolled(t, serpentine, stop=count),), stop=line_count),)
    pair, t = thread.loop_index("p", line_count // 2), thread.loop_index("t", 2 * count)
    alternating = _alternating(element, pair.symbol, FloorDiv(t.symbol, integer(2)), count)
    line_of_pair = Mod(t.symbol + FloorDiv(t.symbol, integer(2)), integer(2))
    line_index = Index(line.name, 2 * pair.symbol + line_of_pair, line.range)
    text = f"zigzag: two {line_name}s at a time, every other two backwards"
    zigzag = (Comment(text), Define(alternating), Define(line_index), *body)
    return (unrolled(pair, (unrolled(t, zigzag, stop=2 * count),), stop=line_count // 2),)


def _alternating(element: Index, line: Integer, t: Integer, count: int) -> Index:
    """Element `t` of a line, counted from the end on odd lines."""
    is_forwards = Mod(line, integer(2)), integer(1)
    return Index(element.name, Choice(*is_forwards, t, integer(count - 1) - t), element.range)
