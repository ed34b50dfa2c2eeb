"""Transpositions and permutations: shared-memory tiles are loaded along input rows and stored along output rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.transpose.config import Transpose, TransposeConfig, choose_config, shared_bytes
from cugen.families.transpose.fused_rows import with_fused_rows
from cugen.families.transpose.packed_tile import PackedTileKernel
from cugen.families.transpose.shifted_rows import ShiftedRowsKernel
from cugen.families.transpose.square_tile import SquareTileConfig, SquareTileKernel, choose_square_config
from cugen.families.transpose.unaligned_rows import UnalignedRowsKernel, UnalignedShiftedRowsKernel
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.elementwise import IN_MEMORY, certain_reads, loop_refusals
from cugen.pieces.placement import size_refusals, useless_placements
from cugen.pieces.vectors import SECTOR_BYTES, is_computed, step_along
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.rewrite.dense_indices import canonical, iteration_order
from cugen.rewrite.fuse_dimensions import FusedStatements
from cugen.rewrite.indices.reversed import with_reversed_index
from cugen.rewrite.indices.unrolled import unrolled, unrolling
from cugen.spec.expressions import Expr, Index, Read, Reduce, Scan, free_indices

MAX_FIELDS = 8  # of structures with a statement each (heuristic)
MAX_SMALL_TILE_BYTES = 1 << 10  # a matrix of so few is loaded from L1 by the threads that store it (by the model)
MIN_EXTENT = 8  # along both sides; below it most of a tile would be empty (heuristic)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A transposition with the tile that it takes."""

    transpose: Transpose
    config: TransposeConfig | SquareTileConfig

    @property
    def is_dense(self) -> bool:
        """Whether all elements of the sectors that it accesses are accessed at once."""
        return self.transpose.has_dense_rows and self.transpose.has_dense_columns

    def kernel(self) -> Kernel:
        kernel: type[PackedTileKernel]
        if isinstance(self.config, SquareTileConfig):
            return SquareTileKernel(self.transpose, self.config).kernel()
        if self.config.lead:
            kernel = UnalignedShiftedRowsKernel if self.config.shift else UnalignedRowsKernel
        else:
            kernel = ShiftedRowsKernel if self.config.shift else PackedTileKernel
        return kernel(self.transpose, self.config).kernel()


def match(request: Request) -> Match | Refusals:
    if reasons := list(_form_refusals(request)):
        return Refusals(tuple(reasons))
    planned = _planned(request)
    if isinstance(planned, Refusals) or not planned.is_dense:
        planned = _by_fields(request) or planned
    return planned if isinstance(planned, Refusals) else Match(planned.kernel)


def _by_fields(request: Request) -> _Planned | None:
    """The transposition with a statement for each value of a short index, if these are fields of structures:

        y[i, j, c] = x[j, i, c]                 c from 0 to 1
    becomes
        y[i, j, 0] = x[j, i, 0];  y[i, j, 1] = x[j, i, 1]
    """
    statements, context = request.group.statements, request.context
    if request.schedule.block or request.schedule.thread or not all(map(request.is_stored, statements)):
        return None
    if len(statements[0].indices) < 3:  # both sides of a tile, and the fields
        return None
    for index in statements[0].indices:
        extent = context.static_extent(index)
        if extent is None or extent < 2 or extent * len(statements) > MAX_FIELDS:
            continue
        fields = unrolled(statements, context.arrays, unrolling(index, extent), context)
        planned = _planned(request.with_statements(fields))
        if isinstance(planned, _Planned) and (planned.transpose.loaded or planned.transpose.stored):
            return planned
    return None


def _planned(request: Request) -> _Planned | Refusals:
    transpose = _recognise(request)
    if isinstance(transpose, Refusal):
        return Refusals((transpose,))
    staged = {read.array: None for read in transpose.reads}
    reasons = [*useless_placements(request, staged), *_memory_refusals(request, staged), *refuse_tunables(request, ())]
    reasons += _schedule_refusals(request, transpose)
    if reasons:
        return Refusals(tuple(reasons))
    config: TransposeConfig | SquareTileConfig
    if transpose.is_placed or request.schedule.block or request.schedule.thread:
        config = choose_square_config(transpose)
        reasons += _square_refusals(transpose, config)
    else:
        transpose = with_fused_rows(transpose) if transpose.has_dense_rows else transpose
        config = choose_config(transpose)
        if (count := shared_bytes(transpose, config)) > STATIC_SHARED_BYTES:
            reasons.append(Refusal(f"{len(transpose.reads)} tiles at once take {count} bytes of shared memory"))
    reasons += _extent_refusals(transpose)
    return Refusals(tuple(reasons)) if reasons else _Planned(transpose, config)


def _recognise(request: Request) -> Transpose | Refusal:
    is_placed = any(array.memory.space == "shared" for array in request.touched())
    form = FusedStatements(request.group.statements, request.context.arrays) if is_placed else canonical(request)
    request = request.with_statements(form.statements)
    order = iteration_order(request, form)
    stores = [(form.arrays[s.target], s.subscripts) for s in form.statements]
    rows = [index for index in order if all(step_along(*store, index.name, request.context) == 1 for store in stores)]
    rows = rows or [index for index in order if all(_is_near(*store, index, request.context) for store in stores)]
    matches = [_match(request, form, across, order) for across in rows]
    if not matches:
        return Refusal(f"consecutive {order[0].name} are not contiguous in every output")
    # Several matches only if an extent of 1 makes rows and columns the same.
    return next((match for match in matches if isinstance(match, Transpose)), matches[0])


def _is_near(array: Array, subscripts: tuple[Expr, ...], index: Index, context: Context) -> bool:
    """Whether consecutive values of an index address elements of one sector."""
    step = step_along(array, subscripts, index.name, context)
    return step is not None and _share_a_sector(step, array)


def _share_a_sector(step: int, array: Array) -> bool:
    """Whether elements that are a step apart may be in one sector."""
    return 0 < 2 * step * array.dtype.bytes <= SECTOR_BYTES


def _match(request: Request, form: FusedStatements, across: Index, order: tuple[Index, ...]) -> Transpose | Refusal:
    rows: dict[Read, tuple[str, int]] = {}
    for read in certain_reads(request, form.arrays):
        row = _row_index(request, form, read, across.name)
        if row is not None:
            rows[read] = row
    # What is contiguous decides; elements that are a few apart are transposed with it, or alone.
    contiguous = {name for name, step in rows.values() if step in (1, -1)}
    down: dict[str, Read] = {}
    staged: dict[Read, int] = {}
    for read, (name, step) in rows.items():
        if name in contiguous or not contiguous:
            down.setdefault(name, read)
            staged[read] = step
    if not staged:
        return Refusal(f"no input is contiguous along an index other than the output's, {across.name}")
    if len(down) > 1:
        arrays = " and ".join(read.array for read in down.values())
        return Refusal(f"transposes one pair of indices only; {arrays} are contiguous along {' and '.join(down)}")
    (name,) = down
    second = next(index for index in order if index.name == name)
    if max(staged.values()) < 0:
        statements = with_reversed_index(request.group.statements, form.arrays, second, request.context)
        return _match(request.with_statements(statements), form, across, order)
    reads = tuple(read for read, step in staged.items() if step > 0)
    outer = tuple(index for index in order if index.name not in (across.name, name))
    return Transpose(request, form.arrays, across, second, (across, second, *outer), reads)


def _row_index(request: Request, form: FusedStatements, read: Read, across: str) -> tuple[str, int] | None:
    """The index along which a read is contiguous, if `across` is in another of its dimensions, and 1 or, where it runs
    backwards, -1; else one of which adjacent elements share a sector, and the elements between those."""
    context, array, subs = request.context, form.arrays[read.array], read.subscripts
    memory = context.spec.array(read.array).memory
    if memory.space not in (None, "shared", "readonly", "texture", "register") or array.space not in IN_MEMORY:
        return None
    if sum(across in free_indices(sub) for sub in subs) != 1:
        return None
    names = dict.fromkeys(name for sub in subs if across not in free_indices(sub) for name in free_indices(sub))
    steps = {name: step_along(array, subs, name, context) for name in names}
    rows = [(name, step) for name, step in steps.items() if step in (1, -1)]
    rows = rows or [
        (name, step)
        for name, step in steps.items()
        if step and _share_a_sector(step, array) and not _has_index_within(step, array, subs, name, context)
    ]
    return rows[-1] if rows else None


def _has_index_within(step: int, array: Array, subs: tuple[Expr, ...], name: str, context: Context) -> bool:
    """Whether another index than `name` moves by less than a step, so that its elements fill the sectors."""
    moving = (stride for sub, stride in zip(subs, array.strides, strict=True) if free_indices(sub) - {name})
    strides = map(context.static, moving)
    return any(stride is not None and 0 < abs(stride) < step for stride in strides)


def _form_refusals(request: Request) -> Iterator[Refusal]:
    """Statements that are not elementwise or broadcast."""
    yield from loop_refusals(request)
    for statement in request.group.statements:
        names = [name for sub in statement.subscripts for name in free_indices(sub)]
        is_split = len(set(names)) < len(names) or any(len(free_indices(sub)) > 1 for sub in statement.subscripts)
        if is_split or any(map(is_computed, statement.subscripts)):
            yield Refusal(f"writes {statement.target} at sums and products of one index in each dimension only")
    if request.node_kinds() & {Reduce, Scan}:
        return
    reasons: dict[str, None] = {}
    for read in request.reads():
        if any(map(is_computed, read.subscripts)):
            reasons[f"{read.array} is gathered"] = None
        elif read.boundary is not None or read.exact:
            reasons[f"{read.array} has a boundary"] = None
    yield from (Refusal(f"reads arrays inside of their bounds only; {what}") for what in reasons)


def _memory_refusals(request: Request, staged: dict[str, None]) -> Iterator[Refusal]:
    for name in staged:
        memory = request.context.spec.array(name).memory
        if memory.stages > 1:
            yield Refusal(f"fills the tile of {name} once: there is nothing to pipeline", f"arrays.{name}.memory")


def _schedule_refusals(request: Request, transpose: Transpose) -> Iterator[Refusal]:
    schedule, sides = request.schedule, (transpose.across.name, transpose.down.name)
    yield from size_refusals(request, {"block": sides, "thread": sides})
    if schedule.step:
        yield Refusal("loads its tile at once; there is no loop to step through", "schedule.step")
    block = [size for name, size in schedule.block if name in sides]
    rows = [size for name, size in schedule.thread if name in sides and size != 1]
    if len(set(block)) > 1:
        yield Refusal(f"its tile is a square, not {' x '.join(map(str, block))}", "schedule.block")
    if len(rows) > 1:
        yield Refusal("a thread's elements are in one column of the tile", "schedule.thread")


def _square_refusals(transpose: Transpose, tile: SquareTileConfig) -> Iterator[Refusal]:
    if tile.size % tile.rows:
        yield Refusal(f"a thread's {tile.rows} rows must divide the tile's {tile.size}", "schedule.thread")
    for read in transpose.reads:
        if transpose.request.context.spec.array(read.array).memory.swizzle and tile.size & (tile.size - 1):
            key = f"arrays.{read.array}.memory"
            yield Refusal(f"the xor swizzle needs a tile of a power of two, not of {tile.size}", key)


def _extent_refusals(transpose: Transpose) -> Iterator[Refusal]:
    """Tiles that would be almost empty, unless the spec requests them."""
    request = transpose.request
    if request.schedule.family is None and not transpose.is_placed:
        for index in (transpose.across, transpose.down):
            count = request.context.max_extent(index)
            if count < MIN_EXTENT:
                yield Refusal(f"with {count} along {index.name} most of a tile would be empty")
                return
        if (count := _bytes_of_tile(transpose)) <= MAX_SMALL_TILE_BYTES:
            yield Refusal(f"a block would end after {count} bytes, which take less time than its start")


def _bytes_of_tile(transpose: Transpose) -> int:
    """Bytes that a block reads and writes, where a tile has all elements of both indices."""
    elements = prod(map(transpose.request.context.max_extent, (transpose.across, transpose.down)))
    arrays = [read.array for read in transpose.reads] + [target for target, _ in transpose.outputs]
    return elements * sum(transpose.arrays[name].dtype.bytes for name in arrays)


FAMILY = Family(
    "transpose",
    rank=20,
    doc="transpositions: inputs whose rows become the output's columns, through a tile in shared memory",
    match=match,
)
