"""The claim about tiles that the blocks of a cluster copy in parts, each for all of them or for those in a line
with it: the parts are disjoint, make up the tile, and are those of one tile of the array in global memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import sympy

from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, claim_of
from cugen.analysis.pipelines.expressions import of_rank
from cugen.analysis.pipelines.roles.events import Event
from cugen.analysis.pipelines.structure import Pipeline
from cugen.plan.memory import Array
from cugen.plan.pipeline_nodes import TensorLoad
from cugen.plan.symbols import Integer, integer


def parts(pipeline: Pipeline) -> Claim:
    reason = "no tile is copied in parts"
    tiles = shared_tiles(pipeline)
    if tiles:
        reason = f"the parts that {pipeline.cluster} blocks copy to a tile are disjoint, and make it up"
    return claim_of("parts", reason, _faults(pipeline, tiles))


def _faults(pipeline: Pipeline, tiles: tuple[Array, ...]) -> Iterator[Fault]:
    if pipeline.cluster > 1 and not tiles:  # so that one may be a round of the stages ahead of others
        yield Fault("blocks arrive at barriers of others, and copy nothing to them", refutes=False)
    for tile in tiles:
        for rank in range(pipeline.cluster):
            yield from _part_faults(pipeline, tile.symbol, rank)


def shared_tiles(pipeline: Pipeline) -> tuple[Array, ...]:
    """The arrays that several blocks fill, in each of them."""
    tiles = {node.target.array.symbol: node.target.array for node in map(_node, pipeline.loads) if node.blocks > 1}
    return tuple(tiles.values())


def _part_faults(pipeline: Pipeline, name: str, receiver: int) -> Iterator[Fault]:
    """Unless the boxes that a block gets, one of its own among them, are disjoint, make up its tile, and are of the
    same tile of the source."""
    loads = [load for load in pipeline.loads if _node(load).target.array.symbol == name]
    if any(_node(load).blocks == 1 for load in loads):
        raise NotRecognised(f"`{name}` has boxes of one block and of several")
    if any(receiver not in pipeline.receivers(load, receiver) for load in loads):
        yield Fault(f"a block doesn't get its own part of `{name}`", refutes=False)
        return
    counts = np.zeros(math.prod(_tile(loads[0])), dtype=np.int64)
    origins = set[tuple[Integer, ...]]()
    for load in loads:
        for rank in (r for r in range(pipeline.cluster) if receiver in pipeline.receivers(load, r)):
            for box in _boxes(pipeline, load, rank):
                if not 0 <= box.start <= len(counts) - box.size:
                    yield Fault(f"a box is outside of a tile of `{name}`", 0, 0)
                    return
                counts[box.start : box.start + box.size] += 1
                origins.add(box.origin)
    if counts.max() > 1 and counts.min() == 0:
        yield Fault(f"a part of a tile of `{name}` is copied twice, and another one isn't", 0, 0)
    elif counts.max() > 1:
        yield Fault(f"a part of a tile of `{name}` is copied twice", refutes=False)
    elif counts.min() == 0:
        yield Fault(f"a part of a tile of `{name}` isn't copied", refutes=False)
    first, *others = origins
    differences = {sympy.expand(a - b) for start in others for a, b in zip(first, start, strict=True)} - {0}
    if differences:
        refutes = all(difference.is_Integer for difference in differences)
        yield Fault(f"parts of different tiles are copied to `{name}`", 0, 0, refutes)


@dataclass(frozen=True, slots=True)
class _Box:
    """So many elements of a tile from `start` on. `origin`: where the tile begins in the source."""

    start: int
    size: int
    origin: tuple[Integer, ...]


def _boxes(pipeline: Pipeline, load: Event, rank: int) -> Iterator[_Box]:
    """What the block `rank` copies by a load, which a loop may repeat. Stages of a tile are [row][column], or
    [part][row][column] with parts of some columns."""
    node, tile = _node(load), _tile(load)
    targets, sources = (
        [of_rank(load.value(subscript), rank, pipeline.cluster) for subscript in subscripts]
        for subscripts in (node.target.subscripts[1:], node.source.subscripts)
    )
    assert node.source.array.tensor_map is not None
    *outer, columns = node.source.array.tensor_map.box
    down, rows = next(((d, size) for d, size in enumerate(outer) if size != 1), (len(outer) - 1, 1))
    if len(tile) not in (2, 3) or columns != tile[-1] or math.prod(outer) != rows:
        raise NotRecognised(f"boxes of `{node.target.array.symbol}` aren't rows of its tile")
    for values in _trips(pipeline, load, frozenset[sympy.Symbol]().union(*(t.free_symbols for t in targets))):
        first = [int(target.xreplace(values)) for target in targets]
        part, row, column = (0, *first)[-3:]
        origin = [source.xreplace(values) for source in sources]
        origin[down] = sympy.expand(origin[down] - row)
        origin[-1] = sympy.expand(origin[-1] - column - part * columns)
        yield _Box(int(np.dot(first, _strides(tile))), rows * columns, tuple(origin))


def _trips(pipeline: Pipeline, load: Event, names: frozenset[sympy.Symbol]) -> Iterator[dict[sympy.Symbol, Integer]]:
    """The values of the names in a load's subscripts, at each trip of the loop round it."""
    times, ranges = load.scope.times, dict(pipeline.kernel.ranges)
    if not names:
        yield from [{}] * (times or 0)
        return
    name, *others = names
    low, high = ranges.get(name, (0, -1))
    if others or high - low + 1 != times:
        raise NotRecognised("where a load of several blocks writes isn't a function of the rank and one loop")
    yield from ({name: integer(value)} for value in range(low, high + 1))


def _node(load: Event) -> TensorLoad:
    assert isinstance(load.node, TensorLoad)
    return load.node


def _tile(load: Event) -> list[int]:
    """The sizes of the tile that a load fills."""
    return [int(size) for size in _node(load).target.array.shape[1:]]


def _strides(sizes: list[int]) -> list[int]:
    return [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
