"""Names in C: the user's own wherever C allows them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.names import Names
from cugen.spec import c_names

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
wishes = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["int", "x", "x_", "x_2", "x_3", "row", "gamma", "__x", "_X", "1a", "", "é", "v", "vé"]),
)


@given(st.lists(wishes, max_size=25))
def test_names_are_identifiers_and_each_is_handed_out_once(wanted):
    names = Names()
    given_out = [names.allocate(wish) for wish in wanted]
    assert len(set(given_out)) == len(given_out)
    for name in given_out:
        assert IDENTIFIER.fullmatch(name)
        assert not c_names.is_taken(name)
        assert not name.startswith("__")
        assert not re.match(r"_[A-Z]", name)


@given(st.lists(wishes, max_size=10), st.lists(wishes, max_size=10))
def test_a_child_avoids_the_names_of_its_parent_and_siblings_share(outer, inner):
    parent = Names()
    taken = {parent.allocate(wish) for wish in outer}
    first, second = Names(parent), Names(parent)
    ours = [first.allocate(wish) for wish in inner]
    assert not taken & set(ours)
    assert ours == [second.allocate(wish) for wish in inner]


@given(st.lists(wishes, max_size=10))
def test_the_same_wishes_get_the_same_names(wanted):
    def hand_out():
        names = Names()
        return [names.allocate(wish) for wish in wanted]

    assert hand_out() == hand_out()


@pytest.mark.parametrize("wish", ["A", "row", "k0", "_low", "Weights", "x2"])
def test_a_good_name_is_kept(wish):
    assert Names().allocate(wish) == wish


def test_a_taken_name_gets_an_underscore_and_then_numbers():
    names = Names()
    assert [names.allocate("sum") for _ in range(4)] == ["sum", "sum_", "sum_2", "sum_3"]


@pytest.mark.parametrize(
    "word", ["int", "gamma", "near", "threadIdx", "exp", "status", "stream", "y0", "half", "random", "minimum"]
)
def test_a_word_of_c_gets_an_underscore(word):
    assert Names().allocate(word) == word + "_"


@pytest.mark.parametrize(
    ("wish", "name"), [("é", "ue9"), ("2x", "v2x"), ("", "v"), ("__x", "v__x"), ("_Bool", "v_Bool")]
)
def test_what_is_no_identifier_becomes_one(wish, name):
    assert Names().allocate(wish) == name
