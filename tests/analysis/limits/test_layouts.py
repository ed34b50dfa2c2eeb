"""A layout that is proposed was planned, and moves the sectors that the proposal says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.limits.fixes import state_of
from cugen.analysis.limits.layouts import MAX_SHARE, LayoutProposal, propose_layouts
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text


def points(fields: int = 3, more: str = "", dtype: str = "float32", size: int | str = 60000) -> str:
    total = " + ".join(f"point[i, {field}]" for field in range(fields))
    return (
        f"cugen: 1\nkernel: points\nparams: {{N: {size}}}\narrays:\n"
        f"  point: {{shape: [N, {fields}], dtype: {dtype}{more}}}\n  y: {{shape: [N], dtype: {dtype}}}\n"
        f"compute: y[i] = {total}\n"
    )


IMAGE = """\
cugen: 1
kernel: image
params: {H: 128, W: 96}
arrays:
  rgb: {shape: [H, W, 3], dtype: float32}
  y: {shape: [H, W], dtype: float32}
compute: y[h, w] = rgb[h, w, 0]
"""


def unaligned_rows(columns: int) -> str:
    return (
        f"cugen: 1\nkernel: rows\nparams: {{M: 4096, N: {columns}}}\narrays:\n  x: {{shape: [M, N], dtype: float32}}\n"
        "  y: {shape: [M, N], dtype: float32, pitch: {align: 128}}\ncompute: y[m, n] = x[m, n] * n\n"
    )


def proposals(text: str) -> tuple[LayoutProposal, ...]:
    return propose_layouts(load_text(text), make_plan, {})


def sectors(text: str) -> int:
    return state_of(load_text(text), make_plan, {}).sectors


def with_change(text: str, proposal: LayoutProposal) -> str:
    return re.sub(rf"({proposal.array}: {{.*)}}", lambda match: f"{match[1]}, {proposal.change}}}", text, count=1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "change"),
    [
        (points(3), "layout: column"),
        (points(8), "layout: column"),
        (IMAGE, "layout: {strides: [W, 1, H * W]}"),
        (unaligned_rows(129), "pitch: {align: 128}"),
        # A block is as wide as the 9 vectors of an aligned row, so that its warps share sectors: columns move fewer.
        (unaligned_rows(33), "layout: column"),
    ],
    ids=["points", "long structures", "image", "unaligned rows", "short unaligned rows"],
)
def test_a_proposal_moves_the_sectors_that_it_says(text: str, change: str) -> None:
    (proposal,) = proposals(text)
    assert proposal.change == change
    assert proposal.before.moved == sectors(text)
    assert proposal.after.moved == sectors(with_change(text, proposal))
    assert proposal.after.moved <= MAX_SHARE * proposal.before.moved


@pytest.mark.parametrize(
    "text", [points(2), points(4), points(3, ", layout: column")], ids=["pairs", "fours", "arrays"]
)
def test_nothing_is_proposed_where_sectors_are_ideal(text: str) -> None:
    assert proposals(text) == ()


def test_arrays_are_tried_on_top_of_one_another() -> None:
    both = points(3).replace("  y:", "  b: {shape: [N, 3], dtype: float32}\n  y:")
    both = both.replace("point[i, 2]\n", "point[i, 2] * b[i, 0] + b[i, 1] * b[i, 2]\n")
    first, second = proposals(both)
    assert (first.array, second.array) == ("point", "b")
    assert second.before == first.after
    assert sectors(with_change(with_change(both, first), second)) == second.after.moved


def test_variants_are_proposed_one_layout() -> None:
    text = points(3).replace("kernel: points", "kernel: points\nvariants: {type: [float32, float64]}")
    (proposal,) = proposals(text.replace("dtype: float32", "dtype: $type"))
    assert proposal.change == "layout: column"


def test_dynamic_sizes_are_compared_at_some_size() -> None:
    """Sectors per request would not tell that a loop over three vectors has three."""
    (proposal,) = proposals(points(3, size="{multiple_of: 4}"))
    (fixed,) = proposals(points(3, size=4096))
    assert (proposal.change, proposal.before, proposal.after) == (fixed.change, fixed.before, fixed.after)
    assert proposal.sizes == {"N": 4096}


@pytest.mark.slow
@settings(max_examples=20)
@given(
    fields=st.integers(2, 9),
    dtype=st.sampled_from(["float64", "float32", "float16"]),
    size=st.integers(100, 5000),
    pitch=st.sampled_from(["", ", pitch: 12", ", layout: column"]),
)
def test_every_proposal_moves_the_sectors_that_it_says(fields: int, dtype: str, size: int, pitch: str) -> None:
    text = points(fields, pitch, dtype, size)
    for proposal in proposals(text):
        assert proposal.before.moved == sectors(text)
        text = re.sub(r", (layout|pitch): \w+", "", text) if proposal.change.startswith("layout") else text
        assert proposal.after.moved == sectors(with_change(text, proposal))
