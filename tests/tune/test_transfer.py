"""Which device's schedules start the search on another."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cugen.machine import known_devices
from cugen.schedule.lock import Entry, Time
from cugen.spec.model import Schedule
from cugen.tune.transfer import distance, others_by_distance, schedules_of

FIRST, SECOND = (("y", Schedule("map")),), (("y", Schedule("direct")),)
ENTRY = Entry("scale", "0" * 16, "sm_90", "NVIDIA H200", FIRST, Time(6, 1), Time(12, 1), "0.1.0")


def test_a_device_is_nearest_to_itself() -> None:
    names = known_devices()
    assert all(distance(name, name) == 0 for name in names)
    assert all(distance(a, b) == pytest.approx(distance(b, a)) for a in names for b in names)
    assert min(distance(a, b) for a in names for b in names if a != b) > 0


def test_the_nearest_device_comes_first_and_unknown_ones_last() -> None:
    names = ("NVIDIA T4", "A made-up GPU", "NVIDIA A100-SXM4-80GB", "NVIDIA H200", "NVIDIA H100 80GB HBM3")
    entries = [replace(ENTRY, device=name) for name in names]
    ordered = others_by_distance(entries, "NVIDIA H200")
    assert (ordered[0], ordered[-1]) == ("NVIDIA H100 80GB HBM3", "A made-up GPU")
    assert ordered.index("NVIDIA A100-SXM4-80GB") < ordered.index("NVIDIA T4")
    assert distance("NVIDIA H200", "A made-up GPU") == math.inf


def test_the_winner_and_the_runner_up_are_tried_unless_the_generator_chose_them() -> None:
    entries = [replace(ENTRY, runner_up=(SECOND, Time(7, 1))), replace(ENTRY, device="NVIDIA T4")]
    assert list(schedules_of(entries, "NVIDIA H200")) == [FIRST, SECOND]
    assert list(schedules_of([replace(ENTRY, schedules=())], "NVIDIA H200")) == []
