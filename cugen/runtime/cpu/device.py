"""The CPU as a device: builds the child, gives it a job in a folder, reads what came of it."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cugen.runtime.cpu import symbols
from cugen.runtime.cpu.build import Kind, build, has_one_worker
from cugen.runtime.cpu.jobfile import Settings, read_outputs, write_job
from cugen.runtime.cpu.report import Report, fault_of, read_report
from cugen.runtime.cpu.source import declarations
from cugen.runtime.cpu.trace import Trace, fill_lines, read_table
from cugen.runtime.device import Buffer, Fault, Job, Outcome

_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclass(frozen=True, slots=True)
class _Played:
    buffers: dict[str, Buffer]
    report: Report
    fault: Fault | None
    compile_ms: float
    trace: Trace | None


class CpuDevice:
    """`sanitize` runs under AddressSanitizer and UndefinedBehaviorSanitizer; `races` looks for two threads of a block
    that touch the same byte of shared memory with no barrier between. They exclude each other. `shuffle` seeds the
    order in which the threads of a block, and blocks, run. `workers` defaults to the processors of this process; a
    sanitised or watched run has one, and so has one with clusters. Blocks of a cluster aren't watched for races with
    each other. A run that takes longer than `limit_seconds` is a fault."""

    name = "cpu"

    def __init__(
        self,
        *,
        sanitize: bool = False,
        races: bool = False,
        shuffle: int | None = None,
        workers: int | None = None,
        limit_seconds: float = 300.0,
    ) -> None:
        if sanitize and races:
            raise ValueError("a run is either sanitised or watched for races: run twice")
        self._kind = Kind.SANITIZED if sanitize else Kind.TRACED if races else Kind.FAST
        self._shuffle = shuffle
        self._workers = workers
        self._limit_seconds = limit_seconds

    def run(self, job: Job) -> Outcome:
        """Plays the launch list `job.repeat` times; the first play gives the buffers and ends at the first fault.

        RunError (CG5010) where a launch asks for more than the manifest's target has; CompileError and ToolMissing
        from the toolchain. Times don't count uploads.
        """
        played = self._play(job, self._kind, trace=False)
        faults = (played.fault,) if played.fault else ()
        return Outcome(played.buffers, tuple(played.report.times_ms), played.compile_ms, faults=faults)

    def trace(self, job: Job) -> Trace:
        """Every access of the kernels to arguments, workspaces, `__constant__` and `__device__` variables and shared
        memory, in one play without optimisation. RuntimeError with the fault where there was one; else as `run`."""
        played = self._play(job, Kind.TRACED, trace=True)
        if played.fault or played.trace is None:
            raise RuntimeError(f"no trace: {played.fault}")
        return played.trace

    def _play(self, job: Job, kind: Kind, *, trace: bool) -> _Played:
        found = declarations(job.source)
        program = build(job.source, job.manifest, found, kind)
        has_one = has_one_worker(job.manifest, kind)
        shared = symbols.shared_arrays(program.path, found.static) if has_one else ()
        source_name = f"{job.manifest.kernel}.cu"
        lines = functools.partial(_lines, program.path, source_name)
        with tempfile.TemporaryDirectory(prefix="cugen-") as name:
            folder = Path(name)
            write_job(folder, job, Settings(1 if has_one else self._worker_count(), self._shuffle, trace), shared)
            status, errors, in_time = self._execute(program.path, folder)
            report = read_report(folder / "report.txt")
            fault = fault_of(status, report, errors, source_name, lines)
            if not in_time:
                fault = Fault("hang", f"the kernels did not end within {self._limit_seconds:g} s")
            found_trace = _read_trace(folder, report, lines) if trace and fault is None else None
            buffers = read_outputs(folder, job)
        return _Played(buffers, report, fault, program.seconds * 1e3, found_trace)

    def _worker_count(self) -> int:
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return self._workers or available or 1

    def _execute(self, program: Path, folder: Path) -> tuple[int, str, bool]:
        """The child's exit status, its standard error, and whether it ended in time."""
        with (folder / "errors.txt").open("w+b") as errors:
            try:
                status = subprocess.run(
                    [program, folder],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env={**os.environ, **_SANITIZER_OPTIONS},
                    timeout=self._limit_seconds,
                    check=False,
                ).returncode
                in_time = True
            except subprocess.TimeoutExpired:
                status, in_time = -1, False
            errors.seek(0)
            return status, errors.read().decode(errors="replace"), in_time


def _lines(program: Path, source_name: str, counters: Iterable[int]) -> dict[int, int]:
    return symbols.lines(program, counters, source_name)


def _read_trace(folder: Path, report: Report, lines: functools.partial[dict[int, int]]) -> Trace:
    table = read_table(folder / "trace.bin", report.offset)
    fill_lines(table, lines({int(counter): None for counter in table["counter"]}))
    return Trace(table, tuple(name for name, _ in report.arrays), tuple(shared for _, shared in report.arrays))
