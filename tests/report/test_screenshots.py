"""The charts of pages look as in the pictures of `tests/data/report`, in both themes. Texts are hidden, since fonts
differ."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from cugen.report.html import page_html

PICTURES = Path(__file__).parents[1] / "data" / "report"
MAX_DIFFERENCE = 40  # of a channel, from 0 to 255: antialiasing differs by version of the browser
MAX_SHARE = 0.05  # of pixels that differ by more, to those that are drawn
# name: (file, number of the access or None, what is shown)
CHARTS = {
    "banks_with_conflicts": ("transpose_shared.yaml", 3, "#map-picture svg"),
    "banks_without_conflicts": ("transpose_padded.yaml", 3, "#map-picture svg"),
    "sectors": ("softmax.yaml", 2, "#map-picture svg"),
    "footprint": ("gemm_f32.yaml", 1, "#map-footprint-picture svg"),
    "tiles": ("gemm_f32.yaml", None, "section[aria-label='Output tiles'] svg"),
    "pipeline": ("gemm_f32.yaml", None, "svg.pipeline"),
    "roles": ("gemm_wgmma_f16.yaml", None, "svg.pipeline"),
    "occupancy": ("gemm_f32.yaml", None, "svg.steps"),
    "roofline": ("gemm_f32.yaml", None, "svg.roofline"),
}
# Where a chart begins within a pixel depends on the fonts of the text above it.
ALONE_AT_THE_CORNER = """element => {
    const [width, height] = ["width", "height"].map(size => `${Math.round(element.getBoundingClientRect()[size])}px`);
    document.body.style.visibility = "hidden";
    Object.assign(element.style, {visibility: "visible", position: "fixed", inset: "0 auto auto 0", width, height});
}"""


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_looks_as_in_its_pictures(name: str, tab: Any, gallery_pages: Any, pytestconfig: pytest.Config) -> None:
    file, access, selector = CHARTS[name]
    (made,) = gallery_pages(file)
    page = tab.open(page_html(made))
    page.add_style_tag(content="svg text { visibility: hidden; }")
    if access is not None:
        page.locator(f"a[data-select='{access}']").click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        chart = page.locator(selector).first
        chart.evaluate(ALONE_AT_THE_CORNER)
        shot = chart.screenshot()
        path = PICTURES / f"{name}_{scheme}.png"
        if pytestconfig.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            Image.open(io.BytesIO(shot)).convert("P", palette=Image.Palette.ADAPTIVE).save(path, optimize=True)
        pictures = [np.asarray(Image.open(source).convert("RGB"), int) for source in (io.BytesIO(shot), path)]
        assert pictures[0].shape == pictures[1].shape
        share = different_share(*pictures)
        assert share <= MAX_SHARE, f"{share:.1%} of {path.name} differ"


def different_share(picture: NDArray[np.int64], reference: NDArray[np.int64]) -> float:
    """Pixels that differ, to those of the reference that aren't its background."""
    drawn = (reference != reference[0, 0]).any(axis=2).sum()
    return float((np.abs(picture - reference).max(axis=2) > MAX_DIFFERENCE).sum() / drawn)


def test_a_missing_conflict_would_be_seen() -> None:
    """The tolerance is less than what tells two pictures apart."""
    pictures = [
        np.asarray(Image.open(PICTURES / f"banks_{name}_conflicts_light.png").convert("RGB"), int)
        for name in ("with", "without")
    ]
    height = min(picture.shape[0] for picture in pictures)
    first, second = (picture[:height] for picture in pictures)
    assert different_share(first, second) > 2 * MAX_SHARE
