"""Every measured request of an sm_90 device against the rules."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from cugen.analysis import WarpRequest, warp_request

DATA = Path(__file__).parents[1] / "data" / "sm90_counters.csv"


@dataclass(frozen=True)
class Row:
    space: str
    kind: str
    width: int
    note: str
    addresses: tuple[int | None, ...]
    counter: str
    value: int

    @property
    def group(self) -> tuple[str, str, int]:
        return self.space, self.kind, self.width

    def predicted(self) -> WarpRequest:
        return warp_request(self.space, self.kind, self.width, self.addresses, "sm_90")


def measured() -> list[Row]:
    with DATA.open() as file:
        return [
            Row(
                row["space"],
                row["kind"],
                int(row["width"]),
                row["note"],
                tuple(None if lane == "-" else int(lane) for lane in row["lanes"].split()),
                row["counter"],
                int(row["value"]),
            )
            for row in csv.DictReader(file)
        ]


ROWS = measured()
GROUPS = sorted({row.group for row in ROWS})


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: "-".join(map(str, group)))
def test_every_row_that_is_not_assumed_equals_its_counter(group):
    rows = [(row, row.predicted()) for row in ROWS if row.group == group]
    wrong = [
        (row.note, row.value, actual)
        for row, actual in rows
        if not actual.assumed and getattr(actual, row.counter) != row.value
    ]
    assert wrong == []


def test_the_rows_cover_every_space_and_kind():
    assert Counter((row.space, row.kind) for row in ROWS) == {
        ("shared", "load"): 670,
        ("shared", "store"): 198,
        ("shared", "async_copy"): 214,
        ("shared", "matrix_load"): 23,
        ("shared", "matrix_store"): 29,
        ("shared", "atomic"): 36,
        ("global", "load"): 63,
        ("global", "store"): 82,
        ("constant", "load"): 10,
    }


def test_only_two_kinds_of_row_are_assumed_and_their_number_is_known():
    assert Counter(row.group for row in ROWS if row.predicted().assumed) == {
        ("shared", "load", 16): 40,
        ("shared", "async_copy", 16): 10,
    }


def test_merged_wide_loads_with_inactive_lanes_cost_at_most_one_more_for_each_half_warp():
    rows = [row for row in ROWS if row.group == ("shared", "load", 16) and row.predicted().assumed]
    excess = Counter(row.value - row.predicted().wavefronts for row in rows)
    assert excess == {0: 15, 1: 25}
    assert all(None in row.addresses and "at most one more wavefront" in row.predicted().assumption for row in rows)


def test_of_wide_copies_to_one_destination_only_the_lowest_lane_counts():
    rows = [row for row in ROWS if row.kind == "async_copy" and row.predicted().assumed]
    assert all(len(set(row.addresses)) < 32 for row in rows)
    assert [row.predicted().wavefronts for row in rows] == [row.value for row in rows]


def test_no_measured_row_is_below_the_ideal():
    for row in ROWS:
        actual = row.predicted()
        ideal = {
            "wavefronts": actual.ideal_wavefronts,
            "sectors": actual.ideal_sectors,
            "requests": actual.ideal_wavefronts,
        }[row.counter]
        assert ideal <= row.value, row
