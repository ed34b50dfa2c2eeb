"""Register fragments of a float32 operand beside one of 16 bits: parts of bfloat16, which tensor cores multiply.

    a_frag[i]  = a_parts[0] + a_parts[1] + a_parts[2]        float32: exactly
    b_frag[j]  = b_parts[j][0] + b_parts[j][1]               float16: exactly; bfloat16 is its only part
    acc[i][j] += a_parts[0] * b_parts[j][0] + a_finite * b_parts[j][1]
               + a_parts[1] * b_finite[j] + a_parts[1] * b_parts[j][1] + a_parts[2] * b_finite[j] + ...
The parts of one fragment of the float32 operand are in registers at a time, and multiplied by all fragments of the
other one, so that consecutive instructions add to different accumulators.

Parts narrow than the first may be 0. Their products with an infinity would be NaN: they are multiplied by the first
parts without infinities, `a_finite` and `b_finite`. An infinity has finite parts besides the first, of its sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import sympy

from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.fragments.tensor import ROW_DISTANCE, TensorFragment, TensorFragments
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.machine.mma import INSTRUCTIONS
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import ConvertFragment, Declare, For, Guard, If, Load, Loop, Node, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.types import FLOAT16, UINT32, DType

_PAIR_DISTANCE = 8  # k between consecutive pairs of 16-bit elements of a lane's fragment (PTX ISA, mma.m16n8k16)
_SPLIT_PARTS, _FLOAT16_PARTS = 3, 2


class SplitFragments(TensorFragments):
    """The fragments of both operands, of which one is split."""

    def __init__(self, pipelines: list[OperandPipeline], accumulators: Accumulators, k_tile: Integer) -> None:
        super().__init__(pipelines, accumulators, k_tile)
        split, narrow = (self._a, self._b) if self.instruction.split == "a" else (self._b, self._a)
        names, dtype, words = self.thread.lowering.names, split.pipeline.tile.dtype, split.elements // 2
        self._split, self._narrow = split, narrow
        self._pair = Vector(names.allocate("pair"), dtype.compute, dtype, 2)
        self._parts = self._words(split, "parts", _SPLIT_PARTS, words)
        self._narrow_finite = self._words(narrow, "finite", narrow.count, narrow.elements)
        self._converted = [self._parts, self._narrow_finite]
        self._narrow_parts: Array | None = None
        if narrow.pipeline.tile.dtype == FLOAT16:
            self._narrow_parts = self._words(narrow, "parts", narrow.count, _FLOAT16_PARTS, narrow.elements)
            self._finite = self._words(split, "finite", words)
            self._converted += [self._narrow_parts, self._finite]

    def _words(self, fragment: TensorFragment, what: str, *extents: int) -> Array:
        """Registers of two elements each."""
        name = self.thread.lowering.names.allocate(f"{fragment.pipeline.operand.read.array.lower()}_{what}")
        return dense_array(name, UINT32, extents, "register")

    def declarations(self) -> tuple[Node, ...]:
        return (*super().declarations(), *map(Declare, self._converted))

    def _registers_type(self, pipeline: OperandPipeline) -> DType:
        return pipeline.tile.dtype if pipeline.is_split else UINT32

    def _load_fragment(self, fragment: TensorFragment, stage: Integer, k: Integer, buffer: Integer) -> Iterator[Node]:
        """Loads the elements that are split in the order of the words of their parts: by pairs from a K-major tile,
        else one by one."""
        if not fragment.pipeline.is_split:
            yield from super()._load_fragment(fragment, stage, k, buffer)
            return
        pairs = self.instruction.k // _PAIR_DISTANCE
        number, u, v = fragment.instruction, self.thread.loop_index("u", pairs), self.thread.loop_index("v", 2)
        loops = [(number, fragment.count), (u, pairs)]
        element, mn = 2 * fragment.halves * u.symbol, fragment.offset + number.symbol * fragment.stride
        k += _PAIR_DISTANCE * u.symbol
        if fragment.halves > 1:
            h = self.thread.loop_index("h", fragment.halves)
            loops.append((h, fragment.halves))
            element, mn = element + 2 * h.symbol, mn + ROW_DISTANCE * h.symbol
        register = Access(fragment.registers, (buffer, number.symbol, element + v.symbol), "store")
        nodes: tuple[Node, ...]
        if fragment.pipeline.is_tile_k_major:
            store = Store(register, self._pair.component(v.symbol))
            nodes = Load(self._pair, fragment.pipeline.mma_load(stage, k, mn)), unrolled(v, (store,), stop=2)
        else:
            store = Store(register, Element.of(fragment.pipeline.mma_load(stage, k + v.symbol, mn)))
            nodes = (unrolled(v, (store,), stop=2),)
        for index, count in reversed(loops):
            nodes = (unrolled(index, nodes, stop=count),)
        yield from nodes

    def _products(self, buffer: Integer) -> tuple[Node, ...]:
        return self._products_where(None, buffer)

    def _unmasked_products(self, buffer: Integer, k: Integer) -> tuple[Node, ...]:
        return self._products_where(self._k_bounds().unmasked(self.k_tile + k), buffer)

    def _products_where(self, guard: Guard | None, buffer: Integer) -> tuple[Node, ...]:
        """The products of all pairs of parts, in those instructions for which a guard holds."""

        def products(of_split: Access, of_narrow: Access) -> Node:
            a, b = (of_split, of_narrow) if self._split is self._a else (of_narrow, of_split)
            mma = self._mma(a, b, INSTRUCTIONS["bfloat16", "bfloat16"])
            body = (mma,) if guard is None else (If(guard, (mma,)),)
            return unrolled(self._narrow.instruction, body, stop=self._narrow.count)

        split, narrow, narrow_parts = self._split, self._narrow, self._narrow_parts
        j = narrow.instruction.symbol
        part = self.thread.loop_index("part", _SPLIT_PARTS)
        source = _row(narrow.registers, buffer, j)
        finite_of = _row(narrow.registers, buffer, j) if narrow_parts is None else _row(narrow_parts, j, 0)
        conversions = [ConvertFragment(_row(self._narrow_finite, j), finite_of, "finite_bfloat16")]
        if narrow_parts is not None:
            conversions.insert(0, ConvertFragment(_row(narrow_parts, j), source, "float16_parts"))
        convert_narrow = unrolled(narrow.instruction, conversions, stop=narrow.count)

        values = _row(split.registers, buffer, split.instruction.symbol)
        body: list[Node] = [ConvertFragment(_row(self._parts), values, "bfloat16_parts")]
        later = [products(_row(self._parts, part.symbol), _row(self._narrow_finite, j))]
        if narrow_parts is None:
            body.append(products(_row(self._parts, 0), _row(narrow.registers, buffer, j)))
        else:
            body.append(ConvertFragment(_row(self._finite), _row(self._parts, 0), "finite_bfloat16"))
            body.append(products(_row(self._parts, 0), _row(narrow_parts, j, 0)))
            body.append(products(_row(self._finite), _row(narrow_parts, j, 1)))
            later.append(products(_row(self._parts, part.symbol), _row(narrow_parts, j, 1)))
        body.append(For(Loop(part, integer(1), integer(_SPLIT_PARTS), unroll=True), tuple(later)))
        return convert_narrow, unrolled(split.instruction, body, stop=split.count)


def _row(array: Array, *subscripts: Integer | int) -> Access:
    """The registers of a row of an array, or of all of it."""
    extents = [int(extent) for extent in array.shape[len(subscripts) :]]
    first = (*map(sympy.sympify, subscripts), *[integer(0)] * len(extents))
    return Access(array, first, "load", math.prod(extents))
