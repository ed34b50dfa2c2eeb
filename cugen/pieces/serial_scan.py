"""Serial scans: one thread loops along the scanned index with accumulators, instead of one reduction per element."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.pieces.statements import lower_statements
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, bound_sum, combine, identity, lower_condition
from cugen.plan.nodes import Assign, For, If, Index, Let, Loop, Node, Section
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds, integer, symbol
from cugen.plan.traversal.substitution import as_reduction, substitute
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Reduce, Scan, Select, children, free_indices, walk


@dataclass(frozen=True, slots=True)
class SerialScan:
    """`request` is the group with each scan's term taken at the loop's current element along `index`."""

    request: Request
    index: spec.Index
    reverse: bool
    scans: tuple[Scan, ...]


def recognise(request: Request) -> SerialScan | None:
    """The serial scan of a group whose scans share one index and direction and need one accumulator each."""
    statements = request.group.statements
    scans = {node: None for s in statements for node in walk(s.value) if isinstance(node, Scan)}
    if not scans or not all(_always_runs(s.value) for s in statements):
        return None
    index = next(index for index in statements[0].indices if index.name == next(iter(scans)).outer)
    reverse = next(iter(scans)).reverse
    names = {i.name for i in statements[0].indices}
    if any(s.outer != index.name or s.reverse != reverse or not free_indices(s) <= names for s in scans):
        return None
    if any(index.name in free_indices(part) for s in scans for part in children(s)):
        return None
    if dict(request.schedule.block).get(index.name, 1) > 1:
        return None
    current = tuple(replace(s, value=_at_current(s.value)) for s in statements)
    at_current = replace(request, group=replace(request.group, statements=current))
    return SerialScan(at_current, index, reverse, tuple(dict.fromkeys(map(_scan_at_current, scans))))


def lower_serial_scan(scan_loop: SerialScan, lowering: Lowering, scope: Scope) -> tuple[Section, ...]:
    """The sections `accumulators`, and `serial_loop`, which updates them and stores each element: exclusive scans
    after the element (`accumulate_after`), others before (`accumulate`)."""
    name = symbol(lowering.names.allocate(scan_loop.index.name))
    extent = to_integer(scan_loop.index.extent, lowering.symbols)
    low, high = bounds(extent, lowering.ranges)
    lowering.symbols[scan_loop.index.name] = name
    lowering.ranges[name] = (0, max(high - 1, 0))
    lowering.limits[name] = extent
    body = Scope(scope, frozenset((scan_loop.index.name,)), certain=low >= 1)
    lowering.prepare(tuple(s.value for s in scan_loop.request.group.statements))
    declared: list[Node] = []
    after: list[Node] = []
    for scan in scan_loop.scans:
        local = Local(lowering.names.allocate(ACCUMULATORS[scan.kind]), scan.dtype)
        declared.append(Let(local, identity(scan.kind, scan.dtype), mutable=True))
        update = _update(scan, local, lowering, body)
        (after if scan.exclusive else body.nodes).extend(update)
        body.remember(scan, local)
    accumulate = tuple(body.nodes)
    lower_statements(scan_loop.request, lowering, body)
    index = Index(name.name, name, lowering.ranges[name])
    loop = Loop(index, integer(0), extent, downward=scan_loop.reverse)
    step = (
        Section("accumulate", accumulate),
        Section("scanned_elements", tuple(body.nodes[len(accumulate) :])),
        Section("accumulate_after", tuple(after)),
    )
    return Section("accumulators", (*scope.nodes, *declared)), Section("serial_loop", (For(loop, step),))


def _update(scan: Scan, local: Local, lowering: Lowering, scope: Scope) -> tuple[Node, ...]:
    condition = None if scan.where is None else lower_condition(lowering, scan.where, scope)
    inner = scope if condition is None else Scope(scope, certain=False)
    value = lowering.lower(scan.body, inner)
    if scan.kind == "sum":
        bound_sum(lowering, as_reduction(scan), local, value)
    step = Assign(local, combine(scan.kind, local, value))
    return (step,) if condition is None else (If(condition, (*inner.nodes, step)),)


def _always_runs(expr: Expr) -> bool:
    """Whether every scan executes exactly once per element: none in a branch, a reduction or another scan."""
    match expr:
        case Select(condition=condition, then=then, orelse=orelse):
            return _always_runs(condition) and not _has_scan(then) and not _has_scan(orelse)
        case Op(name="and" | "or", args=(left, right)):
            return _always_runs(left) and not _has_scan(right)
        case Reduce() | Scan():
            return not any(map(_has_scan, children(expr)))
    return all(map(_always_runs, children(expr)))


def _has_scan(expr: Expr) -> bool:
    return any(isinstance(node, Scan) for node in walk(expr))


def _at_current(expr: Expr) -> Expr:
    """The expression with the terms of its scans at the loop's current element."""
    match expr:
        case Scan():
            return _scan_at_current(expr)
        case Op():
            return replace(expr, args=tuple(map(_at_current, expr.args)))
        case spec.Cast():
            return replace(expr, arg=_at_current(expr.arg))
        case Select():
            return replace(expr, condition=_at_current(expr.condition))
    return expr


def _scan_at_current(scan: Scan) -> Scan:
    current: dict[str, Expr] = {scan.inner.name: IndexValue(scan.outer)}
    return replace(
        scan,
        inner=replace(scan.inner, name=scan.outer),
        body=substitute(scan.body, current),
        where=None if scan.where is None else substitute(scan.where, current),
    )
