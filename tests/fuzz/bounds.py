"""Whether the accesses of a plan are inside of their arrays, at iterations drawn at random and not executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import numpy as np

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.sites import THREAD, Predicate, Site, sites
from cugen.kernel import Kernel
from cugen.plan.kernel import Kernel as Launch
from cugen.plan.memory import ARGUMENTS, Array, Element
from cugen.plan.symbols import Ranges, integer, symbol
from cugen.plan.traversal.walking import values_of, walk_nodes
from cugen.runtime.inputs import known_params
from cugen.spec.expressions import Select, walk

_SAMPLES = 96  # of iterations, each by all threads of a block
_COMPARED = {"<": np.less, "==": np.equal, "!=": np.not_equal}


def bounds_faults(kernel: Kernel, dynamic: Mapping[str, int]) -> Iterator[str]:
    """Accesses outside of global arrays, and of shared ones. Those of TMA, of the branches of a selection, and such
    that depend on data are left out."""
    context = kernel.context
    params = {context.symbols[name].name: value for name, value in known_params(kernel.spec, dynamic).items()}
    for launch in kernel.plan.kernels:
        chosen = _accesses_of_branches(launch)
        for site in sites(launch, params):
            is_addressed = site.access.array.space in (*ARGUMENTS, "shared")
            if is_addressed and not site.opaque and site.instruction is None and id(site.access) not in chosen:
                yield from _faults(launch, site, params)


def _accesses_of_branches(launch: Launch) -> frozenset[int]:
    """What only a condition of the C expression keeps in bounds, by identity."""
    selections = (
        part
        for node in walk_nodes(launch.body)
        for value in values_of(node)
        for part in walk(value)
        if isinstance(part, Select)
    )
    branches = (leaf for select in selections for branch in (select.then, select.orelse) for leaf in walk(branch))
    return frozenset(id(leaf.access) for leaf in branches if isinstance(leaf, Element))


def _faults(launch: Launch, site: Site, params: Mapping[str, int]) -> Iterator[str]:
    rng, array = Random(0), site.access.array
    if any(counter.count < 1 for counter in site.counters):
        return
    ranges: Ranges = {counter.symbol: (0, counter.count - 1) for counter in site.counters}
    ranges |= {axis: (0, size - 1) for axis, size in zip(THREAD, launch.block, strict=True)}
    linear = np.arange(np.prod(launch.block))
    x, y, _ = launch.block
    values = dict(zip(THREAD, (linear % x, linear // x % y, linear // (x * y)), strict=True))
    for counter in site.counters:
        drawn = [_drawn(rng, counter.count) for _ in range(_SAMPLES)]
        values[counter.symbol] = np.array(drawn, dtype=np.int64)[:, None]
    try:
        runs = np.ones((_SAMPLES, len(linear)), dtype=bool)
        for predicate in site.predicates:
            runs &= _holds(predicate, ranges, values)
        first = np.broadcast_to(evaluator(site.offset, ranges)(values), runs.shape)
    except OverflowError:
        return
    sizes = {name.name: low for name, (low, high) in launch.ranges if low == high}  # named sizes of tiles
    elements = _elements(array, {**sizes, **params})
    outside = runs & ((first < 0) | (first + site.access.width > elements))
    if outside.any():
        sample, thread = np.argwhere(outside)[0]
        yield f"{launch.name}: {site.access.array.name} of {elements} elements is accessed at {first[sample, thread]}"


def _elements(array: Array, params: Mapping[str, int]) -> int:
    """From the first element of an array to its last."""
    shape = array.padded_shape if array.space == "shared" else array.shape
    last = integer(0)
    for size, stride in zip(shape, array.strides, strict=True):
        last += (size - 1) * stride
    return int(last.xreplace({symbol(name): integer(value) for name, value in params.items()})) + 1


def _drawn(rng: Random, count: int) -> int:
    """An iteration; the first and the last ones often."""
    return rng.choice((0, count - 1, rng.randrange(count), min(rng.randrange(4), count - 1)))


def _holds(predicate: Predicate, ranges: Ranges, values: Mapping[object, np.ndarray]) -> np.ndarray:
    terms = [_COMPARED[operator](evaluator(difference, ranges)(values), 0) for difference, operator in predicate.terms]
    holds = np.logical_and.reduce(np.broadcast_arrays(*terms))
    return ~holds if predicate.negated else holds
