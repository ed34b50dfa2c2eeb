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
    found = dict(candidate.schedules[0][1].tunables)
    away = abs(SIZES.index(int(found["a"])) - 5) + abs(SIZES.index(int(found["b"])) - 2)
    return 10.0 + away + (found["how"] != "right") * 2


def tried(strategy: str, count: int, seed: int = 0) -> list[Candidate]:
    search = STRATEGIES[strategy](SPACE, seed)
    found = []
    while len(found) < count and (candidate := search.ask()) is not None:
        found.append(candidate)
        search.tell(candidate, None if len(found) % 7 == 0 else time_of(candidate))
    return found


@pytest.mark.parametrize("strategy", ["exhaustive", "near", "random"])
def test_every_candidate_is_proposed_once(strategy: str) -> None:
    found = tried(strategy, len(SPACE) + 1)
    assert sorted(found, key=lambda c: c.number) == list(SPACE)


def test_exhaustive_keeps_the_order_and_random_follows_its_seed() -> None:
    assert tried("exhaustive", 5) == list(SPACE[:5])
    assert tried("random", 9) == tried("random", 9)
    assert tried("random", 9) != tried("random", 9, seed=1)


def test_near_takes_by_turns_the_next_and_what_is_like_the_fastest() -> None:
    found = tried("near", 24)
    assert found[0] == SPACE[0]
    for place in range(3, 23, 2):
        fastest = min((c for number, c in enumerate(found[:place], 1) if number % 7), key=time_of)
        left = [c for c in SPACE if c not in found[:place]]
        apart = [len(set(c.features) ^ set(fastest.features)) for c in left]
        assert found[place] == left[apart.index(min(apart))]


def test_near_finds_the_valley_sooner_than_the_order_does() -> None:
    assert min(map(time_of, tried("near", 64))) < min(map(time_of, tried("exhaustive", 64)))


def test_the_model_finds_the_valley() -> None:
    found = tried("model", 64)
    assert len(set(found)) == 64
    assert min(map(time_of, found)) <= 11
    assert found == tried("model", 64)


@pytest.mark.slow
def test_the_model_proposes_every_candidate_once() -> None:
    assert len(set(tried("model", len(SPACE) + 1))) == len(SPACE)


def test_without_its_library_the_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolMissing, match=r"cugen\[tune\]"):
        STRATEGIES["model"](SPACE, 0)
