"""The claim about accumulators: threads access them only when no wgmma is pending, and with a fence before the next."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.pipelines.claims import Claim, Fault, claim_of
from cugen.analysis.pipelines.roles import Event, Role
from cugen.analysis.pipelines.stages import is_complete
from cugen.analysis.pipelines.structure import Pipeline
from cugen.plan.nodes import Declare
from cugen.plan.pipeline_nodes import FenceWgmma, Wgmma
from cugen.plan.traversal.walking import accesses_of


def accumulators(pipeline: Pipeline) -> Claim:
    reason = "accumulators are read after a wait for all wgmma groups, and a fence precedes the next wgmma"
    faults = (fault for role in pipeline.consumers for fault in _faults(role))
    return claim_of("accumulators", reason, faults)


def _faults(role: Role) -> Iterator[Fault]:
    multiplies = [n for n, event in enumerate(role.body) if isinstance(event.node, Wgmma)]
    if not multiplies:
        return
    node = role.body[multiplies[0]].node
    assert isinstance(node, Wgmma)
    names = {node.acc_upper.array.symbol, node.acc_lower.array.symbol}
    if not any(isinstance(event.node, FenceWgmma) for event in (*role.tile_before, *role.body[: multiplies[0]])):
        yield Fault("no fence orders the accesses of accumulators before the first wgmma of an output tile", 0, 0)
    if any(_accesses(event, names) for event in role.body):
        yield Fault("threads access accumulators in the loop over k-tiles", refutes=False)
    following = role.body[multiplies[-1] + 1 :]
    for position, event in enumerate(role.tile_after):
        if _accesses(event, names) and not is_complete((*following, *role.tile_after[:position])):
            yield Fault("accumulators are read while a wgmma may write them", 0, 0)
            return


def _accesses(event: Event, names: set[str]) -> bool:
    """Whether threads read or write the arrays themselves."""
    if isinstance(event.node, Wgmma | Declare):
        return False
    return any(access.array.symbol in names for access in accesses_of(event.node))
