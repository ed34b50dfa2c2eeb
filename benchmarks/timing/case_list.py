"""Runner for lists of benchmark cases on the GPU, each interleaved with its peers. Writes a file with a row per case.

The file is updated after each case; the row of a failed case has its error. `--resume` adds the cases that an earlier
run didn't reach.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import platform
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.timing.cases import Case
from benchmarks.timing.figures import about, save
from cugen.bench.measure import Options, bench
from cugen.bench.peers import Called
from cugen.bench.session import Session, session
from cugen.kernel import generate
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import target_for
from cugen.schedule import lock
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.toolchain.cuda import compile_cubin


def run(opened: Session, case: Case, options: argparse.Namespace, budget_us: float) -> dict[str, Any]:
    """Row of a case."""
    started = time.perf_counter()
    today = datetime.date.today().isoformat()
    goals = [asdict(goal) for goal in case.goals]
    row: dict[str, Any] = {"name": case.name, "group": case.group, "date": today, "goals": goals}
    try:
        spec = _spec_of(case, options.lock, opened.device, opened.capability)
        if options.lock:
            row["tuned"] = _is_tuned(spec)
        called, against = case.called, case.against
        if case.peer:
            inputs = ", ".join(array.name for array in spec.arrays if array.role in ("input", "baked"))
            text = f"def peer({inputs}):\n    return ({case.peer},)\n"
            names = {"torch": "torch", "triton": "torch.compile"}
            called += tuple(Called(name, names[name], text) for name in against if name in names)
            against = tuple(name for name in against if name not in names)
        chosen = Options(samples=options.samples, against=against, called=called, budget_us=budget_us)
        row |= bench(opened, spec, {}, chosen)
    except Exception as error:
        traceback.print_exc()
        row |= {"passed": False, "messages": [f"{type(error).__name__}: {error}"], "regimes": {}, "peers": []}
    row["seconds"] = time.perf_counter() - started
    return row


def machine(opened: Session) -> dict[str, Any]:
    """Machine, versions, date and command of the figures."""
    version = ctypes.c_int()
    driver().call("cuDriverGetVersion", ctypes.byref(version))
    known = {"capability": opened.capability, "driver": version.value, "python": platform.python_version()}
    return about(opened.device) | known


def main(doc: str | None, cases: Sequence[Case], *, budget_us: float, tuned: bool = False) -> int:
    """Command line of a list. `budget_us`: GPU time of one contender in one regime, in microseconds. `tuned`: whether
    the list accepts a lock file."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name or group contains TEXT")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no case after this time")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the file without errors")
    parser.set_defaults(lock="")
    if tuned:
        parser.add_argument("--lock", metavar="FILE", help="lock file with schedules of `cugen tune`")
    options = parser.parse_args()
    started = time.perf_counter()
    kept: dict[str, dict[str, Any]] = {}
    left: list[str] = []
    if options.resume and options.output.exists():
        kept = {row["name"]: row for row in json.loads(options.output.read_text())["cases"] if row["passed"]}
    selected = [case for case in cases if case.name not in kept and options.only in f"{case.group} {case.name}"]
    with session() as opened:
        content = machine(opened)
        rows = dict(kept)
        with ProcessPoolExecutor() as pool:  # fills the cache of machine code
            list(pool.map(partial(_compile, options.lock, opened.device, opened.capability), selected))
        for case in selected:
            if time.perf_counter() - started > options.seconds:
                left.append(case.name)
                continue
            rows[case.name] = run(opened, case, options, budget_us)
            print(_line(rows[case.name]), flush=True)
            listed = [rows[case.name] for case in cases if case.name in rows]
            save(options.output, {**content, "cases": listed})
    if left:
        print(f"{len(left)} cases were not started, from {left[0]} on; use --resume")
    return 0 if all(row["passed"] for row in rows.values()) else 1


def _spec_of(case: Case, lock_file: str, device: str, capability: str) -> Spec:
    """The spec for the device, as `cugen bench` takes it; with a lock file the spec that it tunes."""
    (spec,) = load_text(case.spec, file=f"{case.name}.yaml")
    return lock.apply(spec, lock.read(lock_file), device) if lock_file else spec.for_device(capability)


def _compile(lock_file: str, device: str, capability: str, case: Case) -> None:
    """Compiles a case; its errors are those of its row."""
    with suppress(Exception):
        kernel = generate(_spec_of(case, lock_file, device, capability), remarks="none")
        compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))


def _is_tuned(spec: Spec) -> bool:
    """Whether the lock file has a valid entry."""
    tuned = generate(spec, remarks="none").spec.tuned
    return tuned is not None and not tuned.refused


def _line(row: dict[str, Any]) -> str:
    if not row["regimes"]:
        return f"FAIL {row['name']}: {'; '.join(row['messages'])}"
    timed = {timed["name"]: timed for timed in row["regimes"]["cold"]}
    ours = timed["cugen"]
    peers = " ".join(f"{name} ×{times['ratio']:.2f}" for name, times in timed.items() if name != "cugen")
    absent = " ".join(f"[{peer['name']}: {peer['absent']}]" for peer in row["peers"] if peer["absent"])
    share = f"{ours['share_of_ceiling']:.3f} of {row['ceiling']}"
    return f"ok {row['name']:40} {ours['median_us']:10.1f} µs  {share}  {peers} {absent} {row['seconds']:.1f} s"
