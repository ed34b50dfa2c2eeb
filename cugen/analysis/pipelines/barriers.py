"""Claims about mbarriers: initialised before use, as many arrivals in a phase as expected, waits for the right phase.

A wait names the parity of a phase, and phase n - 2 has that of phase n. Induction over the k-tiles excludes it: the
producer awaits the reads of k-tile f - STAGES before it copies k-tile f, so `full` ends its phase for f only after
every consumer warp has awaited that for f - STAGES; and a consumer awaits every k-tile before it arrives for it, so
`empty` is at most one phase further than the producer's last wait. In both the current phase is the awaited one or the
next, and a parity tells these two apart. Where blocks of a cluster copy to each other's stages, every consumer warp
arrives at the `empty` of each block that copies to its stages, and of no other: a producer awaits the reads of all
blocks that it copies to, none of which passes the next k-tile of a stage without it.

Without a producer a barrier of the block, which follows the wait of every warpgroup for k-tile f, precedes the copy to
its stage: no waiter is two phases off.
"""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, claim_of
from cugen.analysis.pipelines.roles.events import Event, events_in
from cugen.analysis.pipelines.roles.roles import Role
from cugen.analysis.pipelines.structure import Pipeline, at_barrier, barrier_of, copied_bytes, loads_of
from cugen.plan.nodes import Barrier, ClusterBarrier
from cugen.plan.pipeline_nodes import (
    ArriveBarrier,
    AwaitBarrier,
    FenceBarrierInit,
    InitBarrier,
    TensorLoad,
    Wgmma,
)

_MAX_TRANSACTION_BYTES = 2**20 - 1  # PTX ISA, mbarrier: tx-count


def initialisation(pipeline: Pipeline) -> Claim:
    reason = f"one thread initialises the barriers of {pipeline.stages} stages; a fence and a block barrier follow"
    return claim_of("initialisation", reason, _initialisation_faults(pipeline))


def _initialisation_faults(pipeline: Pipeline) -> Iterator[Fault]:
    events = list(events_in(pipeline.items))
    inits = [n for n, event in enumerate(events) if isinstance(event.node, InitBarrier)]
    users = (AwaitBarrier, ArriveBarrier, TensorLoad)
    uses = [n for n, event in enumerate(events) if isinstance(event.node, users)]
    for array in pipeline.arrays:
        initialised = [events[n] for n in inits if barrier_of(events[n].node).array.symbol == array]
        subscripts = (event.per_thread(barrier_of(event.node).subscripts[0]) for event in initialised)
        stages = sorted(stage for of_threads in subscripts for stage in of_threads.values())
        missing = sorted(set(range(pipeline.stages)) - set(stages))
        if missing:
            yield Fault(f"`{array}` of a stage isn't initialised", missing[0], missing[0])
        elif stages != list(range(pipeline.stages)):
            yield Fault(f"`{array}` is initialised by several threads, or for more stages than there are")
    if not inits:
        return
    by = events[inits[0]].threads
    if any(events[n].threads != by or not events[n].scope.always for n in inits):
        yield Fault("different threads initialise barriers", refutes=False)
    fences = [n for n, e in enumerate(events) if isinstance(e.node, FenceBarrierInit) and by <= e.threads]
    fence = next((n for n in fences if n > inits[-1]), None)
    everyone = frozenset(range(pipeline.kernel.threads))
    kinds = (Barrier, ClusterBarrier) if pipeline.cluster == 1 else (ClusterBarrier,)
    possible = [n for n, e in enumerate(events) if isinstance(e.node, kinds) and e.threads == everyone]
    meetings = [n for n in possible if events[n].node in (Barrier(), ClusterBarrier())]
    # The thread that initialises them may use the barriers of its block after the fence.
    after_init = [n for n in uses if len(by) == 1 and events[n].threads == by and pipeline.cluster == 1]
    first_use = min({*uses} - {*after_init}, default=len(events))
    if fence is None or any(n < fence for n in after_init):
        yield Fault("no fence makes the initialised barriers visible to TMA", 0, 0)
    meeting = next((n for n in meetings if n > (fence if fence is not None else inits[-1])), len(events))
    if meeting > first_use:
        whole = "block" if pipeline.cluster == 1 else "cluster"
        reason = f"threads use barriers without a barrier of the {whole} after their initialisation"
        yield Fault(reason, 0, 0, refutes=meetings == possible)  # of which halves are none


def arrivals_per_phase(pipeline: Pipeline, array: str) -> int:
    """The number that each barrier of an array is initialised with."""
    inits = (e.node for e in events_in(pipeline.items) if isinstance(e.node, InitBarrier))
    counts = {node.arrivals for node in inits if node.barrier.array.symbol == array}
    if len(counts) != 1:
        raise NotRecognised(f"barriers of `{array}` have different numbers of arrivals")
    return counts.pop()


def expected_bytes(pipeline: Pipeline) -> Claim:
    reason = f"the boxes of a k-tile have the {pipeline.stage_bytes} bytes that are expected"
    return claim_of("bytes", reason, _bytes_faults(pipeline))


def _bytes_faults(pipeline: Pipeline) -> Iterator[Fault]:
    for role in pipeline.copying:
        yield from _faults_of_bytes(pipeline, role)


def _faults_of_bytes(pipeline: Pipeline, role: Role) -> Iterator[Fault]:
    arrivals = at_barrier(role.body, ArriveBarrier, pipeline.full)
    if not all(event.scope.always for event in (*arrivals, *loads_of(role))):
        raise NotRecognised("loads, or the arrival that expects them, are under a condition of data or sizes")
    expected = 0
    for event in arrivals:
        node = event.node
        assert isinstance(node, ArriveBarrier)
        value = event.value(node.expected_bytes) if node.expected_bytes is not None else 0
        if not isinstance(value, int) and not value.is_Integer:
            raise NotRecognised("the number of expected bytes isn't a constant")
        expected += int(value) * len(event.threads)
    copied = copied_bytes(role)
    if expected < copied:
        yield Fault(f"{expected} bytes are expected of {copied}: a phase of `full` may end before the copies", 0, 0)
    elif expected > copied:
        yield Fault(f"{expected} bytes are expected and {copied} are copied: no phase of `full` ends", 0, 0)
    if expected > _MAX_TRANSACTION_BYTES:
        yield Fault(f"a barrier counts at most {_MAX_TRANSACTION_BYTES} bytes", 0, 0)


def phases(pipeline: Pipeline) -> Claim:
    stages = pipeline.stages
    if pipeline.first:
        reason = (
            f"k-tile f is phase f // {stages} of stage f % {stages}: waits for `{pipeline.full}` take its parity, and "
            "a stage is refilled after a barrier of the block that follows them"
        )
        return claim_of("phases", reason, _phase_faults(pipeline))
    if not pipeline.empty:
        reason = (
            f"k-tile f is phase 0 of stage f: waits for `{pipeline.full}` take its parity, and no stage is refilled"
        )
        return claim_of("phases", reason, _phase_faults(pipeline))
    reason = (
        f"k-tile f is phase f // {stages} of stage f % {stages}: waits for `{pipeline.full}` take its parity, those "
        f"for `{pipeline.empty}` the other, which a fresh barrier passes; no waiter is two phases off"
    )
    return claim_of("phases", reason, _phase_faults(pipeline))


def _phase_faults(pipeline: Pipeline) -> Iterator[Fault]:
    for consumer in pipeline.consumers:
        yield from _waits(pipeline, consumer, pipeline.full, 0, frozenset(consumer.threads), (Wgmma,))
    if not pipeline.empty:
        if pipeline.first is None and pipeline.max_fills > pipeline.stages:
            yield Fault("a stage is refilled without a wait for its reads", pipeline.stages, 0)
        return
    yield from _waits(
        pipeline, pipeline.producer, pipeline.empty, 1, pipeline.producing_threads, (ArriveBarrier, TensorLoad)
    )
    for role, array in (*((c, pipeline.empty) for c in pipeline.consumers), (pipeline.producer, pipeline.full)):
        if at_barrier(role.events, AwaitBarrier, array):
            yield Fault(f"a role awaits `{array}`, at which it arrives", refutes=False)


def _waits(
    pipeline: Pipeline, role: Role, array: str, distance: int, threads: frozenset[int], before: tuple[type, ...]
) -> Iterator[Fault]:
    """Faults of a role's wait for an array: for each k-tile f one of all `threads`, for phase f // stages - `distance`,
    `before` its events of these kinds."""
    stages = pipeline.stages
    waits = at_barrier(role.body, AwaitBarrier, array)
    if len(at_barrier(role.events, AwaitBarrier, array)) > len(waits):
        yield Fault(f"a wait for `{array}` is outside of the loop over k-tiles", refutes=False)
    if not waits:
        first = stages * distance
        what = "overwritten before it is read" if distance else "read before it is written"
        yield Fault(f"no wait for `{array}`: the stage may be {what}", first, 0)
        return
    if len(waits) > 1:
        yield Fault(f"`{array}` is awaited more than once in a k-tile", refutes=False)
    wait = waits[0]
    assert isinstance(wait.node, AwaitBarrier)
    if not threads <= wait.threads or not wait.scope.always:
        yield Fault(f"not all threads that use a stage wait for `{array}`", refutes=False)
    if wait.scope.first > 0:
        yield Fault(f"the first k-tiles of an output tile don't wait for `{array}`", stages * distance, 0)
    position = role.body.index(wait)
    if any(isinstance(event.node, before) for event in role.body[:position]):
        yield Fault(f"a stage is used before the wait for `{array}`", stages * distance, 0)
    yield from deviating(pipeline, wait, f"the wait for `{array}`")
    for fill, parity in wait.per_fill(wait.node.parity, stages).items():
        phase = fill // stages - distance
        if parity != phase % 2 and fill < pipeline.max_fills:
            what = f"phase {phase}" if phase >= 0 else "a fresh barrier"
            yield Fault(f"waits for parity {parity} of `{array}`, where {what} has {phase % 2}", fill, fill % stages)
            return


def deviating(pipeline: Pipeline, event: Event, what: str) -> Iterator[Fault]:
    """The first k-tile for which an event's barrier isn't that of its stage."""
    for fill, stage in event.per_fill(barrier_of(event.node).subscripts[0], pipeline.stages).items():
        if stage != fill % pipeline.stages:
            yield Fault(f"{what} of stage {stage} is for a k-tile of another stage", fill, fill % pipeline.stages)
            return
