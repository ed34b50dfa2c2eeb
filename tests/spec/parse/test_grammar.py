"""Expressions have Python's precedence, and each invalid statement gives one diagnostic without affecting others."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.spec.diagnostics import Diagnostic, Reporter
from cugen.spec.parse.grammar import MAX_CHARACTERS, parse_expression, parse_statements
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


def as_text(source: str) -> Text:
    positions = []
    line = column = 1
    for character in source:
        positions.append((line, column))
        line, column = (line + 1, 1) if character == "\n" else (line, column + 1)
    return Text(source, (*positions, (line, column)))


def parse(source: str) -> tuple[Node | None, list[Diagnostic]]:
    report = Reporter("test", source)
    return parse_expression(as_text(source), report), report.diagnostics


def block(source: str) -> tuple[list[StatementNode], list[Diagnostic]]:
    report = Reporter("test", source)
    return parse_statements(as_text(source), report), report.diagnostics


def shown(node: Node) -> str:
    """The tree as fully parenthesised text, the form that `python` gives for Python's tree."""
    match node:
        case NumberNode(value=value):
            return repr(value)
        case NameNode(name=name):
            return name
        case SubscriptNode(array=array, subscripts=subscripts):
            return f"{array}[{', '.join(map(shown, subscripts))}]"
        case UnaryNode(operator=operator, operand=operand):
            return f"({operator} {shown(operand)})"
        case BinaryNode(operator=operator, left=left, right=right):
            return f"({shown(left)} {operator} {shown(right)})"
        case CompareNode(operands=operands, operators=operators):
            comparisons = "".join(f" {o} {shown(n)}" for o, n in zip(operators, operands[1:], strict=True))
            return f"({shown(operands[0])}{comparisons})"
        case ConditionalNode(condition=condition, then=then, orelse=orelse):
            return f"({shown(then)} if {shown(condition)} else {shown(orelse)})"
        case CallNode(function=function, arguments=arguments, keywords=keywords):
            options = [f"{name}={shown(value)}" for name, value in keywords]
            return f"{function}({', '.join([*map(shown, arguments), *options])})"


PYTHON = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def python(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return repr(value)
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(op=op, operand=operand):
            return f"({PYTHON[type(op)]} {python(operand)})"
        case ast.BinOp(op=op, left=left, right=right):
            return f"({python(left)} {PYTHON[type(op)]} {python(right)})"
        case ast.BoolOp(op=op, values=values):
            text = python(values[0])
            for value in values[1:]:
                text = f"({text} {PYTHON[type(op)]} {python(value)})"
            return text
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            comparisons = "".join(f" {PYTHON[type(o)]} {python(n)}" for o, n in zip(ops, comparators, strict=True))
            return f"({python(left)}{comparisons})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({python(body)} if {python(test)} else {python(orelse)})"
    raise AssertionError(node)


WORDS = [
    *("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", "==", "!=", "and", "or", "not", "~"),
    *("if", "else", "(", ")", "a", "b", "1", "2.5"),
]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_what_python_reads_is_read_the_same_and_the_rest_is_rejected(words: list[str]) -> None:
    source = " ".join(words)
    try:
        expected: str | None = python(ast.parse(source, mode="eval").body)
    except (SyntaxError, AssertionError):
        expected = None
    node, diagnostics = parse(source)
    assert (None if node is None else shown(node)) == expected
    assert (node is None) == bool(diagnostics)


@given(
    st.recursive(
        st.sampled_from(["a", "b", "1", "2.5"]),
        lambda inner: st.one_of(
            st.builds("{} {} {}".format, inner, st.sampled_from(WORDS[:18]), inner),
            st.builds("({})".format, inner),
            st.builds("{} {}".format, st.sampled_from(["-", "~", "not"]), inner),
            st.builds("{} if {} else {}".format, inner, inner, inner),
        ),
        max_leaves=12,
    )
)
def test_nested_expressions_are_read_as_python_does(source: str) -> None:
    try:
        expected: str | None = python(ast.parse(source, mode="eval").body)
    except SyntaxError:
        expected = None
    node, _ = parse(source)
    assert (None if node is None else shown(node)) == expected


def test_calls_and_subscripts_keep_their_parts_and_spans() -> None:
    node, _ = parse("sum(A[i, k] * 2,\n k, where=k <= i)")
    assert isinstance(node, CallNode)
    assert shown(node) == "sum((A[i, k] * 2), k, where=(k <= i))"
    assert (node.span.line, node.span.column, node.span.end_line, node.span.end_column) == (1, 1, 2, 18)
    assert node.function_span.end_column == 4
    assert node.arguments[1].span.line == 2


@pytest.mark.parametrize(
    ("source", "code", "column"),
    [
        ("1 +", "CG1103", 3),
        ("a b", "CG1103", 3),
        ("a = b", "CG1103", 3),
        ("(a", "CG1104", 1),
        ("a)", "CG1104", 2),
        ("A[i)", "CG1104", 4),
        ("A[i][j]", "CG1108", 5),
        ("f(x)[i]", "CG1108", 5),
        ("(a)[i]", "CG1108", 4),
        ("A[]", "CG1108", 2),
        ("[1, 2]", "CG1108", 1),
        ("f(a=1, b)", "CG1107", 8),
        ("f(a=1, a=2)", "CG1107", 8),
        ("A[:, i]", "CG1109", 3),
        ("", "CG1103", 1),
        ("a if b", "CG1103", 6),
    ],
)
def test_what_the_grammar_rejects_has_a_code_a_span_and_help(source: str, code: str, column: int) -> None:
    node, diagnostics = parse(source)
    assert node is None
    assert [(d.code, d.span.column) for d in diagnostics] == [(code, column)]
    assert diagnostics[0].help


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("(" * 3000 + "a" + ")" * 3000, id="parentheses"),
        pytest.param("-" * 5000 + "a", id="minus signs"),
        pytest.param("not " * 3000 + "a", id="not"),
        pytest.param("2" + "**2" * 3000, id="powers"),
        pytest.param("+".join("a" * 5000), id="sum"),
        pytest.param("f(" * 3000 + ")" * 3000, id="calls"),
        pytest.param("a if b else " * 1000 + "c", id="conditions"),
        pytest.param("A[" * 3000, id="subscripts"),
        pytest.param(",".join(["a"] * 6000).join(["f(", ")"]), id="arguments"),
        pytest.param("a" * (MAX_CHARACTERS + 1), id="name"),
    ],
)
def test_length_depth_and_size_are_bounded(source: str) -> None:
    node, diagnostics = parse(source)
    assert node is None
    assert [d.code for d in diagnostics] == ["CG1106"]


def test_ninety_levels_are_not_too_deep() -> None:
    assert parse("f(" * 90 + "a" + ")" * 90)[0] is not None
    assert parse("+".join("a" * 90))[0] is not None


def test_a_block_has_one_statement_a_line_and_brackets_continue_it() -> None:
    statements, diagnostics = block("# first\nC[m, n] = sum(A[m, k]  # left\n  * B[k, n],\n  k)\n\n y += 1\n")
    assert not diagnostics
    assert [(s.text, s.accumulate, s.span.line) for s in statements] == [
        ("C[m, n] = sum(A[m, k] * B[k, n], k)", False, 2),
        ("y += 1", True, 6),
    ]


@pytest.mark.parametrize("bad", ["z[ = 3", "z = (1 +", "z = 1 +", "z", "f(x) = 1", "z = a b", "1 = 2", "z = `"])
def test_a_bad_line_hides_neither_statements_nor_errors_of_others(bad: str) -> None:
    statements, diagnostics = block(f"a[i] = 1\n{bad}\nb[i] = 2\nc[i] = 3 +\nd[i] = 4")
    assert [s.text for s in statements] == ["a[i] = 1", "b[i] = 2", "d[i] = 4"]
    assert [d.span.line for d in diagnostics] == [2, 4]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="empty"),
        pytest.param("\n\n", id="line breaks"),
        pytest.param("# only a comment", id="comment"),
    ],
)
def test_an_empty_block_is_rejected(source: str) -> None:
    assert [d.code for d in block(source)[1]] == ["CG1105"]
