"""What a worker does on its GPU, with memory, a clock and kernels of the tests."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from cugen.bench.protocol import Work
from cugen.kernel import generate
from cugen.reference.evaluate import evaluate
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.tune.timing import messages, worker
from cugen.tune.timing.messages import Message
from cugen.tune.timing.worker import Bench

from ...bench.conftest import FakeSession

TOTALS = """\
cugen: 1
kernel: totals
params: {M: 7, N: 40}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M], dtype: float32}
compute: y[i] = sum(x[i, j], j)
"""


class Clock(FakeSession):
    """A session whose kernels say how long they take."""

    def __init__(self) -> None:
        super().__init__()
        self.took = 0.0

    def times_us(self, works: Sequence[Work]) -> list[float]:
        times = []
        for work in works:
            work.run()
            times.append(self.took)
        return times


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Kernels that compute what the reference says, with the faults that their text names: `wrong`, `late bits`, `wild`
    or a time such as `12 µs`."""
    clock = Clock()
    (spec,) = load_text(TOTALS)

    class Kernel:
        def __init__(self, source: str, manifest: Any) -> None:
            self.source = source

        def __call__(self, *, stream: Any, x: Any, y: Any) -> None:
            given = clock.bytes_at(x.address, 4 * 280).view(np.float32).reshape(7, 40)
            value = evaluate(spec, {"x": given.copy()})["y"].value
            if "wrong" in self.source:
                value = value + np.float32(0.5)
            if "late bits" in self.source:
                value = np.nextafter(value, np.float32(100))
            clock.bytes_at(y.address, 28).view(np.float32)[:] = value
            if "wild" in self.source:
                clock.bytes_at(y.address + 28, 1)[:] = 1
            clock.took = float(self.source.split(" µs")[0].split()[-1])

    monkeypatch.setattr(worker, "GpuFunction", Kernel)
    return clock


@pytest.fixture
def code() -> Callable[[int, str], Message]:
    (spec,) = load_text(TOTALS)
    manifest = generate(spec, analysis=False).manifest.to_json()
    return lambda number, source: {"number": number, "source": source, "manifest": manifest}


def opened(clock: Clock, untuned: Message) -> Bench:
    (spec,) = load_text(TOTALS)
    return Bench(clock, json.loads(json.dumps(messages.opening(spec, {}, 0, untuned))))


def request(*codes: Message, hopeless: float = 1.3) -> Message:
    return messages.request(codes, samples=20, budget_us=1e6, hopeless=hopeless)


def test_a_candidate_is_timed_interleaved_with_the_fastest(clock: Clock, code: Callable[[int, str], Message]) -> None:
    best = code(0, "10 µs")
    answer = opened(clock, best).time(request(code(3, "8 µs"), best))
    assert answer == {
        "times": {"3": [8.0, 8.0], "0": [10.0, 10.0]},
        "same_bits": {"3": True, "0": True},
        "failed": {},
        "stopped": [],
    }


@pytest.mark.parametrize(("fault", "said"), [("wrong", "elements differ"), ("wild", "bytes behind it were written")])
def test_what_is_wrong_is_not_timed(clock: Clock, code: Callable[[int, str], Message], fault: str, said: str) -> None:
    best = code(0, "10 µs")
    bench = opened(clock, best)
    answer = bench.time(request(code(3, f"8 µs {fault}"), best))
    assert (answer["times"], list(answer["failed"])) == ({}, ["3"])
    assert said in answer["failed"]["3"]
    assert bench.time(request(code(4, "9 µs"), best))["failed"] == {}


def test_bits_are_compared_with_the_first(clock: Clock, code: Callable[[int, str], Message]) -> None:
    best = code(0, "10 µs")
    answer = opened(clock, best).time(request(code(3, "8 µs late bits"), best))
    assert answer["same_bits"] == {"3": False, "0": True}


def test_a_hopeless_candidate_is_stopped(clock: Clock, code: Callable[[int, str], Message]) -> None:
    best = code(0, "10 µs")
    bench = opened(clock, best)
    assert bench.time(request(code(3, "14 µs"), best))["stopped"] == [3]
    assert bench.time(request(code(3, "14 µs"), best, hopeless=1e9))["stopped"] == []


def test_a_wrong_first_kernel_is_a_fault(clock: Clock, code: Callable[[int, str], Message]) -> None:
    with pytest.raises(Exception, match="elements differ"):
        opened(clock, code(0, "10 µs wrong")).time(request())


@pytest.mark.slow
def test_without_a_gpu_the_process_says_so_and_ends() -> None:
    words = [sys.executable, "-m", "cugen.tune.timing.worker"]
    done = subprocess.run(
        words, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, input="", capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, list(json.loads(done.stdout))) == (1, ["fault"])
    assert "CUDA" in done.stdout


def test_specs_of_the_language_travel_to_workers(scale: Spec) -> None:
    assert pickle.loads(pickle.dumps(scale)) == scale
