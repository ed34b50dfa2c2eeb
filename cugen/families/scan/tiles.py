"""Scans that restart in every tile of their index: the tile scans of a multi-pass scan.

Such a scan is written with the condition that its inputs are in the tile of the current element:
`inner // length == outer // length`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.plan.request import Request
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Op, Read, Reduce, Scan, Select, walk
from cugen.spec.types import BOOL, INT64


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of `length` elements; `index` is the name of the tile index."""

    length: int
    index: str


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
    """The group with its tile conditions replaced by a tile index, where all scans have the same tiles; otherwise the
    group unchanged."""
    statements = request.group.statements
    scans = {node: None for s in statements for node in walk(s.value) if isinstance(node, Scan)}
    tilings = {(_length(scan), scan.outer): None for scan in scans}
    (length, outer) = next(iter(tilings)) if len(tilings) == 1 else (None, "")
    if length is None:
        return request, None
    used = {index.name for index in statements[0].indices} | request.context.symbols.keys()
    name = "tile" if "tile" not in used else "tile_"
    number = tile_of(IndexValue(outer), length)
    statements = tuple(
        replace(statement, value=_without_condition(statement.value, number, name)) for statement in statements
    )
    return replace(request, group=replace(request.group, statements=statements)), Tiles(length, name)


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


def _without_condition(expr: Expr, number: Expr, name: str) -> Expr:
    """The expression with scans without their tile condition, and the tile index by name."""

    def rewrite(part: Expr) -> Expr:
        return _without_condition(part, number, name)

    match expr:
        case Scan(where=Op(name="and", args=(_, condition))):
            return replace(expr, where=condition)
        case Scan():
            return replace(expr, where=None)
        case Op() if expr == number:
            return IndexValue(name)
        case Op():
            return replace(expr, args=tuple(map(rewrite, expr.args)))
        case Cast():
            return replace(expr, arg=rewrite(expr.arg))
        case Read():
            return replace(expr, subscripts=tuple(map(rewrite, expr.subscripts)))
        case Reduce():
            where = None if expr.where is None else rewrite(expr.where)
            return replace(expr, body=rewrite(expr.body), where=where)
        case Select():
            return replace(
                expr, condition=rewrite(expr.condition), then=rewrite(expr.then), orelse=rewrite(expr.orelse)
            )
    return expr
