"""Interleaved timing of several schedules of one spec on one GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cugen.schedule.lock import Schedules, Time
from cugen.spec.model import Spec
from cugen.tune.timing.gpus import Gpu, gpus
from cugen.tune.timing.messages import Message, code, opening, request
from cugen.tune.timing.prepare import Dropped, prepare
from cugen.tune.timing.workers import COMMAND, PATIENCE_S, Process, WorkerFault

_SAMPLES, _BUDGET_US = 100, 1e6


class CannotCompare(Exception):
    """A schedule does not fit, or its kernel is wrong, faults or hangs."""


def compare(
    spec: Spec,
    schedules: Sequence[Schedules],
    params: Mapping[str, int] | None = None,
    *,
    gpu: Gpu | None = None,
    command: Sequence[str] = COMMAND,
    seed: int = 0,
) -> tuple[Time, ...]:
    """Times of the schedules, whose results are checked first; `()` is the generator's choice.

    Raises RunError (CG5011) without a GPU, CannotCompare if one can't be timed."""
    device = gpu or gpus()[0]
    codes = [_code(number, spec, chosen, device, params or {}) for number, chosen in enumerate(schedules)]
    process = Process(command, device, PATIENCE_S)
    try:
        process.ask(opening(spec, params or {}, seed, codes[0]))
        answer = process.ask(request(codes, samples=_SAMPLES, budget_us=_BUDGET_US))
    except WorkerFault as fault:
        raise CannotCompare(str(fault)) from fault
    finally:
        process.close()
    if answer["failed"]:
        raise CannotCompare("; ".join(answer["failed"].values()))
    return tuple(Time(*answer["times"][str(number)]) for number in range(len(schedules)))


def _code(number: int, spec: Spec, schedules: Schedules, gpu: Gpu, params: Mapping[str, int]) -> Message:
    prepared = prepare(spec, schedules, gpu.capability, params)
    if isinstance(prepared, Dropped):
        raise CannotCompare(prepared.reason)
    return code(number, prepared)
