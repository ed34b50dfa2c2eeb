"""Baked taps without a memory space of their own: literals in the code of unrolled loops."""

from __future__ import annotations

from dataclasses import replace

import sympy

from cugen.pieces.placement import REGISTER_ELEMENTS
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Declare, Node
from cugen.plan.request import Request
from cugen.spec.expressions import free_indices


def literal_taps(request: Request, lowering: Lowering) -> tuple[dict[str, Array], tuple[Node, ...]]:
    """Small baked arrays that only reduction indices subscript, as constant register arrays, and their declarations."""
    outer = {index.name for statement in request.group.statements for index in statement.indices}
    literals: dict[str, Array] = {}
    for declared in request.touched():
        source = request.context.arrays[declared.name]
        reads = [read for read in request.reads() if read.array == declared.name]
        is_moved = any(free_indices(read) & outer or read.boundary is not None for read in reads)
        if source.space != "table" or declared.memory.space is not None or is_moved:
            continue
        count = request.context.static(sympy.Mul(*source.shape))
        if count is None or count > REGISTER_ELEMENTS:
            continue
        strides = tuple(sympy.Mul(*source.shape[dimension + 1 :]) for dimension in range(len(source.shape)))
        symbol = lowering.names.allocate(f"{source.symbol}_values")
        literals[declared.name] = replace(source, symbol=symbol, space="register", flat=False, strides=strides)
    return literals, tuple(Declare(array) for array in literals.values())
