"""Which k-tiles each block of a warp-specialised GEMM computes with stream-K: a multiprocessor has one block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import STREAM_K_VALUES
from cugen.families.gemm.problem import device_of, problem_of
from cugen.families.gemm.selection import search_space
from cugen.families.gemm.stream_k_schedule import StreamKSchedule, schedule_stream_k
from cugen.families.gemm.wgmma.config import MULTICASTS, WgmmaConfig
from cugen.families.gemm.wgmma.epilogues.tensor_store import has_wide_offsets
from cugen.families.gemm.wgmma.operands.pixels import k_tiles_of

_MIN_SPEEDUP = 1.08  # without the fix-up, of the schedules that a search times (heuristic)


def stream_k_schedule_of(contraction: Contraction, config: WgmmaConfig) -> StreamKSchedule:
    """The schedule of a config with stream-K, of static sizes."""
    k_tiles = k_tiles_of(contraction, problem_of(contraction).k, int(config.block_k))
    sms = device_of(contraction.request.target).sms
    return schedule_stream_k(_tiles(contraction, config), k_tiles, sms, config.stream_k, config.consumer_threads)


def _tiles(contraction: Contraction, config: WgmmaConfig) -> int:
    problem = problem_of(contraction)
    return -(-problem.m // int(config.block_m)) * -(-problem.n // int(config.block_n)) * problem.batch


def why_no_stream_k(contraction: Contraction) -> str:
    """Why stream-K is invalid for the GEMM; empty if it is valid."""
    if any(int(contraction.tunables.get(name, 1)) > 1 for name in MULTICASTS):
        return "with stream-K, blocks share no tiles"
    if reason := search_space.why_no_stream_k(contraction):
        return reason
    if has_wide_offsets(contraction):  # and ptxas may spill registers
        return "an output of more than 2^31 elements has too many waves of tiles for the last one to count"
    return ""


def requested_waves(contraction: Contraction, config: WgmmaConfig) -> Iterator[int]:
    """The requested waves of tiles that stream-K distributes; 0 for tiles that single blocks or clusters compute.
    Unasked there is no stream-K: of 66 such schedules of 18 shapes none was the fastest (measured on an H100)."""
    requested = int(contraction.tunables.get("stream_k", 0))
    if not requested:
        yield 0
    elif config.cluster == 1:
        has_fix_up = stream_k_schedule_of(contraction, replace(config, stream_k=requested)).needs_fix_up
        yield requested if has_fix_up else 0


def searched_waves(contraction: Contraction, config: WgmmaConfig) -> Iterator[int]:
    """The waves that a search times where the schedule leaves them open: each number that distributes them in another
    way and may pay off."""
    tunables = contraction.tunables
    is_scheduled = contraction.request.schedule.block or {"stream_k", "split_k", *MULTICASTS} & tunables.keys()
    if config.cluster > 1 or is_scheduled or why_no_stream_k(contraction):
        return
    tiles, sms = _tiles(contraction, config), device_of(contraction.request.target).sms
    if -(-tiles // sms) * sms < _MIN_SPEEDUP * tiles:  # so even without a fix-up
        return
    previous: StreamKSchedule | None = None
    for waves in filter(None, STREAM_K_VALUES):
        schedule = stream_k_schedule_of(contraction, replace(config, stream_k=waves))
        if schedule.needs_fix_up and schedule != previous:
            yield waves
        previous = schedule
