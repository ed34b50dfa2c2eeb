"""The sweeps over a row: which reductions run together, and which values stay with a thread from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from cugen.families.rowwise.statements.recognition import Output
from cugen.spec.expressions import Expr, IndexValue, Op, Read, Reduce, Select, children, free_indices, walk
from cugen.spec.types import DType

# What is worth a register rather than computing it again.
_COSTLY: tuple[str, ...] = (
    *("div", "floordiv", "mod", "pow", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "lgamma", "atan2"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)


class Keep(Enum):
    """What stays with a thread: nothing, what is computed before any reduction, or also what costs later on."""

    NOTHING = 0
    LOADED = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class Sweep:
    """One walk over the row: `computed` values stay with the thread, `known` ones are at hand from earlier sweeps."""

    reductions: tuple[Reduce, ...]
    outputs: tuple[Output, ...]
    computed: tuple[Expr, ...]
    known: tuple[Expr, ...]

    @property
    def values(self) -> tuple[Expr, ...]:
        """All that is evaluated at each element."""
        found: list[Expr] = list(self.computed)
        for reduction in self.reductions:
            found += [reduction.body] if reduction.where is None else [reduction.where, reduction.body]
        return (*found, *(output.value for output in self.outputs))


def plan_sweeps(outputs: tuple[Output, ...], columns: frozenset[str], keep: Keep) -> tuple[Sweep, ...]:
    """The sweeps in order; the first only loads and computes what is kept from the start."""
    wide = tuple(output for output in outputs if output.wide)
    plain = [Sweep((), (), (), ()), *(Sweep(level, (), (), ()) for level in reduction_levels(outputs))]
    if wide:
        plain.append(Sweep((), wide, (), ()))
    kept = {} if keep is Keep.NOTHING else _kept(plain, columns, costly=keep is Keep.ALL)
    sweeps = []
    for number, sweep in enumerate(plain):
        computed = tuple(expr for expr, at in kept.items() if at == number)
        earlier = {expr for expr, at in kept.items() if at < number}
        roots = replace(sweep, computed=computed)
        known = tuple(dict.fromkeys(n for v in roots.values for n in reached(v, earlier) if n in earlier))
        sweeps.append(replace(roots, known=known))
    return tuple(sweeps)


def reduction_levels(outputs: tuple[Output, ...]) -> tuple[tuple[Reduce, ...], ...]:
    """The reductions by how many others are inside them, one in the other."""
    depths: dict[Reduce, int] = {}
    for output in outputs:
        _depth(output.value, depths)
    count = max(depths.values(), default=0)
    return tuple(tuple(r for r, depth in depths.items() if depth == level + 1) for level in range(count))


def _depth(expr: Expr, depths: dict[Reduce, int]) -> int:
    if isinstance(expr, Reduce) and expr in depths:
        return depths[expr]
    inner = max((_depth(child, depths) for child in children(expr)), default=0)
    if isinstance(expr, Reduce):
        depths[expr] = inner + 1
        return inner + 1
    return inner


def reached(expr: Expr, known: set[Expr] | frozenset[Expr]) -> Iterator[Expr]:
    """The nodes that a sweep evaluates: nothing inside reductions, nor below what is known."""
    yield expr
    if not isinstance(expr, Reduce) and expr not in known:
        for child in children(expr):
            yield from reached(child, known)


def _kept(sweeps: list[Sweep], columns: frozenset[str], *, costly: bool) -> dict[Expr, int]:
    """The values that stay with the threads, each with the number of the sweep that computes it."""
    places: dict[Expr, set[int]] = {}
    for number, sweep in enumerate(sweeps):
        for value in sweep.values:
            for node in reached(value, frozenset()):
                if _moves(node, columns):
                    places.setdefault(node, set()).add(number)
    kept: dict[Expr, int] = {}
    for sweep in sweeps:
        for value in sweep.values:
            _choose(value, columns, places, kept, costly=costly)
    return _needed(sweeps, kept)


def _choose(
    expr: Expr, columns: frozenset[str], places: dict[Expr, set[int]], kept: dict[Expr, int], *, costly: bool
) -> None:
    """Keeps the largest parts that other sweeps need as well: all that is read before any reduction, and what costs."""
    if isinstance(expr, Reduce) or expr in kept:
        return
    sweeps = places.get(expr, set())
    if len(sweeps) > 1:
        before_all = not any(isinstance(node, Reduce) for node in walk(expr))
        if before_all:
            kept[expr] = 0
            return
        if costly and _is_costly(expr, columns):
            kept[expr] = min(sweeps)
    for child in children(expr):
        _choose(child, columns, places, kept, costly=costly)


def _needed(sweeps: list[Sweep], kept: dict[Expr, int]) -> dict[Expr, int]:
    """Those that a later sweep takes up, now that it finds others at hand."""
    while True:
        used: set[Expr] = set()
        for number, sweep in enumerate(sweeps):
            earlier = {expr for expr, at in kept.items() if at < number}
            roots = (*sweep.values, *(expr for expr, at in kept.items() if at == number))
            used |= {node for value in roots for node in reached(value, earlier) if node in earlier}
        if len(used) == len(kept):
            return kept
        kept = {expr: at for expr, at in kept.items() if expr in used}


def live(sweeps: tuple[Sweep, ...]) -> int:
    """How many values of each element a thread holds at once, at most."""
    first = {expr: n for n, sweep in enumerate(sweeps) for expr in sweep.computed}
    last = {expr: n for n, sweep in enumerate(sweeps) for expr in sweep.known}
    return max((sum(first[e] <= n < last[e] for e in last) for n in range(len(sweeps))), default=0)


def successors(sweeps: tuple[Sweep, ...], stored: Callable[[Expr], DType]) -> dict[Expr, Expr] | None:
    """For each value that is kept from a later sweep on, one of the same type that isn't needed from then on: it takes
    its place. None where there isn't one for each. `stored` tells in which type a value waits."""
    last = {expr: number for number, sweep in enumerate(sweeps) for expr in sweep.known}
    found: dict[Expr, Expr] = {}
    for number, sweep in enumerate(sweeps[1:], 1):
        for expr in sweep.computed:
            free = (old for old in sweep.known if last[old] == number and old not in found.values())
            heir = next((old for old in free if stored(old) == stored(expr)), None)
            if heir is None:
                return None
            found[expr] = heir
    return found


def _moves(expr: Expr, columns: frozenset[str]) -> bool:
    """Whether it's data of each element: not the same for the whole row, and not its place alone."""
    reads = any(isinstance(node, Read) for node in reached(expr, frozenset()))
    return reads and bool(free_indices(expr) & columns) and isinstance(expr, Read | Op | Select)


def _is_costly(expr: Expr, columns: frozenset[str]) -> bool:
    found = (node for node in reached(expr, frozenset()) if isinstance(node, Op) and node.name in _COSTLY)
    return any(free_indices(node) & columns for node in found)


def costs(outputs: tuple[Output, ...], column: str) -> bool:
    """Whether something that takes long is computed for each element."""
    values = [reduction.body for level in reduction_levels(outputs) for reduction in level]
    return any(_is_costly(value, frozenset((column,))) for value in (*values, *(o.value for o in outputs)))


def mentions(sweep: Sweep) -> dict[Expr, int]:
    """How often the text of a sweep shows each value; what is kept counts where it is used, not where it is made."""
    leaves = frozenset((*sweep.known, *sweep.computed))
    found: dict[Expr, int] = {}

    def show(expr: Expr) -> None:
        found[expr] = found.get(expr, 0) + 1
        if expr not in leaves and not isinstance(expr, Read | Reduce):
            for child in children(expr):
                show(child)

    for value in sweep.values:
        if value not in sweep.computed:
            show(value)
    for value in sweep.computed:
        for child in children(value) if not isinstance(value, Read) else ():
            show(child)
    return found


def moving_reads(sweep: Sweep, column: str) -> tuple[Read, ...]:
    """The reads of elements along the row that the sweep makes."""
    shown = (*sweep.computed, *mentions(sweep))
    return tuple(
        dict.fromkeys(e for e in shown if isinstance(e, Read) and e not in sweep.known and column in free_indices(e))
    )


def shows_place(sweep: Sweep, column: str) -> bool:
    """Whether a value depends on its own place in the row, other than by subscripts of whole reads."""
    return IndexValue(column) in mentions(sweep) or any(r.kind in ("argmax", "argmin") for r in sweep.reductions)
