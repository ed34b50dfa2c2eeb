"""Benchmark of one kernel: verified, then timed interleaved with its ceilings and peers. Makes the object of
`cugen bench --json`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cugen.abi.manifest import ScalarArgument
from cugen.abi.sizes import evaluate_all
from cugen.analysis.launches.operations import work
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import steps
from cugen.bench.buffers import Buffers
from cugen.bench.check import check, check_as_run, reruns
from cugen.bench.libraries import Absent, Library, library
from cugen.bench.peers import Called, PeerReport, enter, is_product
from cugen.bench.protocol import SAMPLES, Contender, Plan, Times, measure
from cugen.bench.session import Session
from cugen.kernel import Kernel, generate
from cugen.machine.occupancy import occupancy
from cugen.runtime.call.callable import GpuFunction
from cugen.runtime.gpu import GpuDevice, target_for
from cugen.runtime.inputs import draw, known_params
from cugen.spec.model import Spec
from cugen.toolchain.cuda import Cubin, compile_cubin

OURS, COPY, READ = "cugen", "copy", "read"
_RERUNS, _RERUNS_US = 100, 2e5
_MAX_WRITE_SHARE_FOR_READ_CEILING = 1 / 16  # of all bytes; below it the ceiling is a read, else a copy (heuristic)

Content = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Options of a benchmark. `against`: libraries torch, cupy, triton. `called`: peers given as source text.
    `budget_us`: limit of one contender's GPU time, in microseconds."""

    samples: int = SAMPLES
    against: tuple[str, ...] = ()
    called: tuple[Called, ...] = ()
    seed: int = 0
    budget_us: float = 2e6


def bench(session: Session, spec: Spec, dynamic: Mapping[str, int], options: Options) -> Content:
    """Measures one kernel at the sizes of its spec. `dynamic`: values of dynamic params. A kernel with wrong results is
    not timed."""
    started = time.perf_counter()
    kernel = generate(spec, remarks="none")
    generated = time.perf_counter() - started
    target = target_for(kernel.manifest, session.capability)
    cubin = compile_cubin(kernel.source, kernel.name, target)
    params = known_params(spec, dynamic)
    buffers = Buffers(session, spec, kernel.manifest, params, options.seed)
    try:
        ours, scalars = own_contender(session, spec, kernel, buffers, dynamic, options.seed)
        ours.run(0)
        verdict = check(session, spec, buffers, dynamic, scalars, options.seed)
        if verdict.passed:
            verdict = check_as_run(kernel, GpuDevice(), buffers, dynamic, options.seed) or verdict
        content: Content = {
            "kernel": kernel.name,
            "device": session.device,
            "target": target,
            "params": params,
            "families": [launch.family for launch in kernel.plan.kernels],
            "passed": verdict.passed,
            "checked": verdict.checked,
            "max_abs_error": verdict.max_abs_error,
            "tolerance": verdict.tolerance,
            "messages": list(verdict.messages),
            "bytes": buffers.moved_bytes,
            "bytes_written": buffers.written_bytes,
            "flop": _flop(kernel, params),
            "sets": buffers.count,
            "flushed": not buffers.exceeds_the_cache,
            "generate_ms": generated * 1e3,
            "compile_ms": cubin.seconds * 1e3,
            "compile_cached": cubin.cached,
            "launches": _launches(kernel, params, cubin, target),
            "reruns": 0,
            "peers": [],
            "regimes": {},
        }
        if verdict.passed:
            content |= _compared(session, spec, buffers, ours, scalars, content, options)
            content |= _rerun(session, buffers, ours, content)
        return content
    finally:
        buffers.release()


def _rerun(session: Session, buffers: Buffers, ours: Contender, content: Content) -> Content:
    """Checks bitwise reproducibility between runs, with fewer runs of slow kernels."""
    took = next(row["median_us"] for row in content["regimes"]["cold"] if row["name"] == OURS)
    times = int(min(_RERUNS, max(2, _RERUNS_US / max(took, 1.0))))
    messages = reruns(session, buffers, ours.run, times)
    return {"reruns": times, "passed": not messages, "messages": [*content["messages"], *messages]}


def _compared(
    session: Session,
    spec: Spec,
    buffers: Buffers,
    ours: Contender,
    scalars: Mapping[str, int | float | bool],
    content: Content,
    options: Options,
) -> Content:
    """Times the kernel with all peers; a library that can't take part is listed with its reason."""
    has_product = is_product(spec, buffers.params, scalars)
    peers: list[tuple[str, Called | None]] = [(name, None) for name in options.against]
    peers += [(peer.library, peer) for peer in options.called]
    if has_product and not peers:
        peers = [("torch", None)]  # the ceiling of a GEMM, if installed
    reports: list[PeerReport] = []
    rivals: list[Contender] = []
    libraries: list[Library] = []
    try:
        for name, called in peers:
            try:
                libraries.append(library(name, session.stream_handle))
            except Absent as reason:
                reports.append(PeerReport(called.name if called else name, "", "", absent=str(reason)))
                continue
            report, rival = enter(libraries[-1], spec, buffers, scalars, called)
            reports.append(report)
            rivals += [rival] if rival else []
        ceiling = _ceiling(buffers, rivals, is_product=has_product)
        timed = _timed(session, buffers, [ours, *rivals], content, ceiling, options)
        return {"peers": [asdict(report) for report in reports], **timed}
    finally:
        rivals.clear()  # frees their results
        for used in libraries:
            used.release()


def _ceiling(buffers: Buffers, rivals: Sequence[Contender], *, is_product: bool) -> str:
    """Name of the contender that sets the ceiling: the first peer for a GEMM, else a device copy or read."""
    if is_product and rivals:
        return rivals[0].name
    return READ if buffers.written_bytes < _MAX_WRITE_SHARE_FOR_READ_CEILING * buffers.moved_bytes else COPY


def _timed(
    session: Session,
    buffers: Buffers,
    runners: Sequence[Contender],
    content: Content,
    ceiling: str,
    options: Options,
) -> Content:
    half = -(-buffers.moved_bytes // 2)
    target = session.allocate(half * buffers.count)
    flushed = 0 if buffers.exceeds_the_cache else session.allocate(3 * session.l2_bytes)
    limit = buffers.set_bytes
    contenders = [
        *runners,
        Contender(COPY, lambda n: session.copy(target + n * half, buffers.start(n), min(half, limit))),
    ]
    if ceiling == READ:
        contenders.append(Contender(READ, lambda n: session.read(buffers.start(n), min(buffers.moved_bytes, limit))))
    plan = Plan(
        sets=buffers.count,
        flush=(lambda: session.read(flushed, 3 * session.l2_bytes)) if flushed else None,
        samples=options.samples,
        budget_us=options.budget_us,
    )
    try:
        late = session.late
        times_by_regime = measure(contenders, session, plan)
        late = session.late - late
    finally:
        session.synchronize()
        session.release(target)
        if flushed:
            session.release(flushed)
    return {
        "ceiling": ceiling,
        "late_batches": late,
        "regimes": {regime: _regime(times, content, ceiling) for regime, times in times_by_regime.items()},
    }


def _regime(times: Mapping[str, Times], content: Content, ceiling: str) -> list[Content]:
    """Row of each contender. Ratios of medians: `share_of_ceiling` is the ceiling's time over the row's, `ratio` the
    row's time over cugen's."""
    roof, ours = times.get(ceiling), times.get(OURS)
    return [
        {
            "name": name,
            "median_us": measured.median,
            "p10_us": measured.p10,
            "p90_us": measured.p90,
            "samples": len(measured.samples),
            "gb_per_s": content["bytes"] / measured.median / 1e3 if measured.median else None,
            "gflop_per_s": content["flop"] / measured.median / 1e3 if content["flop"] and measured.median else None,
            "share_of_ceiling": roof.median / measured.median if roof and measured.median else None,
            "ratio": measured.median / ours.median if ours and ours.median else None,
        }
        for name, measured in times.items()
    ]


def own_contender(
    session: Session, spec: Spec, kernel: Kernel, buffers: Buffers, dynamic: Mapping[str, int], seed: int
) -> tuple[Contender, Mapping[str, int | float | bool]]:
    """Launches of the kernel on each set of its buffers, and its scalars."""
    function = GpuFunction(kernel.source, kernel.manifest)
    # The scalars of `cugen run` with this seed, without drawing the arrays.
    drawn = draw(replace(spec, arrays=(), statements=()), buffers.params, seed).scalars
    scalars = {a.name: drawn[a.name] for a in kernel.manifest.arguments if isinstance(a, ScalarArgument)}
    calls = [{**buffers.arrays(number), **scalars, **dynamic} for number in range(buffers.count)]
    return Contender(OURS, lambda number: function(stream=session.stream, **calls[number])), scalars


def _flop(kernel: Kernel, params: Mapping[str, int]) -> int | None:
    """Floating-point operations of all launches; None if unknown."""
    values = {kernel.context.symbols[name].name: value for name, value in params.items()}
    try:
        return sum(work(steps(k, values), ExecutionCounts(k.block)).all_flop for k in kernel.plan.kernels)
    except Unknown:
        return None


def _launches(kernel: Kernel, params: Mapping[str, int], cubin: Cubin, target: str) -> Sequence[Content]:
    launches = []
    for launch in kernel.manifest.launches:
        resources = cubin.kernels[launch.kernel]
        shared = launch.shared_bytes + launch.dynamic_shared_bytes
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        residency = occupancy(target.rstrip("af"), threads, resources.registers, shared)
        launches.append(
            {
                "kernel": launch.kernel,
                "grid": list(evaluate_all(launch.grid, params)),
                "block": list(launch.block),
                "shared_bytes": shared,
                "registers": resources.registers,
                "spill_bytes": resources.spill_stores + resources.spill_loads,
                "occupancy": residency.fraction,
                "blocks_per_sm": residency.blocks_per_sm,
            }
        )
    return launches
