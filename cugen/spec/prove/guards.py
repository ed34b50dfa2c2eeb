"""What a condition says about indices, as facts for proofs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from cugen.spec.expressions import Const, Expr, Op, Select
from cugen.spec.model import Param
from cugen.spec.prove.linear import Form, linear_form

# A condition with more alternatives than this says nothing.
_MAX_CASES = 24
_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
Case = tuple[Form, ...]


def alternatives(condition: Expr, holds: bool, params: Mapping[str, Param]) -> list[Case]:
    """Cases of which at least one applies where the condition holds (or fails): in each, every form is at least 0.
    Parts that say nothing about indices give the case without facts."""
    return _Alternatives(params).of(condition, holds)


class _Alternatives:
    """Keeps what it found: a choice asks for both values of its test, which would double at each level of nesting."""

    def __init__(self, params: Mapping[str, Param]) -> None:
        self._params = params
        self._found: dict[tuple[int, bool], list[Case]] = {}

    def of(self, condition: Expr, holds: bool) -> list[Case]:
        key = (id(condition), holds)
        if key not in self._found:
            self._found[key] = self._cases(condition, holds)
        return self._found[key]

    def _cases(self, condition: Expr, holds: bool) -> list[Case]:
        match condition:
            case Const(value=value):
                return [()] if bool(value) == holds else []
            case Op(name="not", args=(arg,)):
                return self.of(arg, not holds)
            case Op(name="and" | "or" as name, args=(a, b)):
                left, right = self.of(a, holds), self.of(b, holds)
                return conjunction(left, right) if (name == "and") == holds else _capped([*left, *right])
            case Select(condition=test, then=then, orelse=orelse):
                yes = conjunction(self.of(test, True), self.of(then, holds))
                no = conjunction(self.of(test, False), self.of(orelse, holds))
                return _capped([*yes, *no])
            case Op(name=name, args=(a, b)) if name in _NEGATED and a.dtype.is_integer and b.dtype.is_integer:
                left_form, right_form = linear_form(a, self._params), linear_form(b, self._params)
                return _comparison(name if holds else _NEGATED[name], left_form, right_form)
            case _:
                return [()]


def _comparison(name: str, a: Form, b: Form) -> list[Case]:
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
    """Cases of both; where that would be too many, the left ones alone, which claim less."""
    if len(left) * len(right) > _MAX_CASES:
        return left
    return [a + b for a, b in product(left, right)]


def _capped(cases: list[Case]) -> list[Case]:
    return cases if len(cases) <= _MAX_CASES else [()]
