"""Recursive-descent parser of the expression language, with Python's operator precedence.

Nothing is evaluated. Length, nesting and size are bounded, so that later passes may recurse over a parse tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.parse import idioms
from cugen.spec.parse.keys import TYPE_SYNONYMS
from cugen.spec.parse.lexer import Token, tokenize
from cugen.spec.parse.lines import logical_lines
from cugen.spec.parse.syntax import (
    BinaryNode,
    CallNode,
    CompareNode,
    ConditionalNode,
    NameNode,
    Node,
    NumberNode,
    StatementNode,
    SubscriptNode,
    Text,
    UnaryNode,
)

MAX_CHARACTERS = 20_000  # of a text
MAX_DEPTH = 100  # of a parse tree, and of nested brackets
MAX_NODES = 5_000  # of a parse tree

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
# Binary operators by increasing precedence; `not` is between `and` and the comparisons.
_LEVELS = (
    ("or",),
    ("and",),
    ("not",),
    _COMPARISONS,
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "//", "%"),
)
_PRECEDENCE = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_NOT = _PRECEDENCE.pop("not")
_CLOSING = {"(": ")", "[": "]"}


@dataclass(eq=False)
class _SyntaxError(Exception):
    """The first syntax error of a statement."""

    code: str
    message: str
    span: Span
    label: str
    help: str


def parse_expression(text: Text, report: Reporter) -> Node | None:
    """The parse tree of one expression, or None after reporting an error; line breaks are whitespace."""
    if not _has_allowed_length(text, report):
        return None
    tokens = tokenize(text, report)
    if tokens is None:
        return None
    parser = _Parser(text, [token for token in tokens if token.kind != "newline"])
    try:
        return parser.whole_expression()
    except _SyntaxError as error:
        _report_error(error, report)
        return None


def parse_statements(text: Text, report: Reporter) -> list[StatementNode]:
    """The valid statements of a block, in order; each invalid one reports one error.

    A line is a statement, an open bracket continues it on the next line, and `#` starts a comment."""
    if not _has_allowed_length(text, report):
        return []
    statements: list[StatementNode] = []
    has_statement = False
    for start, end in logical_lines(text.value):
        piece = Text(text.value[start:end], text.positions[start : end + 1])
        before = len(report.diagnostics)
        tokens = tokenize(piece, report)
        if tokens is None or any(token.kind not in ("newline", "end") for token in tokens):
            has_statement = True
        else:
            continue
        if tokens is None or len(report.diagnostics) > before:
            continue
        try:
            statements.append(_Parser(piece, [t for t in tokens if t.kind != "newline"]).statement())
        except _SyntaxError as error:
            _report_error(error, report)
    if not has_statement:
        report.error(
            "CG1105",
            "there is no statement here",
            text.span(0, len(text.value)),
            label="empty",
            help="write `OUT[i, j] = expression`",
        )
    return statements


def _report_error(error: _SyntaxError, report: Reporter) -> None:
    report.error(error.code, error.message, error.span, label=error.label, help=error.help)


def _has_allowed_length(text: Text, report: Reporter) -> bool:
    if len(text.value) <= MAX_CHARACTERS:
        return True
    report.error(
        "CG1106",
        f"the text has more than {MAX_CHARACTERS} characters",
        text.span(0, 1),
        label="starts here",
        help="put tables of numbers into `values` of an array",
    )
    return False


class _Parser:
    def __init__(self, text: Text, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._cursor = 0
        self._nesting = 0
        self._nodes = 0
        self._depths: dict[int, int] = {}
        self._live_nodes: list[Node] = []  # keeps the ids in _depths from being reused

    @property
    def _token(self) -> Token:
        return self._tokens[self._cursor]

    def _next(self) -> Token:
        token = self._token
        self._cursor = min(self._cursor + 1, len(self._tokens) - 1)
        return token

    def _span(self, start: int) -> Span:
        """The span from an offset to the end of the last consumed token."""
        return self._text.span(start, self._tokens[max(self._cursor - 1, 0)].end)

    def _checked(self, node: Node, *children: Node) -> Node:
        """Checks the size and depth limits for a new node."""
        depth = 1 + max((self._depths[id(child)] for child in children), default=0)
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise self._too_large(f"the expression is nested deeper than {MAX_DEPTH} levels", node.span)
        if self._nodes > MAX_NODES:
            raise self._too_large(f"the expression has more than {MAX_NODES} parts", node.span)
        self._depths[id(node)] = depth
        self._live_nodes.append(node)
        return node

    def _too_large(self, message: str, span: Span) -> _SyntaxError:
        help = "split it into statements: an undeclared name on the left is a temporary"
        return _SyntaxError("CG1106", message, span, "here", help)

    def _expected(self, what: str, help: str = "") -> _SyntaxError:
        token = self._token
        if token.kind == "end":
            last = max(token.start - 1, 0)
            return _SyntaxError(
                "CG1103", f"{what} is missing at the end", self._text.span(last, last + 1), "ends here", help
            )
        if token.kind in (")", "]"):
            return _SyntaxError(
                "CG1104", f"`{token.text}` closes nothing, or too early", self._span_of(token), what, help
            )
        message = f"expected {what}, found `{token.text}`"
        return _SyntaxError("CG1103", message, self._span_of(token), "unexpected", help)

    def _span_of(self, token: Token) -> Span:
        return self._text.span(token.start, token.end)

    def whole_expression(self) -> Node:
        node = self._conditional()
        if self._token.kind != "end":
            raise self._trailing_token(node)
        return node

    def statement(self) -> StatementNode:
        start = self._token.start
        target = self._conditional()
        if self._token.kind not in ("=", "+="):
            foreign = idioms.call(target.function) if isinstance(target, CallNode) else None
            help = foreign or "write `OUT[i, j] = expression`"
            raise _SyntaxError("CG1105", "this isn't a statement", self._span(start), "no `=`", help)
        if not isinstance(target, NameNode | SubscriptNode):
            raise _SyntaxError(
                "CG1105",
                "only a name or a subscripted name can be written",
                target.span,
                "not a target",
                "write `OUT[i, j] = expression`",
            )
        accumulate = self._next().kind == "+="
        value = self.whole_expression()
        span = self._span(start)
        lines = (line.split("#", 1)[0].strip() for line in self._text.value.split("\n"))
        return StatementNode(target, accumulate, value, " ".join(filter(None, lines)), span)

    def _trailing_token(self, node: Node) -> _SyntaxError:
        """The error for a token after a complete expression."""
        token = self._token
        unexpected = f"`{token.text}` isn't allowed here"
        if token.kind in (")", "]"):
            return _SyntaxError(
                "CG1104", f"`{token.text}` closes nothing", self._span_of(token), "no bracket is open", "remove it"
            )
        if token.kind in ("=", "+="):
            help = "compare with `==`" if token.kind == "=" else "a statement has one `=` or `+=`"
            return _SyntaxError("CG1103", unexpected, self._span_of(token), "unexpected", help)
        if token.kind == ",":
            help = "an expression is one value; a statement writes one element"
            return _SyntaxError("CG1103", "`,` isn't allowed here", self._span_of(token), "unexpected", help)
        if token.kind == "[":
            return self._no_subscript(token, node)
        help = "an operator is missing before it; a multiplication needs its `*`"
        if self._span_of(token).line > self._span_of(self._tokens[self._cursor - 1]).line:
            help = "YAML joins these lines to one: begin statements on lines of their own with `compute: |`"
        elif any(before.kind == "//" for before in self._tokens[: self._cursor]):
            help = "`//` divides, and a comment begins with `#`"
        elif isinstance(node, NameNode) and (dtype := TYPE_SYNONYMS.get(node.name)):
            help = f"write `cast(x, {dtype})`"
        return _SyntaxError("CG1103", unexpected, self._span_of(token), "unexpected", help)

    def _no_subscript(self, token: Token, node: Node) -> _SyntaxError:
        help = "put all subscripts into one pair of brackets: `A[i, j]`"
        if not isinstance(node, SubscriptNode):
            help = "assign the expression to a temporary and subscript that"
        message = "only the name of an array can be subscripted"
        return _SyntaxError("CG1108", message, self._span_of(token), "second subscript", help)

    def _enter_nesting(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise self._too_large(
                f"the expression is nested deeper than {MAX_DEPTH} levels", self._span_of(self._token)
            )

    def _conditional(self) -> Node:
        start = self._token.start
        then = self._binary(0)
        if self._token.kind != "if":
            return then
        self._next()
        condition = self._binary(0)
        if self._token.kind != "else":
            raise self._expected("`else`", "write `a if condition else b`")
        self._next()
        self._enter_nesting()
        orelse = self._conditional()
        self._nesting -= 1
        return self._checked(ConditionalNode(condition, then, orelse, self._span(start)), condition, then, orelse)

    def _binary(self, level: int) -> Node:
        """An expression with operators of at least this precedence level (precedence climbing)."""
        self._enter_nesting()
        start = self._token.start
        nots: list[int] = []
        while self._token.kind == "not" and level <= _NOT:
            nots.append(self._next().start)
        left = self._binary(_NOT + 1) if nots else self._unary()
        for offset in reversed(nots):
            left = self._checked(UnaryNode("not", left, self._span(offset)), left)
        while (precedence := _PRECEDENCE.get(self._token.kind, -1)) >= level:
            if self._token.kind in _COMPARISONS:
                left = self._comparison(left, start, precedence)
                continue
            operator = self._next().kind
            right = self._binary(precedence + 1)
            left = self._checked(BinaryNode(operator, left, right, self._span(start)), left, right)
        self._nesting -= 1
        return left

    def _comparison(self, left: Node, start: int, precedence: int) -> Node:
        operands = [left]
        operators: list[str] = []
        while self._token.kind in _COMPARISONS:
            operators.append(self._next().kind)
            operands.append(self._binary(precedence + 1))
        return self._checked(CompareNode(tuple(operands), tuple(operators), self._span(start)), *operands)

    def _unary(self) -> Node:
        """Unary operators: precedence below `**`, above all binary operators: `-x ** 2` is `-(x ** 2)`."""
        signs: list[Token] = []
        while self._token.kind in ("-", "+", "~"):
            signs.append(self._next())
        start = self._token.start
        node = self._primary()
        if self._token.kind == "**":
            self._next()
            self._enter_nesting()
            exponent = self._unary()
            self._nesting -= 1
            node = self._checked(BinaryNode("**", node, exponent, self._span(start)), node, exponent)
        for sign in reversed(signs):
            node = self._checked(UnaryNode(sign.kind, node, self._span(sign.start)), node)
        return node

    def _primary(self) -> Node:
        token = self._token
        if token.kind not in ("number", "name", "("):
            if token.kind == "[":
                help = "declare an array with `values: [...]`"
                raise _SyntaxError("CG1108", "an expression has no lists", self._span_of(token), "unexpected", help)
            help = "write the number, name or bracket that belongs here"
            if token.kind in ("&", "*"):
                help = idioms.POINTER
            elif token.text == "if":
                help = "write `a if condition else b`"
            raise self._expected("a value", help)
        self._next()
        if token.kind == "number":
            return self._checked(NumberNode(token.value, self._span_of(token)))
        opening = self._token
        node: Node
        if token.kind == "(":
            node = self._conditional()
            self._close(token)
        elif opening.kind == "[":
            self._next()
            subscripts = self._subscripts(opening)
            node = SubscriptNode(token.text, subscripts, self._span_of(token), self._span(token.start))
            self._checked(node, *subscripts)
        elif opening.kind == "(":
            self._next()
            arguments, keywords = self._arguments(opening)
            node = CallNode(token.text, arguments, keywords, self._span_of(token), self._span(token.start))
            self._checked(node, *arguments, *(value for _, value in keywords))
        else:
            return self._checked(NameNode(token.text, self._span_of(token)))
        if self._token.kind == "[":
            raise self._no_subscript(self._token, node)
        return node

    def _subscripts(self, opening: Token) -> tuple[Node, ...]:
        if self._token.kind == "]":
            help = "write the name alone for an array of shape []"
            raise _SyntaxError("CG1108", "the subscript is empty", self._span_of(opening), "empty", help)
        subscripts = [self._conditional()]
        while self._token.kind == ",":
            self._next()
            subscripts.append(self._conditional())
        self._close(opening)
        return tuple(subscripts)

    def _arguments(self, opening: Token) -> tuple[tuple[Node, ...], tuple[tuple[str, Node], ...]]:
        arguments: list[Node] = []
        keywords: list[tuple[str, Node]] = []
        while self._token.kind != ")":
            token = self._token
            if token.kind == "name" and self._tokens[self._cursor + 1].kind == "=":
                self._next()
                self._next()
                if any(name == token.text for name, _ in keywords):
                    message = f"the option `{token.text}` is given twice"
                    raise _SyntaxError("CG1107", message, self._span_of(token), "second time", "keep one of the two")
                keywords.append((token.text, self._conditional()))
            elif keywords:
                help = f"move it before `{keywords[0][0]}=`"
                message = "an argument without a name can't follow one with a name"
                raise _SyntaxError("CG1107", message, self._span_of(token), "here", help)
            else:
                arguments.append(self._conditional())
            if self._token.kind != ",":
                break
            self._next()
        self._close(opening)
        return tuple(arguments), tuple(keywords)

    def _close(self, opening: Token) -> None:
        closing = _CLOSING[opening.kind]
        token = self._token
        if token.kind == closing:
            self._next()
            return
        if token.kind == "end":
            message = f"`{opening.kind}` is never closed"
            raise _SyntaxError("CG1104", message, self._span_of(opening), "opened here", f"add the `{closing}`")
        if token.kind in (")", "]"):
            message = f"`{token.kind}` can't close `{opening.kind}`"
            raise _SyntaxError("CG1104", message, self._span_of(token), f"expected `{closing}`", f"write `{closing}`")
        if token.kind == "=":
            help = "compare with `==`; an option is `name=value`"
            raise _SyntaxError("CG1103", "`=` isn't allowed here", self._span_of(token), "unexpected", help)
        raise self._expected(f"`,` or `{closing}`", "an operator or a comma is missing before it")
