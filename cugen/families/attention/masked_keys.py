"""Keys that a mask leaves out for all rows of a block, as those after the last row of causal attention.

Their scores are -inf and their weights 0, so that steps of none but such keys aren't computed. What is left of them is
0 times a row of v, which is NaN where v isn't finite: threads add the elements times 0 by columns, and exchange these
sums through shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.attention.config import AttentionConfig
from cugen.families.attention.recognition import Attention
from cugen.families.attention.softmax import Accumulators, accumulator_column, rows_index
from cugen.families.attention.tiles import Tile
from cugen.families.contraction.k_range import KBounds
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import append_definition, limit
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, shared_loop_variable, unrolled, value_of
from cugen.pieces.sections import SectionGroup
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Shuffled, Vector
from cugen.plan.nodes import (
    Accumulate,
    Barrier,
    Comparison,
    Declare,
    For,
    Guard,
    If,
    Index,
    Load,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Const, Expr, Local, Op
from cugen.spec.types import FLOAT32

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
        self.columns_at_once = v.per_row * v.copied
        self.vectors = -(-v.width // self.columns_at_once)  # of a thread, of one row

    def sections(self, thread: Integer, lane: Integer, lane_column: Integer) -> tuple[Section, ...]:
        """Empty where every block computes all keys."""
        ranges = list[tuple[Integer, Integer]]()
        if self.keys.start != 0:
            ranges.append((integer(0), Minimum(self.keys.start, self.extent)))
        if not self.keys.is_whole:
            ranges.append((self.keys.end, self.extent))
        if not ranges:
            return ()
        names, warps = self.lowering.names, self.v.threads // WARP_SIZE
        zeros = dense_array(names.allocate("zeros"), FLOAT32, (self.vectors * self.v.copied,), "register")
        of_warps = dense_array(names.allocate("zeros_of_warps"), FLOAT32, (warps, self.v.width), "shared")
        sums = (Declare(zeros, zeroed=True), *(self._sum(zeros, first, stop) for first, stop in ranges))
        parts = (
            Section("sums", sums),
            Section("lanes", tuple(self._of_lanes(zeros))),
            Section("store", (Declare(of_warps), *self._store(zeros, of_warps, thread, lane))),
            Section("stored", (Barrier(),)),
            Section("add", self._add(of_warps, warps, lane_column)),
        )
        return (Section("masked_keys", (SectionGroup("masked", parts),)),)

    def _sum(self, zeros: Array, first: Integer, stop: Integer) -> Node:
        """The loop over a thread's vectors of v, whose elements are added times 0."""
        v, lowering = self.v, self.lowering
        rows_at_once = v.threads // v.per_row
        key = self._key(rows_at_once)
        vector_index = self._vector_index()
        number = value_of(vector_index)
        column = v.first_column.index.symbol + self.columns_at_once * number
        array = self.attention.array(self.attention.values)
        attention = self.attention
        symbols = {**lowering.symbols, attention.key.name: key.symbol, attention.column.name: column}
        subscripts = tuple(to_integer(sub, symbols) for sub in attention.values.subscripts)
        access = Access(array, subscripts, "load", v.copied)
        name = lowering.names.allocate(f"{attention.values.array.lower()}_masked")
        e = shared_loop_variable("e", (0, v.copied - 1), lowering)
        element: Expr
        if v.copied == 1:
            element = Local(name, FLOAT32)
            load: Node = Load(element, access)
        else:
            vector = Vector(name, FLOAT32, array.dtype, v.copied)
            element, load = vector.component(e.symbol), Load(vector, access)
        zero = Op("mul", (element, Const(0.0, FLOAT32)), FLOAT32)
        add = Accumulate(Access(zeros, (v.copied * number + value_of(e),), "store"), zero)
        nodes = self._inside(column, (load, *repeated(e, (add,))))
        loop = Loop(key, first + v.first_row.index.symbol, stop, rows_at_once, unroll_by=_UNROLLED_LOADS)
        return For(loop, repeated(vector_index, nodes))

    def _of_lanes(self, zeros: Array) -> Iterator[Node]:
        """Adds the sums of the lanes that have the same columns."""
        distance = WARP_SIZE // 2
        z = shared_loop_variable("z", (0, int(zeros.shape[0]) - 1), self.lowering)
        zero = Local(self.lowering.names.allocate("zero"), FLOAT32)
        while distance >= self.v.per_row:
            total = Op("add", (zero, Shuffled(zero.name, FLOAT32, distance)), FLOAT32)
            load = Load(zero, Access(zeros, (value_of(z),), "load"))
            yield from repeated(z, (load, Store(Access(zeros, (value_of(z),), "store"), total)))
            distance //= 2

    def _store(self, zeros: Array, of_warps: Array, thread: Integer, lane: Integer) -> tuple[Node, ...]:
        vector_index, v = self._vector_index(), self.v
        e = shared_loop_variable("e", (0, v.copied - 1), self.lowering)
        column = v.first_column.index.symbol + self.columns_at_once * value_of(vector_index) + value_of(e)
        value = Element.of(Access(zeros, (v.copied * value_of(vector_index) + value_of(e),), "load"))
        store = Store(Access(of_warps, (FloorDiv(thread, integer(WARP_SIZE)), column), "store"), value)
        nodes = repeated(vector_index, repeated(e, (store,)))
        is_first = Guard((Comparison(lane, "<", integer(v.per_row)),))
        return (If(is_first, nodes),) if v.per_row < WARP_SIZE else nodes

    def _add(self, of_warps: Array, warps: int, lane_column: Integer) -> tuple[Node, ...]:
        """Adds the sums of all warps to those of a lane's rows."""
        lowering, sums = self.lowering, self.accumulators.sums
        r = rows_index(self.accumulators, lowering)
        n = shared_loop_variable("n", (0, int(sums.shape[-1]) - 1), lowering, "columns of masked keys")
        w = shared_loop_variable("w", (0, warps - 1), lowering)
        zero = Local(lowering.names.allocate("zero"), FLOAT32)
        load = Load(zero, Access(of_warps, (w.symbol, lane_column + accumulator_column(n.symbol)), "load"))
        add = Accumulate(Access(sums, (r.symbol, n.symbol), "store"), zero)
        return (unrolled(n, (unrolled(w, (load, unrolled(r, (add,)))),)),)

    def _vector_index(self) -> Index:
        return shared_loop_variable("c", (0, self.vectors - 1), self.lowering, "vectors of masked keys")

    def _key(self, step: int) -> Index:
        lowering = self.lowering
        last = bounds(self.extent, lowering.ranges)[1] - 1 + step
        key = Index(lowering.names.allocate(self.attention.key.name), integer(0), (0, last))
        lowering.ranges[key.symbol] = key.range
        limit(key, self.extent, lowering)
        return key

    def _inside(self, column: Integer, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes where v has the column."""
        extent = self.attention.context.extent(self.attention.column)
        if self.attention.context.static(extent) == self.v.width:
            return nodes
        return (If(Guard((Comparison(column, "<", extent),)), nodes),)
