"""Recognises contractions C[batch, m, n] = f(sum over k of A[batch, m, k]·B[batch, k, n]), with one or several sums.

A term may be another function of the elements than their product, as (A[batch, m, k] - B[batch, k, n])², and be reduced
to its minimum or maximum, where a family asks for such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.families.contraction.chosen_terms import with_chosen_terms
from cugen.families.contraction.k_range import k_bounds_refusal
from cugen.families.contraction.scales import Scales, without_scales
from cugen.families.contraction.windows import Window, window_refusal, with_linear_windows
from cugen.pieces.grid import fastest_first
from cugen.pieces.kernels import new_lowering
from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.placement import is_loaded_by_element, size_refusals
from cugen.pieces.vectors import is_contiguous
from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.traversal.vanishing import vanishes
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.dense_indices import index_values
from cugen.rewrite.fuse_dimensions import squeezed, with_fused_dimensions
from cugen.spec.expressions import (
    Cast,
    Expr,
    Index,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Scan,
    Select,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Memory

_TILE_ROWS = 128  # of a large tile
MAX_SUMS = 4  # per main loop: each has its accumulators in registers and its operands' tiles in shared memory


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


def recognise(
    request: Request,
    *,
    fuses_batch: bool = False,
    masks_padding: bool = False,
    takes_windows: bool = False,
    takes_scales: bool = False,
) -> Contraction | Refusal:
    """The contraction in the group's first statement, or why there is none.

    Dimensions are fused where only one operand depends on a batch index, which then may become a part of M or N, and
    where a sum runs over several indices; with `fuses_batch` wherever they can be. With `masks_padding` the terms may
    be any function of the elements, and be reduced to their minimum or maximum, too: the family masks zero-filled
    elements of k. With `takes_windows` an operand may be read at computed subscripts. With `takes_scales` groups of
    terms may have factors."""
    if takes_scales and (scaled := _recognise_scaled(request, fuses_batch)) is not None:
        return scaled
    match = _recognise_dense(request, fuses_batch, masks_padding)
    if not takes_windows or (isinstance(match, Contraction) and not _has_single_operand_batch(match)):
        return match
    over_windows = _recognise_windows(request)
    if over_windows is None or (isinstance(over_windows, Refusal) and isinstance(match, Contraction)):
        return match
    return over_windows


@lru_cache(maxsize=16)
def _recognise_scaled(request: Request, fuses_batch: bool) -> Contraction | None:
    """The contraction of the factors of single terms, with the scales of groups; None where there are none."""
    unscaled = without_scales(request)
    match = None if unscaled is None else _recognise_dense(unscaled[0], fuses_batch, masks_padding=False)
    if unscaled is None or not isinstance(match, Contraction):
        return None
    others, factors = unscaled
    statements = with_common_indices(others.group.statements, request.context)
    is_fused = match.request.group.statements != statements
    origins = with_fused_dimensions(statements, request.context).origins if is_fused else {}
    return replace(match, scales=Scales.of(factors, match.k, origins, request.context))


def _recognise_dense(request: Request, fuses_batch: bool, masks_padding: bool) -> Contraction | Refusal:
    match = _recognise(request, masks_padding)
    if isinstance(match, Contraction) and not (fuses_batch or _has_single_operand_batch(match)):
        return match
    try:
        stages = collected(request.group.statements)
    except NotInStages:
        return match
    has_single_indices = all(len(node.indices) == 1 for stage in stages for node in stage)
    if isinstance(match, Refusal) and has_single_indices and not fuses_batch:
        return match
    fused = with_fused_indices(request)
    if fused.group == request.group or not _keeps_scheduled_indices(request, fused):
        return match
    fused_match = _recognise(fused, masks_padding)
    return fused_match if isinstance(fused_match, Contraction) else match


@lru_cache(maxsize=16)
def with_fused_indices(request: Request) -> Request:
    """The request over fused dimensions. NotInStages for reductions inside another's loop, and for scans."""
    statements = with_common_indices(request.group.statements, request.context)
    fused = squeezed(with_fused_dimensions(statements, request.context), request.context)
    return replace(request.with_statements(fused.statements), context=replace(request.context, arrays=fused.arrays))


def _keeps_scheduled_indices(request: Request, fused: Request) -> bool:
    """Whether the schedule has no size along an output index that is no longer there in the fused request."""
    schedule = request.schedule
    scheduled = {name for sizes in (schedule.block, schedule.thread, schedule.step) for name, _ in sizes}
    return scheduled & {i.name for i in _indices(request)} <= {i.name for i in _indices(fused)}


def _indices(request: Request) -> tuple[Index, ...]:
    return request.group.statements[0].indices


def _has_single_operand_batch(contraction: Contraction) -> bool:
    """Whether some operand does not depend on one of the batch indices."""
    names = {index.name for index in contraction.batch}
    return any(not names <= free_indices(operand.read) for operand in contraction.operands)


@lru_cache(maxsize=16)
def _recognise(request: Request, masks_padding: bool) -> Contraction | Refusal:
    return _contraction(request, masks_padding, {})


@lru_cache(maxsize=16)
def _recognise_windows(request: Request) -> Contraction | Refusal | None:
    """The contraction of an operand read at computed subscripts; None where no operand is."""
    linear = with_linear_windows(request)
    if linear is None or isinstance(linear, Refusal):
        return linear
    over_linear, windows = linear
    if not _keeps_scheduled_indices(request, over_linear):
        arrays = ", ".join(read.array for read in windows)
        return Refusal(f"fuses indices of the windows of {arrays}; the schedule has a size along one of them")
    return _contraction(over_linear, False, windows)


def _contraction(request: Request, masks_padding: bool, windows: Mapping[Read, Window]) -> Contraction | Refusal:
    if masks_padding:
        request = with_chosen_terms(request)
    statements = request.group.statements
    loops = {n: None for s in statements for n in walk(s.value) if isinstance(n, Reduce | Scan)}
    if len(loops) > 1 and all(isinstance(n, Reduce) for n in loops):
        statements = with_common_indices(statements, request.context)
        request = request.with_statements(statements)
        loops = {n: None for s in statements for n in walk(s.value) if isinstance(n, Reduce)}
    if not any(n in loops for n in walk(statements[0].value)):
        return Refusal("takes a contraction in the first statement, and there is none")
    if len(loops) > MAX_SUMS:
        return Refusal(f"takes up to {MAX_SUMS} contractions, not {len(loops)}")
    kinds, what = (("sum", "min", "max"), "sums, minima and maxima") if masks_padding else (("sum",), "sums")
    reductions = tuple(node for node in loops if isinstance(node, Reduce) and node.kind in kinds)
    if len(reductions) < len(loops):
        return Refusal(f"takes {what}, and no other reduction or scan")
    if any(len(node.indices) != 1 for node in reductions):
        return Refusal(f"takes {what} over one index")
    if len({(node.indices, node.where) for node in reductions}) > 1:
        return Refusal(f"takes {what} over the same index, under the same condition")
    if not masks_padding and not all(vanishes(node.body) for node in reductions):
        return Refusal("takes sums whose terms are 0 where the operands are 0: tiles are padded with zeros")
    if any(node in loops for reduction in reductions for node in walk(reduction.body)):
        return Refusal(f"takes {what} without another in their terms")
    if any(index_values(node.body) for node in reductions):
        return Refusal("takes terms of elements, constants, params and scalars; an index is none of them")
    if any(map(_depends_on_params, reductions)):
        return Refusal("loads all elements of a tile; a choice by a param may be what keeps a subscript in bounds")
    (k,) = reductions[0].indices
    reads = tuple({node: None for reduction in reductions for node in walk(reduction.body) if isinstance(node, Read)})
    for read in reads:
        if read in windows and any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub)):
            return Refusal(f"takes subscripts without a gather; {read.array} is gathered")
        if read.boundary is not None and _folds(read, windows):
            return Refusal(f"takes windows without a boundary, or zero outside; {read.array} has another boundary")
        if (read.boundary is not None and read not in windows) or read.exact:
            return Refusal(f"takes operands without a boundary; {read.array} has one")
        if k.name not in _moving(read, windows):
            return Refusal(f"{read.array} has no subscript that is {k.name} alone")
    order = fastest_first(request)
    broadcast = [i.name for i in order if not any(i.name in free_indices(read) for read in reads)]
    if broadcast:
        return Refusal(f"takes output indices on which an operand depends; none depends on {broadcast[0]}")
    matrices = tuple(read for read in reads if read not in windows)
    free = [index for index in order if is_plain(index.name, matrices)]
    n = next((i for i in free if not all(i.name in _moving(read, windows) for read in reads)), None)
    a_reads = tuple(read for read in reads if n and n.name not in _moving(read, windows))
    b_reads = tuple(read for read in reads if read not in a_reads)
    rows = [i for i in free if all((i.name in _moving(read, windows)) == (read in a_reads) for read in reads)]
    m = rows[0] if windows and rows else _long_rows(request, rows, a_reads, k)
    if n is None or m is None:
        return Refusal("takes an M index that only the A operands have and an N index that only the B operands have")
    if not all(_mentions(node.body, a_reads) and _mentions(node.body, b_reads) for node in reductions):
        return Refusal(f"takes {what} whose terms depend on M and on N")
    if any(not vanishes(node.body) and _is_product(node, a_reads, b_reads) for node in reductions):
        return Refusal("takes products of elements; functions of one operand are computed once, not for each product")
    batch = tuple(index for index in order if index not in (m, n))
    along = order[0].name
    if order[0] in batch and all(along in free_indices(read) and along not in _bare(read) for read in reads):
        return Refusal(f"stores rows along M, N or a batch; all operands are read at expressions in {along}")
    refusal = _fixed_refusal(request, reductions, matrices, {index.name for index in batch})
    conditions = (*_select_conditions(request, reductions), *conjuncts(reductions[0].where))
    for read, window in windows.items():
        refusal = refusal or window_refusal(request, read, window, conditions)
    refusal = refusal or k_bounds_refusal(request, reductions[0], (m.name, n.name), [index.name for index in batch])
    if refusal is not None:
        return refusal
    return Contraction(
        request=request,
        reductions=reductions,
        m=m,
        n=n,
        k=k,
        batch=batch,
        a_operands=tuple(operand_of(request, read, m, k, windows.get(read), is_along_m=True) for read in a_reads),
        b_operands=tuple(operand_of(request, read, n, k, windows.get(read), is_along_m=False) for read in b_reads),
    )


def _long_rows(request: Request, candidates: list[Index], a_reads: tuple[Read, ...], k: Index) -> Index | None:
    """The M of several indices that only the A operands have; the others are a batch:

        C[i, m, n] = sum(A[m, i, k] * B[k, n], k)
    has tiles whose rows are along i or along m, and a short M leaves rows of a tile unused. It is the one that the
    schedule has a size for, else the fastest of those that have the rows of a large tile, else the longest. A is
    contiguous along it, or along K."""
    schedule = request.schedule
    scheduled = {name for name, _ in (*schedule.block, *schedule.thread)}
    if requested := next((index for index in candidates if index.name in scheduled), None):
        return requested

    def is_read_in_rows(index: Index) -> bool:
        reads = ((request.context.arrays[read.array], read.subscripts) for read in a_reads)
        return all(any(is_contiguous(*read, name) for name in (index.name, k.name)) for read in reads)

    read_in_rows = list(filter(is_read_in_rows, candidates)) or candidates[:1]
    return max(read_in_rows, key=lambda i: min(request.context.planned_extent(i), _TILE_ROWS), default=None)


def _depends_on_params(reduction: Reduce) -> bool:
    """Whether a choice in the terms depends on a param."""
    conditions = (node.condition for node in walk(reduction.body) if isinstance(node, Select))
    return any(isinstance(node, ParamValue) for condition in conditions for node in walk(condition))


def _is_product(reduction: Reduce, a_reads: tuple[Read, ...], b_reads: tuple[Read, ...]) -> bool:
    """Whether a sum's terms are products and quotients of functions of the operands on one side each."""
    factors = _factors(reduction.body)
    is_separable = not any(_mentions(factor, a_reads) and _mentions(factor, b_reads) for factor in factors)
    return reduction.kind == "sum" and is_separable


def _factors(term: Expr) -> Iterator[Expr]:
    match term:
        case Op(name="mul" | "div" | "neg", args=args):
            for arg in args:
                yield from _factors(arg)
        case Cast(arg=arg):
            yield from _factors(arg)
        case _:
            yield term


def _mentions(body: Expr, reads: tuple[Read, ...]) -> bool:
    return any(node in reads for node in walk(body) if isinstance(node, Read))


def _bare(read: Read) -> tuple[str, ...]:
    return tuple(sub.name for sub in read.subscripts if isinstance(sub, IndexValue))


def _moving(read: Read, windows: Mapping[Read, Window]) -> frozenset[str]:
    """The indices along which a tile of the operand extends."""
    return free_indices(read) if read in windows else frozenset(_bare(read))


def _folds(read: Read, windows: Mapping[Read, Window]) -> bool:
    """Whether a window has elements outside of the array that are not zero."""
    return read in windows and read.boundary is not None and read.boundary.mode != "zero"


def is_plain(name: str, reads: Sequence[Read]) -> bool:
    """Whether the index is at most one bare subscript of each operand, and in no compound one."""
    mentions = ([name in free_indices(sub) for sub in read.subscripts].count(True) for read in reads)
    return all(_bare(read).count(name) == count <= 1 for read, count in zip(reads, mentions, strict=True))


def _fixed_refusal(
    request: Request, reductions: tuple[Reduce, ...], reads: tuple[Read, ...], batch: set[str]
) -> Refusal | None:
    """Why a compound subscript can't be uniform in a block. All threads load tiles, also those whose sum is masked."""
    lowering = new_lowering(request)
    for index in _indices(request):
        lowering.symbols[index.name] = loop_variable(index.name, request.context.extent(index), lowering).symbol
    conditions = [*_select_conditions(request, reductions), *conjuncts(reductions[0].where)]
    conditional = frozenset[str]().union(*map(_names, conditions))
    for read in reads:
        for sub, extent in zip(read.subscripts, request.context.arrays[read.array].shape, strict=True):
            if isinstance(sub, IndexValue):
                continue
            if not free_indices(sub) <= batch or any(isinstance(node, Read) for node in walk(sub)):
                reason = f"takes subscripts that are one index, or uniform in a block; those of {read.array} aren't"
                return Refusal(reason)
            try:
                coordinate = to_integer(sub, lowering.symbols)
            except NotAnInteger:
                return Refusal(f"takes integer subscripts; those of {read.array} are not")
            if _names(sub) & conditional and lowering.inside((coordinate,), (extent,)).terms:
                return Refusal(f"loads tiles unconditionally; {read.array} is in bounds only under a condition")
    return None


def _select_conditions(request: Request, reductions: tuple[Reduce, ...]) -> Iterator[Expr]:
    """The conditions of selects with a reduction in one of their branches."""
    for statement in request.group.statements:
        for node in walk(statement.value):
            if isinstance(node, Select) and any(n in reductions for b in (node.then, node.orelse) for n in walk(b)):
                yield node.condition


def _names(expr: Expr) -> frozenset[str]:
    return frozenset(node.name for node in walk(expr) if isinstance(node, IndexValue | ParamValue))


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


def request_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """What no tile config can honour: arrays placed where they have no tile, and sizes along indices without one."""
    request = contraction.request
    operands = dict.fromkeys(operand.read.array for operand in contraction.operands)
    for array in request.touched():
        if array.name not in operands and array.memory.space == "shared":
            reason = f"stages {' and '.join(operands)} only; {array.name} is read in the epilogue"
            yield Refusal(f"{reason}: leave it in global memory", f"arrays.{array.name}.memory")
        is_placed = array.memory.space == "register" and array.role != "temporary"
        if is_placed and not is_loaded_by_element(request, array):
            reason = f"has no use for all of {array.name} in registers: a thread reads an element of it once"
            yield Refusal(reason, f"arrays.{array.name}.memory")
    mn_names = sorted((contraction.m.name, contraction.n.name))
    yield from size_refusals(request, {"block": mn_names, "thread": mn_names, "step": [contraction.k.name]})
