"""Lowering of typed expressions to nodes: reads become named loads, reductions loops with accumulators.

Loads and reductions are hoisted to the outermost scope where they are invariant and safe to run, and
common subexpressions are computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import sympy

from cugen.plan.lowering.fields import FieldVector, FindVectors
from cugen.plan.lowering.reads import gathered_subscripts, indices_in, load_read, name_reads
from cugen.plan.lowering.reductions import reduce_values
from cugen.plan.lowering.samples import load_sample
from cugen.plan.memory import Array, Element, IndexLocal
from cugen.plan.names import Names
from cugen.plan.nodes import Assign, Comparison, Define, Guard, If, Index, Let, Load, Node
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import NotAnInteger, to_guard, to_integer
from cugen.plan.symbols import Integer, Range, bounds, integer
from cugen.plan.traversal.substitution import as_reduction
from cugen.spec.expressions import (
    COSTLY_OPERATIONS,
    MAX_MULTIPLIED_POWER,
    Cast,
    Const,
    Expr,
    IndexValue,
    Local,
    Op,
    Read,
    Reduce,
    Sample,
    Scan,
    Select,
    children,
    free_indices,
    walk,
)
from cugen.spec.floats.powers import Power, literal_power
from cugen.spec.floats.signs import is_nonnegative
from cugen.spec.types import BOOL, FLOAT32, FLOAT64, INT64, DType

_MULTIPLIED_POWERS = range(2, MAX_MULTIPLIED_POWER + 1)


@dataclass
class Lowering:
    """The state of one kernel under construction.

    `symbols` maps the spec's indices and params to integer expressions, `arrays` its arrays to their form in this
    kernel, `ranges` every symbol to its value range. `filled` has the extents of all outputs, at least 1 where a kernel
    computes an element.
    """

    names: Names
    arrays: Mapping[str, Array]
    symbols: dict[str, Integer]
    ranges: dict[sympy.Symbol, Range]
    limits: dict[sympy.Symbol, Integer] = field(default_factory=dict)  # exclusive upper bounds of indices
    unroll: int = 0  # reductions of at most this many trips are unrolled
    plain_terms: int | None = None  # sums in float32 of more terms are compensated; None: none are
    loops: dict[tuple[str, Range], str] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    read_names: dict[Read, str] = field(default_factory=dict)
    subscripts: dict[Expr, tuple[Integer, ...]] = field(default_factory=dict)  # gathered subscripts
    depends: dict[sympy.Symbol, frozenset[str]] = field(default_factory=dict)
    filled: tuple[Integer, ...] = ()
    vectors_of: FindVectors | None = None
    field_vectors: Mapping[Read, FieldVector] = field(default_factory=dict)
    companions: dict[Reduce, tuple[Reduce, ...]] = field(default_factory=dict)  # reductions that share a loop
    _shared: dict[Expr, None] = field(default_factory=dict)  # common subexpressions
    _certain: frozenset[Expr] = frozenset()  # of these, those that are evaluated under every condition
    _names_by_value: dict[Expr, tuple[str, list[Scope]]] = field(
        default_factory=dict
    )  # names and the scopes that declare them

    def branch(self) -> Lowering:
        """A lowering for a C++ block, to which its names and symbols are local."""
        names, symbols = Names(self.names), dict(self.symbols)
        return Lowering(
            names, self.arrays, symbols, self.ranges, self.limits, filled=self.filled, vectors_of=self.vectors_of
        )

    def prepare(self, expressions: tuple[Expr, ...]) -> None:
        """Analyses all expressions that will be lowered: names of loads, fields that one load serves, common
        subexpressions, gathered subscripts."""
        self._shared = _common_subexpressions(expressions)
        self._certain = frozenset(node for expr in expressions for node in _evaluated(expr) if node in self._shared)
        self.companions = {r: group for expr in expressions for group in _companions(expr) for r in group}
        self.read_names |= name_reads(expressions, self.arrays)
        self.subscripts = gathered_subscripts(expressions, self.arrays)
        if self.vectors_of is not None:
            reads = (node for expr in expressions for node in walk(expr) if isinstance(node, Read))
            self.field_vectors = self.vectors_of(tuple(dict.fromkeys(reads)), self.arrays)

    def lower(self, expr: Expr, scope: Scope) -> Expr:
        """The value of `expr` over locals; the nodes that it needs are added to `scope` or its parents."""
        known = scope.recall(expr)
        if known is not None:
            return known
        match expr:
            case Read():
                return load_read(self, expr, scope)
            case Sample():
                return load_sample(self, expr, scope)
            case Op() if expr in self._shared or _is_costly_invariant(expr, scope):
                return self._once(expr, scope)
            case Op():
                return self._operation(expr, scope)
            case Cast():
                return replace(expr, arg=self.lower(expr.arg, scope))
            case Select() if expr in self._shared:
                return self._shared_select(expr, scope)
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
        """The condition as a guard over indices, without redundant terms; None if it depends on data."""
        guard = to_guard(condition, self.symbols)
        return None if guard is None else self.needed(guard)

    def needed(self, guard: Guard) -> Guard:
        """The guard without terms that the index ranges prove."""
        return Guard(tuple(term for term in guard.terms if not self._holds(term)))

    def inside(self, subscripts: tuple[Integer, ...], shape: tuple[Integer, ...]) -> Guard:
        """The bounds check of an access, without comparisons that the index ranges prove."""
        terms: list[Comparison] = []
        for subscript, extent in zip(subscripts, shape, strict=True):
            terms.append(Comparison(subscript, ">=", integer(0)))
            terms.append(Comparison(subscript, "<", extent))
        return self.needed(Guard(tuple(terms)))

    def define(self, name_hint: str, definition: Integer, scope: Scope) -> Integer:
        """Defines a named index with this value in `scope`."""
        index = Index(self.names.allocate(name_hint), definition, bounds(definition, self.ranges))
        self.ranges[index.symbol] = index.range
        self.depends[index.symbol] = indices_in(self, definition)
        scope.nodes.append(Define(index))
        return index.symbol

    def name_for(self, expr: Expr, name_hint: str, home: Scope) -> str:
        """A name for a value computed in `home`; equal values in disjoint scopes share it."""
        name, declared = self._names_by_value.get(expr, ("", []))
        if not name or any(home in scope.ancestors() or scope in home.ancestors() for scope in declared):
            name, declared = self.names.allocate(name_hint), []
        self._names_by_value[expr] = (name, [*declared, home])
        return name

    def _moved(self, name: str, branch: Scope, home: Scope) -> str:
        """The name of a value that is declared in `home` in place of its branch: another one where `home` has it."""
        for expr, (known, declared) in self._names_by_value.items():
            if known == name and branch in declared:
                others = [scope for scope in declared if scope is not branch]
                if any(home in scope.ancestors() or scope in home.ancestors() for scope in others):
                    self._names_by_value[expr] = name, others
                    return self.names.allocate(name)
                self._names_by_value[expr] = name, [*others, home]
                break
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
        """Whether `left < right` is provable from ranges and the bounds of indices."""
        difference = left - right
        if bounds(difference, self.ranges)[1] < 0:
            return True
        for name in sorted(difference.free_symbols & self.limits.keys(), key=str):
            coefficient = difference.coeff(name)
            others = difference - coefficient * name
            if coefficient.is_positive and name not in others.free_symbols:  # in a quotient it may count against itself
                difference = others + coefficient * (self.limits[name] - 1)
        return bounds(difference, self.ranges)[1] < 0

    def index_value(self, name: str) -> Expr:
        value = self.symbols[name]
        if not value.is_Symbol:
            raise NotAnInteger(f"index without a name: {value}")
        return IndexLocal(value.name, INT64)

    def _operation(self, op: Op, scope: Scope) -> Expr:
        match op:
            case Op(name="pow", args=(base, exponent)) if (number := _literal(exponent)) is not None:
                if number == 0 and isinstance(exponent, Cast):
                    return Const(1, op.dtype)
                if number == 1 and isinstance(exponent, Cast):
                    return self.lower(base, scope)
                if number in _MULTIPLIED_POWERS:
                    return self._power(base, int(number), op.dtype, scope)
                power = literal_power(number) if op.dtype in (FLOAT32, FLOAT64) else None
                if power is not None:
                    return self._float_power(base, power, op.dtype, scope)
        return replace(op, args=tuple(self.lower(arg, scope) for arg in op.args))

    def _power(self, base: Expr, exponent: int, dtype: DType, scope: Scope) -> Expr:
        """A power by squaring."""
        if exponent % 2:
            factor = self.named(base, scope)
            return Op("mul", (self._power(base, exponent - 1, dtype, scope), factor), dtype)
        root = base if exponent == 2 else Op("pow", (base, Const(exponent // 2, dtype)), dtype)
        factor = self.named(root, scope)
        return Op("mul", (factor, factor), dtype)

    def _float_power(self, base: Expr, power: Power, dtype: DType, scope: Scope) -> Expr:
        """A power with a root, or of the reciprocal: factors that are all on one side of 1.

        The exponent 1/2 is a square root of -0 and -inf as well, as NumPy has it."""
        if not power.whole and not power.is_inverse:
            return Op("sqrt", (self.lower(base, scope),), dtype)
        factors: list[Expr] = []
        if power.has_root:
            self.named(base, scope)
            base = _root_operand(base, dtype)
        operand = self.named(base, scope, "base")
        if power.whole:
            factor = Op("div", (Const(1.0, dtype), base), dtype) if power.is_inverse else base
            value = self.named(factor, scope, "inverse" if power.is_inverse else "base")
            factors.append(self._power(factor, power.whole, dtype, scope) if power.whole > 1 else value)
        if power.has_root:
            factors.append(Op("rsqrt" if power.is_inverse else "sqrt", (operand,), dtype))
        return factors[0] if len(factors) == 1 else Op("mul", tuple(factors), dtype)

    def named(self, expr: Expr, scope: Scope, name_hint: str = "") -> Local:
        """The value in a local, so that it can be used repeatedly."""
        home = scope.home(free_indices(expr))
        value = self.lower(expr, home)
        if isinstance(value, Local):
            return value
        local = Local(self.name_for(expr, name_hint or _value_name(expr), home), value.dtype)
        home.nodes.append(Let(local, value))
        home.remember(expr, local)
        return local

    def _once(self, op: Op, scope: Scope) -> Expr:
        """A common subexpression in a local."""
        home = scope.home(free_indices(op))
        value = self._operation(op, home)
        local = Local(self.name_for(op, _value_name(op), home), op.dtype)
        home.nodes.append(Let(local, value))
        home.remember(op, local)
        return local

    def _shared_select(self, select: Select, scope: Scope) -> Expr:
        """A common choice between values in a local."""
        home = scope.home(free_indices(select))
        value = self._select(select, home)
        if isinstance(value, Local | Const):
            return value
        local = Local(self.name_for(select, "chosen", home), select.dtype)
        home.nodes.append(Let(local, value))
        home.remember(select, local)
        return local

    def _select(self, select: Select, scope: Scope) -> Expr:
        home = scope.home(free_indices(select))
        guard = self.guard(select.condition)
        if guard is not None and not guard.terms:
            return self.lower(select.then, scope)
        for expr in dict.fromkeys(node for branch in (select.then, select.orelse) for node in walk(branch)):
            if expr in self._certain:  # in a local that both the branch and the rest of the statement use
                self.lower(expr, home)
        condition = self.lower(select.condition, home)
        then, orelse = Scope(home, certain=False), Scope(home, certain=False)
        then_value, else_value = self.lower(select.then, then), self.lower(select.orelse, orelse)
        if not then.nodes and not orelse.nodes:
            return replace(select, condition=condition, then=then_value, orelse=else_value)
        if guard is not None and not orelse.nodes and len(then.nodes) == 1:
            (load,) = then.nodes
            if isinstance(load, Load) and load.guard is None and load.local == then_value:
                moved = Local(self._moved(load.local.name, then, home), load.local.dtype)
                home.nodes.append(replace(load, local=moved, guard=guard, otherwise=else_value))
                home.remember(select, moved)
                return moved
        local = Local(self.name_for(select, "chosen", home), select.dtype)
        home.nodes.append(Let(local, None, mutable=True))
        branches = (_assigning(local, then.nodes, then_value), _assigning(local, orelse.nodes, else_value))
        home.nodes.append(If(guard if guard is not None else condition, *branches))
        home.remember(select, local)
        return local


def _assigning(local: Local, nodes: list[Node], value: Expr) -> tuple[Node, ...]:
    """The nodes and the assignment of their value; a single load is assigned directly."""
    match nodes:
        case [Load(local=loaded, access=access, guard=None)] if loaded == value and not access.coordinates:
            return (Assign(local, Element.of(access)),)
    return (*nodes, Assign(local, value))


def _literal(exponent: Expr) -> float | None:
    """The value of a literal, or of a converted integer whose indices have values, as in the terms of a short sum."""
    match exponent:
        case Const(value=value):
            return value
        case Cast(arg=arg) if arg.dtype.is_integer:
            try:
                number = to_integer(arg, {})
            except NotAnInteger:
                return None
            return int(number) if number.is_Integer and abs(number) <= MAX_MULTIPLIED_POWER else None
    return None


def _common_subexpressions(expressions: tuple[Expr, ...]) -> dict[Expr, None]:
    """Operations on data that occur more than once; occurrences under equal parents count once."""
    counts: dict[Expr, int] = {}
    seen: dict[Expr, None] = {}
    pending = list(expressions)
    while pending:
        expr = pending.pop()
        counts[expr] = counts.get(expr, 0) + 1
        if expr not in seen:
            seen[expr] = None
            pending.extend(() if isinstance(expr, Read) else children(expr))
    return {
        expr: None
        for expr, count in counts.items()
        if count > 1
        and _is_computed_once(expr)
        and any(isinstance(n, Read | Sample | Reduce | Scan) for n in walk(expr))
    }


def _is_computed_once(expr: Expr) -> bool:
    """Whether an expression is worth a local: an operation, or a choice with a branch that calls a function, which
    compilers don't join."""
    if isinstance(expr, Select):
        branches = (node for branch in (expr.then, expr.orelse) for node in walk(branch))
        return any(_may_call(node) for node in branches)
    return isinstance(expr, Op)


def _may_call(expr: Expr) -> bool:
    return isinstance(expr, Op) and expr.name in COSTLY_OPERATIONS and expr.dtype.is_float


def _is_costly_invariant(op: Op, scope: Scope) -> bool:
    """Whether an operation that calls a function, or may, is invariant in a loop: compilers leave calls where they
    are, a division too, since it calls one for numbers near the limits."""
    if not _may_call(op) or not any(isinstance(n, Read) for n in walk(op)):
        return False
    return scope.home(free_indices(op)) is not scope


def _evaluated(expr: Expr) -> Iterator[Expr]:
    """The expressions that are evaluated whatever conditions hold, outside of reductions and scans."""
    yield expr
    match expr:
        case Read() | Reduce() | Scan():
            return
        case Select(condition=condition):
            yield from _evaluated(condition)
        case _:
            for child in children(expr):
                yield from _evaluated(child)


def _companions(expr: Expr) -> Iterator[tuple[Reduce, ...]]:
    """Reductions of one expression over the same indices and conditions whose terms have an operation in common, as the
    weights of a normalised sum: it is computed once for all of them."""
    reductions = dict.fromkeys(n for n in _evaluated(expr) if isinstance(n, Reduce) and not n.is_position)
    operations = {r: {node for node in walk(r.body) if isinstance(node, Op)} for r in reductions}
    while len(reductions) > 1:
        first, *others = reductions
        same_range = (r for r in others if (r.indices, r.where) == (first.indices, first.where))
        group = (first, *(r for r in same_range if operations[r] & operations[first]))
        if len(group) > 1:
            yield group
        reductions = {r: None for r in others if r not in group}


def _root_operand(base: Expr, dtype: DType) -> Expr:
    """The operand of a root among other factors: of -0 and -inf, 0 and inf; other numbers below 0 have no root."""
    operand = Op("add", (base, Const(0.0, dtype)), dtype)
    if is_nonnegative(base):
        return operand
    return Select(Op("eq", (base, Const(-inf, dtype)), BOOL), Const(inf, dtype), operand, dtype)


def _value_name(expr: Expr) -> str:
    match expr:
        case Op(name="div", args=(Reduce(kind="sum"), _)):
            return "mean"
        case Op(name="add"):
            return "total"
        case Op(name=name):
            return {"sub": "difference", "mul": "product", "div": "quotient", "pow": "power"}.get(name, f"{name}_value")
    return "value"
