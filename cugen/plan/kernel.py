"""The plan: kernels with their launches, workspace, constants and uploads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy

from cugen.machine.wgmma import SWIZZLE_PERIOD_BYTES
from cugen.plan.memory import Array
from cugen.plan.names import Names
from cugen.plan.nodes import Node, Section
from cugen.plan.symbols import Integer, Range
from cugen.plan.traversal.sections import dissolved
from cugen.spec.model import Options

if TYPE_CHECKING:
    from cugen.plan.context import Context


@dataclass(frozen=True, slots=True)
class IdleUnit:
    """A unit of the target that takes the types of a kernel's sums and isn't used: the key `peak` of its rate in
    `Device.peaks`, and why."""

    peak: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkUnits:
    """Parts of output tiles that a block computes one after the other: the names of the tile and of its k-tiles from
    `k_tile_begin` to below `k_tile_end`. There are `tiles` of `k_tiles` each. `k_tiles_before` names the number of the
    block's k-tiles in units before this one, where a pipeline passes from unit to unit."""

    tile: Integer
    k_tile_begin: Integer
    k_tile_end: Integer
    tiles: int
    k_tiles: int
    k_tiles_before: Integer | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Kernel:
    """One `__global__` function and its launch.

    `parts` are named sections of the body, in execution order, for the family's template. `ranges` holds the value
    range of every symbol of the body.
    """

    name: str
    family: str
    arrays: tuple[Array, ...]  # parameters and file-scope symbols, in the order of the spec
    arguments: tuple[str, ...]  # the spec's names of the parameters, in their order
    parts: tuple[tuple[str, tuple[Node, ...]], ...]
    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]
    ranges: tuple[tuple[sympy.Symbol, Range], ...]
    computes: tuple[str, ...]  # the statements, as the user wrote them
    minimum_blocks: int = 0  # for __launch_bounds__
    deferrable_registers: int = 0  # that the compiler saves by later loads, where launch bounds leave it fewer
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    alignments: tuple[tuple[str, int], ...] = ()  # bytes required of an argument, beyond its element's size
    reasons: tuple[str, ...] = ()  # why this family and these tunables
    cluster: int = 1  # thread block cluster size along x; divides the grid
    workspace: tuple[Array, ...] = ()  # arrays through which its blocks exchange data
    tensor_maps: tuple[Array, ...] = ()  # its first parameters: the arguments that it copies by boxes
    idle_unit: IdleUnit | None = None
    work_units: WorkUnits | None = None  # of stream-K
    options: Options = field(default_factory=Options)  # of its schedule
    # All nodes in the order in which they run, without sections round them.
    body: tuple[Node, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", dissolved(self.sections))

    def __repr__(self) -> str:
        return f"<Kernel {self.name}: {self.family}>"

    @property
    def sections(self) -> tuple[Section, ...]:
        """The parts, for the template."""
        return tuple(Section(name, nodes) for name, nodes in self.parts)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def dynamic_shared_alignment(self) -> int:
        """Bytes to which its dynamic shared memory is aligned: the period of
        the swizzle, where TMA or wgmma access it."""
        return SWIZZLE_PERIOD_BYTES if self.tensor_maps else 16

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
class Texture:
    """An argument that kernels read through a texture object of its linear memory: `symbol` is the object's name in
    kernels, `parameter` that of the pointer in the launcher."""

    symbol: str
    argument: str
    parameter: str


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A sequence of kernels behind one entry point.

    The workspace holds temporaries between kernels and the data that blocks of one kernel exchange."""

    context: Context  # of the spec with its split statements: names, arrays and ranges
    kernels: tuple[Kernel, ...]
    workspace: tuple[Array, ...] = ()
    constants: tuple[Array, ...] = ()  # __constant__ symbols and baked tables at file scope
    uploads: tuple[Upload, ...] = ()
    scalar_symbols: tuple[tuple[str, str], ...] = ()  # scalar of the spec -> its name in C
    param_symbols: tuple[tuple[str, str], ...] = ()
    templates: tuple[tuple[str, str], ...] = ()  # the user's own of families: file name and text
    notes: tuple[str, ...] = field(default=())  # which temporaries are recomputed, kept in registers or stored, and why
    unused_precisions: tuple[str, ...] = ()  # those of `accumulate` that no kernel makes use of, and why
    algorithms: tuple[str, ...] = ()  # how sums are computed that `accumulate` allows to be rounded otherwise

    def __repr__(self) -> str:
        return f"<Plan of {self.context.spec.kernel}: {len(self.kernels)} launches>"

    def tensor_maps(self) -> dict[Array, str]:
        """Names of the kernels' tensor maps, in the order of their first launch: the parameters', numbered where those
        of different maps are the same."""
        names = Names(self.context.names)
        maps = dict.fromkeys(array for kernel in self.kernels for array in kernel.tensor_maps)
        return {array: names.allocate(array.symbol) for array in maps}
