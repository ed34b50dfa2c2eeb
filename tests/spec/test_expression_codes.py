"""Every code of the expression language has a page, whose first spec shows it and whose second one fixes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import cugen
from cugen.spec.codes_expressions import CODES
from cugen.spec.diagnostics import Diagnostic

FOLDER = Path(cugen.__file__).parent / "explain"
Diagnose = Callable[[str], tuple[Diagnostic, ...]]


def blocks(code: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (FOLDER / f"{code}.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("code", CODES)
def test_the_first_spec_of_an_expression_page_shows_the_diagnostic_and_help(code: str, diagnose: Diagnose) -> None:
    diagnostics = diagnose(blocks(code)[0])
    assert {d.code for d in diagnostics} == {code}
    assert all(d.help and d.label and d.span.line for d in diagnostics)


@pytest.mark.parametrize("code", CODES)
def test_the_second_spec_of_an_expression_page_is_accepted(code: str, diagnose: Diagnose) -> None:
    assert [d.message for d in diagnose(blocks(code)[1])] == []


@pytest.mark.parametrize("code", CODES)
def test_an_expression_page_is_headed_by_its_code_and_title(code: str) -> None:
    assert (FOLDER / f"{code}.md").read_text().startswith(f"# {code}: {CODES[code]}\n\n")


def test_each_code_that_expressions_report_has_a_title_and_a_page() -> None:
    spec = Path(cugen.__file__).parent / "spec"
    sources = [file.read_text() for file in spec.rglob("*.py") if file.name != "codes_expressions.py"]
    reported = {code for source in sources for code in re.findall(r'"(CG1[123]\d\d)"', source)}
    pages = {path.stem for path in FOLDER.glob("CG1[123]??.md")}
    assert reported == set(CODES) == pages
