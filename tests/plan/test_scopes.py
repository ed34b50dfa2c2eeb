"""Scopes: where a value may be computed, and what is already known there."""

from __future__ import annotations

import pytest

from cugen.plan.scopes import Scope
from cugen.plan.symbols import symbol
from cugen.spec.expressions import IndexValue, Local, Op, Read
from cugen.spec.types import FLOAT32

READ = Read("A", (IndexValue("i"),), FLOAT32)
VALUE = Local("a", FLOAT32)


@pytest.fixture
def nest():
    """A kernel, a loop over k, one over l inside it."""
    outer = Scope()
    middle = Scope(outer, frozenset("k"))
    return outer, middle, Scope(middle, frozenset("l"))


@pytest.mark.parametrize(("free", "place"), [("", 0), ("i", 0), ("k", 1), ("ik", 1), ("l", 2), ("kl", 2)])
def test_a_value_stands_outside_the_loops_whose_indices_it_does_not_use(nest, free, place):
    assert nest[2].home(frozenset(free)) is nest[place]


def test_nothing_leaves_a_block_that_may_not_run(nest):
    branch = Scope(nest[1], certain=False)
    assert branch.home(frozenset()) is branch
    assert Scope(branch, frozenset("m")).home(frozenset()) is branch


def test_what_is_known_outside_is_known_inside_but_not_beside(nest):
    outer, middle, inner = nest
    middle.remember(READ, VALUE)
    assert inner.recall(READ) == VALUE
    assert outer.recall(READ) is None
    assert Scope(outer).recall(READ) is None


def test_the_innermost_value_counts(nest):
    outer, _, inner = nest
    outer.remember(READ, VALUE)
    inner.remember(READ, Local("b", FLOAT32))
    assert inner.recall(READ) == Local("b", FLOAT32)


def test_forgetting_an_array_drops_what_was_computed_from_it(nest):
    outer, _, inner = nest
    other = Read("B", (IndexValue("i"),), FLOAT32)
    gathered = Read("B", (READ,), FLOAT32)
    for expr in (READ, other, gathered, Op("add", (READ, other), FLOAT32)):
        outer.remember(expr, VALUE)
    inner.forget("A")
    assert outer.recall(other) == VALUE
    assert [outer.recall(e) for e in (READ, gathered, Op("add", (READ, other), FLOAT32))] == [None] * 3


def test_indices_are_recalled_by_their_values(nest):
    outer, middle, inner = nest
    middle.remember_index(symbol("i") - 1, symbol("im1"))
    assert inner.recall_index(symbol("i") - 1) == symbol("im1")
    assert outer.recall_index(symbol("i") - 1) is None
