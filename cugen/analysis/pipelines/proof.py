"""Proves the synchronisation of a kernel's pipeline from its plan, for every number of k-tiles and output tiles.

Nothing runs. Of pipelines with mbarriers: waits, arrivals and accesses are functions of a k-tile's number, which
repeat after two rounds of the stages; the claims compare them over one period, and the rest is induction over the
k-tiles.
"""

from __future__ import annotations

from cugen.analysis.pipelines.async_copies.flags import flags
from cugen.analysis.pipelines.async_copies.proof import prove_async_copies
from cugen.analysis.pipelines.barriers import expected_bytes, initialisation, phases
from cugen.analysis.pipelines.claims import Claim, NotRecognised, PipelineProof
from cugen.analysis.pipelines.clusters import clusters
from cugen.analysis.pipelines.convergence import convergence, shared_memory
from cugen.analysis.pipelines.parts import parts, shared_tiles
from cugen.analysis.pipelines.registers import accumulators, registers
from cugen.analysis.pipelines.stages import arrivals, copies, order, reads
from cugen.analysis.pipelines.stores import stores
from cugen.analysis.pipelines.structure import Pipeline, pipeline_of
from cugen.analysis.pipelines.work_units import work_units
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
    registers,
    accumulators,
    stores,
    shared_memory,
    clusters,
    parts,
)


def _sizes(pipeline: Pipeline) -> str:
    """The sizes for which the proof holds. One without a wait for empty stages relies on those of the kernel."""
    loop = pipeline.producer.k_tiles
    assert loop is not None
    if pipeline.kernel.work_units is not None:
        return f"the work units of {pipeline.kernel.grid[0]} blocks"
    if not pipeline.refills:
        return "one k-tile" if pipeline.max_fills == 1 else f"at most {pipeline.max_fills} k-tiles"
    return f"{loop.trips} k-tiles and every number of tiles" if loop.trips.is_Integer else "every K and number of tiles"


def prove_pipeline(kernel: Kernel) -> PipelineProof | None:
    """The claims about a kernel with mbarriers, or commit groups of `cp.async`; None for one without."""
    if not any(isinstance(node, PipelineNode) for node in walk_nodes(kernel.body)):
        return prove_async_copies(kernel)
    try:
        pipeline = pipeline_of(kernel)
        stage_bytes = pipeline.stage_bytes
    except NotRecognised as gap:
        return PipelineProof(kernel.name, (Claim("structure", "unknown", str(gap)),), "")
    further = filter(None, (work_units(pipeline), flags(kernel)))
    claims = *(claim(pipeline) for claim in _CLAIMS), *further
    phases_pair = "full and empty phases pair" if pipeline.empty else "none is refilled"
    if pipeline.first:
        phases_pair = "each refilled behind a barrier of the block"
    summary = f"for {_sizes(pipeline)}: {pipeline.stages} stages, {phases_pair}, {stage_bytes} bytes per stage"
    if tiles := shared_tiles(pipeline):
        names = " and ".join(tile.name for tile in tiles)
        summary += f", {names}'s tiles are shared by {pipeline.cluster} blocks"
    return PipelineProof(kernel.name, claims, summary)
