"""The claim about the work units of stream-K: a block's k-tiles, by which its pipeline goes round the stages, are
numbered consecutively over its units.

Sizes are known: all units of all blocks are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, claim_of
from cugen.analysis.pipelines.expressions import BLOCK_ID, WAVE
from cugen.analysis.pipelines.structure import Pipeline
from cugen.analysis.totals.affine import evaluator
from cugen.plan.nodes import COMPARISONS
from cugen.plan.symbols import Integer, integer


def work_units(pipeline: Pipeline) -> Claim | None:
    """None for a kernel whose output tiles have the same number of k-tiles each."""
    if pipeline.producer.k_tiles is None or pipeline.kernel.work_units is None:
        return None
    reason = "each work unit has a k-tile at least, and its first one the number that follows the unit before"
    return claim_of("work units", reason, _faults(pipeline))


def _faults(pipeline: Pipeline) -> Iterator[Fault]:
    units, k_tiles = pipeline.producer.tiles, pipeline.producer.k_tiles
    blocks = pipeline.kernel.grid[0]
    assert k_tiles is not None
    count = units.stop if units else integer(1)  # of a block that has a single unit, without a loop round it
    if not (count.is_Integer and blocks.is_Integer):
        raise NotRecognised("the numbers of blocks and work units are known at launch only")
    values = {BLOCK_ID: np.arange(int(blocks))[:, None], WAVE: np.arange(int(count))[None, :]}
    exists = np.ones((int(blocks), int(count)), dtype=bool)
    if units and (condition := units.condition) is not None:
        exists &= COMPARISONS[condition.operator](_value(condition.left, values), _value(condition.right, values))
    counts = np.where(exists, _value(k_tiles.trips, values), 0)
    if not counts[exists].min(initial=1) > 0:
        yield Fault("a work unit may have no k-tile, and stages are released as after one")
    if counts.max(initial=0) > k_tiles.trip_range[1]:
        yield Fault("a work unit has more k-tiles than its loop is said to have")
    expected = counts.cumsum(axis=1) - counts
    before = integer(0) if k_tiles.k_tiles_before is None else k_tiles.k_tiles_before
    numbered = np.broadcast_to(_value(before, values), exists.shape)
    wrong = np.argwhere(exists & (numbered != expected))
    for block, unit in wrong[:1].tolist():
        yield Fault(
            f"work unit {unit} of block {block} begins with k-tile {numbered[block, unit]} of the block, and the units "
            f"before have {expected[block, unit]}"
        )


def _value(expr: Integer, values: dict[sympy.Symbol, NDArray[np.int64]]) -> NDArray[np.int64]:
    if not expr.free_symbols <= values.keys():
        raise NotRecognised(f"`{expr}` isn't a function of the block and the work unit")
    ranges = {name: (0, int(array.max(initial=0))) for name, array in values.items()}
    return np.asarray(evaluator(expr, ranges)(values), np.int64)
