"""Tunes GEMMs of drawn shapes with `--scheduler local`, on all GPUs of this host and on one of them.

    python -m benchmarks.cluster.cluster docs/results/cluster_h100.json [--gemms 24] [--candidates 20] [--seed 1]

Both searches consider the same candidates of each GEMM, and start with an empty cache: no machine code, no journal.
Prints how many times as fast all GPUs are, which share of that time each one was in use (opening a search, which
checks its first kernel, timing, finals), and why it was idle (gpu_use.py). Then the winners of both are timed
again, interleaved on one GPU, where their schedules differ. The file is updated after each part.

With `--simulated` it needs no GPU and few cores: those of `simulated.py` only sleep, and what the search itself costs
is left.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from distributed import get_task_stream

import cugen
from benchmarks.cluster.gpu_use import GpuUse, first_end, uses
from benchmarks.cluster.simulated import Site, simulation
from benchmarks.timing.cases import spec_text
from benchmarks.timing.figures import command, save
from cugen.cluster.connection import LOCAL, Cluster, connected
from cugen.cluster.engine import ClusterEngine
from cugen.cluster.mapping import mapped
from cugen.cluster.searches import searched
from cugen.schedule.lock import Entry
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.tune import Options, Outcome, search
from cugen.tune.engine import Engine
from cugen.tune.timing.comparison import compare

TYPES = ("float32", "bfloat16", "float16")
_STEP = 64  # of M, N and K
_UNLIMITED_S = 3600.0  # the candidates are the budget
_SAME = 0.01  # ratio of times, less one


@dataclass(frozen=True)
class Part:
    """The tuning of all GEMMs on some GPUs. `uses`: of each GPU. `first_answer_s`, `first_time_s`: seconds until a GPU
    was first used, and until it had timed something. `cpu_tasks_s`: seconds of each task on CPU workers, most of which
    prepare a candidate. `caller_s`: seconds of a core that this process took."""

    gpus: int
    workers: int
    started_s: float
    seconds: float
    uses: Sequence[GpuUse]
    first_answer_s: float
    first_time_s: float
    caller_s: float
    cpu_tasks_s: Sequence[float]
    outcomes: Sequence[Outcome]

    @property
    def cpu_busy(self) -> float:
        """Share of the time of all CPU workers that tasks took."""
        return sum(self.cpu_tasks_s) / (self.seconds * self.workers)

    @property
    def entries(self) -> Sequence[Entry]:
        return [outcome.entry for outcome in self.outcomes]

    def content(self) -> dict[str, Any]:
        progresses = [outcome.progress for outcome in self.outcomes]
        left_out = {gpu: reason for outcome in self.outcomes for gpu, reason in outcome.left_out.items()}
        return {
            "gpus": self.gpus,
            "cpu_workers": self.workers,
            "start_seconds": self.started_s,
            "seconds": self.seconds,
            "seconds_to_the_first_answer": self.first_answer_s,
            "seconds_to_the_first_time": self.first_time_s,
            "caller_core_seconds": self.caller_s,
            "caller_core_milliseconds_per_task": self.caller_s / len(self.cpu_tasks_s) * 1e3,
            "busy": [use.busy for use in self.uses],
            "uses": [use.content() for use in self.uses],
            "cpu_workers_busy": self.cpu_busy,
            "seconds_of_a_cpu_task": fmean(self.cpu_tasks_s),
            "timed": sum(progress.timed for progress in progresses),
            "dropped": sum(progress.dropped for progress in progresses),
            "failed": sum(progress.failed for progress in progresses),
            "left_out": left_out,
            "kernels": {entry.kernel: [entry.untuned.cold, entry.time.cold] for entry in self.entries},
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--gemms", type=int, default=24)
    parser.add_argument("--candidates", type=int, default=20, help="of each GEMM, besides the generator's choice")
    parser.add_argument("--sizes", type=int, nargs=2, default=(1024, 6144), help="the least and the most of M, N and K")
    parser.add_argument("--seed", type=int, default=1, help="of the shapes")
    parser.add_argument("--simulated", action="store_true", help="GPUs and compilers that only sleep")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.simulated:
            stack.enter_context(simulation(Site()))
        return measured(options)


def measured(options: argparse.Namespace) -> int:
    """Tunes on all GPUs and on one, and saves what came out."""
    texts = drawn(Random(options.seed), options.gemms, *options.sizes)
    content: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "cugen": cugen.__version__,
        "command": command(),
        "cores": len(os.sched_getaffinity(0)),
        "candidates": options.candidates,
    }
    if options.simulated:
        content["simulated"] = asdict(Site())
    with empty_cache(), started() as (cluster, seconds):
        engine = ClusterEngine(cluster)
        content["device"] = engine.gpus[0].name
        specs = [spec.for_device(engine.gpus[0].capability) for text in texts for spec in load_text(text)]
        everywhere = tuned(cluster, engine, specs, options.candidates, seconds)
        content["all"] = everywhere.content()
        save(options.output, content)
    with empty_cache(), started() as (cluster, seconds):
        engine = ClusterEngine(cluster)
        every_worker = engine.addresses
        engine.gpus = engine.gpus[:1]
        alone = tuned(cluster, engine, specs, options.candidates, seconds)
        content |= {"one": alone.content(), "speed_up": alone.seconds / everywhere.seconds}
        print(f"{everywhere.gpus} GPUs are {content['speed_up']:.2f} times as fast as one", flush=True)
        save(options.output, content)
        if options.simulated:
            return 0
        content["winners"] = ratios(cluster, specs, everywhere, alone, every_worker)
        save(options.output, content)
    differences = [abs(ratio - 1) for ratio in content["winners"].values()]
    many = sum(difference > _SAME for difference in differences)
    print(f"winners differ by at most {max(differences, default=0.0):.2%}, {many} by more than {_SAME:.0%}")
    return 0


def drawn(random: Random, count: int, smallest: int, largest: int) -> list[str]:
    """Specs of GEMMs whose M, N and K are log-uniform, in multiples of 64; each type in turn."""
    texts = []
    for number in range(count):
        dtype = TYPES[number % len(TYPES)]
        m, n, k = (int(smallest * (largest / smallest) ** random.random()) // _STEP * _STEP for _ in range(3))
        arrays = {"A": f"[M, K] | {dtype}", "B": f"[K, N] | {dtype}", "C": f"[M, N] | {dtype}"}
        kernel = f"gemm_{number}_{m}_{n}_{k}"
        texts.append(spec_text(kernel, {"M": m, "N": n, "K": k}, arrays, "C[m, n] = sum(A[m, k] * B[k, n], k)"))
    return texts


@contextmanager
def empty_cache() -> Iterator[None]:
    """A cache folder of its own, for this process and those that it starts."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("CUGEN_CACHE_DIR")
        os.environ["CUGEN_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("CUGEN_CACHE_DIR")
            if before is not None:
                os.environ["CUGEN_CACHE_DIR"] = before


@contextmanager
def started() -> Iterator[tuple[Cluster, float]]:
    """The cluster of this machine, and the seconds until it was there."""
    begun = time.perf_counter()
    with connected(LOCAL) as cluster:
        yield cluster, time.perf_counter() - begun


def tuned(cluster: Cluster, engine: ClusterEngine, specs: Sequence[Spec], candidates: int, started_s: float) -> Part:
    """Tunes all specs at once, and says what came out as it comes."""
    options = Options(budget_s=_UNLIMITED_S, max_candidates=candidates)
    searches: list[Callable[[Engine], Outcome]] = [partial(_search, spec, options) for spec in specs]
    print(f"{len(specs)} GEMMs on {len(engine.gpus)} GPUs and {engine.jobs} CPU workers:", flush=True)
    begun, begun_at, core_begun = time.perf_counter(), time.time(), time.process_time()
    with get_task_stream(cluster.client) as stream, searched(engine, searches) as futures:
        for future in futures:
            future.add_done_callback(partial(_tell, begun))
        outcomes = [future.result() for future in futures]
        seconds = time.perf_counter() - begun
    ended_at, caller_s = begun_at + seconds, time.process_time() - core_begun
    used = uses(stream.data, engine.addresses, begun_at, ended_at)
    first_answer = first_end(stream.data, begun_at, ended_at)
    first_time = first_end(stream.data, begun_at, ended_at, "timing")
    timed = sum(outcome.progress.timed for outcome in outcomes)
    cpu_tasks = [
        part["stop"] - part["start"]
        for task in stream.data
        for part in task["startstops"]
        if task["worker"] not in engine.addresses
        and part["action"] == "compute"
        and begun_at <= part["start"] <= begun_at + seconds
    ]
    cpu_workers = len(cluster.cpu_workers())
    done = Part(
        len(engine.gpus),
        cpu_workers,
        started_s,
        seconds,
        used,
        first_answer,
        first_time,
        caller_s,
        cpu_tasks,
        outcomes,
    )
    print(
        f"{seconds:.1f} s, {timed} timed, the first answer after {first_answer:.1f} s, the first time after "
        f"{first_time:.1f} s; CPU workers busy {done.cpu_busy:.0%}, {fmean(cpu_tasks):.2f} s for each of "
        f"{len(cpu_tasks)} tasks, for each of which the caller took {caller_s / len(cpu_tasks) * 1e3:.1f} ms of a core",
        *(f"  GPU {number} {use}" for number, use in enumerate(used)),
        sep="\n",
        flush=True,
    )
    return done


def _search(spec: Spec, options: Options, engine: Engine) -> Outcome:
    return search(spec, Options(options.budget_s, engine=engine, max_candidates=options.max_candidates))


def _tell(begun: float, done: Future[Outcome]) -> None:
    if not done.cancelled() and done.exception() is None:
        entry, progress = done.result().entry, done.result().progress
        print(
            f"{time.perf_counter() - begun:6.1f} s  {entry.kernel:26} {entry.untuned.cold:9.2f} µs untuned "
            f"{entry.time.cold:9.2f} µs tuned, {progress.timed} timed, {progress.dropped} dropped, "
            f"{progress.failed} failed",
            flush=True,
        )


def ratios(
    cluster: Cluster, specs: Sequence[Spec], first: Part, second: Part, workers: Sequence[str]
) -> dict[str, float]:
    """Time of the first winner over that of the second, interleaved on one GPU, of the GEMMs whose winners differ."""
    pairs = [
        (spec, *entries)
        for spec, *entries in zip(specs, first.entries, second.entries, strict=True)
        if entries[0].schedules != entries[1].schedules
    ]
    print(f"{len(specs) - len(pairs)} of {len(specs)} GEMMs have equal winners; the ratios of the others:", flush=True)
    ratio_by_kernel = {}
    for (spec, _, _), ratio in zip(pairs, mapped(cluster, _ratio, pairs, gpu_workers=workers), strict=True):
        ratio_by_kernel[spec.kernel] = ratio
        print(f"{spec.kernel:26} {ratio:.4f}", flush=True)
    return ratio_by_kernel


def _ratio(pair: tuple[Spec, Entry, Entry]) -> float:
    """Runs on a GPU worker."""
    spec, *entries = pair
    times = compare(spec, [entry.schedules for entry in entries])
    return times[0].cold / times[1].cold


if __name__ == "__main__":
    sys.exit(main())
