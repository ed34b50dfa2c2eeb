"""Bounds of CPU time that a slow or busy machine doesn't break."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_COUNT = 1_000_000
_USUAL = 0.0125  # seconds to count to _COUNT where the bounds were set


def usual_seconds(began: float) -> float:
    """CPU seconds since `began` (of `time.process_time`), were this machine as fast as that of the bounds."""
    seconds = time.process_time() - began
    return seconds * min(1.0, _USUAL / min(_seconds_to_count() for _ in range(3)))


@contextmanager
def at_most(seconds: float, what: str = "") -> Iterator[None]:
    """An AssertionError that shows `what` where the block takes more CPU time."""
    began = time.process_time()
    yield
    if time.process_time() - began > seconds:
        assert usual_seconds(began) <= seconds, what


def _seconds_to_count() -> float:
    began = time.process_time()
    for _ in range(_COUNT):
        pass
    return time.process_time() - began
