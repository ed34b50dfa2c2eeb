"""The page of what cugen itself takes is that of its figures."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_is_current_with_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("generator", ROOT / "benchmarks" / "generator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generator", module)  # dataclasses look there
    spec.loader.exec_module(module)
    results = json.loads((ROOT / "docs" / "results" / "generator.json").read_text())
    assert module.page(results) == (ROOT / "docs" / "results" / "generator.md").read_text()
    assert {"nothing to do for 1000 specs", "one of 1000 specs changed"} <= {f["what"] for f in results["figures"]}
