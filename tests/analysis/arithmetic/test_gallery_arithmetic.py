"""The gallery has no arithmetic that wraps, or that is in float64 unasked: a finding would be a false alarm."""

from __future__ import annotations

from pathlib import Path

from cugen.analysis.limits.arithmetic_limits import arithmetic_findings
from cugen.spec.load import load_all

SPECS = sorted((Path(__file__).parents[3] / "specs").glob("*.yaml"))


def test_the_arithmetic_of_the_gallery_has_no_findings() -> None:
    specs = [spec for path in SPECS for spec in load_all(path)]
    assert len(specs) > 90
    assert [finding.diagnostic.message for spec in specs for finding in arithmetic_findings(spec, spec.file)] == []
