"""Matches reductions that read each element for a single result, over as few fused dimensions as possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cugen.families.reduce.frames import frames_beyond_boundary, is_of_frames
from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.families.reduce.reads import ElementIndices, is_affine, is_gathered_row, operand_reads, strides_of
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.grid import contiguous_first
from cugen.pieces.vectors import is_computed
from cugen.plan.alignment import divisor
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, bounds, symbol
from cugen.plan.traversal.ragged import has_nested_ranges
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import FusedStatements
from cugen.rewrite.indices.row_groups import with_fused_row_groups
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Read, Reduce, Sample, free_indices, walk
from cugen.spec.model import Statement

MAX_PACKED_EXTENT = 64  # of an index that a thread unrolls in its innermost loop: the bits of a word (heuristic)
MAX_SHARING_RESULTS = 8  # of the same gathered elements, which come from a cache after the first (heuristic)


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
    fused = with_fused_row_groups(unfused, request.context)
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
    if any(map(has_nested_ranges, reductions)):
        raise NotReductions("reduces ranges of the same elements for all other reduced indices")
    elements = _elements(request, fused, output_names, reductions)
    strides = strides_of(elements.largest, fused, elements.names, request)
    fastest = _fastest(elements, fused, strides, request)
    repeated = tuple(index for index in indices if index.name not in free_indices(elements.largest))
    along = (index for index in indices if index not in repeated)
    order = tuple(sorted(along, key=lambda index: _slowness(index, strides, fastest, request)))
    packed = _packed(repeated, elements, fused, fastest, request) if order else None
    order = (*(index for index in repeated if index != packed), *order)
    extremes = _extremes(reductions)
    computed = tuple(r for r in reductions if r not in extremes)
    stage = Stage(order, computed, elements.moving, tuple(extremes.items()), packed)
    return stage, "" if fastest in reduced else fastest


@dataclass(frozen=True, slots=True)
class _Elements:
    """The reads of a stage. Reduced indices move the addresses of the `moving` ones by constant steps, or choose rows;
    each element of the `unshared` ones is for one result, and the `largest` has the most indices of these. `names` are
    the reduced and the output indices."""

    moving: tuple[Read, ...]
    unshared: list[Read]
    largest: Read
    names: set[str]
    indices_of: ElementIndices

    def rank(self, read: Read) -> int:
        return len(self.indices_of(read) & self.names)


def _elements(
    request: Request, fused: FusedStatements, output_names: list[str], reductions: tuple[Reduce, ...]
) -> _Elements:
    """The reads, of which one must have all elements for one result each: else several results share every element."""
    indices_of = ElementIndices.of(reductions, fused)
    reduced, names = set(indices_of.reduced), {*indices_of.reduced, *output_names}
    reads = tuple(read for read in operand_reads(reductions) if free_indices(read) & reduced)
    for read in reads:
        if not all(_has_own_elements(sub, reductions[0].indices, output_names, request) for sub in read.subscripts):
            raise NotReductions(f"subscripts inputs by one index at a time; {read.array} is read by several")
    if not reads:
        has_samples = any(isinstance(node, Sample) for reduction in reductions for node in walk(reduction))
        source = "filtered textures" if has_samples else "indices"
        raise NotReductions(f"reduces array elements; here all values come from {source}")

    def rank(read: Read) -> int:
        return len(indices_of(read) & names)

    # Others are gathered, or read through a boundary: element by element, in the order of these.
    moving = tuple(read for read in reads if is_affine(read, reduced, request))
    # What lacks an output index is shared by several results, and comes from a cache.
    unshared = [read for read in moving if set(output_names) <= indices_of(read)]
    largest = max(unshared, key=rank, default=None)
    if largest is None or rank(largest) < max(map(rank, reads)):
        gathered = tuple(read for read in reads if is_gathered_row(read, reductions, fused))
        unshared = [read for read in gathered if _shares_few(indices_of(read), request)]
        largest = max(unshared, key=rank, default=None)
        moving += () if largest is None else gathered
        largest = largest or frames_beyond_boundary(reads, moving, fused, reduced, output_names, request)
        if largest is None:
            raise NotReductions("reads each element for one result; here several results share every element")
    return _Elements(moving, unshared, largest, names, indices_of)


def _fastest(elements: _Elements, fused: FusedStatements, strides: Mapping[str, Integer], request: Request) -> str:
    """The index along which the largest read is contiguous, and with it all of its rank in memory."""
    largest = elements.largest
    fastest = _smallest(strides, request)
    if fastest is None:
        raise NotReductions(f"the contiguous dimension of {largest.array} depends on params")
    for read in elements.unshared:
        if elements.rank(read) < elements.rank(largest) or fused.arrays[read.array].space not in IN_MEMORY:
            continue
        if _smallest(strides_of(read, fused, elements.names, request), request) != fastest:
            raise NotReductions(f"consecutive {fastest} are not contiguous in {read.array}")
    return fastest


def _packed(
    repeated: Sequence[spec.Index], elements: _Elements, fused: FusedStatements, fastest: str, request: Request
) -> spec.Index | None:
    """A short index that the largest read lacks, and with it all that is contiguous along the fastest one."""
    for index in reversed(repeated):
        extent = request.context.static_extent(index)
        of_index = (read for read in elements.moving if index.name in free_indices(read))
        is_scattered = all(strides_of(read, fused, elements.names, request).get(fastest) != 1 for read in of_index)
        if extent is not None and 1 < extent <= MAX_PACKED_EXTENT and is_scattered:
            return index
    return None


def _extremes(reductions: Sequence[Reduce]) -> dict[Reduce, Reduce]:
    """Each max or min whose argmax or argmin is among the reductions too, and computes it as well."""
    by_values = {(r.kind, r.body, r.where, r.body.dtype): r for r in reductions}
    return {r: arg for r in reductions if (arg := by_values.get((f"arg{r.kind}", r.body, r.where, r.dtype)))}


def _has_own_elements(sub: Expr, indices: tuple[spec.Index, ...], output_names: list[str], request: Request) -> bool:
    """Whether a subscript is a function of one reduced index at most, and then of no output index, or of the element of
    a chunk: `part * chunk + i`, also of frames that overlap. What is gathered may be any element."""
    reduced = {index.name for index in indices}
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
    (reduced_index,) = (index for index in indices if index.name == name)
    step = subscript.coeff(symbol(name))
    extent = request.context.extent(reduced_index)
    chunks = (subscript - step * (symbol(name) + symbol(output) * extent) for output in outputs)
    if any(not chunk.expand().free_symbols & set(index_symbols.values()) for chunk in chunks):
        return True
    return len(outputs) == 1 and is_of_frames(subscript, symbol(name), symbol(*outputs), reduced_index, request)


def _outside_reads(expr: Expr) -> Iterator[Expr]:
    """The nodes of an expression, without those in subscripts."""
    yield expr
    if not isinstance(expr, Read):
        for part in spec.children(expr):
            yield from _outside_reads(part)


def _shares_few(names: frozenset[str], request: Request) -> bool:
    """Whether no more results read the same elements, of so many indices, than caches serve without much further
    traffic."""
    shared = (index for index in request.group.statements[0].indices if index.name not in names)
    return prod(map(request.context.planned_extent, shared)) <= MAX_SHARING_RESULTS


def _smallest(strides: Mapping[str, Integer], request: Request) -> str | None:
    """The index with the smallest stride, of which strides that depend on params are multiples; None where it depends
    on params itself."""
    contiguous = [name for name, stride in strides.items() if stride == 1]
    if contiguous:
        return contiguous[-1]
    known = {name: request.context.static(stride) for name, stride in strides.items()}
    fixed = {name: value for name, value in known.items() if value is not None}
    smallest = min(fixed, key=lambda name: fixed[name], default=None)
    others = (stride for name, stride in strides.items() if name not in fixed)
    if smallest is None or any(divisor(stride, request.context) % fixed[smallest] for stride in others):
        return None
    return smallest


def _slowness(index: spec.Index, strides: Mapping[str, Integer], fastest: str, request: Request) -> tuple[int, int]:
    """A sort key: indices without a constant stride first, in written order, then large strides, the fastest index
    last. What is gathered is so read once for all rows that it addresses."""
    stride = strides.get(index.name)
    if index.name == fastest:
        return (1, 0)
    if stride is None:
        return (-1, 0)
    return (0, -max(bounds(stride, dict(request.context.ranges))[1], divisor(stride, request.context)))
