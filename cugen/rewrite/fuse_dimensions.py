"""Index spaces with as few indices as memory allows: neighbours in memory count as one, and extents of 1 not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import sympy

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, symbol
from cugen.rewrite.align_reductions import collected, rebuilt, reductions
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, children, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class Plain:
    """Statements over merged indices, their arrays with the dimensions that fit, and what each index stands for."""

    statements: tuple[Statement, ...]
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[Index, ...]] = field(default_factory=dict)


def merged(statements: tuple[Statement, ...], context: Context) -> Plain:
    """The same statements, their indices merged wherever each array that moves with one of them allows it."""
    plain = _without_ones(_flattened(Plain(statements, context.arrays), context), context)
    while (merger := next(_mergers(plain, context), None)) is not None:
        plain = _joined(plain, merger)
    return plain


def digits(number: Expr, extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The places along several dimensions of the element that has this number among all, row by row."""
    found: list[Expr] = []
    for position, extent in enumerate(extents):
        below = extents[position + 1 :]
        quotient = Op("floordiv", (number, product(below)), INT64) if below else number
        found.append(Op("mod", (quotient, extent), INT64) if position else quotient)
    return tuple(found)


def product(factors: tuple[Expr, ...]) -> Expr:
    if not factors:
        return Const(1, INT64)
    result = factors[0]
    for factor in factors[1:]:
        result = Op("mul", (result, factor), INT64)
    return result


# Extents of 1


def _without_ones(plain: Plain, context: Context) -> Plain:
    for group in groups(plain.statements):
        ones = [i.name for i in group if context.static(to_integer(i.extent, context.symbols)) == 1]
        if len(ones) == len(group) and any(i.name in ones for r in reductions(plain.statements) for i in r.indices):
            ones = ones[:-1]
        plain = replace(plain, statements=tuple(_fixed(statement, ones) for statement in plain.statements))
    return plain


def _fixed(statement: Statement, names: list[str]) -> Statement:
    """The statement with indices that are always 0 put in."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, IndexValue) and node.name in names:
            return Const(0, INT64)
        if isinstance(node, Reduce) and any(index.name in names for index in node.indices):
            rest = tuple(index for index in node.indices if index.name not in names)
            return rebuilt(replace(node, indices=rest), change)
        return None

    return replace(
        statement,
        indices=tuple(index for index in statement.indices if index.name not in names),
        subscripts=tuple(rebuilt(sub, change) for sub in statement.subscripts),
        value=rebuilt(statement.value, change),
    )


# Indices that count on where others end


@dataclass(frozen=True, slots=True)
class _Merger:
    """Pairs of a slow and a fast index that become one each, and the dimensions of the arrays that do."""

    pairs: tuple[tuple[Index, Index], ...]
    places: Mapping[str, tuple[int, int]]


def _mergers(plain: Plain, context: Context) -> Iterator[_Merger]:
    for group in groups(plain.statements):
        for slow in group:
            for fast in group:
                if slow != fast and (merger := _merger(plain, slow, fast, context)) is not None:
                    yield merger


def groups(statements: tuple[Statement, ...]) -> list[tuple[Index, ...]]:
    """The kept indices, and those of each stage."""
    return [statements[0].indices, *(stage[0].indices for stage in collected(statements))]


def _merger(plain: Plain, slow: Index, fast: Index, context: Context) -> _Merger | None:
    """The two with all the pairs that must follow them, since arrays move with both; None where one of them can't."""
    partners = {(a.name, b.name): (a, b) for group in groups(plain.statements) for a in group for b in group if a != b}
    pairs = {(slow.name, fast.name): (slow, fast)}
    places: dict[str, tuple[int, int]] = {}
    accesses = tuple(_subscripted(plain.statements))
    settled = False
    while not settled:
        settled, known = True, len(places)
        for array, subscripts in accesses:
            bare = {sub.name: d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue)}
            for a, b in tuple(pairs):
                if not {a, b} & bare.keys():
                    continue
                if not {a, b} <= bare.keys() or places.setdefault(array, (bare[a], bare[b])) != (bare[a], bare[b]):
                    return None
            if array not in places:
                continue
            found = tuple(sub.name for sub in (subscripts[d] for d in places[array]) if isinstance(sub, IndexValue))
            if found not in partners:
                return None
            if found not in pairs:
                pairs[found[0], found[1]] = partners[found]
                settled = False
        # An access that came before the one that gave the array its place is looked at again.
        settled = settled and len(places) == known
    names = {name for pair in pairs for name in pair}
    if not places or len(names) < 2 * len(pairs) or any(_mentions(statement, names) for statement in plain.statements):
        return None
    merger = _Merger(tuple(pairs.values()), places)
    return merger if all(_is_dense(plain, pair, merger, context) for pair in merger.pairs) else None


def _is_dense(plain: Plain, pair: tuple[Index, Index], merger: _Merger, context: Context) -> bool:
    """Whether the slow index counts on where the fast one ends, in every array."""
    slow, fast = (to_integer(index.extent, context.symbols) for index in pair)
    for array, (a, b) in merger.places.items():
        held = plain.arrays[array]
        alike = (held.shape[a] - slow, held.shape[b] - fast, held.strides[a] - held.strides[b] * fast)
        if not held.flat or any(difference.expand() != 0 for difference in alike):
            return False
    return True


def _subscripted(statements: tuple[Statement, ...]) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    for statement in statements:
        yield statement.target, statement.subscripts
        yield from ((node.array, node.subscripts) for node in walk(statement.value) if isinstance(node, Read))


def _mentions(statement: Statement, names: set[str]) -> bool:
    """Whether an index occurs other than as a whole subscript of an access that has no boundary."""

    def inside(expr: Expr) -> bool:
        match expr:
            case IndexValue(name=name):
                return name in names
            case Read() if expr.boundary is not None or expr.exact:
                return bool(free_indices(expr) & names)
            case Read():
                return any(inside(sub) for sub in expr.subscripts if not isinstance(sub, IndexValue))
            case Reduce(kind="argmax" | "argmin") if any(index.name in names for index in expr.indices):
                return True
        return any(map(inside, children(expr)))

    compound = [sub for sub in statement.subscripts if not isinstance(sub, IndexValue)]
    return inside(statement.value) or any(map(inside, compound))


def _joined(plain: Plain, merger: _Merger) -> Plain:
    origins = dict(plain.origins)
    taken = {index.name for group in groups(plain.statements) for index in group}
    both: dict[Index, Index] = {}  # by the fast one
    for slow, fast in merger.pairs:
        parts = (*origins.pop(slow.name, (slow,)), *origins.pop(fast.name, (fast,)))
        taken -= {slow.name, fast.name}
        name = ("" if all(len(index.name) <= 2 for index in parts) else "_").join(index.name for index in parts)
        while name in taken:
            name += "_"
        taken.add(name)
        origins[name] = parts
        both[fast] = Index(name, Op("mul", (slow.extent, fast.extent), INT64))
    gone = {slow for slow, _ in merger.pairs}
    names = {fast.name: index.name for fast, index in both.items()}

    def subscripts(array: str, old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if array not in merger.places:
            return tuple(rebuilt(sub, change) for sub in old)
        slow, fast = merger.places[array]
        kept = [(d, sub) for d, sub in enumerate(old) if d != slow]
        one = old[fast]
        name = names[one.name] if isinstance(one, IndexValue) else ""
        return tuple(IndexValue(name) if d == fast else rebuilt(sub, change) for d, sub in kept)

    def indices(old: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(both.get(index, index) for index in old if index not in gone)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Read):
            return replace(node, subscripts=subscripts(node.array, node.subscripts))
        if isinstance(node, Reduce) and gone & set(node.indices):
            return rebuilt(replace(node, indices=indices(node.indices)), change)
        return None

    statements = tuple(
        replace(
            s,
            subscripts=subscripts(s.target, s.subscripts),
            indices=indices(s.indices),
            value=rebuilt(s.value, change),
        )
        for s in plain.statements
    )
    arrays = dict(plain.arrays)
    for array, (a, b) in merger.places.items():
        arrays[array] = _as_one(arrays[array], (a, b))
    return Plain(statements, arrays, origins)


def _as_one(array: Array, dimensions: tuple[int, ...]) -> Array:
    """The array with several dimensions, which count on each other, in place of the last of them."""
    *gone, last = dimensions
    shape = {d: extent for d, extent in enumerate(array.shape) if d not in gone}
    shape[last] = sympy.Mul(*(array.shape[d] for d in dimensions))
    strides = tuple(stride for d, stride in enumerate(array.strides) if d not in gone)
    return replace(array, shape=tuple(shape.values()), strides=strides)


# Elements that are read by their number among all


def _flattened(plain: Plain, context: Context) -> Plain:
    """Subscripts that are the `digits` of one number in place of that number, as far as all reads of an array have it
    in the same dimensions."""
    runs: dict[str, tuple[int, ...]] = {}
    for array, subscripts in _subscripted(plain.statements):
        run = _run(plain.arrays[array], subscripts, context)
        if runs.setdefault(array, run) != run:
            runs[array] = ()

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Read) and (run := runs[node.array]):
            subs = {d: sub for d, sub in enumerate(node.subscripts) if d not in run[:-1]}
            subs[run[-1]] = _number(subs[run[-1]])
            return replace(node, subscripts=tuple(subs.values()))
        return None

    arrays = {name: _as_one(array, runs[name]) if runs.get(name) else array for name, array in plain.arrays.items()}
    return replace(
        plain, statements=tuple(replace(s, value=rebuilt(s.value, change)) for s in plain.statements), arrays=arrays
    )


def _run(array: Array, subscripts: tuple[Expr, ...], context: Context) -> tuple[int, ...]:
    """The dimensions, neighbours of each other, whose subscripts are the digits of one number."""
    symbols: dict[str, Integer] = dict(context.symbols)
    symbols.update({name: symbol(name) for sub in subscripts for name in free_indices(sub)})
    for last, sub in enumerate(subscripts):
        if last == 0 or _number(sub) == sub or any(isinstance(node, Read) for node in walk(sub)):
            continue
        number, scale = to_integer(_number(sub), symbols), array.shape[last]
        for first in reversed(range(last)):
            if any(isinstance(node, Read) for node in walk(subscripts[first])):
                break
            place, quotient = to_integer(subscripts[first], symbols), FloorDiv(number, scale)
            dense = (array.strides[first] - array.strides[last] * scale).expand() == 0
            if dense and place == quotient:
                return tuple(range(first, last + 1))
            if not dense or place != Mod(quotient, array.shape[first]):
                break
            scale = scale * array.shape[first]
    return ()


def _number(sub: Expr) -> Expr:
    """The number of which a subscript is the last digit."""
    return sub.args[0] if isinstance(sub, Op) and sub.name == "mod" else sub
