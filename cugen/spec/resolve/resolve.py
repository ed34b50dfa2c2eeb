"""Semantic analysis: resolves names, types and extents of parse trees, and checks bounds, coverage and order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.expressions import walk as walk_tree
from cugen.spec.model import Array, Requirement, Statement
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.keys import MAX_PARTS
from cugen.spec.parse.syntax import NameNode, StatementNode, walk
from cugen.spec.prove.bounds import BoundsChecker
from cugen.spec.prove.coverage import check_coverage
from cugen.spec.prove.order import check_order, with_roles
from cugen.spec.prove.requirements import assumed
from cugen.spec.resolve.baked_numbers import resolve_number
from cugen.spec.resolve.bindings import Scope
from cugen.spec.resolve.declarations import Declarations
from cugen.spec.resolve.elaborate import Elaborator
from cugen.spec.resolve.extents import Extents
from cugen.spec.resolve.param_expressions import holds, resolve_condition, resolve_integer
from cugen.spec.resolve.statements import resolve_statement

__all__ = ["Resolution", "holds", "resolve_compute", "resolve_condition", "resolve_integer", "resolve_number"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The resolved `compute` section: statements in order, and all arrays with their roles, temporaries last."""

    statements: tuple[Statement, ...]
    arrays: tuple[Array, ...]


def resolve_compute(
    declarations: Declarations,
    statements: Sequence[StatementNode],
    report: Reporter,
    require: tuple[Requirement, ...] = (),
) -> Resolution | None:
    """The typed statements, with every read proved in bounds or with a boundary; None after reporting errors. Params
    are known to meet the conditions of `require`."""
    before = len(report.diagnostics)
    written = 0
    for node in statements:  # before any is resolved: parts only become more
        written += sum(1 for _ in walk(node.value))
        if written > MAX_PARTS:
            _report_size(node.span, report)
            return None
    params = {param.name: param for param in declarations.params}
    extents = Extents(declarations.indices, assumed(require, params), report, partial=bool(declarations.broken))
    elaborator = Elaborator(
        params,
        {scalar.name: scalar for scalar in declarations.scalars},
        {array.name: array for array in declarations.arrays},
        extents,
        declarations.accumulate,
        report,
    )
    elaborator.broken.update(dict.fromkeys(declarations.broken))
    names = (*params, *elaborator.scalars, *elaborator.arrays, *_define_later(elaborator, statements))
    resolved: list[Statement] = []
    parts = 0
    for position, node in enumerate(statements):
        target = node.target.name if isinstance(node.target, NameNode) else node.target.array
        was_known = target in elaborator.arrays
        statement = resolve_statement(elaborator, node, names, statements[position + 1 :])
        elaborator.later.pop(target, None)
        if statement is not None:
            resolved.append(statement)
            parts += sum(1 for _ in walk_tree(statement.value))
            if parts > MAX_PARTS:
                _report_size(statement.span, report)
                return None
        elif not was_known:
            elaborator.broken[target] = None
            extents.is_partial = True  # of indices that only subscript it
    complete = len(resolved) == len(statements) and not declarations.broken
    if complete:
        _check_indices(extents, statements, report)
    bounds = BoundsChecker(params, elaborator.arrays, report, require)
    checked = [bounds.checked(statement) for statement in resolved]
    if complete:
        in_bounds = [statement for statement in checked if statement.target not in bounds.written_outside]
        check_coverage(in_bounds, elaborator.arrays, params, report)
        check_order(checked, elaborator.arrays, params, report)
    if not complete or len(report.diagnostics) > before:
        return None
    return Resolution(tuple(checked), with_roles(checked, elaborator.arrays, params))


def _report_size(span: Span, report: Reporter) -> None:
    report.error(
        "CG1106",
        f"the statements have more than {MAX_PARTS} parts, once their functions are expanded",
        span,
        label="too large from here on",
        help="split the spec into several kernels",
    )


def _define_later(elaborator: Elaborator, statements: Sequence[StatementNode]) -> tuple[str, ...]:
    """The names of the temporaries: undeclared names on the left."""
    for node in statements:
        name = node.target.name if isinstance(node.target, NameNode) else node.target.array
        if elaborator.kind_of(name, Scope()) is None and name not in elaborator.broken:
            elaborator.later[name] = node.span
    return tuple(elaborator.later)


def _check_indices(extents: Extents, statements: Sequence[StatementNode], report: Reporter) -> None:
    """Reports the entries of `indices:` that no statement uses."""
    used = dict.fromkeys(
        part.name for node in statements for tree in (node.target, node.value) for part in walk(tree)
        if isinstance(part, NameNode)
    )  # fmt: skip
    for name, span in extents.unused():
        report.error(
            "CG1218",
            f"no statement has an index `{name}`",
            span,
            key=f"indices.{name}",
            label="unused",
            help=did_you_mean(name, used, what="names in `compute`"),
        )
