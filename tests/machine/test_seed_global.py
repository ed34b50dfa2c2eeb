"""Figures of the literature on global and constant memory."""

from __future__ import annotations

import pytest

from cugen.analysis import warp_request

SECTORED = ("sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_90", "sm_120")


def sizes(addresses, target, width=4):
    return [size for _, size in warp_request("global", "load", width, addresses, target).transactions]


def sectors(addresses, target="sm_90", width=4):
    return warp_request("global", "load", width, addresses, target).sectors


def half_warp(elements):
    return [4 * element for element in elements] + [None] * 16


def test_23_an_inactive_lane_or_permuted_lanes_stay_one_segment_from_1_2_on():
    in_order = list(range(16))
    one_off = [*in_order[:5], None, *in_order[6:]]
    for target in ("sm_12", "sm_13"):
        assert sizes([None if e is None else 4 * e for e in one_off] + [None] * 16, target) == [64]
        assert sizes(half_warp([*in_order[:7], 8, 7, *in_order[9:]]), target) == [64]
        assert sizes(half_warp(reversed(in_order)), target) == [64]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        (range(1, 16), [128]),
        (range(16, 17), [64]),
        (range(17, 24), [64, 32]),
        (range(24, 25), [32, 32]),
        (range(25, 32), [32, 64]),
    ],
)
def test_24_a_misaligned_half_warp_takes_the_smallest_segments_that_cover_it(offsets, expected):
    for offset in offsets:
        assert sizes(half_warp(range(offset, offset + 16)), "sm_13") == expected


@pytest.mark.parametrize(
    ("stride", "expected"), [(2, [128]), (3, [128, 64]), (16, [128] * 8), (32, [32] * 16), (40, [32] * 16)]
)
def test_25_strides_waste_segments(stride, expected):
    assert sizes(half_warp(range(0, 16 * stride, stride)), "sm_13") == expected


def test_26_on_1_0_lanes_access_an_aligned_segment_in_order_or_are_uncoalesced():
    gaps = [None if lane in (3, 9) else 4 * lane for lane in range(16)] + [None] * 16
    for target in ("sm_10", "sm_11"):
        assert sizes(half_warp(range(16)), target) == [64]
        assert sizes(gaps, target) == [64]
        assert sizes(half_warp(range(1, 17)), target) == [32] * 16
        assert sizes(half_warp([1, 0, *range(2, 16)]), target) == [32] * 16
        assert sizes(half_warp(range(0, 48, 3)), target) == [32] * 16


def test_27_doubles_are_one_and_float4_two_transactions_of_128_bytes_on_1_0(strided):
    assert sizes(strided(1, 8, active=16), "sm_10", 8) == [128]
    assert sizes(strided(1, 16, active=16), "sm_10", 16) == [128, 128]


def test_28_floats_one_word_off_take_two_lines_through_l1_or_five_segments_through_l2(strided):
    through_l1 = warp_request("global", "load", 4, strided(1, offset=1), "sm_20")
    through_l2 = warp_request("global", "load", 4, strided(1, offset=1), "sm_20", cache="l2")
    assert through_l1.transactions == ((0, 128), (128, 128))
    assert (len(through_l2.transactions), through_l2.sectors) == (5, 5)


@pytest.mark.parametrize("target", SECTORED)
def test_29_an_offset_of_less_than_a_sector_costs_one_more(target, strided):
    assert sectors(strided(1), target) == 4
    assert {sectors(strided(1, offset=offset), target) for offset in range(1, 8)} == {5}
    assert sectors(strided(1, offset=8), target) == 4


@pytest.mark.parametrize("target", SECTORED)
@pytest.mark.parametrize(("stride", "expected"), [(2, 8), (3, 12), (4, 16), (8, 32), (9, 32), (1000, 32)])
def test_30_a_stride_costs_sectors_up_to_one_per_lane(target, stride, expected, strided):
    assert sectors(strided(stride), target) == expected


@pytest.mark.parametrize("target", SECTORED)
def test_31_sectors_follow_the_requested_bytes(target, strided):
    assert sectors(strided(0), target) == 1
    assert [sectors(strided(1, width), target, width) for width in (1, 2, 8, 16)] == [1, 2, 8, 16]


def test_32_the_naive_product_reads_a_row_of_b_and_one_element_of_a_for_each_row_of_a_warp(strided, block_16x16):
    n = 1024
    for k in range(0, n, 100):
        assert sectors([4 * k] * 32) == 1
        assert sectors(strided(1, offset=n * k)) == 4
        for warp in block_16x16(lambda tx, ty, k=k: n * ty + k):
            assert sectors(warp) == 2
        for warp in block_16x16(lambda tx, ty, k=k: n * k + tx):
            assert sectors(warp) == 2


@pytest.mark.parametrize(("row_length", "expected"), [(1024, 4), (100, 5)])
def test_33_a_tile_16_wide_straddles_a_sector_where_rows_are_not_whole_sectors(row_length, expected, block_16x16):
    for warp in block_16x16(lambda tx, ty: row_length * ty + tx):
        assert sectors(warp) == expected


@pytest.mark.parametrize("target", ["sm_20", "sm_35", "sm_61", "sm_90", "sm_120"])
@pytest.mark.parametrize(("addresses", "expected"), [([20] * 32, 1), ([4 * (i % 4) for i in range(32)], 4)])
def test_34_constants_cost_one_request_for_each_address(target, addresses, expected, strided):
    assert warp_request("constant", "load", 4, addresses, target).requests == expected
    assert warp_request("constant", "load", 4, strided(1), target).requests == 32


@pytest.mark.parametrize("target", ["sm_10", "sm_11"])
@pytest.mark.parametrize("width", [1, 2])
def test_narrow_accesses_are_not_coalesced_on_1_0_and_not_ideal(target, width, strided):
    cost = warp_request("global", "load", width, strided(1, width), target)
    assert (len(cost.transactions), cost.sectors, cost.ideal_sectors) == (32, 32, 2)
