"""Online softmax: a maximum and the sum of exponentials under it in one pass, for the uncached part of a row.

Each thread holds a (max, sum) state, with sum = Σ exp(x - max). A greater element rescales the sum by
exp(old max - new max). After the reduction of the maximum each thread rescales its sum to it (Milakov and Gimelshein,
Online normalizer calculation for softmax, 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from cugen.families.rowwise.passes.schedule import RowPass
from cugen.families.rowwise.statements.nan_free_maxima import subtracted_maximum
from cugen.pieces.loop_variables import unrolled
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine, identity
from cugen.plan.memory import Component, Vector
from cugen.plan.nodes import Assign, Index, Let, Node
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Local, Op, Reduce, Select
from cugen.spec.types import BOOL


@dataclass(frozen=True, slots=True)
class OnlineSoftmax:
    """The two reductions and a thread's (max, sum) state."""

    maximum: Reduce
    total: Reduce
    thread_max: Local
    thread_sum: Local

    def initial_state(self) -> tuple[Node, ...]:
        return (
            Let(self.thread_max, identity("max", self.thread_max.dtype), mutable=True),
            Let(self.thread_sum, identity("sum", self.thread_sum.dtype), mutable=True),
        )

    def rescaled_sum(self, maximum: Local) -> Expr:
        """The thread's sum of exponentials, relative to another maximum than the thread's."""
        return Op("mul", (self.thread_sum, _exp(self.thread_max, maximum)), self.thread_sum.dtype)


def online_pairs(passes: tuple[RowPass, ...]) -> dict[Reduce, Reduce]:
    """The maxima whose sum of exponentials is the next pass's, with these sums."""
    pairs: dict[Reduce, Reduce] = {}
    for row_pass, following in pairwise(passes):
        for total in following.reductions:
            maximum = subtracted_maximum(total)
            if maximum in row_pass.reductions and maximum is not None:
                pairs[maximum] = total
    return pairs


def online_step(
    online: OnlineSoftmax, value: Expr, lowering: Lowering, scopes: tuple[Scope, Scope], lane: Integer, width: int
) -> tuple[Node, ...]:
    """Updates the state by a vector: its maximum first, so that the sum is rescaled once per vector.

    `value` is element `lane`, `scopes` are the vector's and an element's. The nodes follow the loop over elements."""
    vector_scope, element_scope = scopes
    dtype = online.thread_max.dtype
    new_max = Local(lowering.name_for(Op("new_max", (online.maximum,), dtype), "new_max", vector_scope), dtype)
    vector_scope.nodes.append(Let(new_max, online.thread_max, mutable=True))
    if width > 1 and not isinstance(value, Component):
        name = lowering.name_for(Op("values", (online.maximum,), dtype), f"value{width}", vector_scope)
        vector = Vector(name, dtype, dtype, width)
        vector_scope.nodes.append(Let(vector, None, mutable=True))
        element_scope.nodes.append(Assign(vector.component(lane), value))
        value = vector.component(lane)
    elif width == 1 and not isinstance(value, Local):
        named = Local(lowering.name_for(Op("value", (online.maximum,), dtype), "value", vector_scope), dtype)
        vector_scope.nodes.append(Let(named, value))
        value = named
    element_scope.nodes.append(Assign(new_max, combine(online.maximum.kind, new_max, value)))
    shift = Local(lowering.name_for(Op("shift", (online.maximum,), dtype), "shift", vector_scope), dtype)
    is_empty = Op("eq", (new_max, Const(-math.inf, dtype)), BOOL)  # -inf - -inf would be NaN
    sum_update: Node = Assign(online.thread_sum, Op("add", (online.thread_sum, _exp(value, shift)), dtype))
    if width > 1:
        each = Index(str(lane), integer(0), (0, width - 1))
        sum_update = unrolled(each, (sum_update,))
    return (
        Let(shift, Select(is_empty, Const(0, dtype), new_max, dtype)),
        Assign(online.thread_sum, online.rescaled_sum(shift)),
        sum_update,
        Assign(online.thread_max, new_max),
    )


def _exp(value: Expr, offset: Local) -> Op:
    return Op("exp", (Op("sub", (value, offset), offset.dtype),), offset.dtype)
