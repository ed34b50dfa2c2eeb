"""Fuses (collapses) dimensions that every array holds densely, drops unit dimensions; over outputs and reductions.

    y[b, i] = sum(x[b, i, h, w], h, w)      x dense, [B, I, H, W]
becomes
    y[bi] = sum(x[bi, hw], hw)              x as [B * I, H * W]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import permutations

import sympy

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, symbol
from cugen.rewrite.align_reductions import collected
from cugen.rewrite.fresh_names import fresh
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, children, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class FusedStatements:
    """Statements and arrays with fused dimensions, and the original indices of each fused one."""

    statements: tuple[Statement, ...]
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[Index, ...]] = field(default_factory=dict)


@lru_cache(maxsize=16)  # several families fuse the same statements, one after another
def with_fused_dimensions(statements: tuple[Statement, ...], context: Context) -> FusedStatements:
    """The statements, indices fused wherever all arrays that depend on one of them allow it."""
    return fused(linearised(statements, context), context, joined_name)


def linearised(statements: tuple[Statement, ...], context: Context) -> FusedStatements:
    """The statements with linear indices in place of subscripts that are made of them, without unit dimensions."""
    return without_unit_dimensions(_linearised(FusedStatements(statements, context.arrays), context), context)


# The name of a fused index, by the slow and the fast one, all that they were fused from, and the names in use.
Naming = Callable[[Index, Index, tuple[Index, ...], set[str]], str]


def fused(
    current: FusedStatements,
    context: Context,
    naming: Naming,
    *,
    fixed: frozenset[str] = frozenset(),
    allow_parts: bool = False,
) -> FusedStatements:
    """The statements with all dense indices fused, except the `fixed` ones. With `allow_parts` the slow index may cover
    a part of its dimension only."""
    while (fusion := next(_fusions(current, context, fixed, allow_parts), None)) is not None:
        current = _apply(current, fusion, naming)
    return current


def joined_name(slow: Index, fast: Index, parts: tuple[Index, ...], taken: set[str]) -> str:
    """The names of all parts; of an index that was split, `k_outer` and `k_inner`, its own."""
    whole = slow.name.removesuffix("_outer")
    if (slow.name, fast.name) == (f"{whole}_outer", f"{whole}_inner"):
        return fresh(whole, taken)
    separator = "" if all(len(index.name) <= 2 for index in parts) else "_"
    return fresh(separator.join(index.name for index in parts), taken)


def delinearised(linear_index: Expr, extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The subscripts of an element, in row-major order, from its linear index; 0 in dimensions of the literal 1."""
    unit = Const(1, INT64)
    subscripts: list[Expr] = []
    for dimension, extent in enumerate(extents):
        outer, inner = (tuple(e for e in part if e != unit) for part in (extents[:dimension], extents[dimension + 1 :]))
        quotient = Op("floordiv", (linear_index, product(inner[::-1])), INT64) if inner else linear_index
        subscript = Op("mod", (quotient, extent), INT64) if outer else quotient
        subscripts.append(Const(0, INT64) if extent == unit else subscript)
    return tuple(subscripts)


def product(factors: tuple[Expr, ...]) -> Expr:
    if not factors:
        return Const(1, INT64)
    return reduce(lambda result, factor: Op("mul", (result, factor), INT64), factors)


def without_unit_dimensions(
    current: FusedStatements, context: Context, *, keeps_output: bool = False
) -> FusedStatements:
    """Indices of extent 1 replaced by 0; a reduction keeps its last one, as do the outputs with `keeps_output`."""
    for number, group in enumerate(groups(current.statements)):
        unit = [i.name for i in group if context.static_extent(i) == 1]
        if len(unit) == len(group) and (number > 0 or keeps_output):
            unit = unit[:-1]
        current = replace(current, statements=tuple(with_zeros(statement, unit) for statement in current.statements))
    return current


def squeezed(current: FusedStatements, context: Context) -> FusedStatements:
    """Dense arrays without dimensions of extent 1 that are always subscripted by 0."""
    zero = Const(0, INT64)
    kept: dict[str, list[int]] = {}
    for name, subscripts in subscripted(current.statements):
        array = current.arrays[name]
        is_single = [context.static(extent) == 1 for extent in array.shape]
        moving = [d for d, sub in enumerate(subscripts) if sub != zero or not is_single[d]]
        kept[name] = sorted({*kept.get(name, ()), *moving})
    kept = {
        name: dimensions
        for name, dimensions in kept.items()
        if 0 < len(dimensions) < len(current.arrays[name].shape)
        and current.arrays[name].flat
        and current.arrays[name].texture_2d is None
    }

    def subscripts_of(name: str, old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(old[d] for d in kept.get(name, range(len(old))))

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.array in kept:
            return replace(node, subscripts=subscripts_of(node.array, node.subscripts))
        return None

    statements = tuple(
        replace(s, subscripts=subscripts_of(s.target, s.subscripts), value=replaced(s.value, change))
        for s in current.statements
    )
    arrays = {
        name: replace(
            array, shape=tuple(array.shape[d] for d in kept[name]), strides=tuple(array.strides[d] for d in kept[name])
        )
        for name, array in current.arrays.items()
        if name in kept
    }
    return FusedStatements(statements, {**current.arrays, **arrays}, current.origins)


def with_zeros(statement: Statement, names: Sequence[str]) -> Statement:
    """The statement with 0 in place of some indices."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, IndexValue) and node.name in names:
            return Const(0, INT64)
        if isinstance(node, Reduce) and any(index.name in names for index in node.indices):
            remaining = tuple(index for index in node.indices if index.name not in names)
            return replaced(replace(node, indices=remaining), change)
        return None

    return replace(
        statement,
        indices=tuple(index for index in statement.indices if index.name not in names),
        subscripts=tuple(replaced(sub, change) for sub in statement.subscripts),
        value=replaced(statement.value, change),
    )


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Pairs of a slow and a fast index to fuse, and the pair of dimensions that this fuses in each array."""

    pairs: tuple[tuple[Index, Index], ...]
    dimensions: Mapping[str, tuple[int, int]]


def _fusions(current: FusedStatements, context: Context, fixed: frozenset[str], allow_parts: bool) -> Iterator[_Fusion]:
    pairs: dict[tuple[str, ...], tuple[Index, Index]] = {
        (a.name, b.name): (a, b) for group in groups(current.statements) for a, b in permutations(group, 2)
    }
    accesses = tuple(subscripted(current.statements))
    for pair in pairs.values():
        fusion = None if fixed & {index.name for index in pair} else _fusion(current, accesses, pairs, pair)
        if fusion is not None and all(_is_dense(current, p, fusion, context, allow_parts) for p in fusion.pairs):
            yield fusion


def groups(statements: tuple[Statement, ...]) -> list[tuple[Index, ...]]:
    """The output indices, and the reduced indices of each stage."""
    return [statements[0].indices, *(stage[0].indices for stage in collected(statements))]


def _fusion(
    current: FusedStatements,
    accesses: tuple[tuple[str, tuple[Expr, ...]], ...],
    pairs_by_name: Mapping[tuple[str, ...], tuple[Index, Index]],
    first: tuple[Index, Index],
) -> _Fusion | None:
    """The fusion of a slow and a fast index, and of all pairs with the same dimensions; None if one can't be fused."""
    slow, fast = first
    pairs = {(slow.name, fast.name): first}
    dimensions: dict[str, tuple[int, int]] = {}
    # An access seen before its array got its dimensions is checked in another iteration, until a fixed point.
    has_changed = True
    while has_changed:
        has_changed, known = False, len(dimensions)
        for array, subscripts in accesses:
            bare = {sub.name: d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue)}
            for a, b in tuple(pairs):
                if not {a, b} & bare.keys():
                    continue
                if any(subscripts.count(IndexValue(name)) != 1 for name in (a, b)):
                    return None
                if dimensions.setdefault(array, (bare[a], bare[b])) != (bare[a], bare[b]):
                    return None
            if array not in dimensions:
                continue
            names = tuple(sub.name for sub in (subscripts[d] for d in dimensions[array]) if isinstance(sub, IndexValue))
            if names not in pairs_by_name:
                return None
            if names not in pairs:
                pairs[names[0], names[1]] = pairs_by_name[names]
                has_changed = True
        has_changed = has_changed or len(dimensions) != known
    fused_names = {name for pair in pairs for name in pair}
    if not dimensions or len(fused_names) < 2 * len(pairs):
        return None
    if any(_uses_value(statement, fused_names) for statement in current.statements):
        return None
    return _Fusion(tuple(pairs.values()), dimensions)


def _is_dense(
    current: FusedStatements, pair: tuple[Index, Index], fusion: _Fusion, context: Context, allow_parts: bool
) -> bool:
    """Whether in every array the slow dimension's stride is the fast one's times its extent."""
    slow, fast = map(context.extent, pair)
    for name, (a, b) in fusion.dimensions.items():
        array = current.arrays[name]
        differences = [array.shape[b] - fast, array.strides[a] - array.strides[b] * fast]
        differences += [] if allow_parts else [array.shape[a] - slow]
        if (
            not array.flat
            or array.texture_2d is not None
            or any(difference.expand() != 0 for difference in differences)
        ):
            return False
    return True


def subscripted(statements: tuple[Statement, ...]) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    for statement in statements:
        yield statement.target, statement.subscripts
        yield from ((node.array, node.subscripts) for node in walk(statement.value) if isinstance(node, Read))


def _uses_value(statement: Statement, names: set[str]) -> bool:
    """Whether an index occurs other than as a bare subscript of an access without a boundary."""

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


def _apply(current: FusedStatements, fusion: _Fusion, naming: Naming) -> FusedStatements:
    origins = dict(current.origins)
    taken = {index.name for group in groups(current.statements) for index in group}
    fused_by_fast: dict[Index, Index] = {}
    for slow, fast in fusion.pairs:
        parts = (*origins.pop(slow.name, (slow,)), *origins.pop(fast.name, (fast,)))
        taken -= {slow.name, fast.name}
        name = naming(slow, fast, parts, taken)
        taken.add(name)
        origins[name] = parts
        fused_by_fast[fast] = Index(name, Op("mul", (slow.extent, fast.extent), INT64))
    removed = {slow for slow, _ in fusion.pairs}
    names = {fast.name: index.name for fast, index in fused_by_fast.items()}

    def subscripts(array: str, old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if array not in fusion.dimensions:
            return tuple(replaced(sub, change) for sub in old)
        slow, fast = fusion.dimensions[array]
        remaining = [(d, sub) for d, sub in enumerate(old) if d != slow]
        fast_sub = old[fast]
        name = names[fast_sub.name] if isinstance(fast_sub, IndexValue) else ""
        return tuple(IndexValue(name) if d == fast else replaced(sub, change) for d, sub in remaining)

    def indices(old: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(fused_by_fast.get(index, index) for index in old if index not in removed)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Read):
            return replace(node, subscripts=subscripts(node.array, node.subscripts))
        if isinstance(node, Reduce) and removed & set(node.indices):
            return replaced(replace(node, indices=indices(node.indices)), change)
        return None

    values = [replaced(s.value, change) for s in current.statements]
    statements = tuple(
        replace(s, subscripts=subscripts(s.target, s.subscripts), indices=indices(s.indices), value=value)
        for s, value in zip(current.statements, values, strict=True)
    )
    arrays = {name: fused_array(current.arrays[name], pair) for name, pair in fusion.dimensions.items()}
    return FusedStatements(statements, {**current.arrays, **arrays}, origins)


def fused_array(array: Array, dimensions: tuple[int, ...]) -> Array:
    """The array with some dense dimensions fused into the last of them."""
    *removed, last = dimensions
    shape = {d: extent for d, extent in enumerate(array.shape) if d not in removed}
    shape[last] = sympy.Mul(*(array.shape[d] for d in dimensions))
    strides = tuple(stride for d, stride in enumerate(array.strides) if d not in removed)
    return replace(array, shape=tuple(shape.values()), strides=strides)


def with_remainders(current: FusedStatements, slow: Index, fast: Index, context: Context) -> FusedStatements | None:
    """The statements over one index in place of two, whose remainder is the fast one where arrays have that alone: of
    x[i, j] + b[j] over n columns, x[e] + b[e % n]. None where it isn't so simple."""
    taken = {index.name for group in groups(current.statements) for index in group} | context.symbols.keys()
    name = fresh("e" if "e" not in taken else "element", taken)
    remainder = Op("mod", (IndexValue(name), fast.extent), INT64)
    both = {slow.name, fast.name}
    dimensions: dict[str, tuple[int, int]] = {}
    for array, subscripts in subscripted(current.statements):
        if not any(slow.name in free_indices(sub) for sub in subscripts):
            continue
        bare = {sub.name: d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue) and sub.name in both}
        if len(bare) < 2 or sum(bool(free_indices(sub) & both) for sub in subscripts) > 2:
            return None
        pair = bare[slow.name], bare[fast.name]
        if dimensions.setdefault(array, pair) != pair:
            return None
    fusion = _Fusion(((slow, fast),), dimensions)
    if not dimensions or not _is_dense(current, (slow, fast), fusion, context, allow_parts=True):
        return None

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.array in dimensions:
            subscripts = tuple(
                sub if d in dimensions[node.array] else replaced(sub, change) for d, sub in enumerate(node.subscripts)
            )
            return replace(node, subscripts=subscripts)
        return remainder if node == IndexValue(fast.name) else None

    reads = [node for s in current.statements for node in walk(s.value) if isinstance(node, Read)]
    for read in reads:
        is_fused = read.array in dimensions
        if is_fused and (slow.name not in free_indices(read) or read.boundary is not None or read.exact):
            return None
    statements = tuple(replace(s, value=replaced(s.value, change)) for s in current.statements)
    result = _apply(replace(current, statements=statements), fusion, lambda *_: name)
    values = [expr for s in result.statements for expr in (*s.subscripts, s.value)]
    return None if any(free_indices(value) & both for value in values) else result


def _linearised(current: FusedStatements, context: Context) -> FusedStatements:
    """Linear indices in place of the subscripts `delinearised` from them, where all reads of an array have them.

    So x[e // 8, e % 8] of a dense array becomes x[e]."""
    runs: dict[str, tuple[int, ...]] = {}
    for array, subscripts in subscripted(current.statements):
        run = _delinearised_dimensions(current.arrays[array], subscripts, context)
        if runs.setdefault(array, run) != run:
            runs[array] = ()

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Read) and (run := runs[node.array]):
            subs = {d: sub for d, sub in enumerate(node.subscripts) if d not in run[:-1]}
            subs[run[-1]] = _dividend(subs[run[-1]])
            return replace(node, subscripts=tuple(subs.values()))
        return None

    statements = tuple(replace(s, value=replaced(s.value, change)) for s in current.statements)
    arrays = {name: fused_array(current.arrays[name], run) for name, run in runs.items() if run}
    return replace(current, statements=statements, arrays={**current.arrays, **arrays})


def _delinearised_dimensions(array: Array, subscripts: tuple[Expr, ...], context: Context) -> tuple[int, ...]:
    """The adjacent dimensions whose subscripts are `delinearised` from one linear index."""
    if array.texture_2d is not None:
        return ()
    symbols: dict[str, Integer] = dict(context.symbols)
    symbols.update({name: symbol(name) for sub in subscripts for name in free_indices(sub)})
    for last, sub in enumerate(subscripts):
        if last == 0 or _dividend(sub) == sub or any(isinstance(node, Read) for node in walk(sub)):
            continue
        linear_index, scale = to_integer(_dividend(sub), symbols), array.shape[last]
        for first in reversed(range(last)):
            if any(isinstance(node, Read) for node in walk(subscripts[first])):
                break
            subscript, quotient = to_integer(subscripts[first], symbols), FloorDiv(linear_index, scale)
            is_dense = (array.strides[first] - array.strides[last] * scale).expand() == 0
            if is_dense and subscript == quotient:
                return tuple(range(first, last + 1))
            if not is_dense or subscript != Mod(quotient, array.shape[first]):
                break
            scale = scale * array.shape[first]
    return ()


def _dividend(sub: Expr) -> Expr:
    """The dividend of a `mod` subscript; any other subscript itself."""
    return sub.args[0] if isinstance(sub, Op) and sub.name == "mod" else sub
