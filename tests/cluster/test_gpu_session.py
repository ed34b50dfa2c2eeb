"""The timing processes of a GPU worker, without a GPU or a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from cugen.cluster import gpu_session
from cugen.cluster.gpu_session import GONE, answer_on_gpu, end, start
from cugen.tune.timing.gpus import Gpu

H200 = Gpu("NVIDIA H200", "sm_90", "GPU-0")


class Made:
    """A timing process that answers with its number."""

    processes: list[Made]

    def __init__(self, command: Sequence[str], gpu: Gpu, patience_s: float) -> None:
        self.number, self.is_running, self.is_closed = len(self.processes), True, False
        self.processes.append(self)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"number": self.number}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Made]]:
    Made.processes = []
    monkeypatch.setattr(gpu_session, "Process", Made)
    monkeypatch.setattr(gpu_session, "_SESSIONS", {})
    monkeypatch.setattr(gpu_session, "_RESERVE", {})
    yield Made.processes
    for session in tuple(gpu_session._SESSIONS):
        end(session)
    gpu_session._end_reserve(H200)
    assert all(process.is_closed for process in Made.processes if process.is_running)


def answer(session: str) -> dict[str, Any]:
    return answer_on_gpu(session, H200, {})


def test_a_session_has_the_process_that_was_started_after_the_one_before() -> None:
    for number, session in enumerate(("a", "b", "c")):
        start(session, H200)
        assert answer(session) == {"number": number}
        assert len(Made.processes) == (number + 2)


def test_a_process_in_reserve_that_has_died_is_not_used(processes: list[Made]) -> None:
    start("a", H200)
    processes[1].is_running = False
    start("b", H200)
    assert answer("b") == {"number": 2}


def test_a_session_that_has_ended_is_gone(processes: list[Made]) -> None:
    start("a", H200)
    end("a")
    assert answer("a") == {GONE: True}
    assert processes[0].is_closed
