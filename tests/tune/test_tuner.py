"""The whole search without a GPU: real candidates, really compiled, timed by workers of the tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cugen.schedule.lock import Entry, Lock, Time
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune.engine import Machine
from cugen.tune.journal import conditions
from cugen.tune.lockfile import block
from cugen.tune.timing.gpus import Gpu
from cugen.tune.tuner import Options, TuneError, search

from .conftest import H200
from .scale import FOUR, SCALAR, SCALE, TWO

Made = Callable[..., Options]


def vector(size: int) -> tuple[tuple[str, Schedule], ...]:
    return (("y", Schedule("map", tunables=(("vector", size), ("vectors", 1)))),)


def test_the_fastest_wins_and_the_runner_up_is_kept(scale: Spec, options: Made) -> None:
    outcome = search(scale, options())
    entry = outcome.entry
    assert (entry.schedules, entry.time, entry.untuned) == (vector(2), Time(5.0, 2.5), Time(10.0, 5.0))
    assert entry.runner_up == ((), Time(10.0, 5.0))
    assert (entry.kernel, entry.device, entry.target) == ("scale", "NVIDIA H200", "sm_90")
    assert outcome.failures == ()
    assert (outcome.progress.timed, outcome.progress.best_us, outcome.progress.untuned_us) == (3, 5.0, 10.0)
    assert outcome.progress.dropped == outcome.progress.candidates - 3  # the same code, or refused


@pytest.mark.slow
def test_equal_searches_give_equal_blocks(scale: Spec, options: Made) -> None:
    assert block(search(scale, options()).entry) == block(search(scale, options(strategy="random")).entry)


def test_the_generators_choice_stays_unless_another_is_worth_it(scale: Spec, options: Made) -> None:
    outcome = search(scale, options(times=[[TWO, 9.97], [FOUR, 10.0], [SCALAR, 20.0]]))
    assert outcome.entry.schedules == ()
    assert outcome.entry.runner_up == (vector(2), Time(9.97, 4.985))
    assert not outcome.entry.reorders


def test_bits_that_differ_from_the_generators_choice_are_marked(scale: Spec, options: Made) -> None:
    assert search(scale, options()).entry.reorders
    assert not search(scale, options(same=[TWO])).entry.reorders


def test_a_candidate_that_hangs_dies_or_is_wrong_costs_its_process_and_not_the_run(scale: Spec, options: Made) -> None:
    for plan, reason in (
        ({"hang": [SCALAR], "patience_s": 3.0}, "it hangs"),
        ({"die": [SCALAR]}, "the process died: an illegal memory access"),
        ({"wrong": [SCALAR]}, "3 of 9 elements differ"),
        ({"garble": [SCALAR]}, "the process died"),
    ):
        outcome = search(scale, options(**plan))
        ((schedules, said),) = outcome.failures
        assert (schedules, outcome.entry.schedules) == (vector(1), vector(2))
        assert reason in said


def test_nothing_is_tuned_where_the_generators_choice_fails(scale: Spec, options: Made) -> None:
    for plan in ({"wrong": [FOUR]}, {"die": [FOUR]}, {"refuses": [""]}):
        with pytest.raises(TuneError, match="the generator's own choice can't be timed"):
            search(scale, options(**plan))


def test_a_kernel_that_takes_no_time_is_not_tuned(scale: Spec, options: Made) -> None:
    with pytest.raises(TuneError, match="nothing runs at these sizes"):
        search(scale, options(times=[["", 0.0]]))


def test_a_spec_that_no_family_can_do_is_a_finding(options: Made) -> None:
    (spec,) = load_text(SCALE.replace("family: map", "family: tiled"))
    with pytest.raises(SpecError, match="CG21"):
        search(spec, options())


def test_several_gpus_work_in_parallel_and_a_full_one_is_left_out(scale: Spec, options: Made, tmp_path: Path) -> None:
    devices = (*(Gpu("NVIDIA H200", "sm_90", f"GPU-{n}") for n in range(3)), Gpu("NVIDIA A100", "sm_80", "GPU-3"))
    log = tmp_path / "log"
    outcome = search(scale, options(gpus=devices, refuses=["GPU-1"], log=str(log)))
    assert outcome.entry.schedules == vector(2)
    assert Counter(line.split()[0] for line in log.read_text().splitlines()).keys() == {"GPU-0", "GPU-2"}


def test_a_search_resumes(scale: Spec, options: Made, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = search(scale, options(die=[SCALAR]))
    again = search(scale, options(resume=True, log=str(log)))
    assert again.entry == first.entry
    assert (again.progress.resumed, again.progress.timed) == (1, 1)
    assert again.failures == first.failures  # what died isn't tried again
    assert search(scale, options(resume=False)).progress.timed == 3


@pytest.mark.slow
def test_what_the_lock_has_is_the_first_guess(scale: Spec, options: Made) -> None:
    outcome = search(scale, options()).entry
    journal = conditions(scale, H200, {}).path

    def first(entry: Entry, *, resume: bool = True) -> str:
        journal.unlink(missing_ok=True)
        search(scale, options(resume=resume), lock=Lock("", (entry,)))
        _, _, candidate, *_ = journal.read_text().splitlines()  # after the conditions and the generator's own choice
        return str(json.loads(candidate)["schedule"])

    locked = {size: replace(outcome, schedules=vector(size), runner_up=None) for size in (1, 2)}
    assert {size: first(entry) for size, entry in locked.items()} == {
        1: "y: {family: map, vector: 1, vectors: 1}",
        2: "y: {family: map, vector: 2, vectors: 1}",
    }
    assert len({first(replace(entry, device="NVIDIA A100")) for entry in locked.values()}) == 1
    assert len({first(entry, resume=False) for entry in locked.values()}) == 1


def test_the_journal_says_which_schedule_took_how_long_and_reads_records_that_do_not(
    scale: Spec, options: Made
) -> None:
    path = conditions(scale, H200, {}).path
    search(scale, options(die=[SCALAR]))
    stated, *records = [json.loads(line) for line in path.read_text().splitlines()]
    assert stated["times of"]["device"] == "NVIDIA H200"
    assert {record["schedule"]: (record["cold"], record["failed"]) for record in records} == {
        "y: {family: map, vectors: 1}": (10.0, ""),
        "y: {family: map, vector: 2, vectors: 1}": (5.0, ""),
        "y: {family: map, vector: 1, vectors: 1}": (0.0, "the process died: an illegal memory access"),
    }
    for record in records:
        del record["schedule"]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert search(scale, options(resume=True)).progress.resumed == 1


@pytest.mark.slow
def test_a_search_resumes_from_a_truncated_journal(scale: Spec, options: Made) -> None:
    search(scale, options())
    path = conditions(scale, H200, {}).path
    path.write_text(path.read_text()[:-20])
    outcome = search(scale, options(resume=True))
    assert (outcome.progress.resumed, outcome.progress.timed) == (1, 2)
    assert len(path.read_text().splitlines()) == 5  # the conditions, the generator's own choice, a broken one, and both


@pytest.mark.slow
def test_without_time_only_the_generators_choice_is_timed(scale: Spec, options: Made) -> None:
    outcome = search(scale, options(budget_s=0.001))
    assert (outcome.entry.schedules, outcome.progress.timed, outcome.entry.runner_up) == ((), 1, None)


@pytest.mark.slow
def test_a_hopeless_candidate_is_stopped_and_doesnt_reach_the_finals(
    scale: Spec, options: Made, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    search(scale, options(log=str(log)))
    *_, winner, untuned = (int(line.split()[-1]) for line in log.read_text().splitlines())
    assert (winner, untuned) != (0, 0)
    assert untuned == 0  # the candidate of 20 µs is not between them


@pytest.mark.slow
def test_progress_has_the_best_so_far(scale: Spec, options: Made) -> None:
    seen = []
    search(scale, options(), report=lambda progress: seen.append((progress.best_us, progress.untuned_us)))
    assert seen[-1] == (5.0, 10.0)
    assert all(earlier[0] >= later[0] for earlier, later in pairwise(seen))


@pytest.mark.slow
def test_dynamic_params_are_tuned_at_values_that_the_entry_names(options: Made) -> None:
    (spec,) = load_text(SCALE.replace("{N: 4096}", "{N: {range: [0, 100000], multiple_of: 4}}"))
    entry = search(spec, options(), {"N": 4096}).entry
    assert entry.params == (("N", 4096),)
    assert "  at: {N: 4096}\n" in block(entry)


class Losable(Machine):
    """An engine that says when it is lost."""

    is_lost = False

    def require(self) -> None:
        if type(self).is_lost:
            raise ConnectionError("the engine was lost")


@pytest.mark.slow
def test_an_engine_that_is_lost_in_the_final_comparison_is_no_fault_of_gpus(
    scale: Spec, options: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        monkeypatch.setattr(Losable, "is_lost", True)

    made = options()
    engine = Losable(made.gpus, made.command, made.patience_s, preparing=1, final_gpus=2)
    monkeypatch.setattr("cugen.tune.tuner._Search._final_run", lose)
    with pytest.raises(ConnectionError):
        search(scale, replace(made, engine=engine))


_KILLED = """
import sys
from cugen.spec.load import load
from cugen.tune.timing.gpus import Gpu
from cugen.tune.tuner import Options, search
search(load(sys.argv[1]), Options(jobs=1, gpus=(Gpu("NVIDIA H200", "sm_90"),), command=tuple(sys.argv[2:])))
"""


def has_candidate(journal: Path) -> bool:
    """Whether a journal has a line after the conditions and the generator's own choice."""
    return journal.exists() and journal.read_text().count("\n") > 2


@pytest.mark.slow
def test_a_killed_search_resumes(
    scale: Spec, options: Made, fake: Callable[..., tuple[str, ...]], tmp_path: Path
) -> None:
    journal = conditions(scale, H200, {}).path
    journal.unlink(missing_ok=True)
    (tmp_path / "scale.yaml").write_text(SCALE)
    command = fake(times=[[SCALAR, 20.0], [FOUR, 10.0]], hang=[TWO])
    words = [sys.executable, "-c", _KILLED, str(tmp_path / "scale.yaml"), *command]
    with subprocess.Popen(words) as process:
        deadline = time.monotonic() + 60
        while not has_candidate(journal) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    outcome = search(scale, options(resume=True))
    assert (outcome.progress.resumed, outcome.entry.schedules) == (1, vector(2))


@pytest.mark.slow
def test_processes_prepare_in_parallel(scale: Spec, options: Made) -> None:
    assert search(scale, options(jobs=2)).entry.schedules == vector(2)
