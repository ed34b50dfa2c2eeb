"""Every code of `cugen check` has a page, whose first spec shows it and whose second one cures it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import cugen
from cugen.analysis.limits.codes import CODES, REFUTED_PIPELINE, SPILLS
from cugen.cli.main import main
from cugen.toolchain.cuda import compilers

PACKAGE = Path(cugen.__file__).parent


def found_by_check(text: str, folder: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> list[str]:
    """The codes of all findings, each once."""
    path = folder / "shown.yaml"
    path.write_text(text)
    main(["check", "--format", "json", *options, str(path)])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return sorted({actual["code"] for kernel in answer["kernels"] for actual in kernel["findings"]})


@pytest.mark.sampled(17)
@pytest.mark.parametrize("code", [code for code in CODES if code != REFUTED_PIPELINE])
def test_a_page_shows_its_finding_and_the_cure(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if code == SPILLS and not compilers():
        pytest.skip("spills are known to a CUDA compiler only")
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "builds"))
    page = (PACKAGE / "explain" / f"{code}.md").read_text()
    assert page.startswith(f"# {code}: {CODES[code]}\n\n")
    bad, good = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    options = [word for option in re.findall(r"`(--set \w+=\d+)`", page) for word in option.split()]
    assert found_by_check(bad, tmp_path, capsys, options) == [code]
    assert found_by_check(good, tmp_path, capsys, options) == []


def test_the_page_of_what_no_spec_shows_has_its_title() -> None:
    page = (PACKAGE / "explain" / f"{REFUTED_PIPELINE}.md").read_text()
    assert page.startswith(f"# {REFUTED_PIPELINE}: {CODES[REFUTED_PIPELINE]}\n\n")


def test_the_codes_of_this_package_are_only_in_its_table() -> None:
    elsewhere = [
        file.name
        for file in (PACKAGE / "analysis").rglob("*.py")
        if file.name != "codes.py" and re.search(r'"CG\d{4}"', file.read_text())
    ]
    assert elsewhere == []
