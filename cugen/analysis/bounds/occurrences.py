"""The accesses of a kernel where they run: the elements that each takes, and the conditions under which it does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.totals.sites import ProgramPoint, steps
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WGMMA_M
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Copy, Load, Node
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore, Wgmma
from cugen.plan.symbols import Integer
from cugen.plan.traversal.walking import accesses_of, values_of
from cugen.spec.expressions import Expr, Op, Select, children

_WHERE_A_GUARD_FAILS = "it runs where the guard of a load fails"
Condition = tuple[Expr, bool]  # with its value


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An access at its program point. It takes so many elements along each dimension, `sizes`, or as many consecutive
    ones from its subscripts on, `count`."""

    access: Access
    point: ProgramPoint
    sizes: tuple[int, ...]
    count: int

    def sizes_with_count(self) -> tuple[int, ...]:
        """`sizes` with the consecutive elements along the contiguous dimension; empty if there is none."""
        if self.count == 1:
            return self.sizes
        sizes = [self.count if step == 1 else size for size, step in zip(self.sizes, self.strides, strict=True)]
        return tuple(sizes) if 1 in self.strides else ()

    @property
    def offset(self) -> Integer:
        """The address of the first element, in elements."""
        return sympy.Add(*(sub * step for sub, step in zip(self.subscripts, self.strides, strict=True)))

    @property
    def last(self) -> Integer:
        """The last address from which on all that is taken is in the array."""
        sizes = zip(self.extents, self.sizes, self.strides, strict=True)
        return sympy.Add(*((extent - size) * step for extent, size, step in sizes), 1 - self.count)

    @property
    def extents(self) -> tuple[Integer, ...]:
        """The sizes of the array in memory, over params without a value."""
        array = self.access.array
        shape = array.padded_shape if array.space in ("shared", "register") else array.shape
        return tuple(extent.xreplace(self.point.definitions) for extent in shape)

    @property
    def strides(self) -> tuple[Integer, ...]:
        return tuple(stride.xreplace(self.point.definitions) for stride in self.access.array.strides)

    @property
    def subscripts(self) -> tuple[Integer, ...]:
        """Those of the first element, over base variables."""
        return tuple(sub.xreplace(self.point.definitions) for sub in self.access.physical_subscripts())


def occurrences(kernel: Kernel, params: Mapping[str, int], sizes: tuple[str, ...]) -> Iterator[Occurrence]:
    """All accesses in source order; `params` and `sizes` are those of `steps`."""
    for step in steps(kernel, params, sizes):
        inline = dict(_operands(step.node))
        for access in accesses_of(step.node):
            always = access.serial in inline or (isinstance(step.node, Copy) and access is step.node.target)
            point = step.point if always else step.inside
            if conditions := inline.get(access.serial):
                point = replace(point, conditions=(*point.conditions, *conditions))
            if always and isinstance(step.node, Load) and step.node.guard is not None:
                point = replace(point, opaque=point.opaque or _WHERE_A_GUARD_FAILS)
            yield Occurrence(access, point, *_taken(access, step.node))


def _operands(node: Node) -> Iterator[tuple[int, tuple[Condition, ...]]]:
    """The serial numbers of memory operands in a node's values, with the conditions of the selections around each."""
    for value in values_of(node):
        yield from _elements(value, ())


def _elements(expr: Expr, conditions: tuple[Condition, ...]) -> Iterator[tuple[int, tuple[Condition, ...]]]:
    match expr:
        case Element(access=access):
            yield access.serial, conditions
        case Select(condition=condition, then=then, orelse=orelse):
            yield from _elements(condition, conditions)
            yield from _elements(then, (*conditions, (condition, True)))
            yield from _elements(orelse, (*conditions, (condition, False)))
        case Op(name="and" | "or" as name, args=args):
            for position, arg in enumerate(args):  # the second operand is evaluated where the first doesn't decide
                yield from _elements(arg, (*conditions, *((before, name == "and") for before in args[:position])))
        case _:
            for child in children(expr):
                yield from _elements(child, conditions)


def _taken(access: Access, node: Node) -> tuple[tuple[int, ...], int]:
    """The `sizes` and the `count` of what an access takes."""
    single = (1,) * len(access.array.strides)
    match node:
        case TensorLoad(source=mapped) | TensorStore(target=mapped) if access.array.space == "shared":
            return (single, _box_elements(mapped.array)) if access.kind != "barrier" else (single, 1)
        case Wgmma() if access.kind == "operand":
            return _matrix(access, node), 1
    return single, access.width


def _box_elements(array: Array) -> int:
    assert array.tensor_map is not None
    return math.prod(array.tensor_map.box)


def _matrix(access: Access, node: Wgmma) -> tuple[int, ...]:
    """The elements of a tile that holds an operand's matrix: rows of K-major ones, blocks of columns of others."""
    is_a = access is node.a
    extent = WGMMA_M if is_a else node.n
    if not (node.a_block_bytes if is_a else node.b_block_bytes):
        return (1,) * (len(access.subscripts) - 2) + (extent, node.instruction.k)
    columns = SWIZZLED_ROW_BYTES // access.array.dtype.bytes
    return (1,) * (len(access.subscripts) - 3) + (-(-extent // columns), node.instruction.k, columns)
