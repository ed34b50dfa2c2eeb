"""Runs: the structures of a thread's consecutive elements, and the vectors that move them.

    y[i] = x[i, 0] * x[i, 1] + x[i, 2]      x of shape [N, 3]
A thread with four consecutive i reads 12 consecutive elements of x: three vectors of four.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cugen.pieces.structures.recognition import Structure
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES, is_computed
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.memory import Access
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol
from cugen.spec.expressions import Expr, free_indices

MAX_RUN_BYTES = 128  # of a thread's consecutive structures, in registers (heuristic)


@dataclass(frozen=True, slots=True)
class Run:
    """The structures of `width` consecutive elements, moved by vectors of `vector` fields.

    Of one element only the vectors in `used` are moved, of several all."""

    structure: Structure
    width: int
    vector: int
    used: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all vectors of the run are moved."""
        return len(self.used) * self.vector == self.width * self.structure.size

    @property
    def bytes(self) -> int:
        """Bytes in registers."""
        return len(self.used) * self.vector * self.structure.array.dtype.bytes

    def access(
        self, number: Integer, kind: str, symbols: Mapping[str, Integer], known: Mapping[Expr, Integer]
    ) -> Access:
        """The access of a vector; `symbols` maps indices to the first element, `known` gathered subscripts."""
        *outer, element = (known[s] if s in known else to_integer(s, symbols) for s in self.structure.subscripts)
        first = element * self.structure.size + number * self.vector
        return Access(self.structure.array, (*outer, first), kind, self.vector)

    def slot(self, element: Integer, field: int) -> tuple[Integer, Integer]:
        """The vector that has a field of an element of the run, and the field's component."""
        size = self.structure.size
        if size % self.vector == 0:
            return element * (size // self.vector) + field // self.vector, integer(field % self.vector)
        position = element * size + field
        if self.width * size == self.vector:
            return integer(0), position
        return FloorDiv(position, integer(self.vector)), Mod(position, integer(self.vector))


def run_of(structure: Structure, along: str, width: int, context: Context) -> Run | None:
    """The run of so many elements with the widest vectors that are provably aligned; None where they hold one field, or
    are too many."""
    array, size = structure.array, structure.size
    vector = math.gcd(MAX_ACCESS_BYTES // array.dtype.bytes, width * size, _divisor(structure, along, width, context))
    used = _used(structure, width, vector)
    while vector > 1 and len(used) == len(_used(structure, width, vector // 2)):
        vector //= 2
        used = _used(structure, width, vector)
    run = Run(structure, width, vector, used)
    return run if vector > 1 and run.bytes <= MAX_RUN_BYTES else None


def sectors_per_element(structure: Structure, along: str, width: int, context: Context) -> float:
    """Sectors that a warp's requests for one element of each lane move per lane, with runs of `width` elements."""
    run = run_of(structure, along, width, context)
    accesses = len(run.used) / width if run else len(set(structure.fields.values()))
    return accesses * min(width * structure.bytes / SECTOR_BYTES, 1)


def fewest_sectors(structures: Sequence[Structure], along: str, widths: Iterable[int], context: Context) -> int:
    """Of some numbers of consecutive elements, the widest ones first, that whose accesses to structures move the fewest
    sectors."""
    # More structures than fill vectors of 16 bytes only move the lanes apart.
    widest_useful = max(MAX_ACCESS_BYTES // math.gcd(MAX_ACCESS_BYTES, structure.bytes) for structure in structures)

    def sectors(width: int) -> float:
        return sum(sectors_per_element(structure, along, width, context) for structure in structures)

    return min((width for width in widths if width <= widest_useful), key=sectors)


def _used(structure: Structure, width: int, vector: int) -> tuple[int, ...]:
    if width > 1:
        return tuple(range(width * structure.size // vector))
    return tuple(sorted({field // vector for field in structure.fields.values()}))


def _divisor(structure: Structure, along: str, width: int, context: Context) -> int:
    """A number that provably divides the offset of a run."""
    names = {name: symbol(f"index {name}") for sub in structure.subscripts for name in free_indices(sub)}
    symbols = {**context.symbols, **names, along: width * names[along]}
    scales = (*structure.array.strides[:-1], integer(structure.size))
    pairs = zip(structure.subscripts, scales, strict=True)
    terms = (scale if is_computed(sub) else to_integer(sub, symbols) * scale for sub, scale in pairs)
    return math.gcd(*(divisor(term.expand(), context) for term in terms))
