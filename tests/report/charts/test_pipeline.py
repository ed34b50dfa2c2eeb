"""The chart of a pipeline has a row for each role and each stage, in the order of its slots."""

from __future__ import annotations

import pytest

from cugen.report.charts.pipeline import pipeline_chart


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", ["gemm_f32.yaml", "matmul_tiled.yaml", "gemm_wgmma_f16.yaml"])
def test_each_event_and_each_copy_is_a_box_of_its_row(file, gallery_pages):
    (timeline,) = (launch.timeline for page in gallery_pages(file) for launch in page.launches)
    chart = pipeline_chart(timeline)
    names = [label.text for label in chart.labels]
    assert names == [*(role for role, _ in timeline.roles), *(f"stage {n}" for n in range(timeline.stages))]
    rows = {label.y: [mark for mark in chart.marks if mark.y == label.y] for label in chart.labels}
    assert sum(map(len, rows.values())) == len(chart.marks)
    for (_, events), marks in zip(timeline.roles, rows.values(), strict=False):
        assert [mark.kind for mark in marks] == [event.kind for event in events]
        assert [mark.x for mark in marks] == sorted({mark.x for mark in marks})
    for mark in chart.marks:
        assert chart.left < mark.x < mark.x + mark.width < chart.width
        assert mark.y + chart.box < chart.height


def test_the_text_alternative_says_when_each_tile_is_copied_and_read(gallery_pages):
    (page,) = gallery_pages("matmul_tiled.yaml")
    chart = pipeline_chart(page.launches[0].timeline)
    first = "k-tile 0 in stage 0: copy issued in slot 0, complete in 1, read in 2"
    assert chart.summary.split("; ")[0] == first
