"""What a page shows: the accesses of the analysis with their lines, formulas, layouts and traffic."""

from __future__ import annotations

import pytest

TRANSPOSE = """
cugen: 1
kernel: turn
params: {M: 70, N: 96}
arrays:
  x: {shape: [M, N], dtype: float32, memory: {space: shared, pad: 0}}
  y: {shape: [N, M], dtype: float32}
compute: y[n, m] = x[m, n]
schedule: {family: transpose}
"""
DYNAMIC = """
cugen: 1
kernel: shift
params: {N: {range: [8, 4000]}}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[N - 1 - i]
"""
GATHER = """
cugen: 1
kernel: pick
params: {V: 50, N: 200}
arrays:
  table: {shape: [V], dtype: float32}
  ids: {shape: [N], dtype: int32}
  y: {shape: [N], dtype: float32}
compute: y[i] = table[ids[i]]
"""
PAGES = ("matmul_padded.yaml", "gemm_f32.yaml", "prefix_sum.yaml", "softmax_long_rows.yaml", "matmul_small.yaml")


def test_an_access_has_the_line_of_the_source_that_prints_it(page_of):
    page = page_of(TRANSPOSE)
    lines = page.kernel.source.splitlines()
    assert [entry.number for entry in page.entries] == list(range(1, 5))
    for entry in page.entries:
        assert entry.report.text in lines[entry.line - 1]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("file", PAGES)
def test_the_current_layout_of_a_tile_costs_what_the_analysis_says(file, gallery_pages):
    for page in gallery_pages(file):
        reports = {entry.report.access.serial: entry.report for entry in page.entries}
        for launch in page.launches:
            for tile in launch.tiles:
                (current,) = (layout for layout in tile.layouts if layout.is_current)
                for serial, costs in zip(tile.accesses, current.costs, strict=True):
                    known = reports[serial].totals is not None
                    assert (costs is not None) == known
                    assert costs is None or costs[:2] == (reports[serial].cost, reports[serial].ideal)


@pytest.mark.parametrize("file", PAGES)
def test_the_traffic_of_the_arrays_adds_up_to_that_of_the_analysis(file, gallery_pages):
    for page in gallery_pages(file):
        for launch in page.launches:
            traffic = launch.report.facts.traffic
            if traffic is not None:
                sums = {
                    direction: (
                        sum(row.requested for row in launch.traffic if row.direction == direction),
                        sum(row.moved for row in launch.traffic if row.direction == direction),
                    )
                    for direction in ("read", "written")
                }
                assert sums["read"] == (traffic.read, traffic.sectors_read)
                assert sums["written"] == (traffic.written, traffic.sectors_written)


def test_a_formula_names_what_it_is_made_of(page_of):
    load = page_of(TRANSPOSE).entries[0]
    names = dict(load.formula.where)
    assert load.formula.offset
    assert all(text.startswith(("=", "in")) for text in names.values())


def test_a_param_without_a_value_is_a_variable_of_the_map(page_of):
    load = page_of(DYNAMIC).entries[0]
    (size,) = (variable for variable in load.lanes.variables if variable.kind == "param")
    assert (size.name, size.low, size.high, size.initial) == ("N", 8, 4000, 1000)
    assert page_of(DYNAMIC).launches[0].traffic == ()
    assert "N" not in {variable.name for variable in page_of(DYNAMIC, N=64).entries[0].lanes.variables}


def test_a_launch_of_no_blocks_has_no_map(page_of):
    page = page_of(DYNAMIC.replace("[8, 4000]", "[0, 4000]"), N=0)
    assert {entry.lanes for entry in page.entries} == {"nothing runs at these sizes"}


def test_addresses_that_depend_on_data_have_no_map_but_a_reason(page_of):
    entries = {entry.report.access.array.name: entry for entry in page_of(GATHER).entries}
    assert "read from memory" in entries["table"].lanes
    assert not isinstance(entries["ids"].lanes, str)
    (row,) = (row for row in page_of(GATHER).launches[0].traffic if row.array == "table")
    assert (row.moved, row.efficiency) == (None, None)
