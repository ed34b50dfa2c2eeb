"""The plan: kernels with their launches, and what several of them have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy

from cugen.plan.memory import Array
from cugen.plan.nodes import Node
from cugen.plan.symbols import Integer, Range


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `__global__` function and its launch.

    `parts` gives the family's template the pieces it arranges, in the order in which they run; together they are the
    kernel's whole body. `ranges` holds the values that every symbol of the body can take.
    """

    name: str
    family: str
    arrays: tuple[Array, ...]  # the ones that are parameters or symbols at file scope, in order of the spec
    arguments: tuple[
        str, ...
    ]  # names of the spec's arrays, scalars, params and temporaries, in order of the parameters
    parts: tuple[tuple[str, tuple[Node, ...]], ...]
    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]
    ranges: tuple[tuple[sympy.Symbol, Range], ...]
    computes: tuple[str, ...]  # the statements, as the user wrote them
    minimum_blocks: int = 0  # for __launch_bounds__
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    alignments: tuple[tuple[str, int], ...] = ()  # bytes asked of an argument beyond its element's size
    reasons: tuple[str, ...] = ()  # why this family and these tunables
    cluster: int = 1  # blocks side by side along x that run at once and share their shared memory; they divide the grid
    workspace: tuple[Array, ...] = ()  # through which its blocks hand something to each other

    @property
    def body(self) -> tuple[Node, ...]:
        return tuple(node for _, nodes in self.parts for node in nodes)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def is_clustered(self) -> bool:
        return self.cluster > 1


@dataclass(frozen=True, slots=True)
class Upload:
    """An argument that is copied to a `__constant__` symbol before the launches; `parameter` is its name there."""

    symbol: str
    argument: str
    bytes: int
    parameter: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A sequence of kernels behind one entry point. Temporaries that cross kernels live in the workspace, and so does
    what the blocks of one hand to each other."""

    kernels: tuple[Kernel, ...]
    workspace: tuple[Array, ...] = ()
    constants: tuple[Array, ...] = ()  # __constant__ symbols and baked tables at file scope
    uploads: tuple[Upload, ...] = ()
    scalar_symbols: tuple[tuple[str, str], ...] = ()  # scalar of the spec -> its name in C
    param_symbols: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())  # which temporaries were recomputed, kept or stored, and why
