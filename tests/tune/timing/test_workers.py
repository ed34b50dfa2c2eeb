"""A timing process, by one that makes up its answers."""

from __future__ import annotations

from collections.abc import Callable

from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import READY
from cugen.tune.timing.workers import Process


def test_an_answer_says_how_long_it_took(fake: Callable[..., tuple[str, ...]]) -> None:
    process = Process(fake(times=[], ready_seconds=0.2), Gpu("NVIDIA H200", "sm_90"), 20.0)
    try:
        process.ask(READY)  # and the start
        assert 0.2 <= process.ask(READY)["seconds"] < 10
    finally:
        process.close()
