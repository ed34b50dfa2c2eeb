"""Recognition of convolutions whose operands are copied before: a sum of products of windows and filters."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.plan.request import Single
from cugen.spec.expressions import Index, IndexValue, Read, Reduce, free_indices, walk

NARROW_BYTES = 2  # elements of which a copy of one is no asynchronous one


@dataclass(frozen=True, slots=True)
class Convolution:
    """A sum of products of windows and filters; `channel` is the only contracted index that is a subscript of `windows`
    by itself, `taps` are the others in the order of its dimensions."""

    windows: Read
    filters: Read
    channel: Index
    taps: tuple[Index, ...]


def convolution_of(single: Single) -> Convolution | None:
    """The convolution of a statement; None if it is another computation."""
    reductions = list(dict.fromkeys(node for node in walk(single.statement.value) if isinstance(node, Reduce)))
    if len(reductions) != 1 or reductions[0].kind != "sum" or reductions[0].where is not None:
        return None
    (reduction,) = reductions
    reads = list(dict.fromkeys(node for node in walk(reduction.body) if isinstance(node, Read)))
    windows = [read for read in reads if not _is_plain(read)]
    filters = [read for read in reads if _is_plain(read) and read.boundary is None]
    if len(windows) != 1 or len(filters) != 1 or windows[0].exact or windows[0].array == filters[0].array:
        return None
    if all(isinstance(sub, IndexValue) or not free_indices(sub) for sub in windows[0].subscripts):  # a slice
        return None
    summed = {index.name: index for index in reduction.indices}
    bare = [sub.name for sub in windows[0].subscripts if isinstance(sub, IndexValue) and sub.name in summed]
    if len(bare) != 1 or sum(bare[0] in free_indices(sub) for sub in windows[0].subscripts) != 1:
        return None
    taps = [name for sub in windows[0].subscripts for name in summed if name in free_indices(sub) and name != bare[0]]
    if sorted((*taps, *bare)) != sorted(summed) or not summed.keys() <= free_indices(filters[0]):
        return None
    return Convolution(windows[0], filters[0], summed[bare[0]], tuple(summed[name] for name in taps))


def _is_plain(read: Read) -> bool:
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    return len(names) == len(set(names)) == len(read.subscripts)


def multiply_adds(single: Single, convolution: Convolution) -> int:
    indices = (*single.statement.indices, convolution.channel, *convolution.taps)
    return math.prod(map(single.context.max_extent, indices))
