"""The kernel of a skinny GEMM: each thread multiplies its part of K, then threads add their partial sums.

Threads along one axis of the block have columns of B of their own, those along the other split K.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from cugen.families.gemm.fragments.thread_tile import accumulate
from cugen.families.gemm.fragments.vectors import SINGLE, VectorFragment
from cugen.families.gemm.skinny.config import GemvConfig
from cugen.families.gemm.skinny.recognition import SkinnyGemm
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import define, define_index, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, dense_array, new_lowering
from cugen.pieces.loop_variables import repeated, repeated_sections, shared_loop_variable, value_of
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.reductions import loop_bound
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import Declare, Define, For, Index, Loop, Node, Section
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, Integer, Minimum, ceil_div, integer, symbol
from cugen.spec import expressions as spec
from cugen.spec.expressions import Local, Read


class SkinnyKernel(ABC):
    """Builder of a skinny GEMM's kernel. Subclasses clamp columns and add partial sums as the layout of B requires."""

    def __init__(self, gemm: SkinnyGemm, config: GemvConfig) -> None:
        self.gemm, self.config, self.request = gemm, config, gemm.request
        self.lowering = new_lowering(gemm.request)
        x, y = (WARP_SIZE, config.warps) if gemm.is_k_major else (config.lanes, config.k_groups)
        self.block = (x, y, 1)
        self.lane, self.group = thread("x", x, self.lowering), thread("y", y, self.lowering)
        self.n_in_block = (self.group if gemm.is_k_major else self.lane) * config.tile_n
        self.first_k = (self.lane if gemm.is_k_major else self.group) * config.k_width
        self.block_n, self.block_k = config.block_n(gemm), config.k_width * (x if gemm.is_k_major else y)
        self.n_extent = gemm.context.extent(gemm.n)
        self.is_even = divides(self.block_n, self.n_extent, gemm.context)

    def kernel(self) -> Kernel:
        gemm, lowering = self.gemm, self.lowering
        extents = [gemm.context.extent(index) for index in gemm.batch]
        count = ceil_div(self.n_extent, self.block_n)
        blocks = make_grid([count, *extents], lowering, self.request.target)
        block, *batch_coordinates = blocks.coordinates
        batch = [
            define_index(index.name, coordinate, extent, lowering, below=extent)
            for index, coordinate, extent in zip(gemm.batch, batch_coordinates, extents, strict=True)
        ]
        n0 = define(f"{gemm.n.name}0", block * self.block_n + self.n_in_block, lowering, below=count * self.block_n)
        self.n0 = n0.index.symbol
        coordinates = (*batch, n0, *self._exit(n0.index))
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        sizes, dtype = (gemm.m_extent, self.config.tile_n), gemm.reduction.dtype
        self.accumulator = dense_array(lowering.names.allocate("acc"), dtype, sizes, "register")
        main_loop = self._main_loop()
        self.total = Local(lowering.names.allocate("total"), dtype)
        kind = f"skinny GEMM of {gemm.m_extent} rows" if gemm.m_extent > 1 else "GEMV"
        return assemble(
            self.request,
            lowering,
            "skinny",
            (
                Section("coordinates", coordinates),
                Section("accumulators", (Declare(self.accumulator, zeroed=True),)),
                *main_loop,
                *self._epilogue(),
            ),
            blocks.grid,
            self.block,
            minimum_blocks=self.config.min_blocks_per_sm,
            reasons=(f"{kind}: each element of {gemm.b.array} is read once", self._work()),
        )

    # Overridden by both layouts of B

    def _exit(self, n0: Index) -> tuple[Node, ...]:
        """Ends threads past the last column, where no barrier follows."""
        return ()

    @abstractmethod
    def _clamped_column(self) -> Integer:
        """The column of a row of B's fragment, clamped so that its loads need no guard."""

    @abstractmethod
    def _epilogue(self) -> tuple[Section, ...]:
        """The sections after the main loop."""

    @abstractmethod
    def _work(self) -> str:
        """The distribution of work, for people."""

    def _main_loop(self) -> tuple[Section, ...]:
        """The loop over K: a thread loads its k of all its columns of B, and multiplies them with all rows of A."""
        gemm, config, symbols = self.gemm, self.config, self.lowering.symbols
        bound, k0, loop = self._k_loop()
        self.i, self.j, dk_index = (
            shared_loop_variable(name, (0, count - 1), self.lowering)
            for name, count in (("i", gemm.m_extent), ("j", config.tile_n), ("dk", config.k_width))
        )
        self.row, self.column, dk = value_of(self.i), value_of(self.j), value_of(dk_index)
        if gemm.m is not None:
            symbols[gemm.m.name] = self.row
        symbols[gemm.k.name] = k0
        a_fragment, load_a = self._load(gemm.a, gemm.k, SINGLE, config.k_width)
        column, clamp = self._clamped_column(), tuple[Define, ...]()
        if isinstance(column, Minimum):
            clamp = (define(gemm.n.name, column, self.lowering),)
            column = clamp[0].index.symbol
        symbols[gemm.n.name] = column
        if gemm.is_k_major:
            b_fragment, load_b = self._load(gemm.b, gemm.k, self.j, config.k_width, clamp)
            factor, loops = b_fragment.element(self.column, dk), (dk_index, self.j)
            term_column, loop_invariants = self._clamped_column(), tuple[Node, ...]()
        else:
            symbols[gemm.k.name] = k0 + dk
            b_fragment, load_b = self._load(gemm.b, gemm.n, dk_index, config.tile_n)
            factor, loops = b_fragment.element(dk, self.column), (self.j, dk_index)
            term_column, loop_invariants = column + self.column, clamp
        scope, column_scope = Scope(), Scope()
        scope.remember(gemm.b, factor)
        scope.remember(gemm.a, a_fragment.element(integer(0), dk))
        scales = gemm.reads_per_vector(config.k_width)
        if scales:
            loops = (dk_index, self.j)
            symbols[gemm.k.name] = k0
            symbols[gemm.n.name] = self.lowering.define(gemm.n.name, term_column, column_scope)
            for read in scales:
                scope.remember(read, self.lowering.lower(read, column_scope))
        if not gemm.uses_operands_only:
            for index, value in ((gemm.k, k0 + dk), (gemm.n, term_column), (gemm.m, self.row)):
                if index is not None and not (scales and index == gemm.n):
                    symbols[index.name] = self.lowering.define(index.name, value, scope)
        term = self.lowering.lower(gemm.reduction.body, scope)
        multiply = (*scope.nodes, accumulate(gemm.reduction, self.accumulator, (self.row, self.column), term))
        innermost, outer = loops
        multiply = repeated(outer, (*column_scope.nodes, *repeated(innermost, multiply)))
        rows = (Section("load_a", load_a), Section("multiply_accumulate", multiply))
        body = (Section("load_b", load_b), *repeated_sections("rows", self.i, rows))
        return Section("loop_invariants", (*bound, *loop_invariants)), Section("main_loop", (For(loop, body),))

    def _k_loop(self) -> tuple[tuple[Define, ...], Integer, Loop]:
        """The definition of a bound of k by a condition, the first of the thread's `k_width` values of k, and the loop
        over them."""
        gemm, config, lowering = self.gemm, self.config, self.lowering
        extent = stop = gemm.context.extent(gemm.k)
        bound: tuple[Define, ...] = ()
        if gemm.reduction.where is not None:
            k = lowering.symbols[gemm.k.name] = symbol(f"{gemm.k.name} of the spec")
            condition = loop_bound(lowering, gemm.reduction.where, k)
            assert condition is not None
            bound = (define(f"{gemm.k.name}_stop", Minimum(extent, condition.right), lowering),)
            stop = bound[0].index.symbol
        max_k = gemm.context.max_extent(gemm.k)
        last = max(max_k - 1, 0) if max_k + self.block_k <= INT32_MAX else max_k + self.block_k
        name_hint = f"{gemm.k.name}0" if config.k_width > 1 else gemm.k.name
        k0 = Index(lowering.names.allocate(name_hint), self.first_k, (0, last))
        lowering.ranges[k0.symbol] = k0.range
        lowering.limits[k0.symbol] = extent
        unroll_by = min(config.unroll_k // config.k_width, -(-max_k // self.block_k))
        return bound, k0.symbol, Loop(k0, self.first_k, stop, self.block_k, unroll_by=unroll_by if unroll_by > 1 else 0)

    def _load(
        self, read: Read, along: spec.Index, row: Index, width: int, address_nodes: tuple[Node, ...] = ()
    ) -> tuple[VectorFragment, tuple[Node, ...]]:
        """An operand's fragment, rows of `width` elements along an index, and its loads at the known coordinates."""
        gemm, lowering, array = self.gemm, self.lowering, self.gemm.array(read)
        vector_width = math.gcd(width, gemm.vector_width(read, along))
        vector = shared_loop_variable("u", (0, width // vector_width - 1), lowering)
        fragment = VectorFragment(read, array, row, vector, vector_width, lowering)
        first = lowering.symbols[along.name] + value_of(vector) * vector_width
        subscripts = tuple(to_integer(sub, {**lowering.symbols, along.name: first}) for sub in read.subscripts)
        streaming = read == gemm.b and gemm.streams_b and vector_width * array.dtype.bytes == MAX_ACCESS_BYTES
        access = Access(array, subscripts, "load", vector_width, streaming=streaming, span=read.span)
        return fragment, fragment.load(access, address_nodes)

    def _partial(self) -> Element:
        return Element.of(Access(self.accumulator, (self.row, self.column), "load"))

    def _outputs(self, column: Integer) -> tuple[Node, ...]:
        """The statements on the total of one of the thread's columns."""
        gemm, lowering = self.gemm, self.lowering
        indices = [define_index(gemm.n.name, self.n0 + column, self.n_extent, lowering)]
        if gemm.m is not None:
            indices.append(define_index(gemm.m.name, self.row, integer(gemm.m_extent), lowering))
        scope = Scope()
        scope.remember(gemm.reduction, self.total)
        lower_statements(self.request, lowering, scope)
        return (*indices, *scope.nodes)
