"""Paths of warps at branches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.machine.divergence import Path, divergence, paths

VALUES = st.lists(st.none() | st.integers(0, 3), max_size=32)


def test_paths_are_ordered_by_their_first_lane():
    assert paths(["b", None, "a", "b"]) == (Path("b", (0, 3)), Path("a", (2,)))


def test_a_false_predicate_is_a_path_and_an_inactive_lane_is_none():
    assert paths([False, None, False]) == (Path(False, (0, 2)),)
    assert paths([None] * 32) == ()


@given(VALUES)
def test_each_active_lane_takes_one_path(values):
    taken = sorted(lane for path in paths(values) for lane in path.lanes)
    assert taken == [lane for lane, value in enumerate(values) if value is not None]


@given(VALUES)
def test_a_warp_is_mixed_where_it_has_two_paths(values):
    actual = divergence(values)
    assert actual.mixed_warps == (len(paths(values)) > 1)
    assert actual.warps == (paths(values) != ())


def test_warps_without_active_lanes_are_not_counted():
    assert divergence([None] * 32 + [True] * 32).warps == 1


def test_a_warp_has_32_lanes():
    with pytest.raises(ValueError, match="32 lanes, not 33"):
        paths([True] * 33)
