"""The table of devices."""

from __future__ import annotations

import pytest

from cugen.machine import UnknownDevice, device, is_known, known_devices

# float32 units per SM that can each start a multiply-add in a cycle
UNITS = {
    "sm_10": 8,
    "sm_13": 8,
    "sm_20": 32,
    "sm_35": 192,
    "sm_60": 64,
    "sm_61": 128,
    "sm_70": 64,
    "sm_75": 64,
    "sm_80": 64,
    "sm_86": 128,
    "sm_89": 128,
    "sm_90": 128,
    "sm_100": 128,
    "sm_120": 128,
}


@pytest.mark.parametrize("name", known_devices())
def test_the_peak_of_a_device_is_that_of_its_units_at_a_plausible_clock(name):
    gpu = device(name)
    clock = gpu.peak() / (2 * gpu.sms * UNITS[gpu.target])
    assert 0.7e9 < clock < 2.8e9


@pytest.mark.parametrize("name", known_devices())
def test_the_figures_of_a_device_are_plausible(name):
    gpu = device(name)
    assert is_known(gpu.target)
    assert 50e9 < gpu.bandwidth <= 8e12
    assert gpu.l2_bytes < 2**27
    rates = dict(gpu.peaks)
    assert rates.get("float64", 0) <= rates["float32"] <= rates.get("tensor_float16", rates["float32"])


def test_device_names_are_case_insensitive():
    assert device("h200") is device("H200")
    assert device("H200").peak("float64") == 33.5e12


def test_an_unknown_device_or_rate_lists_what_is_known():
    with pytest.raises(UnknownDevice, match=r"unknown device 'H300'; known are G80, .*, RTX 5090"):
        device("H300")
    with pytest.raises(ValueError, match="G80 has no published rate for 'float64'; known are float32"):
        device("G80").peak("float64")
