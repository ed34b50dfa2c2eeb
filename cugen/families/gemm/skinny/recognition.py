"""Recognises skinny GEMMs C[m, n] = f(sum over k of A[m, k]·B[k, n]) with M up to 16, and GEMVs (no m index)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.contraction.recognition import with_fused_indices
from cugen.families.gemm.skinny.grouped_rows import with_grouped_rows
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.kernels import new_lowering
from cugen.pieces.vectors import is_computed, offset_of, widest_at
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.reductions import loop_bound
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.rewrite.align_reductions import NotInStages, collected
from cugen.rewrite.dense_indices import index_values
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, Select, free_indices, walk

MAX_M = 16  # rows whose accumulators fit a thread's registers (heuristic)
_MAX_FAST_M = 8  # rows up to which a GEMM by tiles is slower (measured on H200)
_MAX_FAST_STRIDED_M = 2  # the same where lanes read A with a stride, for B along k (measured on H200)
MIN_EXTENT = 64  # of N and K; a smaller B is no large matrix (heuristic)
_MIN_K_WIDTH = 4  # elements of a vector along k (heuristic)
_MAX_L2_RESIDENT_BYTES = 1 << 25  # of B that may stay in L2 until the next launch (heuristic)


@dataclass(frozen=True, slots=True)
class SkinnyGemm:
    """A skinny GEMM, or a GEMV where `m` is None. `a` is the read indexed by m and k, `b` that by k and n.

    `batch` are the other output indices, the fastest first. `is_k_major`: B is contiguous along k, else along n."""

    request: Request
    reduction: Reduce
    m: Index | None
    n: Index
    batch: tuple[Index, ...]
    a: Read
    b: Read
    is_k_major: bool

    @property
    def k(self) -> Index:
        return self.reduction.indices[0]

    @property
    def m_extent(self) -> int:
        return 1 if self.m is None else self.context.max_extent(self.m)

    @property
    def context(self) -> Context:
        return self.request.context

    def array(self, read: Read) -> Array:
        return self.context.arrays[read.array]

    @property
    def pays(self) -> bool:
        """Whether the rows are few enough for no tile of a GEMM to be faster."""
        return self.m_extent <= (_MAX_FAST_STRIDED_M if self.has_strided_rows else _MAX_FAST_M)

    @property
    def has_strided_rows(self) -> bool:
        """Whether lanes along k of B read A with a stride."""
        return self.is_k_major and offset(self.request, self.a).coeff(symbol(self.k.name)) != 1

    @property
    def streams_b(self) -> bool:
        """Whether loads of B carry an evict-first hint: in a GEMV whose B exceeds L2.

        With several rows the compiler must be free to move the loads, and it doesn't move those with a hint."""
        array = self.array(self.b)
        min_elements = math.prod(bounds(extent, self.context.ranges)[0] for extent in array.shape)
        return self.m_extent == 1 and min_elements * array.dtype.bytes > _MAX_L2_RESIDENT_BYTES

    @property
    def uses_operands_only(self) -> bool:
        """Whether the term is an expression of A, B and constants: no other array, no index value."""
        body = self.reduction.body
        return not index_values(body) and {node for node in walk(body) if isinstance(node, Read)} == {self.a, self.b}

    @property
    def k_width(self) -> int:
        """The elements of vectors along k of a K-major B: as wide as alignment allows, unless narrower ones that are
        wide enough spare reads of each element."""
        widest = self.vector_width(self.b, self.k)
        widths = [width for width in (widest, widest // 2, widest // 4) if width >= _MIN_K_WIDTH]
        return max(widths, key=lambda width: len(self.reads_per_vector(width)), default=widest)

    def reads_per_vector(self, width: int) -> tuple[Read, ...]:
        """The reads beside the operands that have one value for all rows and for `width` values of k from a multiple of
        it on, as the scales of groups; none of a term with branches, which may be what keeps a subscript in bounds."""
        nodes = tuple(walk(self.reduction.body))
        if width == 1 or any(isinstance(node, Select) for node in nodes):
            return ()
        others = dict.fromkeys(node for node in nodes if isinstance(node, Read) and node not in (self.a, self.b))
        return tuple(read for read in others if self._has_one_value(read, width))

    def _has_one_value(self, read: Read, width: int) -> bool:
        k = self.k.name
        names = free_indices(read)
        moving = [sub for sub in read.subscripts if k in free_indices(sub)]
        if any(map(is_computed, read.subscripts)) or (self.m is not None and self.m.name in names):
            return False
        symbols = {**self.context.symbols, **{name: symbol(name) for name in names}}
        for sub in moving:
            match sub:
                case Op(name="floordiv", args=(dividend, size)):
                    count = self.context.static(to_integer(size, symbols))
                    offset_in_group = (to_integer(dividend, symbols) - symbol(k)).expand()
                    if count is None or count % width or symbol(k) in offset_in_group.free_symbols:
                        return False
                    if divisor(offset_in_group, self.context) % width:
                        return False
                case _:
                    return False
        return True

    def vector_width(self, read: Read, along: Index) -> int:
        """The widest vector load along an index, in elements; 1 where the read isn't contiguous along it."""
        array, context = self.array(read), self.context
        if array.space not in IN_MEMORY:
            return 1
        width = widest_at(array, read.subscripts, along.name, context).count
        return math.gcd(width, divisor(context.extent(along), context))


def offset(request: Request, read: Read) -> Integer:
    """The element offset of a read in its array, over symbols named as the indices."""
    names = {name: symbol(name) for sub in read.subscripts for name in free_indices(sub)}
    symbols = {**request.context.symbols, **names}
    return offset_of(request.context.arrays, (read.array, read.subscripts), symbols).expand()


def recognise(request: Request) -> SkinnyGemm | Refusal:
    """The skinny GEMM in the group's first statement, or why there is none."""
    gemm = _recognise(request, ())
    if isinstance(gemm, Refusal) and (grouped := with_grouped_rows(request, MAX_M)) is not None:
        over_groups = _recognise(grouped, grouped.group.statements[0].subscripts)
        return gemm if isinstance(over_groups, Refusal) else over_groups
    return gemm


def _recognise(request: Request, stored_at: tuple[Expr, ...]) -> SkinnyGemm | Refusal:
    """The skinny GEMM as it is written; a result may be stored at the subscripts `stored_at`, which are in bounds."""
    try:
        if not collected(request.group.statements):
            return Refusal("takes a contraction, and there is none")
        fused = with_fused_indices(request)
    except NotInStages as error:
        return Refusal(str(error))
    statements = fused.group.statements
    (first, *same_stage), *later_stages = collected(statements)
    if same_stage or later_stages or first.kind != "sum":
        return Refusal("takes one sum, and no other reduction")
    if len(first.indices) != 1:
        return Refusal("takes a sum over one index")
    if not any(node == first for node in walk(statements[0].value)):
        return Refusal("takes a sum in the first statement")
    for statement in statements:
        if any(not isinstance(sub, IndexValue | Const) and sub not in stored_at for sub in statement.subscripts):
            return Refusal(f"writes {statement.target} at bare indices only")
    return _match(fused, first, len(request.group.statements[0].indices))


def _match(request: Request, reduction: Reduce, unfused_rank: int) -> SkinnyGemm | Refusal:
    """The GEMM of a sum over fused dimensions; `unfused_rank` is the number of output indices in the spec."""
    (k,) = reduction.indices
    indices = request.group.statements[0].indices
    reads = {n: None for n in walk(reduction.body) if isinstance(n, Read) and k.name in free_indices(n)}
    written = {statement.target for statement in request.group.statements}
    operands: list[Read] = []
    for read in reads:
        if read.boundary is not None or read.exact or read.array in written:
            return Refusal(f"takes operands that are read in bounds and not written; {read.array} isn't one")
        if any(isinstance(n, Read) for sub in read.subscripts for n in walk(sub)):
            return Refusal(f"takes no gathered operands; {read.array} is one")
        try:
            address, k_symbol = offset(request, read), symbol(k.name)
        except NotAnInteger:
            return Refusal(f"takes integer subscripts; those of {read.array} are not")
        step = address.coeff(k_symbol)
        if step != 0 and k_symbol not in (address - step * k_symbol).expand().free_symbols:
            operands.append(read)
    if len(operands) != 2:
        return Refusal("takes a sum of A·B with two operands that are linear in k")
    extents = {index.name: request.context.planned_extent(index) for index in indices}
    # B is the operand that depends on more of the output.
    a, b = sorted(operands, key=lambda read: math.prod(extents.get(name, 1) for name in free_indices(read)))
    m_indices = [index for index in indices if index.name not in free_indices(b)]
    n_indices = [index for index in indices if index.name not in free_indices(a)]
    batch = [index for index in indices if index not in m_indices and index not in n_indices]
    if not m_indices and len(indices) == unfused_rank:
        return Refusal("takes an M dimension, if only of 1; a plain matrix-vector sum is a row reduction")
    if len(m_indices) > 1 or not n_indices or any(index.name not in free_indices(a) for index in m_indices):
        return Refusal("takes an M index that only A has and an N index that only B has")
    address = offset(request, b)
    contiguous = [index for index in n_indices if address.coeff(symbol(index.name)) == 1]
    n = contiguous[0] if contiguous else max(n_indices, key=request.context.planned_extent)
    gemm = SkinnyGemm(
        request=request,
        reduction=reduction,
        m=m_indices[0] if m_indices else None,
        n=n,
        batch=tuple(reversed([*batch, *(index for index in n_indices if index != n)])),
        a=a,
        b=b,
        is_k_major=not contiguous,
    )
    return _where_refusal(gemm) or _size_refusal(gemm) or gemm


def _where_refusal(gemm: SkinnyGemm) -> Refusal | None:
    """Why a condition of the sum, which parts of a K that is known at launch have, isn't a bound of k that all rows and
    columns share."""
    where, batch = gemm.reduction.where, {index.name for index in gemm.batch}
    if where is None:
        return None
    if gemm.request.schedule.family != "skinny":
        return Refusal("takes a sum over the whole of one index, unless the spec requests this family")
    if not free_indices(where) <= {gemm.k.name, *batch}:
        return Refusal("takes a sum over the whole of one index, or up to a bound that depends on neither M nor N")
    lowering = new_lowering(gemm.request)
    lowering.symbols.update({name: symbol(f"{name} of the spec") for name in (gemm.k.name, *batch)})
    bound = loop_bound(lowering, where, lowering.symbols[gemm.k.name])
    if bound is None or bound.operator != "<":
        return Refusal(f"takes conditions that are upper bounds of {gemm.k.name}, and no others")
    return None


def _size_refusal(gemm: SkinnyGemm) -> Refusal | None:
    if gemm.m is not None:
        if gemm.context.static_extent(gemm.m) is None:
            return Refusal(f"has an accumulator for each row: the extent of {gemm.m.name} must be fixed")
        if gemm.m_extent > MAX_M:
            return Refusal(f"takes up to {MAX_M} rows, not {gemm.m_extent}")
    if min(map(gemm.context.planned_extent, (gemm.n, gemm.k))) < MIN_EXTENT:
        return Refusal(f"takes N and K from {MIN_EXTENT} on")
    k_stride = offset(gemm.request, gemm.b).coeff(symbol(gemm.k.name))
    if gemm.is_k_major and k_stride != integer(1):
        return Refusal(f"takes a K-major or N-major B; {gemm.b.array} is neither")
    return None
