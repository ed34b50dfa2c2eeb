"""The map of a box of pixels that TMA copies in im2col mode."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import pytest

from cugen.report.boxes import PixelMap
from cugen.report.html import page_html
from cugen.report.page import Entry, Page

EXPRESSION = "(c) => script.of(c.map, c.block, c.uniform)"
GALLERY = "conv_wgmma_bf16.yaml"
ONE_DIMENSION = """\
cugen: 1
kernel: filter
target: sm_90a
params: {N: 6, W: 22, P: 11, C: 72, K: 64}
arrays:
  x: {shape: [N, W, C], dtype: float16, boundary: zero}
  f: {shape: [K, 5, C], dtype: float16}
  y: {shape: [N, P, K], dtype: float16}
compute: y[n, p, k] = sum(x[n, 2*p + r - 2, c] * f[k, r, c], r, c)
schedule: {family: wgmma}
"""
THREE_DIMENSIONS = """\
cugen: 1
kernel: volume
target: sm_90a
params: {N: 2, D: 4, H: 5, W: 6, C: 64, K: 64}
arrays:
  x: {shape: [N, D, H, W, C], dtype: float16, boundary: zero}
  f: {shape: [K, 3, 3, 3, C], dtype: float16}
  y: {shape: [N, D, H, W, K], dtype: float16}
compute: y[n, d, h, w, k] = sum(x[n, d + q - 1, h + r - 1, w + s - 1, c] * f[k, q, r, s, c], q, r, s, c)
schedule: {family: wgmma}
"""


def pixels_of(page: Page) -> tuple[Entry, PixelMap, tuple[int, int, int]]:
    ((entry, pixels, block),) = (
        (entry, entry.lanes, launch.planned.block)
        for launch in page.launches
        for entry in launch.entries
        if isinstance(entry.lanes, PixelMap)
    )
    return entry, pixels, block


def all_boxes(page: Page, in_node: Any) -> list[tuple[dict[str, int], list[dict[str, Any]]]]:
    """The boxes at each value of blocks and loops."""
    _, pixels, block = pixels_of(page)
    shown = [variable.shown for variable in pixels.variables]
    names = [variable.name for variable in pixels.variables]
    values = list(product(*(range(variable.low, variable.high + 1) for variable in pixels.variables)))
    cases = [{"map": asdict(pixels), "block": block, "uniform": dict(zip(names, each, strict=True))} for each in values]
    answers = in_node("pixels.js", EXPRESSION, cases)
    return [(dict(zip(shown, each, strict=True)), answer) for each, answer in zip(values, answers, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [ONE_DIMENSION, pytest.param(THREE_DIMENSIONS, marks=pytest.mark.slow)], ids=["signal", "volume"]
)
def test_the_boxes_of_all_blocks_and_iterations_have_the_sectors_of_the_analysis(
    text: str, page_of: Any, in_node: Any
) -> None:
    page = page_of(text)
    totals = pixels_of(page)[0].report.totals
    assert totals is not None
    boxes = [box for _, answer in all_boxes(page, in_node) for box in answer]
    assert sum(box["sectors"] for box in boxes) == totals.sectors
    assert sum(box["ideal"] for box in boxes) == totals.ideal_sectors


@pytest.mark.slow
def test_the_rows_of_a_tile_are_the_pixels_that_its_outputs_read_at_a_tap(gallery_pages: Any, in_node: Any) -> None:
    (page,) = gallery_pages(GALLERY)
    entry, *_ = pixels_of(page)
    images, height, width = 3, 13, 18
    outputs = [(n, p, q) for n, p, q in product(range(images), range(7), range(9))]
    sectors = 0
    for values, (box,) in all_boxes(page, in_node):
        first, (r, s) = 64 * (values["blockIdx.x"] % 3), divmod(values["rsc0"], 3)
        expected = [[n, 2 * p + r - 1, 2 * q + s - 1] for n, p, q in outputs[first : first + 64]]
        assert [pixel["at"] for pixel in box["pixels"]][: len(expected)] == expected
        inside = [0 <= y < height and 0 <= x < width for _, y, x in expected]
        assert [pixel["isInside"] for pixel in box["pixels"]] == inside + [False] * (64 - len(expected))
        sectors += box["sectors"]
    assert entry.report.totals is not None
    assert sectors == entry.report.totals.sectors


@pytest.mark.slow
def test_the_page_shows_the_pixels_of_a_block_and_a_tap(gallery_pages: Any, tab: Any) -> None:
    (page,) = gallery_pages(GALLERY)
    opened = tab.open(page_html(page))
    entry, *_ = pixels_of(page)
    opened.locator(f'a[data-select="{entry.number}"]').first.click()
    # The first tap is up and to the left: of the 63 outputs of an image the first row and the first column are beyond.
    assert opened.locator("#map-figures").inner_text().startswith("192 sectors, ideal 192, for a box of 64 pixels")
    said = opened.locator("#map-picture").inner_text()
    assert "64 pixels of x (3 × 13 × 18 × 64) from (0, -1, -1) on, read at the offset (0, 0): 48 pixels inside" in said
    assert "image 0: 48 of 63 pixels inside" in said
    assert "image 1: 0 of 1 pixels inside" in said
    assert opened.locator("#map-picture rect.beyond").count() == 16
    opened.locator("#map-loop-1-rsc0").fill("4")
    assert "read at the offset (1, 1): 64 pixels inside" in opened.locator("#map-picture").inner_text()
    assert opened.locator("#map-picture rect.beyond").count() == 0
