"""Scans that begin anew with every segment of their index: the pieces of a long one, as `scan_split` writes them.

Such a scan asks of its terms that they lie in the segment of the current element: `inner // length == outer // length`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.plan.request import Request
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Op, Read, Reduce, Scan, Select, walk
from cugen.spec.types import BOOL, INT64


@dataclass(frozen=True, slots=True)
class Segments:
    """`length` elements each; `index` names the number of the one in which an element lies."""

    length: int
    index: str


def segment_of(index: Expr, length: int) -> Expr:
    """The number of the segment in which an element lies."""
    return Op("floordiv", (index, Const(length, INT64)), INT64)


def count_of(extent: Expr, length: int) -> Expr:
    """How many segments an extent has, the last one perhaps shorter."""
    if isinstance(extent, Const):
        return Const(-(-int(extent.value) // length), INT64)
    return segment_of(Op("add", (extent, Const(length - 1, INT64)), INT64), length)


def within(scan: Scan, length: int) -> Scan:
    """The scan that begins anew with every segment."""
    inner, outer = IndexValue(scan.inner.name), IndexValue(scan.outer)
    here: Expr = Op("eq", (segment_of(inner, length), segment_of(outer, length)), BOOL)
    return replace(scan, where=here if scan.where is None else Op("and", (here, scan.where), BOOL))


def without_segments(request: Request) -> tuple[Request, Segments | None]:
    """The group with scans that don't ask for their segment, and its number under a name, where all scans have equal
    ones; else the group as it is."""
    statements = request.group.statements
    scans = {node: None for s in statements for node in walk(s.value) if isinstance(node, Scan)}
    found = {(_length(scan), scan.outer): None for scan in scans}
    (length, outer) = next(iter(found)) if len(found) == 1 else (None, "")
    if length is None:
        return request, None
    taken = {index.name for index in statements[0].indices}
    name = "segment" if "segment" not in taken else "segment_"
    number = segment_of(IndexValue(outer), length)
    whole = tuple(replace(statement, value=_whole(statement.value, number, name)) for statement in statements)
    return replace(request, group=replace(request.group, statements=whole)), Segments(length, name)


def _length(scan: Scan) -> int | None:
    """The length of the scan's segments."""
    where = scan.where
    if isinstance(where, Op) and where.name == "and":
        where = where.args[0]
    match where:
        case Op(name="eq", args=(Op(name="floordiv", args=(IndexValue(name=name), Const(value=int(length)))), _)):
            is_own = name == scan.inner.name and within(replace(scan, where=None), length).where == where
            return length if is_own else None
    return None


def _whole(expr: Expr, number: Expr, name: str) -> Expr:
    """The expression with scans that don't ask for the segment of their terms, and its number under a name."""

    def rewrite(part: Expr) -> Expr:
        return _whole(part, number, name)

    match expr:
        case Scan(where=Op(name="and", args=(_, rest))):
            return replace(expr, where=rest)
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
