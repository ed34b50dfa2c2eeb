"""The reductions of a group as kernels plan them: stages over fused dimensions, and which reads are contiguous."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from cugen.families.reduce.reads import operand_reads, same_in_all, step_of
from cugen.machine.features import FUNNEL_SHIFTS
from cugen.machine.requests.warp import WORD_BYTES
from cugen.pieces.block_reduce import Accumulator
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.vector_body import is_guarded
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES, Width, is_computed, offset_of, widest_at
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.memory import ADDRESSED, Array
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, integer, symbol
from cugen.plan.traversal.ragged import keyed_indices, ragged_indices
from cugen.spec import expressions as spec
from cugen.spec.expressions import (
    Expr,
    IndexValue,
    Local,
    Read,
    Reduce,
    Scan,
    conjunction,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Statement

MAX_NARROW_BYTES = 2  # of elements that are loaded in vectors and shifted (the L1 keeps up with single wider ones)


@dataclass(frozen=True, slots=True)
class Stage:
    """Reductions over the same indices (fastest last), computed in one pass; `reads` depend on these indices.

    `extremes` pairs each max and min with the argmax or argmin of the stage that yields it as well. `packed` is a short
    index besides, the innermost one: a thread loads an element for all of its values, as a word of packed numbers."""

    indices: tuple[spec.Index, ...]
    reductions: tuple[Reduce, ...]
    reads: tuple[Read, ...]
    extremes: tuple[tuple[Reduce, Reduce], ...] = ()
    packed: spec.Index | None = None

    @property
    def fastest(self) -> spec.Index:
        return self.indices[-1]

    @property
    def all_indices(self) -> tuple[spec.Index, ...]:
        return self.indices if self.packed is None else (*self.indices, self.packed)

    def invariant_reads(self, along: str) -> tuple[Read, ...]:
        """The loop-invariant reads, which are safe to hoist also where the loop has no iteration."""
        if any(reduction.where is not None for reduction in self.reductions):
            return ()
        moving = {index.name for index in self.all_indices} | {along}
        reads = (read for read in operand_reads(self.reductions) if not free_indices(read) & moving)
        return tuple(read for read in reads if not any(map(is_computed, read.subscripts)))

    def results(self, accumulators: Sequence[Accumulator]) -> dict[Reduce, Local]:
        """The locals with the results of the reductions."""
        by_reduction = dict(zip(self.reductions, accumulators, strict=True))
        results = {reduction: accumulator.value for reduction, accumulator in by_reduction.items()}
        return results | {extreme: by_reduction[arg].locals[-1] for extreme, arg in self.extremes}

    def common_conditions(self) -> tuple[Expr, ...]:
        """The conditions that all of the reductions have."""
        first, *others = (conjuncts(reduction.where) for reduction in self.reductions)
        return tuple(condition for condition in first if all(condition in conditions for conditions in others))

    def without_conditions(self, implied: Sequence[Expr]) -> Stage:
        """The stage in loops that imply some of its conditions."""

        def tested(where: Expr | None) -> Expr | None:
            return conjunction(condition for condition in conjuncts(where) if condition not in implied)

        return replace(self, reductions=tuple(replace(r, where=tested(r.where)) for r in self.reductions))

    def needs_element_index(self, along: str, vectors: Sequence[Read]) -> bool:
        """Whether the code uses the index of each element, not only that of its vector."""

        def depends(expr: Expr) -> bool:
            match expr:
                case Read() if expr in vectors or along not in free_indices(expr):
                    return False
                case IndexValue(name=name):
                    return name == along
                case Reduce() | Scan():
                    return False
            return any(map(depends, spec.children(expr)))

        is_position = any(r.is_position and r.indices[0].name == along for r in self.reductions)
        return is_position or any(depends(part) for r in self.reductions for part in spec.children(r))


@dataclass(frozen=True, slots=True)
class ReductionProblem:
    """A group's reductions over fused dimensions: the output indices (fastest first), and the stages in order of use.

    `column_index` is the output index along which the input is contiguous: then threads take columns. It is empty
    where the input is contiguous along each stage's fastest index: then threads share rows."""

    request: Request  # its statements hold the reductions of the stages
    unfused: tuple[Statement, ...]  # the statements before dimensions were fused
    arrays: Mapping[str, Array]
    origins: Mapping[str, tuple[spec.Index, ...]]  # the indices that each fused one replaces
    output_indices: tuple[spec.Index, ...]
    stages: tuple[Stage, ...]
    column_index: str

    @property
    def context(self) -> Context:
        return self.request.context

    def planned_extent(self, index: spec.Index) -> int:
        """The extent that work is distributed for: of a ragged range the average."""
        return self._average_extent(index, ragged_indices)

    def evaluated(self) -> frozenset[Expr]:
        """What the first condition of a reduction computes: it is tested for each term."""
        conditions = (conjuncts(reduction.where)[:1] for stage in self.stages for reduction in stage.reductions)
        return frozenset(node for first in conditions for condition in first for node in walk(condition))

    def planned_terms(self, index: spec.Index) -> int:
        """The terms along an index of a result that is one of several by key, on average."""
        return min(self._average_extent(index, find) for find in (ragged_indices, keyed_indices))

    def _average_extent(self, index: spec.Index, find: Callable[[Reduce], Mapping[str, frozenset[str]]]) -> int:
        owned = (same_in_all(map(find, stage.reductions)) for stage in self.stages)
        owners = {name for indices in owned for name in indices.get(index.name, ())}
        results = prod(self.context.planned_extent(i) for i in self.output_indices if i.name in owners)
        return -(-self.context.planned_extent(index) // max(results, 1))

    def shares_elements(self, stage: Stage) -> bool:
        """Whether some reduction of the stage alone reads elements that several results share."""
        outputs, reduced = ({index.name for index in indices} for indices in (self.output_indices, stage.all_indices))
        for indices in (ragged_indices, keyed_indices):
            outputs -= frozenset[str]().union(*same_in_all(map(indices, stage.reductions)).values())
        moving = (
            [r for r in operand_reads((reduction,)) if free_indices(r) & reduced] for reduction in stage.reductions
        )
        return not all(any(outputs <= free_indices(read) for read in reads) for reads in moving)

    def wide_reads(self, stage: Stage, along: str) -> tuple[Read, ...]:
        """The reads that are contiguous along an index."""
        return tuple(
            r for r in stage.reads if self._strides_along(r, along) == [1] and self.arrays[r.array].space in IN_MEMORY
        )

    def guarded_reads(self, stage: Stage, along: str) -> tuple[Read, ...]:
        """The reads that are contiguous along an index, and zeros for all its values where others are outside."""
        return tuple(
            read
            for read in operand_reads(stage.reductions)
            if is_guarded(read, along)
            and self._strides_along(read, along) == [1]
            and self.arrays[read.array].space in IN_MEMORY
        )

    def spread_reads(self, stage: Stage, along: str) -> tuple[Read, ...]:
        """The reads of which consecutive elements along an index are apart, but in the same sector."""
        return tuple(
            r
            for r in stage.reads
            if len(strides := self._strides_along(r, along)) == 1
            and (stride := self.context.static(strides[0])) is not None
            and 1 < stride < SECTOR_BYTES // self.arrays[r.array].dtype.bytes
        )

    def packed_reads(self, stage: Stage, width: int, starts: Mapping[str, Integer] | None = None) -> tuple[Read, ...]:
        """The reads of which one run of elements is for a vector of `width` of the stage's main elements, from vectors
        that are aligned: of those, and of all numbers in each. Conditions may be what keeps them in bounds.

        starts: of chunks, by the names of their indices."""
        if stage.packed is None or any(reduction.where is not None for reduction in stage.reductions):
            return ()
        along, packed, count = stage.fastest.name, stage.packed.name, self.packed_count(stage)
        names = {index.name: symbol(index.name) for index in (*self.output_indices, *stage.all_indices)}
        symbols = {**self.context.symbols, **names, **(starts or {}), packed: integer(0)}

        def is_run(read: Read) -> bool:
            array = self.arrays[read.array]
            if not array.flat or array.space not in ADDRESSED or any(map(is_computed, read.subscripts)):
                return False
            steps = [self.context.static(self._step(read, name)) for name in (along, packed)]
            offset = offset_of(self.arrays, (read.array, read.subscripts), symbols).expand()
            first = offset.xreplace({names[along]: width * names[along]}).expand()
            is_aligned = divisor(first, self.context) % self.run_width(read, count * width) == 0
            return is_aligned and steps == [count, 1]

        return tuple(read for read in stage.reads if is_run(read))

    def packed_count(self, stage: Stage) -> int:
        """The values of the stage's packed index; 1 without one."""
        return 1 if stage.packed is None else self.context.max_extent(stage.packed)

    def run_width(self, read: Read, count: int) -> int:
        """The elements of one access to a run of `count` elements."""
        return gcd(count, MAX_ACCESS_BYTES // self.arrays[read.array].dtype.bytes)

    def _step(self, read: Read, along: str) -> Integer:
        """The elements between those at consecutive values of an index."""
        return sum(self._strides_along(read, along), start=integer(0))

    def shifted_reads(self, stage: Stage, along: str) -> tuple[Read, ...]:
        """The reads of which consecutive elements along an index are adjacent, but begin where no vector may, or end at
        a boundary: those that are shifted against the main one, or reversed."""
        main = self.main_read(stage, along)
        indices = {index.name: symbol(index.name) for index in (*self.output_indices, *stage.all_indices)}
        symbols = {**self.context.symbols, **indices}
        count = MAX_ACCESS_BYTES // self.arrays[main.array].dtype.bytes

        def is_shifted(read: Read) -> bool:
            if any(map(is_computed, (*read.subscripts, *main.subscripts))):
                return False
            offset, of_main = (offset_of(self.arrays, (r.array, r.subscripts), symbols) for r in (read, main))
            distance = (offset - of_main).expand()
            is_constant = distance.free_symbols.isdisjoint(indices.values())
            return is_constant and divisor(distance, self.context) % count != 0

        reads = (read for read in operand_reads(stage.reductions) if read != main and along in free_indices(read))
        return tuple(
            read
            for read in reads
            if len(strides := self._strides_along(read, along)) == 1
            and strides[0] in (1, -1)
            and (strides[0] == -1 or not (read.boundary is None or is_guarded(read, along)) or is_shifted(read))
        )

    def _strides_along(self, read: Read, along: str) -> list[Integer]:
        """The strides of an index in the dimensions whose subscripts hold it."""
        pairs = zip(read.subscripts, self.arrays[read.array].strides, strict=True)
        steps = ((step_of(sub, along, self.request), stride) for sub, stride in pairs if along in free_indices(sub))
        return [integer(0) if step is None else stride * step for step, stride in steps]

    def main_read(self, stage: Stage, along: str = "") -> Read:
        """The contiguous read of the most elements, whose alignment the vector loads follow."""
        reads = self.wide_reads(stage, along or stage.fastest.name)
        return max(reads, key=lambda read: (len(free_indices(read)), self.arrays[read.array].dtype.bytes))

    def vector_reads(self, stage: Stage, width: int) -> tuple[Read, ...]:
        """The reads that vectors of `width` elements fill from the same indices on, the main one first."""
        along, main = stage.fastest.name, self.main_read(stage)
        names = {name for read in stage.reads for name in free_indices(read)}
        symbols = {**self.context.symbols, **{name: symbol(name) for name in names}}

        def has_equal_alignment(read: Read) -> bool:
            array = self.arrays[read.array]
            if array.space == "texture" or array.dtype.bytes * width > MAX_ACCESS_BYTES:
                return False
            offset, of_main = (offset_of(self.arrays, (r.array, r.subscripts), symbols) for r in (read, main))
            return divisor((offset - of_main).expand(), self.context) % width == 0

        aligned = [read for read in self.wide_reads(stage, along) if read != main and has_equal_alignment(read)]
        return (main, *aligned)

    def realigned_reads(self, stage: Stage, width: int, starts: Mapping[str, Integer]) -> tuple[Read, ...]:
        """The reads of narrow elements, or of wider ones than the main read's, that are aligned at multiples of `width`
        along the fastest index, in rows whose vectors start elsewhere: two aligned vectors have the elements of one.
        Single loads of lanes that are a vector apart are in as many lines as vectors, for an element each.

        starts: of chunks, by the names of their indices."""
        along, served = stage.fastest.name, self.vector_reads(stage, width)
        main_bytes = self.arrays[served[0].array].dtype.bytes
        if not FUNNEL_SHIFTS.is_on(self.request.target) or stage.packed is not None:
            return ()
        if any(reduction.where is not None for reduction in stage.reductions):
            return ()

        def is_aligned(read: Read) -> bool:
            array, subscripts = self.arrays[read.array], read.subscripts
            if array.space not in ADDRESSED or read.boundary is not None or any(map(is_computed, subscripts)):
                return False
            has_words = MAX_NARROW_BYTES < array.dtype.bytes <= main_bytes
            if has_words or not WORD_BYTES <= array.dtype.bytes * width <= MAX_ACCESS_BYTES:
                return False
            names = {name: symbol(name) for sub in subscripts for name in free_indices(sub)}
            symbols = {**self.context.symbols, **names, **starts, along: integer(0)}
            return divisor(offset_of(self.arrays, (read.array, subscripts), symbols), self.context) % width == 0

        return tuple(read for read in self.wide_reads(stage, along) if read not in served and is_aligned(read))

    def widest_access(self, read: Read, along: str) -> Width:
        """The widest vector access along an index, which starts at multiples of the width."""
        return widest_at(self.arrays[read.array], read.subscripts, along, self.context)
