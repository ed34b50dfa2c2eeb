"""Register fragments of a lane on tensor cores: its elements of A and B for one `mma_k`, in one or two buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cugen.families.contraction.k_range import KBounds, guarded
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.families.gemm.tensor_cores import MMA_M, MMA_N
from cugen.machine.mma import MmaInstruction
from cugen.pieces.blocks import define
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Comment, Declare, For, If, Index, LoadMatrix, Loop, Mma, Node, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr, Op, free_indices
from cugen.spec.types import UINT32, DType

ROW_DISTANCE = 8  # rows between the halves of a fragment of A (PTX ISA, mma.m16n8k4)
_K_DISTANCE = 4  # k between consecutive elements of a lane's fragment (PTX ISA, mma.m16n8k4)


@dataclass(frozen=True)
class TensorFragment:
    """The fragments of one operand, in each buffer: for instructions whose tiles are `stride` elements apart, the first
    at `offset`. Each has `halves` that are 8 rows apart. `instruction` is the loop index over the instructions."""

    pipeline: OperandPipeline
    offset: Integer
    stride: int
    halves: int
    elements: int  # of a lane for one instruction
    registers: Array
    instruction: Index
    count: int  # instructions along this operand's M or N


class TensorFragments:
    """The fragments of both operands. `buffer` selects a register buffer; the k-tile begins at the global `k_tile`."""

    description = "register fragments of A and B for one MMA"

    def __init__(self, pipelines: list[OperandPipeline], accumulators: Accumulators, k_tile: Integer) -> None:
        thread, config = accumulators.thread, accumulators.config
        self.thread, self.config, self.accumulators, self.k_tile = thread, config, accumulators, k_tile
        assert config.mma is not None
        self.instruction = config.mma
        a, b = pipelines
        count_m, count_n = config.thread_m // 2, config.thread_n // 2
        self._a = self._fragment(a, thread.m_in_tile, MMA_M, 2, thread.loop_index("i", count_m), count_m)
        self._b = self._fragment(b, thread.b_fragment_n, MMA_N, 1, thread.loop_index("j", count_n), count_n)

    def _fragment(
        self, pipeline: OperandPipeline, offset: Integer, stride: int, halves: int, instruction: Index, count: int
    ) -> TensorFragment:
        elements = self.instruction.a_registers if halves > 1 else self.instruction.b_registers
        dtype = self._registers_type(pipeline)
        name = self.thread.lowering.names.allocate(f"{pipeline.operand.read.array.lower()}_frag")
        extents = self.config.fragment_buffers, count, elements
        registers = dense_array(name, dtype, extents, "register")
        return TensorFragment(pipeline, offset, stride, halves, elements, registers, instruction, count)

    def _registers_type(self, pipeline: OperandPipeline) -> DType:
        """The type of a register of a fragment."""
        return UINT32 if self.instruction.has_words else pipeline.tile.dtype

    def declarations(self) -> tuple[Node, ...]:
        return Declare(self._a.registers), Declare(self._b.registers)

    def load(self, stage: Integer, k: Integer, buffer: Integer) -> Iterator[Node]:
        """Loads the fragments of `mma_k`, from `k` of a stage on, into a buffer."""
        for fragment in (self._a, self._b):
            yield from self._load_fragment(fragment, stage, k, buffer)

    def _load_fragment(self, fragment: TensorFragment, stage: Integer, k: Integer, buffer: Integer) -> Iterator[Node]:
        if fragment.pipeline.loads_matrices:
            yield self._load_matrices(fragment, stage, k, buffer)
            if self.instruction.is_rounded:
                yield self._round(fragment, buffer)
            return
        loops = [(fragment.instruction, fragment.count)]
        element, mn = integer(0), fragment.offset + fragment.instruction.symbol * fragment.stride
        if (count_k := self.instruction.k // _K_DISTANCE) > 1:
            u = self.thread.loop_index("u", count_k)
            loops.append((u, count_k))
            element, k = u.symbol * fragment.halves, k + _K_DISTANCE * u.symbol
        if fragment.halves > 1:
            h = self.thread.loop_index("h", fragment.halves)
            loops.append((h, fragment.halves))
            element, mn = element + h.symbol, mn + ROW_DISTANCE * h.symbol
        register = Access(fragment.registers, (buffer, fragment.instruction.symbol, element), "store")
        value: Expr = Element.of(fragment.pipeline.mma_load(stage, k, mn))
        node: Node = Store(register, _rounded(value) if self.instruction.is_rounded else value)
        for index, count in reversed(loops):
            node = unrolled(index, (node,), stop=count)
        yield node

    def _load_matrices(self, fragment: TensorFragment, stage: Integer, k: Integer, buffer: Integer) -> Node:
        """Loads the fragments of an operand by `ldmatrix`: those of A for one instruction at a time, of B for two."""
        together = 4 // fragment.elements
        number = fragment.instruction.symbol
        words = Access(fragment.registers, (buffer, number, integer(0)), "store", 4)
        source = fragment.pipeline.matrix_load(stage, k, number * fragment.stride)
        node = LoadMatrix(words, source, transposed=not fragment.pipeline.is_tile_k_major)
        return unrolled(fragment.instruction, (node,), together, stop=fragment.count)

    def _round(self, fragment: TensorFragment, buffer: Integer) -> Node:
        """Rounds the words of an operand's fragments, which `ldmatrix` loaded unchanged."""
        word = self.thread.loop_index("w", fragment.elements)
        subscripts = buffer, fragment.instruction.symbol, word.symbol
        loaded = Element.of(Access(fragment.registers, subscripts, "load"))
        node: Node = Store(Access(fragment.registers, subscripts, "store"), _rounded(loaded))
        for index, count in ((word, fragment.elements), (fragment.instruction, fragment.count)):
            node = unrolled(index, (node,), stop=count)
        return node

    def multiply_accumulate(self, buffer: Integer, k: Integer) -> tuple[Node, ...]:
        """The instructions of a warp tile for one `mma_k`; in boundary tiles, those with no masked term."""
        if not self.thread.contraction.conditions:
            return self._products(buffer)
        comment = Comment("no term of the k-tile is masked")
        is_unmasked = self.thread.k_bounds.unmasked(self.k_tile)
        return (If(is_unmasked, (comment, *self._products(buffer)), self._unmasked_products(buffer, k)),)

    def _products(self, buffer: Integer) -> tuple[Node, ...]:
        return (_repeated(self._mma_of(buffer), (self._a, self._b)),)

    def _unmasked_products(self, buffer: Integer, k: Integer) -> tuple[Node, ...]:
        bounded, others = self._bounded_fragments()
        unmasked = If(self._k_bounds().unmasked(self.k_tile + k), (_repeated(self._mma_of(buffer), others),))
        return (_repeated(unmasked, bounded),)

    def _mma_of(self, buffer: Integer) -> Mma:
        """The instruction on the fragments of a buffer."""
        a, b = self._a, self._b
        return self._mma(
            Access(a.registers, (buffer, a.instruction.symbol, integer(0)), "load", a.elements),
            Access(b.registers, (buffer, b.instruction.symbol, integer(0)), "load", b.elements),
            self.instruction,
        )

    def _mma(self, a: Access, b: Access, instruction: MmaInstruction) -> Mma:
        """An instruction on registers of A and B for the accumulators of both loop indices."""
        (accumulators,) = self.accumulators.arrays
        i, j = self._a.instruction.symbol, self._b.instruction.symbol
        upper, lower = (Access(accumulators, (2 * i + half, 2 * j), "store", 2) for half in range(2))
        return Mma(upper, lower, a, b, instruction)

    def masked_terms(self, stage: Integer, k_step: Index, first_k: Integer) -> tuple[Node, ...]:
        """Adds the unmasked terms of those instructions that have masked ones, too, one by one from the tiles of a
        stage: masked terms may be infinite, so that multiplying them by 0 would not do. `first_k` is that of a k step,
        in the k-tile."""
        thread, contraction, lowering = self.thread, self.thread.contraction, self.thread.lowering
        if not contraction.conditions:
            return ()
        a, b, u = self._a, self._b, thread.loop_index("u", self.instruction.k)
        h, v = thread.loop_index("h", a.halves), thread.loop_index("v", 2)
        row = define("row", a.offset + a.instruction.symbol * a.stride + ROW_DISTANCE * h.symbol, lowering)
        column = define("column", thread.n_in_tile + b.instruction.symbol * b.stride + v.symbol, lowering)
        m, n, k = row.index.symbol, column.index.symbol, first_k + u.symbol
        elements = {
            a.pipeline.operand.read: Element.of(a.pipeline.tile_element(stage, k, m, thread.lane_m)),
            b.pipeline.operand.read: Element.of(b.pipeline.tile_element(stage, k, n, 2 * thread.lane_n + v.symbol)),
        }
        accumulator = 2 * a.instruction.symbol + h.symbol, 2 * b.instruction.symbol + v.symbol
        symbols = {
            **lowering.symbols,
            contraction.m.name: thread.tile_origin[contraction.m.name] + m,
            contraction.n.name: thread.tile_origin[contraction.n.name] + n,
            contraction.k.name: self.k_tile + k,
        }
        adds = self.accumulators.add_terms(accumulator, elements.get)
        of_row = unrolled(v, (column, *guarded(lowering, contraction.conditions, symbols, adds)), stop=2)
        of_instruction = unrolled(h, (row, of_row), stop=a.halves)
        bounded, others = self._bounded_fragments()
        of_k = Loop(u, integer(0), integer(self.instruction.k), rolled=True)
        boundary = If(
            self._k_bounds().boundary(self.k_tile + first_k), (For(of_k, (_repeated(of_instruction, others),)),)
        )
        k_steps = Loop(k_step, integer(0), integer(self.config.warp_k), self.config.fragment_k, rolled=True)
        comment = Comment("terms of a boundary tile that share an instruction with masked ones")
        is_boundary = thread.k_bounds.boundary(self.k_tile)
        return (If(is_boundary, (comment, For(k_steps, (_repeated(boundary, bounded),)))),)

    def _bounded_fragments(self) -> tuple[list[TensorFragment], list[TensorFragment]]:
        """The fragments of operands on whose M or N a condition depends, and the others."""
        names = frozenset[str]().union(*map(free_indices, self.thread.contraction.conditions))
        fragments = self._a, self._b
        bounded = [fragment for fragment in fragments if fragment.pipeline.operand.mn.name in names]
        return bounded, [fragment for fragment in fragments if fragment not in bounded]

    def _k_bounds(self) -> KBounds:
        """The bounds of k in the accumulators of the current instruction."""
        a, b = self._a, self._b
        return self.thread.k_bounds_of_fragment(a.instruction.symbol * a.stride, b.instruction.symbol * b.stride)


def _repeated(node: Node, fragments: Sequence[TensorFragment]) -> Node:
    """The node in unrolled loops over the instructions along each fragment's M or N, the first outermost."""
    for fragment in reversed(fragments):
        node = unrolled(fragment.instruction, (node,), stop=fragment.count)
    return node


def _rounded(value: Expr) -> Expr:
    """The word of a float32 that is rounded to tf32."""
    return Op("to_tf32", (value,), UINT32)
