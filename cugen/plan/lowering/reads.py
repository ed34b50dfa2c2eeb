"""Reads as named loads: where a load stands, its subscripts, and what a boundary makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comparison, Guard, Let, Load
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, Integer, Maximum, Minimum, Mod, bounds, integer, symbol
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Local, Op, Read, free_indices, walk
from cugen.spec.types import INT64

if TYPE_CHECKING:
    from cugen.plan.lowering.expressions import Lowering


def name_reads(expressions: tuple[Expr, ...], arrays: Mapping[str, Array]) -> dict[Read, str]:
    """The names of loads: an array's own where it is read at one place, else with its subscripts."""
    names: dict[Read, str] = {}
    places: dict[str, dict[Read, None]] = {}
    for expr in expressions:
        for node in walk(expr):
            if isinstance(node, Read):
                places.setdefault(node.array, {})[node] = None
    for array, found in places.items():
        for read in found:
            suffix = _suffix(read) if len(found) > 1 or array.lower() == arrays[array].symbol else ""
            names[read] = (f"{array.lower()}_{suffix}" if suffix else array.lower())[:24]
    return names


def load_read(lowering: Lowering, read: Read, scope: Scope) -> Expr:
    """The local that holds the element, loaded in the outermost scope where that is safe."""
    home = scope.home(free_indices(read))
    subscripts = tuple(lower_subscript(lowering, sub, home) for sub in read.subscripts)
    array = lowering.arrays[read.array]
    subscripts, guard, otherwise = within(lowering, read, subscripts, array, home)
    wish = lowering.read_names.get(read, read.array.lower())
    # An element that is a subscript is known by its name, also to the ranges.
    name = lowering.names.allocate(wish) if read in lowering.subscripts else lowering.name_for(read, wish, home)
    local = Local(name, read.dtype)
    home.nodes.append(Load(local, Access(array, subscripts, "load"), guard, otherwise))
    home.remember(read, local)
    return local


def within(
    lowering: Lowering, read: Read, subscripts: tuple[Integer, ...], array: Array, home: Scope
) -> tuple[tuple[Integer, ...], Guard | None, Expr | None]:
    """The subscripts as the read's boundary folds them, with names put into `home`; and the guard outside of which the
    read yields another value, with that value."""
    if read.boundary is None:
        return subscripts, None, None
    exact = tuple(
        Comparison(Mod(to_integer(dividend, lowering.symbols), integer(divisor)), "==", integer(0))
        for dividend, divisor in read.exact
    )
    pairs = list(zip(subscripts, array.shape, strict=True))
    if read.boundary.mode in ("zero", "value"):
        value = 0 if read.boundary.mode == "zero" else read.boundary.value
        subscripts = tuple(_nameable(lowering, sub, extent, home) for sub, extent in pairs)
        inside = Guard(exact + lowering.inside(subscripts, array.shape).terms)
        if inside.terms:
            return subscripts, inside, Const(value if value is not None else 0, read.dtype)
        return subscripts, None, None
    subscripts = tuple(_folded(lowering, sub, extent, read, home) for sub, extent in pairs)
    if exact:
        return subscripts, Guard(exact), Const(0, read.dtype)
    return subscripts, None, None


def lower_subscript(lowering: Lowering, expr: Expr, home: Scope) -> Integer:
    """A subscript as an integer expression; the elements that a gather reads become named loads first."""
    for node in walk(expr):
        if isinstance(node, Read):
            value = lowering.lower(node, home)
            if isinstance(value, Local) and value.name not in lowering.symbols:
                _make_subscript(lowering, node, value, home)
    return to_integer(_with_locals(expr, home), lowering.symbols)


def _make_subscript(lowering: Lowering, read: Read, value: Local, scope: Scope) -> None:
    """Lets subscripts mention an element that was read."""
    low, high = read.dtype.lowest, read.dtype.highest
    name = value.name
    if extents := lowering.subscripts.get(read):
        low, high = 0, max(bounds(extent, lowering.ranges)[1] - 1 for extent in extents)
    elif high > INT32_MAX and low == 0:
        # Differences of subscripts have a sign, which the unsigned types of C take away.
        signed = Local(lowering.names.allocate(name), INT64)
        home = scope.home(free_indices(read))
        home.nodes.append(Let(signed, Cast(value, INT64)))
        name, low, high = signed.name, 0 if high <= INT64.highest else INT64.lowest, min(high, INT64.highest)
    subscript = symbol(name)
    lowering.symbols[value.name] = subscript
    lowering.ranges[subscript] = (low, max(high, 0))
    lowering.depends[subscript] = free_indices(read)


def gathered_subscripts(expressions: tuple[Expr, ...], arrays: Mapping[str, Array]) -> dict[Read, tuple[Integer, ...]]:
    """The elements that occur in subscripts. Those that are only ever a whole subscript of reads without a boundary,
    which promise to stay inside, have the extents that they stay below one or another of."""
    promised: dict[Read, tuple[Integer, ...]] = {}
    others: dict[Read, tuple[Integer, ...]] = {}
    for expr in expressions:
        for node in walk(expr):
            if not isinstance(node, Read):
                continue
            for sub, extent in zip(node.subscripts, arrays[node.array].shape, strict=True):
                if isinstance(sub, Read) and node.boundary is None:
                    promised[sub] = (*promised.get(sub, ()), extent)
                else:
                    others.update({inner: () for inner in walk(sub) if isinstance(inner, Read)})
    return {**promised, **others}


def _nameable(lowering: Lowering, sub: Integer, extent: Integer, scope: Scope) -> Integer:
    """A subscript that a guard and an access both mention, under a name where it's long."""
    inside = bounds(sub, lowering.ranges)[0] >= 0 and lowering.is_below(sub, extent)
    short = sub.is_Symbol or sub.is_Integer or (sub.is_Add and len(sub.args) == 2 and sub.args[0].is_Integer)
    return sub if inside or short else _named(lowering, sub, sub, extent, scope)


def _folded(lowering: Lowering, sub: Integer, extent: Integer, read: Read, scope: Scope) -> Integer:
    """A subscript brought inside by clamping, wrapping or reflecting; unchanged where it can't leave."""
    assert read.boundary is not None
    low = bounds(sub, lowering.ranges)[0]
    if low >= 0 and lowering.is_below(sub, extent):
        return sub
    last = extent - 1
    match read.boundary.mode:
        case "clamp":
            inside = Maximum(sub, integer(0)) if low < 0 else sub
            inside = inside if lowering.is_below(inside, extent) else Minimum(inside, last)
            return _named(lowering, inside, sub, extent, scope)
        case "wrap":
            return _named(lowering, Mod(sub, extent), sub, extent, scope)
        case _:
            period = 2 * last if bounds(last, lowering.ranges)[0] >= 1 else Maximum(2 * last, integer(1))
            folded = _named(lowering, Mod(sub, period), sub, extent, scope)
            return _named(lowering, Minimum(folded, 2 * last - folded), sub, extent, scope)


def _named(lowering: Lowering, value: Integer, sub: Integer, extent: Integer, scope: Scope) -> Integer:
    """An index for a subscript that is more than an index and a constant, once for each scope that sees it."""
    home = scope.home(indices_in(lowering, value))
    known = home.recall_index(value)
    if known is None:
        known = lowering.define(_index_name(sub, extent), value, home)
        home.remember_index(value, known)
    return known


def indices_in(lowering: Lowering, value: Integer) -> frozenset[str]:
    """The spec's indices on which a value depends, also through the definitions of other names."""
    used = value.free_symbols
    direct = {name for name, symbol in lowering.symbols.items() if symbol.free_symbols & used}
    return frozenset(direct.union(*(lowering.depends.get(s, frozenset()) for s in used)))


def _with_locals(expr: Expr, scope: Scope) -> Expr:
    """A subscript with its gathered elements replaced by the locals that hold them."""
    if isinstance(expr, Read):
        return scope.recall(expr) or expr
    if isinstance(expr, Op):
        return replace(expr, args=tuple(_with_locals(arg, scope) for arg in expr.args))
    if isinstance(expr, Cast):
        return replace(expr, arg=_with_locals(expr.arg, scope))
    return expr


def _index_name(sub: Integer, extent: Integer) -> str:
    """`ym1` for `y - 1`; else the extent's letter in lower case, as `h` for a subscript into H rows; else `at`."""
    if sub.is_Add and len(sub.args) == 2 and sub.args[0].is_Integer and sub.args[1].is_Symbol:
        offset = int(sub.args[0])
        return f"{sub.args[1].name}{'m' if offset < 0 else 'p'}{abs(offset)}"
    return extent.name.lower() if extent.is_Symbol else "at"


def _suffix(read: Read) -> str:
    """`im1_j` for `[i - 1, j]`: subscripts as people name neighbours; empty where they are more than that."""
    parts = []
    for sub in read.subscripts:
        match sub:
            case IndexValue(name=name):
                parts.append(name)
            case Op(name="add", args=(IndexValue(name=name), Const(value=value))) if isinstance(value, int):
                parts.append(f"{name}p{value}")
            case Op(name="sub", args=(IndexValue(name=name), Const(value=value))) if isinstance(value, int):
                parts.append(f"{name}m{value}")
            case Const(value=value) if isinstance(value, int) and value >= 0:
                parts.append(str(value))
            case _:
                return "value"
    return "_".join(parts)
