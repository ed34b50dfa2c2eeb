"""Figures of the literature on occupancy and on hiding latency."""

from __future__ import annotations

import pytest

from cugen.analysis import occupancy
from cugen.analysis.launches.roofline import warps_to_hide
from cugen.machine import Target, known_targets, target

TEXTBOOK = Target("textbook", threads_per_sm=1536, registers_per_sm=16384, register_unit=1)


def test_35_a_made_up_sm_with_16384_registers_holds_1536_threads_of_10_but_1024_of_11():
    assert occupancy(TEXTBOOK, 512, 10).warps_per_sm * 32 == 1536
    actual = occupancy(TEXTBOOK, 512, 11)
    assert actual.warps_per_sm * 32 == 1024
    assert actual.limited_by == ("registers",)


@pytest.mark.parametrize(("registers", "blocks"), [(20, 3), (22, 2)])
def test_36_two_registers_more_cost_a_c1060_a_block(registers, blocks):
    assert occupancy("1.3", 256, registers).blocks_per_sm == blocks


def test_37_16_kb_hold_three_blocks_of_5_kb():
    assert occupancy("1.3", 64, 10, 5 * 1024).blocks_per_sm == 3


def test_38_two_16x16_tiles_of_floats_in_each_of_six_blocks_take_12_kb():
    tiles = 2 * 16 * 16 * 4
    actual = occupancy("2.0", 256, 20, tiles)
    assert actual.blocks_per_sm == 6
    assert actual.blocks_per_sm * tiles == 12 * 1024
    assert "shared" not in actual.limited_by


@pytest.mark.parametrize(("registers", "blocks"), [(20, 3), (21, 2)])
def test_39_one_register_more_costs_fermi_a_block(registers, blocks):
    assert occupancy("2.0", 512, registers).blocks_per_sm == blocks


@pytest.mark.parametrize(("registers", "blocks"), [(32, 8), (33, 6), (64, 4)])
def test_40_registers_of_256_threads_on_hopper(registers, blocks):
    assert occupancy("sm_90", 256, registers).blocks_per_sm == blocks


@pytest.mark.parametrize(("registers", "blocks"), [(64, 1), (65, 0)])
def test_41_a_block_of_1024_threads_with_65_registers_cannot_be_launched(registers, blocks):
    assert occupancy("sm_90", 1024, registers).blocks_per_sm == blocks


@pytest.mark.parametrize(("kilobytes", "blocks"), [(48, 4), (64, 3)])
def test_42_dynamic_shared_memory_of_256_threads_on_hopper(kilobytes, blocks):
    assert occupancy("sm_90", 256, 32, kilobytes * 1024).blocks_per_sm == blocks


def test_43_the_reserved_kilobyte_of_each_block_counts():
    assert occupancy("sm_90", 64, 32, 7 * 1024).blocks_per_sm == 28
    without = Target("no reserve", shared_per_sm=228 * 1024, shared_reserved=0)
    assert occupancy(without, 64, 32, 7 * 1024).blocks_per_sm == 32


def test_44_seventeen_warps_hide_400_cycles_with_six_instructions_of_four_cycles_per_load():
    assert warps_to_hide(latency=400, instructions_between=6, cycles_each=4) == 17


def test_45_three_blocks_of_256_threads_are_24_warps():
    actual = occupancy("1.0", 256, 10)
    assert (actual.blocks_per_sm, actual.warps_per_sm, actual.fraction) == (3, 24, 1.0)


def test_hopper_has_114_bytes_of_shared_memory_per_thread_less_the_reserved_kilobytes():
    hopper = target("sm_90")
    assert hopper.shared_per_sm / hopper.threads_per_sm == 114
    assert occupancy(hopper, 1024, 32, 112 * 1024).blocks_per_sm == 2
    assert occupancy(hopper, 1024, 32, 113 * 1024).blocks_per_sm == 2
    assert occupancy(hopper, 1024, 32, 114 * 1024).blocks_per_sm == 1


def test_a_g80_sm_holds_three_blocks_of_256_threads_and_not_eight():
    actual = occupancy("sm_10", 256, 8)
    assert actual.blocks_per_sm == 3
    assert actual.limits["blocks"] == 8
    assert "warps" in actual.limited_by


def test_eight_blocks_per_sm_was_the_limit_before_3_0_only():
    few = [name for name in known_targets() if target(name).blocks_per_sm <= 8]
    assert few == [name for name in known_targets() if target(name).capability < (3, 0)]


@pytest.mark.parametrize("target", ["sm_10", "sm_13", "sm_20", "sm_35", "sm_61", "sm_75"])
def test_a_resource_that_a_block_does_not_use_limits_nothing(target):
    assert occupancy(target, 32, 1, 0).limited_by == ("blocks",)
    assert "shared" not in occupancy(target, 32, 0, 0).limited_by
