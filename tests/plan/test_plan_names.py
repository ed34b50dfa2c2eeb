"""Allocation of C identifiers: the user's names wherever C allows them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.names import Names
from cugen.spec import c_names

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
name_hints = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["int", "x", "x_", "x_2", "x_3", "row", "gamma", "__x", "_X", "1a", "", "é", "v", "vé"]),
)


@given(st.lists(name_hints, max_size=25))
def test_names_are_identifiers_and_are_unique(hints):
    names = Names()
    names_given = [names.allocate(name_hint) for name_hint in hints]
    assert len(set(names_given)) == len(names_given)
    for name in names_given:
        assert IDENTIFIER.fullmatch(name)
        assert not c_names.is_taken(name)
        assert not name.startswith("__")
        assert not re.match(r"_[A-Z]", name)


@given(st.lists(name_hints, max_size=10), st.lists(name_hints, max_size=10))
def test_a_child_avoids_the_names_of_its_parent_and_siblings_share(outer, inner):
    parent = Names()
    taken = {parent.allocate(name_hint) for name_hint in outer}
    first, second = Names(parent), Names(parent)
    ours = [first.allocate(name_hint) for name_hint in inner]
    assert not taken & set(ours)
    assert ours == [second.allocate(name_hint) for name_hint in inner]


def test_a_variable_of_a_kernel_may_hide_a_bessel_function_and_no_name_of_the_file_does():
    assert (Names(Names()).allocate("j0"), Names().allocate("j0")) == ("j0", "j0_")


@given(st.lists(name_hints, max_size=10))
def test_equal_hints_get_the_same_names(hints):
    def allocate_all():
        names = Names()
        return [names.allocate(name_hint) for name_hint in hints]

    assert allocate_all() == allocate_all()


@pytest.mark.parametrize("name_hint", ["A", "row", "k0", "_low", "Weights", "x2"])
def test_a_good_name_is_kept(name_hint):
    assert Names().allocate(name_hint) == name_hint


def test_a_taken_name_gets_an_underscore_and_then_numbers():
    names = Names()
    assert [names.allocate("sum") for _ in range(4)] == ["sum", "sum_", "sum_2", "sum_3"]


@pytest.mark.parametrize(
    "word",
    [
        "int",
        "gamma",
        "near",
        "threadIdx",
        "exp",
        "status",
        "stream",
        "y0",
        "half",
        "random",
        "minimum",
        "CUGEN_LOAD",
        "cugen_max",
    ],
)
def test_a_c_keyword_gets_an_underscore(word):
    assert Names().allocate(word) == word + "_"


@pytest.mark.parametrize(
    ("name_hint", "name"), [("é", "ue9"), ("2x", "v2x"), ("", "v"), ("__x", "v__x"), ("_Bool", "v_Bool")]
)
def test_an_invalid_identifier_is_made_valid(name_hint, name):
    assert Names().allocate(name_hint) == name
