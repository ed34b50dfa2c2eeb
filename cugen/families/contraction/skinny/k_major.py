"""Skinny GEMM with a K-major B: each warp computes `tile_n` columns, its lanes split K."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.skinny.config import GemvConfig
from cugen.families.contraction.skinny.multiply import (
    Fragment,
    accumulators,
    alignments,
    iteration,
    loop_index,
    multiply_accumulate,
    problem,
    repeat,
    repeat_sections,
    uses_operands_only,
)
from cugen.families.contraction.skinny.recognition import SkinnyGemm
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.block_reduce import Accumulator, ThreadGroup, reduce_group
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Comparison, Declare, For, Guard, If, Index, Let, Loop, Node, ReturnUnless, Section
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, Integer, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Local

_UNROLL_K = 2  # iterations of the main loop that are unrolled (heuristic)


def build_k_major(gemm: SkinnyGemm, config: GemvConfig) -> Kernel:
    request, lowering = gemm.request, new_lowering(gemm.request)
    lowering.arrays = gemm.arrays
    lane, warp = thread("x", WARP_SIZE, lowering), thread("y", config.warps, lowering)
    coordinates, grid = _coordinates(gemm, config, lowering, warp)
    lowering.prepare(tuple(statement.value for statement in request.group.statements))
    accumulator = accumulators(gemm, config.tile_n, lowering)
    fragments = (
        Fragment(gemm, gemm.b, gemm.k, config.tile_n, config.k_width, lowering),
        Fragment(gemm, gemm.a, gemm.k, 1, config.k_width, lowering),
    )
    main_loop = _main_loop(gemm, config, lowering, lane, accumulator, fragments)
    epilogue = _epilogue(gemm, config, lowering, lane, accumulator)
    sections = (
        ("coordinates", coordinates),
        ("accumulators", (Declare(accumulator, zeroed=True),)),
        *((section.name, section.body) for section in (*main_loop, *epilogue)),
    )
    kernel = assemble(
        request,
        lowering,
        "skinny",
        sections,
        grid,
        (WARP_SIZE, config.warps, 1),
        alignments=alignments(gemm, fragments),
    )
    work = f"a warp computes {config.tile_n} columns, each lane reads {config.k_width} values of k per load"
    return replace(kernel, reasons=(f"{problem(gemm)}: each element of {gemm.b.array} is read once", work))


def _coordinates(
    gemm: SkinnyGemm, config: GemvConfig, lowering: Lowering, warp: Integer
) -> tuple[tuple[Node, ...], tuple[Integer, Integer, Integer]]:
    """The warp's first column and batch indices, and the grid; a warp past the last column exits."""
    extent = gemm.extent(gemm.n)
    block_n = config.tile_n * config.warps
    counts = [ceil_div(extent, block_n), *(gemm.extent(index) for index in gemm.batch)]
    blocks = make_grid(counts, lowering, gemm.request.target)
    nodes: list[Node] = []
    for index, coordinate in zip(gemm.batch, blocks.coordinates[1:], strict=False):
        node = define(index.name, coordinate, lowering, below=gemm.extent(index))
        limit(node.index, gemm.extent(index), lowering)
        lowering.symbols[index.name] = node.index.symbol
        nodes.append(node)
    below = ceil_div(extent, block_n) * block_n
    node = define(f"{gemm.n.name}0", blocks.coordinates[0] * block_n + warp * config.tile_n, lowering, below=below)
    lowering.symbols[gemm.n.name] = node.index.symbol
    nodes.append(node)
    if not divides(block_n, extent, gemm.request.context):
        nodes.append(ReturnUnless(Guard((Comparison(node.index.symbol, "<", extent),))))
        limit(node.index, extent, lowering)
    return tuple(nodes), blocks.grid


def _main_loop(
    gemm: SkinnyGemm,
    config: GemvConfig,
    lowering: Lowering,
    lane: Integer,
    accumulator: Array,
    fragments: tuple[Fragment, Fragment],
) -> tuple[Section, ...]:
    """The loop over K, strided by warps: each lane loads its k of all columns and rows, and multiply-accumulates."""
    extent, width, warp_k = gemm.extent(gemm.k), config.k_width, config.k_width * WARP_SIZE
    n0 = lowering.symbols[gemm.n.name]
    b_fragment, a_fragment = fragments
    max_k = bounds(extent, lowering.ranges)[1]
    last = max(max_k - 1, 0) if max_k + warp_k <= INT32_MAX else max_k + warp_k
    k0 = Index(lowering.names.allocate(f"{gemm.k.name}0"), lane * width, (0, last))
    lowering.ranges[k0.symbol] = k0.range
    lowering.limits[k0.symbol] = extent
    lowering.symbols[gemm.k.name] = k0.symbol
    i, j, dk = _loops(gemm, config, lowering)
    lowering.symbols[gemm.n.name], n_nodes = _clamped_column(gemm, config, lowering, iteration(j, config.tile_n))
    load_b = b_fragment.load(j, n_nodes)
    if gemm.m is not None:
        lowering.symbols[gemm.m.name] = iteration(i, gemm.m_extent)
    load_a = a_fragment.load(i)
    outside_loop = Scope()
    per_iteration = Scope(outside_loop, frozenset((gemm.k.name,)), certain=False)
    scope = Scope(per_iteration, frozenset((gemm.k.name, gemm.n.name)), certain=False)
    k_offset, row, column = iteration(dk, width), iteration(i, gemm.m_extent), iteration(j, config.tile_n)
    if not uses_operands_only(gemm):
        lowering.symbols[gemm.n.name], n_nodes = _clamped_column(gemm, config, lowering, column, n0)
        scope.nodes += n_nodes
        lowering.symbols[gemm.k.name] = lowering.define(gemm.k.name, k0.symbol + k_offset, scope)
        if gemm.m is not None:
            lowering.symbols[gemm.m.name] = lowering.define(gemm.m.name, row, scope)
    operands = {gemm.b: b_fragment.element(column, k_offset), gemm.a: a_fragment.element(integer(0), k_offset)}
    multiply_accumulate(gemm, lowering, scope, accumulator, (row, column), operands)
    multiply = repeat(j, config.tile_n, repeat(dk, width, tuple(scope.nodes)))
    row_sections = (Section("load_a", load_a), Section("multiply_accumulate", multiply))
    body = (
        Section("load_b", load_b),
        Section("load_uniform", tuple(per_iteration.nodes)),
        *repeat_sections("rows", i, gemm.m_extent, row_sections),
    )
    lowering.symbols[gemm.n.name] = n0
    iterations = -(-max_k // warp_k)
    loop = Loop(k0, lane * width, extent, warp_k, unroll_by=min(_UNROLL_K, iterations) if iterations > 1 else 0)
    return Section("loop_invariants", tuple(outside_loop.nodes)), Section("main_loop", (For(loop, body),))


def _loops(gemm: SkinnyGemm, config: GemvConfig, lowering: Lowering) -> tuple[Index, Index, Index]:
    return (
        loop_index("i", gemm.m_extent, lowering),
        loop_index("j", config.tile_n, lowering),
        loop_index("dk", config.k_width, lowering),
    )


def _clamped_column(
    gemm: SkinnyGemm, config: GemvConfig, lowering: Lowering, offset: Integer, n0: Integer | None = None
) -> tuple[Integer, tuple[Node, ...]]:
    """One of the warp's columns, clamped to the last, so that loads need no guard."""
    column = (lowering.symbols[gemm.n.name] if n0 is None else n0) + offset
    extent = gemm.extent(gemm.n)
    if config.tile_n == 1 or divides(config.tile_n, extent, gemm.request.context):
        return column, ()
    node = define(gemm.n.name, Minimum(column, extent - 1), lowering)
    return node.index.symbol, (node,)


def _epilogue(
    gemm: SkinnyGemm, config: GemvConfig, lowering: Lowering, lane: Integer, accumulator: Array
) -> tuple[Section, ...]:
    """Warp-reduces each accumulator by butterfly shuffles; lane 0 evaluates the statements and stores."""
    i, j, _ = _loops(gemm, config, lowering)
    row, column = iteration(i, gemm.m_extent), iteration(j, config.tile_n)
    total = Local(lowering.names.allocate("total"), accumulator.dtype)
    partial = Element.of(Access(accumulator, (row, column), "load"))
    combined = reduce_group(ThreadGroup(WARP_SIZE, lane), (Accumulator("sum", total),), lowering, everywhere=True)
    scope = Scope()
    extent = gemm.extent(gemm.n)
    terms = [Comparison(lane, "==", integer(0))]
    n = define(gemm.n.name, lowering.symbols[gemm.n.name] + column, lowering)
    if not divides(config.tile_n, extent, gemm.request.context):
        terms.append(Comparison(n.index.definition, "<", extent))
    limit(n.index, extent, lowering)
    lowering.symbols[gemm.n.name] = n.index.symbol
    nodes: list[Node] = [n]
    if gemm.m is not None:
        m = define(gemm.m.name, row, lowering)
        lowering.symbols[gemm.m.name] = m.index.symbol
        nodes.append(m)
    scope.remember(gemm.reduction, total)
    lower_statements(gemm.request, lowering, scope)
    body = (
        Section("partial_sum", (Let(total, partial, mutable=True),)),
        Section("warp_shuffles", combined),
        Section("outputs", (If(Guard(tuple(terms)), (*nodes, *scope.nodes)),)),
    )
    return repeat_sections("warp_columns", j, config.tile_n, repeat_sections("rows", i, gemm.m_extent, body))
