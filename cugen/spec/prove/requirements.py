"""What the requirements of a spec say of its params: launches that violate one are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.spec.model import Param, Requirement
from cugen.spec.prove.affine import AffineForm, Variable
from cugen.spec.prove.guards import Case, alternatives, conjunction
from cugen.spec.prove.nonnegative import is_provably_nonnegative


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The params with the ranges that requirements leave, and the facts that follow, as a disjunction of cases."""

    params: Mapping[str, Param]
    cases: tuple[Case, ...] = ((),)

    def implies(self, goal: AffineForm) -> bool:
        """Whether a form over params is provably nonnegative."""
        return all(is_provably_nonnegative(goal, case, self.params) for case in self.cases)


def assumed(require: Sequence[Requirement], params: Mapping[str, Param]) -> Assumptions:
    """What follows from the requirements that depend on dynamic params."""
    narrowed = _narrowed(_cases(require, params), params)  # first: a remainder says nothing of a divisor that may be 0
    return Assumptions(narrowed, _cases(require, narrowed))


def _cases(require: Iterable[Requirement], params: Mapping[str, Param]) -> tuple[Case, ...]:
    cases: list[Case] = [()]
    for requirement in require:
        more = alternatives(requirement.condition, True, params)
        cases = conjunction(cases, [tuple(fact for fact in case if not fact.is_constant) for case in more])
    return tuple(cases)


def _narrowed(cases: tuple[Case, ...], params: Mapping[str, Param]) -> Mapping[str, Param]:
    """The params with the bounds of the facts on a single one that hold in all cases."""
    narrowed = dict(params)
    for fact in cases[0] if len(cases) == 1 else ():
        ((atom, coefficient), *others) = fact.terms
        if others or not isinstance(atom, Variable):
            continue
        param = narrowed[atom.name]
        # c * x + d >= 0 is x >= -(d // c) for a positive c, else x <= d // -c.
        if coefficient > 0:
            bound = -(fact.constant // coefficient) * param.multiple_of
            narrowed[atom.name] = replace(param, minimum=max(param.minimum, bound))
        else:
            bound = fact.constant // -coefficient * param.multiple_of
            narrowed[atom.name] = replace(param, maximum=min(param.maximum, bound))
    return narrowed
