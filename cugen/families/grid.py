"""How output elements are laid over threads: up to three axes, or one flat index where the grid is too small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from cugen.families.base import Request
from cugen.plan.context import Context
from cugen.plan.ir import Comparison, Define, Guard, Index, Node, ReturnUnless
from cugen.plan.lowering import Lowering
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer, symbol
from cugen.spec import expressions as spec
from cugen.spec.expressions import IndexValue
from cugen.spec.model import Param, Statement

AXES = ("x", "y", "z")
DEFAULT_BLOCK = {1: (256,), 2: (32, 8), 3: (32, 8, 1)}


@dataclass(frozen=True, slots=True)
class Layout:
    """One thread for each element of a domain. `guard` ends the threads that have none; empty where every one has."""

    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]
    nodes: tuple[Node, ...]


def fastest_first(statement: Statement, context: Context) -> tuple[spec.Index, ...]:
    """The statement's indices, the one that walks the output contiguously first, then from the right to the left."""
    target = context.arrays[statement.target]
    order = list(reversed(statement.indices))
    for dimension, subscript in enumerate(statement.subscripts):
        if target.strides[dimension] == 1 and isinstance(subscript, IndexValue):
            chosen = next(index for index in order if index.name == subscript.name)
            order.remove(chosen)
            order.insert(0, chosen)
            break
    return tuple(order)


def lay_out(request: Request, lowering: Lowering, sizes: Mapping[str, int]) -> Layout:
    """Gives every index of the group's domain a value in each thread, and the grid that covers the domain.

    `sizes` are the threads along an index that the schedule asks for.
    """
    first = request.group.statements[0]
    order = fastest_first(first, request.context)
    extents = [to_integer(index.extent, lowering.symbols) for index in order]
    if not order:
        return Layout((integer(1), integer(1), integer(1)), (1, 1, 1), ())
    axes = min(len(order), 3)
    defaults = DEFAULT_BLOCK[axes]
    block = [sizes.get(index.name, 1 if sizes else defaults[axis]) for axis, index in enumerate(order[:3])]
    block += [1] * (3 - len(block))
    if len(order) > 3:
        block[2] = 1
    combined = [*extents[:2], sympy.Mul(*extents[2:])][: len(extents)]
    grid = [ceil_div(extent, size) for extent, size in zip(combined, block, strict=False)]
    limits = (request.target.grid_x, request.target.grid_yz, request.target.grid_yz)
    if any(bounds(g, lowering.ranges)[1] > limit for g, limit in zip(grid, limits, strict=False)):
        return _flat(request, lowering, order, extents, sizes)
    nodes: list[Node] = []
    terms: list[Comparison] = []
    for axis, index in enumerate(order[:3]):
        if axis == 2 and len(order) > 3:
            nodes += unfold(lowering, order[2:], extents[2:], _builtin(lowering, "blockIdx.z", combined[2]))
            break
        size = block[axis]
        blocks = _builtin(lowering, f"blockIdx.{AXES[axis]}", grid[axis])
        threads = _builtin(lowering, f"threadIdx.{AXES[axis]}", integer(size)) if size > 1 else integer(0)
        nodes.append(_define(lowering, index, blocks * size + threads))
        if not divides(size, extents[axis], request.context.spec.params):
            terms.append(Comparison(lowering.symbols[index.name], "<", extents[axis]))
        _limit(lowering, lowering.symbols[index.name], extents[axis])
    # Slowest first reads as the subscripts do.
    nodes = [*reversed(nodes)] if len(order) <= 3 else [*nodes[2:], *reversed(nodes[:2])]
    if terms:
        nodes.append(ReturnUnless(Guard(tuple(reversed(terms)))))
    grid += [integer(1)] * (3 - len(grid))
    return Layout((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), tuple(nodes))


def divides(size: int, extent: Integer, params: tuple[Param, ...]) -> bool:
    """Whether `size` surely divides the extent, so that no thread is left without an element."""
    if size == 1:
        return True
    if extent.is_Symbol:
        for param in params:
            if param.name == extent.name:
                return (param.multiple_of if param.value is None else param.value) % size == 0
    if extent.is_Integer:
        return int(extent) % size == 0
    values = {symbol(p.name): p.value for p in params if p.value is not None}
    fixed = extent.subs(values)
    return bool(fixed.is_Integer and int(fixed) % size == 0)


def _flat(
    request: Request,
    lowering: Lowering,
    order: tuple[spec.Index, ...],
    extents: list[Integer],
    sizes: Mapping[str, int],
) -> Layout:
    size = 1
    for index in order:
        size *= sizes.get(index.name, 1)
    size = size if sizes else DEFAULT_BLOCK[1][0]
    total = sympy.Mul(*extents)
    grid = ceil_div(total, size)
    definition = _builtin(lowering, "blockIdx.x", grid) * size + _builtin(lowering, "threadIdx.x", integer(size))
    nodes: list[Node] = []
    if len(order) == 1:
        nodes.append(_define(lowering, order[0], definition))
        element = lowering.symbols[order[0].name]
    else:
        scratch = Index(lowering.names.allocate("element"), definition, bounds(definition, lowering.ranges))
        lowering.ranges[scratch.symbol] = scratch.range
        nodes.append(Define(scratch))
        element = scratch.symbol
    if not divides(size, total, request.context.spec.params):
        nodes.append(ReturnUnless(Guard((Comparison(element, "<", total),))))
    _limit(lowering, element, total)
    if len(order) > 1:
        nodes += unfold(lowering, order, extents, element)
    return Layout((grid, integer(1), integer(1)), (size, 1, 1), tuple(nodes))


def unfold(lowering: Lowering, order: tuple[spec.Index, ...], extents: list[Integer], element: Integer) -> list[Node]:
    """The indices that one flat number stands for, the fastest first."""
    nodes: list[Node] = []
    divisor: Integer = integer(1)
    for position, (index, extent) in enumerate(zip(order, extents, strict=True)):
        quotient = FloorDiv(element, divisor)
        last = position == len(order) - 1
        nodes.append(_define(lowering, index, quotient if last else Mod(quotient, extent)))
        _limit(lowering, lowering.symbols[index.name], extent)
        divisor = divisor * extent
    return nodes


def _define(lowering: Lowering, index: spec.Index, definition: Integer) -> Define:
    named = Index(lowering.names.allocate(index.name), definition, bounds(definition, lowering.ranges))
    lowering.symbols[index.name] = named.symbol
    lowering.ranges[named.symbol] = named.range
    return Define(named)


def _limit(lowering: Lowering, name: Integer, extent: Integer) -> None:
    """Records that `name` is below `extent` from here on."""
    lowering.limits[name] = extent
    low, high = lowering.ranges[name]
    lowering.ranges[name] = (low, max(low, min(high, bounds(extent, lowering.ranges)[1] - 1)))


def _builtin(lowering: Lowering, name: str, count: Integer) -> Integer:
    builtin = symbol(name)
    lowering.ranges[builtin] = (0, max(bounds(count, lowering.ranges)[1] - 1, 0))
    return builtin
