"""In which order candidates are tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from cugen.tune.space import Candidate


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


def _exhaustive(candidates: Sequence[Candidate], seed: int) -> Strategy:
    return InOrder(candidates)


def _random(candidates: Sequence[Candidate], seed: int) -> Strategy:
    return InOrder(random.Random(seed).sample(candidates, len(candidates)))


def _model(candidates: Sequence[Candidate], seed: int) -> Strategy:
    from cugen.tune.model_guided import ModelGuided

    return ModelGuided(candidates, seed)


STRATEGIES: dict[str, Callable[[Sequence[Candidate], int], Strategy]] = {
    "exhaustive": _exhaustive,
    "random": _random,
    "model": _model,
}
