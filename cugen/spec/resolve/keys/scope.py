"""The symbol table during parsing of a document, and evaluation of integer expressions in params."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Const, Expr
from cugen.spec.model import Param, Requirement
from cugen.spec.parse import grammar
from cugen.spec.parse.names import name_problem
from cugen.spec.parse.nodes import YamlNode, YamlScalar
from cugen.spec.parse.reading import first_line, shorten, wrong_type
from cugen.spec.parse.syntax import NameNode, Node, walk
from cugen.spec.prove.integers import evaluate, is_too_large
from cugen.spec.resolve import resolve
from cugen.spec.resolve.param_expressions import report_terms
from cugen.spec.types import INT64

Setting = int | float | bool


class Scope:
    """The symbol table, filled in the order of the document.

    `broken` holds names with an invalid declaration; uses of them report no further errors. `settings` are the caller's
    values of params and scalars, which override the file's. `implied` are the requirements of arrays on params.
    """

    def __init__(self, report: Reporter, settings: Mapping[str, Setting]) -> None:
        self.report = report
        self.settings = settings
        self.params: list[Param] = []
        self.broken: set[str] = set()
        self.implied: list[Requirement] = []
        self._kinds: dict[str, tuple[str, int]] = {}

    def declare(self, name: YamlScalar, what: str, *, key: str) -> bool:
        """Declares a name as a `what`; False after reporting an invalid or duplicate name."""
        problem = name_problem(name.string)
        if problem is not None:
            self.report.error(
                "CG1017",
                f"`{shorten(name.string)}` can't be the name of {what}: {problem[0]}",
                first_line(name),
                key=key,
                label="this name",
                help=problem[1],
            )
        elif name.string in self._kinds:
            kind, line = self._kinds[name.string]
            self.report.error(
                "CG1018",
                f"`{name.string}` is already {kind}",
                name.span,
                key=key,
                label=f"{what} of the same name",
                notes=(f"declared first in line {line}",),
                help="give one of the two another name",
            )
        else:
            self._kinds[name.string] = (what, name.span.line)
            return True
        self.broken.add(name.string)
        return False

    def mark_broken(self, names: Iterable[str]) -> None:
        """Marks names whose declaration is invalid."""
        self.broken.update(names)

    def parse(self, node: YamlNode, *, key: str, expected: str) -> Node | None:
        """The parse tree of a node with an expression; None after reporting an error, or if it uses broken names."""
        if not isinstance(node, YamlScalar) or not isinstance(node.value, str):
            wrong_type(node, expected, self.report, key=key)
            return None
        tree = grammar.parse_expression(node.text_up_to(grammar.MAX_CHARACTERS + 1), self.report)
        return None if tree is None or self.uses_broken(tree) else tree

    def uses_broken(self, tree: Node) -> bool:
        """Whether a parse tree refers to a broken name."""
        return any(isinstance(part, NameNode) and part.name in self.broken for part in walk(tree))

    def integer(self, node: YamlNode, *, key: str) -> Expr | None:
        """An integer literal or an expression in params, as an integer tree; None after reporting an error."""
        if isinstance(node, YamlScalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return Const(node.value, INT64)
        tree = self.parse(node, key=key, expected="an integer or an expression in params")
        expr = None if tree is None else self.resolve(tree, key=key)
        if expr is not None and is_too_large(expr):
            report_terms(node.span, self.report, key=key)
            return None
        return expr

    def resolve(self, tree: Node, *, key: str) -> Expr | None:
        """The integer tree of a parse tree over params; None after reporting an error."""
        return resolve.resolve_integer(tree, self.params, self.report, key=key)

    @property
    def values(self) -> dict[str, int]:
        """The values of the static params."""
        return {param.name: param.value for param in self.params if param.value is not None}

    def static(self, expr: Expr) -> int | None:
        """The compile-time value of an integer tree; None if it depends on a dynamic param."""
        try:
            return evaluate(expr, self.values)
        except KeyError:
            return None
