"""Strategies propose every candidate once; the model finds what is good sooner than chance does."""

from __future__ import annotations

import sys
from itertools import product

import pytest

from cugen.spec.model import Schedule
from cugen.toolchain.errors import ToolMissing
from cugen.tune.space import Candidate
from cugen.tune.strategies import STRATEGIES

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
SPACE = tuple(
    Candidate(number, (("y", Schedule("made up", tunables=(("a", a), ("b", b), ("how", how)))),))
    for number, (a, b, how) in enumerate(product(SIZES, SIZES, ("left", "right", "both")), 1)
)


def time_of(candidate: Candidate) -> float:
    """A valley at a = 32, b = 4."""
    tunables = dict(candidate.schedules[0][1].tunables)
    away = abs(SIZES.index(int(tunables["a"])) - 5) + abs(SIZES.index(int(tunables["b"])) - 2)
    return 10.0 + away + (tunables["how"] != "right") * 2


def tried(strategy: str, count: int, seed: int = 0) -> list[Candidate]:
    search = STRATEGIES[strategy](SPACE, seed)
    trials = []
    while len(trials) < count and (candidate := search.ask()) is not None:
        trials.append(candidate)
        search.tell(candidate, None if len(trials) % 7 == 0 else time_of(candidate))
    return trials


@pytest.mark.parametrize("strategy", ["exhaustive", "near", "random"])
def test_every_candidate_is_proposed_once(strategy: str) -> None:
    trials = tried(strategy, len(SPACE) + 1)
    assert sorted(trials, key=lambda c: c.number) == list(SPACE)


def test_exhaustive_keeps_the_order_and_random_follows_its_seed() -> None:
    assert tried("exhaustive", 5) == list(SPACE[:5])
    assert tried("random", 9) == tried("random", 9)
    assert tried("random", 9) != tried("random", 9, seed=1)


def test_near_alternates_the_next_and_what_is_like_the_fastest() -> None:
    trials = tried("near", 24)
    assert trials[0] == SPACE[0]
    for position in range(3, 23, 2):
        fastest = min((c for number, c in enumerate(trials[:position], 1) if number % 7), key=time_of)
        left = [c for c in SPACE if c not in trials[:position]]
        distances = [len(set(c.features) ^ set(fastest.features)) for c in left]
        assert trials[position] == left[distances.index(min(distances))]


def test_near_finds_the_valley_sooner_than_the_order_does() -> None:
    assert min(map(time_of, tried("near", 64))) < min(map(time_of, tried("exhaustive", 64)))


def test_the_model_finds_the_valley() -> None:
    trials = tried("model", 64)
    assert len(set(trials)) == 64
    assert min(map(time_of, trials)) <= 11
    assert trials == tried("model", 64)


@pytest.mark.slow
def test_the_model_proposes_every_candidate_once() -> None:
    assert len(set(tried("model", len(SPACE) + 1))) == len(SPACE)


def test_without_its_library_the_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolMissing, match=r"cugen\[tune\]"):
        STRATEGIES["model"](SPACE, 0)
