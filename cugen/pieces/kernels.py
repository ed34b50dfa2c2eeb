"""Assembles a family's parts into a `Kernel`: parameters, shared memory and its layout, and symbol ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import sympy

from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import power_of_two
from cugen.pieces.structures.recognition import field_vectors
from cugen.plan.alignment import required_alignments
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import ARGUMENTS, Array, row_major
from cugen.plan.names import Names
from cugen.plan.nodes import Node, Section
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, Ranges, bounds, integer
from cugen.plan.traversal import usage
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.unused import without_unused
from cugen.spec.types import DType


def new_lowering(request: Request, arrays: Mapping[str, Array] | None = None) -> Lowering:
    """A lowering with the spec's params and `arrays`, or its own, and a new scope of names."""
    context = request.context
    arrays = context.arrays if arrays is None else arrays
    names, vectors_of = Names(context.names), partial(field_vectors, request)
    symbols, ranges = dict(context.symbols), dict(context.ranges)
    return Lowering(names, arrays, symbols, ranges, filled=_output_extents(request), vectors_of=vectors_of)


def _output_extents(request: Request) -> tuple[Integer, ...]:
    """The extents that the outputs of all statements have."""
    extents = [dict.fromkeys(map(request.context.extent, s.indices)) for s in request.group.statements]
    return tuple(extent for extent in extents[0] if all(extent in others for others in extents[1:]))


def assemble(
    request: Request,
    lowering: Lowering,
    family: str,
    parts: Sequence[Section | tuple[str, tuple[Node, ...]]],
    grid: tuple[Integer, Integer, Integer],
    block: tuple[int, int, int],
    *,
    minimum_blocks: int = 0,
    deferrable_registers: int = 0,
    workspace: tuple[Array, ...] = (),
    reasons: tuple[str, ...] = (),
    cluster: int = 1,
) -> Kernel:
    """The kernel with the parameters that its body mentions, in the spec's order; `workspace` follows its arrays."""
    context = request.context
    named = tuple(part if isinstance(part, Section) else Section(*part) for part in parts)
    sections = tuple(node for node in without_unused(named) if isinstance(node, Section))
    body = dissolved(sections)
    touched = {array.symbol: array for array in usage.arrays(body)}
    params = {s.name for s in usage.free_symbols(body)}
    params |= {context.symbols[name].name for name in usage.params(body)}
    scalars = usage.scalars(body)
    arguments = [a.name for a in context.arrays.values() if a.symbol in touched and a.space in ARGUMENTS]
    arguments += [array.name for array in workspace]
    arguments += [s.name for s in context.spec.scalars if s.name in scalars and s.value is None and not s.constant]
    arguments += [p.name for p in context.spec.params if p.is_dynamic and context.symbols[p.name].name in params]
    shared = [array for array in touched.values() if array.space == "shared"]
    order = list(context.arrays)
    maps = sorted((a for a in touched.values() if a.space == "tensor"), key=lambda array: order.index(array.name))
    return Kernel(
        request.name,
        family,
        (*(a for a in context.arrays.values() if a.symbol in touched), *workspace),
        tuple(arguments),
        tuple((section.name, section.body) for section in sections),
        grid,
        block,
        tuple(lowering.ranges.items()),
        tuple(dict.fromkeys(statement.text for statement in request.group.statements)),
        minimum_blocks,
        deferrable_registers,
        _static_shared_bytes([a for a in shared if not a.dynamic], lowering.ranges),
        max((int(a.dynamic_offset) + tile_bytes(a, lowering.ranges) for a in shared if a.dynamic), default=0),
        required_alignments(body, context),
        (*reasons, *_register_reasons(request, touched)),
        cluster,
        workspace,
        tuple(maps),
    )


def _register_reasons(request: Request, touched: Mapping[str, Array]) -> tuple[str, ...]:
    """How the inputs that the spec places in registers get there, unless a thread has an array of them."""
    requested = [a.name for a in request.touched() if a.memory.space == "register" and a.role in ("input", "baked")]
    arrays = {array.name for array in touched.values() if array.space == "register"}
    loaded = ", ".join(name for name in requested if name not in arrays)
    return (
        (f"a thread loads each element of {loaded} that it reads into a register, where it uses it",) if loaded else ()
    )


def _static_shared_bytes(tiles: Sequence[Array], ranges: Ranges) -> int:
    """The bytes of consecutive tiles, each aligned to its requirement."""
    end = 0
    for tile in tiles:
        start = max(tile.align, tile.dtype.bytes)
        end = -(-end // start) * start + tile_bytes(tile, ranges)
    return end


def dense_array(name: str, dtype: DType, sizes: Sequence[int], space: str, pad: int = 0) -> Array:
    """A row-major array in shared memory or registers, printed with the names of its sizes; `pad` widens its rows."""
    shape = tuple(integer(int(size)) for size in sizes)
    array = Array("", name, dtype, shape, (), space, flat=False, pad=pad)
    padded = array.padded_shape
    named = tuple(map(integer, (*sizes[:-1], sizes[-1] + pad) if sizes else ()))
    return replace(array, strides=row_major(padded), printed_shape=() if named == padded else named)


def tile_bytes(array: Array, ranges: Ranges) -> int:
    return bounds(sympy.Mul(*array.padded_shape), ranges)[1] * array.dtype.bytes


def swizzle_of(counts: Sequence[int]) -> tuple[int, int]:
    """The rows after which the xor swizzle of a tile repeats, and the padding of its rows to a multiple of them. A
    single row stays as it is: its columns are permuted by 0."""
    *slow, columns = counts or (1,)
    if math.prod(slow) <= 1:
        return 0, 0
    rows = min(power_of_two(columns), WARP_SIZE)
    return rows, -columns % rows


def swizzled(tile: Array, counts: Sequence[int]) -> Array:
    """The tile of so many elements per dimension with its columns permuted by row, padded to a whole number of them."""
    rows, padding = swizzle_of(counts)
    tile = replace(tile, pad=padding, swizzle=rows)
    return replace(tile, strides=row_major(tile.padded_shape))
