"""Inputs staged whole: small arrays in shared memory or registers, filled before the computation starts."""

from __future__ import annotations

from dataclasses import replace

import sympy

from cugen.pieces.kernels import tile_bytes
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Barrier, Copy, Declare, For, Index, Loop, Node, Section
from cugen.plan.request import Refusal, Request
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, integer, symbol

REGISTER_ELEMENTS = 64  # elements per thread of an array in registers; larger ones spill (heuristic)


def placement_refusals(request: Request) -> tuple[Refusal, ...]:
    """Why arrays can't be staged whole in the memory space that the spec names; empty where they can."""
    refusals = []
    shared_bytes = 0
    for array in request.touched():
        memory, key = array.memory, f"arrays.{array.name}.memory"
        if memory.space not in ("shared", "register") or (memory.space == "register" and array.role == "temporary"):
            continue
        if array.role not in ("input", "baked"):
            refusals.append(Refusal(f"stages inputs only, and statements write {array.name}", key))
            continue
        count = request.context.static(_count(request.context.arrays[array.name]))
        if count is None:
            refusals.append(Refusal(f"stages {array.name} whole, so its shape must be fixed", key))
        elif memory.space == "register" and count > REGISTER_ELEMENTS:
            reason = f"{array.name} has {count} elements; registers hold at most {REGISTER_ELEMENTS} a thread"
            refusals.append(Refusal(reason, key))
        elif memory.space == "shared":
            if memory.swizzle or memory.stages > 1:
                refusals.append(Refusal(f"stages {array.name} whole: there is nothing to swizzle or to pipeline", key))
            tile = replace(request.context.arrays[array.name], pad=memory.pad)
            shared_bytes += tile_bytes(tile, dict(request.context.ranges))
    limit = request.target.shared_per_block
    if shared_bytes > limit:
        names = [a.name for a in request.touched() if a.memory.space == "shared"]
        reason = f"stages {', '.join(names)} whole: {shared_bytes} bytes of shared memory, {limit} are allowed"
        refusals.append(Refusal(reason, f"arrays.{names[0]}.memory"))
    return tuple(refusals)


def stage_inputs(
    request: Request, lowering: Lowering, block: tuple[int, int, int]
) -> tuple[dict[str, Array], tuple[Section, ...]]:
    """The staged arrays by name, and the sections of templates/macros/staged_inputs.cu.j2 that fill them."""
    tiles: dict[str, Array] = {}
    shared: list[Node] = []
    registers: list[Node] = []
    offset = 0  # bytes, in dynamic shared memory
    for declared in request.touched():
        source, memory = request.context.arrays[declared.name], declared.memory
        if declared.role == "temporary" or memory.space not in ("shared", "register"):
            continue
        name = lowering.names.allocate(f"{source.symbol}_{memory.space}")
        tile = replace(source, symbol=name, space=memory.space, flat=False, pad=memory.pad, dynamic=memory.dynamic)
        tile = replace(tile, strides=_row_major(tile.padded_shape))
        if memory.dynamic:
            tile = replace(tile, dynamic_offset=offset)
            offset += (tile_bytes(tile, lowering.ranges) + 15) // 16 * 16
        tiles[declared.name] = tile
        if memory.space == "shared":
            tile = replace(tile, values=None)
            shared += [Declare(tile), _copy_by_block(lowering, source, tile, block)]
        else:
            registers.append(Declare(tile))
            if source.values is None:
                registers.append(_copy_by_thread(lowering, source, tile))
    sections = (
        Section("staged_tiles", tuple(shared)),
        Section("staged_tiles_filled", (Barrier(),) if shared else ()),
        Section("staged_registers", tuple(registers)),
    )
    return tiles, tuple(filter(None, sections))


def _row_major(shape: tuple[Integer, ...]) -> tuple[Integer, ...]:
    """Row-major strides of a tile; the source array may have others."""
    return tuple(sympy.Mul(*shape[dimension + 1 :]) for dimension in range(len(shape)))


def _copy_by_block(lowering: Lowering, source: Array, tile: Array, block: tuple[int, int, int]) -> Node:
    """A block-strided loop that copies the array element by element."""
    threads = block[0] * block[1] * block[2]
    thread: Integer = integer(0)
    scale = 1
    for axis, size in zip("xyz", block, strict=True):
        if size > 1:
            builtin = symbol(f"threadIdx.{axis}")
            lowering.ranges[builtin] = (0, size - 1)
            thread, scale = thread + builtin * scale, scale * size
    count = _count(source)
    last = bounds(count, lowering.ranges)[1] - 1
    index = Index(lowering.names.allocate("element"), thread, (0, last))
    lowering.ranges[index.symbol] = index.range
    unflattened: list[Integer] = []
    quotient: Integer = index.symbol
    for dimension, extent in reversed(list(enumerate(source.shape))):
        unflattened.insert(0, quotient if dimension == 0 else Mod(quotient, extent))
        quotient = FloorDiv(quotient, extent)
    subscripts = tuple(unflattened)
    load = Access(source, subscripts, "load")
    if source.flat and (load.offset() - _dense_offset(source, subscripts)).expand() == 0:
        load = Access(replace(source, shape=(count,), strides=(integer(1),)), (index.symbol,), "load")
    return For(Loop(index, thread, count, threads), (Copy(Access(tile, subscripts, "store"), load),))


def _dense_offset(array: Array, subscripts: tuple[Integer, ...]) -> Integer:
    """The row-major offset of an element, as if the array had no padding."""
    offset: Integer = integer(0)
    for subscript, extent in zip(subscripts, array.shape, strict=True):
        offset = offset * extent + subscript
    return offset


def _copy_by_thread(lowering: Lowering, source: Array, tile: Array) -> Node:
    """Unrolled loops in which each thread copies the array into its registers."""
    indices = []
    for dimension, extent in enumerate(source.shape):
        index = Index(
            lowering.names.allocate("ijklmn"[dimension % 6]), integer(0), (0, bounds(extent, lowering.ranges)[1] - 1)
        )
        lowering.ranges[index.symbol] = index.range
        indices.append(index)
    subscripts = tuple(index.symbol for index in indices)
    node: Node = Copy(Access(tile, subscripts, "store"), Access(source, subscripts, "load"))
    for index, extent in reversed(list(zip(indices, source.shape, strict=True))):
        node = For(Loop(index, integer(0), extent, unroll=True), (node,))
    return node


def _count(array: Array) -> Integer:
    return sympy.Mul(*array.shape)
