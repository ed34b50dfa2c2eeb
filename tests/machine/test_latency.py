"""Latencies of device memory, and the device that a target stands for."""

from __future__ import annotations

import pytest

from cugen.machine import default_device, device, known_devices, known_targets
from cugen.machine.latency import bandwidth_share, issue_rate, memory_latency


@pytest.mark.parametrize("name", known_devices())
def test_every_device_has_a_latency_of_a_fraction_of_a_microsecond_with_its_source(name):
    latency = memory_latency(device(name))
    assert 100e-9 < latency.seconds < 1e-6
    assert latency.source
    assert latency.assumed == ("no source" in latency.source)


@pytest.mark.parametrize(("name", "megahertz"), [("G80", 1350), ("C1060", 1296), ("A100", 1410), ("H200", 1980)])
def test_the_clock_follows_from_the_published_rate(name, megahertz):
    latency = memory_latency(device(name))
    assert latency.cycles / latency.seconds / 1e6 == pytest.approx(megahertz, rel=2e-3)


def test_old_schedulers_take_four_cycles_to_issue_for_32_lanes_and_new_ones_one():
    assert [memory_latency(device(name)).issue_cycles for name in ("G80", "C2050", "V100", "H200")] == [4, 2, 2, 1]


def test_figures_of_the_guide_hold_for_the_targets_it_names():
    for name, cycles in (("G80", 600), ("C2050", 600), ("K40", 300)):
        latency = memory_latency(device(name))
        assert (latency.cycles, latency.assumed) == (cycles, False)
        assert "programming guide" in latency.source


def test_the_default_device_of_a_target_has_its_capability_or_is_none():
    actual = {target: default_device(target) for target in known_targets()}
    assert all(device.is_of(target) for target, device in actual.items() if device is not None)
    assert {target: actual[target].name for target in ("sm_10", "sm_80", "sm_89", "sm_90")} == {
        "sm_10": "G80",
        "sm_80": "A100",
        "sm_89": "RTX 4090",
        "sm_90": "H200",
    }
    assert actual["sm_52"] is None


@pytest.mark.parametrize("name", ["V100", "A100", "H200"])
def test_all_schedulers_issue_fmas_at_the_published_peak(name):
    assert issue_rate(device(name)) * 32 * 2 == pytest.approx(device(name).peak())


@pytest.mark.parametrize(("kibibytes", "share"), [(15, 0.64), (32, 0.79), (128, 0.94)])
def test_more_bytes_in_flight_come_closer_to_the_bandwidth(kibibytes, share):
    h200 = device("H200")
    assert bandwidth_share(h200, h200.sms * kibibytes * 1024) == pytest.approx(share, abs=0.01)
