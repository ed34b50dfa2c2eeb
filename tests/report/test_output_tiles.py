"""The tiles of an output are those that its blocks store to, each element of the first one by its thread."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cugen.analysis.totals.sites import BLOCK
from cugen.report.output_tiles import Axis, OutputTiles
from cugen.report.page import Launch, Page

# Tiles that are cut off, moved inwards, of vectors, of several planes, of one dimension, and whole boxes of TMA.
FILES = {
    "transpose_padded.yaml": (70, 16),
    "gemm_f32.yaml": (12, 6),
    "softmax.yaml": (25, 0),
    "saxpy.yaml": (98, 1),
    "matmul_batched.yaml": (9, 5),
    "blur_shared.yaml": (133, 25),
    "permute_heads.yaml": (8, 5),
    "gemm_wgmma_f16.yaml": (144, 23),
}
WALKED = ("transpose_padded.yaml", "gemm_f32.yaml", "saxpy.yaml", "blur_shared.yaml")


def last_output(pages: tuple[Page, ...]) -> tuple[Page, Launch, OutputTiles]:
    launch = pages[-1].launches[-1]
    return pages[-1], launch, launch.outputs[-1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("file", FILES)
def test_the_tiles_at_the_edge_are_counted(file, gallery_pages):
    _, _, tiles = last_output(gallery_pages(file))
    assert (tiles.tiles, tiles.edge_tiles) == FILES[file]


def stores_by_block(page, launch, array, accessed, sites_of):
    """Of each block: the rows and columns that it stores, and their threads; a walk over all of them."""
    stores = [s for s in sites_of(page, launch) if s.access.kind == "store" and s.access.array.name == array]
    for block in product(*map(range, launch.report.facts.launch.grid)):
        parts = [accessed(site, launch.planned.block, dict(zip(BLOCK, block, strict=True))) for site in stores]
        elements = np.concatenate([part[0] for part in parts])
        rows = elements[:, 0] if elements.shape[1] > 1 else np.zeros(len(elements), int)
        yield block, rows, elements[:, -1], np.concatenate([part[1] for part in parts])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("file", WALKED)
def test_blocks_store_to_the_tiles_and_threads_to_the_elements_that_are_shown(file, gallery_pages, accessed, sites_of):
    page, launch, tiles = last_output(gallery_pages(file))
    expected = set(product(tiles.rows.intervals, tiles.columns.intervals))
    covered = np.zeros((tiles.rows.extent, tiles.columns.extent), bool)
    by_block = set()
    for block, rows, columns, threads in stores_by_block(page, launch, tiles.array, accessed, sites_of):
        covered[rows, columns] = True
        by_block.add(((rows.min(), rows.max() + 1), (columns.min(), columns.max() + 1)))
        if not any(block):
            owners = np.full_like(tiles.owners, -1)
            owners[rows, columns] = threads
            np.testing.assert_array_equal(tiles.owners, owners)
    assert by_block == expected
    assert covered.all()


def test_a_tile_that_is_smaller_or_overlaps_the_one_before_is_at_the_edge():
    cut = Axis(70, ((0, 32), (32, 64), (64, 70)))
    moved = Axis(70, ((0, 32), (32, 64), (38, 70)))
    whole = Axis(64, ((0, 32), (32, 64)))
    assert [[axis.is_at_edge(n) for n in range(len(axis.intervals))] for axis in (cut, moved, whole)] == [
        [False, False, True],
        [False, False, True],
        [False, False],
    ]


def test_outputs_of_unknown_size_have_no_tiles(page_of):
    text = """
cugen: 1
kernel: shift
params: {N: {range: [8, 4000]}}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[N - 1 - i]
"""
    assert page_of(text).launches[0].outputs == ()
    (tiles,) = page_of(text, N=1000).launches[0].outputs
    assert (tiles.columns.extent, tiles.planes) == (1000, 1)


STREAM_K = """
cugen: 1
kernel: product
params: {M: 96, N: 128, K: 640}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule:
  {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 2, stream_k: 1}
"""


@pytest.mark.slow
def test_the_parts_of_stream_k_cover_each_tile_once_and_the_ranges_of_blocks_are_even(page_of):
    (launch,) = page_of(STREAM_K).launches
    units, (blocks, _, _) = launch.planned.work_units, launch.report.facts.launch.grid
    assert (units.tiles, units.k_tiles) == (12, 40)
    covered = [(part.tile, k) for part in launch.parts for k in range(part.begin, part.end)]
    assert covered == list(product(range(units.tiles), range(units.k_tiles)))
    by_block = [sum(part.end - part.begin for part in launch.parts if part.block == n) for n in range(blocks)]
    assert min(by_block) > 0
    assert len({*by_block[:-1]}) == 1
    assert by_block[-1] <= by_block[0]


def test_other_schedules_have_no_parts(page_of):
    (launch,) = page_of(STREAM_K.replace("stream_k: 1", "stream_k: 0")).launches
    assert (launch.parts, launch.planned.work_units) == ((), None)
