"""Claims about registers: threads access accumulators only when no wgmma is pending, and with a fence before the next;
warpgroups take no more registers than others give, or they would wait forever."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product

from cugen.analysis.pipelines.claims import Claim, Fault, claim_of
from cugen.analysis.pipelines.roles.events import Event
from cugen.analysis.pipelines.roles.roles import Role
from cugen.analysis.pipelines.structure import Pipeline, whole_warps
from cugen.machine import target
from cugen.machine.features import WGMMA
from cugen.machine.occupancy import max_registers
from cugen.machine.wgmma import REGISTER_COUNTS, WARPGROUP
from cugen.plan.nodes import Declare
from cugen.plan.pipeline_nodes import AwaitBarrier, AwaitWgmmas, CommitWgmmas, FenceWgmma, SetMaxRegisters, Wgmma
from cugen.plan.traversal.walking import accesses_of


def accumulators(pipeline: Pipeline) -> Claim:
    reason = "accumulators are accessed after a wait for all wgmma groups, and a fence precedes the next wgmma"
    faults = (fault for role in pipeline.consumers for fault in _accumulator_faults(role))
    return claim_of("accumulators", reason, faults)


def _accumulator_faults(role: Role) -> Iterator[Fault]:
    """Of the events of two output tiles, with one k-tile and with three: what a k-tile leaves pending doesn't grow.
    Events that some k-tiles have are in each of them or not, in all ways."""
    wgmmas = [event.node for event in role.body if isinstance(event.node, Wgmma)]
    names = {access.array.symbol for node in wgmmas for access in (node.acc_upper, node.acc_lower)}
    always = tuple(event for event in role.body if not event.scope.chosen)
    bodies = (role.body,) if len(always) == len(role.body) else (role.body, always)
    for way in (*product(bodies, repeat=1), *product(bodies, repeat=3)):
        pending: list[int] = []  # committed groups' wgmmas
        uncommitted, is_fenced = 0, False
        for event in 2 * (*role.tile_before, *chain(*way), *role.tile_after):
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


def registers(pipeline: Pipeline) -> Claim:
    reason = "all threads keep the registers of the launch"
    if any(role.executes(SetMaxRegisters) for role in pipeline.roles):
        reason = "whole warpgroups set their registers, once and before they wait, and take no more than others give"
    return claim_of("registers", reason, _register_faults(pipeline))


def _register_faults(pipeline: Pipeline) -> Iterator[Fault]:
    setting = [event for role in pipeline.roles for event in role.events if isinstance(event.node, SetMaxRegisters)]
    if not setting:
        return
    kernel = pipeline.kernel
    if not kernel.minimum_blocks:
        yield Fault("the registers of the launch are the compiler's choice", refutes=False)
        return
    launched = max_registers(target(WGMMA.architecture), kernel.threads, kernel.minimum_blocks)
    total = 0
    for role in pipeline.roles:
        events = [event for event in role.events if isinstance(event.node, SetMaxRegisters)]
        yield from _role_faults(role, events, launched)
        counts = [event.node.count for event in events if isinstance(event.node, SetMaxRegisters)]
        total += max(counts, default=launched) * len(role.threads)
    available = launched * kernel.threads
    if total > available:
        yield Fault(f"warpgroups take {total} registers of {available}: they wait forever")


def _role_faults(role: Role, events: list[Event], launched: int) -> Iterator[Fault]:
    """Unless the role sets its registers at most once, all threads together, and before any wait."""
    if len(events) > 1:
        yield Fault("a warpgroup sets its registers more than once", refutes=False)
    waits = [n for n, event in enumerate(role.events) if isinstance(event.node, AwaitBarrier)]
    for event in events:
        node = event.node
        assert isinstance(node, SetMaxRegisters)
        if not whole_warps(event.all_threads, WARPGROUP):
            yield Fault("a warpgroup doesn't set its registers together")
        if not event.scope.always or event not in role.before:
            yield Fault("a warpgroup may set its registers never, or several times", refutes=False)
        elif waits and role.events.index(event) > waits[0]:
            yield Fault("a warpgroup waits before it sets its registers, perhaps for one that waits for these")
        if node.count not in REGISTER_COUNTS:
            yield Fault(f"no thread can have {node.count} registers")
        if (node.count < launched) if node.increases else (node.count > launched):
            verb = "increased" if node.increases else "decreased"
            yield Fault(f"the {launched} registers of the launch are {verb} to {node.count}")
