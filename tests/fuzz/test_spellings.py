"""A statement is planned as well in one spelling as in another that means the same."""

from __future__ import annotations

from random import Random

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.tune.timing.prepare import modelled_seconds

from .spellings import spellings
from .spelt_operators import OPERATORS

TOLERANCE = 1.05  # ratio of modelled times that count as equal
SEED = 5
SAMPLED = 1  # operators in the quick tests: a second


def plans(name: str) -> dict[str, tuple[tuple[str, ...], float | None]]:
    """The families of an operator's launches and their modelled seconds, by spelling."""
    found = {}
    for spelling, text in spellings(*OPERATORS[name]).items():
        (spec,) = load_text(text)
        kernel = generate(spec, analysis=False)
        families = tuple(launch.family for launch in kernel.plan.kernels)
        found[spelling] = (families, modelled_seconds(kernel, {}))
    return found


def differently_planned(name: str) -> dict[str, tuple[tuple[str, ...], float | None]]:
    """The spellings with other families than the first one, or another time."""
    found = plans(name)
    families, seconds = found["written"]

    def is_equal(plan: tuple[tuple[str, ...], float | None]) -> bool:
        if seconds is None or plan[1] is None:
            return plan == (families, seconds)
        return plan[0] == families and max(plan[1], seconds) <= TOLERANCE * min(plan[1], seconds)

    different = {spelling: plan for spelling, plan in found.items() if not is_equal(plan)}
    return {"written": found["written"], **different} if different else {}


def test_there_are_fifty_operators_in_five_spellings():
    assert len(OPERATORS) >= 50
    assert all(len(set(spellings(*bodies).values())) >= 5 for bodies in OPERATORS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(Random(SEED).sample(sorted(OPERATORS), SAMPLED)))
def test_some_operators_are_planned_alike_in_all_spellings(name):
    assert differently_planned(name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_planned_alike_in_all_spellings(name):
    assert differently_planned(name) == {}
