"""Every code of the document layer has a page, whose first spec shows it and whose second one fixes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cugen
from cugen.spec.codes import CODES
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

FOLDER = Path(cugen.__file__).parent / "explain"
# Diagnostics about a call or a file's bytes: no text of a spec can show them.
CALLS = ("CG1001", "CG1002", "CG1022", "CG1023", "CG1050", "CG1051")


def blocks(code: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (FOLDER / f"{code}.md").read_text(), re.DOTALL)


def codes_of(text: str, folder: Path) -> list[str]:
    try:
        load_text(text, folder=folder)
    except SpecError as error:
        return sorted({d.code for d in error.diagnostics})
    return []


@pytest.mark.parametrize("code", [code for code in CODES if code not in CALLS])
def test_the_first_spec_of_a_page_shows_the_diagnostic(code: str, tmp_path: Path) -> None:
    assert codes_of(blocks(code)[0], tmp_path) == [code]


@pytest.mark.parametrize("code", [code for code in CODES if code not in CALLS])
def test_the_second_spec_of_a_page_is_accepted(code: str, tmp_path: Path) -> None:
    assert codes_of(blocks(code)[1], tmp_path) == []


@pytest.mark.parametrize("code", CODES)
def test_a_page_is_headed_by_its_code_and_title(code: str) -> None:
    assert (FOLDER / f"{code}.md").read_text().startswith(f"# {code}: {CODES[code]}\n\n")


def test_each_code_that_the_layer_reports_has_a_title() -> None:
    spec = Path(cugen.__file__).parent / "spec"
    reported = {
        code
        for file in spec.rglob("*.py")
        for code in re.findall(r'"(CG(?:10|20|30)\d\d)"', file.read_text())
        if file.name != "codes.py"
    }
    assert reported == set(CODES)


def test_pages_and_titles_agree() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md") if re.fullmatch(r"CG(10|20)\d\d|CG30[01]\d", path.stem)}
    assert pages == set(CODES)
