"""Figures of device memory have a source, and give the published bandwidths."""

from __future__ import annotations

import pytest

from cugen.machine import device, known_devices, known_targets, target
from cugen.machine.dram import dram, memory_partitions


@pytest.mark.parametrize("name", known_devices())
def test_width_and_clock_give_the_published_bandwidth_or_have_no_figure(name: str) -> None:
    memory, published = dram(device(name)), device(name).bandwidth
    assert memory.kind
    assert bool(memory.source) == bool(memory.bandwidth)
    assert memory.bandwidth in (0, pytest.approx(published, rel=2e-3))


@pytest.mark.parametrize("name", known_devices())
def test_a_burst_is_whole_sectors_and_has_a_source(name: str) -> None:
    burst = dram(device(name)).burst
    assert burst is None or (burst.source and burst.bytes % 32 == 0)


def test_a_64_bit_channel_at_1_ghz_with_two_transfers_per_cycle_moves_16_gb_per_s() -> None:
    g80 = dram(device("G80"))
    assert g80.bandwidth / g80.bus_bits * 64 / g80.clock * 1e9 == 16e9


def test_memory_whose_standard_is_not_public_has_no_burst() -> None:
    assert dram(device("RTX 3090")).burst is None
    assert dram(device("RTX 5090")).burst is None


@pytest.mark.parametrize("name", known_targets())
def test_partitions_are_documented_of_g80_and_gt200_only(name: str) -> None:
    row = target(name)
    expected = {(1, 0): 6, (1, 3): 8}.get(row.capability, 0)
    assert memory_partitions(row) == expected
