"""Which loops of a kernel pass from tile to tile."""

from __future__ import annotations

from cugen.plan.kernel import Kernel
from cugen.plan.nodes import AwaitCopies, Barrier, ClusterBarrier, CommitCopies, For, NamedBarrier
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier
from cugen.plan.traversal.walking import walk_nodes

_SYNCHRONISES = (
    *(Barrier, NamedBarrier, ClusterBarrier),
    *(CommitCopies, AwaitCopies),
    *(ArriveBarrier, AwaitBarrier),
)


def tile_loops(kernel: Kernel) -> frozenset[int]:
    """The loops with synchronisation, by their position among all loops of the kernel."""
    loops = (node for node in walk_nodes(kernel.body) if isinstance(node, For))
    return frozenset(position for position, loop in enumerate(loops) if synchronises(loop))


def synchronises(loop: For) -> bool:
    """Whether threads wait for each other, or for copies, in a loop."""
    return any(isinstance(node, _SYNCHRONISES) for node in walk_nodes(loop.body))
