"""In which order candidates are tried."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from cugen.tune.space import Candidate, Feature


class Strategy(Protocol):
    """Is asked for candidates, several ahead, and told what came of each, in any order."""

    def ask(self) -> Candidate | None:
        """One that wasn't asked for before; None where there are no more."""
        ...

    def tell(self, candidate: Candidate, time: float | None) -> None:
        """Its microseconds, or None where it can't be timed or was wrong."""
        ...


class InOrder:
    """All of them, as they stand."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._waiting = iter(candidates)

    def ask(self) -> Candidate | None:
        return next(self._waiting, None)

    def tell(self, candidate: Candidate, time: float | None) -> None: ...


class NearTheFastest:
    """Alternates between exploration (the next candidate in order) and exploitation (the one that shares the most
    features with the fastest so far). Before the first time is known, the first candidate counts as the fastest."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._waiting = {candidate: frozenset(candidate.features) for candidate in candidates}
        self._features = dict(self._waiting)
        best_guess = next(iter(self._waiting.values()), frozenset[Feature]())
        self._fastest = math.inf, best_guess
        self._is_near = False

    def ask(self) -> Candidate | None:
        if not self._waiting:
            return None
        candidate = next(iter(self._waiting))
        if self._is_near:
            wanted = self._fastest[1]
            candidate = min(self._waiting, key=lambda waiting: len(self._waiting[waiting] ^ wanted))
        self._is_near = not self._is_near
        del self._waiting[candidate]
        return candidate

    def tell(self, candidate: Candidate, time: float | None) -> None:
        if time is not None and candidate in self._features and time < self._fastest[0]:
            self._fastest = time, self._features[candidate]


def _exhaustive(candidates: Sequence[Candidate], seed: int) -> Strategy:
    return InOrder(candidates)


def _random(candidates: Sequence[Candidate], seed: int) -> Strategy:
    return InOrder(random.Random(seed).sample(candidates, len(candidates)))


def _near(candidates: Sequence[Candidate], seed: int) -> Strategy:
    return NearTheFastest(candidates)


def _model(candidates: Sequence[Candidate], seed: int) -> Strategy:
    from cugen.tune.model_guided import ModelGuided

    return ModelGuided(candidates, seed)


STRATEGIES: dict[str, Callable[[Sequence[Candidate], int], Strategy]] = {
    "exhaustive": _exhaustive,
    "near": _near,
    "random": _random,
    "model": _model,
}
