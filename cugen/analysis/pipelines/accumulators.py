"""The claim about accumulators: threads access them only when no wgmma is pending, and with a fence before the next."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.pipelines.claims import Claim, Fault, claim_of
from cugen.analysis.pipelines.roles import Event, Role
from cugen.analysis.pipelines.structure import Pipeline
from cugen.plan.nodes import Declare
from cugen.plan.pipeline_nodes import AwaitWgmmas, CommitWgmmas, FenceWgmma, Wgmma
from cugen.plan.traversal.walking import accesses_of


def accumulators(pipeline: Pipeline) -> Claim:
    reason = "accumulators are accessed after a wait for all wgmma groups, and a fence precedes the next wgmma"
    faults = (fault for role in pipeline.consumers for fault in _faults(role))
    return claim_of("accumulators", reason, faults)


def _faults(role: Role) -> Iterator[Fault]:
    """Of the events of two output tiles, with one k-tile and with three: what a k-tile leaves pending doesn't grow."""
    wgmmas = [event.node for event in role.body if isinstance(event.node, Wgmma)]
    names = {access.array.symbol for node in wgmmas for access in (node.acc_upper, node.acc_lower)}
    for k_tiles in (1, 3):
        pending: list[int] = []  # committed groups' wgmmas
        uncommitted, is_fenced = 0, False
        for event in 2 * (*role.tile_before, *k_tiles * role.body, *role.tile_after):
            match event.node:
                case Wgmma():
                    if not is_fenced:
                        yield Fault("no fence orders the accesses of accumulators before the next wgmma", 0, 0)
                        return
                    uncommitted += 1
                case FenceWgmma():
                    is_fenced = True
                case CommitWgmmas():
                    pending.append(uncommitted)
                    uncommitted = 0
                case AwaitWgmmas(pending=kept):
                    pending = pending[-kept:] if kept else []
                case _ if _accesses(event, names):
                    is_fenced = False
                    if uncommitted or any(pending):
                        yield Fault("accumulators are accessed while a wgmma may write them", 0, 0)
                        return


def _accesses(event: Event, names: set[str]) -> bool:
    """Whether threads read or write the arrays themselves."""
    if isinstance(event.node, Wgmma | Declare):
        return False
    return any(access.array.symbol in names for access in accesses_of(event.node))
