"""Predicted cycles of correlations, to compare the windows and blocks of one with each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cugen.families.staged.correlation.products import products
from cugen.families.staged.correlation.recognition import Correlation
from cugen.families.staged.thread_tile import SCHEDULERS, operations_of
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.request import Request
from cugen.spec.expressions import Read, free_indices, walk
from cugen.spec.types import DType

if TYPE_CHECKING:
    from cugen.families.staged.correlation.config import CorrelationConfig

WARPS_TO_FILL = 16  # of a multiprocessor, with several independent sums each (heuristic)
WINDOW_OVERHEAD = 8  # instructions of a window besides its loads: counters and addresses (heuristic)
COPY = 6  # instructions per element of a tile that a thread copies (heuristic)


def words_of(dtype: DType) -> int:
    """The registers of a value."""
    return max(dtype.bytes // 4, 1)


def term_operations(request: Request, correlation: Correlation) -> float:
    """The instructions that accumulate a term: of a sum of products, a multiply-add for each."""
    return operations_of(request, correlation.reductions) - sum(map(len, map(products, correlation.reductions)))


def cycles(request: Request, correlation: Correlation, config: CorrelationConfig) -> float:
    """Cycles of a multiprocessor for a term of an output: instructions, or wavefronts of shared memory, as many times
    as too few threads, lanes without a thread and threads without outputs leave it idle."""
    staged, terms = config.staged, config.outputs * config.taps
    loads = _loads(request, correlation, config)
    operations = term_operations(request, correlation) * terms
    copies = (
        COPY
        * sum(tile.elements for tile in staged.tiles)
        / (math.prod(staged.block) * _windows(request, correlation, config))
    )
    issued = (operations + loads + WINDOW_OVERHEAD + copies) / SCHEDULERS
    blocks, computed = 1, 1.0
    for index in staged.order:
        extent = max(request.context.planned_extent(index), 1)
        blocks *= -(-extent // staged.span(index.name))
        computed *= -(-extent // staged.span(index.name)) * staged.span(index.name) / extent
    of_block = -(-math.prod(staged.block) // WARP_SIZE)
    lanes = math.prod(staged.block) / (of_block * WARP_SIZE)
    idle = max(1.0, WARPS_TO_FILL * PLANNING_DEVICE.sms / (blocks * of_block))
    return max(issued, loads) / terms * idle * computed / lanes


def _loads(request: Request, correlation: Correlation, config: CorrelationConfig) -> int:
    """Wavefronts of shared memory of a window: its elements, and those that all outputs of a thread use."""
    arrays, (term, along) = request.context.arrays, (correlation.term.name, correlation.along)
    reads = dict.fromkeys(n for r in correlation.reductions for n in walk(r.body) if isinstance(n, Read))
    common = sum(term in free_indices(read) and along not in free_indices(read) for read in reads)
    loads = sum(window.count * words_of(arrays[window.array].dtype) for window in config.windows) + common * config.taps
    # Slices of one warp read different elements.
    return loads * (max(WARP_SIZE // config.staged.threads[along], 1) if config.staged.slices > 1 else 1)


def _windows(request: Request, correlation: Correlation, config: CorrelationConfig) -> int:
    """The windows that a thread loads from a tile."""
    count = 1
    for index in correlation.indices:
        extent = max(request.context.planned_extent(index), 1)
        values = config.walk.step // config.staged.slices if index == config.walk.index else extent
        count *= -(-values // config.taps) if index == correlation.term else values
    return count
