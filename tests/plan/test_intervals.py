"""Ranges of integer values against enumeration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.intervals import bound_local, fits, interval, local_symbol, unwrapped
from cugen.plan.memory import IndexLocal
from cugen.spec.expressions import Cast, Const, IndexValue, Local, Op, ParamValue, Select
from cugen.spec.types import BOOL, FLOAT32, INT8, INT16, INT32, INT64, UINT8, UINT64

TYPES = (INT8, UINT8, INT16)
BINARY = ("add", "sub", "mul", "minimum", "maximum")


def wrapped(value, dtype):
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.highest else value


def meaning(expr, env):
    match expr:
        case Const(value=value):
            return value
        case Local(name=name):
            return env[name]
        case Cast(arg=arg, to=to):
            return wrapped(meaning(arg, env), to)
        case Select():
            return meaning(expr.then if meaning(expr.condition, env) else expr.orelse, env)
        case Op(name=name, args=args):
            a, *operands = [meaning(arg, env) for arg in args]
            b = operands[0] if operands else None
            match name:
                case "add":
                    return wrapped(a + b, expr.dtype)
                case "sub":
                    return wrapped(a - b, expr.dtype)
                case "mul":
                    return wrapped(a * b, expr.dtype)
                case "minimum":
                    return min(a, b)
                case "maximum":
                    return max(a, b)
                case "neg":
                    return wrapped(-a, expr.dtype)
                case "abs":
                    return wrapped(abs(a), expr.dtype)
                case "mod":
                    return a % b if b else 0
                case "floordiv":
                    return wrapped(a // b, expr.dtype) if b else 0
                case "bitand":
                    return a & b
                case "shl":
                    return wrapped(a << b, expr.dtype) if 0 <= b < expr.dtype.bits else 0
                case "shr":
                    return a >> b if 0 <= b < expr.dtype.bits else -(a < 0)
                case "lt":
                    return a < b
    raise TypeError(expr)


def operations(dtype, inner):
    same = inner.map(lambda expr: expr if expr.dtype == dtype else Cast(expr, dtype))
    return st.one_of(
        st.builds(lambda name, a, b: Op(name, (a, b), dtype), st.sampled_from(BINARY), same, same),
        st.builds(lambda name, a: Op(name, (a,), dtype), st.sampled_from(("neg", "abs")), same),
        st.builds(
            lambda name, a, b: Op(name, (a, Const(b, dtype)), dtype),
            st.sampled_from(("mod", "floordiv", "bitand")),
            same,
            st.integers(dtype.lowest, dtype.highest),
        ),
        st.builds(
            lambda name, a, b: Op(name, (a, Op("maximum", (b, Const(1, dtype)), dtype)), dtype),
            st.sampled_from(("mod", "floordiv")),
            same,
            same,
        ),
        st.builds(
            lambda name, a, b: Op(name, (a, Const(b, dtype)), dtype),
            st.sampled_from(("shl", "shr")),
            same,
            st.integers(-1 if dtype.lowest else 0, 20),
        ),
        st.builds(lambda a, b: Select(Op("lt", (a, b), BOOL), a, b, dtype), same, same),
        same.map(lambda a: Cast(a, INT8)),
    )


leaves = st.one_of(
    st.builds(lambda value, dtype: Const(wrapped(value, dtype), dtype), st.integers(-300, 300), st.sampled_from(TYPES)),
    st.sampled_from([Local("x", INT8), Local("y", UINT8), Local("z", INT16)]),
)
expressions = st.recursive(
    leaves, lambda inner: st.sampled_from(TYPES).flatmap(lambda dtype: operations(dtype, inner)), max_leaves=6
)


@given(expressions, st.integers(-128, 127), st.integers(0, 255), st.integers(-40, 40))
def test_a_value_is_in_its_interval(expr, x, y, z):
    low, high = interval(expr, {local_symbol("z").name: (-40, 40)})
    assert low <= meaning(expr, {"x": x, "y": y, "z": z}) <= high


def test_an_unnamed_value_can_be_anything_of_its_type():
    assert interval(Local("x", INT8), {}) == (-128, 127)
    assert interval(IndexValue("i"), {}) == (-(2**63), 2**63 - 1)
    assert interval(ParamValue("N"), {"N": (0, 9)}) == (0, 9)
    assert interval(Cast(Local("x", FLOAT32), INT8), {}) == (-128, 127)


def test_what_may_wrap_can_be_anything():
    big = Op("add", (Local("x", INT8), Local("x", INT8)), INT8)
    assert unwrapped(big, {}) == (-256, 254)
    assert interval(big, {}) == (-128, 127)
    assert interval(big, {local_symbol("x").name: (-60, 60)}) == (-120, 120)


def test_an_index_and_a_value_of_one_name_have_ranges_of_their_own():
    names = {"v": (0, 1), local_symbol("v").name: (-5, 5)}
    assert interval(IndexLocal("v", INT64), names) == (0, 1)
    assert interval(Local("v", INT8), names) == (-5, 5)
    assert interval(Local("v", INT8), {"v": (0, 1)}) == (-128, 127)


def test_locals_of_one_name_share_the_union_of_their_ranges():
    ranges = {}
    bound_local(ranges, Local("sum", INT16), (0, 9))
    bound_local(ranges, Local("sum", INT16), (-3, 2))
    assert interval(Local("sum", INT16), {key.name: values for key, values in ranges.items()}) == (-3, 9)
    bound_local(ranges, Local("sum", INT8), (0, 1000))
    assert interval(Local("sum", INT16), {key.name: values for key, values in ranges.items()}) == (-128, 127)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ((0, 255), UINT8, True),
        ((0, 256), UINT8, False),
        ((-1, 0), UINT8, False),
        ((-(2**31), 2**31 - 1), INT32, True),
        ((0, 2**64 - 1), UINT64, True),
    ],
)
def test_a_range_fits_a_type(values, dtype, expected):
    assert fits(values, dtype) is expected
