"""The nearest known name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.spec.nearest import did_you_mean, distance, nearest, plural

KNOWN = ("shape", "dtype", "memory", "layout", "pitch", "boundary", "values")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("dtpye", "dtype"), ("Shape", "shape"), ("boundry", "boundary"), ("value", "values"), ("zzz", None), ("", None)],
)
def test_the_nearest_name_is_the_one_that_was_meant(name: str, meant: str | None) -> None:
    assert nearest(name, KNOWN) == meant


def test_of_names_equally_near_the_one_with_the_same_start_is_meant() -> None:
    assert nearest("int3", ("int8", "int32")) == "int32"


@pytest.mark.parametrize(("name", "meant"), [("padding", "pad"), ("val", "value"), ("multiple", "multiple_of")])
def test_a_name_that_begins_another_is_near_to_it(name: str, meant: str) -> None:
    assert did_you_mean(name, ("space", "pad", "value", "multiple_of"), what="keys") == f"did you mean `{meant}`?"


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_distance_is_symmetric_and_zero_only_for_equal_texts(a: str, b: str) -> None:
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= distance(a, b) <= max(len(a), len(b))


def test_help_lists_the_known_names_where_none_is_near() -> None:
    assert did_you_mean("q", ("alpha", "beta"), what="keys") == "known keys: alpha, beta"
    assert did_you_mean("q", (), what="keys") == "there are no keys here"
    assert did_you_mean("q", map(str, range(100, 130)), what="keys").endswith("and 10 more")


@pytest.mark.parametrize(
    ("noun", "nouns"),
    [
        ("layout", "layouts"),
        ("boundary", "boundaries"),
        ("key", "keys"),
        ("index suffix", "index suffixes"),
        ("memory space of a scalar", "memory spaces of a scalar"),
    ],
)
def test_plurals(noun: str, nouns: str) -> None:
    assert plural(noun) == nouns
