"""Rows that are reduced and then mapped: softmax, norms, standardising. A team of threads has each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.rowwise.config import (
    CLUSTER,
    REGISTER_ELEMENTS,
    ROWS,
    THREADS,
    Shape,
    choose_shape,
    is_few,
)
from cugen.families.rowwise.kernel import RowSteps
from cugen.families.rowwise.split import split
from cugen.families.rowwise.statements.nan_free_maxima import with_peaks
from cugen.families.rowwise.statements.recognition import NotRows, RowWork, find_row_work
from cugen.families.rowwise.statements.views import merge_columns
from cugen.families.rowwise.thread_group import WARP, RowTeam
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.vectors import is_contiguous
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import ClusterBarrier, Comparison, Define, Guard, Index, Node, ReturnUnless
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer, symbol
from cugen.spec import expressions as spec
from cugen.spec.expressions import Read, free_indices, walk

_CLUSTER_KEY = "schedule.cluster"
_TUNABLES = (THREADS, ROWS, REGISTER_ELEMENTS, CLUSTER)


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*refuse_tunables(request, _TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            found.append(Refusal("has `threads` and `rows` in place of a block and a step", f"schedule.{key}"))
    try:
        work = _work(request)
        if not found:
            found += _size_refusals(request, work)
    except NotRows as error:
        found.append(Refusal(str(error)))
    return tuple(found)


def _work(request: Request) -> RowWork:
    return with_peaks(merge_columns(find_row_work(request), request.context.symbols))


def _size_refusals(request: Request, work: RowWork) -> Iterator[Refusal]:
    if not _has_own_rows(work):
        yield Refusal("reads each row for one result; here several results share all that they read")
        return
    if request.group.mixed and not _lie_alike(work):
        yield Refusal("stores elements of a row side by side; one of the outputs has them apart")
        return
    if is_few(request, work):
        yield Refusal("has a block for each row; these are few and long")
        return
    shape = choose_shape(request, work)
    if shape.threads * shape.rows > 1024:
        yield Refusal(f"{shape.rows} rows of {shape.threads} threads are more than a block has", "schedule.rows")
    if shape.cluster > 1:
        yield from _cluster_refusals(request, shape)


def _cluster_refusals(request: Request, shape: Shape) -> Iterator[Refusal]:
    if not request.target.has_clusters:
        yield Refusal(f"shares a row between blocks from sm_90 on; {request.target.name} has no clusters", _CLUSTER_KEY)
    if shape.across:
        yield Refusal("shares a row between blocks where its elements lie side by side only", _CLUSTER_KEY)
    elif shape.rows > 1 or shape.threads < WARP:
        yield Refusal(f"shares a row between blocks that have no other and {WARP} threads at least", _CLUSTER_KEY)


def _has_own_rows(work: RowWork) -> bool:
    """Whether something is stored for each element, or read for each element of each row."""
    names = {index.name for index in (*work.domain.rows, *work.domain.columns)}
    reads = [node for output in work.outputs for node in walk(output.value) if isinstance(node, Read)]
    own = [read for read in reads if names <= free_indices(read)]
    if any(output.wide for output in work.outputs):
        return True
    return any(is_contiguous(work.arrays[read.array], read.subscripts, name) for read in own for name in names)


def _lie_alike(work: RowWork) -> bool:
    """Whether all that is stored for each element is contiguous along the same index."""
    names = [index.name for index in (*work.domain.columns, *work.domain.rows)]
    wide = [output for output in work.outputs if output.wide]
    found = {
        tuple(is_contiguous(work.arrays[output.target], output.subscripts, name) for name in names) for output in wide
    }
    return len(found) <= 1


def build(request: Request) -> Kernel:
    work = _work(request)
    return _Builder(request, work, choose_shape(request, work)).kernel()


class _Builder:
    """The kernel of one group: sweep by sweep, with the team's results between."""

    def __init__(self, request: Request, work: RowWork, shape: Shape) -> None:
        self.request, self.work, self.shape = request, work, shape
        self.lowering: Lowering = new_lowering(request)
        self.lowering.arrays = work.arrays
        along, beside = "yx" if shape.across else "xy"
        lane, number = thread(along, shape.threads, self.lowering), thread(beside, shape.rows, self.lowering)
        self.team = RowTeam(shape.threads, lane, shape.rows, number, bool(shape.across), lane)
        self.inside = Guard(())

    def kernel(self) -> Kernel:
        grid, indices = self._rows()
        if self.shape.cluster > 1:
            indices = (*indices, *self._place_in_cluster())
        steps = RowSteps(self.request, self.work, self.lowering, self.shape, self.team, self.inside)
        count = len(self.shape.tiers[0].sweeps)
        for number in range(count):
            steps.sweep(number, everywhere=number < count - 1)
        steps.store_results(tuple(output for output in self.work.outputs if not output.wide))
        parts = (("indices", indices), *steps.sweeps())
        kernel = assemble(
            self.request,
            self.lowering,
            "rowwise",
            parts,
            grid,
            self.team.block,
            minimum_blocks=self.shape.minimum_blocks,
            alignments=steps.alignments(),
        )
        return replace(kernel, reasons=self._reasons(), cluster=self.shape.cluster)

    def _place_in_cluster(self) -> Iterator[Node]:
        """The block's rank, and the thread's number among all that share the row. The other blocks are told that this
        one has begun."""
        size, team = self.shape.cluster, self.team
        rank = define("rank", Mod(symbol("blockIdx.x"), integer(size)), self.lowering)
        place = define("thread", rank.index.symbol * team.threads + team.lane, self.lowering)
        self.team = replace(team, place=place.index.symbol, cluster=size, rank=rank.index.symbol)
        return iter((rank, place, ClusterBarrier("arrive")))

    def _rows(self) -> tuple[tuple[Integer, Integer, Integer], tuple[Node, ...]]:
        """The grid, and the indices of the team's row."""
        lowering, size, cluster = self.lowering, self.shape.rows, self.shape.cluster
        rows = [index for index in self.work.domain.rows if index.name != self.shape.across]
        order = [index for index in self.work.domain.rows if index not in rows] + rows[::-1]
        counts = [to_integer(index.extent, lowering.symbols) for index in order]
        if not order:
            return lay_blocks([integer(cluster)], lowering, self.request.target).grid, ()
        if size == 1:
            blocks = lay_blocks([counts[0] * cluster, *counts[1:]], lowering, self.request.target)
            places = (FloorDiv(blocks.places[0], integer(cluster)), *blocks.places[1:])
            nodes: list[Node] = []
            for index, extent, place in zip(order, counts, places, strict=True):
                node = define(index.name, place, lowering, below=extent)
                lowering.symbols[index.name] = node.index.symbol
                limit(node.index, extent, lowering)
                nodes.insert(0, node)
            return blocks.grid, tuple(nodes)
        total: Integer = integer(1)
        for count in counts:
            total = total * count
        blocks = lay_blocks([ceil_div(total, size)], lowering, self.request.target)
        name = order[0].name if len(order) == 1 else "row"
        nodes = [*self._number_of_row(name, total, blocks)]
        row = self.row
        if len(order) == 1:
            lowering.symbols[name] = row
        else:
            nodes += self._digits(order, counts, row)
        return blocks.grid, tuple(nodes)

    def _digits(self, order: list[spec.Index], counts: list[Integer], row: Integer) -> list[Node]:
        """The indices that the number of a row stands for; `order` has the fastest first."""
        nodes: list[Node] = []
        scale: Integer = integer(1)
        for position, (index, count) in enumerate(zip(order, counts, strict=True)):
            quotient = FloorDiv(row, scale)
            is_last = position == len(order) - 1
            node = define(index.name, quotient if is_last else Mod(quotient, count), self.lowering, below=count)
            self.lowering.symbols[index.name] = node.index.symbol
            limit(node.index, count, self.lowering)
            nodes.insert(0, node)
            scale = scale * count
        return nodes

    def _number_of_row(self, name: str, total: Integer, blocks: Blocks) -> Iterator[Node]:
        """The team's row; teams beyond the last one compute it again, since all lanes of a warp take part in its
        shuffles, and store nothing."""
        lowering, size = self.lowering, self.shape.rows
        place = blocks.places[0] * size + self.team.number
        if divides(size, total, self.request.context) or self.team.may_return:
            node = define(name, place, lowering, below=ceil_div(total, size) * size)
            self.row = node.index.symbol
            yield node
            if not divides(size, total, self.request.context):
                yield ReturnUnless(Guard((Comparison(self.row, "<", total),)))
            limit(node.index, total, lowering)
            return
        team = define("team", place, lowering, below=ceil_div(total, size) * size)
        high = max(bounds(total, lowering.ranges)[1] - 1, 0)
        index = Index(lowering.names.allocate(name), Minimum(team.index.symbol, total - 1), (0, high))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = total
        self.row = index.symbol
        self.inside = Guard((Comparison(team.index.symbol, "<", total),))
        yield team
        yield Define(index)

    def _reasons(self) -> tuple[str, ...]:
        shape, along = self.shape, self.work.domain.columns[0].name
        who = "a thread has each row" if shape.threads == 1 else f"{shape.threads} threads share each row"
        if shape.cluster > 1:
            who = f"a cluster of {shape.cluster} blocks of {shape.threads} threads shares each row"
        parts = []
        for tier in shape.tiers:
            count = tier.slots * shape.width.count
            parts.append(
                f"{count} elements stay with each in {tier.place}" if tier.is_kept else "the rest is read anew"
            )
        return (f"{who} along {along}; {', '.join(parts)}", shape.width.reason)


FAMILY = Family(
    "rowwise",
    rank=12,
    doc="rows that are reduced and mapped in one launch: softmax, norms; a team of threads for each",
    refusals=refusals,
    build=build,
    tunables=_TUNABLES,
    split=split,
    mixes=True,
)
