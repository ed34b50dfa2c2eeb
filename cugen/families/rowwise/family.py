"""Rows that are reduced and mapped in one launch: softmax, normalisation, standardisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sympy

from cugen.families.base import Family, Match, Refusal, Refusals, Request
from cugen.families.rowwise.config import (
    FEWER_REGISTER_VALUES,
    TUNABLES,
    RowConfig,
    choose_config,
    has_too_few_rows,
    reloads_single_elements,
)
from cugen.families.rowwise.kernel import RowPasses
from cugen.families.rowwise.passes.storage_levels import Storage
from cugen.families.rowwise.row_storage import read_repeatedly
from cugen.families.rowwise.split import split
from cugen.families.rowwise.statements.nan_free_maxima import with_nan_free_maxima
from cugen.families.rowwise.statements.recognition import NotRowwise, RowProblem, match_rows
from cugen.families.rowwise.statements.views import fuse_columns
from cugen.families.rowwise.thread_group import RowThreadGroup
from cugen.pieces.block_reduce import WARP
from cugen.pieces.blocks import Blocks, define, define_indices, digits, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.placement import tunables_only, useless_placements
from cugen.pieces.vectors import is_contiguous, offset_of, to_alignment
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import ClusterBarrier, Comparison, Define, Guard, Node, ReturnUnless, Section
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod, ceil_div, integer, symbol
from cugen.spec.expressions import Read, Reduce, free_indices, walk

_CLUSTER_KEY = "schedule.cluster"


def match(request: Request) -> Match | Refusals:
    in_shared = _in_shared_rows(request)
    refused = tunables_only(
        request, TUNABLES, "takes the tunables `threads` and `rows`, not a block or step", in_shared
    )
    try:
        rows = match_rows(request)
        problem = with_nan_free_maxima(fuse_columns(rows))
    except NotRowwise as error:
        return Refusals((*refused, Refusal(str(error))))
    if not refused:
        refused += _form_refusals(request, rows, problem)
        reused = read_repeatedly(problem)
        refused += useless_placements(request, tuple(name for name in in_shared if name in reused))
    if refused:
        return Refusals(tuple(refused))
    config = choose_config(problem)
    refused += _size_refusals(request, problem, config)
    return Refusals(tuple(refused)) if refused else _match_of(problem, config, FEWER_REGISTER_VALUES)


def _match_of(problem: RowProblem, config: RowConfig, fewer: tuple[int, ...]) -> Match:
    """The kernel of a config, or of one with fewer blocks or values where a thread has too few registers."""

    def smaller() -> Match | None:
        if config.deferrable_registers:
            return _match_of(problem, replace(config, min_blocks_per_sm=0, deferrable_registers=0), fewer)
        if not fewer:
            return None
        return _match_of(problem, choose_config(problem, fewer[0]), fewer[1:])

    return Match(lambda: _Builder(problem, config).kernel(), smaller=smaller)


def _form_refusals(request: Request, rows: RowProblem, problem: RowProblem) -> Iterator[Refusal]:
    if not _has_element_per_row(rows):
        yield Refusal("reads each element for one row; here several results share every element")
    elif request.group.mixed and not _have_equal_layouts(problem):
        yield Refusal("stores all outputs along the same contiguous index; here one has another layout")


def _size_refusals(request: Request, problem: RowProblem, config: RowConfig) -> Iterator[Refusal]:
    if has_too_few_rows(problem, config):
        yield Refusal("has one block per row; with few long rows, most multiprocessors would idle")
        return
    yield from _placement_refusals(request, problem, config)
    if reloads_single_elements(problem, config):
        yield Refusal("reloads most of a long row, one element at a time; further launches move as much in vectors")
    if config.threads * config.rows > 1024:
        reason = f"{config.rows} rows of {config.threads} threads exceed the 1024 threads of a block"
        yield Refusal(reason, "schedule.rows")
    if config.cluster == 1:
        return
    if not request.target.has_clusters:
        yield Refusal(f"clusters need sm_90 or newer; {request.target.name} has no clusters", _CLUSTER_KEY)
    if config.contiguous_row:
        yield Refusal("clusters need rows that are contiguous in memory", _CLUSTER_KEY)
    elif config.rows > 1 or config.threads < WARP:
        yield Refusal(f"clusters need one row per block and at least {WARP} threads", _CLUSTER_KEY)


def _placement_refusals(request: Request, problem: RowProblem, config: RowConfig) -> Iterator[Refusal]:
    """Arrays that the spec places in registers or in shared memory, of whose rows this config caches less there."""
    passes = config.levels[0].passes
    cached = {n.array for p in passes for expr in p.cached for n in walk(expr) if isinstance(n, Read)}
    extent = request.context.max_extent(problem.column)
    for array in request.touched():
        storage = {"register": Storage.REGISTERS, "shared": Storage.SHARED}.get(array.memory.space or "")
        if storage is None or array.role == "temporary" or all(level.storage == storage for level in config.levels):
            continue
        slots = sum(level.slots for level in config.levels if level.storage == storage)
        capacity = min(slots * config.stride, extent)
        if array.name in cached:
            reason = f"{storage.value} hold at most {capacity} elements of a row of {array.name}"
            yield Refusal(f"{reason}, which has up to {extent}", f"arrays.{array.name}.memory")


def _in_shared_rows(request: Request) -> tuple[str, ...]:
    """The inputs whose rows the spec places in shared memory, in the order in which threads read them."""
    arrays = (array for array in request.touched() if array.memory.space == "shared" and array.role == "input")
    return tuple(a.name for a in arrays if a.memory.stages == 1)


def _has_element_per_row(problem: RowProblem) -> bool:
    """Whether an array is stored per element, or read along all row and column indices."""
    if any(output.is_per_element for output in problem.outputs):
        return True
    names = {index.name for index in (*problem.domain.rows, *problem.domain.columns)}
    reads = (node for output in problem.outputs for node in walk(output.value) if isinstance(node, Read))
    full_reads = [read for read in reads if names <= free_indices(read)]
    return any(is_contiguous(problem.arrays[r.array], r.subscripts, name) for r in full_reads for name in names)


def _have_equal_layouts(problem: RowProblem) -> bool:
    """Whether all outputs per element are contiguous along the same index."""
    names = [index.name for index in (*problem.domain.columns, *problem.domain.rows)]
    stores = [(problem.arrays[o.target], o.subscripts) for o in problem.outputs if o.is_per_element]
    return len({tuple(is_contiguous(*store, name) for name in names) for store in stores}) <= 1


class _Builder:
    """The kernel of one group: pass by pass, each followed by the reductions over the thread group."""

    def __init__(self, problem: RowProblem, config: RowConfig) -> None:
        self.request, self.problem, self.config = problem.request, problem, config
        self.lowering: Lowering = new_lowering(problem.request, problem.arrays)
        thread_axis, row_axis = "yx" if config.contiguous_row else "xy"
        lane = thread(thread_axis, config.threads, self.lowering)
        row = thread(row_axis, config.rows, self.lowering)
        self.group = RowThreadGroup(config.threads, lane, config.rows, row, bool(config.contiguous_row), lane)
        self.in_range = Guard(())

    def kernel(self) -> Kernel:
        grid, indices = self._rows()
        arrive: tuple[Node, ...] = ()
        if self.config.cluster > 1:
            indices += self._cluster_indices()
            arrive = (ClusterBarrier("arrive"),)
        edges: tuple[Integer, Integer] | None = None
        if self.config.edges is not None:
            edges, defined = self._edges()
            indices += defined
        row_passes = RowPasses(self.problem, self.lowering, self.config, self.group, self.in_range, edges)
        count = len(self.config.levels[0].passes)
        for number in range(count):
            row_passes.build_pass(number, broadcast=number < count - 1)
        row_outputs = row_passes.row_outputs(tuple(o for o in self.problem.outputs if not o.is_per_element))
        sections = (
            Section("indices", indices),
            Section("block_started", arrive),
            Section("passes", tuple(row_passes.root.nodes)),
            row_outputs,
        )
        return assemble(
            self.request,
            self.lowering,
            "rowwise",
            sections,
            grid,
            self.group.block,
            minimum_blocks=self.config.min_blocks_per_sm,
            deferrable_registers=self.config.deferrable_registers,
            reasons=self._reasons(),
            cluster=self.config.cluster,
        )

    def _edges(self) -> tuple[tuple[Integer, Integer], tuple[Define, ...]]:
        """The number of elements before the first vector of the row, and the thread's element before or after the
        vectors; and their definitions. Where all rows begin at a multiple of the width, there are none before."""
        lowering, width, along = self.lowering, self.config.width.count, self.problem.column.name
        start = offset_of(self.problem.arrays, self.config.aligned[0], {**lowering.symbols, along: integer(0)})
        before, number = to_alignment(start, width), self.group.thread_in_row
        defined: tuple[Define, ...] = ()
        if before != 0:
            head = define("head", before, lowering)
            before, defined = head.index.symbol, (head,)
        extent = self.request.context.extent(self.problem.column)
        after_head = extent - (width if self.config.shifted else before)
        if self.request.context.min_extent(self.problem.column) < width:
            after_head = Maximum(after_head, integer(0))  # of rows that end before the first vector
        after = number + FloorDiv(after_head, integer(width)) * width
        edge = define("edge", Choice(number, before, number, after) if defined else after, lowering)
        return (before, edge.index.symbol), (*defined, edge)

    def _cluster_indices(self) -> tuple[Node, ...]:
        """The block's rank and the thread's index in the cluster."""
        size, group = self.config.cluster, self.group
        rank = define("rank", Mod(symbol("blockIdx.x"), integer(size)), self.lowering)
        thread_in_row = define("thread", rank.index.symbol * group.threads + group.lane, self.lowering)
        self.group = replace(group, thread_in_row=thread_in_row.index.symbol, cluster=size, rank=rank.index.symbol)
        return rank, thread_in_row

    def _rows(self) -> tuple[tuple[Integer, Integer, Integer], tuple[Node, ...]]:
        """The grid, and the indices of the thread group's row."""
        lowering, size, cluster = self.lowering, self.config.rows, self.config.cluster
        rows = [index for index in self.problem.domain.rows if index.name != self.config.contiguous_row]
        order = [index for index in self.problem.domain.rows if index not in rows] + rows[::-1]
        counts = list(map(self.request.context.extent, order))
        if size == 1:
            if not order:
                return make_grid([integer(cluster)], lowering, self.request.target).grid, ()
            blocks = make_grid([counts[0] * cluster, *counts[1:]], lowering, self.request.target)
            coordinates = (FloorDiv(blocks.coordinates[0], integer(cluster)), *blocks.coordinates[1:])
            return blocks.grid, tuple(define_indices(order, counts, coordinates, lowering))
        total = sympy.Mul(*counts)
        blocks = make_grid([ceil_div(total, size)], lowering, self.request.target)
        name = order[0].name if len(order) == 1 else "row"
        nodes = tuple(self._linear_row(name, total, blocks))
        if len(order) > 1:
            return blocks.grid, (*nodes, *define_indices(order, counts, digits(self.row, counts), lowering))
        lowering.symbols[name] = self.row
        return blocks.grid, nodes

    def _linear_row(self, name: str, total: Integer, blocks: Blocks) -> Iterator[Node]:
        """The linear number of the thread group's row. Groups past the end recompute the last row without storing it,
        since all lanes of a warp take part in its shuffles."""
        lowering, size = self.lowering, self.config.rows
        number = blocks.coordinates[0] * size + self.group.number
        if divides(size, total, self.request.context) or self.group.may_return:
            node = define(name, number, lowering, below=ceil_div(total, size) * size)
            self.row = node.index.symbol
            yield node
            if not divides(size, total, self.request.context):
                yield ReturnUnless(Guard((Comparison(self.row, "<", total),)))
            limit(node.index, total, lowering)
            return
        group = define("group_row", number, lowering, below=ceil_div(total, size) * size)
        index = loop_variable(name, total, lowering, Minimum(group.index.symbol, total - 1))
        self.row = index.symbol
        self.in_range = Guard((Comparison(group.index.symbol, "<", total),))
        yield group
        yield Define(index)

    def _reasons(self) -> tuple[str, ...]:
        config, along = self.config, self.problem.column.name
        threads = "one thread per row" if config.threads == 1 else f"{config.threads} threads per row"
        if config.cluster > 1:
            threads = f"a cluster of {config.cluster} blocks of {config.threads} threads per row"
        parts = []
        for level in config.levels:
            count = level.slots * config.width.count
            cached = f"{count} elements per thread cached in {level.storage}"
            parts.append(cached if level.is_cached else "all others are reloaded")
        if config.edges is not None:
            parts.append("one before or after the vectors")
        return (f"{threads} along {along}; {', '.join(parts)}", config.width.reason)


FAMILY = Family(
    "rowwise",
    rank=12,
    needs=Reduce,
    doc="rows that are reduced and mapped in one launch (softmax, normalisation), a thread group for each",
    match=match,
    tunables=TUNABLES,
    split=split,
    mixes=True,
    share_passes=True,
)
