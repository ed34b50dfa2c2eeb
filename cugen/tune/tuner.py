"""Schedule search: candidates are prepared on the CPU cores and timed on the GPUs as they become ready.

Each candidate is timed interleaved with the fastest one so far, and its time is the ratio to that baseline, which
cancels drifting clocks and temperatures. At the end the fastest few are timed interleaved with the generator's choice;
only this final comparison decides.

On a cluster, each worker also reports the state of its GPU: GPUs that can't be compared with the others are left out,
and the final comparison is repeated on a second one. A search also times on the GPU that it gets next, where that would
be idle; its budget is spent from when it has a GPU for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic

from cugen.schedule.lock import Entry, Lock, Schedules, Time, spec_key
from cugen.schedule.planner import make_plan
from cugen.spec.model import Spec
from cugen.tune import finals
from cugen.tune.engine import Engine, Machine
from cugen.tune.journal import Journal, Record, conditions
from cugen.tune.order import may_reorder
from cugen.tune.space import Candidate, candidates, generators_choice
from cugen.tune.standings import Progress, Standings, Trial
from cugen.tune.strategies import STRATEGIES
from cugen.tune.timing.gpus import Gpu, gpus
from cugen.tune.timing.messages import NEVER, Message, opening, request
from cugen.tune.timing.pace import Pace
from cugen.tune.timing.prepare import Dropped, EarlierCandidates, Prepared, prepare
from cugen.tune.timing.search_gpus import SearchGpus
from cugen.tune.timing.workers import COMMAND, PATIENCE_S, Answer, Events, Worker
from cugen.tune.transfer import others_by_distance, schedules_of
from cugen.version import __version__

_SAMPLES, _FINAL_SAMPLES = 30, 100  # timed runs per candidate and regime (heuristic)
_BUDGET_US, _FINAL_BUDGET_US = 1e5, 1e6  # GPU time per candidate and regime, in microseconds (heuristic)
_MAX_TIME_RATIO = 1.3  # to the fastest so far; slower candidates stop after a few samples (heuristic)
_FINALISTS = 4  # candidates of the final comparison, besides the generator's choice (heuristic)
_WAITING_FOR_CORES = 1  # candidates beyond those that are prepared at once, so that no core waits (heuristic)
_COST_RESOLUTION = 1.25  # ratio of modelled costs that count as equal (heuristic)
_MAX_INTERRUPTIONS = 3  # of a candidate until it counts as failed (heuristic)
_REPORT_INTERVAL_S = 0.5  # seconds between progress reports while no event arrives
_FINAL_OPENING_S = 10.0  # seconds before the end of the budget when the finals' second process is opened (heuristic)


class TuneError(Exception):
    """The generator's choice can't be timed, so there is no baseline."""


@dataclass(frozen=True)
class Options:
    """Options of a search.

    budget_s: seconds for each kernel, without the final comparison. max_candidates: those considered besides the
    generator's choice, 0 for all. jobs: processes that prepare candidates, 0 for one per core. resume: use the results
    of earlier searches. gpus: default all GPUs of the machine; those with the name of the first one are used. command:
    starts a worker process. engine: in place of this machine's cores and GPUs."""

    budget_s: float = 60.0
    strategy: str = "exhaustive"
    seed: int = 0
    jobs: int = 0
    resume: bool = True
    gpus: tuple[Gpu, ...] = ()
    command: tuple[str, ...] = COMMAND
    patience_s: float = PATIENCE_S
    engine: Engine | None = None
    max_candidates: int = 0


@dataclass(frozen=True)
class Outcome:
    """Result of a search: `entry` for the lock file, `failures` with the reasons why candidates failed, `left_out` with
    the reasons why GPUs were left out."""

    entry: Entry
    progress: Progress
    failures: tuple[tuple[Schedules, str], ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def search(
    spec: Spec,
    options: Options | None = None,
    params: Mapping[str, int] | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    lock: Lock | None = None,
) -> Outcome:
    """Searches for the fastest schedule of a spec on the GPUs of this machine.

    params: values of the dynamic params. lock: its schedules for these GPUs are tried first, then, with an engine,
    those for others. Raises RunError (CG5011) without a GPU, SpecError for a spec that no family supports, ToolMissing
    without a compiler or the strategy's library, TuneError if the generator's choice is wrong or can't be timed."""
    options = options or Options()
    engine = options.engine or _machine(options)
    known: list[Schedules] = []
    if lock is not None and options.resume:
        device = engine.gpus[0].name
        known += schedules_of(lock.of(spec), device)
        if options.engine is not None:
            entries = (*lock.of(spec), *lock.of_other_targets(spec))
            known += [s for name in others_by_distance(entries, device) for s in schedules_of(entries, name)]
    opened: Future[Message] = Future()
    events: Events = SimpleQueue()
    with ExitStack() as stack:
        stack.callback(engine.release)
        gpus_of_search = SearchGpus(engine, opened, events)
        stack.callback(gpus_of_search.close)
        gpus_of_search.open()  # processes start while the generator's choice is compiled
        made = _Search(spec, options, params or {}, engine, report, known, gpus_of_search, events, opened.set_result)
        return made.outcome()


def _machine(options: Options) -> Machine:
    available = options.gpus or gpus()
    devices = [gpu for gpu in available if gpu.name == available[0].name]
    return Machine(devices, options.command, options.patience_s, options.jobs)


class _Search:
    def __init__(
        self,
        spec: Spec,
        options: Options,
        params: Mapping[str, int],
        engine: Engine,
        report: Callable[[Progress], None],
        known: Sequence[Schedules],
        gpus: SearchGpus,
        events: Events,
        open_with: Callable[[Message], None],
    ) -> None:
        self._spec, self._options, self._params, self._engine, self._tell = spec, options, dict(params), engine, report
        self._gpus, self._events, self._device = gpus, events, engine.gpus[0]
        untuned_code = engine.begin(_untuned, spec, self._device.capability, self._params)
        space_of_spec = engine.begin(_space, spec, options.max_candidates)
        code = untuned_code()
        if isinstance(code, Dropped):
            raise TuneError(f"the generator's own choice can't be prepared: {code.reason}")
        open_with(opening(spec, params, options.seed, Trial(Candidate(0), code).message))
        space, count, choice = space_of_spec()
        first = [Candidate(count + number, schedules) for number, schedules in enumerate(dict.fromkeys(known))]
        considered = (*first, *space[1:])[: options.max_candidates or None]
        self._strategy = STRATEGIES[options.strategy](considered, options.seed)
        self._proposed_order: dict[Candidate, int] = {}
        of = conditions(spec, self._device, self._params)
        journal = Journal(of.path, resume=options.resume, conditions=of)
        self._standings = Standings(Trial(space[0], code), choice, journal, Progress(candidates=count))
        self._preparing: dict[Future[Prepared | Dropped], Candidate] = {}
        self._pace = Pace()
        self._ready: list[Trial] = []
        self._timing = 0  # requests for times of candidates without an answer yet
        self._claimed: list[Trial] = []  # by other searches with the same journal
        self._is_untuned_at_fault = False
        self._deadline: float | None = None  # once a GPU is assigned
        self._earlier = EarlierCandidates(frozenset([code.digest]), code.cost)
        self._is_exhausted = False

    def outcome(self) -> Outcome:
        with ExitStack() as stack:
            stack.callback(self._standings.release)
            pool = stack.enter_context(self._engine.pool())
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            self._engine.subscribe(lambda: self._events.put(_look_again))
            self._time_untuned(pool)
            self._run(pool)
            self._engine.release()
            runs = self._finals()
        failures = tuple(self._standings.failures)
        return Outcome(self._entry(runs), self._standings.progress, failures, dict(self._gpus.left_out))

    def _left_s(self) -> float:
        """Seconds of the budget that are left."""
        if self._deadline is None and self._engine.assigned:
            self._deadline = monotonic() + self._options.budget_s
        return self._options.budget_s if self._deadline is None else self._deadline - monotonic()

    def _time_untuned(self, pool: Executor) -> None:
        """Times the generator's choice on every GPU that the search has, or, if none of them counts, on the next ones.
        Prepares candidates meanwhile."""
        untuned = self._standings.untuned
        while not (untuned.is_timed or self._is_untuned_at_fault) and self._gpus.usable():
            if self._left_s() > 0:
                self._prepare_more(pool)
            if self._gpus.is_opening():
                self._wait()
            elif idle := self._gpus.idle():
                self._time_untuned_once(idle)
            else:
                self._gpus.open()
                self._wait()
        if not untuned.is_timed:
            self._engine.require()  # no fault of GPUs if the engine was lost
            if self._gpus.left_out:
                raise TuneError(f"no GPU is left{self._gpus.reasons()}")
            raise TuneError(f"the generator's own choice can't be timed: {self._gpus.faults[0]}")
        if not untuned.cold:
            raise TuneError("nothing runs at these sizes")

    def _time_untuned_once(self, workers: list[Worker]) -> None:
        untuned, answers = self._standings.untuned, dict[str, Message]()

        def then(worker: Worker, answer: Answer) -> None:
            if isinstance(answer, str) or answer["failed"]:
                self._gpus.faults.append(answer if isinstance(answer, str) else answer["failed"]["0"])
                untuned.interruptions += worker.was_interrupted
                is_gpu_at_fault = worker.is_lost or 0 < untuned.interruptions < _MAX_INTERRUPTIONS
                self._is_untuned_at_fault = self._is_untuned_at_fault or not is_gpu_at_fault
            else:
                answers[worker.gpu.uuid] = answer
                self._sample(worker.gpu, untuned, answer)

        for worker in workers:
            worker.submit(_request([untuned]), partial(then, worker))
        while any(worker.is_busy for worker in workers):
            self._wait()
        self._gpus.judge()
        for gpu, answer in answers.items():
            if gpu not in self._gpus.left_out:
                self._standings.take(untuned, self._standings.record(untuned, untuned, answer, gpu))
                break

    def _run(self, pool: Executor) -> None:
        """Searches until the budget is spent, or no candidate or no GPU is left."""
        while True:
            left = self._left_s()
            if left > 0:
                self._prepare_more(pool)
                self._gpus.open()
                self._time_more()
            waiting = self._preparing or self._ready or self._claimed
            if not self._timing and (left <= 0 or not waiting or not self._gpus.usable()):
                return
            if left < _FINAL_OPENING_S or self._is_exhausted:
                self._open_for_finals()
            self._wait()
            self._standings.progress.left_s = max(0.0, left)
            self._tell(self._standings.progress)

    def _open_for_finals(self) -> None:
        """Opens processes for the repeated runs of the final comparison, if there will be any."""
        best, untuned = self._standings.best, self._standings.untuned
        if best.cold * finals.MIN_SPEEDUP < untuned.cold:
            self._gpus.open_any(self._engine.final_gpus)

    def _prepare_more(self, pool: Executor) -> None:
        limit = self._engine.jobs + _WAITING_FOR_CORES
        gpus = max(1, len(self._engine.assigned))
        ahead = (
            self._pace.timed_meanwhile(gpus) + self._engine.jobs
            if self._strategy.is_adaptive
            else self._pace.timed_in(self._left_s(), gpus)
        )
        while not self._is_exhausted and len(self._preparing) < min(limit, ahead - len(self._ready)):
            candidate = self._strategy.ask()
            if candidate is None:
                self._is_exhausted = True
                return
            self._proposed_order[candidate] = len(self._proposed_order)
            capability = self._device.capability
            future = pool.submit(prepare, self._spec, candidate.schedules, capability, self._params, self._earlier)
            future.add_done_callback(self._pace.preparing())
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
        for worker in (worker for _ in range(self._engine.depth) for worker in self._gpus.idle()):
            if (trial := self._next()) is not None:
                best = self._standings.best
                self._timing += 1
                worker.submit(_request([trial, best]), partial(self._timed, worker, trial, best))

    def _next(self) -> Trial | None:
        """The next trial that no other search is timing. Those that others have timed meanwhile are taken over."""
        claimed, self._claimed = self._claimed, []
        while self._ready or claimed:
            trial = (self._ready or claimed).pop(0)
            if self._standings.claim(trial):
                self._claimed += claimed
                return trial
            if (record := self._standings.known(trial)) is not None:
                self._take(trial, record, is_new=False)
            else:
                self._claimed.append(trial)
        return None

    def _timed(self, worker: Worker, trial: Trial, baseline: Trial, answer: Answer) -> None:
        self._timing -= 1
        if not isinstance(answer, str):
            self._pace.timed(answer["seconds"])
        if worker.was_interrupted:
            trial.interruptions += 1
        if trial.interruptions == _MAX_INTERRUPTIONS:
            self._take(trial, Record(trial.code.digest, failed=f"its machine was lost {_MAX_INTERRUPTIONS} times"))
        elif worker.is_lost or worker.was_interrupted or self._is_out_after(worker.gpu, baseline, answer):
            self._ready.append(trial)  # retried, if possible on another GPU
        elif isinstance(answer, str):
            self._take(trial, Record(trial.code.digest, failed=answer))
        elif answer["failed"]:
            for failed in (trial, baseline):
                if reason := answer["failed"].get(str(failed.candidate.number)):
                    self._take(failed, Record(failed.code.digest, failed=reason))
        else:
            self._take(trial, self._standings.record(trial, baseline, answer, worker.gpu.uuid))

    def _is_out_after(self, gpu: Gpu, baseline: Trial, answer: Answer) -> bool:
        """Whether a GPU is left out, by the baseline's time in an answer."""
        if not isinstance(answer, str) and not answer["failed"]:
            self._sample(gpu, baseline, answer)
            self._gpus.judge()
        return gpu.uuid in self._gpus.left_out

    def _sample(self, gpu: Gpu, baseline: Trial, answer: Message) -> None:
        cold = answer["times"][str(baseline.candidate.number)][0]
        self._gpus.take_sample(gpu, baseline.code.digest, cold, answer)

    def _take(self, trial: Trial, record: Record, *, is_new: bool = True) -> None:
        self._standings.take(trial, record, is_new=is_new)
        self._strategy.tell(trial.candidate, None if record.failed else record.cold)

    def _wait(self) -> None:
        """Handles the next event, or returns after `_REPORT_INTERVAL_S`. Raises an exception if the engine was lost."""
        self._engine.require()
        try:
            event = self._events.get(timeout=_REPORT_INTERVAL_S)
        except Empty:
            return
        event()
        self._gpus.refuse_unusable()

    def _finals(self) -> Sequence[Mapping[int, Time]]:
        """Times of the final comparison: an interleaved run of the fastest on one GPU; on further ones a run of those
        that have beaten the generator's choice so far, while there are any. Times of the search if no GPU is left."""
        untuned = self._standings.untuned
        finalists = [trial for trial in self._standings.fastest() if trial is not untuned][:_FINALISTS]
        entrants = [*finalists, untuned]
        runs: list[Mapping[int, Time]] = []
        tried: set[Gpu] = set()
        while finalists and len(runs) < self._engine.final_gpus:
            waiting = [worker for worker in self._gpus.usable() if worker.gpu not in tried]
            if not waiting:
                break
            worker = min(waiting, key=lambda worker: (not worker.is_open, not worker.is_busy))  # busy: it opens
            tried.add(worker.gpu)
            if (run := self._final_run(worker, [*finalists, untuned])) is not None:
                runs.append(run)
                finalists = [trial for trial in finalists if finals.beats_untuned(run, trial.candidate.number)]
        if len(entrants) > 1 and not runs and self._engine.final_gpus > 1:
            self._engine.require()
            raise TuneError(f"no GPU is left for the final comparison{self._gpus.reasons()}; what was timed is kept")
        return runs or [{trial.candidate.number: Time(trial.cold, trial.warm) for trial in entrants}]

    def _final_run(self, worker: Worker, entrants: Sequence[Trial]) -> Mapping[int, Time] | None:
        """Times of an interleaved run; None if it failed or the GPU doesn't count."""
        answers: list[Answer] = []
        worker.submit(_request(entrants, is_final=True), answers.append)
        while not answers:
            self._wait()
        (answer,) = answers
        if isinstance(answer, str) or self._is_out_after(worker.gpu, self._standings.untuned, answer):
            return None
        return {int(number): Time(cold, warm) for number, (cold, warm) in answer["times"].items()} or None

    def _entry(self, runs: Sequence[Mapping[int, Time]]) -> Entry:
        trials, times = self._standings.trials, runs[0]
        winner = finals.best(runs)
        slower = [number for number in finals.order(runs) if number != winner]
        chosen = trials[winner].candidate.schedules
        return Entry(
            self._spec.kernel,
            spec_key(self._spec),
            self._spec.target,
            self._device.name,
            chosen,
            times[winner],
            times[0],
            __version__,
            not trials[winner].same_bits or may_reorder(self._spec, chosen),
            (trials[slower[0]].candidate.schedules, times[slower[0]]) if slower else None,
            tuple(sorted(self._params.items())),
            self._gpus.measured(),
        )


def _untuned(spec: Spec, capability: str, params: Mapping[str, int]) -> Prepared | Dropped:
    """Code of the generator's choice."""
    make_plan(spec)  # raises SpecError for what no schedule can fix
    return prepare(spec, (), capability, params)


def _space(spec: Spec, considered: int) -> tuple[tuple[Candidate, ...], int, Schedules]:
    """The search space, of which no more than the first ones are considered, 0 for all; how many it has; the schedules
    of the generator's choice."""
    space = candidates(spec)
    return space[: 1 + considered if considered else None], len(space), generators_choice(spec)


def _look_again() -> None:
    """Event that wakes a search."""


def _class(cost: float | None) -> int:
    """Logarithmic class of a modelled cost in seconds. Unknown costs come first."""
    return -1_000_000 if not cost else round(math.log(cost, _COST_RESOLUTION))


def _request(entrants: Sequence[Trial], *, is_final: bool = False) -> Message:
    codes = [trial.message for trial in entrants]
    if is_final:
        return request(codes, samples=_FINAL_SAMPLES, budget_us=_FINAL_BUDGET_US, hopeless=NEVER)
    return request(codes, samples=_SAMPLES, budget_us=_BUDGET_US, hopeless=_MAX_TIME_RATIO)
