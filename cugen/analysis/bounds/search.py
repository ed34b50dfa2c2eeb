"""The search for a proof that a form is nonnegative: intervals, one fact, intervals where facts hold, the prover, and
then the same in cases."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.analysis.bounds.facts import Known
from cugen.analysis.bounds.forms import Forms
from cugen.spec.prove.affine import AffineForm
from cugen.spec.prove.guards import Case
from cugen.spec.prove.nonnegative import is_provably_nonnegative

_MAX_PROOFS = 12  # heuristic: systems of facts that are tried for one goal


class Search:
    """Proofs about one kernel. `required`: the cases of what the spec requires of its params."""

    def __init__(self, forms: Forms, required: Sequence[Case]) -> None:
        self._forms, self._required = forms, required
        self._left = 0
        self._known: dict[tuple[AffineForm, Known], bool] = {}

    def holds(self, goal: AffineForm, known: Known) -> bool:
        """Whether a form is provably nonnegative where all of this is known."""
        low, _ = self._forms.interval(goal)
        if low is not None and low >= 0:
            return True
        disjuncts = (case for disjunction in known.disjunctions for case in disjunction)
        goal = self._forms.relaxed(goal, [*known.facts, *(fact for case in disjuncts for fact in case)])
        self._left = _MAX_PROOFS
        return all(self._follows(goal, Known((*known.facts, *case), known.disjunctions)) for case in self._required)

    def _follows(self, goal: AffineForm, known: Known) -> bool:
        if any(self._is_implied_by(fact, goal) for fact in known.facts):
            return True
        lowest = self._forms.lowest(goal, known.facts)
        if lowest is not None and lowest >= 0:
            return True
        if (goal, known) not in self._known:
            if self._left <= 0:
                return False
            self._left -= 1
            self._known[goal, known] = self._is_derived(goal, known.facts) or self._in_cases(goal, known)
        return self._known[goal, known]

    def _is_implied_by(self, fact: AffineForm, goal: AffineForm) -> bool:
        low, _ = self._forms.interval(goal - fact)
        return low is not None and low >= 0

    def _is_derived(self, goal: AffineForm, facts: Case) -> bool:
        axioms = self._forms.axioms((goal, *facts))
        return is_provably_nonnegative(goal, (*facts, *axioms), self._forms.params)

    def _in_cases(self, goal: AffineForm, known: Known) -> bool:
        """Splits by the first extremum or choice that the goal depends on, or else by the innermost disjunction."""
        for variable, cases in self._forms.cases((goal,)).items():
            if variable not in known.split:
                return all(self._follows(goal, known.chosen(variable, case)) for case in cases)
        *outer, innermost = known.disjunctions or ((),)
        return bool(known.disjunctions) and all(
            self._follows(goal, Known((*known.facts, *case), tuple(outer), known.split)) for case in innermost
        )
