"""Text of the expression language -> syntax tree, by recursive descent with Python's precedence.

Nothing is evaluated. Length, nesting and size are bounded, so that every later pass may recurse over a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
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

MAX_CHARACTERS = 20_000
MAX_DEPTH = 100
MAX_NODES = 5_000

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
# Operators between two operands, loosest first; `not` stands between `and` and the comparisons.
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
_TIGHTNESS = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_NOT = _TIGHTNESS.pop("not")
_CLOSING = {"(": ")", "[": "]"}


@dataclass(eq=False)
class _Problem(Exception):
    """The first thing in a statement that the grammar doesn't allow."""

    code: str
    message: str
    span: Span
    label: str
    help: str


def parse_expression(text: Text, report: Reporter) -> Node | None:
    """The tree of a text that holds one expression, or None after at least one finding; line breaks are blanks."""
    if not _short_enough(text, report):
        return None
    tokens = tokenize(text, report)
    if tokens is None:
        return None
    parser = _Parser(text, [token for token in tokens if token.kind != "newline"])
    try:
        return parser.whole_expression()
    except _Problem as problem:
        _tell(problem, report)
        return None


def parse_statements(text: Text, report: Reporter) -> list[StatementNode]:
    """The statements of a block that could be read, in order; each of the others left one finding.

    A line is a statement, an open bracket continues it on the next line, and `#` begins a comment."""
    if not _short_enough(text, report):
        return []
    statements: list[StatementNode] = []
    found = False
    for start, end in logical_lines(text.value):
        piece = Text(text.value[start:end], text.positions[start : end + 1])
        before = len(report.diagnostics)
        tokens = tokenize(piece, report)
        if tokens is None or any(token.kind not in ("newline", "end") for token in tokens):
            found = True
        else:
            continue
        if tokens is None or len(report.diagnostics) > before:
            continue
        try:
            statements.append(_Parser(piece, [t for t in tokens if t.kind != "newline"]).statement())
        except _Problem as problem:
            _tell(problem, report)
    if not found:
        report.error(
            "CG1105",
            "there is no statement here",
            text.span(0, len(text.value)),
            label="empty",
            help="write `OUT[i, j] = expression`",
        )
    return statements


def _tell(problem: _Problem, report: Reporter) -> None:
    report.error(problem.code, problem.message, problem.span, label=problem.label, help=problem.help)


def _short_enough(text: Text, report: Reporter) -> bool:
    if len(text.value) <= MAX_CHARACTERS:
        return True
    report.error(
        "CG1106",
        f"the text has {len(text.value)} characters; at most {MAX_CHARACTERS} are read",
        text.span(0, 1),
        label="starts here",
        help="put tables of numbers into `values` of an array",
    )
    return False


class _Parser:
    def __init__(self, text: Text, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._nesting = 0
        self._nodes = 0
        self._depths: dict[int, int] = {}
        self._alive: list[Node] = []  # keeps the ids in _depths from being reused

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _span(self, start: int) -> Span:
        """From an offset to the end of the token that was read last."""
        return self._text.span(start, self._tokens[max(self._at - 1, 0)].end)

    def _made(self, node: Node, *below: Node) -> Node:
        depth = 1 + max((self._depths[id(child)] for child in below), default=0)
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise self._too_large(f"the expression is nested deeper than {MAX_DEPTH} levels", node.span)
        if self._nodes > MAX_NODES:
            raise self._too_large(f"the expression has more than {MAX_NODES} parts", node.span)
        self._depths[id(node)] = depth
        self._alive.append(node)
        return node

    def _too_large(self, message: str, span: Span) -> _Problem:
        cure = "split it: a name on the left that isn't declared stands for its expression"
        return _Problem("CG1106", message, span, "here", cure)

    def _expected(self, what: str, help: str = "") -> _Problem:
        token = self._token
        if token.kind == "end":
            at = max(token.start - 1, 0)
            return _Problem("CG1103", f"{what} is missing at the end", self._text.span(at, at + 1), "ends here", help)
        if token.kind in (")", "]"):
            return _Problem("CG1104", f"`{token.text}` closes nothing, or too early", self._place(token), what, help)
        message = f"expected {what}, found `{token.text}`"
        return _Problem("CG1103", message, self._place(token), "unexpected", help)

    def _place(self, token: Token) -> Span:
        return self._text.span(token.start, token.end)

    def whole_expression(self) -> Node:
        node = self._conditional()
        if self._token.kind != "end":
            raise self._after(node)
        return node

    def statement(self) -> StatementNode:
        start = self._token.start
        target = self._conditional()
        if self._token.kind not in ("=", "+="):
            raise _Problem(
                "CG1105", "this isn't a statement", self._span(start), "no `=`", "write `OUT[i, j] = expression`"
            )
        if not isinstance(target, NameNode | SubscriptNode):
            raise _Problem(
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

    def _after(self, node: Node) -> _Problem:
        """What is wrong with the token that follows a complete expression."""
        token = self._token
        if token.kind in (")", "]"):
            return _Problem(
                "CG1104", f"`{token.text}` closes nothing", self._place(token), "no bracket is open", "remove it"
            )
        if token.kind in ("=", "+="):
            help = "compare with `==`" if token.kind == "=" else "a statement has one `=` or `+=`"
            return _Problem("CG1103", f"`{token.text}` can't stand here", self._place(token), "unexpected", help)
        if token.kind == ",":
            help = "an expression is one value; a statement writes one element"
            return _Problem("CG1103", "`,` can't stand here", self._place(token), "unexpected", help)
        if token.kind == "[":
            return self._no_subscript(token, node)
        help = "an operator is missing before it; a product needs its `*`"
        return _Problem("CG1103", f"`{token.text}` can't stand here", self._place(token), "unexpected", help)

    def _no_subscript(self, token: Token, node: Node) -> _Problem:
        cure = "put all subscripts into one pair of brackets: `A[i, j]`"
        if not isinstance(node, SubscriptNode):
            cure = "name the intermediate result in a statement of its own and subscript that"
        message = "only the name of an array can be subscripted"
        return _Problem("CG1108", message, self._place(token), "second subscript", cure)

    def _deeper(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise self._too_large(f"the expression is nested deeper than {MAX_DEPTH} levels", self._place(self._token))

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
        self._deeper()
        orelse = self._conditional()
        self._nesting -= 1
        return self._made(ConditionalNode(condition, then, orelse, self._span(start)), condition, then, orelse)

    def _binary(self, level: int) -> Node:
        """An expression whose operators bind at least as tightly as `level`."""
        self._deeper()
        start = self._token.start
        nots: list[int] = []
        while self._token.kind == "not" and level <= _NOT:
            nots.append(self._next().start)
        left = self._binary(_NOT + 1) if nots else self._unary()
        for place in reversed(nots):
            left = self._made(UnaryNode("not", left, self._span(place)), left)
        while (tightness := _TIGHTNESS.get(self._token.kind, -1)) >= level:
            if self._token.kind in _COMPARISONS:
                left = self._comparison(left, start, tightness)
                continue
            operator = self._next().kind
            right = self._binary(tightness + 1)
            left = self._made(BinaryNode(operator, left, right, self._span(start)), left, right)
        self._nesting -= 1
        return left

    def _comparison(self, left: Node, start: int, tightness: int) -> Node:
        operands = [left]
        operators: list[str] = []
        while self._token.kind in _COMPARISONS:
            operators.append(self._next().kind)
            operands.append(self._binary(tightness + 1))
        return self._made(CompareNode(tuple(operands), tuple(operators), self._span(start)), *operands)

    def _unary(self) -> Node:
        """Signs bind looser than `**` on their right and tighter than all else: `-x ** 2` is `-(x ** 2)`."""
        signs: list[Token] = []
        while self._token.kind in ("-", "+", "~"):
            signs.append(self._next())
        start = self._token.start
        node = self._primary()
        if self._token.kind == "**":
            self._next()
            self._deeper()
            exponent = self._unary()
            self._nesting -= 1
            node = self._made(BinaryNode("**", node, exponent, self._span(start)), node, exponent)
        for sign in reversed(signs):
            node = self._made(UnaryNode(sign.kind, node, self._span(sign.start)), node)
        return node

    def _primary(self) -> Node:
        token = self._token
        if token.kind not in ("number", "name", "("):
            if token.kind == "[":
                help = "declare an array with `values: [...]`"
                raise _Problem("CG1108", "an expression has no lists", self._place(token), "unexpected", help)
            raise self._expected("a value", "write the number, name or bracket that belongs here")
        self._next()
        if token.kind == "number":
            return self._made(NumberNode(token.value, self._place(token)))
        opening = self._token
        node: Node
        if token.kind == "(":
            node = self._conditional()
            self._close(token)
        elif opening.kind == "[":
            self._next()
            subscripts = self._subscripts(opening)
            node = SubscriptNode(token.text, subscripts, self._place(token), self._span(token.start))
            self._made(node, *subscripts)
        elif opening.kind == "(":
            self._next()
            arguments, keywords = self._arguments(opening)
            node = CallNode(token.text, arguments, keywords, self._place(token), self._span(token.start))
            self._made(node, *arguments, *(value for _, value in keywords))
        else:
            return self._made(NameNode(token.text, self._place(token)))
        if self._token.kind == "[":
            raise self._no_subscript(self._token, node)
        return node

    def _subscripts(self, opening: Token) -> tuple[Node, ...]:
        if self._token.kind == "]":
            help = "write the name alone for an array of shape []"
            raise _Problem("CG1108", "the subscript is empty", self._place(opening), "empty", help)
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
            if token.kind == "name" and self._tokens[self._at + 1].kind == "=":
                self._next()
                self._next()
                if any(name == token.text for name, _ in keywords):
                    message = f"the option `{token.text}` is given twice"
                    raise _Problem("CG1107", message, self._place(token), "second time", "keep one of the two")
                keywords.append((token.text, self._conditional()))
            elif keywords:
                help = f"move it before `{keywords[0][0]}=`"
                message = "an argument without a name can't follow one with a name"
                raise _Problem("CG1107", message, self._place(token), "here", help)
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
            raise _Problem("CG1104", message, self._place(opening), "opened here", f"add the `{closing}`")
        if token.kind in (")", "]"):
            message = f"`{token.kind}` can't close `{opening.kind}`"
            raise _Problem("CG1104", message, self._place(token), f"expected `{closing}`", f"write `{closing}`")
        if token.kind == "=":
            help = "compare with `==`; an option is `name=value`"
            raise _Problem("CG1103", "`=` can't stand here", self._place(token), "unexpected", help)
        raise self._expected(f"`,` or `{closing}`", "an operator or a comma is missing before it")
