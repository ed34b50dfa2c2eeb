"""The steps of the occupancy are those of the rules of the target."""

from __future__ import annotations

import re

import pytest

from cugen.machine.occupancy import occupancy
from cugen.report.charts.occupancy import StepChart, occupancy_charts


def steps(chart: StepChart) -> list[tuple[float, float]]:
    """Corners of the path: x, and the height from there on."""
    corners = []
    x = y = 0.0
    for kind, first, second in re.findall(r"([MHV])([\d.]+)(?: ([\d.]+))?", chart.path):
        if kind == "M":
            x, y = float(first), float(second)
        elif kind == "H":
            x = float(first)
        else:
            y = float(first)
        corners.append((x, y))
    return corners


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", ["gemm_f32.yaml", "transpose_padded.yaml", "gemm_wgmma_f16.yaml"])
def test_the_kernel_is_on_the_steps_of_its_resources(file, gallery_pages):
    (page,) = gallery_pages(file)
    (launch,) = page.launches
    facts = launch.report.facts.occupancy
    registers, shared, threads = occupancy_charts(facts, page.target, launch.registers)
    assert (registers.now.value, shared.now.value, threads.now.value) == (
        launch.registers,
        facts.shared_bytes,
        facts.threads,
    )
    assert registers.is_estimated
    assert shared.now.warps == threads.now.warps == facts.occupancy.warps_per_sm
    assert (
        registers.now.warps == occupancy(page.target, facts.threads, launch.registers, facts.shared_bytes).warps_per_sm
    )
    for chart in (registers, threads):
        below = [height for x, height in steps(chart) if x <= chart.now.x]
        assert below[-1] == pytest.approx(chart.now.y)


def test_the_next_step_has_more_warps(gallery_pages):
    (page,) = gallery_pages("gemm_f32.yaml")
    (launch,) = page.launches
    facts = launch.report.facts.occupancy
    _, shared, _ = occupancy_charts(facts, page.target, launch.registers)
    assert (shared.next.value, shared.next.warps) == (
        facts.next_step.shared_bytes,
        facts.next_step.occupancy.warps_per_sm,
    )
    assert shared.next.y < shared.now.y


def test_fewer_registers_never_have_fewer_warps(gallery_pages):
    (page,) = gallery_pages("gemm_f32.yaml")
    (launch,) = page.launches
    registers, *_ = occupancy_charts(launch.report.facts.occupancy, page.target, launch.registers)
    heights = [height for _, height in steps(registers)]
    assert heights == sorted(heights)
