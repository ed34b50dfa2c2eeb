"""The figures of the course are those that its commands print, and the answers of its exercises are right.

tests/docs/test_commands.py compares the blocks of a page with what its commands print, so a number of the prose that is
in a block is produced by a test. tests/data/course_figures.yaml has the others, each as an expression over numbers of
the page. What it quotes of the texts is in the first column of the last table.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sympy
import yaml

from cugen.cli.main import main
from cugen.toolchain import nvcc, nvrtc
from tests.docs.pages import ROOT, Block, blocks, blocks_of, without_blocks
from tests.docs.test_commands import Folder

FOLDER = ROOT / "docs" / "course"
INDEX = (FOLDER / "README.md").read_text()
PAGES = [FOLDER / name for name in re.findall(r"^\| \[.*?\]\(([\w-]+\.md)\)", INDEX, re.MULTILINE)]
FIGURES: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "data" / "course_figures.yaml").read_text())
SECTIONS = ["The spec", "What cugen says", "Exercise", "Answer", "The figures of the texts"]
NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?")
ALL_PAGES = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def sections(page: Path) -> dict[str, str]:
    """The text of each section of a page, by title."""
    return {part.partition("\n")[0]: part for part in page.read_text().split("\n## ")[1:]}


def numbers(text: str) -> set[Decimal]:
    return {Decimal(number.replace(",", "")) for number in NUMBER.findall(text)}


def prose(page: Path) -> str:
    """A page without its blocks, the targets of links, and what it quotes of the texts."""
    text = re.sub(r"\]\([^)]*\)", "]", without_blocks(page.read_text()))
    text, title, wrong = text.partition(f"\n## {SECTIONS[-1]}")
    return text + title + re.sub(r"^\|[^|]*\|", "|", wrong, flags=re.MULTILINE)


def quotes(page: Path) -> str:
    """The first column of a page's last table."""
    return "".join(re.findall(r"^\|([^|]*)\|", sections(page)[SECTIONS[-1]], re.MULTILINE))


def specs_of(text: str) -> list[Block]:
    return [block for block in blocks_of(text) if block.is_spec]


def question(page: Path) -> Block:
    """The last spec with limits before the answer."""
    before = specs_of(page.read_text().partition("\n## Answer")[0])
    return [block for block in before if "\ncheck:" in block.text][-1]


def answer(page: Path) -> Block:
    """The first spec of the answer."""
    return specs_of(sections(page)["Answer"])[0]


def check(block: Block, folder: Path) -> int:
    path = folder / block.file
    path.write_text(block.text)
    return main(["check", str(path)])


def test_the_course_has_a_page_for_each_technique() -> None:
    assert len(PAGES) == len(set(PAGES)) == 14
    assert {*PAGES, FOLDER / "README.md"} == set(FOLDER.iterdir())


@ALL_PAGES
def test_a_page_has_a_spec_an_exercise_and_an_answer(page: Path) -> None:
    assert list(sections(page)) == SECTIONS
    assert question(page).file != answer(page).file
    assert "check" in yaml.safe_load(answer(page).text)


@ALL_PAGES
def test_a_page_says_as_which_file_a_spec_is_saved(page: Path) -> None:
    text = page.read_text()
    for block in blocks(page):
        if block.language == "yaml":
            assert f"`{block.file}`" in without_blocks(text.partition(block.text)[0])


@ALL_PAGES
def test_a_page_asks_for_a_gpu_of_the_texts_and_for_one_of_today(page: Path) -> None:
    targets = set(re.findall(r"\bsm_\d+\b", "".join(block.text for block in blocks(page))))
    assert targets & {"sm_10", "sm_13", "sm_20", "sm_30"}
    assert "sm_90" in targets


@ALL_PAGES
def test_every_figure_of_the_prose_is_in_a_block_or_follows_from_those_that_are(page: Path) -> None:
    known = numbers("".join(block.text for block in blocks(page))) | {Decimal(n) for n in FIGURES["constants"].values()}
    for figure, expression in FIGURES["pages"].get(page.name, {}).items():
        assert numbers(expression) <= known | numbers(quotes(page)), f"{figure}: {expression}"
        value = Decimal(str(sympy.N(sympy.sympify(expression), 30)))
        rounded = Decimal(str(figure))
        assert value.quantize(rounded) == rounded, f"{figure}: {expression} is {value}"
        known.add(rounded)
    assert sorted(numbers(prose(page)) - known) == []


@ALL_PAGES
def test_every_listed_figure_is_on_its_page(page: Path) -> None:
    listed = {Decimal(str(figure)) for figure in FIGURES["pages"].get(page.name, {})}
    assert sorted(listed - numbers(prose(page))) == []


@ALL_PAGES
@pytest.mark.sampled(7)
@pytest.mark.whole
def test_the_answer_of_an_exercise_keeps_its_limits_and_the_question_does_not(page: Path, tmp_path: Path) -> None:
    assert check(question(page), tmp_path) in (1, 2)
    assert check(answer(page), tmp_path) == 0


@ALL_PAGES
@pytest.mark.sampled(7)
@pytest.mark.whole
def test_a_page_can_be_followed_without_a_cuda_compiler(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for compiler in (nvcc, nvrtc):
        monkeypatch.setattr(compiler, "find", lambda: None)
    folder = Folder(tmp_path)
    for block in blocks(page):
        folder.follow(page, block)
