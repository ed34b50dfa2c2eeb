"""Vector widths: how many consecutive elements one access may move, as far as alignment is provable; and vectors that
start between aligned ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.pieces.blocks import define
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import ADDRESSED, FUNNEL_SHIFT, Array, IndexLocal, Vector
from cugen.plan.nodes import Define, Let, Load
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of, computed_parts, to_integer
from cugen.plan.symbols import Integer, Mod, integer, symbol
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, free_indices
from cugen.spec.types import INT64

MAX_ACCESS_BYTES = 16  # of one thread's load or store instruction (CUDA programming guide)
SECTOR_BYTES = 32  # the granularity of device memory transactions (CUDA programming guide)

ElementRef = tuple[str, tuple[Expr, ...]]  # an array and its subscripts


@dataclass(frozen=True, slots=True)
class Width:
    """The vector width in elements; `reason` says what limits it."""

    count: int
    reason: str

    def dividing(self, multiple: int, reason: str) -> Width:
        """This width, or for the `reason` the largest one that divides a multiple."""
        count = math.gcd(multiple, self.count)
        return self if count == self.count else Width(count, reason.format(count=count))


def narrowest(widths: Iterable[Width]) -> Width:
    """The first of the smallest widths."""
    return min(widths, key=lambda width: width.count)


def is_computed(sub: Expr) -> bool:
    """Whether a subscript depends on data, as an element or the result of a reduction, or is computed in another way
    than as sums and quotients of indices."""
    return next(computed_parts(sub), None) is not None


def is_fixed(sub: Expr) -> bool:
    """Whether a subscript is the same for all elements and doesn't read memory."""
    return not free_indices(sub) and not is_computed(sub)


def is_contiguous(array: Array, subscripts: Sequence[Expr], along: str) -> bool:
    """Whether consecutive values of the index `along` address consecutive elements."""
    strides = [stride for sub, stride in zip(subscripts, array.strides, strict=True) if sub == IndexValue(along)]
    return strides == [1]


def step_along(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> int | None:
    """The elements between accesses at consecutive values of an index, negative where they run backwards.

    None unless one dimension has the index, and the step is the same everywhere and fixed."""
    moving = [pair for pair in zip(subscripts, array.strides, strict=True) if along in free_indices(pair[0])]
    if len(moving) != 1 or is_computed(moving[0][0]):
        return None
    ((sub, stride),) = moving
    names = {name: symbol(f"index {name}") for name in free_indices(sub)}
    offset = (stride * to_integer(sub, {**context.symbols, **names})).expand()
    step = offset.coeff(names[along])
    is_affine = names[along] not in (offset - step * names[along]).expand().free_symbols
    return context.static(step) if is_affine and step.free_symbols <= context.ranges.keys() else None


def runs_backwards(arrays: Mapping[str, Array], reference: ElementRef, along: str, context: Context) -> bool:
    """Whether each value of the index `along` accesses the element before that of the value before."""
    array, subscripts = reference
    return step_along(arrays[array], subscripts, along, context) == -1


def widest(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> Width:
    """The widest vector along the index `along` that starts at a multiple of its width.

    Subscripts must be bare indices or the same for all elements; any other makes the width 1."""
    if not is_contiguous(array, subscripts, along):
        return _not_contiguous(array, along)
    for dimension, sub in enumerate(subscripts):
        if not isinstance(sub, IndexValue) and not is_fixed(sub):
            return Width(1, f"dimension {dimension} of {array.name} has a computed subscript")
    return widest_at(array, subscripts, along, context)


def widest_at(
    array: Array, subscripts: Sequence[Expr], along: str, context: Context, *, backwards: bool = False
) -> Width:
    """As `widest`, also for affine subscripts such as `i + 1`, and gathered ones in dimensions other than `along`'s.

    `backwards`: of vectors whose last element is that of the first index, as in `N - 1 - i`."""
    if array.space == "texture":
        return Width(1, f"a texture fetch reads one element of {array.name}")
    count = MAX_ACCESS_BYTES // array.dtype.bytes
    limit = f"{MAX_ACCESS_BYTES} bytes, the most that one access moves"
    width = Width(count, f"{count} elements of {array.name} are {limit}")
    names = {name: symbol(f"index {name}") for sub in subscripts for name in free_indices(sub)}
    vector_index, contiguous_dimensions = names.get(along), 0
    for dimension, (sub, stride) in enumerate(zip(subscripts, array.strides, strict=True)):
        moves = along in free_indices(sub)
        if is_computed(sub):
            if moves:
                return Width(1, f"{array.name} is gathered")
            offset = stride
        else:
            offset = (stride * to_integer(sub, {**context.symbols, **names})).expand()
            if moves:
                contiguous_dimensions += 1
                offset = (offset + vector_index + 1 if backwards else offset - vector_index).expand()
                if vector_index in offset.free_symbols:
                    return _not_contiguous(array, along)
        offset_name = f"the offset of dimension {dimension} in {array.name}"
        reason = f"{offset_name} is provably a multiple of {{count}} elements only"
        width = width.dividing(divisor(offset, context), reason)
    return width if contiguous_dimensions == 1 else _not_contiguous(array, along)


def stored_width(request: Request, along: Index, maximum: int) -> int:
    """The width, up to `maximum` elements, of the vectors along an index that all stores of a request can move."""
    context = request.context
    stores = ((context.arrays[s.target], s.subscripts) for s in request.stored_statements())
    widths = (widest(array, subscripts, along.name, context).count for array, subscripts in stores)
    return math.gcd(maximum, divisor(context.extent(along), context), *widths)


def _not_contiguous(array: Array, along: str) -> Width:
    return Width(1, f"consecutive {along} are not contiguous in {array.name}")


def have_equal_alignment(
    arrays: Mapping[str, Array],
    indices: Sequence[Index],
    context: Context,
    references: tuple[ElementRef, ElementRef],
    modulus: int,
) -> bool:
    """Whether the offsets of two elements are always equal modulo `modulus` elements; False for gathered ones."""
    if any(is_computed(sub) for _, subscripts in references for sub in subscripts):
        return False
    names = {index.name: symbol(f"index {index.name}") for index in indices}
    symbols = {**context.symbols, **names}
    difference = (offset_of(arrays, references[0], symbols) - offset_of(arrays, references[1], symbols)).expand()
    coefficients = [difference.coeff(name) for name in names.values()]
    constant = difference.subs(dict.fromkeys(names.values(), 0))
    return all(divisor(term, context) % modulus == 0 for term in (*coefficients, constant))


def offset_of(arrays: Mapping[str, Array], reference: ElementRef, symbols: Mapping[str, Integer]) -> Integer:
    """An element's offset in its array; gathered subscripts are opaque symbols."""
    array, subscripts = reference
    return sympy.Add(
        *(
            (symbol(f"{array} {dimension}") if is_computed(sub) else to_integer(sub, symbols)) * stride
            for dimension, (sub, stride) in enumerate(zip(subscripts, arrays[array].strides, strict=True))
        )
    )


def common_width(
    arrays: Mapping[str, Array],
    indices: Sequence[Index],
    along: str,
    references: Sequence[ElementRef],
    context: Context,
) -> int:
    """Elements of the widest vectors along an index that start at the same elements of a row in all arrays, wherever
    rows begin; 1 where there are none. `indices`: those of the references."""
    if not references or not all(is_contiguous(arrays[array], subs, along) for array, subs in references):
        return 1
    if any(arrays[array].space not in ADDRESSED for array, _ in references):
        return 1
    width = min(MAX_ACCESS_BYTES // arrays[array].dtype.bytes for array, _ in references)
    pairs = ((reference, references[0]) for reference in references)
    return width if all(have_equal_alignment(arrays, indices, context, pair, width) for pair in pairs) else 1


def define_misalignment(
    arrays: Mapping[str, Array],
    reference: ElementRef,
    along: str,
    modulus: int,
    lowering: Lowering,
    symbols: Mapping[str, Integer],
) -> Define:
    """Elements between the last multiple of `modulus` elements and the start of the row of an element, which begins
    anywhere: a vector of its row may start so much before it. `symbols` are the indices of the row."""
    start = offset_of(arrays, reference, {**symbols, along: integer(0)})
    return define("misalignment", Mod(start, integer(modulus)), lowering)


def load_shifted(
    read: Read,
    vector: Vector,
    along: str,
    head: Integer,
    symbols: Mapping[str, Integer],
    lowering: Lowering,
    scope: Scope,
) -> None:
    """Loads a vector that starts `head` elements after an aligned one, from that and the next one: a funnel shift has
    the elements of both. `symbols` maps `along` to the first element."""
    halves: list[Vector] = []
    for number, which in enumerate(("low", "high")):
        key = Op(f"{which} vector", (read,), read.dtype)
        half = replace(vector, name=lowering.name_for(key, f"{vector.name}_{which}", scope))
        first = (symbols[along] - head + number * vector.width).expand()
        source = access_of(lowering.arrays[read.array], read, {**symbols, along: first}, "load", vector.width)
        scope.nodes.append(Load(half, source))
        halves.append(half)
    shifted = Op(FUNNEL_SHIFT, (*halves, IndexLocal(str(head), INT64)), vector.dtype)
    scope.nodes.append(Let(vector, shifted))


def to_alignment(offset: Integer, width: int) -> Integer:
    """The elements from an offset to the next multiple of a width."""
    return Mod(width - Mod(offset, integer(width)), integer(width))
