"""The page of what cugen itself takes is that of its figures."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks import benchmark

ROOT = Path(__file__).parents[2]


def test_the_page_is_current_with_its_figures() -> None:
    results = json.loads((ROOT / "docs" / "results" / "generator.json").read_text())
    assert benchmark("generator.generator").page(results) == (ROOT / "docs" / "results" / "generator.md").read_text()
    assert {"nothing to do for 1000 specs", "one of 1000 specs changed"} <= {f["what"] for f in results["figures"]}
