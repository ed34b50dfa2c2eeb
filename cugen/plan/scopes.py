"""Scopes of a kernel under construction: where a node may be inserted, and which values are available there."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.plan.nodes import Node
from cugen.plan.subscripts import are_distinct
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, Read, bound_indices, free_indices, walk


class Scope:
    """A block of nodes that binds the indices `binds`. Nodes are never hoisted out of one that may not run, but for
    loads out of a loop, or of a condition that mostly holds: these are safe wherever their subscripts are in bounds."""

    def __init__(
        self,
        parent: Scope | None = None,
        binds: frozenset[str] = frozenset(),
        *,
        certain: bool = True,
        is_loop: bool = False,
        is_likely: bool = False,
    ) -> None:
        self.parent = parent
        self.binds = binds
        self.certain = certain  # runs at least once whenever its parent does
        self.is_loop = is_loop  # runs for each value in a range, which may be empty, under no other condition
        self.is_likely = is_likely  # runs in most cases, as under a bounds check
        self.nodes: list[Node] = []
        self._known: dict[Expr, Expr] = {}
        self._indices: dict[Integer, Integer] = {}

    def ancestors(self) -> Iterator[Scope]:
        """This scope and its parents, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def home(self, free: frozenset[str], *, is_always_safe: bool = False) -> Scope:
        """The outermost scope in which an expression over the indices `free` is invariant and safe to evaluate. It is
        also evaluated where a loop has no iteration or a likely condition fails, if it `is_always_safe`."""
        scope = self
        while (
            scope.parent is not None
            and (scope.certain or (is_always_safe and (scope.is_loop or scope.is_likely)))
            and not (scope.binds & free)
        ):
            scope = scope.parent
        return scope

    def remember(self, expr: Expr, value: Expr) -> None:
        self._known[expr] = value

    def recall(self, expr: Expr) -> Expr | None:
        """The value recorded for `expr` in this scope or a parent."""
        for scope in self.ancestors():
            if expr in scope._known:
                return scope._known[expr]
        return None

    def forget(self, array: str, subscripts: tuple[Expr, ...]) -> None:
        """Invalidates every recorded value that may have been computed from an element, here and in the parents."""
        for scope in self.ancestors():
            scope._known = {expr: value for expr, value in scope._known.items() if not _reads(expr, array, subscripts)}

    def remember_index(self, value: Integer, name: Integer) -> None:
        self._indices[value] = name

    def recall_index(self, value: Integer) -> Integer | None:
        """The index already defined with this value, here or in a parent."""
        for scope in self.ancestors():
            if value in scope._indices:
                return scope._indices[value]
        return None


def _reads(expr: Expr, array: str, subscripts: tuple[Expr, ...]) -> bool:
    bound = {index.name for index in bound_indices(expr)}
    reads = (node for node in walk(expr) if isinstance(node, Read) and node.array == array)
    return any(bound & free_indices(read) or not are_distinct(read.subscripts, subscripts) for read in reads)
