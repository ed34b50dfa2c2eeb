"""Search for the fastest schedule of each kernel on this machine's GPUs. Every candidate is verified before it is
timed; the best one is written to cugen.lock, from which `cugen generate` takes it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import DONE, NO, files_of_the_user, wrong_call
from cugen.cli.numbers import natural, positive
from cugen.cli.outputs import refuse_no_file, refuse_unwritable
from cugen.cli.parallel.scheduler import add_scheduler_option, cluster_of
from cugen.cli.specs import add_options, for_device, load_files
from cugen.cli.text.layout import columns
from cugen.cli.text.terminal import note, show

if TYPE_CHECKING:
    from cugen.cluster.engine import ClusterEngine
    from cugen.schedule.lock import Lock
    from cugen.spec.model import Spec
    from cugen.tune.engine import Engine
    from cugen.tune.prediction import Prediction
    from cugen.tune.standings import Progress
    from cugen.tune.timing.gpus import Gpu
    from cugen.tune.tuner import Options, Outcome

_MAX_FAILURES_SHOWN = 5  # failed candidates that are listed
STRATEGIES = ("exhaustive", "near", "random", "model")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="spec file")
    parser.add_argument("--kernel", metavar="NAME", help="tune only this kernel")
    add_options(parser)
    parser.add_argument(
        "--budget",
        metavar="TIME",
        type=_seconds,
        default=60.0,
        help="search time per kernel, such as 90s, 5m or 1h (default: 60s)",
    )
    parser.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="exhaustive",
        help="exhaustive: all candidates, in the order of the cost models (default); near: alternates between "
        "these and the candidates most similar to the fastest so far; random: random order; "
        "model: proposals of a statistical model (needs optuna)",
    )
    parser.add_argument(
        "--lock", metavar="FILE", type=Path, help="lock file to write (default: cugen.lock in the spec's folder)"
    )
    parser.add_argument("--device-name", metavar="NAME", help="GPU model to use, if the machine has several")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="resume an earlier search of the kernel (default), or start over",
    )
    parser.add_argument(
        "--predict",
        metavar="NAME",
        help="time nothing: say what a GPU that nobody has tried would take, such as A100, from earlier searches on "
        "others, with the measured regret of such predictions; needs no GPU",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=positive, default=0, help="processes that plan and compile (default: one per core)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=natural, default=0, help="seed of the inputs and of random choices (default: 0)"
    )
    add_scheduler_option(parser)


def execute(args: argparse.Namespace) -> int:
    specs = tuple(spec for spec in load_files(args.specs, args) if args.kernel in (None, spec.kernel))
    if not specs:
        raise wrong_call(f"no spec has a kernel `{args.kernel}`")
    if args.predict:
        return _predict(specs, args)
    if not args.scheduler:
        from cugen.runtime.cuda.choice import without_pycuda

        gpus = _gpus(args.device_name)
        note(without_pycuda(), quiet=args.quiet)
        return _tune(specs, gpus, None, args)
    with cluster_of(args, module="cugen.cluster.engine") as cluster:
        from cugen.cluster.engine import ClusterEngine

        engine = ClusterEngine(cluster, args.device_name)
        for worker, reason in engine.unusable.items():
            note(f"left out: worker {worker}: {reason}", quiet=args.quiet)
        return _tune(specs, engine.gpus, engine, args)


def _tune(specs: Sequence[Spec], gpus: Sequence[Gpu], engine: ClusterEngine | None, args: argparse.Namespace) -> int:
    from cugen.schedule.lock import NAME, read
    from cugen.tune.lockfile import update
    from cugen.tune.timing import workers
    from cugen.tune.tuner import Options, TuneError

    specs = for_device(specs, gpus[0].capability, args)
    options = Options(
        args.budget, args.strategy, args.seed, args.jobs, resume=args.resume, gpus=tuple(gpus), command=workers.COMMAND
    )
    work = [(spec, _dynamic(spec, args), args.lock or Path(spec.dependencies[0]).parent / NAME) for spec in specs]
    for path in dict.fromkeys(path for _, _, path in work):  # before the search
        refuse_no_file("--lock", path)
        refuse_unwritable("--lock", path, path.parent, makes_folders=False)
    locks = {path: read(path) for _, _, path in work if path.exists()}  # reports an invalid lock file before the search
    displays = [_Display(spec.kernel, quiet=args.quiet) for spec, _, _ in work]
    searches = [
        partial(_searched, spec, options, params, display.show, locks.get(path))
        for (spec, params, path), display in zip(work, displays, strict=True)
    ]
    results = _one_by_one(searches) if engine is None else _on_cluster(engine, searches)
    status = DONE
    for (spec, _, path), display, result in zip(work, displays, results, strict=True):
        display.is_current = True
        try:
            outcome = result()
        except TuneError as error:
            note(f"error: {spec.kernel}: {error}")
            status = NO
            continue
        finally:
            display.clear()
        for gpu, reason in outcome.left_out.items():
            note(f"left out: {gpu}: {reason}", quiet=args.quiet)
        with files_of_the_user():
            update(path, [outcome.entry])
        show(_summary(outcome, spec, path, quiet=args.quiet))
    return status


def _predict(specs: Sequence[Spec], args: argparse.Namespace) -> int:
    from cugen.machine import UnknownDevice, device
    from cugen.schedule.lock import NAME, read
    from cugen.tune.prediction import mean, predict

    try:
        chosen = device(args.predict)
    except UnknownDevice as error:
        raise wrong_call(f"`--predict`: {error}") from None
    regrets: list[float] = []
    for spec in for_device(specs, chosen.target, args):
        if not chosen.is_of(spec.target):
            message = (
                f"`--predict {args.predict}`: {chosen.name} is {chosen.target}, {spec.kernel} is for {spec.target}"
            )
            raise wrong_call(message, f"give `--target {chosen.target}`")
        path = args.lock or Path(spec.dependencies[0]).parent / NAME
        prediction = predict(spec, chosen, _dynamic(spec, args), read(path) if path.exists() else None)
        regrets += prediction.regrets
        show(_prediction(prediction, quiet=args.quiet))
    average = mean(regrets)
    if len(specs) > 1 and average is not None:
        regret = f"{average:.3f} in geometric mean, {max(regrets):.3f} at most"
        show(f"{len(regrets)} predictions were measured: regret {regret}")
    return DONE


def _searched(
    spec: Spec,
    options: Options,
    params: Mapping[str, int],
    report: Callable[[Progress], None],
    lock: Lock | None,
    engine: Engine | None,
) -> Outcome:
    from cugen.tune.tuner import search

    return search(spec, replace(options, engine=engine), params, report, lock)


def _one_by_one(searches: Sequence[Callable[[Engine | None], Outcome]]) -> Iterator[Callable[[], Outcome]]:
    for search in searches:
        yield partial(search, None)


def _on_cluster(
    engine: ClusterEngine, searches: Sequence[Callable[[Engine | None], Outcome]]
) -> Iterator[Callable[[], Outcome]]:
    from cugen.cluster.searches import searched

    with searched(engine, searches) as futures:
        yield from (future.result for future in futures)


def _gpus(name: str | None) -> tuple[Gpu, ...]:
    from cugen.tune.timing.gpus import gpus

    available = gpus()
    chosen = tuple(gpu for gpu in available if name in (None, gpu.name))
    if not chosen:
        raise wrong_call(
            f"this machine has no GPU called {name}", f"it has {', '.join(sorted({gpu.name for gpu in available}))}"
        )
    return chosen


def _dynamic(spec: Spec, args: argparse.Namespace) -> Mapping[str, int]:
    from cugen.cli.dynamic import dynamic_values
    from cugen.cli.values import plain

    return plain(dynamic_values(spec, args))


class _Display:
    """Progress on standard error: on a terminal an updated line for the kernel whose result comes next, else one line
    for each new best time."""

    def __init__(self, kernel: str, *, quiet: bool) -> None:
        self._kernel, self._quiet, self._best = kernel, quiet, 0.0
        self.is_current = False
        self._is_live = sys.stderr.isatty() and not quiet

    def show(self, progress: Progress) -> None:
        text = (
            f"{self._kernel}: {progress.timed + progress.resumed} timed, {progress.failed} failed, "
            f"{progress.dropped} dropped of {progress.candidates}; best {progress.best_us:.4g} µs, "
            f"untuned {progress.untuned_us:.4g} µs"
        )
        if self._is_live:
            if not self.is_current:
                return
            line = f"{text}; {progress.left_s:.0f} s left"
            sys.stderr.write(f"\r\033[K{line[: (columns(sys.stderr) or len(line) + 1) - 1]}")
            sys.stderr.flush()
        elif progress.best_us != self._best:
            note(text, quiet=self._quiet)
        self._best = progress.best_us

    def clear(self) -> None:
        self.is_current = False
        if self._is_live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _summary(outcome: Outcome, spec: Spec, path: Path, *, quiet: bool) -> str:
    """Summary of a search."""
    from cugen.tune.lockfile import schedule_text, schedules_text
    from cugen.tune.space import generators_choice

    entry, progress = outcome.entry, outcome.progress
    ratio = entry.untuned.cold / entry.time.cold
    head = (
        f"{entry.kernel}: {entry.time.cold:.4g} µs on {entry.device}, {ratio:.2f} times as fast as untuned"
        if entry.schedules
        else f"{entry.kernel}: the generator's own choice is the fastest on {entry.device}, {entry.time.cold:.4g} µs"
    )
    if quiet:
        return head
    chosen = entry.schedules or generators_choice(spec)
    lines = [head, *(f"  {output}: {schedule_text(schedule)}" for output, schedule in chosen)]
    if entry.reorders:
        lines.append("  floating-point sums are reordered: results differ from the untuned kernel in the last bits")
    if entry.runner_up:
        lines.append(f"  runner-up: {entry.runner_up[1].cold:.4g} µs")
    resumed = f", {progress.resumed} of them earlier" if progress.resumed else ""
    lines.append(
        f"  {progress.timed + progress.resumed} of {progress.candidates} candidates timed{resumed}; {progress.dropped} "
        f"dropped before timing, {progress.failed} failed"
    )
    for schedules, reason in outcome.failures[:_MAX_FAILURES_SHOWN]:
        lines.append(f"    failed: {schedules_text(schedules) or 'the generator’s own choice'}: {reason}")
    return "\n".join([*lines, f"  wrote {path}"])


def _prediction(prediction: Prediction, *, quiet: bool) -> str:
    """What an untried GPU would take."""
    from cugen.tune.lockfile import schedule_text

    if not prediction.source:
        head = f"{prediction.kernel}: the generator's own choice on {prediction.device}: no other GPU was timed"
    else:
        time = "an unknown time" if prediction.microseconds is None else f"about {prediction.microseconds:.4g} µs"
        head = f"{prediction.kernel}: {time} on {prediction.device}, as the nearest that was timed: {prediction.source}"
    if quiet:
        return head
    lines = [head, *(f"  {output}: {schedule_text(schedule)}" for output, schedule in prediction.schedules)]
    for validation in prediction.held_back:
        pair = f"on {validation.device}, predicted from {validation.source}"
        if validation.regret is None:
            lines.append(f"  regret: unknown {pair}: the schedule wasn't timed there")
            continue
        error = "" if validation.error is None else f"; time predicted to {validation.error:.2f} of the measured one"
        lines.append(f"  regret: {validation.regret:.3f} {pair}, of {validation.timed} schedules timed there{error}")
    if not prediction.held_back:
        lines.append("  regret: unknown: it is measured where a kernel was timed on two GPUs")
    return "\n".join(lines)


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"expected a time such as 90s or 5m, not {text!r}")
    return float(match[1]) * _SECONDS[match[2]]
