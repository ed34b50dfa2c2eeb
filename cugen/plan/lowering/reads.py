"""Lowering of reads to named loads: their scope, subscripts and boundary handling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy

from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Comparison, Guard, Let, Load
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import computed_parts, to_integer
from cugen.plan.symbols import INT32_MAX, INT32_MIN, Integer, Maximum, Minimum, Mod, bounds, integer, symbol
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Local, Op, Read, free_indices, walk
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

if TYPE_CHECKING:
    from cugen.plan.lowering.expressions import Lowering

_LONGEST_NAME = 24  # of a load, with its subscripts


def name_reads(expressions: tuple[Expr, ...], arrays: Mapping[str, Array]) -> dict[Read, str]:
    """Names of loads: the array's if it is read at one element, else with its subscripts, or, where that is long, with
    those in which the elements differ."""
    names: dict[Read, str] = {}
    reads: dict[str, dict[Read, None]] = {}
    for expr in expressions:
        for node in walk(expr):
            if isinstance(node, Read):
                reads.setdefault(node.array, {})[node] = None
    for array, distinct in reads.items():
        different = [len(set(subscripts)) > 1 for subscripts in zip(*(r.subscripts for r in distinct), strict=True)]
        for read in distinct:
            name = array.lower()
            suffixes = [""]
            if len(distinct) > 1 or name == arrays[array].symbol:
                differing = tuple(sub for sub, differs in zip(read.subscripts, different, strict=True) if differs)
                suffixes = [_suffix(read.subscripts), _suffix(differing), "value"]
            candidates = [f"{name}_{suffix}" if suffix else name for suffix in suffixes]
            names[read] = next((c for c in candidates if len(c) <= _LONGEST_NAME and c != name), candidates[-1])
    return names


def load_read(lowering: Lowering, read: Read, scope: Scope) -> Expr:
    """The local of the element, loaded in the outermost scope where that is safe."""
    array = lowering.arrays[read.array]
    home = scope.home(free_indices(read), is_always_safe=_is_always_in_bounds(lowering, read, array))
    vector = lowering.field_vectors.get(read)
    if vector is not None and vector.source == array:
        structure = Read(read.array, vector.subscripts, read.dtype)
        subscripts = tuple(lower_subscript(lowering, sub, home) for sub in structure.subscripts)
        return vector.load(read, subscripts, f"{read.array.lower()}_{_suffix(structure.subscripts)}", lowering, home)
    subscripts = tuple(lower_subscript(lowering, sub, home) for sub in read.subscripts)
    subscripts, guard, otherwise = within(lowering, read, subscripts, array, home)
    name_hint = lowering.read_names.get(read, read.array.lower())
    # A gathered subscript needs a unique name: its range is recorded under it.
    name = (
        lowering.names.allocate(name_hint) if read in lowering.subscripts else lowering.name_for(read, name_hint, home)
    )
    local = Local(name, read.dtype)
    access = Access(array, subscripts, "load", span=read.span)
    checked = guard is not None and is_bounds_checked(lowering, read, access)
    home.nodes.append(Load(local, access, guard, otherwise, checked))
    home.remember(read, local)
    return local


def unnamed(value: Expr, scope: Scope) -> Expr:
    """The element itself in place of a local that was just loaded for a single use."""
    match scope.nodes[-1:]:
        case [Load(local=local, access=access, guard=None)] if local == value:
            scope.nodes.pop()
            return Element.of(access)
    return value


def _is_always_in_bounds(lowering: Lowering, read: Read, array: Array) -> bool:
    """Whether the ranges of its indices prove an element's subscripts in bounds, whatever conditions it is read
    under."""
    if read.boundary is not None or any(True for sub in read.subscripts for _ in computed_parts(sub)):
        return False
    subscripts = (to_integer(sub, lowering.symbols) for sub in read.subscripts)
    return all(is_provably_inside(lowering, sub, extent) for sub, extent in zip(subscripts, array.shape, strict=True))


def within(
    lowering: Lowering, read: Read, subscripts: tuple[Integer, ...], array: Array, home: Scope
) -> tuple[tuple[Integer, ...], Guard | None, Expr | None]:
    """The subscripts after boundary folding (named in `home`), the load's guard, and the value if that fails. What the
    address mode of a 2-D texture folds is left to it."""
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
    texture, mode, present = array.texture_2d, read.boundary.mode, Filled(lowering, home)
    terms, folded = exact, list[Integer]()
    for sub, extent in pairs:
        if is_provably_inside(lowering, sub, extent):
            folded.append(sub)
            continue
        size = extent
        if not present.holds(extent):  # then there is no element to fold to, and the read is 0
            terms = (*terms, Comparison(extent, ">", integer(0)))
            size = Maximum(extent, integer(1))
        is_by_hardware = texture is not None and texture.takes(mode, sub, lowering.ranges)
        folded.append(sub if is_by_hardware else _folded(lowering, sub, size, read, home))
    terms = tuple(dict.fromkeys(terms))
    if terms:
        return tuple(folded), Guard(terms), Const(0, read.dtype)
    return tuple(folded), None, None


class Filled:
    """What is known of the dimensions of arrays where the nodes of a scope run: an output, or a loop round them, has an
    element, so that the params of its extent are at least 1."""

    def __init__(self, lowering: Lowering, scope: Scope) -> None:
        self.ranges = dict(lowering.ranges)
        bound = (lowering.symbols.get(name) for part in scope.ancestors() for name in part.binds)
        loops = (lowering.limits[index] for index in bound if index in lowering.limits)
        for extent in (*lowering.filled, *loops):
            self._fill(extent)

    def _fill(self, extent: Integer) -> None:
        constant, scaled = extent.as_coeff_Add()
        factor, size = scaled.as_coeff_Mul()
        if factor <= 0:
            return
        lowest = -(-(1 - constant) // factor)  # of what the factor scales
        for part in sympy.Mul.make_args(size) if size.is_Symbol or lowest == 1 else ():
            if part in self.ranges:
                low, high = self.ranges[part]
                self.ranges[part] = (max(low, int(lowest)), high)

    def holds(self, extent: Integer) -> bool:
        """Whether a dimension has an element."""
        return bounds(extent, self.ranges)[0] >= 1


def is_provably_inside(lowering: Lowering, sub: Integer, extent: Integer) -> bool:
    """Whether the ranges of its indices prove a subscript in bounds."""
    return bounds(sub, lowering.ranges)[0] >= 0 and lowering.is_below(sub, extent)


def is_bounds_checked(lowering: Lowering, read: Read, access: Access) -> bool:
    """Whether a fetch from a texture tests the bounds of a read that is 0 outside: in two dimensions always; in linear
    memory where a subscript of the slowest dimension is outside, so is the offset, and the others are always inside."""
    array, boundary = access.array, read.boundary
    if array.space != "texture" or boundary is None or boundary.mode != "zero" or read.exact or not array.shape:
        return False
    ranges = lowering.ranges
    extents = [bounds(extent, ranges) for extent in array.shape]
    if array.texture_2d is not None:
        return all(low >= 1 for low, _ in extents)  # without elements there is no texture
    slowest = max(range(len(extents)), key=lambda dimension: bounds(array.strides[dimension], ranges)[1])
    others = [dimension for dimension in range(len(extents)) if dimension != slowest]
    if lowering.inside(
        tuple(access.subscripts[dimension] for dimension in others),
        tuple(array.shape[dimension] for dimension in others),
    ).terms:
        return False
    row = sympy.Add(*((array.shape[dimension] - 1) * array.strides[dimension] for dimension in others))
    low, high = bounds(access.offset(), ranges)
    return (
        all(low >= 1 for low, _ in extents)
        and bounds((array.strides[slowest] - row).expand(), ranges)[0] > 0
        and INT32_MIN <= low
        and high <= INT32_MAX
    )


def lower_subscript(lowering: Lowering, expr: Expr, home: Scope) -> Integer:
    """A subscript as an integer expression; gathered elements become named loads first, and other parts that are
    computed named values. Locals are results of reductions."""
    values: dict[Expr, Expr] = {}
    for part in dict.fromkeys(computed_parts(expr)):
        value = lowering.lower(part, home) if isinstance(part, Read | Local) else lowering.named(part, home)
        if isinstance(value, Local) and value.name not in lowering.symbols:
            _make_subscript(lowering, part, value, home)
        values[part] = value
    return to_integer(replaced(expr, values.get), lowering.symbols)


def _make_subscript(lowering: Lowering, expr: Expr, value: Local, scope: Scope) -> None:
    """Makes a loaded element, the result of a reduction or another computed value usable in subscripts, with its
    range."""
    low, high = expr.dtype.lowest, expr.dtype.highest
    name = value.name
    if extents := lowering.subscripts.get(expr):
        low, high = 0, max(bounds(extent, lowering.ranges)[1] - 1 for extent in extents)
    elif high > INT32_MAX and low == 0:
        # Differences of subscripts may be negative, which unsigned C types don't represent.
        signed = Local(lowering.names.allocate(name), INT64)
        home = scope.home(free_indices(expr))
        home.nodes.append(Let(signed, Cast(value, INT64)))
        name, low, high = signed.name, 0 if high <= INT64.highest else INT64.lowest, min(high, INT64.highest)
    if isinstance(expr, Read) and high <= INT32_MAX and (table := lowering.arrays[expr.array].values):
        known = max(low, int(min(table))), min(high, int(max(table)))
        low, high = known if known[0] <= known[1] else (low, high)
    subscript = symbol(name)
    lowering.symbols[value.name] = subscript
    lowering.ranges[subscript] = (low, max(high, 0))
    lowering.depends[subscript] = free_indices(expr)


def gathered_subscripts(expressions: tuple[Expr, ...], arrays: Mapping[str, Array]) -> dict[Expr, tuple[Integer, ...]]:
    """Elements, locals with results of reductions, and other computed values that are used in subscripts. Those used
    only as a whole subscript of reads without a boundary are assumed in bounds, and map to the extents of these
    dimensions."""
    in_bounds: dict[Expr, tuple[Integer, ...]] = {}
    unbounded: dict[Expr, tuple[Integer, ...]] = {}
    for expr in expressions:
        for node in walk(expr):
            if not isinstance(node, Read):
                continue
            for sub, extent in zip(node.subscripts, arrays[node.array].shape, strict=True):
                parts = tuple(computed_parts(sub))
                if parts == (sub,) and node.boundary is None:
                    in_bounds[sub] = (*in_bounds.get(sub, ()), extent)
                else:
                    unbounded.update(dict.fromkeys(parts, ()))
    return {**in_bounds, **unbounded}


def _nameable(lowering: Lowering, sub: Integer, extent: Integer, scope: Scope) -> Integer:
    """A subscript used by both a guard and an access, named if it is long."""
    is_inside = is_provably_inside(lowering, sub, extent)
    is_short = sub.is_Symbol or sub.is_Integer or (sub.is_Add and len(sub.args) == 2 and sub.args[0].is_Integer)
    return sub if is_inside or is_short else _named(lowering, sub, sub, extent, scope)


def _folded(lowering: Lowering, sub: Integer, extent: Integer, read: Read, scope: Scope) -> Integer:
    """A subscript that may be out of bounds, folded into them by clamping, wrapping or mirroring."""
    assert read.boundary is not None
    low = bounds(sub, lowering.ranges)[0]
    last = extent - 1
    match read.boundary.mode:
        case "clamp":
            inside = Maximum(sub, integer(0)) if low < 0 else sub
            inside = inside if lowering.is_below(inside, extent) else Minimum(inside, last)
            return _named(lowering, inside, sub, extent, scope)
        case "wrap":
            return _named(lowering, Mod(sub, extent), sub, extent, scope)
        case "symmetric":
            folded = _in_period(lowering, Mod(sub, 2 * extent), sub, extent, scope)
            return _named(lowering, Minimum(folded, 2 * extent - 1 - folded), sub, extent, scope)
        case _:
            period = 2 * last if bounds(last, lowering.ranges)[0] >= 1 else Maximum(2 * last, integer(1))
            folded = _in_period(lowering, Mod(sub, period), sub, extent, scope)
            return _named(lowering, Minimum(folded, 2 * last - folded), sub, extent, scope)


def _in_period(lowering: Lowering, value: Integer, sub: Integer, extent: Integer, scope: Scope) -> Integer:
    """Defines the position of a subscript in the period of a mirrored dimension, both ways included."""
    return _named(lowering, value, sub, extent, scope, "_in_period")


def _named(
    lowering: Lowering, value: Integer, sub: Integer, extent: Integer, scope: Scope, suffix: str = ""
) -> Integer:
    """Defines an index for a computed subscript, once per scope in which it is visible."""
    home = scope.home(indices_in(lowering, value))
    known = home.recall_index(value)
    if known is None:
        known = lowering.define(f"{_index_name(sub, extent)}{suffix}", value, home)
        home.remember_index(value, known)
    return known


def indices_in(lowering: Lowering, value: Integer) -> frozenset[str]:
    """The spec's indices on which a value depends, directly or through definitions."""
    used = value.free_symbols
    direct = {name for name, symbol in lowering.symbols.items() if symbol.free_symbols & used}
    return frozenset(direct.union(*(lowering.depends.get(s, frozenset()) for s in used)))


def _index_name(sub: Integer, extent: Integer) -> str:
    """`ym1` for `y - 1`; else the extent's name in lower case, as `h` for a subscript into H rows; else `position`."""
    if sub.is_Add and len(sub.args) == 2 and sub.args[0].is_Integer and sub.args[1].is_Symbol:
        offset = int(sub.args[0])
        return f"{sub.args[1].name}{'m' if offset < 0 else 'p'}{abs(offset)}"
    return extent.name.lower() if extent.is_Symbol else "position"


def _suffix(subscripts: tuple[Expr, ...]) -> str:
    """`im1_j` for `[i - 1, j]`; `value` for other subscripts."""
    parts = []
    for sub in subscripts:
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
