"""From typed expressions to nodes: each read becomes a named load, each reduction a loop with a running value.

Every family uses this for whatever it doesn't arrange itself. A load or a reduction stands in the outermost scope in
which its indices are fixed and it is safe to run, and once, however often the statement mentions it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy

from cugen.plan.lowering.reads import gathered_subscripts, indices_in, load_read, name_reads
from cugen.plan.lowering.reductions import reduce_values
from cugen.plan.memory import Array, Element
from cugen.plan.names import Names
from cugen.plan.nodes import Assign, Comparison, Define, Guard, If, Index, Let, Load, Node
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import NotAnInteger, to_guard
from cugen.plan.substitution import as_reduction
from cugen.plan.symbols import Integer, Range, bounds, integer
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
from cugen.spec.types import INT64


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
    loops: dict[tuple[str, Range], str] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    read_names: dict[Read, str] = field(default_factory=dict)
    subscripts: dict[Read, tuple[Integer, ...]] = field(default_factory=dict)  # elements that are subscripts
    depends: dict[sympy.Symbol, frozenset[str]] = field(default_factory=dict)
    _shared: dict[Expr, None] = field(default_factory=dict)  # mentioned at more than one place
    _given: dict[Expr, tuple[str, list[Scope]]] = field(default_factory=dict)  # names, and where they are declared

    def prepare(self, expressions: tuple[Expr, ...]) -> None:
        """Looks at all that will be lowered: it decides the names of loads, what is computed once, and what is known of
        elements that serve as subscripts."""
        self._shared = _mentioned_twice(expressions)
        self.read_names |= name_reads(expressions, self.arrays)
        self.subscripts = gathered_subscripts(expressions, self.arrays)

    def lower(self, expr: Expr, scope: Scope) -> Expr:
        """The value of `expr` over locals, with the nodes that it needs put into `scope` or the scopes round it."""
        known = scope.recall(expr)
        if known is not None:
            return known
        match expr:
            case Read():
                return load_read(self, expr, scope)
            case Op() if expr in self._shared:
                return self._once(expr, scope)
            case Op():
                return self._operation(expr, scope)
            case Cast():
                return replace(expr, arg=self.lower(expr.arg, scope))
            case Select():
                return self._select(expr, scope)
            case Reduce():
                return reduce_values(self, expr, scope)
            case Scan():
                return reduce_values(self, as_reduction(expr), scope)
            case IndexValue(name=name):
                return self.index_value(name)
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
        self.depends[index.symbol] = indices_in(self, definition)
        scope.nodes.append(Define(index))
        return index.symbol

    def name_for(self, expr: Expr, wish: str, home: Scope) -> str:
        """A name for what is computed in `home`; the same values in blocks side by side share theirs."""
        name, declared = self._given.get(expr, ("", []))
        if not name or any(home in other.ancestors() or other in home.ancestors() for other in declared):
            name, declared = self.names.allocate(wish), []
        self._given[expr] = (name, [*declared, home])
        return name

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

    def index_value(self, name: str) -> Expr:
        value = self.symbols[name]
        if not value.is_Symbol:
            raise NotAnInteger(f"index without a name: {value}")
        return Local(value.name, INT64)

    def _operation(self, op: Op, scope: Scope) -> Expr:
        match op:
            case Op(name="pow", args=(base, Const(value=2 | 3 as exponent))) if op.dtype.is_float:
                factor = self._named(base, scope)
                product = Op("mul", (factor, factor), op.dtype)
                return product if exponent == 2 else Op("mul", (product, factor), op.dtype)
        return replace(op, args=tuple(self.lower(arg, scope) for arg in op.args))

    def _named(self, expr: Expr, scope: Scope) -> Local:
        """The value under a name, so that it can be mentioned again."""
        home = scope.home(free_indices(expr))
        value = self.lower(expr, home)
        if isinstance(value, Local):
            return value
        local = Local(self.name_for(expr, _value_name(expr), home), value.dtype)
        home.nodes.append(Let(local, value))
        home.remember(expr, local)
        return local

    def _once(self, op: Op, scope: Scope) -> Expr:
        """A named value for what the statement mentions more than once."""
        home = scope.home(free_indices(op))
        value = self._operation(op, home)
        local = Local(self.name_for(op, _value_name(op), home), op.dtype)
        home.nodes.append(Let(local, value))
        home.remember(op, local)
        return local

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
        local = Local(self.name_for(select, "chosen", home), select.dtype)
        home.nodes.append(Let(local, None, mutable=True))
        branches = (_assigning(local, then.nodes, then_value), _assigning(local, orelse.nodes, else_value))
        home.nodes.append(If(guard if guard is not None else condition, *branches))
        home.remember(select, local)
        return local


def _assigning(local: Local, nodes: list[Node], value: Expr) -> tuple[Node, ...]:
    """The nodes, and the assignment of their value; an element that is only loaded for it needs no name."""
    match nodes:
        case [Load(local=loaded, access=access, guard=None)] if loaded == value:
            return (Assign(local, Element.of(access)),)
    return (*nodes, Assign(local, value))


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


def _value_name(expr: Expr) -> str:
    match expr:
        case Op(name="div", args=(Reduce(kind="sum"), _)):
            return "mean"
        case Op(name="add"):
            return "total"
        case Op(name=name):
            return {"sub": "difference", "mul": "product", "div": "quotient"}.get(name, f"{name}_value")
    return "value"
