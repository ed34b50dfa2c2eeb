"""The products that are tuned: which come first, and what is said and kept of each search."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cugen.schedule.lock import Entry, Lock, Time, apply, filled, read, spec_key
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune import Options, Outcome, TuneError, update
from cugen.tune.standings import Progress
from cugen.tune.timing.gpus import Gpu
from tests.benchmarks import ROOT, benchmark

DEVICE = "NVIDIA H200"
WIDE = (("C", Schedule("gemm", block=(("m", 64), ("n", 64)), thread=(("m", 8), ("n", 8)))),)
script = benchmark("gemm.tune_products")


def outcome(spec: Spec) -> Outcome:
    entry = Entry(spec.kernel, spec_key(spec), spec.target, DEVICE, WIDE, Time(10.0, 9.0), Time(12.0, 11.0), "0.1.0")
    return Outcome(entry, Progress(candidates=90, timed=50, resumed=10, dropped=25, failed=5), ())


def specs() -> list[Spec]:
    return [spec for case in script.tuned() for spec in load_text(case.spec)]


def test_all_that_are_named_are_in_the_list() -> None:
    listed = benchmark("gemm.products_cases")
    assert {case.name for case in script.tuned()} == set(listed.TUNED)


@pytest.mark.slow
def test_what_was_found_for_them_still_fits() -> None:
    lock = read(ROOT / "benchmarks" / "gemm" / "cugen.lock")
    for spec in specs():
        for entry in lock.of(spec):
            for schedules in (entry.schedules, *((entry.runner_up[0],) if entry.runner_up else ())):
                make_plan(replace(spec, schedules=filled(spec, schedules)))


def test_what_has_no_entry_comes_first() -> None:
    first, second, *remaining = specs()
    lock = Lock("", (outcome(first).entry, replace(outcome(second).entry, device="NVIDIA T4")))
    assert script.in_turn([first, second, *remaining], lock, DEVICE) == [second, *remaining, first]


@pytest.mark.slow
def test_a_line_has_both_times_the_schedule_and_what_was_tried() -> None:
    spec = specs()[0]
    line = script.line(spec, outcome(spec))
    assert line.startswith("product_256 ")
    assert line.endswith(
        "C: {family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 8}}  60 of 90 timed, 25 dropped, 5 failed"
    )
    printed = script.line(spec, replace(outcome(spec), entry=replace(outcome(spec).entry, schedules=())))
    assert "as untuned: C: {family: gemm, block: {m: " in printed


def test_searches_fill_a_lock_that_the_list_of_products_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searched: list[str] = []

    def search(spec: Spec, options: Options, lock: Lock) -> Outcome:
        searched.append(spec.kernel)
        assert options.budget_s == 5
        if spec.kernel == "product_4096_4096_64":
            raise TuneError("the generator's own choice can't be timed: it hangs")
        return outcome(spec)

    lock = tmp_path / "products.lock"
    monkeypatch.setattr(script, "search", search)
    monkeypatch.setattr(script, "gpus", lambda: (Gpu(DEVICE, "sm_90"),))
    monkeypatch.setattr(sys, "argv", ["tune_products.py", str(lock), "--budget", "5", "--only", "f64,one short side"])
    assert script.main() == 1
    assert searched == ["product_4096_4096_64", "product_64_4096_4096"]
    assert "FAIL product_4096_4096_64: the generator's own" in capsys.readouterr().out
    lock_file = read(lock)
    assert [entry.kernel for entry in lock_file.entries] == ["product_64_4096_4096"]
    (case,) = (case for case in script.tuned() if case.name == "f32 64×4096×4096")
    (spec,) = load_text(case.spec, file=f"{case.name}.yaml")  # as the list loads it
    assert apply(spec, lock_file, DEVICE).tuned is not None

    monkeypatch.setattr(sys, "argv", [*sys.argv, "--seconds", "0"])
    assert script.main() == 0
    assert "2 searches were not started, from product_4096_4096_64 on" in capsys.readouterr().out


@pytest.mark.slow
def test_a_row_is_tuned_where_the_lock_has_an_entry_that_still_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listing = benchmark("timing.case_list")
    monkeypatch.setattr(listing, "bench", lambda *_: {"passed": True})
    case, lock = script.tuned()[0], tmp_path / "products.lock"
    entry = outcome(specs()[0]).entry
    unfit = (("C", Schedule("gemm", block=(("m", 64), ("n", 64)))),)  # gemm wants to know what a thread owns
    said = []
    for entries in ([], [entry], [replace(entry, schedules=())], [replace(entry, schedules=unfit)]):
        lock.unlink(missing_ok=True)
        update(lock, entries)
        options = argparse.Namespace(lock=str(lock), samples=100)
        row = listing.run(SimpleNamespace(device=DEVICE, capability="sm_90"), case, options, 1e5)
        said.append((row["passed"], row["tuned"]))
    assert said == [(True, False), (True, True), (True, True), (True, False)]
