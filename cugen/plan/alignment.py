"""Divisors of integer expressions, and alignment of vector accesses: what it requires of arguments, and its proof."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sympy

from cugen.machine.target import TENSOR_ALIGNMENT, TEXTURE_ALIGNMENT
from cugen.plan.context import Context
from cugen.plan.memory import ADDRESSED, Access
from cugen.plan.nodes import Define, For, If, Loop, Node
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod
from cugen.plan.traversal.walking import accesses, accesses_of


def divisor(expr: Integer, context: Context, known: Mapping[sympy.Symbol, int] | None = None) -> int:
    """A number that provably divides `expr`, from param values, `multiple_of` and the `known` divisors of symbols; 0
    for 0."""
    value = context.static(expr) if expr.free_symbols <= context.ranges.keys() else None
    if value is not None:
        return abs(value)
    if expr.is_Symbol:
        if known and expr in known:
            return known[expr]
        return next((p.multiple_of for p in context.spec.params if context.symbols[p.name] == expr), 1)
    divisors = [divisor(argument, context, known) for argument in expr.args]
    if expr.is_Mul:
        return math.prod(divisors)
    if isinstance(expr, FloorDiv) and expr.args[1].is_Integer:
        dividend, by = divisors[0], int(expr.args[1])
        return dividend // by if dividend % by == 0 else 1
    if isinstance(expr, Choice):
        return math.gcd(*divisors[2:])
    if isinstance(expr, BitXor):
        common = math.gcd(*divisors)
        return common & -common
    return math.gcd(*divisors) if expr.is_Add or isinstance(expr, Mod | Minimum | Maximum) else 1


def required_alignments(body: tuple[Node, ...], context: Context) -> tuple[tuple[str, int], ...]:
    """The alignments of arguments in bytes, beyond their elements' sizes, that vector accesses, textures and tensor
    maps require, in the order of the spec."""
    sizes: dict[str, int] = {}
    for access in accesses(body):
        if access.width > 1 and access.array.space in ADDRESSED:
            size = access.width * access.array.dtype.bytes
            sizes[access.array.name] = max(sizes.get(access.array.name, 0), size)
        if access.array.space == "texture":
            sizes[access.array.name] = TEXTURE_ALIGNMENT
        if access.array.space == "tensor":
            sizes[access.array.name] = max(sizes.get(access.array.name, 0), TENSOR_ALIGNMENT)
    arguments = (array for array in context.spec.arrays if not array.is_temporary)
    return tuple((array.name, sizes[array.name]) for array in arguments if array.name in sizes)


def unaligned(body: tuple[Node, ...], context: Context) -> tuple[Access, ...]:
    """The vector accesses whose address is not provably a multiple of their size, in source order; arguments have their
    required alignment."""
    return tuple(
        access
        for access, indices in _accesses(body, _Indices(), context)
        if access.width > 1 and access.array.space != "register" and not _is_aligned(access, indices, context)
    )


@dataclass(frozen=True, slots=True)
class _Indices:
    """The definitions of the indices in scope, and numbers that divide their values."""

    definitions: dict[sympy.Symbol, Integer] = field(default_factory=dict)
    divisors: dict[sympy.Symbol, int] = field(default_factory=dict)

    def copy(self) -> _Indices:
        return _Indices(dict(self.definitions), dict(self.divisors))

    def define(self, name: sympy.Symbol, definition: Integer, context: Context) -> None:
        self.divisors[name] = divisor(definition.expand(), context, self.divisors)
        self.definitions[name] = definition

    def count(self, loop: Loop, context: Context) -> None:
        """Defines a loop variable."""
        first = loop.stop - 1 if loop.downward else loop.start
        step = 1 if loop.halves or loop.doubles else loop.step
        self.define(loop.index.symbol, first + step * sympy.Dummy("trip", integer=True), context)


def _is_aligned(access: Access, indices: _Indices, context: Context) -> bool:
    array, size = access.array, access.width * access.array.dtype.bytes
    is_tile = array.space == "shared" and not array.dynamic
    if (is_tile and (not array.align or array.align % size)) or array.dynamic_offset % size:
        return False
    terms = [sub * stride for sub, stride in zip(access.physical_subscripts(), array.strides, strict=True)]
    if math.gcd(*(divisor(term.expand(), context, indices.divisors) for term in terms)) % access.width == 0:
        return True
    # A difference such as x - x % 8 is a multiple of 8, though neither operand is.
    fixed = {name: sympy.Integer(low) for name, (low, high) in context.ranges.items() if low == high}
    offset = sympy.Add(*terms)
    while offset.free_symbols & indices.definitions.keys():
        offset = offset.xreplace(indices.definitions)
    offset = offset.xreplace(fixed)
    quotients: dict[Integer, sympy.Dummy] = {}  # one for equal remainders, also where one is inside of another
    while remainders := offset.atoms(Mod):  # a % b = a + b * q
        quotients |= {r: sympy.Dummy(integer=True) for r in remainders if r not in quotients}
        offset = offset.xreplace({r: r.args[0] + r.args[1] * quotients[r] for r in remainders})
    return divisor(offset.expand(), context) % access.width == 0


def _accesses(nodes: tuple[Node, ...], outer: _Indices, context: Context) -> Iterator[tuple[Access, _Indices]]:
    """Every access with the indices in its scope."""
    indices = outer.copy()
    for node in nodes:
        match node:
            case Define(index=index, then=None):
                indices.define(index.symbol, index.definition, context)
            case Define(index=index):  # a counter that changes after each trip
                indices.define(index.symbol, sympy.Dummy(index.name, integer=True), context)
        for access in accesses_of(node):
            yield access, indices
        match node:
            case For(loop=loop, body=body):
                inner = indices.copy()
                inner.count(loop, context)
                yield from _accesses(body, inner, context)
            case If(then=then, orelse=orelse):
                yield from _accesses(then, indices, context)
                yield from _accesses(orelse, indices, context)
