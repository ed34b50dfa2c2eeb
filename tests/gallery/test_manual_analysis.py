"""The manual of the analysis names tests that exist, and verdicts that the analysis gives."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "analysis.md").read_text()
FOLDERS = ("machine", "analysis", "compiled")
TESTS = "\n".join(path.read_text() for name in FOLDERS for path in sorted((ROOT / "tests" / name).rglob("test_*.py")))


def test_every_claim_of_the_literature_is_held_by_a_test_that_exists() -> None:
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(named) >= 13
    assert [name for name in named if f"def {name}(" not in TESTS] == []


def test_the_verdicts_are_those_of_the_analysis() -> None:
    table = re.findall(r"^\| `(\w+)` \|", PAGE.split("### Verdicts")[1].split("###")[0], re.MULTILINE)
    source = (ROOT / "cugen" / "analysis" / "verdicts" / "report.py").read_text()
    assert table == ["ideal", "costly", "assumed", "unknown"]
    assert all(f'"{verdict}"' in source for verdict in table)


def test_the_example_is_what_inspect_prints() -> None:
    import cugen
    from cugen.cli.resources import Resources
    from cugen.cli.text.analysis import analysis_text

    spec = cugen.load(ROOT / "specs" / "matmul_register_tiles.yaml")
    shown = PAGE.split("```")[1].strip("\n")
    assert shown in analysis_text(cugen.analyze(spec), Resources({}))


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:cugen|tests)/[\w/.]+\.\w+)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
