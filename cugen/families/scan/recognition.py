"""Recognises statements with scans along one index, and finds the index that is contiguous in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cugen.families.scan.tiles import Tiles, extract_tiles, tile_count
from cugen.pieces.elementwise import loaded_reads
from cugen.pieces.grid import fastest_first
from cugen.pieces.serial_scan import SerialScan, recognise
from cugen.pieces.vectors import Width, divisor, is_contiguous, is_fixed, widest
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Statement

_IN_MEMORY = ("global", "readonly")


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """Scans along `pattern.index`. All stores and the `vector_reads` are contiguous along the index `fastest`.

    `outer` are the output's remaining indices, preceded by the tile index where the scans restart in every tile.
    `max_width` is the widest vector access in elements.
    """

    pattern: SerialScan
    fastest: spec.Index
    outer: tuple[spec.Index, ...]
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
    def scans(self) -> tuple[Scan, ...]:
        return self.pattern.scans

    @property
    def along(self) -> spec.Index:
        return self.pattern.index

    @property
    def is_row(self) -> bool:
        """Whether the scans run along contiguous memory."""
        return self.fastest == self.along

    def is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored


def match_scans(request: Request) -> ScanProblem | Refusal:
    """The group's scans, or why they can't be computed in parallel."""
    if not any(isinstance(node, Scan) for s in request.group.statements for node in walk(s.value)):
        return Refusal("has no scan")
    request, tiles = extract_tiles(request)
    pattern = recognise(request)
    if pattern is None:
        return Refusal("takes unconditional scans along one index in one direction")
    statements = pattern.request.group.statements
    prefix_reductions = () if tiles is None else _prefix_reductions(pattern, tiles)
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            return Refusal(f"writes {statement.target} at plain indices only")
        if any(isinstance(node, Reduce) and node not in prefix_reductions for node in walk(statement.value)):
            return Refusal(f"has no reduction loops besides the scan, and {statement.target} needs one")
    reads = loaded_reads(statements)
    indexed = tuple(read for read in reads if read.boundary is not None or not all(map(_is_plain, read.subscripts)))
    order = fastest_first(request)
    fastest = order[0]
    vector_reads = tuple(
        read
        for read in reads
        if read not in indexed
        and IndexValue(fastest.name) in read.subscripts
        and request.context.arrays[read.array].space in _IN_MEMORY
    )
    accessed = [(read.array, read.subscripts) for read in vector_reads]
    accessed += [(s.target, s.subscripts) for s in statements if _is_stored(request, s)]
    for array, subscripts in accessed:
        if not is_contiguous(request.context.arrays[array], subscripts, fastest.name):
            return Refusal(f"{array} is not contiguous along {fastest.name}")
    widths = [
        widest(request.context.arrays[array], subscripts, fastest.name, request.context)
        for array, subscripts in accessed
    ]
    max_width = min(widths, key=lambda width: width.count)
    count = math.gcd(divisor(to_integer(fastest.extent, request.context.symbols), request.context), max_width.count)
    if count < max_width.count and fastest != pattern.index:
        max_width = Width(count, f"the extent of {fastest.name} is a known multiple of {count} only")
    outer = tuple(index for index in order if index not in (fastest, pattern.index))
    if prefix_reductions and fastest != pattern.index:
        return Refusal("combines preceding tiles of rows, not of columns")
    if indexed:
        max_width = Width(1, f"{indexed[0].array} is read at other than plain indices, one element at a time")
    if tiles is not None:
        outer = (spec.Index(tiles.index, tile_count(pattern.index.extent, tiles.length)), *outer)
    return ScanProblem(pattern, fastest, outer, vector_reads, max_width, tiles, prefix_reductions, bool(indexed))


def in_tiles(problem: ScanProblem, length: int) -> ScanProblem:
    """The same scans over tiles of `length` elements, with a tile index; the prefix carries over from tile to tile."""
    used = {index.name for index in (*problem.outer, problem.along)} | problem.request.context.symbols.keys()
    name = "tile" if "tile" not in used else "tile_"
    number = spec.Index(name, tile_count(problem.along.extent, length))
    return replace(problem, tiles=Tiles(length, name), outer=(number, *problem.outer))


def _prefix_reductions(pattern: SerialScan, tiles: Tiles) -> tuple[Reduce, ...]:
    """Reductions over preceding tiles that are the same for all elements of a tile."""
    values = [statement.value for statement in pattern.request.group.statements]
    reductions = {node: None for value in values for node in walk(value) if isinstance(node, Reduce)}
    return tuple(
        reduction
        for reduction in reductions
        if len(reduction.indices) == 1
        and isinstance(reduction.body, Read)
        and tiles.index in free_indices(reduction)
        and pattern.index.name not in free_indices(reduction)
    )


def _is_stored(request: Request, statement: Statement) -> bool:
    role = request.context.spec.array(statement.target).role
    return role != "temporary" or statement.target in request.stored


def _is_plain(sub: Expr) -> bool:
    """Whether a subscript is a plain index or the same for all elements."""
    return isinstance(sub, IndexValue) or is_fixed(sub)
