"""Where a row's elements are between passes: in registers, in shared memory as loaded or as computed, or reloaded."""

from __future__ import annotations

from cugen.families.rowwise.passes.schedule import (
    CachePolicy,
    RowPass,
    max_live_values,
    plan_passes,
    reduction_levels,
    reused_buffers,
)
from cugen.families.rowwise.passes.storage_levels import Storage, StorageLevel
from cugen.families.rowwise.row_vectors import is_narrow
from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.pieces.block_reduce import partial_bytes
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.request import Tunable
from cugen.spec.expressions import Expr, Read, walk
from cugen.spec.types import DType

# Heuristics, tuned on H200 unless said otherwise.
MAX_ELEMENTS_PER_THREAD = 32  # of long rows: with blocks of 1024, a thread has 64 registers
MAX_SMALL_BLOCK_REGISTER_VALUES = 2 * MAX_ELEMENTS_PER_THREAD  # cached per thread, for blocks of less than 512
MAX_LARGE_BLOCK_REGISTER_VALUES = MAX_ELEMENTS_PER_THREAD + 8
REGISTER_VALUES_WITH_SHARED = 24  # cached per thread, if shared memory caches the others
REGISTER_VALUES_WITH_RELOADS = 16  # if others are reloaded, by loops that need registers
MAX_OVERLAPPED_VALUES = 24  # cached per thread of these, in registers alone
OVERLAPPED_REGISTER_VALUES = 16  # of more values, of which shared memory caches the others

REGISTER_ELEMENTS = Tunable(
    "registers",
    (0, 8, 16, 24, 32, 40, 48, 64),
    "as fit",
    "values per thread that are cached in registers, all others in shared memory; by default up to 64, or 24; "
    "in clusters 24 or 16, and none of a narrow type that is computed on",
)


def row_passes(problem: RowProblem, policy: CachePolicy) -> tuple[RowPass, ...]:
    return plan_passes(problem.outputs, problem.domain.column_names, policy)


def registers_per_element(problem: RowProblem) -> int:
    """The 32-bit registers of an element's cached values."""
    passes = row_passes(problem, CachePolicy.ALL)
    bits = max((expr.dtype.compute.bits for row_pass in passes for expr in row_pass.cached), default=0)
    return max_live_values(passes) * -(-bits // 32)


def are_elements(passes: tuple[RowPass, ...]) -> bool:
    """Whether all cached values are elements of arrays."""
    return all(isinstance(expr, Read) for row_pass in passes for expr in row_pass.cached)


def storage_levels(
    problem: RowProblem,
    threads: int,
    width: int,
    slots: int,
    registers: int | None = None,
    *,
    as_loaded: bool = False,
) -> tuple[StorageLevel, ...]:
    """Registers first, for `registers` values or as many as fit, then shared memory up to a block's limit; what exceeds
    both is reloaded in each pass. `as_loaded`: values in shared memory are not converted."""
    passes = {policy: row_passes(problem, policy) for policy in CachePolicy}
    tuned = _tuned_registers(problem) if registers is None else registers
    limit = MAX_SMALL_BLOCK_REGISTER_VALUES if threads < 512 else MAX_LARGE_BLOCK_REGISTER_VALUES
    values_per_slot = max(max_live_values(passes[CachePolicy.ALL]), 1) * width
    if tuned is None and is_placed_in_shared(problem):
        tuned = 0
    if slots * values_per_slot <= (limit if tuned is None else tuned):
        return (StorageLevel(Storage.REGISTERS, 0, slots, passes[CachePolicy.ALL]),)
    if not max_live_values(passes[CachePolicy.LOADED]):
        return (StorageLevel(Storage.GLOBAL, 0, 0, passes[CachePolicy.NOTHING]),)
    in_registers = min((REGISTER_VALUES_WITH_SHARED if tuned is None else tuned) // values_per_slot, slots)
    # An upper bound of the shared memory that a block's reductions take.
    reduction_bytes = threads * sum(map(partial_bytes, reduction_levels(problem.outputs)))
    free_bytes = problem.request.target.shared_opt_in - reduction_bytes
    cached = passes[CachePolicy.LOADED][0].cached
    shared_slots = free_bytes // (threads * width * sum(expr.dtype.bytes for expr in cached))
    as_computed = in_registers + shared_slots >= slots and not as_loaded
    as_computed = as_computed and can_reuse_buffers(problem, as_computed=True)
    as_computed = as_computed and all(width * expr.dtype.bytes <= MAX_ACCESS_BYTES for expr in cached)
    if not as_computed:
        shared_slots = free_bytes // (threads * width * sum(storage_type(expr, problem).bytes for expr in cached))
    if in_registers + shared_slots < slots and tuned is None:
        in_registers = min(REGISTER_VALUES_WITH_RELOADS // values_per_slot, slots)
    shared_slots = min(shared_slots, slots - in_registers)
    can_reuse = can_reuse_buffers(problem, as_computed=as_computed)
    shared_passes = passes[CachePolicy.ALL if can_reuse else CachePolicy.LOADED]
    levels = [
        StorageLevel(Storage.REGISTERS, 0, in_registers, passes[CachePolicy.ALL]),
        StorageLevel(Storage.SHARED, in_registers, shared_slots, shared_passes, as_computed),
    ]
    if in_registers + shared_slots < slots:
        levels.append(StorageLevel(Storage.GLOBAL, in_registers + shared_slots, 0, passes[CachePolicy.NOTHING]))
    return tuple(level for level in levels if level.slots or not level.is_cached)


def _tuned_registers(problem: RowProblem) -> int | None:
    """The schedule's values per thread in registers."""
    chosen = dict(problem.request.schedule.tunables).get(REGISTER_ELEMENTS.name)
    return None if chosen is None else int(chosen)


def overlapped_levels(
    problem: RowProblem, length: int, width: int, threads: int, *, in_shared: bool = False
) -> tuple[StorageLevel, ...]:
    """Storage levels for which two blocks fit a multiprocessor: one loads or stores while the other one reduces. Narrow
    elements are kept as loaded, in shared memory if also computed values are needed again. Empty if two don't fit."""
    narrow, passes = is_narrow(problem), row_passes(problem, CachePolicy.ALL)
    slots = -(-length // (threads * width))
    values = slots * width * max(max_live_values(passes), 1)
    are_loaded = are_elements(passes)
    if narrow:
        registers = values if are_loaded and not in_shared and values <= MAX_ELEMENTS_PER_THREAD else 0
    else:
        registers = values if values <= MAX_OVERLAPPED_VALUES else OVERLAPPED_REGISTER_VALUES
    levels = storage_levels(problem, threads, width, slots, registers, as_loaded=narrow)
    used = overlapped_bytes(problem, levels, threads, width)
    fits = levels[-1].is_cached and 2 * used <= problem.request.target.shared_opt_in
    return levels if fits else ()


def overlapped_bytes(problem: RowProblem, levels: tuple[StorageLevel, ...], threads: int, width: int) -> int:
    """An upper bound of the shared memory of a block."""
    shared = [level for level in levels if level.storage == Storage.SHARED]
    cached = [expr for level in shared for expr in level.passes[0].cached]
    element_bytes = sum(storage_type(e, problem).bytes if not shared[0].as_computed else e.dtype.bytes for e in cached)
    used = sum(level.slots for level in shared) * threads * width * element_bytes
    return used + threads * sum(map(partial_bytes, reduction_levels(problem.outputs)))


def widest_shared_bytes(level: StorageLevel, problem: RowProblem) -> int:
    """The bytes of an element of the widest value that a level has in shared memory."""
    if level.storage != Storage.SHARED:
        return 0
    values = (expr for row_pass in level.passes for expr in row_pass.cached)
    return max(((e.dtype if level.as_computed else storage_type(e, problem)).bytes for e in values), default=0)


def read_repeatedly(problem: RowProblem) -> frozenset[str]:
    """The arrays whose elements are needed in several passes."""
    cached = (expr for row_pass in row_passes(problem, CachePolicy.LOADED) for expr in row_pass.cached)
    return frozenset(node.array for expr in cached for node in walk(expr) if isinstance(node, Read))


def is_placed_in_shared(problem: RowProblem) -> bool:
    """Whether the spec places an input in shared memory whose elements are needed in several passes."""
    spec = problem.request.context.spec
    return any(spec.array(name).memory.space == "shared" for name in read_repeatedly(problem))


def can_reuse_buffers(problem: RowProblem, *, as_computed: bool) -> bool:
    """Whether each costly value can overwrite the shared-memory buffer of a dead one."""
    passes = row_passes(problem, CachePolicy.ALL)
    return bool(reused_buffers(passes, lambda expr: expr.dtype if as_computed else storage_type(expr, problem)))


def storage_type(expr: Expr, problem: RowProblem) -> DType:
    """The type of a cached value in shared memory: that of its array if it is only loaded, else its compute type."""
    return problem.arrays[expr.array].dtype if isinstance(expr, Read) else expr.dtype
