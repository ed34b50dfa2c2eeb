"""Conditions as facts (affine forms ≥ 0) in disjunctive normal form, for proofs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from cugen.spec.expressions import Const, Expr, Op, Select
from cugen.spec.model import Param
from cugen.spec.prove.affine import AffineForm, affine_form

# Disjuncts of a condition; beyond that it contributes no facts (bounds the time of a proof).
_MAX_CASES = 24
_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
Case = tuple[AffineForm, ...]


def alternatives(condition: Expr, holds: bool, params: Mapping[str, Param]) -> list[Case]:
    """The disjuncts of a condition (or of its negation); each is a conjunction of forms that are nonnegative.

    Parts that aren't affine comparisons contribute the case without facts."""
    return alternatives_by(condition, holds, lambda expr: affine_form(expr, params))


def alternatives_by(condition: Expr, holds: bool, form_of: Callable[[Expr], AffineForm | None]) -> list[Case]:
    """As `alternatives`, with the forms of integers that `form_of` knows."""
    return _Alternatives(form_of).visit(condition, holds)


class _Alternatives:
    """Memoised: a Select visits its test for both outcomes, which would be exponential in the nesting depth."""

    def __init__(self, form_of: Callable[[Expr], AffineForm | None]) -> None:
        self._form_of = form_of
        self._cases_of: dict[tuple[int, bool], list[Case]] = {}

    def visit(self, condition: Expr, holds: bool) -> list[Case]:
        key = (id(condition), holds)
        if key not in self._cases_of:
            self._cases_of[key] = self._cases(condition, holds)
        return self._cases_of[key]

    def _cases(self, condition: Expr, holds: bool) -> list[Case]:
        match condition:
            case Const(value=value):
                return [()] if bool(value) == holds else []
            case Op(name="not", args=(arg,)):
                return self.visit(arg, not holds)
            case Op(name="and" | "or" as name, args=(a, b)):
                left, right = self.visit(a, holds), self.visit(b, holds)
                return conjunction(left, right) if (name == "and") == holds else _capped([*left, *right])
            case Select(condition=test, then=then, orelse=orelse):
                yes = conjunction(self.visit(test, True), self.visit(then, holds))
                no = conjunction(self.visit(test, False), self.visit(orelse, holds))
                return _capped([*yes, *no])
            case Op(name=name, args=(a, b)) if name in _NEGATED and a.dtype.is_integer and b.dtype.is_integer:
                left_form, right_form = self._form_of(a), self._form_of(b)
                if left_form is None or right_form is None:
                    return [()]
                return comparison(name if holds else _NEGATED[name], left_form, right_form)
            case _:
                return [()]


def comparison(name: str, a: AffineForm, b: AffineForm) -> list[Case]:
    """The disjuncts of `a` compared with `b` by an operator of the language."""
    match name:
        case "le":
            return [(b - a,)]
        case "lt":
            return [(b - a - 1,)]
        case "ge":
            return [(a - b,)]
        case "gt":
            return [(a - b - 1,)]
        case "eq":
            return [(a - b, b - a)]
        case _:
            return [(b - a - 1,), (a - b - 1,)]


def conjunction(left: list[Case], right: list[Case]) -> list[Case]:
    """The cases of a conjunction; beyond the limit only the left ones, which is weaker but sound."""
    if len(left) * len(right) > _MAX_CASES:
        return left
    return [a + b for a, b in product(left, right)]


def _capped(cases: list[Case]) -> list[Case]:
    return cases if len(cases) <= _MAX_CASES else [()]
