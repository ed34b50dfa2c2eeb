"""The boxes that a launch copies by TMA equal a walk over its threads, loops and output tiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis.totals.boxes import boxes
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import Counter as LoopCounter
from cugen.analysis.totals.sites import Predicate, Site
from cugen.machine.requests.boxes import Extent
from cugen.plan.memory import Access, Array, TensorMap
from cugen.plan.symbols import FloorDiv, Mod, integer, symbol
from cugen.spec.types import BFLOAT16

SECTOR = 32
BLOCK, THREAD = symbol("blockIdx.x"), symbol("threadIdx.x")
WAVE, K_TILE = symbol("loop 0 tile"), symbol("loop 1 k0")


@dataclass(frozen=True)
class Launch:
    """A persistent kernel on `blocks` blocks: output tiles of `box_m` rows, in rasters of `raster` rows of tiles."""

    rows: int
    columns: int
    pitch: int
    box_m: int
    box_k: int
    tiles_n: int
    raster: int
    blocks: int
    thread: int

    @property
    def tiles(self) -> int:
        return -(-self.rows // self.box_m) * self.tiles_n

    @property
    def block_threads(self) -> int:
        return 160

    def site(self) -> tuple[Site, Access]:
        tile = BLOCK + self.blocks * WAVE
        per_group = self.raster * self.tiles_n
        row = FloorDiv(tile, integer(per_group)) * self.raster + Mod(tile, integer(self.raster))
        shape, strides = (integer(self.rows), integer(self.columns)), (integer(self.pitch), integer(1))
        box = TensorMap((self.box_m, self.box_k), 128)
        array = Array("A", "A_map", BFLOAT16, shape, strides, "tensor", flat=False, tensor_map=box)
        access = Access(array, (self.box_m * row, self.box_k * K_TILE), "tensor_load")
        counters = (
            LoopCounter(BLOCK, self.blocks),
            LoopCounter(WAVE, -(-self.tiles // self.blocks)),
            LoopCounter(K_TILE, -(-self.columns // self.box_k)),
        )
        guards = (Predicate(((THREAD - self.thread, "=="),)), Predicate(((tile - self.tiles, "<"),)))
        return Site(access, integer(0), counters, guards, {}, {}), access

    def walk(self, start: int) -> Counter[tuple[Extent, ...]]:
        found: Counter[tuple[Extent, ...]] = Counter()
        for block, k in product(range(self.blocks), range(0, self.columns, self.box_k)):
            for tile in range(block, self.tiles, self.blocks):
                group, inside = divmod(tile, self.raster * self.tiles_n)
                m = self.box_m * (group * self.raster + inside % self.raster)
                rows = max(min(m + self.box_m, self.rows) - m, 0)
                outer = Extent(m * self.pitch * 2 % SECTOR, rows, 2 * self.pitch)
                found[outer, Extent((2 * k + start) % SECTOR, min(self.box_k, self.columns - k), 2)] += 1
        return found


@st.composite
def launches(draw):
    columns = 8 * draw(st.integers(1, 12))
    raster = draw(st.sampled_from([1, 2, 4]))
    box_m = draw(st.sampled_from([4, 16]))
    groups = draw(st.integers(1, 3))
    rows = draw(st.integers((groups * raster - 1) * box_m + 1, groups * raster * box_m))
    return Launch(
        rows,
        columns,
        columns + 8 * draw(st.integers(0, 2)),
        box_m,
        draw(st.sampled_from([16, 24, 64])),
        draw(st.integers(1, 4)),
        raster,
        draw(st.integers(1, 7)),
        draw(st.sampled_from([0, 128])),
    )


@given(launches(), st.sampled_from([0, 16]))
def test_the_boxes_of_a_persistent_kernel_equal_a_walk_over_its_tiles(launch, start):
    site, access = launch.site()
    found = boxes(site, access, (launch.block_threads, 1, 1), start)
    assert {each.extents: each.count for each in found} == dict(launch.walk(start))


def example() -> tuple[Site, Access]:
    return Launch(64, 64, 64, 16, 16, 2, 1, 3, 128).site()


def test_a_box_for_each_lane_is_unknown():
    site, access = example()
    with pytest.raises(Unknown, match="several lanes"):
        boxes(replace(site, predicates=site.predicates[1:]), access, (160, 1, 1))


def test_boxes_at_data_dependent_coordinates_are_unknown():
    site, access = example()
    elsewhere = replace(access, subscripts=(symbol("row"), access.subscripts[1]))
    with pytest.raises(Unknown, match="depends on the value row, which is read from memory"):
        boxes(site, elsewhere, (160, 1, 1))


def test_more_coupled_values_than_are_enumerated_are_unknown():
    launch = Launch(1 << 24, 64, 64, 16, 16, 2, 1, 132, 128)
    site, access = launch.site()
    with pytest.raises(Unknown, match="coupled counters"):
        boxes(site, access, (160, 1, 1))
