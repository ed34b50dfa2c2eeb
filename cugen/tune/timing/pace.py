"""How fast a search gets on, by what it has measured: how many candidates it has to keep ready for its GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

_TIMING_S, _PREPARING_S = 0.2, 1.0  # until something is measured (heuristic: two regimes of 0.1 s, a small kernel)


class Pace:
    """Mean seconds in which a GPU times a candidate, and until a candidate that was asked for is there."""

    def __init__(self) -> None:
        self._timing, self._preparing = _Mean(_TIMING_S), _Mean(_PREPARING_S)

    def timed(self, seconds: float) -> None:
        """A GPU took so long for a candidate."""
        self._timing.add(seconds)

    def preparing(self) -> Callable[[Future[Any]], None]:
        """A candidate is asked for. Returns what is called when it is there."""
        begun = monotonic()
        return lambda done: self._preparing.add(monotonic() - begun)

    def timed_in(self, seconds: float, gpus: int) -> int:
        """Candidates that so many GPUs time in some seconds."""
        return math.ceil(gpus * max(0.0, seconds) / self._timing.value)

    def timed_meanwhile(self, gpus: int) -> int:
        """Candidates that so many GPUs time while one is prepared: with fewer ready ones they would wait."""
        return self.timed_in(self._preparing.value, gpus)


class _Mean:
    """Mean of what was added, or a guess."""

    def __init__(self, guess: float) -> None:
        self._guess, self._sum, self._count = guess, 0.0, 0

    def add(self, value: float) -> None:
        self._sum, self._count = self._sum + value, self._count + 1

    @property
    def value(self) -> float:
        return self._sum / self._count if self._count else self._guess
