"""The kernel of a contraction in the strided layout: BN / TN x BM / TM threads, with elements that far apart."""

from __future__ import annotations

from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.main_loop import SingleStage
from cugen.pieces.blocks import Blocks
from cugen.plan.memory import Array
from cugen.plan.nodes import Declare, Node, Section
from cugen.plan.symbols import integer, symbol


class TiledKernel(GemmKernel):
    """Builder of the kernel of one contraction whose tile config is strided."""

    template = "tiled"

    def _declarations(self, tiles: tuple[Array, ...]) -> tuple[Node, ...]:
        return tuple(map(Declare, tiles))

    def _coordinates(self, blocks: Blocks) -> tuple[tuple[Section, ...], ThreadCoordinates]:
        contraction, config, nodes = self.contraction, self.config, list[Node]()
        self.lowering.ranges |= {
            symbol("threadIdx.x"): (0, int(config.lanes_n) - 1),
            symbol("threadIdx.y"): (0, int(config.lanes_m) - 1),
        }
        tx, ty = (self._named(f"t{axis}", symbol(f"threadIdx.{axis}"), nodes) for axis in "xy")
        tile_origin, k_residue = self._tile_coordinates(blocks, nodes)
        if config.is_scalar:
            for index, thread in ((contraction.m, ty), (contraction.n, tx)):
                element = tile_origin[index.name] + thread
                self.lowering.symbols[index.name] = self._named(index.name, element, nodes)
        number = ty * integer(config.lanes_n) + tx
        coordinates = self.thread_at(
            index=number,
            copy_thread=number,
            tile_origin=tile_origin,
            m_in_tile=ty,
            n_in_tile=tx,
            lane_m=ty,
            lane_n=tx,
            k_residue=k_residue,
        )
        return (Section("coordinates", tuple(nodes)),), coordinates

    def _main_loop(self, pipelines: list[OperandPipeline], accumulators: Accumulators) -> SingleStage:
        thread = accumulators.thread
        start, stop = thread.k_bounds.k_range(self.k_extent, thread.k_residue)
        return SingleStage(pipelines, accumulators, self.k_extent, stop, start)

    def _reason(self) -> str:
        config, sums = self.config, len(self.contraction.reductions)
        what = f"{'a contraction' if sums == 1 else f'{sums} contractions'} over {self.contraction.k.name}"
        block = f"block tile {config.block_m} x {config.block_n} x {config.block_k}"
        return f"{what}: {block}, thread tile {config.thread_m} x {config.thread_n}"
