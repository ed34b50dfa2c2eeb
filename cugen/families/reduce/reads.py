"""The reads of reductions: how indices move their addresses, and which results an element is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.vectors import is_computed
from cugen.plan.request import Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, integer, symbol
from cugen.plan.traversal.ragged import keyed_indices, ragged_indices
from cugen.rewrite.fuse_dimensions import FusedStatements
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Read, Reduce, conjuncts, free_indices, walk


def operand_reads(reductions: Sequence[Reduce]) -> tuple[Read, ...]:
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


@dataclass(frozen=True, slots=True)
class ElementIndices:
    """The indices that elements are of: those of an address, and those that own its ragged range or its key.

    `ragged` and `keyed` map a reduced index to the indices whose range, or whose key, it runs over."""

    reduced: frozenset[str]
    ragged: Mapping[str, frozenset[str]]
    keyed: Mapping[str, frozenset[str]]
    fused: FusedStatements

    @staticmethod
    def of(reductions: Sequence[Reduce], fused: FusedStatements) -> ElementIndices:
        reduced = frozenset(index.name for index in reductions[0].indices)
        ragged, keyed = same_in_all(map(ragged_indices, reductions)), same_in_all(map(keyed_indices, reductions))
        return ElementIndices(reduced, ragged, keyed, fused)

    def __call__(self, read: Read) -> frozenset[str]:
        """The indices that an element is of, with those of its ragged range, or of its key where it is of columns:
        results with other keys skip it."""
        free = free_indices(read)
        owned = free.union(*(owners for name, owners in self.ragged.items() if name in free))
        by_key = frozenset[str]().union(*(owners for name, owners in self.keyed.items() if name in free))
        columns = {sub.name for sub in contiguous_subscripts(read, self.fused) if isinstance(sub, IndexValue)}
        return owned | by_key if columns - self.reduced - by_key else owned


def is_affine(read: Read, reduced: set[str], request: Request) -> bool:
    """Whether reduced indices move the address by constant steps, and it is inside of the array."""
    return read.boundary is None and all(
        not is_computed(sub) and step_of(sub, name, request) is not None
        for sub in read.subscripts
        for name in free_indices(sub) & reduced
    )


def is_gathered_row(read: Read, reductions: Sequence[Reduce], fused: FusedStatements) -> bool:
    """Whether the read is of a row that is gathered along a reduced index, contiguous along an output index. Conditions
    that may keep it in bounds must choose rows, of all reductions."""
    if read.boundary is not None or read.exact or fused.arrays[read.array].space not in IN_MEMORY:
        return False
    reduced = {index.name for index in reductions[0].indices}
    contiguous = contiguous_subscripts(read, fused)
    columns = {sub.name for sub in contiguous if isinstance(sub, IndexValue)} - reduced
    conditions = [conjuncts(reduction.where) for reduction in reductions]
    of_elements = (c for c in conditions[0] if free_indices(c) & columns)
    if any(set(c) != set(conditions[0]) for c in conditions) or any(map(_compares_elements, of_elements)):
        return False
    return bool(columns) and any(is_computed(sub) and free_indices(sub) & reduced for sub in read.subscripts)


def _compares_elements(condition: Expr) -> bool:
    return any(isinstance(node, Read) for node in walk(condition))


def same_in_all(maps: Iterable[Mapping[str, frozenset[str]]]) -> Mapping[str, frozenset[str]]:
    """The map that all reductions have; an empty one where they differ."""
    first, *remaining = maps
    return first if all(indices == first for indices in remaining) else {}


def contiguous_subscripts(read: Read, fused: FusedStatements) -> tuple[Expr, ...]:
    """The subscripts of dimensions along which elements are contiguous."""
    pairs = zip(read.subscripts, fused.arrays[read.array].strides, strict=True)
    return tuple(sub for sub, stride in pairs if stride == 1)


def step_of(sub: Expr, name: str, request: Request) -> Integer | None:
    """What an index adds to a subscript with each of its values; None where that isn't constant."""
    symbols = {**request.context.symbols, **{index: symbol(index) for index in free_indices(sub)}}
    try:
        subscript = to_integer(sub, symbols).expand()
    except NotAnInteger:
        return None
    step = subscript.coeff(symbol(name))
    return None if symbol(name) in (subscript - step * symbol(name)).free_symbols else step


def strides_of(read: Read, fused: FusedStatements, names: set[str], request: Request) -> dict[str, Integer]:
    """The stride of a read along each index, in elements, where it is constant."""
    strides: dict[str, Integer] = {}
    for sub, stride in zip(read.subscripts, fused.arrays[read.array].strides, strict=True):
        for name in sorted(free_indices(sub) & names):
            if (step := step_of(sub, name, request)) is not None:
                strides[name] = strides.get(name, integer(0)) + stride * step
    return strides
