"""Inputs staged whole: small arrays in shared memory or registers, filled before the computation starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import sympy

from cugen.pieces.blocks import digits, thread
from cugen.pieces.kernels import swizzled, tile_bytes
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, is_row_major, row_major
from cugen.plan.nodes import Barrier, Copy, Declare, For, Loop, Node, Section
from cugen.plan.request import Refusal, Request, Tunable, refuse_tunables
from cugen.plan.symbols import Integer, bounds, integer
from cugen.spec.expressions import Op, Read, bound_indices, free_indices, walk
from cugen.spec.model import Array as Declared
from cugen.spec.model import Memory

REGISTER_ELEMENTS = 64  # elements per thread of an array in registers; larger ones spill (heuristic)


def placement_refusals(request: Request, windowed: Collection[str] = ()) -> tuple[Refusal, ...]:
    """Why arrays can't be staged whole in the memory space that the spec names; empty where they can. `windowed` ones
    are in registers by the windows that threads read."""
    refusals = []
    shared_bytes = 0
    for array in request.touched():
        memory, key = array.memory, f"arrays.{array.name}.memory"
        if memory.space not in ("shared", "register"):
            continue
        if memory.space == "register" and (array.role == "temporary" or array.name in windowed):
            continue
        if memory.space == "register" and is_loaded_by_element(request, array, per_output=True):
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
            if memory.stages > 1:
                refusals.append(Refusal(f"stages {array.name} whole: there is nothing to pipeline", key))
            tile = _laid_out(request.context.arrays[array.name], memory, request.context)
            shared_bytes += tile_bytes(tile, dict(request.context.ranges))
    limit = request.target.shared_per_block
    if shared_bytes > limit:
        names = [a.name for a in request.touched() if a.memory.space == "shared"]
        reason = f"stages {', '.join(names)} whole: {shared_bytes} bytes of shared memory, {limit} are allowed"
        refusals.append(Refusal(reason, f"arrays.{names[0]}.memory"))
    return tuple(refusals)


def is_loaded_by_element(request: Request, array: Declared, *, per_output: bool = False) -> bool:
    """Whether threads load the elements of an input that they read into registers one by one: its reads move with some
    index, or, with `per_output`, with one of the outputs. Tables aren't read so."""
    outer = {index.name for statement in request.group.statements for index in statement.indices}
    reads = [read for read in request.reads() if read.array == array.name]
    moving = [free_indices(read) & outer if per_output else free_indices(read) for read in reads]
    indices = outer | {index.name for s in request.group.statements for index in bound_indices(s.value)}
    return array.role == "input" and all(moving) and not any(_is_lookup(read, indices) for read in reads)


def _is_lookup(read: Read, indices: Collection[str]) -> bool:
    """Whether a subscript is data, or several values of one of the indices have one element."""
    for node in (node for subscript in read.subscripts for node in walk(subscript)):
        is_division = isinstance(node, Op) and node.name in ("mod", "floordiv")
        if isinstance(node, Read) or (is_division and not free_indices(node).isdisjoint(indices)):
            return True
    return False


def useless_placements(request: Request, staged: Collection[str] = ()) -> Iterator[Refusal]:
    """Placements that are useless to a kernel of which a thread reads an element once; `staged` inputs have tiles.

    Those in registers aren't, but for tables: the thread loads each element into one, and uses it there."""
    for array in request.touched():
        if array.memory.space == "shared" and array.name not in staged:
            reason = f"has no use for {array.name} in shared memory: a thread reads an element of it once"
            yield Refusal(reason, f"arrays.{array.name}.memory")
        is_placed = array.memory.space == "register" and array.role != "temporary"
        if is_placed and not is_loaded_by_element(request, array):
            reason = f"has no use for all of {array.name} in registers: a thread reads an element of it once"
            yield Refusal(reason, f"arrays.{array.name}.memory")


def tunables_only(
    request: Request, tunables: tuple[Tunable, ...], reason: str, staged: Collection[str] = ()
) -> list[Refusal]:
    """What a family refuses that takes `tunables`, but no tile sizes for the `reason`; `staged` inputs have tiles."""
    refusals = [*refuse_tunables(request, tunables), *useless_placements(request, staged)]
    sizes = (key for key in ("block", "thread", "step") if getattr(request.schedule, key))
    return [*refusals, *(Refusal(reason, f"schedule.{key}") for key in sizes)]


def size_refusals(request: Request, allowed: Mapping[str, Sequence[str]]) -> Iterator[Refusal]:
    """Tile sizes along other indices than those `allowed` by the key of the schedule."""
    for key, names in allowed.items():
        for name, size in getattr(request.schedule, key):
            if name not in names and size != 1:
                yield Refusal(f"{key} sizes are for {' and '.join(names)}, not for {name}", f"schedule.{key}.{name}")


def stage_inputs(
    request: Request, lowering: Lowering, block: tuple[int, int, int], windowed: Collection[str] = ()
) -> tuple[dict[str, Array], tuple[Section, ...]]:
    """The staged arrays by name, and the sections of templates/macros/staged_inputs.cu.j2 that fill them; not the
    `windowed` ones."""
    tiles: dict[str, Array] = {}
    shared: list[Node] = []
    registers: list[Node] = []
    offset = 0  # bytes, in dynamic shared memory
    for declared in request.touched():
        source, memory = request.context.arrays[declared.name], declared.memory
        if declared.role == "temporary" or memory.space not in ("shared", "register") or declared.name in windowed:
            continue
        if memory.space == "register" and is_loaded_by_element(request, declared, per_output=True):
            continue
        name = lowering.names.allocate(f"{source.symbol}_{memory.space}")
        tile = replace(source, symbol=name, space=memory.space, flat=False, dynamic=memory.dynamic)
        tile = _laid_out(tile, memory, request.context)
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


def literal_taps(request: Request, lowering: Lowering) -> tuple[dict[str, Array], tuple[Node, ...]]:
    """Small baked arrays that only reduction indices subscript, as constant register arrays, and their declarations."""
    outer = {index.name for statement in request.group.statements for index in statement.indices}
    literals: dict[str, Array] = {}
    for declared in request.touched():
        source = request.context.arrays[declared.name]
        reads = [read for read in request.reads() if read.array == declared.name]
        is_moved = any(free_indices(read) & outer or read.boundary is not None for read in reads)
        if source.values is None or declared.memory.space is not None or is_moved:
            continue
        count = request.context.static(_count(source))
        if count is None or count > REGISTER_ELEMENTS:
            continue
        symbol = lowering.names.allocate(f"{source.symbol}_values")
        literals[declared.name] = replace(
            source, symbol=symbol, space="register", flat=False, strides=row_major(source.shape)
        )
    return literals, tuple(Declare(array) for array in literals.values())


def _copy_by_block(lowering: Lowering, source: Array, tile: Array, block: tuple[int, int, int]) -> Node:
    """A block-strided loop that copies the array element by element."""
    first, threads = integer(0), 1
    for axis, size in zip("xyz", block, strict=True):
        first, threads = first + thread(axis, size, lowering) * threads, threads * size
    count = _count(source)
    index = loop_variable("element", bounds(count, lowering.ranges)[1], lowering, first)
    subscripts = digits(index.symbol, source.shape[::-1])[::-1]
    load = Access(source, subscripts, "load")
    if source.flat and is_row_major(source.shape, source.strides):
        load = Access(source.flattened(count), (index.symbol,), "load")
    return For(Loop(index, first, count, threads), (Copy(Access(tile, subscripts, "store"), load),))


def _copy_by_thread(lowering: Lowering, source: Array, tile: Array) -> Node:
    """Unrolled loops in which each thread copies the array into its registers."""
    indices = [
        loop_variable("ijklmn"[dimension % 6], bounds(extent, lowering.ranges)[1], lowering)
        for dimension, extent in enumerate(source.shape)
    ]
    subscripts = tuple(index.symbol for index in indices)
    node: Node = Copy(Access(tile, subscripts, "store"), Access(source, subscripts, "load"))
    for index, extent in reversed(list(zip(indices, source.shape, strict=True))):
        node = For(Loop(index, integer(0), extent, unroll=True), (node,))
    return node


def _laid_out(array: Array, memory: Memory, context: Context) -> Array:
    """The whole array with rows that are padded or swizzled as the spec requests."""
    if memory.swizzle:
        return swizzled(array, [context.static(extent) or 0 for extent in array.shape])
    array = replace(array, pad=memory.pad)
    return replace(array, strides=row_major(array.padded_shape))


def _count(array: Array) -> Integer:
    return sympy.Mul(*array.shape)
