"""Matches reductions that read each element for a single result, over as few fused dimensions as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from cugen.pieces.block_reduce import Accumulator
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.grid import contiguous_first
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES, Width, is_computed, offset_of, widest_at
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.plan.traversal.ragged import has_nested_ranges, keyed_indices, ragged_indices
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import FusedStatements, with_fused_dimensions
from cugen.spec import expressions as spec
from cugen.spec.expressions import (
    Const,
    Expr,
    IndexValue,
    Local,
    Read,
    Reduce,
    Sample,
    Scan,
    conjunction,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Statement

MAX_SHARING_RESULTS = 8  # of the same gathered elements, which come from a cache after the first (heuristic)


@dataclass(frozen=True, slots=True)
class Stage:
    """Reductions over the same indices (fastest last), computed in one pass; `reads` depend on these indices.

    `extremes` pairs each max and min with the argmax or argmin of the stage that yields it as well."""

    indices: tuple[spec.Index, ...]
    reductions: tuple[Reduce, ...]
    reads: tuple[Read, ...]
    extremes: tuple[tuple[Reduce, Reduce], ...] = ()

    @property
    def fastest(self) -> spec.Index:
        return self.indices[-1]

    def invariant_reads(self, along: str) -> tuple[Read, ...]:
        """The loop-invariant reads, which are safe to hoist also where the loop has no iteration."""
        if any(reduction.where is not None for reduction in self.reductions):
            return ()
        moving = {index.name for index in self.indices} | {along}
        reads = (read for read in _operand_reads(self.reductions) if not free_indices(read) & moving)
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
        owned = (_same(map(find, stage.reductions)) for stage in self.stages)
        owners = {name for indices in owned for name in indices.get(index.name, ())}
        results = prod(self.context.planned_extent(i) for i in self.output_indices if i.name in owners)
        return -(-self.context.planned_extent(index) // max(results, 1))

    def shares_elements(self, stage: Stage) -> bool:
        """Whether some reduction of the stage alone reads elements that several results share."""
        outputs, reduced = ({index.name for index in indices} for indices in (self.output_indices, stage.indices))
        for indices in (ragged_indices, keyed_indices):
            outputs -= frozenset[str]().union(*_same(map(indices, stage.reductions)).values())
        moving = (
            [r for r in _operand_reads((reduction,)) if free_indices(r) & reduced] for reduction in stage.reductions
        )
        return not all(any(outputs <= free_indices(read) for read in reads) for reads in moving)

    def wide_reads(self, stage: Stage, along: str) -> tuple[Read, ...]:
        """The reads that are contiguous along an index."""
        return tuple(
            r for r in stage.reads if self._strides_along(r, along) == [1] and self.arrays[r.array].space in IN_MEMORY
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

    def shifted_reads(self, stage: Stage, along: str) -> tuple[Read, ...]:
        """The reads of which consecutive elements along an index are adjacent, but begin where no vector may, or end at
        a boundary: those that are shifted against the main one, or reversed."""
        main = self.main_read(stage, along)
        indices = {index.name: symbol(index.name) for index in (*self.output_indices, *stage.indices)}
        symbols = {**self.context.symbols, **indices}
        count = MAX_ACCESS_BYTES // self.arrays[main.array].dtype.bytes

        def is_shifted(read: Read) -> bool:
            if any(map(is_computed, (*read.subscripts, *main.subscripts))):
                return False
            offset, of_main = (offset_of(self.arrays, (r.array, r.subscripts), symbols) for r in (read, main))
            distance = (offset - of_main).expand()
            is_constant = distance.free_symbols.isdisjoint(indices.values())
            return is_constant and divisor(distance, self.context) % count != 0

        reads = (read for read in _operand_reads(stage.reductions) if read != main and along in free_indices(read))
        return tuple(
            read
            for read in reads
            if len(strides := self._strides_along(read, along)) == 1
            and strides[0] in (1, -1)
            and (strides[0] == -1 or read.boundary is not None or is_shifted(read))
        )

    def _strides_along(self, read: Read, along: str) -> list[Integer]:
        """The strides of an index in the dimensions whose subscripts hold it."""
        pairs = zip(read.subscripts, self.arrays[read.array].strides, strict=True)
        steps = ((_step(sub, along, self.request), stride) for sub, stride in pairs if along in free_indices(sub))
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

    def widest_access(self, read: Read, along: str) -> Width:
        """The widest vector access along an index, which starts at multiples of the width."""
        return widest_at(self.arrays[read.array], read.subscripts, along, self.context)


class NotReductions(ValueError):
    """Why statements don't match the family."""


def match_reductions(request: Request) -> ReductionProblem | Refusal:
    """The reductions of the group's statements, or the reason against this family."""
    try:
        return _problem(request)
    except (NotInStages, NotReductions) as error:
        return Refusal(str(error))


def _problem(request: Request) -> ReductionProblem:
    """The stages with their indices in memory order, all along rows or all along columns."""
    _check_form(request.group.statements)
    unfused = with_common_indices(request.group.statements, request.context)
    fused = with_fused_dimensions(unfused, request.context)
    statement = fused.statements[0]
    output_indices = contiguous_first(statement, fused.arrays[statement.target])
    names = [index.name for index in output_indices]
    oriented = [_stage(request, fused, names, reductions) for reductions in collected(fused.statements)]
    column_index, *others = {column for _, column in oriented}
    if others:
        raise NotReductions("reduces either rows or columns in one launch; here are both")
    if column_index:
        output_indices = tuple(sorted(output_indices, key=lambda index: index.name != column_index))
    request, stages = request.with_statements(fused.statements), tuple(stage for stage, _ in oriented)
    return ReductionProblem(request, unfused, fused.arrays, fused.origins, output_indices, stages, column_index)


def _check_form(statements: tuple[Statement, ...]) -> None:
    if not collected(statements):
        raise NotReductions("needs a reduction; here is none")
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            raise NotReductions(f"subscripts outputs by indices alone; {statement.target} has an expression")
    written = [statement.target for statement in statements]
    for reduction in (node for s in statements for node in walk(s.value) if isinstance(node, Reduce)):
        for read in (node for node in walk(reduction) if isinstance(node, Read) and node.array in written):
            raise NotReductions(f"{read.array} is read by the reduction and written by the same kernel")


def _stage(
    request: Request, fused: FusedStatements, output_names: list[str], reductions: tuple[Reduce, ...]
) -> tuple[Stage, str]:
    """One stage, and the output index along which its input is contiguous, empty where that is a reduced index."""
    indices = reductions[0].indices
    reduced = {index.name for index in indices}
    names = {*reduced, *output_names}
    if any(map(has_nested_ranges, reductions)):
        raise NotReductions("reduces ranges of the same elements for all other reduced indices")
    ragged, keyed = _same(map(ragged_indices, reductions)), _same(map(keyed_indices, reductions))

    def indices_of(read: Read) -> frozenset[str]:
        """The indices that an element is of, with those of its ragged range, or of its key where it is of columns:
        results with other keys skip it."""
        free = free_indices(read)
        owned = free.union(*(owners for name, owners in ragged.items() if name in free))
        by_key = frozenset[str]().union(*(owners for name, owners in keyed.items() if name in free))
        columns = {sub.name for sub in _contiguous_subscripts(read, fused) if isinstance(sub, IndexValue)}
        return owned | by_key if columns - reduced - by_key else owned

    reads = tuple(read for read in _operand_reads(reductions) if free_indices(read) & reduced)
    for read in reads:
        if not all(_has_own_elements(sub, reduced, indices, output_names, request) for sub in read.subscripts):
            raise NotReductions(f"subscripts inputs by one index at a time; {read.array} is read by several")
    # Others are gathered, or read through a boundary: element by element, in the order of these.
    moving = tuple(read for read in reads if _is_affine(read, reduced, request))
    if not reads:
        has_samples = any(isinstance(node, Sample) for reduction in reductions for node in walk(reduction))
        source = "filtered textures" if has_samples else "indices"
        raise NotReductions(f"reduces array elements; here all values come from {source}")
    # What lacks an output index is shared by several results, and comes from a cache.
    unshared = [read for read in moving if set(output_names) <= indices_of(read)]
    largest = max(unshared, key=lambda read: len(indices_of(read) & names), default=None)
    if largest is None or len(indices_of(largest) & names) < max(len(indices_of(read) & names) for read in reads):
        gathered = tuple(read for read in reads if _is_gathered_row(read, reductions, fused))
        unshared = [read for read in gathered if _shares_few(indices_of(read), request)]
        largest = max(unshared, key=lambda read: len(indices_of(read) & names), default=None)
        if largest is None:
            raise NotReductions("reads each element for one result; here several results share every element")
        moving += gathered
    strides = _strides(largest, fused, names, request)
    fastest = _smallest(strides, request)
    if fastest is None:
        raise NotReductions(f"the contiguous dimension of {largest.array} depends on params")
    rank = len(indices_of(largest) & names)
    for read in unshared:
        if len(indices_of(read) & names) < rank or fused.arrays[read.array].space not in IN_MEMORY:
            continue
        if _smallest(_strides(read, fused, names, request), request) != fastest:
            raise NotReductions(f"consecutive {fastest} are not contiguous in {read.array}")
    repeated = tuple(index for index in indices if index.name not in free_indices(largest))
    along = (index for index in indices if index not in repeated)
    order = (*repeated, *sorted(along, key=lambda index: _slowness(index, strides, fastest, request)))
    by_values = {(r.kind, r.body, r.where, r.body.dtype): r for r in reductions}
    extremes = {r: arg for r in reductions if (arg := by_values.get((f"arg{r.kind}", r.body, r.where, r.dtype)))}
    computed = tuple(r for r in reductions if r not in extremes)
    return Stage(order, computed, moving, tuple(extremes.items())), "" if fastest in reduced else fastest


def _operand_reads(reductions: Sequence[Reduce]) -> tuple[Read, ...]:
    """All reads of the bodies and conditions, except those of nested reductions, each once."""
    reads: dict[Read, None] = {}
    for reduction in reductions:
        open_ = list(spec.children(reduction))
        while open_:
            match expr := open_.pop(0):
                case Reduce():
                    continue
                case Read():
                    reads[expr] = None
            open_ += spec.children(expr)
    return tuple(reads)


def _has_own_elements(
    sub: Expr, reduced: set[str], indices: tuple[spec.Index, ...], output_names: list[str], request: Request
) -> bool:
    """Whether a subscript is a function of one reduced index at most, and then of no output index, or of the element of
    a chunk: `part * chunk + i`. What is gathered may be any element."""
    direct = {node.name for node in _outside_reads(sub) if isinstance(node, IndexValue)}
    used, outputs = direct & reduced, direct & set(output_names)
    if not used or not outputs:
        return len(used) <= 1
    if len(used) > 1 or is_computed(sub):
        return False
    (name,) = used
    index_symbols = {name: symbol(name) for name in (*reduced, *output_names)}
    try:
        subscript = to_integer(sub, {**request.context.symbols, **index_symbols}).expand()
    except NotAnInteger:
        return False
    (extent,) = (request.context.extent(index) for index in indices if index.name == name)
    step = subscript.coeff(symbol(name))
    chunks = (subscript - step * (symbol(name) + symbol(output) * extent) for output in outputs)
    return any(not chunk.expand().free_symbols & set(index_symbols.values()) for chunk in chunks)


def _outside_reads(expr: Expr) -> Iterator[Expr]:
    """The nodes of an expression, without those in subscripts."""
    yield expr
    if not isinstance(expr, Read):
        for part in spec.children(expr):
            yield from _outside_reads(part)


def _is_affine(read: Read, reduced: set[str], request: Request) -> bool:
    """Whether reduced indices move the address by constant steps, and it is inside of the array."""
    return read.boundary is None and all(
        not is_computed(sub) and _step(sub, name, request) is not None
        for sub in read.subscripts
        for name in free_indices(sub) & reduced
    )


def _is_gathered_row(read: Read, reductions: Sequence[Reduce], fused: FusedStatements) -> bool:
    """Whether the read is of a row that is gathered along a reduced index, contiguous along an output index. Conditions
    that may keep it in bounds must choose rows, of all reductions."""
    if read.boundary is not None or read.exact or fused.arrays[read.array].space not in IN_MEMORY:
        return False
    reduced = {index.name for index in reductions[0].indices}
    contiguous = _contiguous_subscripts(read, fused)
    columns = {sub.name for sub in contiguous if isinstance(sub, IndexValue)} - reduced
    conditions = [conjuncts(reduction.where) for reduction in reductions]
    of_elements = (c for c in conditions[0] if free_indices(c) & columns)
    if any(set(c) != set(conditions[0]) for c in conditions) or any(map(_compares_elements, of_elements)):
        return False
    return bool(columns) and any(is_computed(sub) and free_indices(sub) & reduced for sub in read.subscripts)


def _compares_elements(condition: Expr) -> bool:
    return any(isinstance(node, Read) for node in walk(condition))


def _same(maps: Iterable[Mapping[str, frozenset[str]]]) -> Mapping[str, frozenset[str]]:
    """The map of all reductions; an empty one where they differ."""
    first, *remaining = maps
    return first if all(indices == first for indices in remaining) else {}


def _contiguous_subscripts(read: Read, fused: FusedStatements) -> tuple[Expr, ...]:
    """The subscripts of dimensions along which elements are contiguous."""
    pairs = zip(read.subscripts, fused.arrays[read.array].strides, strict=True)
    return tuple(sub for sub, stride in pairs if stride == 1)


def _shares_few(names: frozenset[str], request: Request) -> bool:
    """Whether no more results read the same elements, of so many indices, than caches serve without much further
    traffic."""
    shared = (index for index in request.group.statements[0].indices if index.name not in names)
    return prod(map(request.context.planned_extent, shared)) <= MAX_SHARING_RESULTS


def _step(sub: Expr, name: str, request: Request) -> Integer | None:
    """What an index adds to a subscript with each of its values; None where that isn't constant."""
    symbols = {**request.context.symbols, **{index: symbol(index) for index in free_indices(sub)}}
    try:
        subscript = to_integer(sub, symbols).expand()
    except NotAnInteger:
        return None
    step = subscript.coeff(symbol(name))
    return None if symbol(name) in (subscript - step * symbol(name)).free_symbols else step


def _strides(read: Read, fused: FusedStatements, names: set[str], request: Request) -> dict[str, Integer]:
    """The stride of a read along each index, in elements, where it is constant."""
    strides: dict[str, Integer] = {}
    for sub, stride in zip(read.subscripts, fused.arrays[read.array].strides, strict=True):
        for name in sorted(free_indices(sub) & names):
            if (step := _step(sub, name, request)) is not None:
                strides[name] = strides.get(name, integer(0)) + stride * step
    return strides


def _smallest(strides: Mapping[str, Integer], request: Request) -> str | None:
    """The index with the smallest stride; None where that depends on params."""
    contiguous = [name for name, stride in strides.items() if stride == 1]
    if contiguous:
        return contiguous[-1]
    known = {name: request.context.static(stride) for name, stride in strides.items()}
    fixed = {name: value for name, value in known.items() if value is not None}
    return min(fixed, key=lambda name: fixed[name]) if fixed and len(fixed) == len(strides) else None


def _slowness(index: spec.Index, strides: Mapping[str, Integer], fastest: str, request: Request) -> tuple[int, int]:
    """A sort key: indices without a constant stride first, in written order, then large strides, the fastest index
    last. What is gathered is so read once for all rows that it addresses."""
    stride = strides.get(index.name)
    if index.name == fastest:
        return (1, 0)
    if stride is None:
        return (-1, 0)
    return (0, -max(bounds(stride, dict(request.context.ranges))[1], divisor(stride, request.context)))
