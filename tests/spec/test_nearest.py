"""The nearest known name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.spec.nearest import did_you_mean, distance, nearest

KNOWN = ("shape", "dtype", "memory", "layout", "pitch", "boundary", "values")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("dtpye", "dtype"), ("Shape", "shape"), ("boundry", "boundary"), ("value", "values"), ("zzz", None), ("", None)],
)
def test_the_nearest_name_is_the_one_that_was_meant(name: str, meant: str | None) -> None:
    assert nearest(name, KNOWN) == meant


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_distance_is_symmetric_and_zero_only_for_equal_texts(a: str, b: str) -> None:
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= distance(a, b) <= max(len(a), len(b))


def test_help_lists_the_known_names_where_none_is_near() -> None:
    assert did_you_mean("q", ("alpha", "beta"), what="keys") == "known keys: alpha, beta"
    assert did_you_mean("q", (), what="keys") == "there are no keys here"
    assert did_you_mean("q", map(str, range(100, 130)), what="keys").endswith("and 10 more")
