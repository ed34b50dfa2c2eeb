"""What a page's script needs to compute the addresses of a warp, and with them the map of banks or sectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import THREAD, Predicate, Site
from cugen.analysis.verdicts.copy_sources import sources_of
from cugen.analysis.verdicts.report import SPACES, UNKNOWN_LOCALITY
from cugen.machine.requests.async_copies import Sources
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array, row_major
from cugen.plan.symbols import Integer
from cugen.report.footprints import Matrix, extents_of, matrix_of
from cugen.report.trees import Tree, names, tree

DEFAULT_SIZE = 1000  # of a param without a value, if its range has it
_DATA = "the addresses depend on data"
_BOX = "one instruction accesses a whole box or matrix"
_NOTHING = "nothing runs at these sizes"


@dataclass(frozen=True, slots=True)
class Variable:
    """A value that is uniform over a warp: a block index, a loop's iteration or a param without a value.

    name: in the trees. shown: on the page. value: a loop's index as a tree over its iteration, if all lanes agree.
    walks: whether it is a loop that passes from tile to tile."""

    name: str
    shown: str
    kind: str  # block, loop, param
    low: int
    high: int
    initial: int
    value: Tree | None = None
    walks: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate: a conjunction of `tree < 0`, `== 0` or `!= 0`, or its negation."""

    terms: tuple[tuple[Tree, str], ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """A shared tile whose rows can be padded or swizzled: logical subscripts, and the shape in elements."""

    array: str
    subscripts: tuple[Tree, ...]
    shape: tuple[int, ...]
    pad: int
    swizzle: int
    swizzle_unit: int


@dataclass(frozen=True, slots=True)
class AccessMap:
    """Addresses of an access, and the kind of its request. `offset` is in elements, `start` in bytes.

    sources, source_guard: of an asynchronous copy, the source addresses of the lanes, and which lanes read."""

    space: str
    kind: str
    element_bytes: int
    width: int
    start: int
    offset: Tree
    variables: tuple[Variable, ...]
    conditions: tuple[Condition, ...]
    tile: Tile | None = None
    matrix: Matrix | None = None
    sources: Sources | None = None
    source_guard: Condition | None = None


def access_map(
    kernel: Kernel, site: Site, sizes: Mapping[sympy.Symbol, tuple[int, int]], walking: frozenset[int]
) -> AccessMap | str:
    """The map of an access, or why there is none. `sizes`: ranges of the params without a value. `walking`: the
    `tile_loops` of the kernel."""
    access, array = site.access, site.access.array
    if site.opaque:
        return site.opaque
    if array.texture_2d is not None:
        return UNKNOWN_LOCALITY
    if site.instruction is not None:
        return _BOX
    if any(counter.count < 1 for counter in site.counters):
        return _NOTHING
    guards = [*site.predicates, *filter(None, (site.source_guard,))]
    used = names([site.offset]) | names_of(guards)
    matrix = matrix_of(site)
    extents = names(extents_of(site)) if matrix is not None else frozenset()
    variables = variables_of(site, used | extents, sizes, walking)
    if used - set(THREAD) - {sympy.Symbol(v.name, integer=True) for v in variables}:
        return _DATA
    try:
        sources = None if site.source_offset is None else sources_of(site, kernel.block)
    except Unknown as why:
        return str(why)
    return AccessMap(
        SPACES[array.space],
        access.kind,
        array.dtype.bytes,
        access.width,
        array.dynamic_offset if array.space == "shared" else 0,
        tree(site.offset),
        variables,
        tuple(map(condition_of, site.predicates)),
        _tile(site, used),
        matrix,
        sources,
        None if site.source_guard is None else condition_of(site.source_guard),
    )


def initial_size(bounds: tuple[int, int]) -> int:
    """The value of a param without one, of this range, as a page opens."""
    return max(bounds[0], min(bounds[1], DEFAULT_SIZE))


def can_change_rows(array: Array) -> bool:
    """Whether an array is a tile in shared memory of more than one dimension, with rows in order."""
    return (
        array.space == "shared"
        and not array.flat
        and len(array.shape) > 1
        and all(extent.is_Integer for extent in array.padded_shape)
        and array.strides == row_major(array.padded_shape)
    )


def _tile(site: Site, used: frozenset[sympy.Symbol]) -> Tile | None:
    array = site.access.array
    subscripts = [sub.xreplace(site.definitions) for sub in site.access.subscripts]
    if site.access.rank is not None or not can_change_rows(array) or not names(subscripts) <= used | set(THREAD):
        return None
    shape = tuple(int(extent) for extent in array.shape)
    return Tile(array.symbol, tuple(map(tree, subscripts)), shape, array.pad, array.swizzle, array.swizzle_unit)


def variables_of(
    site: Site,
    used: frozenset[sympy.Symbol],
    sizes: Mapping[sympy.Symbol, tuple[int, int]],
    walking: frozenset[int],
) -> tuple[Variable, ...]:
    """The counters and sizes among the names `used`."""
    variables = []
    for counter in site.counters:
        name = str(counter.symbol)
        if counter.symbol not in used:
            continue
        if not name.startswith("loop "):
            variables.append(Variable(name, name, "block", 0, counter.count - 1, 0))
            continue
        _, position, shown = name.split(" ", 2)
        value = _loop_value(site, counter.symbol, shown)
        walks = int(position) in walking
        variables.append(Variable(name, shown, "loop", 0, counter.count - 1, 0, value, walks))
    for size, (low, high) in sizes.items():
        if size in used:
            variables.append(Variable(str(size), str(size), "param", low, high, initial_size((low, high))))
    return tuple(variables)


def _loop_value(site: Site, counter: sympy.Symbol, index: str) -> Tree | None:
    """A loop's index over its iteration alone; None if it depends on anything else."""
    value: Integer | None = site.definitions.get(sympy.Symbol(index, integer=True))
    return tree(value) if value is not None and value.free_symbols == {counter} else None


def names_of(predicates: Iterable[Predicate]) -> frozenset[sympy.Symbol]:
    """All names in some predicates."""
    return names(difference for predicate in predicates for difference, _ in predicate.terms)


def condition_of(predicate: Predicate) -> Condition:
    """A predicate for the script."""
    return Condition(tuple((tree(difference), operator) for difference, operator in predicate.terms), predicate.negated)
