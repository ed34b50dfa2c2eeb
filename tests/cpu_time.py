"""Bounds of CPU time that a slow or busy machine doesn't break."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_COUNT = 1_000_000
_USUAL = 0.0125  # seconds to count to _COUNT where the bounds were set


def usual_seconds(began: float) -> float:
    """CPU seconds since `began` (of `time.process_time`), were this machine as fast as that of the bounds."""
    seconds = time.process_time() - began
    return seconds * min(1.0, _USUAL / min(_seconds_to_count() for _ in range(3)))


def at_most(seconds: float, call: Callable[[], Result], what: str = "") -> Result:
    """What `call` returns, or an AssertionError that shows `what` where each of three calls takes more CPU time.
    Objects that earlier tests left aren't searched by its garbage collections."""
    gc.freeze()
    try:
        for _ in range(3):
            began = time.process_time()
            result = call()
            if time.process_time() - began <= seconds or usual_seconds(began) <= seconds:
                return result
    finally:
        gc.unfreeze()
    raise AssertionError(what)


def _seconds_to_count() -> float:
    began = time.process_time()
    for _ in range(_COUNT):
        pass
    return time.process_time() - began
