"""Structures: accesses to fields of one element that are consecutive in memory.

    y[i] = x[i, 0] * x[i, 1] + x[i, 2]      x of shape [N, 3]
reads a structure of three fields. Vectors move them where they are aligned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cugen.pieces.elementwise import certain_reads, loaded_reads
from cugen.pieces.vectors import MAX_ACCESS_BYTES, ElementRef, is_computed, is_fixed
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.fields import FieldVector
from cugen.plan.memory import ADDRESSED, Array
from cugen.plan.request import Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr, Index, Read, free_indices, walk
from cugen.spec.prove.affine import AffineForm, Variable, affine_form, expression_of


@dataclass(frozen=True, slots=True)
class Structure:
    """Accesses to the fields of one element; the last of its `subscripts` moves along the vector."""

    array: Array  # its last dimension runs over the fields of all elements
    subscripts: tuple[Expr, ...]
    size: int  # fields of an element
    fields: Mapping[ElementRef, int]  # the field of each access

    @property
    def bytes(self) -> int:
        return self.size * self.array.dtype.bytes


def loaded_structures(request: Request, arrays: Mapping[str, Array], along: Index) -> tuple[Structure, ...]:
    """The structures of which several fields are read, one of them under no condition.

    Fields that aren't read may be loaded: no other thread writes them."""
    reads = [read for read in loaded_reads(request.group.statements) if read.boundary is None and not read.exact]
    certain = {(read.array, read.subscripts) for read in certain_reads(request, arrays)}
    candidates = _structures(((read.array, read.subscripts) for read in reads), arrays, along, request.context)
    stored = [(s.target, s.subscripts) for s in request.stored_statements()]
    return tuple(
        structure
        for structure in candidates
        if len(set(structure.fields.values())) > 1
        and certain & structure.fields.keys()
        and all(_is_of(structure, reference, arrays, along, request.context) for reference in stored)
    )


def stored_structures(request: Request, arrays: Mapping[str, Array], along: Index) -> tuple[Structure, ...]:
    """The structures of which every field is stored once."""
    stored = [(s.target, s.subscripts) for s in request.stored_statements()]
    candidates = _structures(stored, arrays, along, request.context)
    return tuple(
        structure
        for structure in candidates
        if sorted(structure.fields[reference] for reference in stored if reference in structure.fields)
        == list(range(structure.size))
    )


def _structures(
    references: Iterable[ElementRef], arrays: Mapping[str, Array], along: Index, context: Context
) -> list[Structure]:
    structures: dict[tuple[str, tuple[Expr, ...], int], Structure] = {}
    for reference in references:
        if (structure := _structure(reference, arrays, along, context)) is None:
            continue
        key = (structure.array.name, structure.subscripts, structure.size)
        fields = {**structures[key].fields, **structure.fields} if key in structures else structure.fields
        structures[key] = replace(structure, fields=fields)
    return list(structures.values())


def _is_of(
    structure: Structure, stored: ElementRef, arrays: Mapping[str, Array], along: Index, context: Context
) -> bool:
    """Whether an element that the thread stores is one of the structure, or of another array."""
    if stored[0] != structure.array.name:
        return True
    written = _structure(stored, arrays, along, context)
    return written is not None and (written.subscripts, written.size) == (structure.subscripts, structure.size)


def _structure(reference: ElementRef, arrays: Mapping[str, Array], along: Index, context: Context) -> Structure | None:
    """The structure with the accessed field alone; None for an access of another form."""
    name, subscripts = reference
    array = arrays[name]
    moving = [d for d, sub in enumerate(subscripts) if along.name in free_indices(sub)]
    if len(moving) != 1 or not array.flat or array.space not in ADDRESSED or is_computed(subscripts[moving[0]]):
        return None
    (element,) = moving
    dimensions, inner, field = _field(array, subscripts, context)
    strided = _strided(subscripts[element], along, context)
    if strided is None or context.static(array.strides[element]) != inner:
        return None
    sub, step, part = strided
    size = step * inner
    if size == 1 or divisor(array.shape[element], context) % step:
        return None
    outer = [d for d in range(len(subscripts)) if d != element and d not in dimensions]
    view = _view(array, outer, array.shape[element] * inner)
    return Structure(view, (*(subscripts[d] for d in outer), sub), size, {reference: part * inner + field})


def _strided(sub: Expr, along: Index, context: Context) -> tuple[Expr, int, int] | None:
    """Of a subscript `step * (index + ...) + part` the multiplied sum, the step and the part."""
    params = {param.name: param for param in context.spec.params}
    form = affine_form(sub, params)
    step = dict(form.terms).get(Variable(along.name), 0)
    if step < 1 or any(not isinstance(atom, Variable) or factor % step for atom, factor in form.terms):
        return None
    if step == 1:
        return sub, 1, 0
    terms = tuple((atom, factor // step) for atom, factor in form.terms)
    quotient = expression_of(AffineForm(terms, form.constant // step), params)
    return quotient, step, form.constant % step


def _field(array: Array, subscripts: tuple[Expr, ...], context: Context) -> tuple[tuple[int, ...], int, int]:
    """The dimensions of the fields, which have fixed subscripts and are dense; the number of fields, and the accessed
    one."""
    static: list[tuple[int, int, int]] = []  # stride, extent, dimension
    for dimension in range(len(subscripts)):
        stride, extent = context.static(array.strides[dimension]), context.static(array.shape[dimension])
        if stride and extent:
            static.append((stride, extent, dimension))
    dimensions: list[int] = []
    size, field = 1, 0
    for stride, extent, dimension in sorted(static):
        sub = subscripts[dimension]
        position = context.static(to_integer(sub, context.symbols)) if is_fixed(sub) else None
        if stride != size or position is None or not 0 <= position < extent:  # outside, it is never read
            break
        dimensions.append(dimension)
        size, field = size * extent, field + position * stride
    return tuple(dimensions), size, field


def _view(array: Array, outer: list[int], elements: Integer) -> Array:
    """The array with some of its dimensions, and a contiguous last one."""
    shape = (*(array.shape[d] for d in outer), elements)
    return replace(array, shape=shape, strides=(*(array.strides[d] for d in outer), integer(1)))


def field_vectors(request: Request, reads: tuple[Read, ...], arrays: Mapping[str, Array]) -> Mapping[Read, FieldVector]:
    """The vectors that serve several reads of one structure, by read: of each aligned vector the part that has them.

    Reads of arrays that the statements write, and reads in subscripts, are served alone."""
    context = request.context
    excluded = {statement.target for statement in request.group.statements}
    inner = {node for read in reads for sub in read.subscripts for node in walk(sub) if isinstance(node, Read)}
    vectors: dict[tuple[str, tuple[Expr, ...], int], FieldVector] = {}
    for read in reads:
        array = arrays[read.array]
        is_plain = read.boundary is None and not read.exact and read not in inner
        if not is_plain or array.name in excluded or not array.flat or array.space not in ADDRESSED:
            continue
        dimensions, size, field = _field(array, read.subscripts, context)
        outer = [dimension for dimension in range(len(array.shape)) if dimension not in dimensions]
        subscripts = tuple(read.subscripts[dimension] for dimension in outer)
        strides = (divisor(array.strides[dimension], context) for dimension in outer)
        width = math.gcd(MAX_ACCESS_BYTES // array.dtype.bytes, *strides)
        while (field // width + 1) * width > size:  # padding may end with the array
            width //= 2
        if width == 1 or all(map(is_fixed, subscripts)):
            continue
        key = (array.name, subscripts, field // width * width)
        vector = vectors.get(key) or FieldVector(array, _view(array, outer, integer(size)), subscripts, 0, width, {})
        vectors[key] = replace(vector, fields={**vector.fields, read: field})
    narrowed = [_narrowed(vector) for vector in vectors.values()]
    return {read: vector for vector in narrowed if vector.width > 1 for read in vector.fields}


def _narrowed(vector: FieldVector) -> FieldVector:
    """The smallest aligned part of a vector that has all its fields."""
    fields, width = vector.fields.values(), vector.width
    while width > 1 and len({field // (width // 2) for field in fields}) == 1:
        width //= 2
    return replace(vector, first=min(fields) // width * width, width=width)
