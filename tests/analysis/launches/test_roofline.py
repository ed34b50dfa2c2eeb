"""The roofline and what hides latency."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis.launches.roofline import (
    bandwidth_for,
    bound,
    bytes_in_flight,
    intensity,
    is_memory_bound,
    ridge,
    warps_to_hide,
)
from cugen.machine import device, known_devices

RATES = st.floats(1e9, 1e16)


@given(RATES, RATES, st.floats(1e-3, 1e4))
def test_the_bound_is_the_peak_from_the_ridge_on_and_below_it_less(peak, bandwidth, flop_per_byte):
    assert bound(flop_per_byte, peak, bandwidth) <= peak
    assert bound(ridge(peak, bandwidth) * 1.001, peak, bandwidth) == peak
    if is_memory_bound(flop_per_byte, peak, bandwidth):
        assert bandwidth_for(bound(flop_per_byte, peak, bandwidth), flop_per_byte) == pytest.approx(bandwidth)


def test_a_kernel_without_traffic_is_never_bound_by_memory():
    assert intensity(100, 0) == math.inf
    assert bound(intensity(100, 0), 1e12, 1e9) == 1e12


def test_the_ridge_of_every_device_grew_with_its_tensor_units():
    for name in known_devices():
        gpu = device(name)
        for kind, peak in gpu.peaks:
            if kind == "tensor_float16":
                assert ridge(peak, gpu.bandwidth) > ridge(gpu.peak(), gpu.bandwidth)


def test_littles_law_asks_an_h200_sm_for_tens_of_kilobytes_in_flight():
    h200 = device("H200")
    assert 20e3 < bytes_in_flight(h200.bandwidth, 1e-6) / h200.sms < 40e3


@pytest.mark.parametrize(("latency", "between", "cycles", "warps"), [(400, 6, 4, 17), (400, 100, 4, 1), (48, 6, 4, 2)])
def test_warps_that_hide_a_latency_are_rounded_up(latency, between, cycles, warps):
    assert warps_to_hide(latency, between, cycles) == warps
