"""Claims about the stages: written and read in turn, released once per k-tile, after the wgmmas that read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cugen.analysis.pipelines.barriers import arrivals_per_phase, deviating
from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, claim_of
from cugen.analysis.pipelines.roles.events import Event, PipelineLoop, is_of_cluster
from cugen.analysis.pipelines.roles.roles import Role
from cugen.analysis.pipelines.structure import Pipeline, at_barrier, barrier_of, loads_of
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.memory import Access
from cugen.plan.nodes import Barrier
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitWgmmas, CommitWgmmas, TensorLoad, Wgmma
from cugen.plan.symbols import Minimum, integer
from cugen.plan.traversal.walking import accesses_of


def order(pipeline: Pipeline) -> Claim:
    """That the roles' loops number the same k-tiles."""
    reason = "producer and consumers pass the same output tiles and k-tiles, whose number increases by 1"
    return claim_of("order", reason, _order_faults(pipeline))


def _order_faults(pipeline: Pipeline) -> Iterator[Fault]:
    producer = pipeline.producer
    if producer.k_tiles is None:
        raise NotRecognised("the producer has no loop over k-tiles")
    if producer.k_tiles.trip_range[0] < 1 and pipeline.empty:
        reason = "there may be no k-tile, and stages are released as after one"
        yield Fault(reason, refutes=producer.k_tiles.stop.is_Symbol)  # whose range has no other reason to begin at 0
    for loop in (producer.tiles, producer.k_tiles):
        if pipeline.cluster > 1 and loop is not None and not is_of_cluster(loop, pipeline.cluster):
            yield Fault("blocks of a cluster pass different numbers of tiles", refutes=False)
    if pipeline.first is not None:
        yield from _first_faults(pipeline, pipeline.first, producer.k_tiles)
    for consumer in pipeline.consumers:
        if consumer.k_tiles is None or (consumer.tiles is None) != (producer.tiles is None):
            raise NotRecognised("a consumer has other loops than the producer")
        if not consumer.k_tiles.has_header_of(producer.k_tiles):
            yield Fault("consumers read another number of k-tiles than the producer copies", 0, 0)
        if consumer.tiles and producer.tiles and not consumer.tiles.has_header_of(producer.tiles):
            yield Fault("consumers pass other output tiles than the producer", 0, 0)


def _first_faults(pipeline: Pipeline, first: Role, k_tiles: PipelineLoop) -> Iterator[Fault]:
    """Unless the k-tiles that are copied before the loop over all are those that it doesn't copy, and fit the
    stages."""
    assert first.k_tiles is not None
    ahead = integer(pipeline.ahead)
    copied, expected = first.k_tiles.trips, Minimum(k_tiles.trips, ahead)
    if k_tiles.trip_range[0] >= pipeline.ahead:
        expected = ahead
    if copied != expected:
        reason = f"{copied} k-tiles are copied before the loop over k-tiles, which copies those from {expected} on"
        yield Fault(reason, refutes=bool(copied.is_Integer and expected.is_Integer))
    if not 0 < pipeline.ahead <= pipeline.stages:
        yield Fault(f"k-tiles are copied {pipeline.ahead} ahead, to {pipeline.stages} stages", 0, 0)


def copies(pipeline: Pipeline) -> Claim:
    reason = f"the loads of k-tile f write stage f % {pipeline.stages} and count at its barrier, after its wait"
    return claim_of("copies", reason, _copy_faults(pipeline))


def _copy_faults(pipeline: Pipeline) -> Iterator[Fault]:
    if len(pipeline.producing_threads) != 1:
        yield Fault("several threads copy the same tiles", 0, 0)
    for load in (load for role in pipeline.copying for load in loads_of(role)):
        assert isinstance(load.node, TensorLoad)
        if load.threads != pipeline.producing_threads or load.scope.first:
            yield Fault("a load isn't executed for each k-tile by the producer's thread", 0, 0)
        elif not load.scope.always:
            yield Fault("a load is under a condition of data or sizes", refutes=False)
        yield from deviating(pipeline, load, "the barrier of a load")
        yield from _other_stage(pipeline, load, load.node.target, "is copied to")
    for consumer in pipeline.consumers:
        for event in consumer.events:
            if isinstance(event.node, Wgmma):
                yield from _other_stage(pipeline, event, event.node.a, "is read from")
                yield from _other_stage(pipeline, event, event.node.b, "is read from")
    tiles = {load.node.target.array.symbol for load in pipeline.loads if isinstance(load.node, TensorLoad)}
    for role in pipeline.roles:
        for event in role.events:
            generic = not isinstance(event.node, TensorLoad | Wgmma)
            if generic and any(access.array.symbol in tiles for access in accesses_of(event.node)):
                yield Fault("threads access stages themselves", refutes=False)


def _other_stage(pipeline: Pipeline, event: Event, access: Access, verb: str) -> Iterator[Fault]:
    stages, array = pipeline.stages, access.array
    if int(array.shape[0]) != stages:
        yield Fault(f"`{array.symbol}` has {array.shape[0]} stages, and there are {stages} barriers", stages - 1, 0)
        return
    for fill, stage in event.per_fill(access.subscripts[0], stages).items():
        if stage != fill % stages:
            yield Fault(f"a tile {verb} stage {stage} of `{array.symbol}`", fill, fill % stages)
            return


def arrivals(pipeline: Pipeline) -> Claim:
    """That each phase has as many arrivals as its barrier expects."""
    warps = len(pipeline.consuming_threads) // WARP_SIZE
    if not pipeline.empty:
        return claim_of("arrivals", f"`{pipeline.full}`: the producer's, with the bytes", _arrival_faults(pipeline))
    reason = (
        f"`{pipeline.full}`: the producer's, with the bytes; `{pipeline.empty}`: one lane of each of {warps} consumer "
        f"warps, once for every k-tile whose stage is refilled, less than {pipeline.stages} k-tiles later, so that no "
        "wait is endless"
    )
    return claim_of("arrivals", reason, _arrival_faults(pipeline))


def _arrival_faults(pipeline: Pipeline) -> Iterator[Fault]:
    for role in pipeline.roles:
        array = pipeline.full if role in pipeline.copying else pipeline.empty
        awaited = pipeline.empty if role in pipeline.copying else pipeline.full
        if awaited and at_barrier(role.events, ArriveBarrier, awaited):
            yield Fault(f"a role arrives at `{awaited}`, which it awaits", refutes=False)
        if any(not event.scope.always for event in at_barrier(role.events, ArriveBarrier, array)):
            raise NotRecognised(f"the condition of an arrival at `{array}` isn't one of threads and k-tiles")
    for role in pipeline.copying:
        filling = at_barrier(role.body, ArriveBarrier, pipeline.full)
        if len(at_barrier(role.events, ArriveBarrier, pipeline.full)) > len(filling):
            yield Fault(f"an arrival at `{pipeline.full}` is outside of the loop over k-tiles", refutes=False)
        for event in filling:
            yield from deviating(pipeline, event, f"an arrival at `{pipeline.full}`")
            if event.scope.first:
                yield Fault(f"no arrival at `{pipeline.full}` for the first k-tiles of an output tile", 0, 0)
        made, expected = sum(len(e.threads) for e in filling), arrivals_per_phase(pipeline, pipeline.full)
        yield from _unequal(pipeline.full, made, expected, 0)
    if not pipeline.empty:
        return
    releases = [Releases(pipeline, role) for role in pipeline.consumers]
    for release in releases:
        yield from release.faults()
    expected = arrivals_per_phase(pipeline, pipeline.empty)
    for lag in sorted({lag for release in releases for lag in release.after}):
        made = sum(arriving(pipeline, r.after[lag]) for r in releases if lag in r.after)
        yield from _unequal(pipeline.empty, made, expected, pipeline.stages)
    if any(release.within is not None for release in releases):
        made = sum(arriving(pipeline, r.within) for r in releases if r.within is not None)
        yield from _unequal(pipeline.empty, made, expected, pipeline.stages)


def by_block(pipeline: Pipeline, event: Event, rank: int) -> dict[int, frozenset[int]]:
    """The threads of the block `rank` that arrive at the barrier of each block of the cluster, by that one's rank; at
    that of their own block alone without a cluster."""
    assert isinstance(event.node, ArriveBarrier)
    if event.node.rank is None:
        return {rank: event.threads}
    size = pipeline.kernel.cluster
    ranks = event.per_thread(event.node.rank, of_cluster=(rank, size))
    if not set(ranks.values()) <= set(range(size)):
        raise NotRecognised("threads arrive at barriers of blocks outside of the cluster")
    return {block: frozenset(t for t, r in ranks.items() if r == block) for block in set(ranks.values())}


def arriving(pipeline: Pipeline, event: Event) -> int:
    """Arrivals at the barrier of a block, of all blocks that execute the event."""
    ranks = range(pipeline.cluster)
    threads = [by_block(pipeline, event, rank) for rank in ranks]
    counts = {sum(len(of_block.get(rank, ())) for of_block in threads) for rank in ranks}
    if len(counts) > 1:
        raise NotRecognised("blocks of a cluster get different numbers of arrivals")
    return counts.pop()


def _unequal(array: str, made: int, expected: int, k_tile: int) -> Iterator[Fault]:
    """`k_tile` is the first whose wait goes wrong."""
    if made < expected:
        yield Fault(f"{made} threads arrive at `{array}`, which expects {expected}: the wait never ends", k_tile, 0)
    elif made > expected:
        yield Fault(f"{made} threads arrive at `{array}`, which expects {expected}: phases end too early", k_tile, 0)


class Releases:
    """How a consumer releases stages: `within` the loop over k-tiles that of the k-tile `lag` before, if any, and
    `after` the loop those of the last k-tiles, by their distance from the last."""

    def __init__(self, pipeline: Pipeline, role: Role) -> None:
        self.pipeline, self.role = pipeline, role
        within = at_barrier(role.body, ArriveBarrier, pipeline.empty)
        after = at_barrier(role.tile_after, ArriveBarrier, pipeline.empty)
        others = len(at_barrier(role.events, ArriveBarrier, pipeline.empty)) - len(within) - len(after)
        if len(within) > 1 or others:
            raise NotRecognised(
                f"several arrivals at `{pipeline.empty}` for a k-tile, or one outside of an output tile"
            )
        self.within = within[0] if within else None
        self.lag = self._lag(self.within) if self.within else 0
        lags = [self._lag(event) for event in after]
        self.after = dict(zip(lags, after, strict=True))
        self.repeated = len(lags) > len(self.after)

    def _lag(self, event: Event) -> int:
        """How many k-tiles before the current one that is whose stage is released, fewer than stages."""
        stages = self.pipeline.stages
        released = event.per_fill(barrier_of(event.node).subscripts[0], stages)
        lags = {(fill - stage) % stages for fill, stage in released.items()}
        if len(lags) != 1 or not set(released.values()) <= set(range(stages)):
            raise NotRecognised("stages are released in another order than they are read")
        return lags.pop()

    def faults(self) -> Iterator[Fault]:
        """Unless every k-tile of an output tile is released once, in order, by every warp. Those after the loop need
        not be where no output tile follows: fewer than stages, they are never awaited."""
        empty, stages, lag = self.pipeline.empty, self.pipeline.stages, self.lag
        first = self.within.scope.first if self.within else 0
        loop = self.role.k_tiles
        needed = lag if self.within else 1
        if self.within is None and not self.after:
            yield Fault(f"no arrival at `{empty}`: the producer waits forever", stages, 0)
            return
        if self.within is not None and first > lag:
            yield Fault("k-tile 0 of an output tile is never released, and the producer waits forever", stages, 0)
        elif self.within is not None and first < lag:
            yield Fault(
                f"k-tile {first} of an output tile releases that {lag} before, which isn't of this tile",
                first,
                (first - lag) % stages,
            )
        expected = set(range(needed))
        if self.within is None and loop is not None:
            yield Fault("only the last k-tiles of an output tile are released", stages, 0)
        elif self.role.tiles is not None and (missing := expected - set(self.after)):
            where = "the last k-tile" if 0 in missing else f"the k-tile {min(missing)} before the last"
            yield Fault(f"{where} of an output tile is never released, and the producer waits forever", stages, 0)
        if set(self.after) - expected or self.repeated:
            yield Fault("a k-tile is released twice: its stage is overwritten before it is read", 0, 0)
        if loop is not None and 0 < loop.trip_range[0] < needed:
            yield Fault(f"with fewer than {needed} k-tiles, some before the first are released", refutes=False)
        warps = {thread // WARP_SIZE for thread in self.role.threads}
        for event in (*((self.within,) if self.within else ()), *self.after.values()):
            for rank in range(self.pipeline.cluster):
                yield from self._warp_faults(event, rank, warps)

    def _warp_faults(self, event: Event, rank: int, warps: set[int]) -> Iterator[Fault]:
        """Unless every warp of the block `rank` arrives at the barrier of each block that copies to its stages, and of
        no other: one that copies nothing to it doesn't wait for it, and may be a phase off."""
        pipeline, empty, stages = self.pipeline, self.pipeline.empty, self.pipeline.stages
        blocks = by_block(pipeline, event, rank)
        for threads in blocks.values():
            missing_warps = warps - {thread // WARP_SIZE for thread in threads}
            if missing_warps:
                yield Fault(f"warp {min(missing_warps)} reads stages and doesn't arrive at `{empty}`", stages, 0)
        copying = {block for block in range(pipeline.cluster) if rank in pipeline.peers(block)}
        if copying - set(blocks):
            yield Fault(f"warps don't arrive at `{empty}` of the other blocks that copy to their stages", stages, 0)
        if set(blocks) - copying:
            yield Fault(f"warps arrive at `{empty}` of blocks that copy nothing to their stages", refutes=False)


def reads(pipeline: Pipeline) -> Claim:
    reason = "the wgmma groups that read a k-tile are complete before the arrival that releases it"
    if pipeline.first:
        reason = "the wgmma groups that read a k-tile are complete before a barrier of the block, and its refill after"
        return claim_of("reads", reason, (fault for role in pipeline.consumers for fault in _refilled(pipeline, role)))
    if not pipeline.empty:
        reason = f"at most {pipeline.max_fills} k-tiles in {pipeline.stages} stages: none is refilled"
        return claim_of("reads", reason, ())
    return claim_of("reads", reason, (fault for role in pipeline.consumers for fault in _read_faults(pipeline, role)))


def _read_faults(pipeline: Pipeline, role: Role) -> Iterator[Fault]:
    releases = Releases(pipeline, role)
    body, after = role.body, role.tile_after
    if any(isinstance(e.node, Wgmma) for e in (*role.before, *role.tile_before, *after, *role.after)):
        raise NotRecognised("wgmmas are outside of the loop over k-tiles")
    for position, event in enumerate(body):
        if not isinstance(event.node, Wgmma):
            continue
        following = body[position + 1 :]
        if releases.within is not None:
            stop = body.index(releases.within)
            lag = releases.lag
            between = (*following, *(lag - 1) * body, *body[:stop]) if lag else body[position + 1 : stop]
            if (not lag and stop < position) or not is_complete(event, between):
                yield Fault("a stage is released while a wgmma reads it: the producer may overwrite it", 0, 0)
        for lag, release in releases.after.items():
            if not is_complete(event, (*following, *lag * body, *after[: after.index(release)])):
                yield Fault("the last stage of an output tile is released while a wgmma reads it", 0, 0)


def _refilled(pipeline: Pipeline, role: Role) -> Iterator[Fault]:
    """Unless the wgmmas of a k-tile are complete before the last barrier of the block that precedes the refill of its
    stage, `stages - ahead` k-tiles later: in the same k-tile, or in the one before where none is in front of it."""
    body = role.body
    barriers = [n for n, event in enumerate(body) if isinstance(event.node, Barrier) and event.scope.always]
    later = pipeline.stages - pipeline.ahead - (pipeline.barriers == 0)
    if not barriers or later < 0 or len(barriers) < pipeline.barriers:
        yield Fault("a stage is refilled without a barrier of the block after its last read", pipeline.stages, 0)
        return
    stop = barriers[pipeline.barriers - 1]  # the last one, where none is in front of the refill
    for position, event in enumerate(body):
        if isinstance(event.node, Wgmma):
            between = (*body[position + 1 :], *(later - 1) * body, *body[:stop]) if later else body[position + 1 : stop]
            if (not later and stop < position) or not is_complete(event, between):
                yield Fault("a stage is refilled while a wgmma may read it", pipeline.stages, 0)


def is_complete(wgmma: Event, after: Sequence[Event]) -> bool:
    """Whether a wgmma is complete after these events of its warpgroup: its group has been committed, and a wait leaves
    no more groups pending than were committed since. Of groups under other conditions there may be none."""
    newer: int | None = None
    for event in after:
        match event.node:
            case CommitWgmmas() if newer is None and event.scope.chosen in ((), wgmma.scope.chosen):
                newer = 0
            case CommitWgmmas() if newer is not None and not event.scope.chosen:
                newer += 1
            case AwaitWgmmas(pending=pending) if newer is not None and pending <= newer:
                return True
    return False
