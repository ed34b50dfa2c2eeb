"""YAML 1.2 nodes: resolution of scalars, positions of their characters, and parse errors."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.spec.diagnostics import Diagnostic, Reporter
from cugen.spec.parse.nodes import MAX_BYTES, YamlMapping, YamlNode, YamlScalar, YamlSequence, decode, parse, printable


def read(text: str) -> tuple[list[YamlNode], list[Diagnostic]]:
    report = Reporter("spec.yaml", printable(text))
    return parse(text, report), report.diagnostics


def value_of(text: str) -> object:
    (node,), diagnostics = read(f"key: {text}\n")
    assert not diagnostics
    assert isinstance(node, YamlMapping)
    scalar = node.entries[0].value
    assert isinstance(scalar, YamlScalar)
    return scalar.value


def scalars(node: YamlNode) -> list[YamlScalar]:
    match node:
        case YamlMapping():
            return [s for e in node.entries for s in (e.key, *scalars(e.value))]
        case YamlSequence():
            return [s for item in node.items for s in scalars(item)]
    return [node]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16:16", "16:16"),
        ("no", "no"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("2001-12-14", "2001-12-14"),
        ("010", 10),
        ("0x10", 16),
        ("0o10", 8),
        ("0b11", "0b11"),
        ("-7", -7),
        ("+7", 7),
        ("1e-3", 0.001),
        ("1.", 1.0),
        (".5", 0.5),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("-inf", "-inf"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("'10'", "10"),
        ('"true"', "true"),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    actual = value_of(text)
    assert actual == value
    assert type(actual) is type(value)


def test_nan_is_a_float() -> None:
    value = value_of(".nan")
    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_number_of_ten_thousand_digits_stays_text() -> None:
    assert value_of("9" * 10_000) == "9" * 10_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("compute: y[i] = x[i] + abc\n", id="plain"),
        pytest.param("compute: |\n  first = 1\n  y[i] = x[i] + abc\n", id="block"),
        pytest.param(
            "compute: |2-   # a comment on the header\n    y[i] = x[i]\n      + abc\n",
            id="block with indentation and comment",
        ),
        pytest.param("compute: >\n  y[i] =\n  x[i] + abc\n", id="folded"),
        pytest.param("compute: y[i] =\n  x[i] +\n    abc\n", id="plain on three lines"),
        pytest.param("compute: 'y[i] = ''q'' + abc'\n", id="single quotes"),
        pytest.param('compute: "y[i] = \\"q\\" +\\tabc"\n', id="double quotes"),
        pytest.param('compute: "y[i] = \\\n   x \\x41 + abc"\n', id="escaped line break"),
        pytest.param("compute: [1, {x: y + abc}]\n", id="flow"),
        pytest.param("compute:\r\n- |\r\n  y = 1\r\n  z = abc\r\n", id="crlf"),
    ],
)
def test_a_character_of_any_scalar_style_knows_its_line_and_column(text: str) -> None:
    (node,), diagnostics = read(text)
    assert not diagnostics
    scalar = scalars(node)[-1].text
    start = scalar.value.index("abc")
    span = scalar.span(start, start + 3)
    lines = text.splitlines()
    assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == "abc"
    assert len(scalar.positions) == len(scalar.value) + 1


@given(
    st.lists(st.text("abc xyz'\"\\#:,[]{}=+*-\t", max_size=12), min_size=1, max_size=5),
    st.sampled_from(["|", "|-", ">", '"', "'", ""]),
)
def test_visible_characters_of_a_value_are_found_at_their_positions(lines: list[str], style: str) -> None:
    body = "\n  ".join(lines)
    text = f"key: {style}\n  {body}\n" if style[:1] in ("|", ">") else f"key: {style}{body}{style}\n"
    nodes, _ = read(text)
    source = text.split("\n")
    for node in nodes:
        for scalar in scalars(node):
            piece = scalar.text
            assert piece.value == scalar.string
            assert list(piece.positions) == sorted(piece.positions)
            for character, (line, column) in zip(piece.value, piece.positions, strict=False):
                if character not in " \t\n":
                    assert source[line - 1][column - 1] in (character, "\\")


def test_a_second_key_of_one_name_is_found_with_the_line_of_the_first() -> None:
    _, diagnostics = read("a: 1\nb: 2\na: 3\n")
    assert [(d.code, d.span.line, d.notes) for d in diagnostics] == [("CG1006", 3, ("first given in line 1",))]


def test_an_anchor_may_be_repeated() -> None:
    (node,), diagnostics = read("a: &m {x: 1}\nb: *m\n")
    assert not diagnostics
    assert isinstance(node, YamlMapping)
    assert node.entries[0].value == node.entries[1].value


def test_a_merge_key_is_rejected_and_merged_all_the_same_so_that_nothing_is_missing() -> None:
    (node,), diagnostics = read("a: &m {x: 1}\nc: {<<: *m, y: 2}\n")
    assert [(d.code, d.span.column) for d in diagnostics] == [("CG1009", 5)]
    assert isinstance(node, YamlMapping)
    assert [s.string for s in scalars(node.entries[1].value)] == ["x", "1", "y", "2"]


def test_aliases_that_multiply_are_rejected() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    _, diagnostics = read("\n".join(lines))
    assert [d.code for d in diagnostics] == ["CG1004"]


def test_an_alias_inside_its_own_anchor_is_rejected() -> None:
    _, diagnostics = read("a: &a [*a]\n")
    assert [d.code for d in diagnostics] == ["CG1008"]


def test_an_anchor_ends_with_its_document() -> None:
    _, diagnostics = read("a: &a 1\n---\nb: *a\n")
    assert [(d.code, d.span.line) for d in diagnostics] == [("CG1008", 3)]


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!binary", "!mine", "!!str"])
def test_tags_are_rejected(tag: str) -> None:
    _, diagnostics = read(f"a: {tag} x\n")
    assert [d.code for d in diagnostics] == ["CG1007"]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", ""), ("[", "")])
def test_deep_nesting_is_rejected_before_it_costs_anything(opening: str, closing: str) -> None:
    _, diagnostics = read(opening * 50_000 + closing * 50_000)
    assert [d.code for d in diagnostics] == ["CG1004"]


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ud800", "\ufffe"])
def test_control_and_reordering_characters_are_rejected(character: str) -> None:
    _, diagnostics = read(f"a: 1\nb: x{character}y\n")
    assert [(d.code, d.span.line, d.span.column) for d in diagnostics] == [("CG1003", 2, 5)]
    assert character not in diagnostics[0].render()


@pytest.mark.parametrize("escape", ["\\0", "\\a", "\\e", "\\x07", "\\u202e", "\\ud800"])
def test_escapes_cannot_introduce_control_characters(escape: str) -> None:
    _, diagnostics = read(f'a: "{escape}"\n')
    assert [d.code for d in diagnostics] == ["CG1003"]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: [1, 2\nb: 3\n", 2, 2),
        ("a: 1\n\tb: 2\n", 2, 1),
        ("a: b: c\n", 1, 5),
        ("a: 'open\n", 1, 4),
        ("a: [1,\n", 1, 6),
        ("a: 1\nb:2\nc: 3\n", 2, 1),
        ("a: @x\n", 1, 4),
        ('a: "\\q"\n', 1, 6),
    ],
)
def test_a_syntax_error_has_its_line_and_column(text: str, line: int, column: int) -> None:
    _, diagnostics = read(text)
    assert [(d.code, d.span.line, d.span.column) for d in diagnostics] == [("CG1005", line, column)]
    assert diagnostics[0].help


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('a: "\\UFFFFFFFF"\n', id="escape beyond Unicode"),
        pytest.param("%YAML 2.0\n---\na: 1\n", id="YAML 2.0"),
        pytest.param(f"%YAML 1.{'9' * 5000}\n---\na: 1\n", id="version of 5000 digits"),
    ],
)
def test_what_makes_pyyaml_raise_is_a_syntax_error(text: str) -> None:
    _, diagnostics = read(text)
    assert [d.code for d in diagnostics] == ["CG1005"]


def test_a_byte_order_mark_is_skipped_and_other_encodings_are_rejected() -> None:
    report = Reporter("spec.yaml")
    assert decode(b"\xef\xbb\xbfa: 1\n", report) == "a: 1\n"
    assert not report.failed
    assert decode("a: ä\n".encode("latin-1"), report) is None
    assert decode("a: 1\n".encode("utf-16"), report) is None
    assert [(d.code, d.span.line, d.span.column) for d in report.diagnostics] == [("CG1002", 1, 4), ("CG1002", 1, 1)]


def test_a_file_of_more_than_a_megabyte_is_rejected() -> None:
    report = Reporter("spec.yaml")
    assert decode(b"#" * (MAX_BYTES + 1), report) is None
    assert parse("#" * (MAX_BYTES + 1), report) == []
    assert {d.code for d in report.diagnostics} == {"CG1004"}


@given(st.text(max_size=60))
def test_any_text_gives_nodes_or_diagnostics(text: str) -> None:
    nodes, _ = read(text)
    for node in nodes:
        for scalar in scalars(node):
            assert len(scalar.text.positions) == len(scalar.string) + 1


@given(st.text("a1 :-[]{}'\"|>&*!%#\n\\?,~@`\t", max_size=40))
def test_any_text_of_yaml_marks_gives_nodes_or_diagnostics(text: str) -> None:
    nodes, _ = read(text)
    for node in nodes:
        for scalar in scalars(node):
            assert len(scalar.text.positions) == len(scalar.string) + 1
