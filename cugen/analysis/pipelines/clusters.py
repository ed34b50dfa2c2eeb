"""The claim about clusters: distributed shared memory is read after its block has written it, and no block exits while
others access its shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.pipelines.claims import Claim, Fault, claim_of
from cugen.analysis.pipelines.roles.events import Event, events_in
from cugen.analysis.pipelines.structure import Pipeline
from cugen.plan.nodes import ClusterBarrier
from cugen.plan.pipeline_nodes import ArriveBarrier, TensorLoad
from cugen.plan.traversal.walking import accesses_of


def clusters(pipeline: Pipeline) -> Claim:
    reason = "a kernel without clusters"
    if pipeline.kernel.is_clustered:
        reason = "a barrier of the cluster is before and after the accesses of other blocks' shared memory"
    return claim_of("clusters", reason, _faults(pipeline))


def _faults(pipeline: Pipeline) -> Iterator[Fault]:
    events = list(events_in(pipeline.items))
    crossing = [n for n, event in enumerate(events) if _reaches_others(event)]
    barriers = [n for n, event in enumerate(events) if event.node == ClusterBarrier()]
    if crossing and not any(n > crossing[-1] for n in barriers):
        has_halves = any(isinstance(event.node, ClusterBarrier) for event in events[crossing[-1] :])
        reason = "a block may exit while others copy to its stages, or arrive at its barriers"
        yield Fault(reason, refutes=not has_halves)
    remote = [n for n, event in enumerate(events) if _arrays(event, remote=True)]
    if not remote:
        return
    arrays = {name for n in remote for name in _arrays(events[n], remote=True)}
    local = [n for n, event in enumerate(events) if _arrays(event, remote=False) & arrays]
    writes = [n for n in local if n < remote[0]]
    if not any((writes[-1] if writes else -1) < n < remote[0] for n in barriers):
        yield Fault("shared memory of another block is read without a barrier of the cluster after its writes")
    if not any(n > remote[-1] for n in barriers):
        yield Fault("a block may exit while another one reads its shared memory")
    if any(n > remote[0] for n in local):
        yield Fault("a block writes shared memory that others may read", refutes=False)


def _reaches_others(event: Event) -> bool:
    """Whether it copies to stages of other blocks, or arrives at barriers of these."""
    match event.node:
        case TensorLoad(blocks=blocks):
            return blocks > 1
        case ArriveBarrier(rank=rank):
            return rank is not None
    return False


def _arrays(event: Event, *, remote: bool) -> set[str]:
    """The arrays of which an event reads another block's copy, or else writes its own."""
    found = accesses_of(event.node)
    if remote:
        return {access.array.symbol for access in found if access.rank is not None}
    return {a.array.symbol for a in found if a.rank is None and a.array.space == "shared" and not a.is_load}
