"""Bandwidth of shared memory."""

from __future__ import annotations

import pytest

from cugen.machine import device, known_devices, target
from cugen.machine.bandwidth import shared_bandwidth, wavefront_bytes
from cugen.machine.latency import memory_latency


@pytest.mark.parametrize(
    ("name", "bytes_per_cycle"),
    [("G80", 32), ("C2050", 64), ("K40", 256), ("GTX 1080", 128), ("V100", 128), ("H200", 128)],
)
def test_the_bytes_of_an_sm_in_a_cycle_are_those_of_the_guide(name: str, bytes_per_cycle: int) -> None:
    known = device(name)
    assert shared_bandwidth(known) == pytest.approx(bytes_per_cycle * known.sms * memory_latency(known).clock)


def test_an_h200_has_33_terabytes_per_second() -> None:
    assert shared_bandwidth(device("H200")) == pytest.approx(33.45e12, rel=1e-3)


def test_all_devices_read_shared_memory_faster_than_device_memory() -> None:
    for known in map(device, known_devices()):
        assert shared_bandwidth(known) > (known.l2_bandwidth or known.bandwidth)


def test_a_wavefront_has_a_word_of_each_bank() -> None:
    assert [wavefront_bytes(target(name)) for name in ("sm_10", "sm_35", "sm_90")] == [64, 256, 128]
