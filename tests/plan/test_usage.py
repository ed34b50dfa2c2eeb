"""A kernel's parameters are exactly what its body uses."""

from __future__ import annotations

import pytest

from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Assign,
    Comparison,
    Copy,
    Declare,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    ReturnUnless,
    Store,
)
from cugen.plan.symbols import integer, symbol
from cugen.plan.traversal import usage
from cugen.spec.expressions import Const, Local, Op, ParamValue, ScalarValue
from cugen.spec.types import FLOAT32, INT64

ROW, K, M, N = (symbol(name) for name in ("i", "k", "M", "N"))
A = Array("A", "A", FLOAT32, (M, N), (N, integer(1)), "global")
TILE = Array("A", "As", FLOAT32, (integer(4), integer(4)), (integer(4), integer(1)), "shared", flat=False)
X = Local("x", FLOAT32)


def load(*subscripts, guard=None):
    return Load(X, Access(A, subscripts, "load"), guard, Const(0, FLOAT32) if guard else None)


def test_a_flat_access_uses_the_symbols_of_its_offset():
    assert usage.free_symbols((load(ROW, K),)) == {ROW, K, N}  # i * N + k, without M


def test_an_array_of_arrays_uses_its_subscripts_only():
    assert usage.free_symbols((Store(Access(TILE, (ROW, K), "store"), X),)) == {ROW, K}


@pytest.mark.parametrize(
    "node",
    [
        Load(X, Access(TILE, (ROW, ROW), "load"), Guard((Comparison(ROW, "<", N),)), Const(0, FLOAT32)),
        Copy(Access(TILE, (ROW, ROW), "store"), Access(TILE, (ROW, ROW), "load"), Guard((Comparison(ROW, "<", N),))),
        ReturnUnless(Guard((Comparison(ROW, "<", N),))),
        If(Guard((Comparison(ROW, "<", N),)), ()),
        For(Loop(Index("i", ROW, (0, 3)), ROW, N), ()),
    ],
    ids=lambda node: type(node).__name__,
)
def test_bounds_and_guards_of_every_node_are_used(node):
    assert usage.free_symbols((node,)) == {ROW, N}
    assert usage.free_symbols((If(Guard(()), (node,)),)) == {ROW, N}
    assert usage.free_symbols((If(Guard(()), (), (node,)),)) == {ROW, N}


def test_values_name_params_and_scalars():
    value = Op("mul", (ParamValue("M"), ScalarValue("alpha", FLOAT32)), FLOAT32)
    nodes = (
        Let(X, value),
        Load(X, Access(TILE, (ROW, ROW), "load"), Guard(()), ScalarValue("fill", FLOAT32)),
        If(Op("lt", (ParamValue("L"), Const(1, INT64)), FLOAT32), ()),
    )
    assert usage.params(nodes) == {"M", "L"}
    assert usage.scalars(nodes) == {"alpha", "fill"}


def test_arrays_are_listed_once_declared_ones_first():
    element = Element.of(Access(A, (ROW, K), "load"))
    nodes = (Store(Access(TILE, (ROW, K), "store"), element), Declare(TILE), load(ROW, K))
    assert [array.symbol for array in usage.arrays(nodes)] == ["As", "A"]


def test_an_empty_body_uses_nothing():
    assert usage.free_symbols(()) == frozenset()
    assert usage.arrays(()) == ()


# Parameters of kernels


def arguments(plan):
    return [kernel.arguments for kernel in plan.kernels]


def test_a_kernel_takes_what_its_statements_touch_in_the_order_of_the_spec(make):
    top = "params: {M: dynamic, N: dynamic}\nscalars: {a: {dtype: float32}, b: {dtype: float32}}"
    plan = make("Y[i, j] = b * A[i, j]\nz = a * sum(B[k], k)", A="M, N", B="8", Y="M, N", z="; float32", top=top)
    assert arguments(plan) == [("A", "Y", "b", "M", "N"), ("B", "z", "a")]


def test_a_param_that_only_the_grid_needs_is_no_argument(make):
    assert arguments(make("Y[i] = 1", Y="N", top="params: {N: {range: [8, 4096], multiple_of: 256}}")) == [("Y",)]
    assert arguments(make("Y[i] = 1", Y="N", top="params: {N: {range: [8, 4096]}}")) == [("Y", "N")]


def test_a_param_used_as_a_value_is_an_argument(make):
    assert arguments(make("Y[i] = A[i] / N", A="8", Y="8", top="params: {N: dynamic}")) == [("A", "Y", "N")]


def test_fixed_params_and_scalars_are_no_arguments(make):
    top = "params: {N: 8}\nscalars: {a: {dtype: float32, value: 2}}"
    assert arguments(make("Y[i] = a * A[i] / N", A="N", Y="N", top=top)) == [("A", "Y")]


def test_constant_arrays_and_scalars_are_no_arguments(make):
    plan = make(
        "Y[i] = a * A[i] + W[3]",
        A="8",
        Y="8",
        W="8; float32; memory: constant",
        top="scalars: {a: {dtype: float32, memory: constant}}",
    )
    assert arguments(plan) == [("A", "Y")]
    assert [(u.symbol, u.argument, u.bytes) for u in plan.uploads] == [("a", "a", 4), ("W_constant", "W", 32)]


def test_a_temporary_in_registers_is_no_argument_and_a_stored_one_is(make):
    assert arguments(make("t[i] = A[i]\nY[i] = t[i]", A="8", Y="8")) == [("A", "Y")]
    assert arguments(make("t = sum(A[k], k)\nY[i] = A[i] / t", A="8", Y="8")) == [("A", "t"), ("A", "Y", "t")]


def test_nodes_mention_the_indices_and_locals_in_their_subscripts_and_values():
    node = Store(Access(A, (ROW, K), "store"), Op("neg", (X,), FLOAT32))
    assert [usage.mentions((node,), name) for name in ("i", "x", "y")] == [True, True, False]


def test_the_numbers_of_vector_elements_are_used():
    vectors = Vector("x4", FLOAT32, FLOAT32, 4, 2)
    element = vectors.indexed(K).component(ROW)
    assert usage.free_symbols((Assign(element, X),)) == {ROW, K}
    assert usage.free_symbols((Assign(X, Op("neg", (element,), FLOAT32)),)) == {ROW, K}
