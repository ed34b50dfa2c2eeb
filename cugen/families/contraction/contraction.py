"""A contraction and its operands, as families plan it: recognised, with M, N, K and a batch."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction.scales import Scales
from cugen.families.contraction.windows import Window
from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.traversal.vanishing import vanishes
from cugen.spec.expressions import Expr, Index, IndexValue, Read, Reduce, conjuncts
from cugen.spec.model import Memory


@dataclass(frozen=True, slots=True)
class Operand:
    """An A or B operand: a read of `array` indexed by K and by M or N (`mn`), and the spec's placement of the array.

    `is_k_major`: K has the smaller stride of these two indices. All other subscripts are uniform in a block. A `window`
    is read at computed subscripts.
    `stages_constant`: whether the family copies it to a tile from constant memory too, which serialises loads of
    different addresses."""

    read: Read
    array: Array
    memory: Memory
    mn: Index
    is_along_m: bool
    is_k_major: bool
    stages_constant: bool = False
    window: Window | None = None

    @property
    def is_staged(self) -> bool:
        """Whether it has a tile in shared memory: the spec places it there, or says only how it is loaded, or that the
        fragments which threads multiply are in registers."""
        if self.memory.space == "constant":
            return self.stages_constant
        return self.memory.space in (None, "shared", "scratch", "readonly", "texture", "register")

    @property
    def is_in_registers(self) -> bool:
        """Whether the spec requests fragments in registers."""
        return self.memory.space == "register"


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: a key of caches
class Contraction:
    """A GEMM-like statement group; n is the index along which the output is contiguous, whatever its name in the spec.

    `request` is the original one, or the same over fused dimensions. `is_swapped`: M and N have changed places, and A
    and B with them, so that the output is contiguous along m. `scales` multiply partial sums: they are in no statement
    of the request."""

    request: Request
    reductions: tuple[Reduce, ...]
    m: Index
    n: Index
    k: Index
    batch: tuple[Index, ...]  # fastest first
    a_operands: tuple[Operand, ...]  # indexed by M and K
    b_operands: tuple[Operand, ...]  # indexed by K and N
    is_swapped: bool = False
    scales: Scales | None = None

    @property
    def context(self) -> Context:
        return self.request.context

    @property
    def tunables(self) -> dict[str, int | str | bool]:
        return dict(self.request.schedule.tunables)

    @property
    def indices(self) -> tuple[Index, ...]:
        return (self.m, self.n, self.k, *self.batch)

    @property
    def contiguous(self) -> Index:
        """The index along which the output is contiguous."""
        return self.m if self.is_swapped else self.n

    @property
    def side_m(self) -> str:
        """Which side of the product as the spec has it m is, for names and messages: that of N where it is swapped."""
        return "N" if self.is_swapped else "M"

    @property
    def side_n(self) -> str:
        return "M" if self.is_swapped else "N"

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.a_operands, *self.b_operands)

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """The conjuncts of the reductions' common `where`; each bounds k from one side."""
        return conjuncts(self.reductions[0].where)

    @property
    def has_neutral_padding(self) -> bool:
        """Whether elements of k that are filled with zeros leave every reduction as it is."""
        return all(node.kind == "sum" and vanishes(node.body) for node in self.reductions)


def operand_of(
    request: Request, read: Read, mn: Index, k: Index, window: Window | None, *, is_along_m: bool
) -> Operand:
    """The operand of a read, whose rows or columns are numbered by `mn`."""
    array, memory = request.context.arrays[read.array], request.context.spec.array(read.array).memory
    if window is not None:
        return Operand(read, array, memory, mn, is_along_m, window.is_contiguous_along(k.name, array), window=window)
    dimension = {sub.name: d for d, sub in enumerate(read.subscripts) if isinstance(sub, IndexValue)}
    is_k_major = dimension[k.name] > dimension[mn.name]
    strides = [array.strides[d] for d in sorted((dimension[k.name], dimension[mn.name]))]
    slow, fast = map(request.context.static, strides)
    if strides[0] == 1 or (slow is not None and fast is not None and slow < fast):
        is_k_major = not is_k_major
    return Operand(read, array, memory, mn, is_along_m, is_k_major)
