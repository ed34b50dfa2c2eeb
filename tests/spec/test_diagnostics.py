"""Diagnostics as text."""

from __future__ import annotations

import pytest

from cugen.spec.diagnostics import MAX_QUOTED_CHARACTERS, Diagnostic, Related, Reporter, SpecError
from cugen.spec.expressions import NOWHERE, Span


def rendered(text: str, span: Span) -> list[str]:
    report = Reporter("spec.yaml", text)
    report.error("CG1000", "it is wrong", span, key="a.b", label="here", notes=("first",), help="mend it")
    return report.diagnostics[0].render().splitlines()


def test_a_diagnostic_quotes_its_line_and_underlines_the_span() -> None:
    assert rendered("a: 1\n\tb: two\n", Span(2, 5, 2, 8)) == [
        "error[CG1000]: it is wrong",
        " --> spec.yaml:2:5",
        "  |",
        "2 |  b: two",
        "  |     ^^^ here",
        "  = key: a.b",
        "  = note: first",
        "  = help: mend it",
        "  = explain: cugen explain CG1000",
    ]


def test_a_span_over_several_lines_is_underlined_to_the_end_of_the_first() -> None:
    assert rendered("a: [1,\n  2]\n", Span(1, 4, 2, 4))[4] == "  |    ^^^ here"


def test_a_diagnostic_without_a_span_quotes_nothing() -> None:
    assert rendered("a: 1\n", NOWHERE)[1:3] == [" --> spec.yaml", "  = key: a.b"]


@pytest.mark.parametrize("column", [1, 100, 5_000, 9_999])
def test_of_a_long_line_the_part_around_the_span_is_quoted(column: int) -> None:
    text = "." * (column - 1) + "x" + "." * (10_000 - column)
    lines = rendered(text, Span(1, column, 1, column + 1))
    assert len(lines[3]) <= MAX_QUOTED_CHARACTERS + 4
    assert lines[3][lines[4].index("^")] == "x"


def test_the_error_holds_all_diagnostics_in_the_order_of_their_spans() -> None:
    report = Reporter("spec.yaml", "a\nb\n")
    report.raise_if_failed()
    for line in (2, 1, 2):
        report.error("CG1000", "it is wrong", Span(line, 1, line, 2))
    with pytest.raises(SpecError) as caught:
        report.raise_if_failed()
    assert [d.span.line for d in caught.value.diagnostics] == [1, 2]
    assert str(caught.value).count("error[CG1000]") == 2


def test_related_spans_are_quoted_below_the_diagnostic_s_own() -> None:
    related = Related("scale.cu", Span(120, 5, 120, 9), "there", "    y[i] = 2;")
    diagnostic = Diagnostic(
        "CG1000", "it is slow", "a.yaml", Span(7, 1, 7, 2), "", "here", (), "", "y", "warning", (related,)
    )
    assert diagnostic.render().splitlines() == [
        "warning[CG1000]: it is slow",
        "   --> a.yaml:7:1",
        "    |",
        "  7 | y",
        "    | ^ here",
        "   ::: scale.cu:120:5",
        "    |",
        "120 |     y[i] = 2;",
        "    |     ^^^^ there",
        "    = explain: cugen explain CG1000",
    ]
