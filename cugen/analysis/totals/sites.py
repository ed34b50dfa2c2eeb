"""Access sites: the iteration domain and guards of each node and access, with every name replaced by its definition.

Expressions are over base variables: thread indices, block indices and one counter per loop, which starts at 0. Loop
conditions that may fail inside the counter's range become predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import (
    AcquireSpinWait,
    Comparison,
    Condition,
    Copy,
    Define,
    For,
    Guard,
    If,
    Load,
    LoadBlockId,
    Node,
    ReturnUnless,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import AwaitBarrier, TensorLoad, TensorStore, Wgmma
from cugen.plan.symbols import FloorDiv, Integer, bounds, integer, symbol
from cugen.plan.traversal.walking import accesses, values_of
from cugen.spec.expressions import Expr, Local, Read, ScalarValue, walk

THREAD = tuple(symbol(f"threadIdx.{axis}") for axis in "xyz")
BLOCK = tuple(symbol(f"blockIdx.{axis}") for axis in "xyz")
DATA_DEPENDENT_GUARD = "whether it runs depends on data"
SPIN_WAIT = "the number of polls of a spin-wait is not static"
REMOTE_SHARED = "distributed shared memory is not modelled"
NOT_A_CONJUNCTION = "its condition is not a conjunction of comparisons"
UNKNOWN_LANES = (DATA_DEPENDENT_GUARD, NOT_A_CONJUNCTION)  # reasons for which the active lanes are unknown


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of `difference < 0`, `== 0` or `!= 0`, or its negation; a term is (difference, operator)."""

    terms: tuple[tuple[Integer, str], ...]
    negated: bool = False

    def depends_only_on(self, counters: tuple[Counter, ...], sizes: frozenset[sympy.Symbol] = frozenset()) -> bool:
        """Whether it is over thread indices, the counters and `sizes` (params without a value) only."""
        known = {*THREAD, *(counter.symbol for counter in counters), *sizes}
        return all(difference.free_symbols <= known for difference, _ in self.terms)


@dataclass(frozen=True, slots=True)
class Counter:
    """Iteration variable 0 .. count - 1 that is uniform over the lanes of a warp: a block index or a loop counter. In a
    loop whose end is known at launch, `remaining` is not negative."""

    symbol: sympy.Symbol
    count: int
    remaining: Integer | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """One access with its iteration domain. `opaque` is why the domain is not static, empty if it is.

    The two accesses of an asynchronous copy refer to each other: the source has its `copy_target`, the target its
    `source`, the `source_offset` in elements and the `source_guard`. An access of TMA, or an operand of wgmma, has its
    `instruction`.
    """

    access: Access
    offset: Integer  # in elements, over base variables
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    definitions: Mapping[sympy.Symbol, Integer]  # names in scope, over base variables
    source_definitions: Mapping[sympy.Symbol, Integer]  # the same as printed, over other names
    opaque: str = ""
    copy_target: Access | None = None
    source_offset: Integer | None = None
    source: Access | None = None
    source_guard: Predicate | None = None
    instruction: TensorLoad | TensorStore | Wgmma | None = None

    def offset_of(self, access: Access) -> Integer:
        """Offset of another access at this point, in elements, over base variables."""
        return access.offset().xreplace(self.definitions)


@dataclass(frozen=True, slots=True)
class ProgramPoint:
    """Program point: definitions in scope and the iteration domain; `opaque` as in `Site`.

    sizes: params without a value, which stay symbolic. conditions: those of branches that aren't guards, each with the
    value that it has there.
    """

    definitions: Mapping[sympy.Symbol, Integer]
    source_definitions: Mapping[sympy.Symbol, Integer]
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    opaque: str = ""
    sizes: frozenset[sympy.Symbol] = frozenset()
    conditions: tuple[tuple[Expr, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Node at a program point. `inside` is the point under its guard, condition or loop; without one, `point`."""

    node: Node
    point: ProgramPoint
    inside: ProgramPoint


def sites(kernel: Kernel, params: Mapping[str, int], sizes: Iterable[str] = ()) -> tuple[Site, ...]:
    """All accesses of a kernel in source order. `params` has each param's value by its name in C.

    sizes: params without a value. Counters then cover their maximum range, and expressions contain the param.
    """
    return tuple(site for step in steps(kernel, params, sizes) for site in _sites_of(step))


def steps(kernel: Kernel, params: Mapping[str, int], sizes: Iterable[str] = ()) -> Iterator[Step]:
    """All nodes of a kernel in source order, parents before children."""
    fixed: dict[sympy.Symbol, Integer] = {symbol(name): integer(value) for name, value in params.items()}
    fixed.update({t: integer(0) for t, size in zip(THREAD, kernel.block, strict=True) if size == 1})
    ranges = dict(kernel.ranges)
    free = frozenset(symbol(name) for name in sizes)
    extents = [extent.xreplace(fixed) for extent in kernel.grid]
    grid = [bounds(extent, ranges)[1] if extent.free_symbols & free else int(extent) for extent in extents]
    counters = tuple(Counter(b, count) for b, count in zip(BLOCK, grid, strict=True) if count != 1)
    fixed.update({b: integer(0) for b, count in zip(BLOCK, grid, strict=True) if count == 1})
    ranges.update({t: (0, size - 1) for t, size in zip(THREAD, kernel.block, strict=True)})
    ranges.update({b: (0, max(count - 1, 0)) for b, count in zip(BLOCK, grid, strict=True)})
    return _Walk(ranges).nodes(kernel.body, ProgramPoint(fixed, {}, counters, (), sizes=free))


class _Walk:
    """Traversal of a body; `ranges` gains one entry per loop counter."""

    def __init__(self, ranges: dict[sympy.Symbol, tuple[int, int]]) -> None:
        self.ranges = ranges
        self.loops = 0

    def nodes(self, nodes: tuple[Node, ...], point: ProgramPoint) -> Iterator[Step]:
        for node in nodes:
            match node:
                case Define() | LoadBlockId():
                    if isinstance(node, LoadBlockId):
                        yield Step(node, point, point)
                    value = node.index.definition.xreplace(point.definitions)
                    name, source_definitions = node.index.symbol, node.index.definition
                    point = replace(
                        point,
                        definitions={**point.definitions, name: value},
                        source_definitions={**point.source_definitions, name: source_definitions},
                    )
                case ReturnUnless():
                    guarded = _under_guard(point, node.guard)
                    yield Step(node, point, guarded)
                    point = guarded
                case For():
                    inside = self._loop_body(node, point)
                    yield Step(node, point, inside)
                    yield from self.nodes(node.body, inside)
                case If(condition=Guard() as guard):
                    guarded = _under_guard(point, guard)
                    yield Step(node, point, guarded)
                    yield from self.nodes(node.then, guarded)
                    yield from self.nodes(node.orelse, _under_guard(point, guard, negated=True))
                case If(condition=condition) if not isinstance(condition, Guard):
                    hidden = replace(point, opaque=point.opaque or _unknown_reason(condition, point))
                    yield Step(node, point, hidden)
                    for body, holds in ((node.then, True), (node.orelse, False)):
                        known = (*point.conditions, (condition, holds))
                        yield from self.nodes(body, replace(hidden, conditions=known))
                case Load() | Copy() | StoreMatrix() if node.guard is not None and node.guard.terms:
                    yield Step(node, point, _under_guard(point, node.guard))
                case _:
                    yield Step(node, point, point)

    def _loop_body(self, node: For, point: ProgramPoint) -> ProgramPoint:
        """Point of the loop body: the index is `start + step * counter`, or `stop - 1 - step * counter` downward."""
        loop = node.loop
        start, stop = (e.xreplace(point.definitions) for e in (loop.start, loop.stop))
        trips = FloorDiv(stop - start + (loop.step - 1), integer(loop.step))
        low, high = bounds(trips, self.ranges)
        count = max(min(high, self._max_distance(stop - start, loop.step, point)), 0)
        name: Integer = sympy.Symbol(f"loop {self.loops} {loop.index.name}", integer=True) if count != 1 else integer(0)
        self.loops += 1
        self.ranges[name] = (0, max(count - 1, 0))
        value = stop - 1 - loop.step * name if loop.downward else start + loop.step * name
        if loop.halves or loop.doubles:
            value = loop.index.symbol  # a power of two, which isn't affine in the counter
        predicates, remaining = point.predicates, None
        if low != high:
            predicates = (*predicates, Predicate(((start + loop.step * name - stop, "<"),)))
            remaining = stop - start - loop.step * name - 1
        counters = (*point.counters, Counter(name, count, remaining)) if count != 1 else point.counters
        opaque = point.opaque or (
            "" if all(p.depends_only_on(counters, point.sizes) for p in predicates) else DATA_DEPENDENT_GUARD
        )
        definitions = {**point.definitions, loop.index.symbol: value}
        return replace(point, definitions=definitions, counters=counters, predicates=predicates, opaque=opaque)

    def _max_distance(self, distance: Integer, step: int, point: ProgramPoint) -> int:
        """Maximum trip count over `distance`, by ranges and enclosing guards."""
        distance_bound = bounds(distance, self.ranges)[1]
        for predicate in point.predicates:
            if len(predicate.terms) != 1 or predicate.terms[0][1] != "<":
                continue
            difference = predicate.terms[0][0]
            known = difference if predicate.negated else -difference - 1  # known >= 0
            slack = distance + known
            if slack.is_Integer:
                distance_bound = min(distance_bound, int(slack))
        return -(-distance_bound // step)


def _under_guard(point: ProgramPoint, guard: Guard, *, negated: bool = False) -> ProgramPoint:
    predicate = Predicate(tuple(_term(term, point.definitions) for term in guard.terms), negated)
    opaque = point.opaque or ("" if predicate.depends_only_on(point.counters, point.sizes) else DATA_DEPENDENT_GUARD)
    return replace(point, predicates=(*point.predicates, predicate), opaque=opaque)


def _unknown_reason(condition: Condition, point: ProgramPoint) -> str:
    """Why the lanes of a condition other than a guard are unknown: it depends on data, or only on indices."""
    for leaf in () if isinstance(condition, Guard) else walk(condition):
        if isinstance(leaf, Read | ScalarValue) or (
            isinstance(leaf, Local) and symbol(leaf.name) not in point.definitions
        ):
            return DATA_DEPENDENT_GUARD
    return NOT_A_CONJUNCTION


def _sites_of(step: Step) -> Iterator[Site]:
    """Sites of a node. A guard applies to a load and to a copy's source; a copy's target is always written."""
    node = step.node
    inline = [leaf.access for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Element)]
    node_accesses = inline if isinstance(node, For | If) else accesses((node,))
    for access in node_accesses:
        always = (isinstance(node, Copy) and access is node.target) or any(access is i for i in inline)
        site = _site(access, step.point if always else step.inside)
        if isinstance(node, Copy) and node.asynchronous:
            if access is node.source:
                site = replace(site, copy_target=node.target)
            else:
                offset = node.source.offset().xreplace(step.point.definitions)
                guards = step.inside.predicates[len(step.point.predicates) :]
                site = replace(
                    site, source_offset=offset, source=node.source, source_guard=guards[0] if guards else None
                )
        if isinstance(node, TensorLoad | TensorStore | Wgmma) and access.kind in (
            "tensor_load",
            "tensor_store",
            "operand",
        ):
            site = replace(site, instruction=node)
        is_polled = isinstance(node, AcquireSpinWait | AwaitBarrier)
        why = SPIN_WAIT if is_polled else REMOTE_SHARED if access.rank is not None else ""
        yield replace(site, opaque=site.opaque or why)


def _site(access: Access, point: ProgramPoint) -> Site:
    offset = access.offset().xreplace(point.definitions)
    opaque = point.opaque or data_dependence(offset, point.counters, point.sizes)
    return Site(access, offset, point.counters, point.predicates, point.definitions, point.source_definitions, opaque)


def data_dependence(
    offset: Integer, counters: tuple[Counter, ...], sizes: frozenset[sympy.Symbol] = frozenset()
) -> str:
    """Why an offset isn't static; empty if it is."""
    known = {*THREAD, *(counter.symbol for counter in counters), *sizes}
    for free in sorted(offset.free_symbols - known, key=str):
        return f"the subscript depends on the value {free}, which is read from memory"
    return ""


def _term(term: Comparison, definitions: Mapping[sympy.Symbol, Integer]) -> tuple[Integer, str]:
    difference = (term.left - term.right).xreplace(definitions)
    match term.operator:
        case "<":
            return difference, "<"
        case "<=":
            return difference - 1, "<"
        case ">":
            return -difference, "<"
        case ">=":
            return -difference - 1, "<"
    return difference, term.operator
