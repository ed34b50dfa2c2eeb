"""Recognises products of few rows with a large matrix: y[m, n] = f(sum over k of x[m, k]·w[n, k]), m up to 16."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.pieces.vectors import MAX_ACCESS_BYTES, divisor
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import merged
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, IndexValue, Read, Reduce, free_indices, walk

FEW = 16  # rows whose running values fit a thread's registers
LEAST = 64  # columns and terms; below, there is no large matrix
_CACHED = 1 << 25  # bytes of a matrix that a large device's cache may hold until the next launch


@dataclass(frozen=True, slots=True)
class Skinny:
    """`few` is the index of the rows, None for a single one, `many` that of the columns, `batch` are the others, the
    fastest first. The `matrix` moves with the columns, every one of `rows` with the rows; both move with the sum."""

    request: Request
    arrays: Mapping[str, Array]
    reduction: Reduce
    few: spec.Index | None
    many: spec.Index
    batch: tuple[spec.Index, ...]
    matrix: Read
    rows: Read
    is_deep: bool  # neighbours in the matrix are neighbours along the sum, not along the columns

    @property
    def depth(self) -> spec.Index:
        return self.reduction.indices[0]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return 1 if self.few is None else self.most(self.few)

    def extent(self, index: spec.Index) -> Integer:
        return to_integer(index.extent, self.request.context.symbols)

    def most(self, index: spec.Index) -> int:
        return bounds(self.extent(index), dict(self.request.context.ranges))[1]

    def array(self, read: Read) -> Array:
        return self.arrays[read.array]

    @property
    def streams(self) -> bool:
        """Whether the matrix is so large that caches do better to keep what lay in them before, and there is one row:
        with more, the compiler must be free to put loads elsewhere, which those with a hint don't let it."""
        array, ranges = self.array(self.matrix), dict(self.request.context.ranges)
        least = math.prod(bounds(extent, ranges)[0] for extent in array.shape)
        return self.count == 1 and least * array.dtype.bytes > _CACHED

    def width(self, read: Read, along: spec.Index) -> int:
        """The neighbours along an index that one access moves; 1 where neighbours lie apart."""
        array, context = self.array(read), self.request.context
        place = offset(self.request, array, read)
        own = symbol(along.name)
        rest = (place - own).expand()
        if place.coeff(own) != 1 or own in rest.free_symbols or array.space != "global":
            return 1
        extents = [divisor(self.extent(along), context), divisor(rest, context)]
        return math.gcd(MAX_ACCESS_BYTES // array.dtype.bytes, *extents)


def offset(request: Request, array: Array, read: Read) -> Integer:
    """Where in memory a read is, over symbols named as the indices."""
    names = {name: symbol(name) for sub in read.subscripts for name in free_indices(sub)}
    symbols = {**request.context.symbols, **names}
    terms = (to_integer(sub, symbols) * stride for sub, stride in zip(read.subscripts, array.strides, strict=True))
    return sympy.Add(*terms).expand()


def recognise(request: Request) -> Skinny | Refusal:
    """The product that the group's first statement holds, or why it holds none."""
    try:
        stages = collected(request.group.statements)
        if not stages:
            return Refusal("takes a sum of products, and there is none")
        plain = merged(with_common_indices(request.group.statements, request.context), request.context)
    except NotInStages as error:
        return Refusal(str(error))
    (first, *others), *later = collected(plain.statements)
    if others or later or first.kind != "sum":
        return Refusal("takes one sum, and nothing else over other indices")
    if len(first.indices) != 1 or first.where is not None:
        return Refusal("takes a sum over the whole of one index")
    if not any(node == first for node in walk(plain.statements[0].value)):
        return Refusal("takes a sum in the first statement")
    for statement in plain.statements:
        if any(not isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            return Refusal(f"writes {statement.target} at bare indices only")
    group = replace(request.group, statements=plain.statements)
    return _formed(replace(request, group=group), plain.arrays, first, len(request.group.statements[0].indices))


def _formed(request: Request, arrays: Mapping[str, Array], reduction: Reduce, count: int) -> Skinny | Refusal:
    (depth,) = reduction.indices
    indices = request.group.statements[0].indices
    reads = {n: None for n in walk(reduction.body) if isinstance(n, Read) and depth.name in free_indices(n)}
    written = {statement.target for statement in request.group.statements}
    main: list[Read] = []
    for read in reads:
        if read.boundary is not None or read.exact or read.array in written:
            return Refusal(f"reads inside of arrays that it doesn't write; {read.array} is none")
        if any(isinstance(n, Read) for sub in read.subscripts for n in walk(sub)):
            return Refusal(f"{read.array} is read where other elements say")
        try:
            place, own = offset(request, arrays[read.array], read), symbol(depth.name)
        except NotAnInteger:
            return Refusal(f"takes subscripts of whole numbers; those of {read.array} are not")
        if own not in (place - place.coeff(own) * own).expand().free_symbols:
            main.append(read)
    if len(main) != 2:
        return Refusal("takes a sum of products of two arrays")
    rows, matrix = sorted(main, key=lambda read: _points(request, indices, read))
    few = [index for index in indices if index.name not in free_indices(matrix)]
    many = [index for index in indices if index.name not in free_indices(rows)]
    batch = [index for index in indices if index not in few and index not in many]
    if not few and len(indices) == count:
        return Refusal("takes several rows; one is a reduction that needs nothing of others")
    if len(few) > 1 or not many or any(index.name not in free_indices(rows) for index in few):
        return Refusal("takes an index of rows, which one array has alone, and one of columns, which the other has")
    found = Skinny(request, arrays, reduction, few[0] if few else None, many[-1], (), matrix, rows, True)
    place = offset(request, found.array(matrix), matrix)
    fast = [index for index in many if place.coeff(symbol(index.name)) == 1]
    is_deep = not fast
    chosen = fast[0] if fast else max(many, key=found.most)
    others = [index for index in many if index != chosen]
    found = replace(found, many=chosen, batch=tuple(reversed([*batch, *others])), is_deep=is_deep)
    return _size_refusal(found) or found


def _points(request: Request, indices: tuple[spec.Index, ...], read: Read) -> int:
    """How many of the output's elements see different parts of an array."""
    names = free_indices(read)
    context = request.context
    return math.prod(
        bounds(to_integer(index.extent, context.symbols), dict(context.ranges))[1]
        for index in indices
        if index.name in names
    )


def _size_refusal(found: Skinny) -> Refusal | None:
    context = found.request.context
    if found.few is not None:
        low, high = bounds(found.extent(found.few), dict(context.ranges))
        if low != high:
            return Refusal(f"keeps a running value for each row: the extent of {found.few.name} must be fixed")
        if high > FEW:
            return Refusal(f"takes up to {FEW} rows, not {high}")
    if min(found.most(found.many), found.most(found.depth)) < LEAST:
        return Refusal(f"takes matrices of {LEAST} rows and columns or more")
    step = offset(found.request, found.array(found.matrix), found.matrix).coeff(symbol(found.depth.name))
    if found.is_deep and step != integer(1):
        return Refusal(f"neighbours in {found.matrix.array} are neither along the sum nor along the columns")
    return None
