"""What becomes of a candidate before it reaches a GPU."""

from __future__ import annotations

import pytest

from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune.timing.prepare import Dropped, EarlierCandidates, Prepared, prepare

SUM = """\
cugen: 1
kernel: total
params: {M: 4096, N: 4096}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = sum(x[i, j], j)
"""
TRANSPOSE = """\
cugen: 1
kernel: turned
params: {M: 1024, N: 1024}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [N, M], dtype: float32}
compute: y[j, i] = x[i, j]
check: {sectors: 1}
"""


def spec_of(text: str) -> Spec:
    (spec,) = load_text(text)
    return spec


def prepared(
    text: str, family: str | None = None, earlier: EarlierCandidates | None = None, **tunables: int
) -> Prepared | Dropped:
    spec = spec_of(text)
    chosen = (
        () if family is None else ((spec.statements[0].target, Schedule(family, tunables=tuple(tunables.items()))),)
    )
    return prepare(spec, chosen, "sm_90", {}, earlier)


def reason(prepared_code: Prepared | Dropped) -> str:
    assert isinstance(prepared_code, Dropped)
    return prepared_code.reason


def test_code_that_was_met_is_not_compiled_again() -> None:
    first = prepared(SUM)
    assert isinstance(first, Prepared)
    again = prepared(SUM, "reduce", EarlierCandidates(frozenset([first.digest])))
    assert reason(again) == "it has the same code as an earlier candidate"


def test_equal_code_of_specs_with_other_names_has_one_digest() -> None:
    first_code, second_code = (
        prepare(spec_of(SUM), (), "sm_90", {}),
        prepare(load_text(SUM, file="other.yaml")[0], (), "sm_90", {}),
    )
    assert isinstance(first_code, Prepared)
    assert isinstance(second_code, Prepared)
    assert first_code.digest == second_code.digest
    assert first_code.source != second_code.source


def test_what_a_family_refuses_says_why() -> None:
    assert "threads may be" in reason(prepared(SUM, "reduce", threads=3))


def test_what_the_analysis_expects_to_be_slow_is_not_compiled() -> None:
    fast = prepared(SUM)
    assert isinstance(fast, Prepared)
    assert fast.cost is not None
    slow = prepared(SUM, "direct", EarlierCandidates(minimum_cost=fast.cost))
    assert "times the cost of an earlier candidate" in reason(slow)


@pytest.mark.parametrize(("limit", "is_dropped"), [("check: {sectors: 1}", True), ("check: {sectors: 40}", False)])
def test_candidates_that_exceed_a_limit_of_the_spec_are_dropped(limit: str, is_dropped: bool) -> None:
    prepared_code = prepared(TRANSPOSE.replace("check: {sectors: 1}", limit), "direct")
    assert isinstance(prepared_code, Dropped) is is_dropped
    if is_dropped:
        assert "sectors per warp" in reason(prepared_code)
    assert isinstance(prepared(TRANSPOSE), Prepared)
