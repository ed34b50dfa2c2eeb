"""What is known of the candidates so far, and which is the best."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.schedule.lock import Schedules
from cugen.tune.journal import Journal, Record
from cugen.tune.lockfile import schedules_text
from cugen.tune.space import Candidate
from cugen.tune.timing.messages import Message, code
from cugen.tune.timing.prepare import Prepared


@dataclass
class Trial:
    """A candidate with its code. Times are in microseconds, as if all had been taken at once; `is_timed` with all
    samples."""

    candidate: Candidate
    code: Prepared
    cold: float = 0.0
    warm: float = 0.0
    same_bits: bool = True
    is_timed: bool = False

    @property
    def message(self) -> Message:
        """The code, as a worker takes it."""
        return code(self.candidate.number, self.code)


@dataclass
class Progress:
    """How far a search is. Times are cold, in microseconds; 0 where there is none yet."""

    candidates: int = 0
    timed: int = 0
    resumed: int = 0
    dropped: int = 0
    failed: int = 0
    best_us: float = 0.0
    untuned_us: float = 0.0
    best: Schedules = ()
    left_s: float = 0.0


class Standings:
    """Trials by their candidates' numbers; the generator's own choice is number 0."""

    def __init__(self, untuned: Trial, journal: Journal, progress: Progress) -> None:
        self.untuned = self.best = untuned
        self.trials = {0: untuned}
        self.failures: list[tuple[Schedules, str]] = []
        self.progress = progress
        self._journal = journal

    def known(self, trial: Trial) -> Record | None:
        """What an earlier search found of this code."""
        return self._journal.records.get(trial.code.digest)

    def fastest(self) -> list[Trial]:
        """Those that were timed, the fastest first."""
        timed = [trial for trial in self.trials.values() if trial.is_timed]
        return sorted(timed, key=lambda trial: (trial.cold, trial.candidate.number))

    def record(self, trial: Trial, baseline: Trial, answer: Message) -> Record:
        """What an answer says of a trial, told by its ratio to the one that it ran beside."""
        number = str(trial.candidate.number)
        cold, warm = answer["times"][number]
        if baseline is not trial:
            baseline_cold, baseline_warm = answer["times"][str(baseline.candidate.number)]
            cold, warm = baseline.cold * cold / baseline_cold, baseline.warm * warm / baseline_warm
        stopped = trial.candidate.number in answer["stopped"]
        return Record(trial.code.digest, cold, warm, bool(answer["same_bits"][number]), stopped)

    def take(self, trial: Trial, record: Record, *, is_new: bool = True) -> None:
        """A record is what counts from now on; a new one goes into the journal."""
        if is_new and trial is not self.untuned:
            self._journal.add(replace(record, schedule=schedules_text(trial.candidate.schedules)))
        if record.failed:
            self.progress.failed += 1
            self.failures.append((trial.candidate.schedules, record.failed))
            trial.is_timed = False
        else:
            trial.cold, trial.warm, trial.same_bits = record.cold, record.warm, record.same_bits
            trial.is_timed = not record.stopped
            self.trials[trial.candidate.number] = trial
            self.progress.timed += is_new
            self.progress.resumed += not is_new
        self.best = next(iter(self.fastest()), self.untuned)
        self.progress.best_us, self.progress.best = self.best.cold, self.best.candidate.schedules
        self.progress.untuned_us = self.untuned.cold
