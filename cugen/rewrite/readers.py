"""Which statements read an array, looked up by position: each statement's expressions are walked once. Whether terms of
reductions read a temporary."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from cugen.rewrite.hoist_reductions import elements
from cugen.spec.expressions import Expr, Index, Read, Reduce, children, walk
from cugen.spec.model import Spec, Statement

_MAX_TERMS_PER_ELEMENT = 2  # parts of an index may be padded, up to twice its extent


class Readers:
    """Which statements read an array, and by position the arrays that a statement's value reads: `in_value`."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.in_value = [{read.array for read in array_reads(statement)} for statement in statements]
        self._positions: dict[str, list[int]] = defaultdict(list)
        for position, statement in enumerate(statements):
            in_subscripts = {n.array for sub in statement.subscripts for n in walk(sub) if isinstance(n, Read)}
            for array in self.in_value[position] | in_subscripts:
                self._positions[array].append(position)

    def positions(self, array: str, first: int = 0) -> list[int]:
        """The positions from `first` on of the statements that read an array, in their values or subscripts."""
        positions = self._positions[array]
        return positions[bisect_left(positions, first) :]


def array_reads(statement: Statement) -> list[Read]:
    """The reads of a statement's value, in preorder."""
    return [node for node in walk(statement.value) if isinstance(node, Read)]


def reads_in_terms(reader: Statement, source: Statement, spec: Spec) -> bool:
    """Whether the reader reads a temporary in reductions alone, and about as many times as it has elements, so that
    storing these saves no computation."""
    loops = [bound for read, bound in _reads_in_reductions(reader.value) if read.array == source.target]
    return bool(loops) and all(bound and _are_few((*reader.indices, *bound), source, spec) for bound in loops)


def _are_few(terms: tuple[Index, ...], source: Statement, spec: Spec) -> bool:
    """Whether the terms over these indices are about as many as the elements of a temporary; with sizes that are known
    at launch, whether the indices have the same extents."""
    term_count, element_count = elements(terms, spec), elements(source.indices, spec)
    if term_count is None or element_count is None:
        extents, others = (sorted(repr(index.extent) for index in indices) for indices in (terms, source.indices))
        return extents == others
    return term_count <= _MAX_TERMS_PER_ELEMENT * element_count


def _reads_in_reductions(expr: Expr, bound: tuple[Index, ...] = ()) -> Iterator[tuple[Read, tuple[Index, ...]]]:
    """The reads of an expression, each with the indices of the reductions around it."""
    if isinstance(expr, Read):
        yield expr, bound
    if isinstance(expr, Reduce):
        bound = (*bound, *expr.indices)
    for part in children(expr):
        yield from _reads_in_reductions(part, bound)
