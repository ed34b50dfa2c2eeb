"""The small batched GEMM kernel: whole operands in shared memory, in a strided layout of threads for each matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.batched.config import BatchConfig, Partition
from cugen.families.gemm.batched.copy import MatrixCopies
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.fragments.vectors import SINGLE, VectorFragment
from cugen.pieces.blocks import define, define_index, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import index_loop_variable, repeated_sections, shared_loop_variable, value_of
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, Comparison, Declare, For, Guard, Index, Loop, Node, ReturnUnless, Section
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Choice, FloorDiv, Integer, Minimum, Mod, ceil_div, integer
from cugen.spec.expressions import Expr, Read

_PARTIAL_UNROLL_K = 8  # values of k per iteration of a loop that is too long to unroll fully (heuristic)


class BatchedKernel:
    """Builder of the kernel of one batched contraction."""

    def __init__(self, contraction: Contraction, config: BatchConfig) -> None:
        self.contraction, self.config, self.request = contraction, config, contraction.request
        self.lowering = new_lowering(contraction.request)
        indices = contraction.indices
        self.extents = {index.name: to_integer(index.extent, self.lowering.symbols) for index in indices}
        self.tiles = [MatrixCopies(contraction, tile, config, self.lowering) for tile in config.tiles]
        self.in_matrix = thread("x", config.threads_per_matrix, self.lowering)
        self.matrix = thread("y", config.batch, self.lowering)

    def kernel(self) -> Kernel:
        contraction, config, lowering = self.contraction, self.config, self.lowering
        first, *others = (self.extents[index.name] for index in contraction.batch)
        blocks = make_grid([ceil_div(first, config.batch), *others], lowering, self.request.target)
        coordinates: list[Node] = []
        self.thread = self._thread_coordinates(coordinates)
        batch0 = self._batch_coordinates(blocks.coordinates, coordinates)
        copies = tuple(node for tile in self.tiles for node in tile.copies(batch0, self.thread.copy_thread))
        tiles_stored = Section("tiles_stored", (Barrier(), *self._return_past_last()))
        epilogue = Epilogue(self.thread)
        sections = (
            Section("tiles", tuple(Declare(tile.array) for tile in self.tiles)),
            Section("coordinates", tuple(coordinates)),
            Section("copies", copies),
            tiles_stored,
            Section("accumulators", epilogue.accumulators.declarations),
            Section("main_loop", (self._main_loop(epilogue),)),
            *epilogue.sections(),
        )
        block = (config.threads_per_matrix, config.batch, 1)
        return assemble(self.request, lowering, "batched", sections, blocks.grid, block, reasons=self._reasons())

    def _batch_coordinates(self, block: tuple[Integer, ...], nodes: list[Node]) -> Integer:
        """The batch index of the block's first matrix; appends the definitions of all batch indices to `nodes`."""
        first, *others = self.contraction.batch
        extent, count = self.extents[first.name], self.config.batch
        for index, coordinate in zip(others, block[1:], strict=True):
            below = self.extents[index.name]
            nodes.append(define_index(index.name, coordinate, below, self.lowering, below=below))
        below = ceil_div(extent, count) * count
        batch0 = define(f"{first.name}0" if count > 1 else first.name, block[0] * count, self.lowering, below=below)
        nodes.append(batch0)
        batch = batch0
        if count > 1:
            batch = define(first.name, batch0.index.symbol + self.matrix, self.lowering, below=below)
            nodes.append(batch)
        self.lowering.symbols[first.name] = batch.index.symbol
        self.batch = batch.index
        return batch0.index.symbol

    def _return_past_last(self) -> tuple[Node, ...]:
        """Ends the threads of matrices past the last, once the block's tiles are stored."""
        extent = self.extents[self.contraction.batch[0].name]
        is_even = divides(self.config.batch, extent, self.request.context)
        ends = () if is_even else (ReturnUnless(Guard((Comparison(self.batch.symbol, "<", extent),))),)
        limit(self.batch, extent, self.lowering)
        return ends

    def _thread_coordinates(self, nodes: list[Node]) -> ThreadCoordinates:
        """The thread's coordinates in its matrix; appends their definitions to `nodes`."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        m, n = config.m, config.n

        def named(name_hint: str, definition: Integer) -> Integer:
            if definition.is_Integer:
                return definition
            nodes.append(node := define(name_hint, definition, lowering))
            return node.index.symbol

        ty = named("ty", FloorDiv(self.in_matrix, integer(n.threads)))
        tx = named("tx", Mod(self.in_matrix, integer(n.threads)))
        exact = {partition.index.name: partition.padded_extent == partition.extent for partition in (m, n)}
        exact[contraction.k.name] = True
        return ThreadCoordinates(
            contraction,
            config.tile_config,
            lowering,
            self.extents,
            exact,
            fragment_widths=(m.width, n.width),
            index=self.in_matrix,
            copy_thread=self.in_matrix + self.matrix * config.threads_per_matrix,
            tile_origin={m.index.name: integer(0), n.index.name: integer(0)},
            m_in_tile=ty * m.width,
            n_in_tile=tx * n.width,
            lane_m=ty,
            lane_n=tx,
        )

    def _main_loop(self, epilogue: Epilogue) -> Node:
        """The loop over k; each iteration multiplies `k_width` values of k, read per access from K-major tiles."""
        config, name = self.config, self.contraction.k.name
        name_hint = f"{name}0" if config.k_width > 1 else name
        k0 = index_loop_variable(name, (0, config.k - config.k_width), self.lowering, name_hint)
        dk = shared_loop_variable("dk", (0, config.k_width - 1), self.lowering)
        k = k0.symbol + value_of(dk)
        factors: dict[Read, Callable[[], Expr]] = {}
        load_k_major, load = list[Node](), list[Node]()
        for tile in self.tiles:
            is_k_major = tile.tile.operand.is_k_major
            factors[tile.tile.operand.read], loads = self._load_fragment(tile, k0.symbol if is_k_major else k, dk)
            (load_k_major if is_k_major else load).extend(loads)

        def factor(read: Read) -> Expr | None:
            return factors[read]() if read in factors else None

        multiply = epilogue.accumulators.multiply_accumulate(factor, integer(0), k)
        steps = (Section("load_fragments", tuple(load)), Section("multiply_accumulate", multiply))
        body = repeated_sections("vector_elements", dk, steps)
        unroll_by = 0 if config.is_unrolled else max(_PARTIAL_UNROLL_K // config.k_width, 1)
        loop = Loop(k0, integer(0), integer(config.k), config.k_width, unroll=config.is_unrolled, unroll_by=unroll_by)
        return For(loop, (Section("load_k_major_fragments", tuple(load_k_major)), *body))

    def _load_fragment(self, tile: MatrixCopies, k: Integer, dk: Index) -> tuple[Callable[[], Expr], tuple[Node, ...]]:
        """A factor of the outer product, and the loads of its fragment: along K if it is K-major, else along M or N."""
        thread, mn, width, lowering = self.thread, tile.tile.mn, tile.tile.read_width, self.lowering
        read, along_m = tile.tile.operand.read, tile.tile.operand.is_along_m
        index = thread.loop_index("i" if along_m else "j", mn.per_thread)
        element = value_of(index)
        if tile.tile.operand.is_k_major:
            row, vector, position = index, SINGLE, (element, value_of(dk))
            coordinate = thread.row(element) if along_m else thread.column(element, 1)
            coordinates = self._inside(coordinate, mn, element, 1), k
        else:
            vector = thread.loop_index("r" if along_m else "c", mn.vectors) if width > 1 else index
            row, position = SINGLE, (integer(0), element)
            first, number = thread.m_in_tile if along_m else thread.n_in_tile, value_of(vector)
            coordinates = k, self._inside(first + number * (mn.threads * width), mn, number, width)
        fragment = VectorFragment(read, tile.array, row, vector, width, lowering)
        loads = fragment.load(tile.access(self.matrix, *coordinates, "load", width))
        return partial(fragment.element, *position), loads

    def _inside(self, coordinate: Integer, partition: Partition, number: Integer, width: int) -> Integer:
        """The coordinate of access `number` of the thread tile, of `width` elements; past the matrix its last ones."""
        if partition.padded_extent == partition.extent:
            return coordinate
        last = Minimum(coordinate, self.extents[partition.index.name] - width)
        # Only a thread's last vector may be past the matrix; the address of the others is the first one's.
        exact = (partition.vectors - 1) * partition.width // width
        return Choice(number, integer(exact), coordinate, last) if exact else last

    def _reasons(self) -> tuple[str, ...]:
        config = self.config
        problem = f"small batched GEMM, {config.m.extent} x {config.n.extent} x {config.k} (M x N x K)"
        batch = f"{config.batch} matrices per block" if config.batch > 1 else "one matrix per block"
        threads = f"{config.threads_per_matrix} threads each, thread tile {config.m.per_thread} x {config.n.per_thread}"
        wide = (tile for tile in config.tiles if tile.load_width > 1)
        loads = (f"{tile.operand.read.array} is loaded in vectors of {tile.load_width} elements" for tile in wide)
        return (f"{problem}, {batch}: {threads}", *loads)
