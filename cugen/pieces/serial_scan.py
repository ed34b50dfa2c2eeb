"""Serial scans: one thread loops along the scanned index with accumulators, instead of one reduction per element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.statements import lower_statements
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, bound_sum, combine, identity, lower_condition
from cugen.plan.nodes import Assign, For, If, Let, Loop, Node, Section
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.symbols import bounds, integer
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.hoist_reductions import are_in_bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Reduce, Scan, Select, children, free_indices, walk
from cugen.spec.rewriting import replaced


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
    if not scans or any(_has_nested_scan(s.value) for s in statements):
        return None
    always = {scan for s in statements for scan in _always_executed(s.value)}
    if not all(scan in always or _is_safe_without_guards(scan, request) for scan in scans):
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
    at_current: dict[Expr, Scan] = {scan: _at_current(scan) for scan in scans}
    current = tuple(replace(s, value=replaced(s.value, at_current.get)) for s in statements)
    return SerialScan(request.with_statements(current), index, reverse, tuple(dict.fromkeys(at_current.values())))


def lower_serial_scan(scan_loop: SerialScan, lowering: Lowering, scope: Scope) -> tuple[Section, ...]:
    """The sections `accumulators`, and `serial_loop`, which updates them and stores each element: exclusive scans
    after the element (`accumulate_after`), others before (`accumulate`)."""
    extent = scan_loop.request.context.extent(scan_loop.index)
    low, high = bounds(extent, lowering.ranges)
    index = loop_variable(scan_loop.index.name, extent, lowering)
    lowering.symbols[scan_loop.index.name] = index.symbol
    body = Scope(scope, frozenset((scan_loop.index.name,)), certain=low >= 1)
    lowering.prepare(tuple(s.value for s in scan_loop.request.group.statements))
    declared: list[Node] = []
    after: list[Node] = []
    for scan in scan_loop.scans:
        local = Local(lowering.names.allocate(ACCUMULATORS[scan.kind]), scan.dtype)
        declared.append(Let(local, identity(scan.kind, scan.dtype), mutable=True))
        update = accumulate_scan(scan, local, lowering, body, (local,), max(high, 1))
        (after if scan.exclusive else body.nodes).extend(update)
        body.remember(scan, local)
    accumulate = tuple(body.nodes)
    lower_statements(scan_loop.request, lowering, body)
    loop = Loop(index, integer(0), extent, downward=scan_loop.reverse)
    step = (
        Section("accumulate", accumulate),
        Section("scanned_elements", tuple(body.nodes[len(accumulate) :])),
        Section("accumulate_after", tuple(after)),
    )
    return Section("accumulators", (*scope.nodes, *declared)), Section("serial_loop", (For(loop, step),))


def accumulate_scan(
    scan: Scan, local: Local, lowering: Lowering, scope: Scope, sums: Iterable[Local], count: int
) -> tuple[Node, ...]:
    """Combines the current element into the accumulator, where the scan's condition holds. `sums` are all locals that
    hold sums of up to `count` elements."""
    condition = None if scan.where is None else lower_condition(lowering, scan.where, scope)
    inner = scope if condition is None else Scope(scope, certain=False)
    value = lowering.lower(scan.body, inner)
    for total in sums if scan.kind == "sum" else ():
        bound_sum(lowering, total, value, count)
    step = Assign(local, combine(scan.kind, local, value))
    return (step,) if condition is None else (If(condition, (*inner.nodes, step)),)


def _always_executed(expr: Expr) -> Iterator[Scan]:
    """The scans that every element executes: those in no branch."""
    match expr:
        case Scan():
            yield expr
        case Select(condition=part) | Op(name="and" | "or", args=(part, _)):
            yield from _always_executed(part)
        case _:
            for part in children(expr):
                yield from _always_executed(part)


def _is_safe_without_guards(scan: Scan, request: Request) -> bool:
    """Whether elements outside of the branch that has the scan may execute it: its reads are in bounds there, too."""
    indices = (*request.group.statements[0].indices, scan.inner)
    return all(are_in_bounds(part, indices, request.context.spec) for part in children(scan))


def _has_nested_scan(expr: Expr) -> bool:
    """Whether a scan is in a reduction or in another scan."""
    loops = (node for node in walk(expr) if isinstance(node, Reduce | Scan))
    return any(isinstance(node, Scan) for loop in loops for part in children(loop) for node in walk(part))


def _at_current(scan: Scan) -> Scan:
    """The scan with its term at the loop's current element."""
    current: dict[str, Expr] = {scan.inner.name: IndexValue(scan.outer)}
    return replace(
        scan,
        inner=replace(scan.inner, name=scan.outer),
        body=substitute(scan.body, current),
        where=None if scan.where is None else substitute(scan.where, current),
    )
