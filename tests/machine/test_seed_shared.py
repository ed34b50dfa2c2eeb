"""Figures of the literature on shared memory. The numbers in the names count the rows of the collection."""

from __future__ import annotations

from math import gcd

import pytest

from cugen.analysis import warp_request

MODERN = ("sm_50", "sm_61", "sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
FROM_FERMI = ("sm_20", "sm_35", *MODERN)
TESLA = ("sm_10", "sm_11", "sm_12", "sm_13")


def wavefronts(addresses, target, *, width=4, kind="load", **options):
    return warp_request("shared", kind, width, addresses, target, **options).wavefronts


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", MODERN)
@pytest.mark.parametrize("stride", range(1, 65))
def test_01_a_stride_of_floats_costs_its_common_divisor_with_32(target, stride, strided):
    assert wavefronts(strided(stride), target) == gcd(stride, 32)


@pytest.mark.parametrize("target", MODERN)
@pytest.mark.parametrize(("stride", "expected"), [(0, 1), (3, 1), (33, 1), (32, 32)])
def test_01_strides_0_3_33_and_32(target, stride, expected, strided):
    assert wavefronts(strided(stride), target) == expected


@pytest.mark.parametrize("target", TESLA)
@pytest.mark.parametrize("stride", range(1, 33))
def test_02_on_16_banks_a_stride_costs_its_common_divisor_with_16(target, stride, strided):
    assert wavefronts(strided(stride, active=16), target) == gcd(stride, 16)
    assert wavefronts(strided(stride), target) == 2 * gcd(stride, 16)


def test_03_stride_2_conflicts_on_fermi_and_not_on_kepler(strided):
    assert wavefronts(strided(2), "sm_20") == 2
    assert wavefronts(strided(2), "sm_30", bank_bytes=4) == 1


@pytest.mark.parametrize(("stride", "expected"), [(4, 2), (6, 2), (32, 16)])
def test_04_kepler_with_4_byte_banks(stride, expected, strided):
    assert wavefronts(strided(stride), "sm_35", bank_bytes=4) == expected


@pytest.mark.parametrize(("stride", "expected"), [(3, 2), (6, 1)])
def test_05_kepler_with_8_byte_banks_follows_its_rule_and_not_the_remark_that_it_is_never_worse(
    stride, expected, strided
):
    assert wavefronts(strided(stride), "sm_35", bank_bytes=8) == expected


def test_06_stride_3_is_free_of_conflicts_on_16_banks(strided):
    assert wavefronts(strided(3, active=16), "sm_10") == 1


def test_07_consecutive_floats_take_one_pass_and_one_per_half_warp_on_1_x(strided):
    assert [wavefronts(strided(1), target) for target in FROM_FERMI] == [1] * len(FROM_FERMI)
    assert [wavefronts(strided(1), target) for target in TESLA] == [2] * len(TESLA)


def test_08_consecutive_chars_conflict_four_ways_on_1_x_only(strided):
    assert wavefronts(strided(1, 1, active=16), "sm_13", width=1) == 4
    assert {wavefronts(strided(1, 1), target, width=1) for target in FROM_FERMI} == {1}


def test_09_chars_a_word_apart_do_not_conflict_on_1_x(strided):
    assert wavefronts(strided(4, 1, active=16), "sm_13", width=1) == 1


def test_10_consecutive_shorts_conflict_two_ways_on_1_x_only(strided):
    assert wavefronts(strided(1, 2, active=16), "sm_13", width=2) == 2
    assert {wavefronts(strided(1, 2), target, width=2) for target in FROM_FERMI} == {1}


def test_11_doubles_are_two_requests_of_two_ways_on_1_x(strided):
    cost = warp_request("shared", "load", 8, strided(1, 8, active=16), "sm_13")
    assert (cost.requests, cost.wavefronts, cost.ideal_wavefronts) == (2, 4, 2)


def test_12_doubles_take_one_pass_for_each_half_warp_from_2_0_on(strided):
    for target in ("sm_20", *MODERN):
        cost = warp_request("shared", "load", 8, strided(1, 8), target)
        assert (cost.wavefronts, cost.ideal_wavefronts) == (2, 2)


@pytest.mark.parametrize("target", MODERN)
@pytest.mark.parametrize(("stride", "expected"), [(2, 4), (16, 32)])
def test_13_strided_doubles_conflict(target, stride, expected, strided):
    assert wavefronts(strided(stride, 8), target, width=8) == expected


def test_14_consecutive_float4_are_two_way_on_fermi_and_four_phases_later(strided):
    assert wavefronts(strided(1, 16), "sm_20", width=16) == 2
    assert {wavefronts(strided(1, 16), target, width=16) for target in MODERN} == {4}


@pytest.mark.parametrize("target", MODERN)
def test_15_float4_on_the_same_four_banks_take_32_passes(target, strided):
    assert wavefronts(strided(8, 16), target, width=16) == 32


def test_16_wide_loads_merge_where_adjacent_lanes_read_equal_addresses(strided):
    assert wavefronts(strided(0, 16), "sm_90", width=16) == 2
    assert wavefronts(strided(0, 8), "sm_90", width=8) == 1
    assert wavefronts([8 * (lane // 2) for lane in range(32)], "sm_90", width=8) == 1


@pytest.mark.parametrize("target", FROM_FERMI)
def test_17_a_component_of_an_array_of_float3_is_free_of_conflicts(target, strided):
    assert [wavefronts(strided(3, offset=component), target) for component in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(("pitch", "expected"), [(32, 32), (33, 1)])
def test_18_a_column_of_a_tile_32_wide_needs_a_pitch_of_33(pitch, expected, strided):
    for column in range(32):
        assert wavefronts(strided(pitch, offset=column), "sm_90") == expected


@pytest.mark.parametrize(("pitch", "expected"), [(16, 16), (17, 1)])
def test_19_a_column_of_a_tile_16_wide_needs_a_pitch_of_17_on_16_banks(pitch, expected, strided):
    assert wavefronts(strided(pitch, active=16), "sm_10") == expected


@pytest.mark.parametrize(("pitch", "expected"), [(16, 8), (17, 2), (18, 1)])
def test_20_a_column_of_a_tile_16_wide_needs_a_pitch_of_18_on_32_banks(pitch, expected, block_16x16):
    for addresses in block_16x16(lambda tx, ty: pitch * tx + ty):
        assert wavefronts(addresses, "sm_90") == expected


@pytest.mark.parametrize(("halves", "expected"), [(64, 8), (72, 1)])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_21_rows_of_a_matrix_load_conflict_at_a_pitch_of_64_halves_and_not_at_72(halves, expected, matrices, strided):
    addresses = [address and address * halves // 8 for address in strided(1, 16, active=8 * matrices)]
    cost = warp_request("shared", "matrix_load", 16, addresses, "sm_90")
    assert (cost.wavefronts, cost.ideal_wavefronts) == (expected * matrices, matrices)


@pytest.mark.parametrize("target", FROM_FERMI)
def test_22_the_tiled_product_reads_its_tiles_without_conflicts(target, block_16x16):
    for k in range(16):
        a = block_16x16(lambda tx, ty, k=k: 16 * ty + k)
        b = block_16x16(lambda tx, ty, k=k: 16 * k + tx)
        assert {wavefronts(addresses, target) for addresses in a + b} == {1}


def test_any_odd_stride_is_as_safe_as_stride_1(strided):
    for target in MODERN:
        assert {wavefronts(strided(stride), target) for stride in range(1, 128, 2)} == {1}


def test_a_pitch_of_17_cures_a_16_wide_tile_on_16_banks_but_is_two_way_on_32(strided, block_16x16):
    assert wavefronts(strided(17, active=16), "sm_10") == 1
    assert {wavefronts(addresses, "sm_50") for addresses in block_16x16(lambda tx, ty: 17 * tx + ty)} == {2}


def test_lanes_0_and_16_never_conflict_on_1_x_where_half_warps_are_separate_requests():
    addresses = [0, *[None] * 15, 64, *[None] * 15]
    cost = warp_request("shared", "load", 4, addresses, "sm_10")
    assert (cost.requests, cost.wavefronts, cost.ideal_wavefronts) == (2, 2, 2)
    assert wavefronts([0, 64, *[None] * 30], "sm_10") == 2


def test_requests_of_4_bytes_are_split_on_1_x_and_no_longer_on_2_x(strided):
    assert warp_request("shared", "load", 4, strided(1), "sm_13").requests == 2
    assert warp_request("shared", "load", 4, strided(1), "sm_20").requests == 1
