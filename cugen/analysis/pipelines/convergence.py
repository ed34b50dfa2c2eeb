"""Claims about threads and memory: collective instructions are reached by whole warpgroups, barriers by all of their
threads, and arrays in shared memory don't overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from cugen.analysis.pipelines.claims import Claim, Fault, claim_of
from cugen.analysis.pipelines.roles.events import Event, events_in
from cugen.analysis.pipelines.roles.roles import Role
from cugen.analysis.pipelines.structure import Pipeline, whole_warps
from cugen.machine.requests.warp import WARP_SIZE
from cugen.machine.wgmma import SWIZZLE_PERIOD_ROWS, WARPGROUP
from cugen.plan.memory import Array
from cugen.plan.nodes import Barrier, ClusterBarrier, Declare, NamedBarrier, StoreMatrix
from cugen.plan.pipeline_nodes import AwaitWgmmas, CommitWgmmas, FenceWgmma, TensorLoad, TensorStore, Wgmma
from cugen.plan.traversal.walking import accesses_of, walk_nodes

_MAX_NAMED_BARRIERS = 15  # besides barrier 0, of `__syncthreads()` (PTX ISA, bar)


def convergence(pipeline: Pipeline) -> Claim:
    reason = "wgmma instructions are reached by whole warpgroups, barriers by all of their threads, in uniform loops"
    return claim_of("convergence", reason, _convergence_faults(pipeline))


def _convergence_faults(pipeline: Pipeline) -> Iterator[Fault]:
    everyone = frozenset(range(pipeline.kernel.threads))
    for event in events_in(pipeline.items):
        match event.node:
            case Wgmma() | FenceWgmma() | CommitWgmmas() | AwaitWgmmas():
                if not whole_warps(event.threads, WARPGROUP):
                    yield Fault(f"a warpgroup doesn't execute {type(event.node).__name__} together")
                elif event.scope.first:
                    yield Fault(f"{type(event.node).__name__} isn't executed for each k-tile", refutes=False)
            case Barrier() | ClusterBarrier(half="") if event.threads != everyone:
                missing = min(everyone - event.threads)
                yield Fault(f"thread {missing} doesn't reach a barrier of the block")
            case StoreMatrix() if not whole_warps(event.threads, WARP_SIZE):
                yield Fault("a warp doesn't store matrices together")
            case StoreMatrix():
                pass
            case NamedBarrier():
                yield from _named_barrier_faults(event, event.node)
            case ClusterBarrier(half=half) if half:
                yield Fault("halves of a cluster's barrier", refutes=False)
            case ClusterBarrier() | Barrier():
                pass
            case _:
                continue
        # All threads of a block choose the same k-tiles, of which a group may have wgmmas of its own, and the same
        # output tiles.
        of_group = isinstance(event.node, Wgmma | FenceWgmma | CommitWgmmas)
        is_uniform = event.scope.is_of_k_tiles if of_group else event.scope.always
        if not (event.scope.certain if isinstance(event.node, NamedBarrier | StoreMatrix) else is_uniform):
            yield Fault(f"{type(event.node).__name__} is under a condition of data or sizes", refutes=False)


def _named_barrier_faults(event: Event, node: NamedBarrier) -> Iterator[Fault]:
    numbers = event.per_thread(node.number)
    for number in sorted(set(numbers.values())):
        members = frozenset(thread for thread, n in numbers.items() if n == number)
        if len(members) != node.threads or not whole_warps(members, WARP_SIZE):
            yield Fault(f"{len(members)} threads reach named barrier {number}, which waits for {node.threads}")
        if not 0 <= number < _MAX_NAMED_BARRIERS:
            yield Fault(f"there is no named barrier {number}")


def shared_memory(pipeline: Pipeline) -> Claim:
    reason = "stages, buffers and barriers are disjoint, and tiles begin where their swizzle does"
    return claim_of("shared memory", reason, _memory_faults(pipeline))


def _memory_faults(pipeline: Pipeline) -> Iterator[Fault]:
    kernel = pipeline.kernel
    arrays = [n.array for n in walk_nodes(kernel.body) if isinstance(n, Declare) and n.array.space == "shared"]
    extents = sorted((array.dynamic_offset, array.dynamic_offset + _bytes(array), array.symbol) for array in arrays)
    if any(not array.dynamic for array in arrays):
        yield Fault("arrays are in static shared memory", refutes=False)
    tiles = {load.node.target.array.symbol for load in pipeline.loads if isinstance(load.node, TensorLoad)}
    reused = set[str]()
    for (_, end, name), (start, later_end, later) in combinations(extents, 2):
        if not (start < end and start < later_end):
            continue
        if len(tiles & {name, later}) == 1:
            reused |= {name, later} - tiles
        else:
            yield Fault(f"`{name}` and `{later}` overlap in shared memory")
    for role in pipeline.roles:
        yield from _reuse_faults(pipeline, role, reused)
    if extents and max(end for _, end, _ in extents) > kernel.dynamic_shared_bytes:
        yield Fault("arrays are outside of the launch's shared memory")
    for event in events_in(pipeline.items):
        if isinstance(event.node, TensorLoad | TensorStore):
            tile, mapped, *_ = (a.array for a in accesses_of(event.node) if a.kind != "barrier")
            if mapped.space != "tensor":
                tile, mapped = mapped, tile
            swizzle = mapped.tensor_map.swizzle_bytes if mapped.tensor_map else 0
            if swizzle and tile.dynamic_offset % (swizzle * SWIZZLE_PERIOD_ROWS):
                yield Fault(
                    f"`{tile.symbol}` isn't aligned to {swizzle * SWIZZLE_PERIOD_ROWS} bytes, as its swizzle needs"
                )


def _reuse_faults(pipeline: Pipeline, role: Role, reused: set[str]) -> Iterator[Fault]:
    """Unless a role accesses arrays in the memory of the stages only after all consumers have read the last of these:
    once their wgmmas are complete, and a barrier of them all has followed."""

    def accesses(event: Event) -> bool:
        return any(access.array.symbol in reused for access in accesses_of(event.node))

    if any(map(accesses, (*role.before, *role.tile_before, *role.body))):
        yield Fault("threads access arrays in the memory of the stages before these have been read", 0, 0)
    after = (*role.tile_after, *role.after)
    first = next((n for n, event in enumerate(after) if accesses(event)), len(after))
    if first == len(after):
        return
    if role.tiles is not None:
        yield Fault("arrays in the memory of the stages may be in use at the next output tile", refutes=False)
    waits = [event.node.pending for event in role.body if isinstance(event.node, AwaitWgmmas)]
    is_complete, are_all = role in pipeline.copying or waits[-1:] == [0], False
    for event in after[:first]:
        is_complete |= isinstance(event.node, AwaitWgmmas) and event.node.pending == 0
        is_barrier = isinstance(event.node, Barrier | NamedBarrier | ClusterBarrier) and event.scope.always
        are_all |= is_complete and is_barrier and pipeline.consuming_threads <= event.all_threads
    if not is_complete:
        yield Fault("arrays in the memory of the stages are accessed while a wgmma may read these", 0, 0)
    elif not are_all:
        yield Fault("arrays in the memory of the stages are accessed without a barrier of all consumers", 0, 0)


def _bytes(array: Array) -> int:
    return math.prod(int(size) for size in array.padded_shape) * array.dtype.bytes
