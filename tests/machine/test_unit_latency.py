"""Latencies of the units of an SM have a source, or none is claimed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cugen.kernel_report import analyze
from cugen.machine import known_targets, target
from cugen.machine.latency import issue_cycles
from cugen.machine.unit_latency import UNITS, unit_latency
from cugen.spec.load import load_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", known_targets())
@pytest.mark.parametrize("unit", UNITS)
def test_a_figure_has_a_source_and_what_has_none_no_figure(unit: str, name: str) -> None:
    latency = unit_latency(unit, target(name))
    assert (latency.cycles is None) == (latency.source == "")
    assert not (latency.assumed and unit != "registers")


@pytest.mark.parametrize(
    ("unit", "name", "cycles"),
    [
        ("registers", "sm_13", 24),
        ("registers", "sm_20", 22),
        ("registers", "sm_35", 11),
        ("registers", "sm_50", None),
        ("registers", "sm_75", 4),
        ("shared", "sm_10", 38),
        ("shared", "sm_70", 19),
        ("shared", "sm_86", None),
        ("registers", "sm_86", 4),
        ("registers", "sm_120", 4),
        ("constant", "sm_13", 8),
        ("constant", "sm_80", None),
        ("texture", "sm_13", 261),
        ("texture", "sm_100", None),
    ],
)
def test_figures_are_those_of_the_targets_they_were_measured_on(unit: str, name: str, cycles: float | None) -> None:
    assert unit_latency(unit, target(name)).cycles == cycles


def test_newer_targets_are_assumed_to_keep_the_latency_of_registers() -> None:
    assumed = [name for name in known_targets() if unit_latency("registers", target(name)).assumed]
    assert set(assumed) == {name for name in known_targets() if target(name).capability >= (8, 0)} - {"sm_90", "sm_90a"}


@pytest.mark.parametrize("unit", UNITS)
def test_figures_of_sm_90_are_those_that_were_measured(unit: str) -> None:
    content = json.loads((ROOT / "docs" / "results" / "latencies_h100.json").read_text())
    first = next(row["cycles"] for row in content["chases"] if row["unit"] == unit)  # the fewest bytes
    assert unit_latency(unit, target("sm_90a")).cycles == round(first)


def test_six_warps_hide_the_latency_of_registers_on_old_schedulers() -> None:
    row = target("sm_13")
    assert unit_latency("registers", row).warps_to_hide(issue_cycles(row)) == 6  # 192 threads


def test_the_report_names_the_units_that_a_launch_reads() -> None:
    text = """\
cugen: 1
kernel: scaled
target: sm_13
arrays:
  s: {shape: [4], dtype: float32, memory: constant}
  x: {shape: [1000], dtype: float32}
  y: {shape: [1000], dtype: float32}
compute: y[i] = s[1] * x[i]
"""
    (spec,) = load_text(text)
    said = [text for topic, text in analyze(spec).kernels[0].sentences if topic == "latency"]
    assert any(
        "24 cycles to the result of an instruction: without independent instructions 6 warps" in text for text in said
    )
    assert any("8 cycles to the first level of the constant cache" in text and "Wong" in text for text in said)
    assert not any("shared memory" in text or "texture" in text for text in said)
