"""Schedule search: candidates are prepared on the CPU cores and timed on the GPUs as they become ready.

Each candidate is timed interleaved with the fastest one so far, and its time is the ratio to that baseline, which
cancels drifting clocks and temperatures. At the end the fastest few are timed interleaved with the generator's choice;
only this final comparison decides.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from time import monotonic

from cugen.schedule.lock import Entry, Lock, Schedules, Time, spec_key
from cugen.schedule.planner import make_plan
from cugen.spec.model import Spec
from cugen.tune.journal import Journal, Record, journal_path
from cugen.tune.order import may_reorder
from cugen.tune.space import Candidate, candidates
from cugen.tune.standings import Progress, Standings, Trial
from cugen.tune.strategies import STRATEGIES
from cugen.tune.timing.gpus import Gpu, gpus
from cugen.tune.timing.messages import NEVER, Message, opening, request
from cugen.tune.timing.orphans import serve_parent
from cugen.tune.timing.prepare import Dropped, EarlierCandidates, Prepared, prepare
from cugen.tune.timing.workers import COMMAND, PATIENCE_S, Answer, Events, Worker
from cugen.version import __version__

_SAMPLES, _FINAL_SAMPLES = 30, 100  # timed runs per candidate and regime (heuristic)
_BUDGET_US, _FINAL_BUDGET_US = 1e5, 1e6  # GPU time per candidate and regime, in microseconds (heuristic)
_MAX_TIME_RATIO = 1.3  # to the fastest so far; slower candidates stop after a few samples (heuristic)
_FINALISTS = 4  # candidates of the final comparison, besides the generator's choice (heuristic)
_MIN_SPEEDUP = 1.004  # over the generator's choice; resolution of 100 samples, measured on an H200
_CANDIDATES_AHEAD = 1  # candidates ready or in preparation, per core and per GPU (heuristic)
_COST_RESOLUTION = 1.25  # ratio of modelled costs that count as equal (heuristic)
_REPORT_INTERVAL_S = 0.5  # seconds between progress reports while no event arrives


class TuneError(Exception):
    """The generator's choice can't be timed, so there is no baseline."""


@dataclass(frozen=True)
class Options:
    """Options of a search.

    budget_s: seconds for each kernel, without the final comparison. jobs: processes that prepare candidates, 0 for one
    per core. resume: use the results of earlier searches. gpus: default all GPUs of the machine; those with the name of
    the first one are used. command: starts a worker process."""

    budget_s: float = 60.0
    strategy: str = "exhaustive"
    seed: int = 0
    jobs: int = 0
    resume: bool = True
    gpus: tuple[Gpu, ...] = ()
    command: tuple[str, ...] = COMMAND
    patience_s: float = PATIENCE_S


@dataclass(frozen=True)
class Outcome:
    """Result of a search: `entry` for the lock file, `failures` with the reasons why candidates failed."""

    entry: Entry
    progress: Progress
    failures: tuple[tuple[Schedules, str], ...]


def search(
    spec: Spec,
    options: Options | None = None,
    params: Mapping[str, int] | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    lock: Lock | None = None,
) -> Outcome:
    """Searches for the fastest schedule of a spec on the GPUs of this machine.

    params: values of the dynamic params. lock: its schedules for these GPUs are tried first. Raises RunError (CG5011)
    without a GPU, SpecError for a spec that no family supports, ToolMissing without a compiler or the strategy's
    library, TuneError if the generator's choice is wrong or can't be timed."""
    options = options or Options()
    available = options.gpus or gpus()
    devices = [gpu for gpu in available if gpu.name == available[0].name]
    entries = lock.of(spec) if lock is not None and options.resume else ()
    return _Search(spec, options, params or {}, devices, report, entries).outcome()


def _of_device(entry: Entry, device: str) -> Iterator[Schedules]:
    """The explicit schedules of an entry for a device."""
    if entry.device == device:
        known = [entry.schedules, *(entry.runner_up[:1] if entry.runner_up else ())]
        yield from (schedules for schedules in known if schedules)


class _Search:
    def __init__(
        self,
        spec: Spec,
        options: Options,
        params: Mapping[str, int],
        devices: Sequence[Gpu],
        report: Callable[[Progress], None],
        entries: Sequence[Entry] = (),
    ) -> None:
        self._spec, self._options, self._params, self._gpus, self._tell = spec, options, dict(params), devices, report
        make_plan(spec)  # raises SpecError for what no schedule can fix
        code = prepare(spec, (), devices[0].capability, self._params)
        if isinstance(code, Dropped):
            raise TuneError(f"the generator's own choice can't be prepared: {code.reason}")
        space = candidates(spec)
        known = dict.fromkeys(schedules for entry in entries for schedules in _of_device(entry, devices[0].name))
        first = [Candidate(len(space) + number, schedules) for number, schedules in enumerate(known)]
        self._strategy = STRATEGIES[options.strategy]((*first, *space[1:]), options.seed)
        self._proposed_order: dict[Candidate, int] = {}
        journal = Journal(journal_path(spec, devices[0], params), resume=options.resume)
        self._standings = Standings(Trial(space[0], code), journal, Progress(candidates=len(space)))
        self._jobs = options.jobs or len(os.sched_getaffinity(0))
        self._events: Events = SimpleQueue()
        self._workers: list[Worker] = []
        self._preparing: dict[Future[Prepared | Dropped], Candidate] = {}
        self._ready: list[Trial] = []
        self._earlier = EarlierCandidates(frozenset([code.digest]), code.cost)
        self._is_exhausted = False

    def outcome(self) -> Outcome:
        deadline = monotonic() + self._options.budget_s
        options = self._options
        first = opening(self._spec, self._params, options.seed, self._standings.untuned.message)
        with ExitStack() as stack:
            for gpu in self._gpus:
                worker = Worker(gpu, options.command, first, self._events, options.patience_s)
                stack.callback(worker.close)
                self._workers.append(worker)
            self._time_untuned()
            pool = stack.enter_context(self._pool())
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            self._run(pool, deadline)
            times = self._finals()
        return Outcome(self._entry(times), self._standings.progress, tuple(self._standings.failures))

    def _pool(self) -> Executor:
        if self._jobs == 1:
            return ThreadPoolExecutor(1)
        return ProcessPoolExecutor(self._jobs, get_context("spawn"), initializer=serve_parent)

    def _time_untuned(self) -> None:
        """Times the generator's choice on every GPU, which also starts the workers."""
        untuned, faults = self._standings.untuned, list[str]()

        def then(answer: Answer) -> None:
            if isinstance(answer, str) or answer["failed"]:
                faults.append(answer if isinstance(answer, str) else answer["failed"]["0"])
            elif not untuned.is_timed:
                self._standings.take(untuned, self._standings.record(untuned, untuned, answer))

        for worker in self._workers:
            worker.submit(_request([untuned]), then)
        while any(worker.is_busy for worker in self._workers):
            self._wait()
        if not untuned.is_timed:
            raise TuneError(f"the generator's own choice can't be timed: {faults[0]}")
        if not untuned.cold:
            raise TuneError("nothing runs at these sizes")

    def _run(self, pool: Executor, deadline: float) -> None:
        """Searches until the budget is spent, or no candidate or no GPU is left."""
        while True:
            left = deadline - monotonic()
            if left > 0:
                self._prepare_more(pool)
                self._time_more()
            is_timing = any(worker.is_busy for worker in self._workers)
            if not is_timing and (left <= 0 or not (self._preparing or self._ready) or not self._idle()):
                return
            self._wait()
            self._standings.progress.left_s = max(0.0, left)
            self._tell(self._standings.progress)

    def _prepare_more(self, pool: Executor) -> None:
        while not self._is_exhausted and len(self._preparing) + len(self._ready) < _CANDIDATES_AHEAD * (
            self._jobs + len(self._gpus)
        ):
            candidate = self._strategy.ask()
            if candidate is None:
                self._is_exhausted = True
                return
            self._proposed_order[candidate] = len(self._proposed_order)
            capability = self._gpus[0].capability
            future = pool.submit(prepare, self._spec, candidate.schedules, capability, self._params, self._earlier)
            self._preparing[future] = candidate
            future.add_done_callback(lambda done: self._events.put(partial(self._prepared, done)))

    def _prepared(self, future: Future[Prepared | Dropped]) -> None:
        candidate = self._preparing.pop(future)
        if future.cancelled():
            return
        code = future.result()
        if isinstance(code, Dropped) or code.digest in self._earlier.digests:
            self._standings.progress.dropped += 1
            self._strategy.tell(candidate, None)
            return
        costs = [cost for cost in (code.cost, self._earlier.minimum_cost) if cost is not None]
        self._earlier = EarlierCandidates(self._earlier.digests | {code.digest}, min(costs, default=None))
        trial = Trial(candidate, code)
        if (record := self._standings.known(trial)) is not None:
            self._take(trial, record, is_new=False)
        else:
            self._ready.append(trial)

    def _time_more(self) -> None:
        """Submits ready candidates to idle workers: by modelled cost class, then in the strategy's order."""
        self._ready.sort(key=lambda trial: (_class(trial.code.cost), self._proposed_order[trial.candidate]))
        for worker in self._idle():
            if self._ready:
                trial, best = self._ready.pop(0), self._standings.best
                worker.submit(_request([trial, best]), partial(self._timed, worker, trial, best))

    def _timed(self, worker: Worker, trial: Trial, baseline: Trial, answer: Answer) -> None:
        if worker.is_lost:
            self._ready.append(trial)  # retried on another GPU
        elif isinstance(answer, str):
            self._take(trial, Record(trial.code.digest, failed=answer))
        elif answer["failed"]:
            for failed in (trial, baseline):
                if reason := answer["failed"].get(str(failed.candidate.number)):
                    self._take(failed, Record(failed.code.digest, failed=reason))
        else:
            self._take(trial, self._standings.record(trial, baseline, answer))

    def _take(self, trial: Trial, record: Record, *, is_new: bool = True) -> None:
        self._standings.take(trial, record, is_new=is_new)
        self._strategy.tell(trial.candidate, None if record.failed else record.cold)

    def _idle(self) -> list[Worker]:
        return [worker for worker in self._workers if not worker.is_busy and not worker.is_lost]

    def _wait(self) -> None:
        """Handles the next event, or returns after `_REPORT_INTERVAL_S`."""
        try:
            event = self._events.get(timeout=_REPORT_INTERVAL_S)
        except Empty:
            return
        event()

    def _finals(self) -> dict[int, Time]:
        """Times of the final comparison, all from one interleaved run; times of the search if no GPU is left for it."""
        untuned = self._standings.untuned
        finalists = [trial for trial in self._standings.fastest() if trial is not untuned][:_FINALISTS]
        entrants = [*finalists, untuned]
        answers: list[Answer] = []
        if finalists and (idle := self._idle()):
            idle[0].submit(_request(entrants, is_final=True), answers.append)
            while not answers:
                self._wait()
        if not answers or isinstance(answers[0], str) or not answers[0]["times"]:
            return {trial.candidate.number: Time(trial.cold, trial.warm) for trial in entrants}
        return {int(number): Time(cold, warm) for number, (cold, warm) in answers[0]["times"].items()}

    def _entry(self, times: Mapping[int, Time]) -> Entry:
        trials = self._standings.trials
        order = sorted(times, key=lambda number: (times[number].cold, number))
        best = order[0] if times[order[0]].cold * _MIN_SPEEDUP < times[0].cold else 0
        slower = [number for number in order if number != best]
        chosen = trials[best].candidate.schedules
        return Entry(
            self._spec.kernel,
            spec_key(self._spec),
            self._spec.target,
            self._gpus[0].name,
            chosen,
            times[best],
            times[0],
            __version__,
            not trials[best].same_bits or may_reorder(self._spec, chosen),
            (trials[slower[0]].candidate.schedules, times[slower[0]]) if slower else None,
            tuple(sorted(self._params.items())),
        )


def _class(cost: float | None) -> int:
    """Logarithmic class of a modelled cost in seconds. Unknown costs come first."""
    return -1_000_000 if not cost else round(math.log(cost, _COST_RESOLUTION))


def _request(entrants: Sequence[Trial], *, is_final: bool = False) -> Message:
    codes = [trial.message for trial in entrants]
    if is_final:
        return request(codes, samples=_FINAL_SAMPLES, budget_us=_FINAL_BUDGET_US, hopeless=NEVER)
    return request(codes, samples=_SAMPLES, budget_us=_BUDGET_US, hopeless=_MAX_TIME_RATIO)
