"""The two products of a step on tensor cores: scores of q and k, and sums of rows of v by weights.

Scores stay in registers: those of a lane are where the first operand of the second product needs them, if the keys of
each block of 8 are taken in the order 0, 2, 4, 6, 1, 3, 5, 7. Weights are float32, split into two parts of tf32, and
elements of v are numbers of tf32 as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.attention.config import MATRIX, AttentionConfig
from cugen.families.attention.cost_model import OF_PARTS, PARTS
from cugen.families.attention.recognition import Attention
from cugen.families.attention.softmax import Accumulators
from cugen.families.attention.tiles import MatrixRow, Tile
from cugen.machine.mma import INSTRUCTIONS, MmaInstruction
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import ConvertFragment, Declare, For, Index, LoadMatrix, Loop, Mma, Node, Section, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.types import FLOAT32, UINT32, DType

_WORDS = 4  # of the fragments that one ldmatrix loads
_HALVES = 2  # blocks of 8 keys, or of 8 columns, of these


@dataclass(frozen=True, slots=True)
class Fragments:
    """Registers of the operands: words of two elements of `q`, `k` and `v`; numbers of v in tf32, `weights` of a lane
    for an instruction, and their `parts`, of 16 keys."""

    q: Array
    k: Array
    v: Array
    v_numbers: Array
    weights: Array
    parts: Array

    @staticmethod
    def of(attention: Attention, config: AttentionConfig, lowering: Lowering) -> Fragments:
        def registers(name: str, *extents: int, dtype: DType = UINT32) -> Array:
            return dense_array(lowering.names.allocate(name), dtype, extents, "register")

        q, k, v = (read.array.lower() for read in (attention.query, attention.keys, attention.values))
        return Fragments(
            registers(f"{q}_frag", config.instructions, _WORDS),
            registers(f"{k}_frag", _HALVES, _HALVES),
            registers(f"{v}_frag", _WORDS),
            registers(f"{v}_tf32", _WORDS, _HALVES),
            registers("weight_frag", _WORDS, dtype=FLOAT32),
            registers("weight_parts", config.instructions, _HALVES, PARTS, _WORDS),
        )

    def declarations(self) -> tuple[Node, ...]:
        return tuple(map(Declare, (self.q, self.k, self.v, self.v_numbers, self.weights, self.parts)))


class Products:
    """The nodes of both products. `warp_row` is the warp's first row in the tile of q."""

    def __init__(
        self,
        attention: Attention,
        config: AttentionConfig,
        lowering: Lowering,
        accumulators: Accumulators,
        matrix_rows: tuple[MatrixRow, MatrixRow],
        warp_row: Integer,
    ) -> None:
        self.attention, self.config, self.lowering = attention, config, lowering
        self.accumulators, self.matrix_rows, self.warp_row = accumulators, matrix_rows, warp_row
        self.fragments = Fragments.of(attention, config, lowering)
        dtype = attention.array(attention.query).dtype.name
        self.instruction = INSTRUCTIONS[dtype, dtype]
        self.of_values = f"{attention.array(attention.values).dtype.name}_as_float32"

    def scores(self, q: Tile, k: Tile, stage: Integer) -> Section:
        """The loop over blocks of 16 elements of the rows of q and k."""
        fragments, config = self.fragments, self.config
        d = self._index(self.attention.depth.name, q.width, "depth")
        g, i = self._index("g", config.keys // MATRIX), self._index("i", config.instructions)
        of_a, of_b = self.matrix_rows
        q_matrices = q.matrices(integer(0), self.warp_row + MATRIX * i.symbol, d.symbol, of_a)
        load_q = LoadMatrix(_words(fragments.q, i.symbol), q_matrices)
        load_k = LoadMatrix(_words(fragments.k), k.matrices(stage, MATRIX * g.symbol, d.symbol, of_b))
        n = self._index("n", _HALVES)
        a, b = Access(fragments.q, (i.symbol, integer(0)), "load", _WORDS), self._pair(fragments.k, n.symbol)
        mma = self._mma(self.accumulators.scores, i, 4 * g.symbol + 2 * n.symbol, a, b, self.instruction)
        products = self._unrolled(i, (unrolled(n, (mma,)),))
        body = (
            Section("load_rows", self._unrolled(i, (load_q,))),
            Section("keys", (unrolled(g, (load_k, *products)),)),
        )
        return Section("scores", (For(Loop(d, integer(0), integer(q.width), MATRIX, unroll=True), body),))

    def sums(self, v: Tile, stage: Integer) -> Section:
        """The loop over blocks of 16 keys: parts of their weights, and products with all columns of v."""
        fragments, config = self.fragments, self.config
        g, i = self._index("g", config.keys // MATRIX), self._index("i", config.instructions)
        m = self._index("m", v.width // MATRIX, "columns of v")
        matrices = v.matrices(stage, MATRIX * g.symbol, MATRIX * m.symbol, self.matrix_rows[0])
        load = LoadMatrix(_words(fragments.v), matrices, transposed=True)
        numbers = ConvertFragment(_all(fragments.v_numbers, "store"), _all(fragments.v, "load"), self.of_values)
        half, part, n = self._index("u", _HALVES), self._index("part", PARTS), self._index("n", _HALVES)
        a = Access(fragments.parts, (i.symbol, half.symbol, part.symbol, integer(0)), "load", _WORDS)
        b = self._pair(fragments.v_numbers, 2 * n.symbol + half.symbol)
        mma = self._mma(self.accumulators.sums, i, 4 * m.symbol + 2 * n.symbol, a, b, OF_PARTS)
        products = self._unrolled(i, (unrolled(half, (unrolled(part, (unrolled(n, (mma,)),)),)),))
        columns = unrolled(m, (load, numbers, *products))
        body = Section("split_weights", self._split(g, i, half)), Section("columns", (columns,))
        return Section("sums", (unrolled(g, body),))

    def _split(self, g: Index, i: Index, half: Index) -> tuple[Node, ...]:
        """Parts of the weights of 16 keys, in the order of an instruction's fragment."""
        fragments, scores = self.fragments, self.accumulators.scores
        h, v = self._index("h", 2), self._index("v", 2)
        score = Access(scores, (2 * i.symbol + h.symbol, 4 * g.symbol + 2 * half.symbol + v.symbol), "load")
        gather = Store(Access(fragments.weights, (h.symbol + 2 * v.symbol,), "store"), Element.of(score))
        parts = Access(fragments.parts, (i.symbol, half.symbol, integer(0), integer(0)), "store", PARTS * _WORDS)
        convert = ConvertFragment(parts, _all(fragments.weights, "load"), "tf32_parts")
        nodes = unrolled(half, (unrolled(v, (unrolled(h, (gather,)),)), convert))
        return self._unrolled(i, (nodes,))

    def _mma(
        self, accumulators: Array, i: Index, column: Integer, a: Access, b: Access, instruction: MmaInstruction
    ) -> Mma:
        upper, lower = (Access(accumulators, (2 * i.symbol + h, column), "store", 2) for h in range(2))
        return Mma(upper, lower, a, b, instruction)

    def _pair(self, fragment: Array, row: Integer) -> Access:
        return Access(fragment, (row, integer(0)), "load", 2)

    def _index(self, hint: str, count: int, loop: str = "") -> Index:
        return shared_loop_variable(hint, (0, int(count) - 1), self.lowering, loop or f"{hint} of products")

    def _unrolled(self, index: Index, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return (unrolled(index, nodes),)


def _words(array: Array, *row: Integer) -> Access:
    """What one ldmatrix loads: a row of registers, or all of them."""
    return Access(array, (*row, *[integer(0)] * (len(array.shape) - len(row))), "store", _WORDS)


def _all(array: Array, kind: str) -> Access:
    width = 1
    for extent in array.shape:
        width *= int(extent)
    return Access(array, (integer(0),) * len(array.shape), kind, width)
