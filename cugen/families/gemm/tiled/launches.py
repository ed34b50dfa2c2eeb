"""Predicted time of launches that copy or transform elements, to compare with the kernel whose work they save."""

from __future__ import annotations

from math import prod

from cugen.families.gemm.problem import device_of
from cugen.machine.latency import STORING_LAUNCH_SECONDS
from cugen.plan.request import Request
from cugen.spec.expressions import Index

_BANDWIDTH_FRACTION = 0.7  # of copies (heuristic)


def copy_seconds(request: Request) -> float:
    """The predicted time of a map that is bound by memory: it writes its arrays, and reads each once."""
    extent = request.context.max_extent
    arrays = [array for array in request.touched() if array.role != "temporary" or array.memory.space == "scratch"]
    moved = sum(array.dtype.bytes * prod(extent(Index("", size)) for size in array.shape) for array in arrays)
    return STORING_LAUNCH_SECONDS + moved / (_BANDWIDTH_FRACTION * device_of(request.target).bandwidth)
