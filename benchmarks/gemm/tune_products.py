"""Tunes the GEMMs of products.py that have tuned schedules, and writes a lock file.

    python -m benchmarks.gemm.tune_products benchmarks/gemm/cugen.lock --budget 120 --seconds 400
    python -m benchmarks.gemm.products docs/results/products_h200.json --lock benchmarks/gemm/cugen.lock

GEMMs without an entry come first. Every search starts with the schedules of the lock file and resumes an earlier
search, so that several calls can share the work.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.gemm.products_cases import tuned
from cugen.schedule.lock import Lock, read
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.tune import Options, Outcome, TuneError, search, update
from cugen.tune.lockfile import schedules_text
from cugen.tune.space import generators_choice
from cugen.tune.timing.gpus import gpus


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="time of each search")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cases whose name or group contains TEXT, or one of several"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no search after this time")
    options = parser.parse_args()
    started = time.perf_counter()
    wanted = options.only.split(",")
    cases = [case for case in tuned() if any(text in f"{case.group} {case.name}" for text in wanted)]
    specs = [spec for case in cases for spec in load_text(case.spec)]
    left: list[str] = []
    failed = False
    lock = read(options.lock) if options.lock.exists() else Lock("")
    for spec in in_turn(specs, lock, gpus()[0].name):
        begun = time.perf_counter()
        if begun - started > options.seconds:
            left.append(spec.kernel)
            continue
        try:
            outcome = search(spec, Options(budget_s=options.budget, strategy="near"), lock=lock)
        except TuneError as error:
            print(f"FAIL {spec.kernel}: {error}", flush=True)
            failed = True
            continue
        update(options.lock, [outcome.entry])
        print(f"{line(spec, outcome)} {time.perf_counter() - begun:.0f} s", flush=True)
    if left:
        print(f"{len(left)} searches were not started, from {left[0]} on; those without an entry come first next time")
    return 1 if failed else 0


def in_turn(specs: Iterable[Spec], lock: Lock, device: str) -> list[Spec]:
    """Specs without an entry first."""
    return sorted(specs, key=lambda spec: any(entry.device == device for entry in lock.of(spec)))


def line(spec: Spec, outcome: Outcome) -> str:
    """Summary line of a search."""
    entry, progress = outcome.entry, outcome.progress
    chosen = schedules_text(entry.schedules or generators_choice(spec))
    return (
        f"{entry.kernel:24} {entry.untuned.cold:10.2f} µs untuned {entry.time.cold:10.2f} µs tuned  "
        f"{'' if entry.schedules else 'as untuned: '}{chosen}  {progress.timed + progress.resumed} of "
        f"{progress.candidates} timed, {progress.dropped} dropped, {progress.failed} failed"
    )


if __name__ == "__main__":
    sys.exit(main())
