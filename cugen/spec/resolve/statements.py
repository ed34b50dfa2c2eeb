"""Resolution of one statement: its left side, the extents of its indices, and its typed right side."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op
from cugen.spec.model import Array, Statement
from cugen.spec.parse.names import name_problem
from cugen.spec.parse.syntax import NameNode, Node, StatementNode, SubscriptNode, walk
from cugen.spec.resolve.bindings import BoundIndex, Scope
from cugen.spec.resolve.elaborate import Elaborator
from cugen.spec.resolve.extents import bare_uses
from cugen.spec.resolve.subscripts import resolve_subscript
from cugen.spec.rewriting import FinalNames
from cugen.spec.types import INT64

_READ_ONLY = {"constant": "constant memory", "readonly": "the read-only cache", "texture": "texture memory"}


def resolve_statement(
    elaborator: Elaborator, node: StatementNode, names: Collection[str], later: Sequence[StatementNode] = ()
) -> Statement | None:
    """The resolved statement; adds the temporary that it defines to `elaborator.arrays`. None after reporting an error.

    `names` are the spec's names, which bound indices must not shadow; `later` are the subsequent statements, whose
    reads may determine the extents of a temporary."""
    before = len(elaborator.report.diagnostics)
    target = node.target
    name = target.name if isinstance(target, NameNode) else target.array
    subscripts = () if isinstance(target, NameNode) else target.subscripts
    if not _is_writable(elaborator, node, name):
        return None
    array = elaborator.arrays.get(name)
    indices = _left_indices(elaborator, subscripts)
    bounds: dict[str, BoundIndex] = {}
    for index in indices:
        uses = bare_uses([target, node.value], index.name, elaborator.arrays)
        if not uses and array is None:
            dimensions = [d for d, part in enumerate(subscripts) if part == index]
            uses = [u for d in dimensions for u in elaborator.extents.by_readers(name, d, later, elaborator.arrays)]
        extent = elaborator.extents.of(index.name, uses, index.span)
        bare = any(isinstance(part, NameNode) and part.name == index.name for part in subscripts)
        bounds[index.name] = BoundIndex(index.name, Const(1, INT64) if extent is None else extent, bare)
    scope = Scope(bounds)
    left = _subscripts(elaborator, node, array, scope)
    value = elaborator.value(node.value, scope)
    if value is None or left is None or name in elaborator.broken or len(elaborator.report.diagnostics) > before:
        return None
    if array is None:
        array = _temporary(elaborator, node, name, left, bounds)
        typed = elaborator.typing.with_default_type(value, node.value.span)
        if array is None or typed is None:
            return None
        array = replace(array, dtype=typed.dtype.compute)
        tree: Expr | None = typed.expr
    else:
        tree = elaborator.typing.convert_for_store(value, array.dtype, name, node.value.span)
    if tree is None:
        return None
    tree = FinalNames((*names, *bounds)).apply(tree)
    elaborator.arrays[name] = array
    extents = tuple(Index(bound.name, bound.extent) for bound in bounds.values())
    return Statement(name, left, extents, tree, node.accumulate, node.text, node.span)


def _is_writable(elaborator: Elaborator, node: StatementNode, name: str) -> bool:
    """Whether the target is writable; reports an error if not."""
    span = node.target.span if isinstance(node.target, NameNode) else node.target.array_span
    kind = elaborator.kind_of(name, Scope())
    array = elaborator.arrays.get(name)
    problem = name_problem(name)
    if kind in ("a param", "a scalar"):
        message, help = f"`{name}` is {kind} and can't be written", "write an array, or a name that isn't declared"
    elif array is not None and array.values is not None:
        message, help = f"`{name}` has `values` and can't be written", "write another array"
    elif array is not None and array.memory.space in _READ_ONLY:
        message = f"`{name}` is in {_READ_ONLY[array.memory.space]} and can't be written"
        help = "give it `memory: global`"
    elif kind is None and problem is not None:
        message, help = f"`{name}` can't be written: {problem[0]}", problem[1]
    else:
        return True
    elaborator.report.error("CG1219", message, span, label="not writable", help=help)
    return False


def _left_indices(elaborator: Elaborator, subscripts: tuple[Node, ...]) -> list[NameNode]:
    """The names that the left side binds as indices, by first appearance. Invalid ones are reported and bound too, so
    that their uses report no further errors."""
    indices: dict[str, NameNode] = {}
    for subscript in subscripts:
        for part in walk(subscript):
            if not isinstance(part, NameNode) or part.name in indices or part.name in elaborator.params:
                continue
            elaborator.new_index(part, Scope())
            indices[part.name] = part
    return list(indices.values())


def _subscripts(
    elaborator: Elaborator, node: StatementNode, array: Array | None, scope: Scope
) -> tuple[Expr, ...] | None:
    target = node.target
    written = () if isinstance(target, NameNode) else target.subscripts
    scatters = [part for subscript in written for part in walk(subscript) if isinstance(part, SubscriptNode)]
    for part in scatters:
        elaborator.report.error(
            "CG1308",
            "a subscript on the left that is read from an array can't be proved to write each element once",
            part.span,
            label="depends on data",
            help=_gather(node, part),
        )
    if scatters:
        return None
    if array is not None and len(written) != len(array.shape):
        elaborator.wrong_rank(array, len(written), target.span)
        return None
    exact: list[tuple[Expr, int]] = []
    trees = [resolve_subscript(elaborator, subscript, scope, exact) for subscript in written]
    if exact:
        elaborator.report.error(
            "CG1308",
            "an exact division on the left can't be proved to write each element once",
            target.span,
            label="divides",
            help="use `//`, or move the division to the right side",
        )
        return None
    known = tuple(tree for tree in trees if tree is not None)
    return known if len(known) == len(trees) else None


def _gather(node: StatementNode, scatter: SubscriptNode) -> str:
    """The statement that reads through the table in place of writing through it, if the target is one row of it."""
    target = node.target
    names = [part.name for part in scatter.subscripts if isinstance(part, NameNode)]
    if not (node.accumulate and isinstance(target, SubscriptNode) and target.subscripts == (scatter,) and names):
        return "replace the scatter by a gather: read through the table and write bare indices"
    element = next(name for name in ("b", "e", "bin_") if not re.search(rf"\b{name}\b", node.text))
    value = node.text.partition("+=")[2].strip()
    table = f"{scatter.array}[{', '.join(names)}]"
    terms = f"where({table} == {element}, {value}, 0)"
    return f"each element adds up what belongs to it: `{target.array}[{element}] = sum({terms}, {', '.join(names)})`"


def _temporary(
    elaborator: Elaborator, node: StatementNode, name: str, left: tuple[Expr, ...], bounds: dict[str, BoundIndex]
) -> Array | None:
    """The temporary for an undeclared name; its shape is the extents of its subscripts."""
    if node.accumulate:
        elaborator.report.error(
            "CG1310",
            f"`{name}` is added to before it is written",
            node.target.span,
            label="has no value yet",
            help="write it with `=` first, or declare it under `arrays`",
        )
        return None
    names = [tree.name for tree in left if isinstance(tree, IndexValue)]
    if len(set(names)) < len(left):
        elaborator.report.error(
            "CG1313",
            f"`{name}` isn't declared, so its subscripts must be different bare indices",
            node.target.span,
            label="its shape can't be inferred",
            help=f"declare `{name}` under `arrays`, with `memory: scratch` for an intermediate array",
        )
        return None
    shape = tuple(bounds[index].extent for index in names)
    return Array(
        name, shape, elaborator.typing.default_float, "temporary", dense_strides(shape), is_temporary=True,
        span=node.target.span,
    )  # fmt: skip


def dense_strides(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Row-major strides in elements, as integer trees over params."""
    strides: list[Expr] = []
    stride: Expr = Const(1, INT64)
    for extent in reversed(shape):
        strides.append(stride)
        stride = extent if stride == Const(1, INT64) else Op("mul", (extent, stride), INT64)
    return tuple(reversed(strides))
