"""Of the slow cases of a test CI runs few, and of each of its parameters all values."""

from __future__ import annotations

from itertools import product

from tests.ci_cases import CASES, MAX_VALUES, Values, chosen


def cases_of(**parameters: int) -> list[Values]:
    """All combinations of values that are numbered."""
    combinations = product(*(range(count) for count in parameters.values()))
    return [frozenset(zip(parameters, values, strict=True)) for values in combinations]


def test_few_cases_all_run() -> None:
    assert set(chosen(cases_of(size=CASES))) == set(range(CASES))
    assert set(chosen(cases_of(size=MAX_VALUES))) == set(range(MAX_VALUES))
    assert set(chosen([frozenset()])) == {0}
    assert set(chosen([])) == set()


def test_each_value_of_each_parameter_has_a_case() -> None:
    cases = cases_of(dtype=5, layout=3, size=7, target=2)
    run = chosen(cases)
    assert frozenset().union(*(cases[number] for number in run)) == frozenset().union(*cases)
    assert len(run) == 7


def test_by_default_no_more_run_than_the_values_need() -> None:
    cases = cases_of(dtype=3, layout=2)
    run = chosen(cases, minimum=1)
    assert len(run) == 3
    assert frozenset().union(*(cases[number] for number in run)) == frozenset().union(*cases)
    assert len(chosen(cases_of(kernel=100), minimum=1)) == 1


def test_of_a_long_list_some_run_which_are_spread_evenly() -> None:
    run = sorted(chosen(cases_of(kernel=100)))
    assert len(run) == CASES
    steps = [after - before for before, after in zip(run, [*run[1:], 100 + run[0]], strict=True)]
    assert min(steps) > 10


def test_what_runs_anyway_need_not_run_again() -> None:
    cases = cases_of(dtype=8, layout=2)
    assert len(chosen(cases)) == 8
    assert len(chosen(cases, cases[::3])) == CASES
