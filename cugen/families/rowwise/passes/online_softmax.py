"""A maximum and the sum of exponentials below it in one sweep, for what of a row is too long to be kept.

A thread holds the greatest value that it has seen, and the sum of `exp(value - greatest)`; a greater value scales the
sum down. What the threads have is brought to the maximum of all afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from cugen.families.rowwise.passes.schedule import Sweep
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine, identity
from cugen.plan.memory import Component, Vector
from cugen.plan.nodes import Assign, For, Index, Let, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Local, Op, Reduce, Select
from cugen.spec.types import BOOL


@dataclass(frozen=True, slots=True)
class Online:
    """A thread's share of both: the greatest value, and the sum of the exponentials."""

    peak: Reduce
    total: Reduce
    greatest: Local
    share: Local

    def first_values(self) -> tuple[Node, ...]:
        return (
            Let(self.greatest, identity("max", self.greatest.dtype), mutable=True),
            Let(self.share, identity("sum", self.share.dtype), mutable=True),
        )

    def at(self, peak: Local) -> Expr:
        """The share of the sum of exponentials, once the maximum of all is known."""
        return Op("mul", (self.share, _exp(self.greatest, peak)), self.share.dtype)


def online_pairs(sweeps: tuple[Sweep, ...]) -> dict[Reduce, Reduce]:
    """The maxima whose exponentials are summed in the next sweep."""
    pairs: dict[Reduce, Reduce] = {}
    for sweep, following in pairwise(sweeps):
        for total in following.reductions:
            match total:
                case Reduce(kind="sum", where=None, body=Op(name="exp", args=(Op(name="sub", args=(body, peak)),))):
                    if peak in sweep.reductions and isinstance(peak, Reduce) and _is_peak(peak, body):
                        pairs[peak] = total
    return pairs


def _is_peak(peak: Reduce, body: Expr) -> bool:
    return peak.kind in ("max", "peak") and peak.where is None and peak.body == body and peak.dtype.is_float


def step_online(
    online: Online, value: Expr, lowering: Lowering, scopes: tuple[Scope, Scope], part: Integer, width: int
) -> tuple[Node, ...]:
    """Takes in the `value` of each of a vector's elements. `scopes` are those of the vector and of an element; what is
    returned follows the loop over the elements."""
    around, inner = scopes
    dtype = online.greatest.dtype
    most = Local(lowering.name_for(Op("most", (online.peak,), dtype), "most", around), dtype)
    around.nodes.append(Let(most, online.greatest, mutable=True))
    if width > 1 and not isinstance(value, Component):
        name = lowering.name_for(Op("values", (online.peak,), dtype), f"value{width}", around)
        vector = Vector(name, dtype, dtype, width)
        around.nodes.append(Let(vector, None, mutable=True))
        inner.nodes.append(Assign(vector.component(part), value))
        value = vector.component(part)
    elif width == 1 and not isinstance(value, Local):
        named = Local(lowering.name_for(Op("value", (online.peak,), dtype), "value", around), dtype)
        around.nodes.append(Let(named, value))
        value = named
    inner.nodes.append(Assign(most, combine(online.peak.kind, most, value)))
    shift = Local(lowering.name_for(Op("shift", (online.peak,), dtype), "shift", around), dtype)
    nothing = Op("eq", (most, Const(-math.inf, dtype)), BOOL)
    grown: Node = Assign(online.share, Op("add", (online.share, _exp(value, shift)), dtype))
    if width > 1:
        each = Index(str(part), integer(0), (0, width - 1))
        grown = For(Loop(each, integer(0), integer(width), unroll=True), (grown,))
    return (
        Let(shift, Select(nothing, Const(0, dtype), most, dtype)),
        Assign(online.share, Op("mul", (online.share, _exp(online.greatest, shift)), dtype)),
        grown,
        Assign(online.greatest, most),
    )


def _exp(value: Expr, offset: Local) -> Op:
    return Op("exp", (Op("sub", (value, offset), offset.dtype),), offset.dtype)
