"""Latencies of device memory, and the device that a target stands for."""

from __future__ import annotations

import pytest

from cugen.machine import default_device, device, known_devices, known_targets
from cugen.machine.latency import memory_latency


@pytest.mark.parametrize("name", known_devices())
def test_every_device_has_a_latency_of_a_fraction_of_a_microsecond_with_its_source(name):
    found = memory_latency(device(name))
    assert 100e-9 < found.seconds < 1e-6
    assert found.source
    assert found.assumed == ("no source" in found.source)


@pytest.mark.parametrize(("name", "megahertz"), [("G80", 1350), ("C1060", 1296), ("A100", 1410), ("H200", 1980)])
def test_the_clock_follows_from_the_published_rate(name, megahertz):
    found = memory_latency(device(name))
    assert found.cycles / found.seconds / 1e6 == pytest.approx(megahertz, rel=2e-3)


def test_old_schedulers_take_four_cycles_to_issue_for_32_lanes_and_new_ones_one():
    assert [memory_latency(device(name)).issue_cycles for name in ("G80", "C2050", "V100", "H200")] == [4, 2, 2, 1]


def test_figures_of_the_guide_hold_for_the_targets_it_names():
    for name, cycles in (("G80", 600), ("C2050", 600), ("K40", 300)):
        found = memory_latency(device(name))
        assert (found.cycles, found.assumed) == (cycles, False)
        assert "programming guide" in found.source


def test_a_target_stands_for_a_device_of_its_own_capability_or_for_none():
    found = {target: default_device(target) for target in known_targets()}
    assert all(device.target == target for target, device in found.items() if device is not None)
    assert {target: found[target].name for target in ("sm_10", "sm_80", "sm_89", "sm_90")} == {
        "sm_10": "G80",
        "sm_80": "A100",
        "sm_89": "RTX 4090",
        "sm_90": "H200",
    }
    assert found["sm_52"] is None
