"""Epilogue of split-K in a cluster: each block stores its partial sums to the shared memory of its pipeline, then adds
and stores a part of the tile, in block order, through distributed shared memory."""

from __future__ import annotations

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.problem import partials_pad, problem_of
from cugen.families.gemm.shared_epilogue import SharedEpilogue
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.plan.nodes import ClusterBarrier, NamedBarrier, Section, when
from cugen.plan.symbols import Integer, integer


def partials_bytes(contraction: Contraction, config: WgmmaConfig) -> int:
    """Of a block's partial sums in shared memory."""
    problem = problem_of(contraction)
    return int(config.block_m) * (int(config.block_n) + partials_pad(problem, config)) * problem.accumulator_bytes


class ClusterEpilogue(SharedEpilogue):
    """What the consumers do with their accumulators, and what follows when all blocks of the cluster have done so."""

    def sections(self) -> tuple[Section, ...]:
        """Stores the accumulators once no warpgroup reads the pipeline."""
        (_, store) = self._store_accumulators()
        consumers = NamedBarrier(integer(0), self.config.threads)
        return Section("pipeline_read", (consumers,)), store

    def reduce_cluster(self, rank: Integer) -> tuple[Section, ...]:
        """Adds the partial sums of all blocks to the block's part of the tile, in all threads of the block."""
        statements = when(self.thread.index, "<", integer(self.config.threads), self._reduce_and_store(rank))
        return (
            Section("cluster_stored", (ClusterBarrier(),)),
            Section("reduce", (statements,)),
            Section("cluster_read", (ClusterBarrier(),)),
        )
