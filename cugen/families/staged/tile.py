"""Tiles of inputs: the elements of an array that a block reads, with their halo."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy

from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, Range, bounds, integer
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Read, Reduce, free_indices, walk


@dataclass(frozen=True, slots=True)
class Side:
    """One dimension of a tile: `count` elements from `low` on, relative to the `steps` that each index of the output
    moves it per block, or the index of the walk per tile."""

    steps: tuple[tuple[str, int], ...]
    low: int
    count: int


@dataclass(frozen=True, slots=True)
class Tile:
    """The elements of an array that a block reads by `reads`, by dimension of the array. `uses`: how often it reads
    them. Of `folded` reads the boundary is resolved where they are, of all others where the tile is filled.
    `is_strided`: adjacent outputs read elements that aren't adjacent, as fields of structures are."""

    array: str
    sides: tuple[Side, ...]
    reads: tuple[Read, ...]
    uses: int
    folded: frozenset[Read]
    is_strided: bool

    @property
    def elements(self) -> int:
        return math.prod(side.count for side in self.sides)

    @property
    def reuse(self) -> float:
        """How often a block reads an element of the tile, on average."""
        return self.uses / self.elements

    @property
    def pays(self) -> bool:
        """Whether the block reads elements repeatedly, or in another order than they have in memory."""
        return self.reuse > 1 or (self.is_strided and self.reuse == 1)

    @property
    def has_halo(self) -> bool:
        """Whether adjacent blocks share elements."""
        return any(side.steps and side.count > sum(abs(step) for _, step in side.steps) for side in self.sides)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions along which the tile has several elements, or the last."""
        return tuple(d for d, side in enumerate(self.sides) if side.count > 1) or (len(self.sides) - 1,)


@dataclass(frozen=True, slots=True)
class _Domain:
    """The values of the indices while a tile is in shared memory: output i of block B is `span * B + t`, with `t` below
    its number of `outputs`."""

    outputs: Mapping[str, int]  # the contiguous index first
    symbols: Mapping[str, Integer]
    ranges: Mapping[sympy.Symbol, Range]
    blocks: Mapping[sympy.Symbol, str]
    terms: Mapping[str, int]  # of the reductions, by index
    sides: Mapping[str, Side]  # of subscripts that are an index alone


def find_tiles(
    request: Request, array: str, spans: Mapping[str, int], stepped: tuple[str, int] | None = None
) -> tuple[Tile, ...] | str:
    """The tiles of an array where a block computes `spans` outputs along each index, the contiguous one first, or why
    it has none. They have so many values of the `stepped` index of a reduction at a time.

    Reads that move differently from block to block, as `x[i]` and `x[j]`, have a tile each."""
    return _find_tiles(request, array, tuple(spans.items()), stepped)


@lru_cache(maxsize=256)  # arrays are tried one by one, then together
def _find_tiles(
    request: Request, array: str, spans: tuple[tuple[str, int], ...], stepped: tuple[str, int] | None
) -> tuple[Tile, ...] | str:
    if not request.context.arrays[array].shape:
        return f"{array} is a single element: leave it in global memory"
    domain = _domain(request, spans, stepped)
    by_steps: dict[tuple[tuple[tuple[str, int], ...], ...], list[tuple[Read, tuple[Side, ...], bool]]] = {}
    for read in request.reads():
        if read.array != array:
            continue
        found = [_side(sub, domain) for sub in read.subscripts]
        is_folded = bool(read.exact) or None in found
        if is_folded and read.boundary is not None and read.boundary.mode not in ("zero", "value"):
            found = [None] * len(found)  # a subscript may be folded to any element
        sides = []
        for side, extent in zip(found, request.context.arrays[array].shape, strict=True):
            whole = request.context.static(extent)
            if side is None and whole is None:
                return f"the part of {array} that a block reads has no fixed size"
            sides.append(side or Side((), 0, whole or 0))
        by_steps.setdefault(tuple(side.steps for side in sides), []).append((read, tuple(sides), is_folded))
    strides = request.context.arrays[array].strides
    return tuple(_joined(array, reads, domain, strides) for reads in by_steps.values())


def _joined(
    array: str, reads: list[tuple[Read, tuple[Side, ...], bool]], domain: _Domain, strides: tuple[Integer, ...]
) -> Tile:
    sides = []
    for of_dimension in zip(*(sides for _, sides, _ in reads), strict=True):
        low, end = min(side.low for side in of_dimension), max(side.low + side.count for side in of_dimension)
        sides.append(Side(of_dimension[0].steps, low, end - low))
    outputs = math.prod(domain.outputs.values())
    uses = sum(outputs * math.prod(domain.terms.get(name, 1) for name in free_indices(read)) for read, _, _ in reads)
    folded = frozenset(read for read, _, is_folded in reads if is_folded)
    is_strided = any(not is_folded and _is_strided(read, domain, strides) for read, _, is_folded in reads)
    return Tile(array, tuple(sides), tuple(read for read, _, _ in reads), uses, folded, is_strided)


def _is_strided(read: Read, domain: _Domain, strides: tuple[Integer, ...]) -> bool:
    """Whether the outputs along the contiguous index read elements that aren't adjacent."""
    contiguous = next(iter(domain.outputs))
    if all(isinstance(sub, IndexValue | Const) for sub in read.subscripts):
        pairs = zip(read.subscripts, strides, strict=True)
        return sum(s for sub, s in pairs if isinstance(sub, IndexValue) and sub.name == contiguous) not in (0, 1)
    along = domain.symbols[contiguous]
    subscripts = (to_integer(sub, domain.symbols) for sub in read.subscripts)
    offset = sympy.Add(*(sub * stride for sub, stride in zip(subscripts, strides, strict=True))).expand()
    (thread,) = (s for s in along.free_symbols if s not in domain.blocks)
    return offset.coeff(thread) not in (0, 1)


@lru_cache(maxsize=64)  # all arrays of a request have the same ones
def _domain(request: Request, spans: tuple[tuple[str, int], ...], stepped: tuple[str, int] | None) -> _Domain:
    context = request.context
    symbols: dict[str, Integer] = dict(context.symbols)
    ranges: dict[sympy.Symbol, Range] = dict(context.ranges)
    blocks: dict[sympy.Symbol, str] = {}
    fixed = {name: integer(low) for name, (low, high) in ranges.items() if low == high}
    symbols = {name: value.xreplace(fixed) for name, value in symbols.items()}
    terms: dict[str, int] = {}
    sides: dict[str, Side] = {}

    def add(index: Index, span: int, variable: str) -> int:
        """An index of which `span` values are in a tile, or as many as it has."""
        extent = max(context.max_extent(index), 1)
        value = sympy.Symbol(f"{variable} {index.name}", integer=True)
        ranges[value], symbols[index.name] = (0, min(span, extent) - 1), value
        if extent > span:
            block = sympy.Symbol(f"block {index.name}", integer=True)
            ranges[block], blocks[block] = (0, -(-extent // span) - 1), index.name
            symbols[index.name] = span * block + value
        sides[index.name] = Side(((index.name, span),) if extent > span else (), 0, min(span, extent))
        return min(span, extent)

    outputs = dict(spans)
    for index in request.group.statements[0].indices:
        outputs[index.name] = add(index, outputs[index.name], "output")
    for index in _reduction_indices(request):
        span = stepped[1] if stepped is not None and index.name == stepped[0] else max(context.max_extent(index), 1)
        terms[index.name] = add(index, span, "term")
    return _Domain(outputs, symbols, ranges, blocks, terms, sides)


@lru_cache(maxsize=16)
def _reduction_indices(request: Request) -> tuple[Index, ...]:
    """The indices of the statements' reductions; of those of one name the longest."""
    longest: dict[str, Index] = {}
    for statement in request.group.statements:
        for node in walk(statement.value):
            for index in node.indices if isinstance(node, Reduce) else ():
                known = longest.setdefault(index.name, index)
                if request.context.max_extent(index) > request.context.max_extent(known):
                    longest[index.name] = index
    return tuple(longest.values())


def _side(sub: Expr, domain: _Domain) -> Side | None:
    """The range of a subscript in a block; None where it is gathered, or isn't a number of elements from a multiple of
    the block."""
    match sub:
        case IndexValue(name=name) if name in domain.sides:
            return domain.sides[name]
        case Const(value=int(element)):
            return Side((), element, 1)
    if any(isinstance(node, Read) for node in walk(sub)):
        return None
    try:
        remainder = by_blocks(to_integer(sub, domain.symbols), frozenset(domain.blocks))
    except NotAnInteger:
        return None
    steps = []
    for block, index in domain.blocks.items():
        coefficient = remainder.coeff(block)
        remainder = (remainder - coefficient * block).expand()
        if not coefficient.is_Integer or block in remainder.free_symbols:
            return None
        if coefficient != 0:
            steps.append((index, int(coefficient)))
    low, high = bounds(remainder, domain.ranges)
    return Side(tuple(steps), low, high - low + 1)


def by_blocks(expr: Integer, blocks: frozenset[sympy.Symbol]) -> Integer:
    """The expression expanded, with whole multiples of a divisor taken out of quotients and remainders:
    `(64 * B + t) // 2` is `32 * B + t // 2`."""
    if not expr.args or not expr.free_symbols & blocks:
        return expr
    args = [by_blocks(arg, blocks) for arg in expr.args]
    if not isinstance(expr, FloorDiv | Mod) or not args[1].is_Integer:
        return expr.func(*args).expand()
    dividend, divisor = args[0].expand(), int(args[1])
    multiples = [term for term in sympy.Add.make_args(dividend) if term.as_coeff_Mul()[0] % divisor == 0]
    taken = sympy.Add(*multiples)
    if isinstance(expr, Mod):
        return Mod(dividend - taken, integer(divisor))
    return (taken / divisor).expand() + FloorDiv(dividend - taken, integer(divisor))


def memory_order(tile: Tile, source: Array, ranges: Mapping[sympy.Symbol, Range]) -> tuple[int, ...]:
    """The dimensions of a tile as they are in memory, the contiguous one last."""
    return tuple(sorted(tile.dimensions, key=lambda dimension: -bounds(source.strides[dimension], ranges)[1]))
