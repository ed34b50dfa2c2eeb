"""Some schedules side by side, and the regret that follows from it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from cugen.schedule.lock import Entry, Schedules, Time
from cugen.spec.model import Schedule, Spec
from cugen.tune import Options, search
from cugen.tune.comparison import CannotCompare, compare

from .conftest import FOUR, H200, ONE, TWO

Command = Callable[..., tuple[str, ...]]
PATH = Path(__file__).parents[2] / "benchmarks" / "regret.py"


def vector(size: int) -> Schedules:
    return (("y", Schedule(tunables=(("vector", size),))),)


@pytest.fixture(scope="module")
def regret() -> ModuleType:
    found = importlib.util.spec_from_file_location("regret", PATH)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["regret"] = module  # where its dataclasses look for their annotations
    found.loader.exec_module(module)
    return module


def answers(*found: Entry | None) -> Callable[[Spec], Entry | None]:
    """One after the other."""
    waiting = iter(found)
    return lambda spec: next(waiting)


def test_times_are_in_the_order_of_the_schedules(scale: Spec, fake: Command) -> None:
    command = fake(times=[[TWO, 5.0], [FOUR, 10.0]])
    assert compare(scale, [(), vector(2)], gpu=H200, command=command) == (Time(10, 5), Time(5, 2.5))


def test_what_cannot_be_timed_says_why(scale: Spec, fake: Command) -> None:
    for schedules, plan, said in (
        (vector(16), {}, "map"),
        (vector(1), {"die": [ONE]}, "an illegal memory access"),
        (vector(1), {"wrong": [ONE]}, "3 of 9 elements differ"),
    ):
        with pytest.raises(CannotCompare, match=said):
            compare(scale, [(), schedules], gpu=H200, command=fake(times=[], **plan))


def test_the_regret_is_a_ratio_and_its_mean_geometric(
    regret: ModuleType, scale: Spec, options: Callable[..., Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = search(scale, options()).entry
    monkeypatch.setattr(regret, "compare", lambda *_: (Time(12, 1), Time(6, 1)))
    rows = list(regret.regrets([scale, scale, scale], answers(entry, replace(entry, schedules=()), None)))
    assert [row.regret for row in rows] == [2.0, 1.0]
    assert regret.mean(rows) == pytest.approx(2**0.5)
    assert regret.mean([]) == 1
