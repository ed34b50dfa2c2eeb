"""What the page on editors has people paste works with what cugen prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cugen.emit.resources import SCHEMA

PAGE = (Path(__file__).parents[2] / "docs" / "editors.md").read_text()


def settings() -> list[Any]:
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


@pytest.fixture
def matcher() -> dict[str, Any]:
    (task,) = settings()[0]["tasks"]
    assert task["args"][:3] == ["generate", "--watch", "--gnu"]
    matcher: dict[str, Any] = task["problemMatcher"]
    return matcher


def test_the_pattern_finds_the_place_and_the_message_of_an_error(cli: Any, spec: Path, matcher: dict[str, Any]) -> None:
    spec.write_text(spec.read_text().replace("2 * x[i]", "2 * z[i]"))
    answer = cli("generate", "--gnu", "-o", spec.parent, spec)
    pattern = matcher["pattern"]
    (found,) = re.findall(pattern["regexp"], answer.err, re.MULTILINE)
    keys = ("file", "line", "column", "severity", "message")
    values = [found[pattern[key] - 1] for key in keys]
    assert values == [str(spec), "8", "21", "error", "there is no array `z` [CG1201]"]


def test_the_task_knows_when_watching_begins_and_ends_a_round(matcher: dict[str, Any]) -> None:
    source = (Path(__file__).parents[2] / "cugen" / "cli" / "commands" / "generate.py").read_text()
    notes = re.findall(r'note\("([a-zA-Z ,-]+)"', source)
    for key in ("beginsPattern", "endsPattern"):
        assert any(re.search(matcher["background"][key], said) for said in notes)


def test_the_schema_underlines_what_the_page_says(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cli("new", "smooth")
    text = (tmp_path / "smooth.yaml").read_text()
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA.as_uri()}\n")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    assert list(validator.iter_errors(yaml.safe_load(text))) == []
    for right, wrong in (("dtype: float32", "dtyp: float32"), ("shape: [M, N]", "shape: 7"), ("compute:", "doc2:")):
        assert right in text
        assert wrong.partition(":")[0] in PAGE or wrong == "doc2:"
        assert list(validator.iter_errors(yaml.safe_load(text.replace(right, wrong))))
