"""Recognises statements with scans along one index, and finds the index that is contiguous in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from cugen.pieces.elementwise import IN_MEMORY, is_plain, loaded_reads
from cugen.pieces.grid import fastest_first
from cugen.pieces.serial_scan import SerialScan, recognise
from cugen.pieces.vectors import Width, is_computed, is_contiguous, narrowest, widest, widest_at
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.rewrite.fresh_names import fresh
from cugen.rewrite.stored.terms import MIN_TERMS
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT64


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of `length` elements; `index` names the tile index. `restart`: each tile begins without a prefix."""

    length: int
    index: str
    restart: bool = True


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """Scans along `pattern.index`. Consecutive threads have consecutive values of the index `fastest`.

    `outer` are the output's remaining indices, preceded by the tile index where the scans restart in every tile.
    `max_width` is the widest vector access in elements: 1 unless all stores and the `vector_reads` are contiguous along
    `fastest`."""

    pattern: SerialScan
    fastest: Index
    outer: tuple[Index, ...]
    vector_reads: tuple[Read, ...]
    max_width: Width
    tiles: Tiles | None = None
    prefix_reductions: tuple[Reduce, ...] = ()  # aggregates of the preceding tiles, the same for a whole tile
    has_indexed_reads: bool = False  # read per element, only inside of the row

    @property
    def request(self) -> Request:
        """The group, with the scans' inputs at the current element."""
        return self.pattern.request

    @property
    def along(self) -> Index:
        return self.pattern.index

    @property
    def context(self) -> Context:
        return self.pattern.request.context

    @property
    def max_length(self) -> int:
        """Upper bound of the elements that are scanned without a restart."""
        if self.tiles is not None and self.tiles.restart:
            return self.tiles.length
        return self.context.max_extent(self.along)

    @property
    def planned_length(self) -> int:
        """As `max_length`, of the length that is planned for."""
        return min(self.max_length, self.context.planned_extent(self.along))

    @property
    def tiles_carry_over(self) -> bool:
        """Whether the prefix of a tile is that of the preceding ones."""
        return self.tiles is not None and not self.tiles.restart

    @property
    def is_row(self) -> bool:
        """Whether the scans run along contiguous memory."""
        return self.fastest == self.along


def match_scans(request: Request) -> ScanProblem | Refusal:
    """The group's scans, or why they can't be computed in parallel."""
    if not any(isinstance(node, Scan) for s in request.group.statements for node in walk(s.value)):
        return Refusal("has no scan")
    request, tiles = extract_tiles(request)
    pattern = recognise(request)
    if pattern is None:
        return Refusal(
            "takes scans along one index in one direction, in no loop, nor in a branch that keeps their reads in bounds"
        )
    statements = pattern.request.group.statements
    prefix_reductions = () if tiles is None else _prefix_reductions(pattern, tiles)
    for statement in statements:
        if any(map(is_computed, statement.subscripts)):
            return Refusal(f"writes {statement.target} at sums and quotients of indices only")
        if any(isinstance(node, Reduce) and node not in prefix_reductions for node in walk(statement.value)):
            return Refusal(f"has no reduction loops besides the scan, and {statement.target} needs one")
    reads = loaded_reads(statements)
    arrays, order = request.context.arrays, fastest_first(request)
    fastest = order[0]
    indexed = tuple(read for read in reads if read.boundary is not None or not all(map(is_plain, read.subscripts)))
    along = [read for read in reads if read not in indexed and IndexValue(fastest.name) in read.subscripts]
    vector_reads = tuple(read for read in along if arrays[read.array].space in IN_MEMORY)
    indexed += tuple(read for read in along if read not in vector_reads)
    loaded = [(read.array, read.subscripts) for read in vector_reads]
    stored = [(s.target, s.subscripts) for s in pattern.request.stored_statements()]
    # Of many elements, a launch before it stores what it reads in the order of its results.
    if prod(map(request.context.max_extent, order)) >= MIN_TERMS:
        for array, subscripts in (*loaded, *stored):
            if _is_transposed(arrays[array], subscripts, order):
                return Refusal(f"{array} is not contiguous along {fastest.name}")
    max_width = narrowest(
        (
            *(widest(arrays[array], subs, fastest.name, request.context) for array, subs in loaded),
            *(widest_at(arrays[array], subs, fastest.name, request.context) for array, subs in stored),
        )
    )
    if fastest != pattern.index:
        multiple = divisor(request.context.extent(fastest), request.context)
        max_width = max_width.dividing(multiple, f"the extent of {fastest.name} is a known multiple of {{count}} only")
    outer = tuple(index for index in order if index not in (fastest, pattern.index))
    if prefix_reductions and fastest != pattern.index:
        return Refusal("combines preceding tiles of rows, not of columns")
    if indexed:
        first = arrays[indexed[0].array]
        why = f"from {first.space} memory" if indexed[0] in along else "at other than plain indices"
        max_width = Width(1, f"{first.name} is read {why}, one element at a time")
    if tiles is not None:
        outer = (_tile_index(pattern.index, tiles), *outer)
    return ScanProblem(pattern, fastest, outer, vector_reads, max_width, tiles, prefix_reductions, bool(indexed))


def _is_transposed(array: Array, subscripts: Sequence[Expr], order: Sequence[Index]) -> bool:
    """Whether consecutive elements of an array belong to another index than the first of `order`. Elements that are
    apart along every index, as a field of structures, are not transposed."""
    fastest, *others = (is_contiguous(array, subscripts, index.name) for index in order)
    return not fastest and any(others)


def in_tiles(problem: ScanProblem, length: int) -> ScanProblem:
    """The same scans over tiles of `length` elements, with a tile index; the prefix carries over from tile to tile."""
    tiles = Tiles(length, _tile_name(problem.request, (*problem.outer, problem.along)), restart=False)
    return replace(problem, tiles=tiles, outer=(_tile_index(problem.along, tiles), *problem.outer))


def _tile_index(along: Index, tiles: Tiles) -> Index:
    return Index(tiles.index, tile_count(along.extent, tiles.length))


def _tile_name(request: Request, indices: tuple[Index, ...]) -> str:
    """The name of the tile index, which differs from those of the other indices and the params."""
    return fresh("tile", {index.name for index in indices} | request.context.symbols.keys())


def _prefix_reductions(pattern: SerialScan, tiles: Tiles) -> tuple[Reduce, ...]:
    """Reductions over preceding tiles that are the same for all elements of a tile."""
    values = [statement.value for statement in pattern.request.group.statements]
    reductions = {node: free_indices(node) for value in values for node in walk(value) if isinstance(node, Reduce)}
    return tuple(
        reduction
        for reduction, names in reductions.items()
        if len(reduction.indices) == 1 and isinstance(reduction.body, Read)
        if tiles.index in names and pattern.index.name not in names
    )


# Scans that restart in every tile of their index, the tile scans of a multi-pass scan: they have the condition that an
# input is in the tile of the current element, `inner // length == outer // length`.


def tile_of(index: Expr, length: int) -> Expr:
    """The tile index of an element."""
    return Op("floordiv", (index, Const(length, INT64)), INT64)


def tile_count(extent: Expr, length: int) -> Expr:
    """The number of tiles in an extent, a partial last one included."""
    if isinstance(extent, Const):
        return Const(-(-int(extent.value) // length), INT64)
    return tile_of(Op("add", (extent, Const(length - 1, INT64)), INT64), length)


def restarting(scan: Scan, length: int) -> Scan:
    """The scan, restarting in every tile."""
    inner, outer = IndexValue(scan.inner.name), IndexValue(scan.outer)
    same_tile: Expr = Op("eq", (tile_of(inner, length), tile_of(outer, length)), BOOL)
    return replace(scan, where=same_tile if scan.where is None else Op("and", (same_tile, scan.where), BOOL))


def extract_tiles(request: Request) -> tuple[Request, Tiles | None]:
    """The group with a tile index in place of tile conditions, where all scans have the same tiles; else unchanged."""
    statements = request.group.statements
    scans = {node: None for s in statements for node in walk(s.value) if isinstance(node, Scan)}
    tilings = {(_length(scan), scan.outer) for scan in scans}
    length, outer = next(iter(tilings))
    if length is None or len(tilings) > 1:
        return request, None
    tiles = Tiles(length, _tile_name(request, statements[0].indices))
    changes: dict[Expr, Expr] = {tile_of(IndexValue(outer), length): IndexValue(tiles.index)}
    for scan in scans:
        condition = scan.where.args[1] if isinstance(scan.where, Op) and scan.where.name == "and" else None
        changes[scan] = replace(scan, where=condition)
    statements = tuple(replace(s, value=replaced(s.value, changes.get)) for s in statements)
    return request.with_statements(statements), tiles


def _length(scan: Scan) -> int | None:
    """The tile length in elements, None where the scan does not restart."""
    where = scan.where
    if isinstance(where, Op) and where.name == "and":
        where = where.args[0]
    match where:
        case Op(name="eq", args=(Op(name="floordiv", args=(IndexValue(name=name), Const(value=int(length)))), _)):
            is_tile = name == scan.inner.name and restarting(replace(scan, where=None), length).where == where
            return length if is_tile else None
    return None
