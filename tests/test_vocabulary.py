"""The words of the project are those of its field: `data/vocabulary.yaml` lists the ones that are not."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
VOCABULARY: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "data" / "vocabulary.yaml").read_text())
TEXTS = {".py", ".j2", ".md", ".cu", ".h", ".hpp", ".cpp", ".yaml", ".txt", ".toml", ".cmake", ".json"}
# Strings, comments and numbers are passed over.
NAME = re.compile(
    r"""[rbfu]{0,2}(?:\"{3}(?:\\[\s\S]|[^\\])*?\"{3}|"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*')|\#.*|\d\w*|([^\W\d]\w*)""",
    re.IGNORECASE,
)
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


@cache
def files() -> tuple[Path, ...]:
    """Every text of the project but the exempt ones; those of a checkout's build folders aren't of the project."""
    folders = ("cugen", "templates", "specs", "tests", "generated", "docs", "benchmarks", "examples")
    paths = [ROOT / "README.md", *(path for folder in folders for path in sorted((ROOT / folder).rglob("*")))]
    texts = [path for path in paths if path.suffix in TEXTS and path.is_file()]
    return tuple(path for path in texts if not name_of(path).startswith(tuple(VOCABULARY["exempt"])))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def prose(path: Path) -> str:
    """A text, in which the names of tests are sentences."""
    text = path.read_text(errors="replace")
    return re.sub(r"^.*def test_.*$", lambda line: line[0].replace("_", " "), text, flags=re.MULTILINE)


@cache
def has_a_phrase() -> bool:
    """Whether any text has any of the phrases. All at once take less time than each, and a text in lower case less than
    one in any case."""
    expression = re.compile("|".join(f"(?:{pattern})" for pattern in VOCABULARY["phrases"]), re.MULTILINE)
    return any(expression.search(prose(path).lower()) for path in files())


@cache
def identifiers() -> dict[str, Counter[str]]:
    """How often each Python file has each name."""
    texts = {name_of(path): path.read_text() for path in files() if path.suffix == ".py"}
    return {name: Counter(filter(None, NAME.findall(text))) for name, text in texts.items()}


def parts(identifier: str) -> list[str]:
    """The words of an identifier: `warpTile_m0` is warp, tile, m0."""
    return [part.lower() for part in PART.findall(identifier)]


@cache
def banned(identifier: str) -> bool:
    """Whether an identifier has a replaced word. A test's name is a sentence: of it the phrases are looked at."""
    if identifier in VOCABULARY["allowed"] or identifier.startswith("test_"):
        return False
    bare = identifier.strip("_").lower()
    return bare in VOCABULARY["whole_identifiers"] or any(p in VOCABULARY["identifiers"] for p in parts(identifier))


@pytest.mark.parametrize(("pattern", "better"), VOCABULARY["phrases"].items(), ids=lambda text: text[:30])
def test_no_text_has_a_phrase_of_a_private_dialect(pattern: str, better: str) -> None:
    expression = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    uses = [
        f"{name_of(path)}:{number}: {line.strip()[:100]}"
        for path in (files() if has_a_phrase() else ())
        if expression.search(prose(path))
        for number, line in enumerate(prose(path).splitlines(), 1)
        if expression.search(line)
    ]
    assert uses == [], f"say {better}"


def test_no_identifier_is_a_word_that_the_glossary_replaces() -> None:
    uses = {name: sorted(word for word in counts if banned(word)) for name, counts in identifiers().items()}
    assert {name: words for name, words in uses.items() if words} == {}


def test_few_variables_are_called_found() -> None:
    assert sum(counts["found"] for counts in identifiers().values()) < VOCABULARY["found"]


def test_the_terms_of_a_gemm_name_its_parts() -> None:
    folder = ROOT / "cugen" / "families" / "gemm"
    text = "\n".join(path.read_text() for path in sorted(folder.rglob("*.py"))).lower()
    terms = ("prologue", "main loop", "epilogue", "accumulator", "fragment", "split-k", "stream-k", "double buffer")
    assert [term for term in terms if term not in text] == []
    names = {
        part
        for name, counts in identifiers().items()
        if "families/gemm" in name
        for word in counts
        for part in parts(word)
    }
    assert {"prologue", "epilogue", "fragments"} <= names


def test_strings_and_comments_have_no_identifiers() -> None:
    text = """a = rb"b" + f'{c}'  # d\n"\\"e" + '"' + 1e9 + 1_0.5e0 * f\n"""
    assert [name for name in NAME.findall(text) if name] == ["a", "f"]


def test_an_identifier_is_taken_apart_at_underscores_and_humps() -> None:
    assert parts("warpTile_m0") == ["warp", "tile", "m0"]
    assert parts("_MAX_BYTES") == ["max", "bytes"]
    assert banned("row_teams")
    assert banned("WarpTeam")
    assert banned("_MOST")
    assert not banned("in_place")
    assert not banned("replace")


def test_every_line_of_the_list_is_a_working_expression_of_lower_case() -> None:
    for pattern in VOCABULARY["phrases"]:
        assert re.compile(pattern)
        assert pattern == pattern.lower()
