"""Keys that a mask leaves out for all rows of a block, as those after the last row of causal attention.

Their scores are -inf and their weights 0, so that steps of none but such keys aren't computed. What is left of them is
0 times a row of v, which is NaN where v isn't finite: threads look for such elements, and only where there are some
are the sums added.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.attention.config import AttentionConfig
from cugen.families.attention.recognition import Attention
from cugen.families.attention.softmax import Accumulators, accumulator_column, rows_index
from cugen.families.attention.tiles import Tile
from cugen.families.contraction.k_range import KBounds
from cugen.pieces.block_reduce import Accumulator, ThreadGroup, group_reduction
from cugen.pieces.blocks import append_definition, limit
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.pieces.sections import SectionGroup
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Element, Vector
from cugen.plan.nodes import Assign, Comparison, For, Guard, If, Index, Let, Load, Loop, Node, Section, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Maximum, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Const, Expr, Local, Op
from cugen.spec.types import BOOL, FLOAT32

_UNROLLED_LOADS = 4  # that are in flight (heuristic)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys that a block computes: from `start`, a multiple of a step, to below `stop`. Before `start` and from
    `end` on all are masked."""

    start: Integer
    stop: Integer
    end: Integer

    @property
    def is_whole(self) -> bool:
        return bool(self.end == self.stop)


def key_range(
    attention: Attention, config: AttentionConfig, lowering: Lowering, row0: Integer, extent: Integer, nodes: list[Node]
) -> KeyRange:
    """The range of a block whose first row is `row0`; appends its definitions to `nodes`."""
    if not attention.conditions:
        return KeyRange(integer(0), extent, extent)
    name, keys = attention.key.name, integer(config.keys)
    tile = {attention.row.name: (row0, config.block_rows)}
    key_bounds = KBounds(lowering, attention.conditions, name, tile, config.keys)
    start, stop = key_bounds.k_range(extent, integer(0))
    if start != 0:
        start = append_definition(f"{name}_start", Maximum(start, integer(0)), nodes, lowering)
    if stop == extent:
        return KeyRange(start, stop, stop)
    stop = append_definition(f"{name}_stop", stop, nodes, lowering)
    end = ceil_div(stop, config.keys) * keys
    if bounds(end, lowering.ranges)[0] < 0:
        end = Maximum(end, integer(0))
    return KeyRange(start, stop, append_definition(f"{name}_end", end, nodes, lowering))


class MaskedKeys:
    """The sections after the main loop, for the keys that it leaves out."""

    def __init__(
        self, attention: Attention, v: Tile, keys: KeyRange, accumulators: Accumulators, lowering: Lowering
    ) -> None:
        self.attention, self.v, self.keys = attention, v, keys
        self.accumulators, self.lowering = accumulators, lowering
        self.extent = attention.context.extent(attention.key)

    def sections(self, thread: Integer, lane_column: Integer) -> tuple[Section, ...]:
        """Empty where every block computes all keys."""
        ranges = list[tuple[Integer, Integer]]()
        if self.keys.start != 0:
            ranges.append((integer(0), Minimum(self.keys.start, self.extent)))
        if not self.keys.is_whole:
            ranges.append((self.keys.end, self.extent))
        if not ranges:
            return ()
        names = self.lowering.names
        zeros, is_found = Local(names.allocate("zeros"), FLOAT32), Local(names.allocate("is_found"), BOOL)
        search: list[Node] = [Let(zeros, Const(0.0, FLOAT32), mutable=True)]
        search += (self._searched(zeros, first, stop) for first, stop in ranges)
        search.append(Let(is_found, Op("ne", (zeros, zeros), BOOL), mutable=True))
        group = ThreadGroup(self.v.threads, thread)
        reduction = group_reduction(group, (Accumulator("any", is_found),), self.lowering, everywhere=True)
        added = tuple(self._added(lane_column, first, stop) for first, stop in ranges)
        parts = (
            Section("search", tuple(search)),
            reduction,
            Section("not_finite", (If(is_found, (Section("sums", added),)),)),
        )
        return (Section("masked_keys", (SectionGroup("masked", parts),)),)

    def _searched(self, zeros: Local, first: Integer, stop: Integer) -> Node:
        """The loop over a thread's vectors of v, whose elements are added times 0."""
        v, lowering = self.v, self.lowering
        rows_at_once, columns_at_once = v.threads // v.per_row, v.per_row * v.copied
        key = self._key(rows_at_once)
        column = v.first_column.index.symbol
        c = shared_loop_variable("c", (0, v.width - 1), lowering) if columns_at_once < v.width else None
        column = column if c is None else column + c.symbol
        array = self.attention.array(self.attention.values)
        access = Access(array, self._subscripts(key.symbol, column), "load", v.copied)
        name = lowering.names.allocate(f"{self.attention.values.array.lower()}_masked")
        if v.copied == 1:
            local = Local(name, FLOAT32)
            nodes: tuple[Node, ...] = (Load(local, access), Assign(zeros, _with_zero(zeros, local)))
        else:
            vector = Vector(name, FLOAT32, array.dtype, v.copied)
            e = shared_loop_variable("e", (0, v.copied - 1), lowering)
            each = unrolled(e, (Assign(zeros, _with_zero(zeros, vector.component(e.symbol))),))
            nodes = Load(vector, access), each
        nodes = self._inside(column, nodes)
        if c is not None:
            nodes = (For(Loop(c, integer(0), integer(v.width), columns_at_once, unroll=True), nodes),)
        loop = Loop(key, first + v.first_row.index.symbol, stop, rows_at_once, unroll_by=_UNROLLED_LOADS)
        return For(loop, nodes)

    def _added(self, lane_column: Integer, first: Integer, stop: Integer) -> Node:
        """The loop over all keys, whose elements times 0 are added to the lane's sums."""
        lowering, sums = self.lowering, self.accumulators.sums
        key = self._key(1)
        r = rows_index(self.accumulators, lowering)
        n = shared_loop_variable("n", (0, int(sums.shape[-1]) - 1), lowering, "columns of masked keys")
        column = lane_column + accumulator_column(n.symbol)
        local = Local(lowering.names.allocate("zero"), FLOAT32)
        array = self.attention.array(self.attention.values)
        element = Element.of(Access(array, self._subscripts(key.symbol, column), "load"))
        total = Element.of(Access(sums, (r.symbol, n.symbol), "load"))
        add = Store(Access(sums, (r.symbol, n.symbol), "store"), Op("add", (total, local), FLOAT32))
        nodes = Let(local, Op("mul", (element, Const(0.0, FLOAT32)), FLOAT32)), unrolled(r, (add,))
        body = (unrolled(n, self._inside(column, nodes)),)
        return For(Loop(key, first, stop, rolled=True), body)

    def _key(self, step: int) -> Index:
        lowering = self.lowering
        last = bounds(self.extent, lowering.ranges)[1] - 1 + step
        key = Index(lowering.names.allocate(self.attention.key.name), integer(0), (0, last))
        lowering.ranges[key.symbol] = key.range
        limit(key, self.extent, lowering)
        return key

    def _subscripts(self, key: Integer, column: Integer) -> tuple[Integer, ...]:
        attention = self.attention
        symbols = {**self.lowering.symbols, attention.key.name: key, attention.column.name: column}
        return tuple(to_integer(sub, symbols) for sub in attention.values.subscripts)

    def _inside(self, column: Integer, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes where v has the column."""
        extent = self.attention.context.extent(self.attention.column)
        if self.attention.context.static(extent) == self.v.width:
            return nodes
        return (If(Guard((Comparison(column, "<", extent),)), nodes),)


def _with_zero(total: Local, element: Expr) -> Expr:
    """The sum with an element times 0."""
    return Op("add", (total, Op("mul", (element, Const(0.0, FLOAT32)), FLOAT32)), FLOAT32)
