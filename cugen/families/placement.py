"""Inputs that a family stages whole: small arrays in shared memory or in registers, before the work begins."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.base import Refusal, Request
from cugen.plan.ir import Access, Array, Barrier, Copy, Declare, For, Index, Loop, Node
from cugen.plan.lowering import Lowering
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, integer, symbol

REGISTER_ELEMENTS = 64  # an array in registers larger than this would spill


def placement_refusals(request: Request) -> tuple[Refusal, ...]:
    """Why arrays can't be staged whole where the spec wants them; empty where they can, or where nothing is asked."""
    refusals = []
    shared_bytes = 0
    for array in request.touched():
        memory, key = array.memory, f"arrays.{array.name}.memory"
        elements = request.context.static(request.context.elements(array))
        if memory.space == "shared":
            if array.role == "temporary":
                refusals.append(Refusal(f"can't keep {array.name}, which statements write, in shared memory", key))
                continue
            if memory.swizzle or memory.stages > 1:
                refusals.append(Refusal(f"stages {array.name} whole: there is nothing to swizzle or to pipeline", key))
            if elements is None:
                refusals.append(Refusal(f"stages {array.name} whole, so its shape must be fixed", key))
            else:
                shared_bytes += _tile_elements(request, array.name, memory.pad) * array.dtype.bytes
        elif memory.space == "register" and array.role != "temporary":
            if elements is None:
                refusals.append(Refusal(f"{array.name} in registers needs a fixed shape", key))
            elif elements > REGISTER_ELEMENTS:
                reason = f"{array.name} has {elements} elements; registers hold at most {REGISTER_ELEMENTS} a thread"
                refusals.append(Refusal(reason, key))
    limit = request.target.shared_per_block
    if shared_bytes > limit:
        names = ", ".join(a.name for a in request.touched() if a.memory.space == "shared")
        refusals.append(
            Refusal(f"stages {names} whole: {shared_bytes} bytes of shared memory, {limit} are allowed", "arrays")
        )
    return tuple(refusals)


def place(
    request: Request, lowering: Lowering, block: tuple[int, int, int]
) -> tuple[dict[str, Array], tuple[Node, ...]]:
    """The staged arrays by name, and the nodes that fill them."""
    placed: dict[str, Array] = {}
    shared: list[Node] = []
    registers: list[Node] = []
    for declared in request.touched():
        source = request.context.arrays[declared.name]
        if declared.role == "temporary":
            continue
        if declared.memory.space == "shared":
            symbol_name = lowering.names.allocate(f"{source.symbol}_shared")
            tile = replace(source, symbol=symbol_name, space="shared", flat=not source.shape, pad=declared.memory.pad)
            tile = replace(tile, dynamic=declared.memory.dynamic)
            placed[declared.name] = tile
            shared += [Declare(tile), _fill(lowering, source, tile, block)]
        elif declared.memory.space == "register":
            symbol_name = lowering.names.allocate(f"{source.symbol}_register")
            tile = replace(source, symbol=symbol_name, space="register", flat=not source.shape)
            placed[declared.name] = tile
            registers.append(Declare(tile))
            if source.values is None:
                registers.append(_unrolled_fill(lowering, source, tile))
    if shared:
        shared.append(Barrier())
    return placed, (*shared, *registers)


def _fill(lowering: Lowering, source: Array, tile: Array, block: tuple[int, int, int]) -> Node:
    """All threads of the block copy the array, element by element."""
    threads = block[0] * block[1] * block[2]
    thread: Integer = integer(0)
    scale = 1
    for axis, size in zip("xyz", block, strict=True):
        if size > 1:
            builtin = symbol(f"threadIdx.{axis}")
            lowering.ranges[builtin] = (0, size - 1)
            thread, scale = thread + builtin * scale, scale * size
    count: Integer = integer(1)
    for extent in source.shape:
        count = count * extent
    last = bounds(count, lowering.ranges)[1] - 1
    index = Index(lowering.names.allocate("element"), thread, (0, last))
    lowering.ranges[index.symbol] = index.range
    subscripts: list[Integer] = []
    rest: Integer = index.symbol
    for position, extent in reversed(list(enumerate(source.shape))):
        subscripts.insert(0, rest if position == 0 else Mod(rest, extent))
        rest = FloorDiv(rest, extent)
    places = tuple(subscripts)
    copy = Copy(Access(tile, places, "store"), Access(source, places, "load"))
    return For(Loop(index, thread, count, threads), (copy,))


def _unrolled_fill(lowering: Lowering, source: Array, tile: Array) -> Node:
    indices = []
    for position, extent in enumerate(source.shape):
        index = Index(
            lowering.names.allocate("ijklmn"[position % 6]), integer(0), (0, bounds(extent, lowering.ranges)[1] - 1)
        )
        lowering.ranges[index.symbol] = index.range
        indices.append(index)
    places = tuple(index.symbol for index in indices)
    node: Node = Copy(Access(tile, places, "store"), Access(source, places, "load"))
    for index, extent in reversed(list(zip(indices, source.shape, strict=True))):
        node = For(Loop(index, integer(0), extent, unroll=True), (node,))
    return node


def _tile_elements(request: Request, name: str, pad: int) -> int:
    array = replace(request.context.arrays[name], pad=pad)
    count: Integer = integer(1)
    for extent in array.padded_shape:
        count = count * extent
    return bounds(count, dict(request.context.ranges))[1]
