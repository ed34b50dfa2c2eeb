"""Online softmax of a block of scores in registers: maxima and sums of rows so far (Milakov and Gimelshein, Online
normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022).

    peak   = max(row_max[r], scores of the step, those of the row's other lanes)
    shift  = peak, or 0 where all scores so far are -inf: -inf - -inf would be NaN
    scale  = exp(row_max[r] - shift)            what sums so far are multiplied by
    scores = exp(scores - shift)
    row_sum[r] = scale * row_sum[r] + scores,   acc[r] = scale * acc[r]

A NaN among the scores makes the row's sum NaN, and the outputs with it, so that maxima may leave it out. Sums of a
row are of each lane, until the epilogue adds those of the four lanes that share it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.attention.recognition import Attention, with_replaced
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import Assign, Declare, Index, Let, Load, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Const, Expr, IndexValue, Local, Op, Read, Select, free_indices, walk
from cugen.spec.types import BOOL, FLOAT32

ROW_DISTANCE = 8  # rows between the halves of an instruction's accumulators (PTX ISA)
LANE_DISTANCES = (2, 1)  # of the four lanes that have a row's columns


@dataclass(frozen=True, slots=True)
class Accumulators:
    """A lane's registers: `scores` of a step and `sums` of weighted rows of v, two rows of each instruction; maxima and
    sums of the rows."""

    scores: Array
    sums: Array
    row_max: Array
    row_sum: Array

    def declarations(self, lowering: Lowering) -> tuple[Node, ...]:
        """All but the scores, for rows without keys."""
        r = rows_index(self, lowering)
        lowest = Store(Access(self.row_max, (r.symbol,), "store"), Const(-math.inf, FLOAT32))
        return (
            Declare(self.sums, zeroed=True),
            Declare(self.row_sum, zeroed=True),
            Declare(self.row_max),
            unrolled(r, (lowest,)),
        )


def rows_index(accumulators: Accumulators, lowering: Lowering) -> Index:
    """The loop variable over a lane's rows."""
    (rows,) = accumulators.row_max.shape
    return shared_loop_variable("r", (0, int(rows) - 1), lowering, "rows of a lane")


def accumulator_column(c: Integer) -> Integer:
    """The column of a lane's c-th accumulator of a row, from its first column on."""
    return ROW_DISTANCE * FloorDiv(c, integer(2)) + Mod(c, integer(2))


class OnlineSoftmax:
    """The nodes of a step. `first_row` is the lane's first row, `first_key` its first column of the step's scores;
    `is_exact`: every step has all of its keys."""

    def __init__(
        self,
        attention: Attention,
        accumulators: Accumulators,
        lowering: Lowering,
        first_row: Integer,
        *,
        is_exact: bool,
    ) -> None:
        self.attention, self.accumulators, self.lowering = attention, accumulators, lowering
        self.first_row, self.is_exact = first_row, is_exact

    def section(self, first_key: Integer) -> Section:
        """The loop over the lane's rows, whose sections are those of templates/attention.cu.j2."""
        r = rows_index(self.accumulators, self.lowering)
        names = self.lowering.names
        peak, shift, scale = (Local(names.allocate(hint), FLOAT32) for hint in ("peak", "shift", "scale"))
        row_max = Element.of(Access(self.accumulators.row_max, (r.symbol,), "load"))
        maxima = Let(peak, row_max, mutable=True), *self._scores(r, first_key, peak)
        shuffles = (Assign(peak, combine("peak", peak, Shuffled(peak.name, FLOAT32, d))) for d in LANE_DISTANCES)
        sections = (
            Section("maximum", (*maxima, *shuffles)),
            Section("rescale", tuple(self._rescale(r, peak, shift, scale))),
            Section("weights", tuple(self._weights(r, shift))),
        )
        return Section("softmax", (unrolled(r, sections),))

    def _columns(self, array: Array, hint: str = "c") -> Index:
        return shared_loop_variable(hint, (0, int(array.shape[-1]) - 1), self.lowering, f"columns {array.shape[-1]}")

    def _scores(self, r: Index, first_key: Integer, peak: Local) -> Iterator[Node]:
        """The scores of the products, and their maximum. Those past the last key are -inf."""
        attention, lowering, scores = self.attention, self.lowering, self.accumulators.scores
        c = self._columns(scores)
        row = define(attention.row.name, self.first_row + ROW_DISTANCE * r.symbol, lowering)
        key = define(attention.key.name, first_key + accumulator_column(c.symbol), lowering)
        lowering.symbols |= {attention.row.name: row.index.symbol, attention.key.name: key.index.symbol}
        product = Local(lowering.names.allocate("product"), FLOAT32)
        value = self._bounded(with_replaced(attention.score, {attention.product: product}))
        outer = Scope(binds=frozenset((attention.row.name,)))
        inner = Scope(outer, binds=frozenset((attention.key.name,)))
        lowering.prepare((value,))
        lowered = lowering.lower(value, inner)
        load = Load(product, Access(scores, (r.symbol, c.symbol), "load"))
        nodes: tuple[Node, ...] = (load, *inner.nodes)
        if lowered == product:
            yield unrolled(c, (*nodes, Assign(peak, combine("peak", peak, product))))
            return
        score = Local(lowering.names.allocate("score"), FLOAT32)
        yield row
        yield from outer.nodes
        yield unrolled(
            c,
            (
                key,
                *nodes,
                Let(score, lowered),
                Store(Access(scores, (r.symbol, c.symbol), "store"), score),
                Assign(peak, combine("peak", peak, score)),
            ),
        )

    def _bounded(self, score: Expr) -> Expr:
        """The score, or -inf past the last key; of elements, past the last row, too."""
        attention = self.attention
        indices = [] if self.is_exact else [attention.key]
        reads = (node for node in walk(score) if isinstance(node, Read))
        if any(attention.row.name in free_indices(read) for read in reads):
            indices.append(attention.row)
        lowest = Const(-math.inf, FLOAT32)
        for index in indices:
            inside = Op("lt", (IndexValue(index.name), index.extent), BOOL)
            score = Select(inside, score, lowest, FLOAT32)
        return score

    def _rescale(self, r: Index, peak: Local, shift: Local, scale: Local) -> Iterator[Node]:
        accumulators, sums = self.accumulators, self.accumulators.sums
        before = Local(self.lowering.names.allocate("previous"), FLOAT32)
        is_empty = Op("eq", (peak, Const(-math.inf, FLOAT32)), BOOL)
        yield Load(before, Access(accumulators.row_max, (r.symbol,), "load"))
        yield Store(Access(accumulators.row_max, (r.symbol,), "store"), peak)
        yield Let(shift, Select(is_empty, Const(0.0, FLOAT32), peak, FLOAT32))
        yield Let(scale, self._weight(before, shift))
        for array, subscripts, c in (
            (accumulators.row_sum, (r.symbol,), None),
            (sums, (r.symbol, self._columns(sums, "n").symbol), self._columns(sums, "n")),
        ):
            element = Element.of(Access(array, subscripts, "load"))
            node: Node = Store(Access(array, subscripts, "store"), Op("mul", (element, scale), FLOAT32))
            yield node if c is None else unrolled(c, (node,))

    def _weight(self, score: Local, shift: Local) -> Expr:
        """The exponential of a score relative to a maximum."""
        attention = self.attention
        return with_replaced(attention.weight, {attention.score: score, attention.maximum: shift})

    def _weights(self, r: Index, shift: Local) -> Iterator[Node]:
        scores = self.accumulators.scores
        c = self._columns(scores)
        weight, total = (Local(self.lowering.names.allocate(hint), FLOAT32) for hint in ("weight", "total"))
        score = Local(self.lowering.names.allocate("score"), FLOAT32)
        row_sum = Element.of(Access(self.accumulators.row_sum, (r.symbol,), "load"))
        yield Let(total, Const(0.0, FLOAT32), mutable=True)
        yield unrolled(
            c,
            (
                Load(score, Access(scores, (r.symbol, c.symbol), "load")),
                Let(weight, self._weight(score, shift)),
                Store(Access(scores, (r.symbol, c.symbol), "store"), weight),
                Assign(total, Op("add", (total, weight), FLOAT32)),
            ),
        )
        target = Access(self.accumulators.row_sum, (r.symbol,), "store")
        yield Store(target, Op("add", (row_sum, total), FLOAT32))
