"""Integer trees of the language → expressions and guards of a plan."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.subscripts import NotAnInteger, computed_parts, to_guard, to_integer, type_range
from cugen.plan.symbols import evaluate, integer, symbol
from cugen.spec.expressions import Cast, Const, IndexValue, Local, Op, ParamValue, Read, ScalarValue, Select
from cugen.spec.types import BOOL, FLOAT32, INT8, INT16, INT32, INT64, UINT8

SYMBOLS = {name: symbol(name) for name in ("i", "j", "N")}
BINARY = ("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum")
values = st.fixed_dictionaries({"i": st.integers(-50, 50), "j": st.integers(-50, 50), "N": st.integers(1, 50)})
leaves = st.one_of(
    st.integers(-20, 20).map(lambda value: Const(value, INT64)),
    st.sampled_from([IndexValue("i"), IndexValue("j"), ParamValue("N")]),
)


def operation(name, left, right):
    """An operator of int64; divisors are made positive, as the language asks of them."""
    if name in ("floordiv", "mod"):
        right = Op("maximum", (right, Const(1, INT64)), INT64)
    return Op(name, (left, right), INT64)


trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(operation, st.sampled_from(BINARY), inner, inner),
        inner.map(lambda arg: Op("neg", (arg,), INT64)),
        inner.map(lambda arg: Cast(arg, INT64)),
    ),
    max_leaves=8,
)
COMPARISONS = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


def meaning(expr, env):
    match expr:
        case Const(value=value):
            return value
        case IndexValue(name=name) | ParamValue(name=name):
            return env[name]
        case Cast(arg=arg):
            return meaning(arg, env)
        case Op(name=name, args=args):
            operands = [meaning(arg, env) for arg in args]
            table = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg}
            table |= {"floordiv": operator.floordiv, "mod": operator.mod, "minimum": min, "maximum": max}
            table |= {"and": lambda a, b: a and b} | COMPARISONS
            return table[name](*operands)


@given(trees, values)
def test_a_tree_means_what_python_would_compute(tree, env):
    assert evaluate(to_integer(tree, SYMBOLS), {symbol(name): v for name, v in env.items()}) == meaning(tree, env)


comparisons = st.builds(lambda name, a, b: Op(name, (a, b), BOOL), st.sampled_from(sorted(COMPARISONS)), trees, trees)
conditions = st.recursive(
    comparisons, lambda inner: st.builds(lambda a, b: Op("and", (a, b), BOOL), inner, inner), max_leaves=3
)


@given(conditions, values)
def test_a_guard_holds_exactly_where_the_condition_does(condition, env):
    guard = to_guard(condition, SYMBOLS)
    bound = {symbol(name): v for name, v in env.items()}
    holds = [SIGNS[t.operator](evaluate(t.left, bound), evaluate(t.right, bound)) for t in guard.terms]
    assert all(holds) == meaning(condition, env)


ROW = IndexValue("i")
READ = Read("ids", (ROW,), INT32)


def test_a_local_is_its_symbol():
    assert to_integer(Op("add", (Local("ids", INT64), ROW), INT64), {"ids": symbol("ids"), **SYMBOLS}) == symbol(
        "i"
    ) + symbol("ids")


def test_widening_changes_nothing():
    assert to_integer(Cast(Cast(ROW, INT64), INT64), SYMBOLS) == symbol("i")


@pytest.mark.parametrize(
    "tree",
    [
        READ,
        Const(1.5, FLOAT32),
        ScalarValue("s", INT32),
        Local("unknown", INT64),
        IndexValue("unknown"),
        Cast(ROW, INT8),  # may wrap
        Cast(ROW, FLOAT32),
        Op("shl", (ROW, ROW), INT64),
        Op("pow", (ROW, Const(2, INT64)), INT64),
        Op("add", (ROW, READ), INT64),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_what_depends_on_data_or_wraps_is_no_integer(tree):
    with pytest.raises(NotAnInteger):
        to_integer(tree, SYMBOLS)


@pytest.mark.parametrize(
    "condition",
    [
        Op("or", (Op("lt", (ROW, ROW), BOOL), Op("lt", (ROW, ROW), BOOL)), BOOL),
        Op("not", (Op("lt", (ROW, ROW), BOOL),), BOOL),
        Op("lt", (READ, ROW), BOOL),
        Op("eq", (Const(True, BOOL), Const(True, BOOL)), BOOL),
        Op("and", (Op("lt", (ROW, ROW), BOOL), Op("lt", (READ, ROW), BOOL)), BOOL),
        Const(True, BOOL),
    ],
    ids=["or", "not", "data", "bools", "half data", "constant"],
)
def test_what_is_no_conjunction_over_indices_is_no_guard(condition):
    assert to_guard(condition, SYMBOLS) is None


def test_a_chain_of_comparisons_keeps_its_order():
    inner = Op("and", (Op("ge", (ROW, Const(0, INT64)), BOOL), Op("lt", (ROW, ParamValue("N")), BOOL)), BOOL)
    guard = to_guard(Op("and", (inner, Op("ne", (ROW, Const(3, INT64)), BOOL)), BOOL), SYMBOLS)
    assert [(t.left, t.operator, t.right) for t in guard.terms] == [
        (symbol("i"), ">=", integer(0)),
        (symbol("i"), "<", symbol("N")),
        (symbol("i"), "!=", integer(3)),
    ]


BYTE = Local("b", UINT8)


def byte(value):
    return Const(value, UINT8)


@pytest.mark.parametrize(
    "wrapping",
    [
        Op("add", (BYTE, byte(100)), UINT8),
        Op("sub", (BYTE, byte(1)), UINT8),
        Op("neg", (BYTE,), UINT8),
        Op("mul", (Cast(BYTE, INT16), Cast(BYTE, INT16)), INT16),
        Cast(Op("add", (BYTE, BYTE), UINT8), INT64),
        Cast(BYTE, INT8),
    ],
)
def test_arithmetic_that_may_wrap_is_a_computed_part(wrapping):
    with pytest.raises(NotAnInteger):
        to_integer(wrapping, {"b": symbol("b")})
    (part,) = computed_parts(Op("add", (wrapping, Const(1, INT64)), INT64))
    assert part in (wrapping, getattr(wrapping, "arg", None))


@pytest.mark.parametrize(
    "exact",
    [
        Op("floordiv", (BYTE, byte(16)), UINT8),
        Op("mod", (BYTE, byte(16)), UINT8),
        Op("minimum", (BYTE, byte(16)), UINT8),
        Op("add", (Op("mod", (BYTE, byte(16)), UINT8), byte(200)), UINT8),
        Op("sub", (Cast(BYTE, INT16), Const(300, INT16)), INT16),
        Op("mul", (Cast(BYTE, INT32), Cast(BYTE, INT32)), INT32),
    ],
)
def test_arithmetic_with_room_in_its_type_is_exact(exact):
    assert to_integer(exact, {"b": symbol("b")}).free_symbols == {symbol("b")}
    assert set(computed_parts(exact)) == {BYTE}


@pytest.mark.parametrize(
    ("expr", "values"),
    [
        (Op("sub", (Cast(BYTE, INT32), Const(128, INT32)), INT32), (-128, 127)),
        (Op("sub", (Cast(Op("bitand", (BYTE, byte(15)), UINT8), INT32), Const(8, INT32)), INT32), (-8, 7)),
        (Op("abs", (Local("s", INT8),), INT16), (0, 128)),
        (Select(Const(True, BOOL), Const(1, INT32), Const(-1, INT32), INT32), (-1, 1)),
        (Cast(Op("gt", (BYTE, byte(3)), BOOL), INT32), (0, 1)),
        (Op("sub", (BYTE, byte(1)), UINT8), (-1, 254)),
        (Op("mod", (Op("sub", (BYTE, byte(1)), UINT8), byte(16)), UINT8), (0, 15)),
        (Op("floordiv", (Op("sub", (BYTE, byte(1)), UINT8), byte(16)), UINT8), (0, 15)),
        (Op("sub", (Cast(Op("bitand", (BYTE, byte(3)), UINT8), INT8), Const(1, INT8)), INT8), (-1, 2)),
        (Cast(Op("bitand", (BYTE, byte(200)), UINT8), INT8), (-128, 127)),
        (Cast(Op("sub", (BYTE, byte(1)), UINT8), INT32), (0, 255)),
    ],
)
def test_types_and_constants_bound_the_values_of_an_expression(expr, values):
    assert type_range(expr) == values
