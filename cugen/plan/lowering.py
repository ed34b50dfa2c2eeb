"""From typed expressions to nodes: each read becomes a named load, each reduction a loop with a running value.

Every family uses this for whatever it doesn't arrange itself. A load or a reduction stands in the outermost scope in
which its indices are fixed and it is safe to run, and once, however often the statement mentions it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy

from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
)
from cugen.plan.names import Names
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import NotAnInteger, to_guard, to_integer
from cugen.plan.substitution import as_reduction
from cugen.plan.symbols import Integer, Maximum, Minimum, Mod, Range, bounds, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    IndexValue,
    Local,
    Op,
    Read,
    Reduce,
    Scan,
    Select,
    children,
    free_indices,
    walk,
)
from cugen.spec.types import BOOL, INT64, DType

_ACCUMULATOR = {
    "sum": "sum",
    "prod": "product",
    "max": "largest",
    "min": "smallest",
    "any": "any",
    "all": "all",
    "argmax": "argmax",
    "argmin": "argmin",
}


@dataclass
class Lowering:
    """The state of one kernel under construction.

    `symbols` maps the spec's indices and params to integer expressions, `arrays` its arrays to where they live in this
    kernel, `ranges` every symbol to its values.
    """

    names: Names
    arrays: Mapping[str, Array]
    symbols: dict[str, Integer]
    ranges: dict[sympy.Symbol, Range]
    limits: dict[sympy.Symbol, Integer] = field(default_factory=dict)  # index < limit, where that is known
    unroll: int = 0  # reductions of at most this many steps are unrolled
    _loops: dict[tuple[str, Range], str] = field(default_factory=dict)
    _active: list[str] = field(default_factory=list)
    _read_names: dict[Read, str] = field(default_factory=dict)
    _depends: dict[sympy.Symbol, frozenset[str]] = field(default_factory=dict)
    _shared: dict[Expr, None] = field(default_factory=dict)  # mentioned at more than one place

    def prepare(self, expressions: tuple[Expr, ...]) -> None:
        """Chooses the names of loads: an array's own where it is read at one place, else with its subscripts."""
        self._shared = _mentioned_twice(expressions)
        reads = {node: None for expr in expressions for node in walk(expr) if isinstance(node, Read)}
        places: dict[str, list[Read]] = {}
        for read in reads:
            places.setdefault(read.array, []).append(read)
        for array, found in places.items():
            for read in found:
                suffix = _suffix(read) if len(found) > 1 or array.lower() == self.arrays[array].symbol else ""
                self._read_names[read] = (f"{array.lower()}_{suffix}" if suffix else array.lower())[:24]

    def lower(self, expr: Expr, scope: Scope) -> Expr:
        """The value of `expr` over locals, with the nodes that it needs put into `scope` or the scopes round it."""
        known = scope.recall(expr)
        if known is not None:
            return known
        match expr:
            case Read():
                return self._read(expr, scope)
            case Op() if expr in self._shared:
                return self._once(expr, scope)
            case Op():
                return replace(expr, args=tuple(self.lower(arg, scope) for arg in expr.args))
            case Cast():
                return replace(expr, arg=self.lower(expr.arg, scope))
            case Select():
                return self._select(expr, scope)
            case Reduce():
                return self._reduce(expr, scope)
            case Scan():
                return self._reduce(as_reduction(expr), scope)
            case IndexValue(name=name):
                return self._index_value(name)
            case _:
                return expr

    def guard(self, condition: Expr) -> Guard | None:
        """The condition as a guard over indices, without the terms that always hold; None where it depends on data."""
        found = to_guard(condition, self.symbols)
        return None if found is None else self.needed(found)

    def needed(self, guard: Guard) -> Guard:
        """The guard without the terms that the ranges of its indices already prove."""
        return Guard(tuple(term for term in guard.terms if not self._holds(term)))

    def inside(self, subscripts: tuple[Integer, ...], shape: tuple[Integer, ...]) -> Guard:
        """The comparisons that keep an access inside an array, as far as they aren't certain."""
        terms: list[Comparison] = []
        for subscript, extent in zip(subscripts, shape, strict=True):
            terms.append(Comparison(subscript, ">=", integer(0)))
            terms.append(Comparison(subscript, "<", extent))
        return self.needed(Guard(tuple(terms)))

    def define(self, wish: str, definition: Integer, scope: Scope) -> Integer:
        """A named index with this value, introduced in `scope`."""
        index = Index(self.names.allocate(wish), definition, bounds(definition, self.ranges))
        self.ranges[index.symbol] = index.range
        self._depends[index.symbol] = self._indices_in(definition)
        scope.nodes.append(Define(index))
        return index.symbol

    def _holds(self, term: Comparison) -> bool:
        match term.operator:
            case "<":
                return self.is_below(term.left, term.right)
            case "<=":
                return self.is_below(term.left, term.right + 1)
            case ">":
                return self.is_below(term.right, term.left)
            case ">=":
                return self.is_below(term.right, term.left + 1)
            case "==":
                return bool(term.left == term.right)
        return False

    def is_below(self, left: Integer, right: Integer) -> bool:
        """Whether `left < right` is certain, by ranges or by what is known of indices against params."""
        difference = left - right
        if bounds(difference, self.ranges)[1] < 0:
            return True
        for name in sorted(difference.free_symbols & self.limits.keys(), key=str):
            coefficient = difference.coeff(name)
            if coefficient.is_positive:
                difference = difference.subs(name, self.limits[name] - 1)
        return bounds(difference, self.ranges)[1] < 0

    def _index_value(self, name: str) -> Expr:
        value = self.symbols[name]
        if value.is_Symbol:
            return Local(value.name, INT64)
        return _value_of(value)

    def _once(self, op: Op, scope: Scope) -> Expr:
        """A named value for what the statement mentions more than once."""
        home = scope.home(free_indices(op))
        value = replace(op, args=tuple(self.lower(arg, home) for arg in op.args))
        local = Local(self.names.allocate(_value_name(op)), op.dtype)
        home.nodes.append(Let(local, value))
        home.remember(op, local)
        return local

    # Reads

    def _read(self, read: Read, scope: Scope) -> Expr:
        home = scope.home(free_indices(read))
        subscripts = tuple(self._subscript(sub, home, read, d) for d, sub in enumerate(read.subscripts))
        array = self.arrays[read.array]
        guard, otherwise = None, None
        if read.boundary is not None:
            exact = tuple(
                Comparison(Mod(to_integer(dividend, self.symbols), integer(divisor)), "==", integer(0))
                for dividend, divisor in read.exact
            )
            if read.boundary.mode in ("zero", "value"):
                value = 0 if read.boundary.mode == "zero" else read.boundary.value
                subscripts = tuple(
                    self._nameable(sub, extent, home) for sub, extent in zip(subscripts, array.shape, strict=True)
                )
                outside = Guard(exact + self.inside(subscripts, array.shape).terms)
                if outside.terms:
                    guard, otherwise = outside, Const(value if value is not None else 0, read.dtype)
            else:
                subscripts = tuple(
                    self._folded(sub, extent, read, home) for sub, extent in zip(subscripts, array.shape, strict=True)
                )
                if exact:
                    guard, otherwise = Guard(exact), Const(0, read.dtype)
        local = Local(self.names.allocate(self._read_names.get(read, read.array.lower())), read.dtype)
        home.nodes.append(Load(local, Access(array, subscripts, "load"), guard, otherwise))
        home.remember(read, local)
        return local

    def _subscript(self, expr: Expr, home: Scope, read: Read, dimension: int) -> Integer:
        """A subscript as an integer expression; the elements that a gather reads become named loads first."""
        for node in walk(expr):
            if isinstance(node, Read):
                value = self.lower(node, home)
                if isinstance(value, Local) and value.name not in self.symbols:
                    # A gather without a boundary promises to stay inside, one with a boundary may be anything.
                    low, high = node.dtype.lowest, node.dtype.highest
                    if read.boundary is None and expr == node:
                        extent = self.arrays[read.array].shape[dimension]
                        low, high = 0, max(bounds(extent, self.ranges)[1] - 1, 0)
                    self.symbols[value.name] = sympy.Symbol(value.name, integer=True)
                    self.ranges[self.symbols[value.name]] = (low, high)
        return to_integer(_with_locals(expr, home), self.symbols)

    def _nameable(self, sub: Integer, extent: Integer, scope: Scope) -> Integer:
        """A subscript that a guard and an access both mention, under a name where it's long."""
        inside = bounds(sub, self.ranges)[0] >= 0 and self.is_below(sub, extent)
        short = sub.is_Symbol or sub.is_Integer or (sub.is_Add and len(sub.args) == 2 and sub.args[0].is_Integer)
        return sub if inside or short else self._named(sub, sub, extent, scope)

    def _folded(self, sub: Integer, extent: Integer, read: Read, scope: Scope) -> Integer:
        """A subscript brought inside by clamping, wrapping or reflecting; unchanged where it can't leave."""
        assert read.boundary is not None
        low = bounds(sub, self.ranges)[0]
        if low >= 0 and self.is_below(sub, extent):
            return sub
        last = extent - 1
        match read.boundary.mode:
            case "clamp":
                inside = Maximum(sub, integer(0)) if low < 0 else sub
                inside = inside if self.is_below(inside, extent) else Minimum(inside, last)
                return self._named(inside, sub, extent, scope)
            case "wrap":
                return self._named(Mod(sub, extent), sub, extent, scope)
            case _:
                folded = self._named(Mod(sub, Maximum(2 * last, integer(1))), sub, extent, scope)
                return self._named(Minimum(folded, 2 * last - folded), sub, extent, scope)

    def _named(self, value: Integer, sub: Integer, extent: Integer, scope: Scope) -> Integer:
        """An index for a subscript that is more than an index and a constant, once for each scope that sees it."""
        home = scope.home(self._indices_in(value))
        known = home.recall_index(value)
        if known is None:
            known = self.define(_index_name(sub, extent), value, home)
            home.remember_index(value, known)
        return known

    def _indices_in(self, value: Integer) -> frozenset[str]:
        """The spec's indices on which a value depends, also through the definitions of other names."""
        used = value.free_symbols
        direct = {name for name, symbol in self.symbols.items() if symbol.free_symbols & used}
        return frozenset(direct.union(*(self._depends.get(s, frozenset()) for s in used)))

    # Choices

    def _select(self, select: Select, scope: Scope) -> Expr:
        home = scope.home(free_indices(select))
        guard = self.guard(select.condition)
        if guard is not None and not guard.terms:
            return self.lower(select.then, scope)
        condition = self.lower(select.condition, home)
        then, orelse = Scope(home, certain=False), Scope(home, certain=False)
        then_value, else_value = self.lower(select.then, then), self.lower(select.orelse, orelse)
        if not then.nodes and not orelse.nodes:
            return replace(select, condition=condition, then=then_value, orelse=else_value)
        if guard is not None and not orelse.nodes and len(then.nodes) == 1:
            (only,) = then.nodes
            if isinstance(only, Load) and only.guard is None and only.local == then_value:
                home.nodes.append(replace(only, guard=guard, otherwise=else_value))
                home.remember(select, then_value)
                return then_value
        local = Local(self.names.allocate("chosen"), select.dtype)
        home.nodes.append(Let(local, None, mutable=True))
        then.nodes.append(Assign(local, then_value))
        orelse.nodes.append(Assign(local, else_value))
        home.nodes.append(If(guard if guard is not None else condition, tuple(then.nodes), tuple(orelse.nodes)))
        home.remember(select, local)
        return local

    # Reductions

    def _reduce(self, reduction: Reduce, scope: Scope) -> Expr:
        known = scope.recall(reduction)
        if known is not None:
            return known
        home = scope.home(free_indices(reduction))
        local = Local(self.names.allocate(_ACCUMULATOR[reduction.kind]), reduction.dtype)
        if reduction.kind in ("argmax", "argmin"):
            extreme = Local(
                self.names.allocate("largest" if reduction.kind == "argmax" else "smallest"), reduction.body.dtype
            )
            home.nodes.append(Let(local, Const(-1, INT64), mutable=True))
            home.nodes.append(Let(extreme, Const(0, extreme.dtype), mutable=True))
        else:
            extreme = local
            home.nodes.append(Let(local, identity(reduction.kind, reduction.dtype), mutable=True))
        self._loop(reduction, reduction.indices, _conjuncts(reduction.where), local, extreme, home)
        home.remember(reduction, local)
        return local

    def _loop(
        self,
        reduction: Reduce,
        indices: tuple[spec.Index, ...],
        conditions: tuple[Expr, ...],
        local: Local,
        extreme: Local,
        scope: Scope,
    ) -> None:
        """The loop over the first of `indices` and, inside it, the rest; conditions stand as far out as they can."""
        if not indices:
            self._accumulate(reduction, conditions, local, extreme, scope)
            return
        index, *rest = indices
        extent = to_integer(index.extent, self.symbols)
        start, stop = integer(0), extent
        outer, later = self.symbols.get(index.name), {i.name for i in rest}
        symbol = self._loop_symbol(index.name, extent)
        self.symbols[index.name] = symbol
        remaining: list[Expr] = []
        for condition in conditions:
            bound = None if free_indices(condition) & later else self._loop_bound(condition, symbol)
            if bound is None:
                remaining.append(condition)
            elif bound.operator == "<":
                stop = bound.right if self.is_below(bound.right, stop + 1) else Minimum(stop, bound.right)
            else:
                start = bound.right if bounds(bound.right, self.ranges)[0] >= 0 else Maximum(start, bound.right)
        certain = bounds(stop - start, self.ranges)[0] >= 1
        body = Scope(scope, frozenset((index.name,)), certain=certain)
        here = [c for c in remaining if not free_indices(c) & later]
        inner = body
        if rest and here:
            inner = self._guarded(here, body)
            remaining = [c for c in remaining if c not in here]
        self._loop(reduction, tuple(rest), tuple(remaining), local, extreme, inner)
        if inner is not body:
            self._close_guard(here, inner, body)
        self._active.remove(symbol.name)
        high = bounds(stop - start, self.ranges)[1]
        loop = Loop(Index(symbol.name, symbol, self.ranges[symbol]), start, stop, unroll=high <= self.unroll)
        scope.nodes.append(For(loop, tuple(body.nodes)))
        if outer is None:
            del self.symbols[index.name]
        else:
            self.symbols[index.name] = outer

    def _loop_symbol(self, wish: str, extent: Integer) -> sympy.Symbol:
        """The loop's variable; loops side by side over equal ranges share a name, as people write them."""
        values = (0, max(bounds(extent, self.ranges)[1] - 1, 0))
        name = self._loops.get((wish, values), "")
        if not name or name in self._active:
            name = self.names.allocate(wish)
            self._loops[wish, values] = name
        self._active.append(name)
        symbol = sympy.Symbol(name, integer=True)
        self.ranges[symbol] = values
        self.limits[symbol] = extent
        return symbol

    def _loop_bound(self, condition: Expr, symbol: sympy.Symbol) -> Comparison | None:
        """`symbol < e` or `symbol >= e` where the condition amounts to that."""
        guard = to_guard(condition, self.symbols)
        if guard is None or len(guard.terms) != 1:
            return None
        (term,) = guard.terms
        difference = term.left - term.right
        coefficient = difference.coeff(symbol)
        rest = difference - coefficient * symbol
        if coefficient not in (1, -1) or symbol in rest.free_symbols or term.operator in ("==", "!="):
            return None
        # The condition reads symbol·c + rest OP 0; with c = -1 both sides change sign.
        operator = term.operator
        limit = -rest
        if coefficient == -1:
            limit, operator = rest, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
        match operator:
            case "<":
                return Comparison(symbol, "<", limit)
            case "<=":
                return Comparison(symbol, "<", limit + 1)
            case ">":
                return Comparison(symbol, ">=", limit + 1)
            case _:
                return Comparison(symbol, ">=", limit)

    def _guarded(self, conditions: list[Expr], scope: Scope) -> Scope:
        return Scope(scope, certain=False)

    def _close_guard(self, conditions: list[Expr], inner: Scope, outer: Scope) -> None:
        condition = _conjunction(conditions)
        guard = self.guard(condition)
        if guard is not None:
            outer.nodes.append(If(guard, tuple(inner.nodes)))
        else:
            outer.nodes.append(If(self.lower(condition, outer), tuple(inner.nodes)))

    def _accumulate(
        self, reduction: Reduce, conditions: tuple[Expr, ...], local: Local, extreme: Local, scope: Scope
    ) -> None:
        inner = scope
        if conditions:
            inner = self._guarded(list(conditions), scope)
        value = self.lower(reduction.body, inner)
        inner.nodes.extend(self._step(reduction, local, extreme, value))
        if inner is not scope:
            self._close_guard(list(conditions), inner, scope)

    def _step(self, reduction: Reduce, local: Local, extreme: Local, value: Expr) -> tuple[Node, ...]:
        kind = reduction.kind
        if kind not in ("argmax", "argmin"):
            return (Assign(local, combine(kind, local, value)),)
        if not isinstance(value, Local):
            named = Local(self.names.allocate("candidate"), value.dtype)
            first: tuple[Node, ...] = (Let(named, value),)
        else:
            named, first = value, ()
        (index,) = reduction.indices
        better: Expr = Op("gt" if kind == "argmax" else "lt", (named, extreme), BOOL)
        if named.dtype.is_float:
            is_nan = Op("ne", (named, named), BOOL)
            was_number = Op("eq", (extreme, extreme), BOOL)
            better = Op("or", (better, Op("and", (is_nan, was_number), BOOL)), BOOL)
        none_yet = Op("lt", (local, Const(0, INT64)), BOOL)
        condition = Op("or", (none_yet, better), BOOL)
        chosen = (Assign(extreme, named), Assign(local, self._index_value(index.name)))
        return (*first, If(condition, chosen))


def identity(kind: str, dtype: DType) -> Const:
    """What an empty reduction yields, which is also where a running value starts."""
    match kind:
        case "sum":
            return Const(0, dtype)
        case "prod":
            return Const(1, dtype)
        case "any" | "all":
            return Const(kind == "all", BOOL)
    if dtype.is_float:
        return Const(float("-inf") if kind == "max" else float("inf"), dtype)
    return Const(dtype.lowest if kind == "max" else dtype.highest, dtype)


def combine(kind: str, running: Expr, value: Expr) -> Expr:
    """One step of a reduction."""
    name = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}[kind]
    return Op(name, (running, value), running.dtype)


def _mentioned_twice(expressions: tuple[Expr, ...]) -> dict[Expr, None]:
    """Operations on data that have more than one place in the expressions; equal parents count as one place."""
    places: dict[Expr, int] = {}
    seen: dict[Expr, None] = {}
    open_ = list(expressions)
    while open_:
        expr = open_.pop()
        places[expr] = places.get(expr, 0) + 1
        if expr not in seen:
            seen[expr] = None
            open_.extend(() if isinstance(expr, Read) else children(expr))
    return {
        expr: None
        for expr, count in places.items()
        if count > 1 and isinstance(expr, Op) and any(isinstance(n, Read | Reduce | Scan) for n in walk(expr))
    }


def _value_name(op: Op) -> str:
    match op:
        case Op(name="div", args=(Reduce(kind="sum"), _)):
            return "mean"
        case Op(name="add"):
            return "total"
    return {"sub": "difference", "mul": "product", "div": "quotient"}.get(op.name, f"{op.name}_value")


def _conjuncts(where: Expr | None) -> tuple[Expr, ...]:
    if where is None:
        return ()
    if isinstance(where, Op) and where.name == "and":
        return tuple(part for arg in where.args for part in _conjuncts(arg))
    return (where,)


def _conjunction(conditions: list[Expr]) -> Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = Op("and", (result, condition), BOOL)
    return result


def _with_locals(expr: Expr, scope: Scope) -> Expr:
    """A subscript with its gathered elements replaced by the locals that hold them."""
    if isinstance(expr, Read):
        return scope.recall(expr) or expr
    if isinstance(expr, Op):
        return replace(expr, args=tuple(_with_locals(arg, scope) for arg in expr.args))
    if isinstance(expr, Cast):
        return replace(expr, arg=_with_locals(expr.arg, scope))
    return expr


def _value_of(value: Integer) -> Expr:
    raise NotAnInteger(f"index without a name: {value}")


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
