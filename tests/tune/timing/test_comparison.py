"""Several schedules timed in one run, and the regret that follows from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.schedule.lock import Entry, Schedules, Time, spec_key
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune import Options, search, update
from cugen.tune.timing.comparison import CannotCompare, compare
from tests.benchmarks import benchmark

from ..conftest import H200
from ..scale import FOUR, SCALAR, TWO

Command = Callable[..., tuple[str, ...]]
regret = benchmark("machine.regret")
ENTRY = Entry("scale", "0" * 16, "sm_90", "NVIDIA H200", (("y", Schedule("map")),), Time(6, 1), Time(12, 1), "0.1.0")


def vector(size: int) -> Schedules:
    return (("y", Schedule(tunables=(("vector", size),))),)


def answers(*entries: Entry | None) -> Callable[[Spec], Entry | None]:
    """One after the other."""
    waiting = iter(entries)
    return lambda spec: next(waiting)


def test_times_are_in_the_order_of_the_schedules(scale: Spec, fake: Command) -> None:
    command = fake(times=[[TWO, 5.0], [FOUR, 10.0]])
    assert compare(scale, [(), vector(2)], gpu=H200, command=command) == (Time(10, 5), Time(5, 2.5))


def test_what_cannot_be_timed_says_why(scale: Spec, fake: Command) -> None:
    for schedules, plan, said in (
        (vector(16), {}, "map"),
        (vector(1), {"die": [SCALAR]}, "an illegal memory access"),
        (vector(1), {"wrong": [SCALAR]}, "3 of 9 elements differ"),
    ):
        with pytest.raises(CannotCompare, match=said):
            compare(scale, [(), schedules], gpu=H200, command=fake(times=[], **plan))


def test_the_regret_is_a_ratio_and_its_mean_geometric(
    scale: Spec, options: Callable[..., Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = search(scale, options()).entry
    monkeypatch.setattr(regret, "compare", lambda *_: (Time(12, 1), Time(6, 1)))
    rows = list(regret.regrets([scale, scale, scale], answers(entry, replace(entry, schedules=()), None)))
    assert [row.regret for row in rows] == [2.0, 1.0]
    assert regret.mean(rows) == pytest.approx(2**0.5)
    assert regret.mean([]) == 1


def test_kernels_that_cannot_be_timed_are_listed_with_a_reason(
    scale: Spec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise CannotCompare("it hangs")

    monkeypatch.setattr(regret, "compare", fails)
    assert list(regret.regrets([scale], answers(ENTRY))) == []
    assert capsys.readouterr().err == "scale: it hangs\n"


def test_the_tuned_products_give_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spec,) = load_text(next(case.spec for case in regret.tuned() if case.name == "f32 512³"))
    lock, output = tmp_path / "products.lock", tmp_path / "regret.json"
    update(lock, [replace(ENTRY, kernel=spec.kernel, spec=spec_key(spec))])
    monkeypatch.setattr(regret, "compare", lambda *_: (Time(12, 1), Time(6, 1)))
    monkeypatch.setattr(regret, "driver", lambda: None)
    monkeypatch.setattr(regret, "gpus", lambda: (H200,))
    words = ["--products", "--lock", str(lock), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", [regret.__file__, *words])
    assert regret.main() == 0
    kept = json.loads(output.read_text())
    row = {"kernel": "product_512", "device": "NVIDIA H200", "untuned_us": 12, "tuned_us": 6, "reorders": False}
    assert (kept["kernels"], kept["mean"]) == ([row | {"regret": 2.0}], 2.0)
    assert kept["command"] == f"python -m benchmarks.machine.regret {' '.join(words)}"
    assert "product_256: no entry" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["regret.py", "--products"])
    with pytest.raises(SystemExit):
        regret.main()
