"""A few long scans as three launches: tile aggregates, their exclusive scan, and a scan of each tile.

Two launches, where each tile can reduce the aggregates of the preceding tiles itself.
"""

from __future__ import annotations

from cugen.families.scan.config import can_reduce_preceding, tile_length, uses_look_back
from cugen.families.scan.recognition import ScanProblem, match_scans
from cugen.families.scan.tiles import restarting, tile_count, tile_of
from cugen.pieces.grid import divides
from cugen.plan.lowering.reductions import ACCUMULATORS, combine
from cugen.plan.request import Group, Refusal, Request, Single, Steps
from cugen.plan.subscripts import to_integer
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Cast, Const, Expr, Index, IndexValue, Op, Read, Reduce, Scan, Select, walk
from cugen.spec.model import Array, Statement
from cugen.spec.resolve.keys.layout import dense_strides
from cugen.spec.types import BOOL, INT64


def multi_pass(single: Single) -> Steps | None:
    """Replaces a scan of few long rows or columns by two or three statements; None where one launch is enough."""
    statement, context = single.statement, single.context
    is_temporary = context.spec.array(statement.target).role == "temporary"
    stored = (statement.target,) if is_temporary else ()
    request = Request("", Group((statement,)), context, single.schedule, single.target, stored)
    problem = match_scans(request)
    if isinstance(problem, Refusal) or problem.tiles is not None:
        return None
    length = None if uses_look_back(problem) else tile_length(problem)
    return None if length is None else _MultiPass(single, problem, length).steps()


class _MultiPass:
    def __init__(self, single: Single, problem: ScanProblem, length: int) -> None:
        self.statement, self.length = single.statement, length
        self.spec = single.context.spec
        self.along, self.fastest = problem.along, problem.fastest
        self.used_names = {array.name for array in self.spec.arrays} | {param.name for param in self.spec.params}
        self.used_names |= {scalar.name for scalar in self.spec.scalars}
        names = self.used_names | {index.name for index in self.statement.indices}
        names |= {node.inner.name for node in walk(self.statement.value) if isinstance(node, Scan)}
        self.tile = _fresh("tile", names)
        self.element = _fresh(f"{self.along.name}_in_tile", names)
        extent = to_integer(problem.along.extent, single.context.symbols)
        self.has_whole_tiles = divides(length, extent, single.context)
        self.reduces_preceding = can_reduce_preceding(problem, length)

    def steps(self) -> Steps:
        statements: list[Statement] = []
        temporaries: list[Array] = []
        scans = {node: None for node in walk(self.statement.value) if isinstance(node, Scan)}
        tile_scans: dict[Scan, Expr] = {}
        for scan in scans:
            kind = ACCUMULATORS[scan.kind]
            aggregates = self._temporary(f"{self.statement.target}_{kind}", scan)
            temporaries.append(aggregates)
            statements.append(self._aggregate(scan, aggregates))
            tile = tile_of(IndexValue(self.along.name), self.length)
            prefix = self._reduce_preceding(scan, aggregates, tile)
            if not self.reduces_preceding:
                prefixes = self._temporary(f"{self.statement.target}_{kind}_prefix", scan)
                temporaries.append(prefixes)
                statements.append(self._scan_aggregates(scan, aggregates, prefixes))
                prefix = Read(prefixes.name, self._subscripts(tile), scan.dtype)
            tile_scans[scan] = combine(scan.kind, prefix, restarting(scan, self.length))
        value = _replace_scans(self.statement.value, tile_scans)
        final = Statement(
            self.statement.target,
            self.statement.subscripts,
            self.statement.indices,
            value,
            self.statement.accumulate,
            self.statement.text,
            self.statement.span,
        )
        return Steps((*statements, final), tuple(temporaries), tuple(array.name for array in temporaries))

    def _indices(self) -> tuple[Index, ...]:
        """The indices of the tile aggregates, in the memory order of the output."""
        tiles = Index(self.tile, tile_count(self.along.extent, self.length))
        rows = tuple(index for index in self.statement.indices if index not in (self.along, self.fastest))
        return (*rows, tiles) if self.fastest == self.along else (*rows, tiles, self.fastest)

    def _subscripts(self, tile: Expr) -> tuple[Expr, ...]:
        return tuple(tile if i.name == self.tile else IndexValue(i.name) for i in self._indices())

    def _temporary(self, hint: str, scan: Scan) -> Array:
        name = _fresh(hint, self.used_names)
        self.used_names.add(name)
        shape = tuple(index.extent for index in self._indices())
        return Array(name, shape, scan.dtype, "temporary", dense_strides(shape), is_temporary=True)

    def _aggregate(self, scan: Scan, target: Array) -> Statement:
        """The first pass: the aggregate of each tile."""
        position: Expr = Op("mul", (IndexValue(self.tile), Const(self.length, INT64)), INT64)
        position = Op("add", (position, IndexValue(self.element)), INT64)
        at_position = {scan.inner.name: position}
        conditions: list[Expr] = [] if self.has_whole_tiles else [Op("lt", (position, self.along.extent), BOOL)]
        if scan.where is not None:
            conditions.append(substitute(scan.where, at_position))
        where = conditions[0] if conditions else None
        for condition in conditions[1:]:
            where = Op("and", (where, condition), BOOL) if where is not None else condition
        elements = (Index(self.element, Const(self.length, INT64)),)
        value = Reduce(scan.kind, substitute(scan.body, at_position), elements, scan.dtype, where, scan.span)
        text = f"{target.name}: the {_NOUNS[scan.kind]} of each {self.length} elements along {self.along.name}"
        return self._statement(target, value, text)

    def _reduce_preceding(self, scan: Scan, aggregates: Array, tile: Expr) -> Expr:
        """The exclusive prefix of a tile, reduced from the aggregates of all preceding tiles."""
        inner = Index(f"{self.tile}_", tile_count(self.along.extent, self.length))
        preceding = IndexValue(inner.name)
        is_preceding: Expr = Op("gt" if scan.reverse else "lt", (preceding, tile), BOOL)
        read = Read(aggregates.name, self._subscripts(preceding), scan.dtype)
        return Reduce(scan.kind, read, (inner,), scan.dtype, is_preceding, scan.span)

    def _scan_aggregates(self, scan: Scan, aggregates: Array, target: Array) -> Statement:
        """The second pass: the exclusive scan of the tile aggregates."""
        inner = Index(f"{self.tile}_", tile_count(self.along.extent, self.length))
        read = Read(aggregates.name, self._subscripts(IndexValue(inner.name)), scan.dtype)
        value = Scan(scan.kind, read, inner, self.tile, scan.dtype, True, scan.reverse, None, scan.span)
        order = "after" if scan.reverse else "before"
        return self._statement(target, value, f"{target.name}: the {_NOUNS[scan.kind]} of all {order} them")

    def _statement(self, target: Array, value: Expr, text: str) -> Statement:
        subscripts = self._subscripts(IndexValue(self.tile))
        return Statement(target.name, subscripts, self._indices(), value, False, text, self.statement.span)


_NOUNS = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum"}


def _fresh(hint: str, used: set[str]) -> str:
    while hint in used:
        hint += "_"
    return hint


def _replace_scans(expr: Expr, tile_scans: dict[Scan, Expr]) -> Expr:
    """The expression with each scan replaced by its tile scan."""
    match expr:
        case Scan():
            return tile_scans[expr]
        case Op():
            return Op(expr.name, tuple(_replace_scans(arg, tile_scans) for arg in expr.args), expr.dtype, expr.span)
        case Cast():
            return Cast(_replace_scans(expr.arg, tile_scans), expr.to, expr.span)
        case Select():
            condition = _replace_scans(expr.condition, tile_scans)
            then, orelse = _replace_scans(expr.then, tile_scans), _replace_scans(expr.orelse, tile_scans)
            return Select(condition, then, orelse, expr.dtype, expr.span)
    return expr
