"""Placements and sizes that a spec requests of a contraction, and no tile config can honour."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.contraction.recognition import Contraction
from cugen.pieces.placement import size_refusals
from cugen.plan.request import Refusal


def request_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """Arrays placed where they have no tile, and sizes along indices that have none."""
    request = contraction.request
    operands = {operand.read.array for operand in contraction.operands}
    for array in request.touched():
        is_operand, space = array.name in operands, array.memory.space
        if (space == "shared" and not is_operand) or (space == "register" and array.role != "temporary"):
            yield Refusal(f"stages its operands only; {array.name} is none", f"arrays.{array.name}.memory")
    mn_names = sorted((contraction.m.name, contraction.n.name))
    yield from size_refusals(request, {"block": mn_names, "thread": mn_names, "step": [contraction.k.name]})
