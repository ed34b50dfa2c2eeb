"""The map of a box that TMA copies, and of the chunks of swizzled rows."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import pytest

from cugen.report.boxes import BoxMap, ChunkMap, chunks
from cugen.report.html import page_html
from cugen.report.page import Entry, Page

SPLIT, N_MAJOR = "gemm_wgmma_split.yaml", "gemm_wgmma_f16.yaml"
EXPRESSION = "(c) => script.of(c.map, c.block, c.uniform)"


def entries_with(pages: tuple[Page, ...], kind: type) -> list[tuple[Entry, tuple[int, int, int]]]:
    return [
        (entry, launch.planned.block)
        for made in pages
        for launch in made.launches
        for entry in launch.entries
        if isinstance(entry.lanes, kind)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", [SPLIT, *(pytest.param(file, marks=pytest.mark.slow) for file in (N_MAJOR, "gemm_wgmma_fp8.yaml"))]
)
def test_the_boxes_of_all_blocks_and_iterations_have_the_sectors_of_the_analysis(
    file: str, gallery_pages: Any, in_node: Any
) -> None:
    entries = entries_with(gallery_pages(file), BoxMap)
    assert entries
    for entry, block in entries:
        assert isinstance(entry.lanes, BoxMap)
        names = [variable.name for variable in entry.lanes.variables]
        values = product(*(range(variable.low, variable.high + 1) for variable in entry.lanes.variables))
        box = asdict(entry.lanes)
        cases = [{"map": box, "block": block, "uniform": dict(zip(names, each, strict=True))} for each in values]
        copied = [box for answer in in_node("boxes.js", EXPRESSION, cases) for box in answer]
        totals = entry.report.totals
        assert totals is not None
        assert sum(box["sectors"] for box in copied) == totals.sectors
        assert sum(box["ideal"] for box in copied) == totals.ideal_sectors


def test_a_box_at_the_edge_has_the_elements_inside(in_node: Any) -> None:
    box = {
        "element_bytes": 2,
        "first": [["*", 64, "y"], ["+", -8, "x"]],
        "shape": [100, 72],
        "strides": [72, 1],
        "box": [64, 64],
        "conditions": [{"terms": [["threadIdx.x", "=="]], "negated": False}],
    }
    cases = [{"map": box, "block": [32, 1, 1], "uniform": uniform} for uniform in ({"y": 1, "x": 0}, {"y": 0, "x": 40})]
    (corner,), (right,) = in_node("boxes.js", EXPRESSION, cases)
    assert (corner["first"], corner["inside"]) == ([64, -8], [[64, 100], [0, 56]])
    assert corner["elements"] == 36 * 56
    assert (right["inside"], right["elements"]) == ([[0, 64], [32, 72]], 64 * 40)


@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
def test_chunks_are_where_the_bits_of_an_address_put_them(swizzle_bytes: int) -> None:
    """The bits from 4 on are xor those from 7 on, as many as number the chunks of a row."""
    mask = swizzle_bytes // 16 - 1
    for line, positions in enumerate(chunks(swizzle_bytes)):
        for position, (row, chunk) in enumerate(positions):
            logical = row * swizzle_bytes + chunk * 16
            assert logical ^ (logical >> 7 & mask) << 4 == line * 128 + position * 16


@pytest.mark.parametrize("swizzle_bytes", [64, 128])
def test_one_chunk_of_eight_rows_is_in_all_banks(swizzle_bytes: int) -> None:
    chunk_positions = [(row, chunk, n) for line in chunks(swizzle_bytes) for n, (row, chunk) in enumerate(line)]
    for chosen in range(swizzle_bytes // 16):
        assert {n for row, chunk, n in chunk_positions if chunk == chosen and row < 8} == set(range(8))


@pytest.mark.slow
def test_operands_of_wgmma_and_tiles_of_tma_show_their_chunks(gallery_pages: Any) -> None:
    maps = [(entry.report.access.kind, entry.lanes) for entry, _ in entries_with(gallery_pages(N_MAJOR), ChunkMap)]
    operands = [made for kind, made in maps if kind == "operand"]
    assert [(made.array, made.k_chunks) for made in operands] == [("As", 2), ("Bs", 0)]  # B is N-major
    assert [made.array for kind, made in maps if kind != "operand"] == ["As", "Bs", "c_tile"]


@pytest.mark.slow
def test_the_page_shows_the_box_of_a_block(gallery_pages: Any, tab: Any) -> None:
    (made,) = gallery_pages(SPLIT)
    opened = tab.open(page_html(made))
    (entry, _), *_ = [pair for pair in entries_with((made,), BoxMap) if "A_map" in pair[0].report.text]
    opened.locator(f'a[data-select="{entry.number}"]').first.click()
    assert opened.locator("#map-figures").inner_text().startswith("256 sectors, ideal 256")
    assert "begins at (0, 0) of A (64 × 512): 4,096 elements inside." in opened.locator("#map-picture").inner_text()
    assert not opened.locator("#map-footprint").is_visible()
    opened.locator("#map-blockIdx-x").fill("1")
    assert "begins at (0, 256) of A" in opened.locator("#map-picture").inner_text()
