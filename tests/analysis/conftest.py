"""The walk over every warp of a launch that exact totals are held to."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from random import Random

import numpy as np
import pytest
import sympy
from numpy.typing import NDArray

from cugen.analysis import WarpRequest, warp_request
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Element
from cugen.plan.nodes import (
    Accumulate,
    Copy,
    Define,
    For,
    Guard,
    If,
    Load,
    LoadBlockId,
    LoadMatrix,
    ReturnUnless,
    Store,
    StoreMatrix,
)
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Maximum, Minimum, Mod
from cugen.plan.traversal.walking import values_of
from cugen.spec.expressions import walk as walk_values

SPACES = {
    "shared": "shared",
    "constant": "constant",
    **dict.fromkeys(("global", "readonly", "table", "texture"), "global"),
}
Numbers = NDArray[np.int64]  # one for each lane of a warp
COSTS = ("requests", "wavefronts", "sectors", "ideal_wavefronts", "ideal_sectors")
ANY_LANE = sympy.Symbol("threadIdx.x", integer=True)
request = lru_cache(maxsize=200_000)(warp_request)


@dataclass(frozen=True)
class Warp:
    """One instruction of one warp: byte addresses, cost, and the values of all names in each lane."""

    addresses: tuple[int | None, ...]
    cost: WarpRequest
    names: dict[str, Numbers]


class Walk:
    """The oracle: runs the nodes of a kernel for every warp, its lanes in lockstep, and adds up single requests.

    `sums` holds the counts of each access by its id; `warps`, if asked for, each instruction by itself. `blocks` limits
    it to so many blocks, a third each of the first, the last and those between, and `trips` to the first iterations of
    each loop."""

    def __init__(
        self,
        kernel: Kernel,
        params: dict[str, int],
        target: str,
        offsets: dict[str, int] | None = None,
        *,
        record: bool = False,
        blocks: int | None = None,
        trips: int | None = None,
    ) -> None:
        self.kernel, self.target, self.offsets, self.record = kernel, target, offsets or {}, record
        self.trips = trips
        self.params = {sympy.Symbol(name, integer=True): value for name, value in params.items()}
        self.sums: dict[int, Counter[str]] = {}
        self.warps: dict[int, list[Warp]] = {}
        grid = [int(e.xreplace({s: sympy.Integer(v) for s, v in self.params.items()})) for e in kernel.grid]
        x, y, z = kernel.block
        count = math.prod(grid)
        numbers = range(count)
        if blocks is not None and count > blocks:
            ends = blocks // 3
            inner = Random(count).sample(range(ends, count - ends), blocks - 2 * ends)
            numbers = [*range(ends), *inner, *range(count - ends, count)]
        for block in [(n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1])) for n in numbers]:
            for first in range(0, x * y * z, 32):
                threads = np.arange(first, min(first + 32, x * y * z))
                names = self._names(block, (threads % x, threads // x % y, threads // (x * y)))
                self._run(kernel.body, names, np.ones(len(threads), np.bool_))

    def _names(self, block, thread):
        names = [f"{which}Idx.{axis}" for which in ("block", "thread") for axis in "xyz"]
        indices = {sympy.Symbol(n, integer=True): v for n, v in zip(names, (*block, *thread), strict=True)}
        return {s: np.broadcast_to(np.int64(v), len(thread[0])) for s, v in {**self.params, **indices}.items()}

    def _run(self, nodes, names, active):
        """Runs the nodes; the mask that is left, since lanes may have returned."""
        for node in nodes:
            match node:
                case Define() | LoadBlockId():
                    names[node.index.symbol] = numbers_of(node.index.definition, names)
                case ReturnUnless():
                    active = active & passes(node.guard, names)
                case For():
                    self._loop(node, names, active)
                case If() if isinstance(node.condition, Guard):
                    then = passes(node.condition, names)
                    self._run(node.then, names, active & then)
                    self._run(node.orelse, names, active & ~then)
                case Load():
                    mask = active if node.guard is None else active & passes(node.guard, names)
                    self._request(node.access, names, mask)
                    self._inline(node, names, active)
                case Copy():
                    mask = active if node.guard is None else active & passes(node.guard, names)
                    self._request(node.source, names, mask)
                    self._copy(node, names, active, mask)
                case LoadMatrix():
                    self._request(node.source, names, active)
                case StoreMatrix():
                    mask = active if node.guard is None else active & passes(node.guard, names)
                    self._request(node.target, names, mask)
                case Store() | Accumulate():
                    self._inline(node, names, active)
                    self._request(node.access, names, active)
                case _:
                    self._inline(node, names, active)
        return active

    def _inline(self, node, names, active):
        for value in values_of(node):
            for leaf in walk_values(value):
                if isinstance(leaf, Element):
                    self._request(leaf.access, names, active)

    def _loop(self, node, names, active):
        loop = node.loop
        start, stop = numbers_of(loop.start, names), numbers_of(loop.stop, names)
        done = np.zeros_like(start)
        last = math.inf if self.trips is None else self.trips * loop.step
        while (mask := active & (start + done < stop) & (done < last)).any():
            names[loop.index.symbol] = stop - 1 - done if loop.downward else start + done
            self._run(node.body, names, mask)
            done = done + loop.step

    def _copy(self, node, names, active, reading):
        """What is written: of narrow asynchronous copies, zeros by instructions of their own."""
        if not node.asynchronous:
            self._request(node.target, names, active)
            return
        source = node.source.array
        start = self.offsets.get(source.name, 0)
        sources = tuple((numbers_of(node.source.offset(), names) * source.dtype.bytes + start).tolist())
        if node.target.width * node.target.array.dtype.bytes == 16:
            self._request(node.target, names, active, sources)
        else:
            self._request(node.target, names, reading, sources)
            self._request(node.target, names, active & ~reading)

    def _request(self, access, names, active, sources=None):
        array = access.array
        if array.space not in SPACES or not active.any():
            return
        start = array.dynamic_offset if array.space == "shared" else self.offsets.get(array.name, 0)
        offsets = numbers_of(access.offset(), names) * array.dtype.bytes + start
        addresses = tuple(a if on else None for a, on in zip(offsets.tolist(), active.tolist(), strict=True))
        addresses += (None,) * (32 - len(addresses))
        width = array.dtype.bytes * access.width
        if sources is not None:
            line_start = min(sources) // 128 * 128
            sources = (*(source - line_start for source in sources), *([None] * (32 - len(sources))))
        cost = request(SPACES[array.space], access.kind, width, addresses, self.target, sources=sources)
        sums = self.sums.setdefault(id(access), Counter())
        sums["warps"] += 1
        for name in COSTS:
            sums[name] += getattr(cost, name)
        if self.record:
            spelled = {name.name.replace(".", "_"): value for name, value in names.items()}
            self.warps.setdefault(id(access), []).append(Warp(addresses, cost, spelled))


FUNCTIONS = {
    FloorDiv: np.floor_divide,
    Mod: np.mod,
    BitXor: np.bitwise_xor,
    Minimum: np.minimum,
    Maximum: np.maximum,
    sympy.Add: np.add,
    sympy.Mul: np.multiply,
    sympy.Pow: np.power,
}


def numbers_of(expr, names) -> Numbers:
    """The expression in each lane."""
    return evaluator(expr)(names) + np.zeros_like(names[ANY_LANE])


@cache
def evaluator(expr):
    """A function from the values of names to those of the expression."""
    if expr.is_Integer:
        number = int(expr)
        return lambda names: number
    if expr.is_Symbol:
        return lambda names: names[expr]
    parts = [evaluator(arg) for arg in expr.args]
    if isinstance(expr, Choice):
        left, right, then, otherwise = parts
        return lambda names: np.where(left(names) < right(names), then(names), otherwise(names))
    function = FUNCTIONS[expr.func]
    return lambda names: reduce(function, [part(names) for part in parts])


def passes(guard: Guard, names) -> NDArray[np.bool_]:
    """Whether the guard holds, in each lane."""
    holds = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    holds |= {"==": np.equal, "!=": np.not_equal}
    terms = [holds[t.operator](numbers_of(t.left, names), numbers_of(t.right, names)) for t in guard.terms]
    return np.logical_and.reduce(terms)


@pytest.fixture(scope="session")
def walk() -> type[Walk]:
    """The oracle: `walk(kernel, params, target).sums` are the counts of each access, by its id."""
    return Walk
