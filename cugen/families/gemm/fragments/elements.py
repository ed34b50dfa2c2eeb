"""Register fragments of a strided thread tile: TM elements of A and TN elements of B of one k, loaded one by one.

A thread tile of one element has none: its factors are read from the tiles where they are multiplied, unless the spec
requests registers. A single row or column is a scalar."""

from __future__ import annotations

from cugen.families.gemm.copy.elements import ElementCopies
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Declare, Load, Node, Store
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, Local, Read, walk


class ElementFragments:
    """The fragments of all operands. The current k-tile begins at the global `k_tile`."""

    description = "register fragments of A and B for one k"

    def __init__(self, pipelines: list[ElementCopies], accumulators: Accumulators, k_tile: Integer) -> None:
        self.thread, self.accumulators = accumulators.thread, accumulators
        self.pipelines, self.k_tile = pipelines, k_tile
        self._factors: dict[Read, tuple[Array, Integer] | Expr] = {}

    def declarations(self) -> tuple[Node, ...]:
        return ()

    def load(self, stage: Integer, k: Integer, buffer: Integer) -> tuple[Node, ...]:
        """Declares and loads the fragments of one k of the k-tile."""
        config, nodes = self.thread.config, list[Node]()
        for pipeline in self.pipelines:
            count = config.thread_m if pipeline.operand.is_along_m else config.thread_n
            nodes += (self._load_element if count == 1 else self._load_fragment)(pipeline, k)
        return tuple(nodes)

    def _load_element(self, pipeline: ElementCopies, k: Integer) -> tuple[Node, ...]:
        thread, read = self.thread, pipeline.operand.read
        mn = thread.m_in_tile if pipeline.operand.is_along_m else thread.n_in_tile
        value, loads = pipeline.element(self.k_tile, k, mn)
        uses = sum(node == read for reduction in thread.contraction.reductions for node in walk(reduction.body))
        is_named = uses > 1 or pipeline.operand.is_in_registers or not thread.config.is_scalar
        if isinstance(value, Element) and is_named:
            local = Local(thread.lowering.names.allocate(read.array.lower()), value.dtype)
            loads = (Load(local, value.access),)
            value = local
        self._factors[read] = value
        return loads

    def _load_fragment(self, pipeline: ElementCopies, k: Integer) -> tuple[Node, ...]:
        thread, config, read = self.thread, self.thread.config, pipeline.operand.read
        along_m = pipeline.operand.is_along_m
        count = config.thread_m if along_m else config.thread_n
        index = thread.loop_index("i" if along_m else "j", count)
        mn = thread.row(index.symbol) if along_m else thread.column(index.symbol, 1)
        name = thread.lowering.names.allocate(f"{read.array.lower()}_frag")
        fragment = dense_array(name, read.dtype, (count,), "register")
        value, loads = pipeline.element(self.k_tile, k, mn)
        self._factors[read] = fragment, index.symbol
        store = Store(Access(fragment, (index.symbol,), "store"), value)
        return Declare(fragment), unrolled(index, (*loads, store), stop=count)

    def multiply_accumulate(self, buffer: Integer, k: Integer) -> tuple[Node, ...]:
        return self.accumulators.multiply_accumulate(self._factor, self.k_tile, k)

    def _factor(self, read: Read) -> Expr | None:
        factor = self._factors.get(read)
        if isinstance(factor, tuple):
            fragment, position = factor
            return Element.of(Access(fragment, (position,), "load"))
        return factor
