"""The passes over a row: which reductions share one, and which values a thread caches from one pass to the next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from cugen.families.rowwise.statements.recognition import Output, evaluated_nodes
from cugen.rewrite.align_reductions import nesting_levels
from cugen.spec.expressions import (
    COSTLY_OPERATIONS,
    Expr,
    IndexValue,
    Op,
    Read,
    Reduce,
    Select,
    children,
    free_indices,
    walk,
)
from cugen.spec.types import DType


class CachePolicy(Enum):
    """What a thread caches: nothing, what it computes before any reduction, or costly intermediate results as well."""

    NOTHING = 0
    LOADED = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class RowPass:
    """One pass over the row. It writes the `cached` values, and reads the `reused` ones that earlier passes cached."""

    reductions: tuple[Reduce, ...]
    outputs: tuple[Output, ...]
    cached: tuple[Expr, ...] = ()
    reused: tuple[Expr, ...] = ()

    @property
    def values(self) -> tuple[Expr, ...]:
        """All expressions that the pass evaluates per element."""
        evaluated: list[Expr] = list(self.cached)
        for reduction in self.reductions:
            evaluated += [reduction.body] if reduction.where is None else [reduction.where, reduction.body]
        return (*evaluated, *(output.value for output in self.outputs))


def plan_passes(outputs: tuple[Output, ...], columns: frozenset[str], policy: CachePolicy) -> tuple[RowPass, ...]:
    """The passes in order. The first only loads and computes what is cached from the start."""
    uncached = [RowPass((), ()), *(RowPass(level, ()) for level in reduction_levels(outputs))]
    if per_element := tuple(output for output in outputs if output.is_per_element):
        uncached.append(RowPass((), per_element))
    no_cache = policy is CachePolicy.NOTHING
    cached = {} if no_cache else _cached_values(uncached, columns, costly=policy is CachePolicy.ALL)
    while True:
        passes = tuple(_with_cache(row_pass, number, cached) for number, row_pass in enumerate(uncached))
        reused = {expr for row_pass in passes for expr in row_pass.reused}
        if len(reused) == len(cached):
            return passes
        # What a pass reads depends on what else is cached.
        cached = {expr: first for expr, first in cached.items() if expr in reused}


def _with_cache(row_pass: RowPass, number: int, cached: dict[Expr, int]) -> RowPass:
    """The pass of a number with the values that it writes, and those of earlier passes that it reads."""
    earlier = {expr for expr, first in cached.items() if first < number}
    filling = replace(row_pass, cached=tuple(expr for expr, first in cached.items() if first == number))
    reused = dict.fromkeys(n for v in filling.values for n in evaluated_nodes(v, earlier) if n in earlier)
    return replace(filling, reused=tuple(reused))


def reduction_levels(outputs: tuple[Output, ...]) -> tuple[tuple[Reduce, ...], ...]:
    """The reductions by nesting level, innermost first: those of a level need results of the levels before it."""
    nesting = nesting_levels(output.value for output in outputs)
    count = max(nesting.values(), default=-1) + 1
    return tuple(tuple(r for r, level in nesting.items() if level == n) for n in range(count))


def _cached_values(passes: list[RowPass], columns: frozenset[str], *, costly: bool) -> dict[Expr, int]:
    """The values to cache, each with the number of the pass that computes it."""
    uses: dict[Expr, set[int]] = defaultdict(set)
    for number, row_pass in enumerate(passes):
        for node in (node for value in row_pass.values for node in evaluated_nodes(value)):
            if _is_element_data(node, columns):
                uses[node].add(number)
    cached: dict[Expr, int] = {}
    for row_pass in passes:
        for value in row_pass.values:
            _select_cached(value, columns, uses, cached, costly=costly)
    return cached


def _select_cached(
    expr: Expr, columns: frozenset[str], uses: dict[Expr, set[int]], cached: dict[Expr, int], *, costly: bool
) -> None:
    """Caches the largest subexpressions that several passes use: those without a reduction, and costly ones."""
    if isinstance(expr, Reduce) or expr in cached:
        return
    using_passes = uses.get(expr, set())
    if len(using_passes) > 1:
        if not any(isinstance(node, Reduce) for node in walk(expr)):
            cached[expr] = 0
            return
        if costly and _is_costly(expr, columns):
            cached[expr] = min(using_passes)
    for child in children(expr):
        _select_cached(child, columns, uses, cached, costly=costly)


def max_live_values(passes: tuple[RowPass, ...]) -> int:
    """The largest number of cached values per element that are live at once."""
    first = {expr: n for n, row_pass in enumerate(passes) for expr in row_pass.cached}
    last = {expr: n for n, row_pass in enumerate(passes) for expr in row_pass.reused}
    return max((sum(first[e] <= n < last[e] for e in last) for n in range(len(passes))), default=0)


def reused_buffers(passes: tuple[RowPass, ...], cached_type: Callable[[Expr], DType]) -> dict[Expr, Expr] | None:
    """For each value cached by a later pass, a dead value of the same type whose buffer it overwrites.

    `cached_type` gives the type of a value in its buffer. None unless every such value gets a buffer."""
    last = {expr: number for number, row_pass in enumerate(passes) for expr in row_pass.reused}
    reused: dict[Expr, Expr] = {}
    for number, row_pass in enumerate(passes[1:], 1):
        for expr in row_pass.cached:
            dead = (old for old in row_pass.reused if last[old] == number and old not in reused.values())
            match = next((old for old in dead if cached_type(old) == cached_type(expr)), None)
            if match is None:
                return None
            reused[expr] = match
    return reused


def _is_element_data(expr: Expr, columns: frozenset[str]) -> bool:
    """Whether it is data of each element: neither invariant along the row nor a function of the index alone."""
    reads = any(isinstance(node, Read) for node in evaluated_nodes(expr))
    return reads and bool(free_indices(expr) & columns) and isinstance(expr, Read | Op | Select)


def _is_costly(expr: Expr, columns: frozenset[str]) -> bool:
    nodes = evaluated_nodes(expr)
    costly = (node for node in nodes if isinstance(node, Op) and node.name in COSTLY_OPERATIONS)
    return any(free_indices(node) & columns for node in costly)


def has_costly_elements(outputs: tuple[Output, ...], column: str) -> bool:
    """Whether each element takes a costly operation."""
    values = [reduction.body for level in reduction_levels(outputs) for reduction in level]
    return any(_is_costly(value, frozenset((column,))) for value in (*values, *(o.value for o in outputs)))


def use_counts(row_pass: RowPass) -> Counter[Expr]:
    """How often the code of a pass uses each value. Cached values count where they are used, not where computed."""
    leaves = frozenset((*row_pass.reused, *row_pass.cached))
    counts: Counter[Expr] = Counter()

    def count(expr: Expr) -> None:
        counts[expr] += 1
        if expr not in leaves and not isinstance(expr, Read | Reduce):
            for child in children(expr):
                count(child)

    for value in row_pass.values[len(row_pass.cached) :]:
        count(value)
    for value in row_pass.cached:
        for child in children(value) if not isinstance(value, Read) else ():
            count(child)
    return counts


def element_reads(row_pass: RowPass, column: str) -> tuple[Read, ...]:
    """The reads of row elements that the pass makes from global memory."""
    reads = (e for e in (*row_pass.cached, *use_counts(row_pass)) if isinstance(e, Read) and e not in row_pass.reused)
    return tuple(dict.fromkeys(read for read in reads if column in free_indices(read)))


def uses_element_index(row_pass: RowPass, column: str) -> bool:
    """Whether a value depends on the element's index other than through the subscripts of reads."""
    return IndexValue(column) in use_counts(row_pass) or any(r.is_position for r in row_pass.reductions)
