"""What a page's script needs to show a box of a tensor map over its array, of elements or of pixels, and the 16-byte
chunks of swizzled rows in shared memory, which TMA writes and reads and wgmma reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import sympy

from cugen.analysis.totals.sites import THREAD, Site
from cugen.machine.requests.boxes import LINE_BYTES
from cugen.machine.wgmma import SWIZZLE_PERIOD_ROWS, SWIZZLED_ROW_BYTES
from cugen.plan.memory import Access
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore, Wgmma
from cugen.report.maps import Condition, Variable, condition_of, names_of, variables_of
from cugen.report.trees import Tree, names, tree

_CHUNK_BYTES = 16
_CHUNKS = LINE_BYTES // _CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class BoxMap:
    """A box of so many elements from `first` on in an array of `shape`; strides are in elements. The threads for which
    the conditions hold copy one each."""

    array: str
    element_bytes: int
    first: tuple[Tree, ...]
    shape: tuple[Tree, ...]
    strides: tuple[Tree, ...]
    box: tuple[int, ...]
    swizzle_bytes: int
    variables: tuple[Variable, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class PixelMap(BoxMap):
    """A box of pixels, the last but one of its numbers, that follow each other in the bounding box of a tensor map in
    im2col mode (`PixelBox`), and of some channels of each. They are read at `offsets` along an image's dimensions."""

    offsets: tuple[Tree, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """Which chunk of which row is in each 16 bytes of shared memory: `lines` of 128 bytes with pairs (row, chunk).

    k_chunks: chunks of a row that a wgmma reads; 0 where it reads whole rows, or for a copy by TMA."""

    array: str
    swizzle_bytes: int
    lines: tuple[tuple[tuple[int, int], ...], ...]
    is_operand: bool
    k_chunks: int = 0


def instruction_map(
    site: Site, sizes: Mapping[sympy.Symbol, tuple[int, int]], walking: frozenset[int]
) -> BoxMap | ChunkMap | None:
    """The map of an access by TMA or wgmma; None of any other, and where coordinates depend on data. `sizes`,
    `walking`: as of `access_map`."""
    instruction, array = site.instruction, site.access.array
    if instruction is None or any(counter.count < 1 for counter in site.counters):
        return None
    if isinstance(instruction, Wgmma):
        block_bytes = instruction.a_block_bytes if site.access is instruction.a else instruction.b_block_bytes
        k_chunks = 0 if block_bytes else instruction.instruction.k * array.dtype.bytes // _CHUNK_BYTES
        return ChunkMap(
            array.symbol, SWIZZLED_ROW_BYTES, chunks(SWIZZLED_ROW_BYTES), is_operand=True, k_chunks=k_chunks
        )
    mapped = _mapped(instruction)
    assert mapped.array.tensor_map is not None
    if site.access is not mapped:
        swizzle = mapped.array.tensor_map.swizzle_bytes
        return ChunkMap(array.symbol, swizzle, chunks(swizzle), is_operand=False) if swizzle else None
    return _box_map(site, instruction, sizes, walking)


def chunks(swizzle_bytes: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """(row, chunk) by 128-byte line and position in it, for rows of `swizzle_bytes`: bits 4 to 6 of an address, or as
    many of them as a row has, are those of the chunk xor bits 7 to 9 (CUDA driver API, CUtensorMapSwizzle)."""
    per_row = swizzle_bytes // _CHUNK_BYTES
    rows_per_line = _CHUNKS // per_row
    return tuple(
        tuple(
            (line * rows_per_line + position // per_row, position % per_row ^ line % per_row)
            for position in range(_CHUNKS)
        )
        for line in range(SWIZZLE_PERIOD_ROWS)
    )


def _mapped(instruction: TensorLoad | TensorStore) -> Access:
    return instruction.source if isinstance(instruction, TensorLoad) else instruction.target


def _box_map(
    site: Site,
    instruction: TensorLoad | TensorStore,
    sizes: Mapping[sympy.Symbol, tuple[int, int]],
    walking: frozenset[int],
) -> BoxMap | None:
    array, tensor_map = site.access.array, site.access.array.tensor_map
    assert tensor_map is not None
    pixels = tensor_map.pixels
    read_at = instruction.offsets if isinstance(instruction, TensorLoad) and pixels is not None else ()
    first, shape, strides, offsets = (
        [expr.xreplace(site.definitions) for expr in exprs]
        for exprs in (site.access.subscripts, array.shape, array.strides, read_at)
    )
    used = names([*first, *shape, *strides, *offsets]) | names_of(site.predicates)
    variables = variables_of(site, used, sizes, walking)
    if site.opaque or used - set(THREAD) - {sympy.Symbol(v.name, integer=True) for v in variables}:
        return None
    box = BoxMap(
        array.name,
        array.dtype.bytes,
        tuple(map(tree, first)),
        tuple(map(tree, shape)),
        tuple(map(tree, strides)),
        tensor_map.box,
        tensor_map.swizzle_bytes,
        variables,
        tuple(map(condition_of, site.predicates)),
    )
    if pixels is None:
        return box
    of_box = {field.name: getattr(box, field.name) for field in fields(box)}
    return PixelMap(**of_box, offsets=tuple(map(tree, offsets)), **asdict(pixels))
