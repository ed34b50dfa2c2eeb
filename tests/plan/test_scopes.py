"""Scopes: where a value may be computed, and which values are available there."""

from __future__ import annotations

import pytest

from cugen.plan.scopes import Scope
from cugen.plan.symbols import symbol
from cugen.spec.expressions import Const, Index, IndexValue, Local, Op, Read, Reduce
from cugen.spec.types import FLOAT32, INT64

READ = Read("A", (IndexValue("i"),), FLOAT32)
VALUE = Local("a", FLOAT32)


@pytest.fixture
def nest():
    """A kernel, a loop over k, one over l inside it."""
    outer = Scope()
    middle = Scope(outer, frozenset("k"))
    return outer, middle, Scope(middle, frozenset("l"))


@pytest.mark.parametrize(("free", "depth"), [("", 0), ("i", 0), ("k", 1), ("ik", 1), ("l", 2), ("kl", 2)])
def test_a_value_is_hoisted_out_of_loops_in_which_it_is_invariant(nest, free, depth):
    assert nest[2].home(frozenset(free)) is nest[depth]


def test_nothing_is_hoisted_out_of_a_conditional_block(nest):
    branch = Scope(nest[1], certain=False)
    assert branch.home(frozenset()) is branch
    assert Scope(branch, frozenset("m")).home(frozenset()) is branch


@pytest.mark.parametrize(("free", "depth"), [("", 0), ("k", 1), ("l", 2)])
def test_what_is_safe_without_an_iteration_is_hoisted_out_of_loops_that_may_be_empty(free, depth):
    outer = Scope()
    middle = Scope(outer, frozenset("k"), certain=False, is_loop=True)
    nest = outer, middle, Scope(middle, frozenset("l"), certain=False, is_loop=True)
    assert nest[2].home(frozenset(free)) is nest[2]
    assert nest[2].home(frozenset(free), is_always_safe=True) is nest[depth]


def test_what_is_always_safe_is_hoisted_out_of_a_likely_condition(nest):
    branch = Scope(nest[1], certain=False, is_likely=True)
    assert branch.home(frozenset()) is branch
    assert branch.home(frozenset(), is_always_safe=True) is nest[0]


def test_what_is_safe_without_an_iteration_stays_under_a_condition(nest):
    branch = Scope(nest[1], certain=False)
    assert Scope(branch, frozenset("m"), certain=False, is_loop=True).home(frozenset(), is_always_safe=True) is branch


def test_values_of_a_scope_are_available_in_nested_scopes_only(nest):
    outer, middle, inner = nest
    middle.remember(READ, VALUE)
    assert inner.recall(READ) == VALUE
    assert outer.recall(READ) is None
    assert Scope(outer).recall(READ) is None


def test_the_innermost_value_is_recalled(nest):
    outer, _, inner = nest
    outer.remember(READ, VALUE)
    inner.remember(READ, Local("b", FLOAT32))
    assert inner.recall(READ) == Local("b", FLOAT32)


def test_forgetting_an_element_invalidates_values_computed_from_it(nest):
    outer, _, inner = nest
    unrelated = Read("B", (IndexValue("i"),), FLOAT32)
    gathered = Read("B", (READ,), FLOAT32)
    for expr in (READ, unrelated, gathered, Op("add", (READ, unrelated), FLOAT32)):
        outer.remember(expr, VALUE)
    inner.forget("A", (IndexValue("j"),))
    assert outer.recall(unrelated) == VALUE
    assert [outer.recall(e) for e in (READ, gathered, Op("add", (READ, unrelated), FLOAT32))] == [None] * 3


def test_forgetting_a_field_keeps_the_other_fields(nest):
    outer, _, inner = nest
    fields = [Read("A", (IndexValue("i"), Const(field, INT64)), FLOAT32) for field in range(2)]
    for read in fields:
        outer.remember(read, VALUE)
    inner.forget("A", (IndexValue("j"), Const(0, INT64)))
    assert [outer.recall(read) for read in fields] == [None, VALUE]


def test_forgetting_an_element_keeps_those_at_a_constant_distance(nest):
    def element(factor: int, offset: int) -> Read:
        scaled = Op("mul", (Const(factor, INT64), IndexValue("i")), INT64)
        return Read("A", (Op("add", (scaled, Const(offset, INT64)), INT64),), FLOAT32)

    for read in (element(2, 0), element(2, 1), element(3, 1)):
        nest[0].remember(read, VALUE)
    nest[2].forget("A", element(2, 0).subscripts)
    assert nest[0].recall(element(2, 0)) is None
    assert nest[0].recall(element(2, 1)) is VALUE
    assert nest[0].recall(element(3, 1)) is None


def test_forgetting_an_element_invalidates_a_sum_over_an_index_of_that_name(nest):
    index = Index("i", Const(8, INT64))
    read = Read("A", (Op("add", (IndexValue("i"), Const(1, INT64)), INT64),), FLOAT32)
    total = Reduce("sum", read, (index,), FLOAT32)
    nest[0].remember(total, VALUE)
    nest[2].forget("A", (IndexValue("i"),))
    assert nest[0].recall(total) is None


def test_indices_are_recalled_by_their_values(nest):
    outer, middle, inner = nest
    middle.remember_index(symbol("i") - 1, symbol("im1"))
    assert inner.recall_index(symbol("i") - 1) == symbol("im1")
    assert outer.recall_index(symbol("i") - 1) is None
