"""Search strategies: the order in which candidates are timed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from cugen.tune.space import Candidate, Feature


class Strategy(Protocol):
    """Source of candidates. Several are requested ahead; results are reported in any order. `is_adaptive`: what comes
    next depends on the results."""

    is_adaptive: bool

    def ask(self) -> Candidate | None:
        """The next candidate; None if all were returned."""
        ...

    def tell(self, candidate: Candidate, time: float | None) -> None:
        """Reports a time in microseconds, or None for a candidate that failed."""
        ...


class InOrder:
    """All candidates, in the given order."""

    is_adaptive = False

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._waiting = iter(candidates)

    def ask(self) -> Candidate | None:
        return next(self._waiting, None)

    def tell(self, candidate: Candidate, time: float | None) -> None: ...


class NearTheFastest:
    """Alternates between exploration (the next candidate in order) and exploitation (the one that shares the most
    features with the fastest so far). Before the first time is known, the first candidate counts as the fastest."""

    is_adaptive = True

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
