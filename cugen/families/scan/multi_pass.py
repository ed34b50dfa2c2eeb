"""A few long scans as three launches: tile aggregates, their exclusive scan, and a scan of each tile.

Two launches, where each tile can reduce the aggregates of the preceding tiles itself.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.families.scan.config import can_reduce_preceding, tile_length, uses_look_back
from cugen.families.scan.recognition import ScanProblem, match_scans, restarting, tile_count, tile_of
from cugen.pieces.grid import divides
from cugen.plan.lowering.reductions import ACCUMULATORS, combine
from cugen.plan.request import Refusal, Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import Temporary, steps_of, temporary
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    bound_indices,
    conjunction,
    walk,
)
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT64


def multi_pass(single: Single) -> Steps | None:
    """Replaces a scan of few long rows or columns by two or three statements; None where one launch is enough."""
    problem = match_scans(single.request())
    if isinstance(problem, Refusal) or problem.tiles is not None:
        return None
    length = None if uses_look_back(problem) else tile_length(problem)
    return None if length is None else _MultiPass(single, problem, length).steps()


class _MultiPass:
    def __init__(self, single: Single, problem: ScanProblem, length: int) -> None:
        self.statement, self.length = single.statement, length
        self.along = problem.along
        spec = single.context.spec
        self.taken = taken_names(spec)
        indices = (*self.statement.indices, *bound_indices(self.statement.value))
        names = taken_names(spec, indices)
        self.tile = fresh("tile", names)
        tiles = Index(self.tile, tile_count(self.along.extent, length))
        rows = (index for index in self.statement.indices if index not in (self.along, problem.fastest))
        # Of the tile aggregates, in the memory order of the output.
        self.indices = (*rows, tiles) if problem.is_row else (*rows, tiles, problem.fastest)
        self.source = replace(tiles, name=f"{self.tile}_")  # another tile, whose aggregate is combined
        self.element = fresh(f"{self.along.name}_in_tile", names)
        self.has_whole_tiles = divides(length, single.context.extent(problem.along), single.context)
        self.reduces_preceding = can_reduce_preceding(problem, length)

    def steps(self) -> Steps:
        temporaries: list[Temporary] = []
        tile_scans: dict[Expr, Expr] = {}
        tile = tile_of(IndexValue(self.along.name), self.length)
        for scan in dict.fromkeys(node for node in walk(self.statement.value) if isinstance(node, Scan)):
            aggregates = self._aggregates(scan)
            temporaries.append(aggregates)
            prefix = self._reduce_preceding(scan, aggregates.read, tile)
            if not self.reduces_preceding:
                prefixes = self._scanned(scan, aggregates.read)
                temporaries.append(prefixes)
                prefix = self._of_tile(prefixes.read, tile)
            tile_scans[scan] = combine(scan.kind, prefix, restarting(scan, self.length))
        final = replace(self.statement, value=replaced(self.statement.value, tile_scans.get))
        return steps_of(temporaries, final)

    def _of_tile(self, read: Read, tile: Expr) -> Read:
        """The element of another tile."""
        return replace(read, subscripts=tuple(tile if s == IndexValue(self.tile) else s for s in read.subscripts))

    def _stored(self, scan: Scan, suffix: str, value: Expr, what: str) -> Temporary:
        """A value per tile, and the statement that stores it."""
        name = fresh(f"{self.statement.target}_{ACCUMULATORS[scan.kind]}{suffix}", self.taken)
        stored = temporary(name, self.indices, value, "", self.statement)
        return replace(stored, statement=replace(stored.statement, text=f"{name}: the {_NOUNS[scan.kind]} of {what}"))

    def _aggregates(self, scan: Scan) -> Temporary:
        """The first pass: the aggregate of each tile."""
        first = Op("mul", (IndexValue(self.tile), Const(self.length, INT64)), INT64)
        position: Expr = Op("add", (first, IndexValue(self.element)), INT64)
        at_position = {scan.inner.name: position}
        conditions: list[Expr] = [] if self.has_whole_tiles else [Op("lt", (position, self.along.extent), BOOL)]
        if scan.where is not None:
            conditions.append(substitute(scan.where, at_position))
        body, elements = substitute(scan.body, at_position), (Index(self.element, Const(self.length, INT64)),)
        value = Reduce(scan.kind, body, elements, scan.dtype, conjunction(conditions), scan.span)
        return self._stored(scan, "", value, f"each {self.length} elements along {self.along.name}")

    def _reduce_preceding(self, scan: Scan, aggregate: Read, tile: Expr) -> Expr:
        """The exclusive prefix of a tile, reduced from the aggregates of all preceding tiles."""
        source = IndexValue(self.source.name)
        is_preceding: Expr = Op("gt" if scan.reverse else "lt", (source, tile), BOOL)
        return Reduce(scan.kind, self._of_tile(aggregate, source), (self.source,), scan.dtype, is_preceding, scan.span)

    def _scanned(self, scan: Scan, aggregate: Read) -> Temporary:
        """The second pass: the exclusive scan of the tile aggregates."""
        read = self._of_tile(aggregate, IndexValue(self.source.name))
        value = Scan(scan.kind, read, self.source, self.tile, scan.dtype, True, scan.reverse, None, scan.span)
        order = "after" if scan.reverse else "before"
        return self._stored(scan, "_prefix", value, f"all {order} them")


_NOUNS = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum"}
