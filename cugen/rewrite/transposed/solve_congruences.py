"""Reductions that run over the solutions of a congruence, in place of testing it for each term.

    y[i] = sum(x[(i + 1 - r) // 2] * w[r], r, where=(i + 1 - r) % 2 == 0)            w: [4]
becomes
    y[i] = sum(x[(i + 1) // 2 - r_outer] * w[(i + 1) % 2 + 2 * r_outer], r_outer)    r_outer < 2
The solutions of `a * r + b = 0 (mod m)` are an arithmetic progression with the step `m / gcd(a, m)`, visited in
order, and quotients by m are affine in their number. A transposed convolution, and the gradient of a strided one, visit
1 / m of the taps in each dimension then, without a division in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.canonical.conditions import both
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Select,
    bound_indices,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Param, Spec, Statement
from cugen.spec.prove.affine import (
    AffineForm,
    Atom,
    Quotient,
    Variable,
    affine_form,
    atom_form,
    expression_of,
    floor_quotient,
)
from cugen.spec.rewriting import rebuild, replaced
from cugen.spec.types import BOOL, INT64

_MAX_MODULUS = 1024  # whose remainders are tried one by one
_COMPARISONS = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
}


def with_solved_congruences(statement: Statement, spec: Spec) -> Statement:
    """The statement with reductions over the solutions of the congruences among their conditions; the same object if
    none is solved."""
    params = {param.name: param for param in spec.params}
    taken = taken_names(spec, (*statement.indices, *bound_indices(statement.value)))
    value = _Solver(params, taken).visit(statement.value)
    return statement if value == statement.value else replace(statement, value=value)


def divides_index(statement: Statement) -> bool:
    """Whether a quotient in a subscript depends on an index of a reduction."""
    bound = {index.name for index in bound_indices(statement.value)}
    subscripts = (sub for node in walk(statement.value) if isinstance(node, Read) for sub in node.subscripts)
    parts = (part for sub in subscripts for part in walk(sub))
    return any(isinstance(part, Op) and part.name == "floordiv" and bound & free_indices(part) for part in parts)


@dataclass(frozen=True, slots=True)
class _Congruence:
    """`form` is a multiple of `modulus`."""

    form: AffineForm
    modulus: int


@dataclass(frozen=True, slots=True)
class _Solutions:
    """The values `first + step * number` of an index for which the condition `source` holds, if `requirement` does."""

    source: Expr
    index: Index
    first: AffineForm  # before it is reduced modulo the step
    step: int
    requirement: _Congruence


class _Solver:
    """Solves the congruences of one statement."""

    def __init__(self, params: Mapping[str, Param], taken: set[str]) -> None:
        self._params, self._taken = params, taken
        self._solved: dict[Reduce, Reduce] = {}

    def visit(self, expr: Expr) -> Expr:
        expr = rebuild(expr, self.visit)
        if not isinstance(expr, Reduce) or expr.is_position:
            return expr
        if expr not in self._solved:  # one that an epilogue reads twice stays one
            self._solved[expr] = self._over_all_solutions(expr)
        return self._solved[expr]

    def _over_all_solutions(self, reduction: Reduce) -> Reduce:
        reduction = self._without_certain(reduction)
        while (solutions := next(self._solutions(reduction), None)) is not None:
            reduction = self._over_solutions(reduction, solutions)
        return reduction

    def _solutions(self, reduction: Reduce) -> Iterator[_Solutions]:
        for condition in _necessary_conditions(reduction):
            congruence = self._congruence(condition)
            if congruence is None or any(isinstance(node, Read) for node in walk(condition)):
                continue
            bound_here = [index for index in reduction.indices if index.name in free_indices(condition)]
            if len(bound_here) == 1 and (solutions := _solved(condition, congruence, bound_here[0])) is not None:
                yield solutions

    def _congruence(self, condition: Expr) -> _Congruence | None:
        """A comparison that holds for one remainder only, such as `e % m == 0` and `m * (e // m) == e`."""
        match condition:
            case Op(name=name, args=(left, right)) if _is_comparison(condition):
                difference = affine_form(left, self._params) - affine_form(right, self._params)
            case _:
                return None
        for atom, coefficient in difference.terms:
            if not isinstance(atom, Quotient) or not atom.divisor.is_constant:
                continue
            modulus, dividend = atom.divisor.constant, atom.dividend
            if coefficient % modulus or modulus > _MAX_MODULUS:
                continue
            # The difference is `scale * (dividend % modulus) + offset`.
            scale = -coefficient // modulus
            offset = difference - dividend.scaled(scale) - atom_form(atom, coefficient)
            if not offset.is_constant:
                continue
            holds = _COMPARISONS[name]
            remainders = [n for n in range(modulus) if holds(scale * n + offset.constant, 0)]
            if len(remainders) == 1:
                return _Congruence(dividend - remainders[0], modulus)
        return None

    def _over_solutions(self, reduction: Reduce, solutions: _Solutions) -> Reduce:
        old, step = solutions.index, solutions.step
        first = _reduced(solutions.first, step, self._params)
        new = self._numbered(old, solutions.first, step)
        number: Expr = IndexValue(new.name)
        if step > 1:
            number = Op("mul", (Const(step, INT64), number), INT64)
        value = number if first == Const(0, INT64) else Op("add", (first, number), INT64)
        where: Expr | None = None
        if solutions.requirement.modulus > 1:
            requirement = _reduced(solutions.requirement.form, solutions.requirement.modulus, self._params)
            where = Op("eq", (requirement, Const(0, INT64)), BOOL)
        if not self._is_whole(old.extent, solutions):
            is_inside = Op("lt", (value, old.extent), BOOL)
            where = is_inside if where is None else both(where, is_inside)

        def over_solutions(expr: Expr) -> Expr:
            known = replaced(expr, lambda part: _without(solutions.source, part))
            if solutions.requirement.modulus > 1:
                known = replaced(known, lambda part: self._with_multiple(part, solutions))
            return self._simplified(substitute(known, {old.name: value}), new.name)

        where = _conjunction(where, map(over_solutions, conjuncts(reduction.where)))
        indices = tuple(new if index == old else index for index in reduction.indices)
        return replace(reduction, body=over_solutions(reduction.body), where=where, indices=indices)

    def _with_multiple(self, part: Expr, solutions: _Solutions) -> Expr | None:
        """A quotient of `e + a * r` with `m * (e // m)` for e, where the solutions' condition says that m divides e."""
        if not isinstance(part, Op) or part.name != "floordiv" or not _is_integer(part):
            return None
        variable, requirement = Variable(solutions.index.name), solutions.requirement
        form = affine_form(part.args[0], self._params)
        coefficient = dict(form.terms).get(variable, 0)
        others = form - atom_form(variable, coefficient)
        difference = others - requirement.form
        if (
            coefficient == 0
            or any(c % requirement.modulus for _, c in difference.terms)
            or difference.constant % requirement.modulus
        ):
            return None
        multiple = floor_quotient(others, AffineForm((), requirement.modulus)).scaled(requirement.modulus)
        dividend = expression_of(multiple + atom_form(variable, coefficient), self._params)
        return replace(part, args=(dividend, part.args[1]))

    def _without_certain(self, reduction: Reduce) -> Reduce:
        """The reduction without conditions that always hold, and divisions by 1."""
        conditions = [self._simplified(condition) for condition in conjuncts(reduction.where)]
        return replace(reduction, where=_conjunction(None, conditions), body=self._simplified(reduction.body))

    def _numbered(self, old: Index, first: AffineForm, step: int) -> Index:
        """The index that counts the solutions below the old one's extent."""
        extent = affine_form(old.extent, self._params)
        if first.is_constant:
            extent = extent - first.constant % step
        if extent.is_constant:
            count: Expr = Const(max(-(-extent.constant // step), 0), INT64)
        else:
            count = expression_of(floor_quotient(extent + (step - 1), AffineForm((), step)), self._params)
        return old if step == 1 else Index(fresh(f"{old.name}_outer", self._taken), count)

    def _is_whole(self, extent: Expr, solutions: _Solutions) -> bool:
        """Whether each first solution has as many in the extent."""
        form, step = affine_form(extent, self._params), solutions.step
        return solutions.first.is_constant or floor_quotient(form, AffineForm((), step)).scaled(step) == form

    def _simplified(self, expr: Expr, name: str = "") -> Expr:
        """The expression with quotients from which the index `name` can be extracted, and decided conditions, replaced
        by what they are."""
        expr = rebuild(expr, lambda part: self._simplified(part, name))
        match expr:
            case Op(name="floordiv", args=(dividend, divisor)) if affine_form(divisor, self._params) == AffineForm(
                (), 1
            ):
                return dividend
            case Op(name="floordiv", dtype=dtype) if dtype == INT64 and name in free_indices(expr):
                form = affine_form(expr, self._params)
                is_extracted = not any(_depends(atom, name) for atom, _ in form.terms if atom != Variable(name))
                return expression_of(form, self._params) if is_extracted else expr
            case Op(name="mod", args=(dividend, Const(value=int(modulus)))) if name in free_indices(expr) and modulus:
                reduced = _reduced(affine_form(dividend, self._params), int(modulus), self._params)
                return expr if name in free_indices(reduced) else reduced
            case Op(name=comparison, args=(left, right)) if _is_comparison(expr):
                difference = affine_form(left, self._params) - affine_form(right, self._params)
                if difference.is_constant:
                    return Const(_COMPARISONS[comparison](difference.constant, 0), BOOL)
            case Op(name="and", args=(first, second)) if _TRUE in expr.args:
                return second if first == _TRUE else first
            case Select(condition=Const(value=value), then=then, orelse=orelse):
                return then if value else orelse
            case Read(exact=exact) if any(divisor == 1 for _, divisor in exact):
                return replace(expr, exact=tuple(pair for pair in exact if pair[1] > 1))
        return expr


_TRUE = Const(True, BOOL)


def _is_comparison(expr: Expr) -> bool:
    return isinstance(expr, Op) and expr.name in _COMPARISONS and _is_integer(expr)


def _is_integer(op: Op) -> bool:
    return all(arg.dtype == INT64 for arg in op.args)


def _without(source: Expr, expr: Expr) -> Expr | None:
    """The expression without a condition that holds; None where it is not a part."""
    if expr == source:
        return _TRUE
    if isinstance(expr, Read) and (exact := tuple(p for p in expr.exact if _is_exact(*p) != source)) != expr.exact:
        return replace(expr, exact=exact)
    return None


def _is_exact(dividend: Expr, divisor: int) -> Expr:
    """The condition that a division leaves no remainder."""
    return Op("eq", (Op("mod", (dividend, Const(divisor, INT64)), INT64), Const(0, INT64)), BOOL)


def _conjunction(first: Expr | None, others: Iterable[Expr]) -> Expr | None:
    """The conditions as one, without those that hold; None for none."""
    for condition in others:
        if condition != _TRUE:
            first = condition if first is None else both(first, condition)
    return first


def _necessary_conditions(reduction: Reduce) -> Iterator[Expr]:
    """Conditions without which a term doesn't count: those of the reduction, and those without which a factor of the
    terms of a sum is 0."""
    yield from conjuncts(reduction.where)
    if reduction.kind != "sum":
        return
    yield from _conditions_of_terms(reduction.body)


def _conditions_of_terms(body: Expr) -> Iterator[Expr]:
    """Conditions without which a term is 0: those of any factor, and of an addend those that the other one has, too."""
    match body:
        case Op(name="mul" | "neg", args=args):
            for arg in args:
                yield from _conditions_of_terms(arg)
        case Op(name="add" | "sub", args=(left, right)):
            others = set(_conditions_of_terms(right))
            yield from (condition for condition in _conditions_of_terms(left) if condition in others)
        case Cast(arg=arg):
            yield from _conditions_of_terms(arg)
        case Select(condition=condition, orelse=Const(value=value)) if value == 0:
            yield from conjuncts(condition)
        case Read(exact=exact, boundary=boundary) if boundary is not None and boundary.mode == "zero":
            yield from (_is_exact(dividend, divisor) for dividend, divisor in exact)


def _solved(source: Expr, congruence: _Congruence, index: Index) -> _Solutions | None:
    """The solutions for an index that the congruence is linear in."""
    form, modulus = congruence.form, congruence.modulus
    coefficient = dict(form.terms).get(Variable(index.name), 0) % modulus
    remaining = AffineForm(tuple(term for term in form.terms if term[0] != Variable(index.name)), form.constant)
    if any(_depends(atom, index.name) for atom, _ in remaining.terms):
        return None
    common = gcd(coefficient, modulus)
    step = modulus // common
    inverse = pow(coefficient // common, -1, step) if step > 1 else 0
    # The quotient is exact where the requirement holds.
    quotient = floor_quotient(remaining, AffineForm((), common))
    return _Solutions(source, index, quotient.scaled(-inverse), step, _Congruence(remaining, common))


def _reduced(form: AffineForm, modulus: int, params: Mapping[str, Param]) -> Expr:
    """The form modulo a number, with coefficients that are remainders."""
    terms = tuple((atom, c % modulus) for atom, c in form.terms if c % modulus)
    reduced = AffineForm(terms, form.constant % modulus)
    if reduced.is_constant:
        return Const(reduced.constant, INT64)
    return Op("mod", (expression_of(reduced, params), Const(modulus, INT64)), INT64)


def _depends(atom: Atom, name: str) -> bool:
    return name in free_indices(expression_of(atom_form(atom), {}))
