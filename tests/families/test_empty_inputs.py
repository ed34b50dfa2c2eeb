"""An input without elements is read as 0 where its boundary folds subscripts, by each family that reads it."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text

FOLDS = ("clamp", "wrap", "reflect", "symmetric")
ADJACENT = "y[i] = u[i - 1] + u[i + 1]"
PLANES = "y[i] = sum(u[i - 1, j] + u[i + 1, j - 1], j)"


def adjacent(boundary: str, family: str) -> str:
    """Outputs that say nothing of the input's extent."""
    return f"""\
params: {{N: 40, W: dynamic}}
arrays:
  u: {{shape: [W], dtype: float32, boundary: {boundary}}}
  y: {{shape: [N], dtype: float32}}
compute: {ADJACENT}
schedule: {{family: {family}}}
"""


def tiled(boundary: str) -> str:
    """A tile in shared memory, which a block fills before the loop that has no iteration."""
    return f"""\
params: {{H: 3, W: {{range: [0, 13]}}}}
arrays:
  u: {{shape: [H, W], dtype: float32, boundary: {boundary}, memory: shared}}
  y: {{shape: [H], dtype: float32}}
compute: {PLANES}
"""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("width", [0, 1, 7])
@pytest.mark.parametrize("family", ["direct", "map", "stencil"])
@pytest.mark.parametrize("boundary", FOLDS)
def test_adjacent_elements(prove, boundary, family, width):
    prove(adjacent(boundary, family), {"W": width}, sanitize=True)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("width", [0, 7])
@pytest.mark.parametrize("boundary", FOLDS)
def test_tiles(prove, boundary, width):
    prove(tiled(boundary), {"W": width}, sanitize=True)


@pytest.mark.covering
@pytest.mark.parametrize("family", ["direct", "map", "stencil"])
@pytest.mark.parametrize("boundary", FOLDS)
def test_all_accesses_are_proved_in_bounds(boundary, family):
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{adjacent(boundary, family)}")
    assert {claim.verdict for claim in generate(spec).bounds} == {"proved"}
