"""The kernel of attention: a block has a tile of rows of q, and walks the tiles of k and v.

copy q, the first tiles of k and v; commit
for key0 in 0, BN, 2*BN ..:
    wait for all copies; barrier                 # the tiles of this step are complete, those of the last are read
    copy the next tiles of k and v; commit
    scores = q * k                               # of the warp's rows, in registers
    scores = weights of the softmax, acc and row_sum rescaled
    acc   += scores * v
row_sum of all lanes; the statement on acc and row_sum
"""

from __future__ import annotations

import math
from dataclasses import replace

from cugen.families.attention.config import STAGES, AttentionConfig
from cugen.families.attention.cost_model import predict
from cugen.families.attention.masked_keys import MaskedKeys, key_range
from cugen.families.attention.products import Products
from cugen.families.attention.recognition import Attention, with_replaced
from cugen.families.attention.softmax import (
    LANE_DISTANCES,
    ROW_DISTANCE,
    Accumulators,
    OnlineSoftmax,
    accumulator_column,
    rows_index,
)
from cugen.families.attention.tiles import Tile, make_tiles, matrix_rows
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import append_definition, define, define_index, define_size, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, dense_array, new_lowering
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.pieces.sections import guarded_nodes
from cugen.pieces.statements import read_of_sum
from cugen.pieces.vector_body import ConsecutiveElements, vector_body, wide_reads
from cugen.pieces.vectors import stored_width
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import (
    Assign,
    AwaitCopies,
    Barrier,
    Comment,
    CommitCopies,
    Comparison,
    Declare,
    Define,
    For,
    Guard,
    Index,
    Let,
    Loop,
    Node,
    Section,
    when,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, Size, bounds, ceil_div, integer
from cugen.spec.expressions import Const, Expr, Local, Op, Read, Select
from cugen.spec.types import BOOL, FLOAT32, INT64

_LANES = 4  # that have the columns of a row (PTX ISA)


class AttentionKernel:
    """Builder of the kernel of one attention with one config."""

    def __init__(self, attention: Attention, config: AttentionConfig) -> None:
        self.attention, self.config, self.request = attention, config, attention.request
        self.lowering = new_lowering(attention.request)
        context = attention.context
        self.extents = {i.name: context.extent(i) for i in (attention.row, attention.key, *attention.batch)}
        self.rows_exact = divides(config.block_rows, self.extents[attention.row.name], context)
        self.keys_exact = divides(config.keys, self.extents[attention.key.name], context)
        self._sizes: list[Define] = []

    def kernel(self) -> Kernel:
        attention, config, lowering = self.attention, self.config, self.lowering
        rows, keys = self._named("BM", config.block_rows), self._named("BN", config.keys)
        tile_count = ceil_div(self.extents[attention.row.name], config.block_rows)
        batch = tuple(reversed(attention.batch))
        blocks = make_grid([tile_count, *(self.extents[i.name] for i in batch)], lowering, self.request.target)
        coordinates: list[Node] = []
        for index, coordinate in zip(batch, blocks.coordinates[1:], strict=True):
            coordinates.insert(0, define_index(index.name, coordinate, self.extents[index.name], lowering))
        tile = blocks.coordinates[0]
        if attention.grows_with_rows:
            coordinates.append(Comment("from the tiles with the most keys on"))
            tile = tile_count - 1 - tile
        self.row0 = append_definition(f"{attention.row.name}0", tile * integer(rows), coordinates, lowering)
        extent = self.extents[attention.key.name]
        self.keys = key_range(attention, replace(config, keys=keys), lowering, self.row0, extent, coordinates)
        self._thread_coordinates(coordinates)
        tiles = make_tiles(attention, config, lowering, self.thread, (rows, keys, config.depth, config.columns))
        matrices = matrix_rows(self.lane, lowering)
        accumulators = self._accumulators()
        products = Products(attention, config, lowering, accumulators, matrices, self.warp_row)
        softmax = OnlineSoftmax(
            attention, accumulators, lowering, self.row0 + self.warp_row + self.lane_row, is_exact=self.keys_exact
        )
        q, k, v = tiles
        masked = MaskedKeys(attention, v, self.keys, accumulators, lowering)
        sections = (
            Section("tiles", tuple(Declare(tile.array) for tile in tiles)),
            Section("coordinates", tuple(coordinates)),
            Section("copy_coordinates", tuple(node for tile in tiles for node in tile.definitions)),
            Section("matrix_coordinates", tuple(node for row in matrices for node in row.definitions)),
            Section("accumulators", accumulators.declarations(lowering)),
            Section("prologue", self._prologue(q, k, v)),
            Section("fragments", products.fragments.declarations()),
            self._main_loop(q, k, v, softmax, products, keys),
            *masked.sections(self.thread, self.lane, self.lane_column),
            *self._epilogue(accumulators),
        )
        reasons = (self._reason(), *self._prediction())
        return assemble(
            self.request,
            lowering,
            "attention",
            (Section("sizes", tuple(self._sizes)), *sections),
            blocks.grid,
            (config.threads, 1, 1),
            reasons=reasons,
        )

    def _named(self, hint: str, value: int) -> Size:
        statement = self.request.group.statements[0]
        node = define_size(hint, value, (*statement.indices, self.attention.key), self.lowering)
        self._sizes.append(node)
        return Size(value, node.index.symbol)

    def _thread_coordinates(self, nodes: list[Node]) -> None:
        config, lowering = self.config, self.lowering
        self.thread = append_definition("thread", thread("x", config.threads, lowering), nodes, lowering)
        self.lane = append_definition("lane", Mod(self.thread, integer(WARP_SIZE)), nodes, lowering)
        warp = FloorDiv(self.thread, integer(WARP_SIZE))
        self.warp_row = append_definition("warp_row", warp * config.rows, nodes, lowering)
        self.lane_row = append_definition("lane_row", FloorDiv(self.lane, integer(_LANES)), nodes, lowering)
        self.lane_column = append_definition("lane_column", 2 * Mod(self.lane, integer(_LANES)), nodes, lowering)

    def _accumulators(self) -> Accumulators:
        config, rows = self.config, 2 * self.config.instructions

        def registers(name: str, *extents: int) -> Array:
            return dense_array(self.lowering.names.allocate(name), FLOAT32, extents, "register")

        return Accumulators(
            registers("scores", rows, config.keys // _LANES),
            registers("acc", rows, config.columns // _LANES),
            registers("row_max", rows),
            registers("row_sum", rows),
        )

    def _prologue(self, q: Tile, k: Tile, v: Tile) -> tuple[Node, ...]:
        zero, start = integer(0), self.keys.start
        of_q, of_k, of_v = self.pointers = q.pointer(self.row0), k.pointer(zero), v.pointer(zero)
        first = (
            start == 0 and bounds(self.extents[self.attention.key.name], self.lowering.ranges)[0] >= self.config.keys
        )
        copies = (
            *q.copies(zero, self.row0, of_q, exact=self.rows_exact),
            *k.copies(zero, start, of_k, exact=first),
            *v.copies(zero, start, of_v, exact=first),
        )
        return of_q, of_k, of_v, *copies, *self._commit(q, k, v)

    @staticmethod
    def _commit(*tiles: Tile) -> tuple[Node, ...]:
        return (CommitCopies(),) if any(tile.asynchronous for tile in tiles) else ()

    def _main_loop(self, q: Tile, k: Tile, v: Tile, softmax: OnlineSoftmax, products: Products, keys: Size) -> Section:
        lowering, extent, name = self.lowering, self.extents[self.attention.key.name], self.attention.key.name
        steps = bounds(ceil_div(extent, int(keys)), lowering.ranges)[1]
        key0 = Index(lowering.names.allocate(f"{name}0"), integer(0), (0, steps * int(keys)))
        lowering.ranges[key0.symbol] = (0, max(steps - 1, 0) * int(keys))
        step = FloorDiv(key0.symbol - self.keys.start, integer(keys))
        stage = define("stage", Mod(step, integer(STAGES)), lowering)
        stage = replace(stage, then=1 - stage.index.symbol)
        following = key0.symbol + integer(keys)
        next_stage = 1 - stage.index.symbol
        copies = (
            *k.copies(next_stage, following, self.pointers[1], exact=self.keys_exact),
            *v.copies(next_stage, following, self.pointers[2], exact=self.keys_exact),
        )
        waits = (AwaitCopies(0),) if self._commit(q, k, v) else ()
        scores = softmax.accumulators.scores
        body = (
            Section("stage", (stage,)),
            Section("wait", (*waits, Barrier())),
            Section("prefetch", (when(following, "<", self.keys.stop, copies),)),
            Section("commit", self._commit(k, v)),
            Section("clear_scores", (Declare(scores, zeroed=True),)),
            products.scores(q, k, stage.index.symbol),
            softmax.section(key0.symbol + self.lane_column),
            products.sums(v, stage.index.symbol),
        )
        return Section("main_loop", (For(Loop(key0, self.keys.start, self.keys.stop, int(keys)), body),))

    def _epilogue(self, accumulators: Accumulators) -> tuple[Section, ...]:
        """The sum of a row's lanes, and the statement for each of a lane's rows."""
        attention, lowering = self.attention, self.lowering
        r = rows_index(accumulators, lowering)
        total = Local(lowering.names.allocate("row_total"), FLOAT32)
        known: list[Node] = [Let(total, Element.of(Access(accumulators.row_sum, (r.symbol,), "load")), mutable=True)]
        known += (Assign(total, combine("sum", total, Shuffled(total.name, FLOAT32, d))) for d in LANE_DISTANCES)
        row = define(attention.row.name, self.row0 + self.warp_row + self.lane_row + ROW_DISTANCE * r.symbol, lowering)
        lowering.symbols[attention.row.name] = row.index.symbol
        values: dict[Expr, Expr] = dict.fromkeys(attention.totals, total)
        (statement,) = self.request.group.statements
        extents = self.extents[attention.row.name], attention.context.extent(attention.column)
        accumulated = read_of_sum(attention.row, attention.column, extents, FLOAT32, lowering)
        weighted: Expr = accumulated
        if not attention.divides_by_total:
            undefined = Local(lowering.names.allocate("undefined"), FLOAT32)
            known.append(Let(undefined, self._undefined(accumulators, r)))
            known.append(Assign(total, Op("add", (total, undefined), FLOAT32)))
            weighted = Op("add", (accumulated, undefined), FLOAT32)
        for operator, factor in attention.row_factors:
            weighted = Op(operator, (weighted, factor), FLOAT32)
        if attention.row_factors and attention.context.min_extent(attention.key) == 0:
            is_any = Op("gt", (attention.key.extent, Const(0, INT64)), BOOL)  # else the sum of no terms is 0
            weighted = Select(is_any, weighted, Const(0.0, FLOAT32), FLOAT32)
        value = with_replaced(with_replaced(statement.value, {attention.weighted: weighted}), values)
        request = self.request.with_statements((replace(statement, value=value),))
        body = (
            Section("row_total", tuple(known)),
            Section("row", (row,)),
            Section("outputs", self._outputs(request, accumulated, accumulators, r)),
        )
        return (Section("rows", (unrolled(r, body),)),)

    def _undefined(self, accumulators: Accumulators, r: Index) -> Expr:
        """NaN for a row whose scores are all -inf, as its weights are, else 0."""
        key = self.attention.key
        row_max = Element.of(Access(accumulators.row_max, (r.symbol,), "load"))
        condition = Op("eq", (row_max, Const(-math.inf, FLOAT32)), BOOL)
        if self.attention.context.min_extent(key) == 0:
            condition = Op("and", (condition, Op("gt", (key.extent, Const(0, INT64)), BOOL)), BOOL)
        return Select(condition, Const(math.nan, FLOAT32), Const(0.0, FLOAT32), FLOAT32)

    def _outputs(self, request: Request, accumulated: Read, accumulators: Accumulators, r: Index) -> tuple[Node, ...]:
        attention, lowering, context = self.attention, self.lowering, self.attention.context
        column, extent = attention.column, context.extent(attention.column)
        width = stored_width(request, column, 2)
        count = self.config.columns // _LANES // width
        n = shared_loop_variable("n", (0, count - 1), lowering, f"vectors of {width}")
        first = accumulator_column(n.symbol) if width == 1 else ROW_DISTANCE * n.symbol
        define_column = define(column.name, self.lane_column + first, lowering)
        lowering.symbols[column.name] = define_column.index.symbol
        lowering.limits[define_column.index.symbol] = extent
        row = lowering.symbols[attention.row.name]
        lowering.limits[row] = self.extents[attention.row.name]

        def value(v: Integer) -> Expr:
            return Element.of(Access(accumulators.sums, (r.symbol, width * n.symbol + v), "load"))

        work = ConsecutiveElements(
            request,
            lowering.arrays,
            column.name,
            extent,
            width,
            wide_reads(request, lowering.arrays, column.name, width, (accumulated,)),
            {accumulated: value},
        )
        body = vector_body(work, lowering, Scope())
        inside: list[Comparison] = []
        if context.static_extent(column) != self.config.columns:
            inside.append(Comparison(define_column.index.symbol, "<", extent))
        columns = (unrolled(n, (define_column, *guarded_nodes(Guard(tuple(inside)), body))),)
        rows = () if self.rows_exact else (Comparison(row, "<", self.extents[attention.row.name]),)
        return guarded_nodes(Guard(rows), columns)

    def _reason(self) -> str:
        config = self.config
        return (
            f"attention: {config.block_rows} rows of a block of {config.warps} warps, {config.keys} keys of a step, "
            f"scores in registers; weights are split into two parts of tf32"
        )

    def _prediction(self) -> tuple[str, ...]:
        predicted = predict(self.attention, self.config)
        return () if predicted is None else (predicted.text,)
