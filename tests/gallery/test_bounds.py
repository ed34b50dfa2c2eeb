"""The accesses of the gallery that aren't proved to be in bounds."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel

_UNKNOWN = {"gather": ["table"]}


@pytest.mark.whole
@pytest.mark.sampled(42)
def test_few_accesses_are_unknown_to_be_in_bounds(kernel: Kernel, gallery_name: str) -> None:
    unknown = [claim.access.array.name for claim in kernel.bounds if claim.verdict == "unknown"]
    assert unknown == _UNKNOWN.get(gallery_name, [])
    assert len(kernel.bounds) == len(kernel.line_of_access())
