"""The CPU device: builds a child process, passes it a job in a folder and reads the results."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cugen import temporary
from cugen.runtime.cpu import symbols
from cugen.runtime.cpu.build import Kind, build, has_one_worker
from cugen.runtime.cpu.jobfile import Settings, read_outputs, write_job
from cugen.runtime.cpu.launch_limits import launch_fault
from cugen.runtime.cpu.report import Report, fault_of, read_report
from cugen.runtime.cpu.source import declarations
from cugen.runtime.cpu.trace import Trace, fill_lines, read_table
from cugen.runtime.device import Buffer, Fault, Job, Outcome
from cugen.toolchain.errors import ToolMissing

_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclass(frozen=True, slots=True)
class _Result:
    buffers: dict[str, Buffer]
    report: Report
    fault: Fault | None
    compile_ms: float
    trace: Trace | None


class CpuDevice:
    """`sanitize` runs under AddressSanitizer and UndefinedBehaviorSanitizer; `races` detects data races in shared
    memory between the threads of a block, not between blocks of a cluster, and reads and writes of global memory that
    other threads write in no order by barriers, or fences and atomics, unless they write the same value. They exclude
    each other. `uninitialised`, with `races`: also reads of shared memory that holds no value, whatever becomes of it;
    some kernels with tiles larger than a matrix read such elements and drop what they give. `shuffle` seeds the order
    in which threads and blocks run. `workers` defaults to the available processors; runs with a sanitizer, race
    detection or clusters have one. A run longer than `limit_seconds` is a fault."""

    name = "cpu"
    capability = ""

    def __init__(
        self,
        *,
        sanitize: bool = False,
        races: bool = False,
        uninitialised: bool = False,
        shuffle: int | None = None,
        workers: int | None = None,
        limit_seconds: float = 300.0,
    ) -> None:
        if sanitize and races:
            raise ValueError("`sanitize` and `races` exclude each other: run twice")
        if uninitialised and not races:
            raise ValueError("`uninitialised` needs `races`")
        self._uninitialised = uninitialised
        self._kind = Kind.SANITIZED if sanitize else Kind.TRACED if races else Kind.FAST
        self._shuffle = shuffle
        self._workers = workers
        self._limit_seconds = limit_seconds

    def run(self, job: Job) -> Outcome:
        """Runs the launch list `job.repeat` times, until the first fault; the buffers are those after the first run.

        Times exclude uploads. RunError (CG5010) where a launch exceeds the limits of the manifest's target;
        CompileError and ToolMissing from the toolchain.
        """
        result = self._execute_job(job, self._kind, trace=False)
        faults = (result.fault,) if result.fault else ()
        return Outcome(result.buffers, tuple(result.report.times_ms), result.compile_ms, faults=faults)

    def trace(self, job: Job) -> Trace:
        """The trace of one unoptimised run: accesses to arguments, workspaces, shared memory, `__constant__` and
        `__device__` variables. RuntimeError for a fault; other errors as in `run`."""
        result = self._execute_job(job, Kind.TRACED, trace=True)
        if result.fault or result.trace is None:
            raise RuntimeError(f"no trace: {result.fault}")
        return result.trace

    def _execute_job(self, job: Job, kind: Kind, *, trace: bool) -> _Result:
        declared = declarations(job.source)
        program = build(job.source, job.manifest, declared, kind)
        is_serial = has_one_worker(job.manifest, kind)
        shared = _shared_arrays(program.path, declared.static, is_needed=is_serial)
        if refused := launch_fault(job.manifest, declared, shared):
            return _Result(dict(job.buffers), Report(), refused, program.seconds * 1e3, None)
        source_name = f"{job.manifest.kernel}.cu"
        lines = functools.partial(_lines, program.path, source_name)
        with temporary.working_folder() as folder:
            workers = 1 if is_serial else self._worker_count()
            settings = Settings(workers, is_serial, self._shuffle, trace, self._uninitialised)
            write_job(folder, job, settings, shared)
            status, errors, in_time = self._execute(program.path, folder)
            report = read_report(folder / "report.txt")
            fault = fault_of(status, report, errors, source_name, lines)
            if not in_time:
                fault = Fault("hang", f"the kernels did not end within {self._limit_seconds:g} s")
            records = _read_trace(folder, report, lines) if trace and fault is None else None
            buffers = read_outputs(folder, job)
        return _Result(buffers, report, fault, program.seconds * 1e3, records)

    def _worker_count(self) -> int:
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return self._workers or available or 1

    def _execute(self, program: Path, folder: Path) -> tuple[int, str, bool]:
        """Exit status and output of the child, and whether it ended within the time limit."""
        try:
            # Through a pipe: a wait that has a time limit and nothing to read polls at intervals of up to 50 ms.
            done = subprocess.run(
                [program, folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_SANITIZER_OPTIONS},
                timeout=self._limit_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return -1, (error.output or b"").decode(errors="replace"), False
        return done.returncode, done.stdout.decode(errors="replace"), True


def _shared_arrays(program: Path, names: tuple[str, ...], *, is_needed: bool) -> tuple[symbols.SharedArray, ...]:
    """The static shared arrays; () without nm, unless they are needed to run."""
    try:
        return symbols.shared_arrays(program, names)
    except ToolMissing:
        if is_needed:
            raise
        return ()


def _lines(program: Path, source_name: str, counters: Iterable[int]) -> dict[int, int]:
    return symbols.lines(program, counters, source_name)


def _read_trace(folder: Path, report: Report, lines: functools.partial[dict[int, int]]) -> Trace:
    table = read_table(folder / "trace.bin", report.offset)
    fill_lines(table, lines({int(counter): None for counter in table["counter"]}))
    return Trace(table, tuple(name for name, _ in report.arrays), tuple(shared for _, shared in report.arrays))
