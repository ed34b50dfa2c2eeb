"""Register fragments of a thread on CUDA cores: TM elements of A and TN elements of B of one k.

In a multistage pipeline they have a double buffer: the fragments of the next k are loaded while those of this k are
multiplied, also across the barrier between two k-tiles. Too few warps are resident to hide the latency of shared memory
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.gemm.config import Addressing
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Element, Start, Vector
from cugen.plan.nodes import Assign, Let, Load, Node
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, Read


@dataclass(frozen=True)
class SimtFragment:
    """The fragment of one operand, in each buffer: `count` vectors of `vector.width` elements, `stride` elements apart
    in the tile, the first at `offset`. `element` is the loop index over its elements. `tile_pointer` points to the
    thread's part of the tile, with `addressing: pointer`."""

    pipeline: OperandPipeline
    offset: Integer
    stride: int
    count: int
    vector: Vector
    element: Integer
    tile_pointer: Start | None

    def vector_at(self, number: Integer, buffer: Integer) -> Vector:
        if self.vector.rows:
            return self.vector.indexed(number, buffer)
        return self.vector.indexed(buffer if self.count == 1 else number)


class SimtFragments:
    """The fragments of all operands. `buffer` selects a register buffer; the k-tile begins at the global `k_tile`."""

    description = "register fragments of A and B for one k"

    def __init__(self, pipelines: list[OperandPipeline], accumulators: Accumulators, k_tile: Integer) -> None:
        thread, config = accumulators.thread, accumulators.config
        self.thread, self.accumulators, self.k_tile = thread, accumulators, k_tile
        i, j = thread.loop_index("i", config.thread_m), thread.loop_index("j", config.thread_n)
        sides = (
            (i, thread.m_in_tile, config.thread_m, config.lanes_m, thread.fragment_widths[0]),
            (j, thread.n_in_tile, config.thread_n, config.lanes_n, thread.fragment_widths[1]),
        )
        self._fragments = []
        for pipeline in pipelines:
            element, offset, per_thread, lanes, width = sides[0 if pipeline.operand.is_along_m else 1]
            dtype = pipeline.tile.dtype
            name = thread.lowering.names.allocate(f"{pipeline.operand.read.array.lower()}_frag")
            count, buffers = per_thread // width, config.fragment_buffers
            vectors, rows = (count, buffers) if min(count, buffers) > 1 else (max(count, buffers), 0)
            vector = Vector(name, dtype.compute, dtype, width, vectors, rows=rows)
            pointer = self._tile_pointer(pipeline, offset) if config.addressing == Addressing.POINTER else None
            self._fragments.append(
                SimtFragment(pipeline, offset, lanes * width, count, vector, element.symbol, pointer)
            )

    def _tile_pointer(self, pipeline: OperandPipeline, offset: Integer) -> Start:
        """Pointer to the thread's part of stage 0."""
        thread = self.thread
        name = thread.lowering.names.allocate(f"{pipeline.operand.read.array.lower()}_shared")
        k = thread.k_slice * integer(thread.config.warp_k)
        return Start(name, pipeline.tile, pipeline.in_tile(integer(0), k, offset))

    def declarations(self) -> tuple[Node, ...]:
        pointers = tuple(fragment.tile_pointer for fragment in self._fragments if fragment.tile_pointer is not None)
        return (*(Let(fragment.vector, None, mutable=True) for fragment in self._fragments), *pointers)

    def load(self, stage: Integer, k: Integer, buffer: Integer) -> Iterator[Node]:
        """Loads the fragments of one k of a stage into a buffer."""
        for fragment in self._fragments:
            vector, count = fragment.vector, fragment.count
            u = self.thread.loop_index("u", count) if count > 1 else None
            number = u.symbol if u is not None else integer(0)
            access = fragment.pipeline.load(stage, k, fragment.offset + number * fragment.stride, vector.width)
            access = replace(access, start=fragment.tile_pointer)
            target = fragment.vector_at(number, buffer)
            load: Node = Load(target, access)
            if vector.width == 1:  # rows whose pad leaves no vector aligned
                load = Assign(target.component(integer(0)), Element.of(access))
            yield load if u is None else unrolled(u, (load,), stop=count)

    def multiply_accumulate(self, buffer: Integer, k: Integer) -> tuple[Node, ...]:
        factors: dict[Read, Expr] = {}
        for fragment in self._fragments:
            width = integer(fragment.vector.width)
            vector = fragment.vector_at(FloorDiv(fragment.element, width), buffer)
            factors[fragment.pipeline.operand.read] = vector.component(Mod(fragment.element, width))
        return self.accumulators.multiply_accumulate(factors.get, self.k_tile, k)
