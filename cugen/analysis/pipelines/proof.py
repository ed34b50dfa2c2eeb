"""Proves the synchronisation of a kernel's pipeline from its plan, for every number of k-tiles and output tiles.

Nothing runs. Of pipelines with mbarriers: waits, arrivals and accesses are functions of a k-tile's number, which
repeat after two rounds of the stages; the claims compare them over one period, and the rest is induction over the
k-tiles.
"""

from __future__ import annotations

from cugen.analysis.pipelines.accumulators import accumulators
from cugen.analysis.pipelines.async_copies import prove_async_copies
from cugen.analysis.pipelines.barriers import expected_bytes, initialisation, phases
from cugen.analysis.pipelines.claims import Claim, NotRecognised, PipelineProof
from cugen.analysis.pipelines.convergence import convergence, shared_memory
from cugen.analysis.pipelines.stages import arrivals, copies, order, reads
from cugen.analysis.pipelines.stores import stores
from cugen.analysis.pipelines.structure import pipeline_of
from cugen.plan.kernel import Kernel
from cugen.plan.pipeline_nodes import PipelineNode
from cugen.plan.traversal.walking import walk_nodes

_CLAIMS = (
    initialisation,
    order,
    phases,
    arrivals,
    expected_bytes,
    copies,
    reads,
    convergence,
    accumulators,
    stores,
    shared_memory,
)


def prove_pipeline(kernel: Kernel) -> PipelineProof | None:
    """The claims about a kernel with mbarriers, or commit groups of `cp.async`; None for one without."""
    if not any(isinstance(node, PipelineNode) for node in walk_nodes(kernel.body)):
        return prove_async_copies(kernel)
    try:
        pipeline = pipeline_of(kernel)
        stage_bytes = pipeline.stage_bytes
    except NotRecognised as gap:
        return PipelineProof(kernel.name, (Claim("structure", "unknown", str(gap)),), "")
    claims = tuple(claim(pipeline) for claim in _CLAIMS)
    summary = (
        f"for every K and number of tiles: {pipeline.stages} stages, full and empty phases pair, "
        f"{stage_bytes} bytes per stage"
    )
    return PipelineProof(kernel.name, claims, summary)
