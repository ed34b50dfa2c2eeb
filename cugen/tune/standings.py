"""Standings of a search: the results of the candidates so far, and the fastest one."""

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
    """A candidate with its code and times in microseconds, normalised by a common baseline. `is_timed`: with all
    samples."""

    candidate: Candidate
    code: Prepared
    cold: float = 0.0
    warm: float = 0.0
    same_bits: bool = True
    is_timed: bool = False
    interruptions: int = 0  # requests in which the machine of its GPU was lost

    @property
    def message(self) -> Message:
        """The code in the form of a worker's request."""
        return code(self.candidate.number, self.code)


@dataclass
class Progress:
    """Progress of a search. Times are for cold caches, in microseconds; 0 if unknown."""

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
    """Trials by candidate number; number 0 is the generator's choice, of these schedules."""

    def __init__(self, untuned: Trial, choice: Schedules, journal: Journal, progress: Progress) -> None:
        self.untuned = self.best = untuned
        self._choice = choice
        self.trials = {0: untuned}
        self.failures: list[tuple[Schedules, str]] = []
        self.progress = progress
        self._journal = journal

    def known(self, trial: Trial) -> Record | None:
        """Record of this code from an earlier search."""
        return self._journal.records.get(trial.code.digest)

    def claim(self, trial: Trial) -> bool:
        """Claims a trial before it is timed. False if another search is timing it, or has timed it."""
        return self._journal.claim(trial.code.digest)

    def release(self) -> None:
        """Ends the claims of trials that weren't timed."""
        self._journal.release()

    def fastest(self) -> list[Trial]:
        """The timed trials, fastest first."""
        timed = [trial for trial in self.trials.values() if trial.is_timed]
        return sorted(timed, key=lambda trial: (trial.cold, trial.candidate.number))

    def record(self, trial: Trial, baseline: Trial, answer: Message, gpu: str = "") -> Record:
        """Record of a trial from a worker's answer: its time relative to the interleaved baseline."""
        number = str(trial.candidate.number)
        cold, warm = answer["times"][number]
        if baseline is not trial:
            baseline_cold, baseline_warm = answer["times"][str(baseline.candidate.number)]
            cold, warm = baseline.cold * cold / baseline_cold, baseline.warm * warm / baseline_warm
        stopped = trial.candidate.number in answer["stopped"]
        return Record(trial.code.digest, cold, warm, bool(answer["same_bits"][number]), stopped, gpu=gpu)

    def take(self, trial: Trial, record: Record, *, is_new: bool = True) -> None:
        """Sets the record of a trial; a new one is added to the journal."""
        is_untuned = trial is self.untuned  # which every search times again
        if is_new and not (is_untuned and (record.failed or self.known(trial))):
            schedules = self._choice if is_untuned else trial.candidate.schedules
            self._journal.add(replace(record, schedule=schedules_text(schedules)))
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
