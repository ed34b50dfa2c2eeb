"""Evaluation of data-dependent subscripts and conditions.

Values have the reference's error bounds: a comparison within rounding error is unknown. Elements are known only of
arrays that no kernel of the plan writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.plan.kernel import Plan
from cugen.plan.memory import Access, Array, Component, Element, Shuffled
from cugen.plan.nodes import Assign, Define, For, Guard, If, Let, Load, Node, ReturnUnless
from cugen.plan.symbols import Integer
from cugen.plan.traversal.walking import accesses, values_of, walk_nodes
from cugen.reference.interpreter import constant
from cugen.reference.operators import apply_operator, convert, select
from cugen.reference.storage import working_dtype
from cugen.reference.tracked import Tracked
from cugen.runtime.device import Job
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, ParamValue, ScalarValue, Select, walk
from cugen.spec.types import DType, Kind

Mask = NDArray[np.bool_]


def unknown(dtype: DType) -> Tracked:
    """An unknown value."""
    return Tracked(np.zeros((), working_dtype(dtype)), np.asarray(1.0 if dtype.kind is Kind.BOOL else np.inf))


def unsure(value: Tracked) -> Mask:
    """Where the device's value may differ."""
    return np.asarray(value.slack != 0)


def has_elements(expr: Expr) -> bool:
    return any(isinstance(leaf, Element) for leaf in walk(expr))


def relevant_locals(nodes: tuple[Node, ...]) -> frozenset[str]:
    """Names of the locals on which addresses or predicates of accesses depend."""
    values: dict[str, list[Expr]] = {}
    worklist: list[str] = []
    for node in walk_nodes(nodes):
        match node:
            case Let(local=local) | Load(local=local) | Assign(local=local):
                values.setdefault(local.name, []).extend(values_of(node))
        worklist += [name.name for expr in _integers(node) for name in expr.free_symbols]
        for condition in _conditions(node):
            worklist += _locals(condition)
    relevant: dict[str, None] = {}
    while worklist:
        name = worklist.pop()
        if name not in relevant:
            relevant[name] = None
            worklist += [inner for value in values.get(name, ()) for inner in _locals(value)]
    return frozenset(relevant)


def _integers(node: Node) -> Iterator[Integer]:
    """Index expressions of a node, without those of its children."""
    guard = None
    match node:
        case Define():
            yield node.index.definition
        case For():
            yield from (node.loop.start, node.loop.stop)
            return
        case ReturnUnless():
            guard = node.guard
        case If():
            guard = node.condition if isinstance(node.condition, Guard) else None
        case _:
            yield from (sub for access in accesses((node,)) for sub in access.subscripts)
            guard = getattr(node, "guard", None)
    for term in guard.terms if guard is not None else ():
        yield from (term.left, term.right)


def _conditions(node: Node) -> Iterator[Expr]:
    """Conditions that accesses depend on."""
    if isinstance(node, If) and not isinstance(node.condition, Guard):
        yield node.condition
    for value in values_of(node):
        for part in walk(value):
            if isinstance(part, Select) and (has_elements(part.then) or has_elements(part.orelse)):
                yield part.condition
            if isinstance(part, Op) and part.name in ("and", "or") and has_elements(part.args[1]):
                yield part.args[0]


def _locals(expr: Expr) -> list[str]:
    return [leaf.name for leaf in walk(expr) if isinstance(leaf, Local) and not isinstance(leaf, Element | Component)]


@dataclass(frozen=True)
class Memory:
    """Arrays with known contents by C name: flat, in storage order."""

    contents: Mapping[str, NDArray[Any]]

    def read(self, array: Array, offsets: NDArray[np.int64]) -> Tracked:
        """The elements at `offsets` (in elements; arbitrary for inactive threads)."""
        content = self.contents.get(array.symbol)
        dtype = array.dtype.compute
        if content is None or content.size == 0:
            return unknown(dtype)
        return Tracked(content[np.clip(offsets, 0, content.size - 1)].astype(working_dtype(dtype)))


def memory_of(plan: Plan, job: Job) -> Memory:
    """Arrays of a job that stay constant throughout its launches."""
    planned = [access for kernel in plan.kernels for access in accesses(kernel.body)]
    written = {access.array.name for access in planned if access.kind != "load" and access.array.space == "global"}
    contents: dict[str, NDArray[Any]] = {}
    for array in (access.array for access in planned):
        if array.values is not None:
            dense = [int(np.prod(array.shape[d + 1 :])) for d in range(len(array.shape))]
            if array.space in ("table", "constant") and list(array.strides) == dense and not array.pad:
                contents[array.symbol] = np.asarray(array.values, working_dtype(array.dtype))
        elif array.name in job.buffers and array.name not in written and array.space not in ("shared", "register"):
            contents[array.symbol] = job.buffers[array.name]
    return Memory(contents)


@dataclass(frozen=True)
class Values:
    """Vectorised evaluation of value expressions over all threads."""

    job: Job
    locals: dict[str, Tracked]
    names: Mapping[sympy.Symbol, NDArray[np.int64]]
    read: Callable[[Access], Tracked]
    component: Callable[[Component], Tracked]

    def of(self, expr: Expr) -> Tracked:
        match expr:
            case Const():
                return constant(expr.value, expr.dtype)
            case ParamValue():
                return constant({**self.job.manifest.params, **self.job.params}[expr.name], expr.dtype)
            case ScalarValue():
                return constant(self.job.scalars[expr.name], expr.dtype)
            case Element():
                return self.read(expr.access)
            case Component():
                return self.component(expr)
            case Shuffled():
                return unknown(expr.dtype)
            case Local():
                return self._local(expr)
            case Op():
                return apply_operator(expr.name, tuple(map(self.of, expr.args)), expr.dtype)
            case Select():
                return select(self.of(expr.condition), self.of(expr.then), self.of(expr.orelse))
            case Cast():
                return convert(self.of(expr.arg), expr.arg.dtype, expr.to)
        raise TypeError(f"no expression of a plan: {expr!r}")

    def _local(self, local: Local) -> Tracked:
        if local.name in self.locals:
            return self.locals[local.name]
        index = self.names.get(sympy.Symbol(local.name, integer=True))
        return unknown(local.dtype) if index is None else Tracked(index)


def merged(new: Tracked, old: Tracked | None, on: Mask) -> Tracked:
    """`new` for the active threads, `old` for the others."""
    if old is None:
        return new
    bound = None
    if new.bound is not None or old.bound is not None:
        bound = np.where(on, new.slack, old.slack)
    return Tracked(np.where(on, new.value, old.value), bound, new.integral and old.integral)
