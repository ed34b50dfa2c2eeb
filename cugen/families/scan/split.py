"""A few long scans as three launches: what each segment combines to, what comes before each, and the scan of each; or
as two, where each segment can look back over those before it."""

from __future__ import annotations

from cugen.families.scan.config import looks_back, may_look_back, segment_length
from cugen.families.scan.recognition import Work, find_work
from cugen.families.scan.segments import count_of, segment_of, within
from cugen.pieces.grid import divides
from cugen.plan.lowering.reductions import ACCUMULATORS, combine
from cugen.plan.request import Group, Refusal, Request, Single, Steps
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import substitute
from cugen.spec.expressions import Cast, Const, Expr, Index, IndexValue, Op, Read, Reduce, Scan, Select, walk
from cugen.spec.model import Array, Statement
from cugen.spec.resolve.keys.layout import dense_strides
from cugen.spec.types import BOOL, INT64


def split(single: Single) -> Steps | None:
    """Three statements in place of one whose rows or columns are too few to keep a device busy, and long."""
    statement, context = single.statement, single.context
    is_temporary = context.spec.array(statement.target).role == "temporary"
    stored = (statement.target,) if is_temporary else ()
    request = Request("", Group((statement,)), context, single.schedule, single.target, stored)
    work = find_work(request)
    if isinstance(work, Refusal) or work.segments is not None:
        return None
    length = None if looks_back(work) else segment_length(work)
    return None if length is None else _Splitting(single, work, length).steps()


class _Splitting:
    def __init__(self, single: Single, work: Work, length: int) -> None:
        self.statement, self.length = single.statement, length
        self.spec = single.context.spec
        self.along, self.fast = work.along, work.fast
        self.taken = {array.name for array in self.spec.arrays} | {param.name for param in self.spec.params}
        self.taken |= {scalar.name for scalar in self.spec.scalars}
        names = {index.name for index in self.statement.indices}
        names |= {node.inner.name for node in walk(self.statement.value) if isinstance(node, Scan)}
        self.segment = _fresh("segment", names)
        self.term = _fresh(f"{self.along.name}_in_segment", names)
        extent = to_integer(work.along.extent, single.context.symbols)
        self.whole = divides(length, extent, single.context)
        self.looks_back = may_look_back(work, length)

    def steps(self) -> Steps:
        statements: list[Statement] = []
        temporaries: list[Array] = []
        scans = {node: None for node in walk(self.statement.value) if isinstance(node, Scan)}
        pieces: dict[Scan, Expr] = {}
        for scan in scans:
            kind = ACCUMULATORS[scan.kind]
            whole = self._temporary(f"{self.statement.target}_{kind}", scan)
            temporaries.append(whole)
            statements.append(self._combine(scan, whole))
            here = segment_of(IndexValue(self.along.name), self.length)
            in_front = self._in_front(scan, whole, here)
            if not self.looks_back:
                before = self._temporary(f"{self.statement.target}_{kind}_before", scan)
                temporaries.append(before)
                statements.append(self._before(scan, whole, before))
                in_front = Read(before.name, self._place(here), scan.dtype)
            pieces[scan] = combine(scan.kind, in_front, within(scan, self.length))
        value = _replaced(self.statement.value, pieces)
        kept = Statement(
            self.statement.target,
            self.statement.subscripts,
            self.statement.indices,
            value,
            self.statement.accumulate,
            self.statement.text,
            self.statement.span,
        )
        return Steps((*statements, kept), tuple(temporaries), tuple(array.name for array in temporaries))

    def _indices(self) -> tuple[Index, ...]:
        """The indices of what is known of each segment: neighbours in memory stay neighbours."""
        count = Index(self.segment, count_of(self.along.extent, self.length))
        rows = tuple(index for index in self.statement.indices if index not in (self.along, self.fast))
        return (*rows, count) if self.fast == self.along else (*rows, count, self.fast)

    def _place(self, segment: Expr) -> tuple[Expr, ...]:
        return tuple(segment if i.name == self.segment else IndexValue(i.name) for i in self._indices())

    def _temporary(self, wish: str, scan: Scan) -> Array:
        name = _fresh(wish, self.taken)
        self.taken.add(name)
        shape = tuple(index.extent for index in self._indices())
        return Array(name, shape, scan.dtype, "temporary", dense_strides(shape), is_temporary=True)

    def _combine(self, scan: Scan, target: Array) -> Statement:
        """What the terms of each segment combine to."""
        place: Expr = Op("mul", (IndexValue(self.segment), Const(self.length, INT64)), INT64)
        place = Op("add", (place, IndexValue(self.term)), INT64)
        there = {scan.inner.name: place}
        conditions: list[Expr] = [] if self.whole else [Op("lt", (place, self.along.extent), BOOL)]
        if scan.where is not None:
            conditions.append(substitute(scan.where, there))
        where = conditions[0] if conditions else None
        for condition in conditions[1:]:
            where = Op("and", (where, condition), BOOL) if where is not None else condition
        terms = (Index(self.term, Const(self.length, INT64)),)
        value = Reduce(scan.kind, substitute(scan.body, there), terms, scan.dtype, where, scan.span)
        text = f"{target.name}: the {_NOUNS[scan.kind]} of each {self.length} elements along {self.along.name}"
        return self._step(target, value, text)

    def _in_front(self, scan: Scan, whole: Array, here: Expr) -> Expr:
        """What the segments in front of one combine to, where there are few enough to look back over."""
        inner = Index(f"{self.segment}_", count_of(self.along.extent, self.length))
        other = IndexValue(inner.name)
        is_in_front: Expr = Op("gt" if scan.reverse else "lt", (other, here), BOOL)
        read = Read(whole.name, self._place(other), scan.dtype)
        return Reduce(scan.kind, read, (inner,), scan.dtype, is_in_front, scan.span)

    def _before(self, scan: Scan, whole: Array, target: Array) -> Statement:
        """What the segments before each one combine to."""
        inner = Index(f"{self.segment}_", count_of(self.along.extent, self.length))
        read = Read(whole.name, self._place(IndexValue(inner.name)), scan.dtype)
        value = Scan(scan.kind, read, inner, self.segment, scan.dtype, True, scan.reverse, None, scan.span)
        order = "after" if scan.reverse else "before"
        return self._step(target, value, f"{target.name}: the {_NOUNS[scan.kind]} of all {order} them")

    def _step(self, target: Array, value: Expr, text: str) -> Statement:
        subscripts = self._place(IndexValue(self.segment))
        return Statement(target.name, subscripts, self._indices(), value, False, text, self.statement.span)


_NOUNS = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum"}


def _fresh(wish: str, taken: set[str]) -> str:
    while wish in taken:
        wish += "_"
    return wish


def _replaced(expr: Expr, pieces: dict[Scan, Expr]) -> Expr:
    """The expression with other ones in place of its scans."""
    match expr:
        case Scan():
            return pieces[expr]
        case Op():
            return Op(expr.name, tuple(_replaced(arg, pieces) for arg in expr.args), expr.dtype, expr.span)
        case Cast():
            return Cast(_replaced(expr.arg, pieces), expr.to, expr.span)
        case Select():
            condition = _replaced(expr.condition, pieces)
            then, orelse = _replaced(expr.then, pieces), _replaced(expr.orelse, pieces)
            return Select(condition, then, orelse, expr.dtype, expr.span)
    return expr
