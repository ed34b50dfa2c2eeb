"""Local memory interleaves the 32-bit words of the lanes."""

from __future__ import annotations

import pytest

from cugen.analysis import warp_request


@pytest.mark.parametrize(("width", "sectors"), [(1, 4), (2, 4), (4, 4), (8, 8), (16, 16)])
def test_equal_addresses_of_all_lanes_are_one_line_per_word(width, sectors):
    cost = warp_request("local", "load", width, [64] * 32, "sm_90")
    assert (cost.sectors, cost.ideal_sectors) == (sectors, sectors)


def test_different_words_of_all_lanes_are_32_sectors():
    cost = warp_request("local", "store", 4, [4 * lane for lane in range(32)], "sm_90")
    assert (cost.sectors, cost.ideal_sectors) == (32, 4)
    assert cost.transactions[:2] == ((0, 32), (128, 32))  # lanes 0 and 1: words 0 and 1


def test_eight_lanes_share_a_sector_where_their_words_are_equal():
    cost = warp_request("local", "load", 4, [4 * (lane // 8) for lane in range(32)], "sm_90")
    assert (cost.sectors, cost.ideal_sectors) == (4, 4)
    cost = warp_request("local", "load", 4, [4 * (lane % 2) for lane in range(32)], "sm_90")
    assert (cost.sectors, cost.ideal_sectors) == (8, 4)


def test_four_bytes_of_a_word_are_one_word():
    assert warp_request("local", "load", 1, [lane % 4 for lane in range(32)], "sm_90").sectors == 4


def test_inactive_lanes_cost_nothing():
    assert warp_request("local", "load", 4, [0] * 8 + [None] * 24, "sm_90").sectors == 1
    assert warp_request("local", "load", 4, [None] * 32, "sm_90").sectors == 0
