"""Limits of occupancy, and what lifts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis import next_step, occupancy
from cugen.machine import Target, known_targets, target
from cugen.machine.occupancy import clustered_multiprocessors

KERNELS = {
    "name": st.sampled_from(known_targets()),
    "threads": st.integers(1, 1024),
    "registers": st.integers(1, 255),
    "shared_bytes": st.integers(0, 64 * 1024),
}


def test_each_resource_has_its_limit_and_the_lowest_ones_are_named():
    actual = occupancy("sm_90", 256, 64, 49152)
    assert actual.limits == {"registers": 4, "shared": 4, "warps": 8, "blocks": 32}
    assert actual.limited_by == ("registers", "shared")
    assert (actual.blocks_per_sm, actual.warps_per_sm, actual.fraction) == (4, 32, 0.5)


def test_a_last_warp_that_is_partly_filled_counts_whole():
    assert occupancy("sm_90", 33, 32).warps_per_sm == 64
    assert occupancy("sm_90", 33, 32).blocks_per_sm == 32


def test_registers_of_fermi_come_in_larger_units_at_some_counts():
    assert occupancy("2.0", 32, 21).limits["registers"] == occupancy("2.0", 32, 24).limits["registers"] == 42
    assert occupancy("2.0", 32, 23).limits["registers"] == 42
    assert occupancy("2.0", 32, 29).limits["registers"] == 32
    assert occupancy("2.0", 32, 27).limits["registers"] == 36


def test_registers_of_1_x_go_to_pairs_of_warps():
    assert occupancy("1.0", 32, 10).limits["registers"] == occupancy("1.0", 64, 10).limits["registers"]


def test_a_block_may_not_take_more_registers_than_its_own_limit_though_the_sm_has_more():
    assert occupancy("3.7", 1024, 64).blocks_per_sm == 2
    assert occupancy("5.3", 1024, 32).blocks_per_sm == 2
    assert occupancy("5.3", 1024, 40).limits["registers"] == 0


@pytest.mark.parametrize("name", known_targets())
def test_a_kernel_that_cannot_be_launched_has_no_blocks(name):
    row = target(name)
    assert occupancy(row, row.threads_per_block + 1, 16).limits["warps"] == 0
    assert occupancy(row, 64, row.registers_per_thread + 1).limits["registers"] == 0
    assert occupancy(row, 64, 16, row.shared_opt_in + 1).limits["shared"] == 0
    assert occupancy(row, 64, 16, row.shared_opt_in).limits["shared"] >= 1


@pytest.mark.parametrize(("threads", "registers", "shared"), [(0, 32, 0), (32, -1, 0), (32, 32, -1)])
def test_impossible_figures_are_refused(threads, registers, shared):
    with pytest.raises(ValueError, match="no kernel has"):
        occupancy("sm_90", threads, registers, shared)


@given(**KERNELS)
def test_occupancy_never_exceeds_the_sm(name, threads, registers, shared_bytes):
    row = target(name)
    actual = occupancy(row, threads, registers, shared_bytes)
    assert actual.blocks_per_sm <= row.blocks_per_sm
    assert actual.blocks_per_sm * threads <= row.threads_per_sm
    assert actual.blocks_per_sm * threads * registers <= row.registers_per_sm
    assert actual.blocks_per_sm * (shared_bytes + row.shared_reserved) <= row.shared_per_sm
    assert 0 <= actual.fraction <= 1


@given(**KERNELS)
def test_the_next_step_holds_more_blocks_and_one_register_or_one_unit_more_does_not(
    name, threads, registers, shared_bytes
):
    row = target(name)
    now = occupancy(row, threads, registers, shared_bytes)
    step = next_step(row, threads, registers, shared_bytes)
    if step is None:
        return
    assert step.occupancy == occupancy(row, threads, step.registers, step.shared_bytes)
    assert step.occupancy.blocks_per_sm > now.blocks_per_sm
    assert step.registers <= registers
    assert step.shared_bytes <= shared_bytes
    if step.registers < registers:
        wider = occupancy(row, threads, step.registers + 1, step.shared_bytes)
        assert wider.blocks_per_sm <= now.blocks_per_sm
    if step.shared_bytes < shared_bytes:
        wider = occupancy(row, threads, step.registers, step.shared_bytes + 1)
        assert wider.blocks_per_sm <= now.blocks_per_sm


@given(**KERNELS)
def test_without_a_next_step_neither_registers_nor_shared_memory_are_limiting(name, threads, registers, shared_bytes):
    row = target(name)
    if next_step(row, threads, registers, shared_bytes) is None:
        bare = occupancy(row, threads, 1, 0)
        assert bare.blocks_per_sm == occupancy(row, threads, registers, shared_bytes).blocks_per_sm


def test_the_next_step_says_how_few_registers_it_takes():
    step = next_step("sm_90", 256, 33)
    assert step is not None
    assert (step.registers, step.occupancy.blocks_per_sm) == (32, 8)
    step = next_step("sm_90", 256, 64, 49152)
    assert step is not None
    assert (step.registers, step.shared_bytes, step.occupancy.blocks_per_sm) == (48, 45568, 5)
    assert next_step("sm_90", 256, 32) is None


def test_missing_limits_are_derived_from_the_others():
    custom = Target("custom", threads_per_sm=512, registers_per_sm=4096, shared_per_block=2048)
    assert (custom.warps_per_sm, custom.registers_per_block, custom.shared_opt_in) == (16, 4096, 2048)


@pytest.mark.parametrize(
    ("name", "percent", "shared_bytes", "kib"),
    [
        ("sm_90", 100, 0, 228),
        ("sm_90", 50, 0, 132),  # 114 KiB, and the next size
        ("sm_90", 0, 0, 8),  # a block's reserved 1 KiB
        ("sm_90", 0, 40_000, 64),
        ("sm_80", 50, 0, 100),
        ("sm_75", 0, 0, 32),
        ("sm_70", 0, 0, 0),
        ("sm_35", 50, 0, 32),
        ("sm_20", 20, 0, 16),
        ("sm_20", 50, 0, 48),
        ("sm_90", None, 0, 228),
    ],
)
def test_a_carve_out_is_the_next_size_that_holds_a_block(name, percent, shared_bytes, kib):
    row = target(name).with_carveout(percent, shared_bytes)
    assert row.shared_per_sm == kib * 1024


@pytest.mark.parametrize("name", known_targets())
def test_the_sizes_of_shared_memory_leave_a_rest_to_l1(name):
    row = target(name)
    assert list(row.carveouts) == sorted(row.carveouts)
    if row.carveouts:
        assert row.carveouts[-1] == row.shared_per_sm < row.l1_bytes


def test_fewer_blocks_fit_a_smaller_carve_out():
    blocks = [occupancy(target("sm_90").with_carveout(p, 16_384), 128, 32, 16_384).blocks_per_sm for p in (100, 25, 0)]
    assert blocks == [13, 3, 1]


@pytest.mark.parametrize(("size", "sms"), [(1, 132), (2, 132), (4, 120), (8, 120)])
def test_clusters_leave_multiprocessors_idle(size, sms):
    assert clustered_multiprocessors(132, size) == sms
    assert 0 < clustered_multiprocessors(66, size) <= 66
