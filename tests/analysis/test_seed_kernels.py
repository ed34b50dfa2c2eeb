"""Figures of the literature on whole kernels, as far as lanes and loops written out show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.analysis import occupancy
from cugen.analysis.launches.roofline import bandwidth_for, bound, intensity, is_memory_bound, ridge
from cugen.machine import device
from cugen.machine.divergence import divergence, paths

MULTIPLY_ADD = 2  # FLOP
FLOAT = 4  # bytes


def product_intensity(tile: int, n: int = 1024) -> float:
    """FLOP per byte loaded of an n×n product whose blocks stage tile×tile elements; tile 1 is the naive one."""
    loads = n * n * 2 * n // tile
    return intensity(MULTIPLY_ADD * n**3, FLOAT * loads)


def test_46_the_naive_product_is_bound_by_memory_and_a_tile_of_16_lifts_the_bound_16_times():
    assert product_intensity(1) == 0.25
    assert bound(product_intensity(1), peak=66.9e12, bandwidth=3e12) == 750e9
    assert product_intensity(16) == 4
    assert bound(product_intensity(16), peak=66.9e12, bandwidth=3e12) == 12_000e9


def test_47_a_g80_feeds_21_6_gflops_of_the_naive_product_and_would_need_1386_gb_per_s():
    g80 = device("G80")
    assert bound(product_intensity(1), g80.peak(), g80.bandwidth) == pytest.approx(21.6e9)
    assert bandwidth_for(346.5e9, product_intensity(1)) == 1386e9


def test_48_a_16x16_tile_per_block_is_4096_blocks_and_each_phase_loads_512_for_4096_multiply_adds(block_16x16):
    assert (1024 // 16) ** 2 == 4096
    loads = sum(len(warp) for _ in ("A", "B") for warp in block_16x16(lambda tx, ty: 16 * ty + tx))
    multiply_adds = sum(len(warp) for _ in range(16) for warp in block_16x16(lambda tx, ty: 16 * ty + tx))
    assert (loads, multiply_adds, MULTIPLY_ADD * multiply_adds) == (512, 4096, 8192)
    assert intensity(MULTIPLY_ADD * multiply_adds, FLOAT * loads) == product_intensity(16)


def test_49_a_parity_branch_parts_a_warp_in_two():
    assert [path.lanes for path in paths([lane & 1 for lane in range(32)])] == [
        tuple(range(0, 32, 2)),
        tuple(range(1, 32, 2)),
    ]


def test_49_a_branch_on_whole_warps_does_not_diverge():
    actual = divergence([thread // 32 >= 2 for thread in range(128)])
    assert (actual.warps, actual.mixed_warps, actual.max_paths) == (4, 0, 1)


def test_49_a_switch_on_the_lane_takes_32_paths():
    assert divergence([thread % 32 for thread in range(64)]).max_paths == 32


def test_50_the_guards_of_a_100_wide_product_in_16x16_tiles_leave_these_warps_mixed():
    width, tile, tiles = 100, 16, 7
    threads = [(t % 16, t // 16) for t in range(256)]
    load_a, load_b, stores = [], [], []
    for by in range(tiles):
        for bx in range(tiles):
            inside = [(by * tile + ty < width and bx * tile + tx < width) for tx, ty in threads]
            stores.append(divergence(inside))
            for phase in range(tiles):
                load_a.append(divergence([by * tile + ty < width and phase * tile + tx < width for tx, ty in threads]))
                load_b.append(divergence([phase * tile + ty < width and bx * tile + tx < width for tx, ty in threads]))
    for actual, mixed, warps in ((load_a, 350, 2744), (load_b, 350, 2744), (stores, 50, 392)):
        assert sum(each.mixed_warps for each in actual) == mixed
        assert sum(each.warps for each in actual) == warps


@pytest.mark.parametrize("tile", [2, 4, 8, 16, 32])
def test_51_a_tile_divides_the_traffic_by_its_side(tile):
    assert product_intensity(tile) == tile * product_intensity(1)


@pytest.mark.parametrize("target", ["sm_10", "sm_11", "sm_12", "sm_13"])
def test_51_a_32x32_block_cannot_be_launched_on_1_x(target):
    assert occupancy(target, 16 * 16, 10, 2 * 16 * 16 * FLOAT).blocks_per_sm >= 3
    actual = occupancy(target, 32 * 32, 8, 2 * 32 * 32 * FLOAT)
    assert (actual.blocks_per_sm, actual.limited_by[-1]) == (0, "warps")


def test_a_16x16_tile_on_a_g80_is_bound_to_345_6_gflops_and_so_just_by_its_memory():
    assert bound(product_intensity(16), peak=346.5e9, bandwidth=86.4e9) == pytest.approx(345.6e9)
    assert is_memory_bound(product_intensity(16), peak=346.5e9, bandwidth=86.4e9)


def test_the_ridge_is_peak_flops_by_bandwidth_and_not_the_peak():
    h100 = replace(device("H100"), bandwidth=3e12)
    assert ridge(h100.peak(), h100.bandwidth) == pytest.approx(22.3)


def test_global_memory_is_cached_on_every_device_since_fermi():
    cached = [name for name in ("G80", "C1060", "C2050", "K40", "P100", "H200", "B200") if device(name).l2_bytes]
    assert cached == ["C2050", "K40", "P100", "H200", "B200"]
