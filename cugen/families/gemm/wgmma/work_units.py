"""Which k-tiles each block of a warp-specialised GEMM computes with stream-K: a multiprocessor has one block."""

from __future__ import annotations

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.problem import device_of, problem_of
from cugen.families.gemm.stream_k_schedule import StreamKSchedule, schedule_stream_k
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.pixels import k_tiles_of


def stream_k_schedule_of(contraction: Contraction, config: WgmmaConfig) -> StreamKSchedule:
    """The schedule of a config with stream-K, of static sizes."""
    problem = problem_of(contraction)
    tiles = -(-problem.m // int(config.block_m)) * -(-problem.n // int(config.block_n)) * problem.batch
    k_tiles = k_tiles_of(contraction, problem.k, int(config.block_k))
    sms = device_of(contraction.request.target).sms
    return schedule_stream_k(tiles, k_tiles, sms, config.stream_k, config.consumer_threads)
