"""Integer expressions against Python's own integers."""

from __future__ import annotations

import pickle

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.symbols import (
    BitXor,
    Choice,
    FloorDiv,
    Maximum,
    Minimum,
    Mod,
    Size,
    bounds,
    ceil_div,
    evaluate,
    floor_quotient,
    integer,
    slope,
    symbol,
)

NAMES = ("x", "y", "z")
integers = st.integers(-(2**40), 2**40)
small = st.integers(-40, 40)


def trees(leaves):
    """Trees as nested tuples: (operator, left, right). Divisors are made positive, operands of xor non-negative."""
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.sampled_from(("+", "-", "*", "//", "%", "^", "min", "max", "square")), inner, inner),
        max_leaves=8,
    )


nested = trees(st.one_of(small, st.sampled_from(NAMES)))


def to_sympy(tree):
    if isinstance(tree, str):
        return symbol(tree)
    if isinstance(tree, int):
        return integer(tree)
    operator, a, b = tree[0], to_sympy(tree[1]), to_sympy(tree[2])
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return FloorDiv(a, Maximum(b, integer(1)))
        case "%":
            return Mod(a, Maximum(b, integer(1)))
        case "^":
            return BitXor(Maximum(a, integer(0)), Maximum(b, integer(0)))
        case "min":
            return Minimum(a, b)
        case "max":
            return Maximum(a, b)
    return a**2


def to_python(tree, values):
    if isinstance(tree, str):
        return values[tree]
    if isinstance(tree, int):
        return tree
    operator, a, b = tree[0], to_python(tree[1], values), to_python(tree[2], values)
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // max(b, 1)
        case "%":
            return a % max(b, 1)
        case "^":
            return max(a, 0) ^ max(b, 0)
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
    return a**2


@given(integers, integers.filter(bool))
def test_constant_arguments_give_what_python_gives(a, b):
    left, right = integer(a), integer(b)
    assert FloorDiv(left, right) == a // b
    assert Mod(left, right) == a % b
    assert BitXor(left, right) == a ^ b
    assert Minimum(left, right) == min(a, b)
    assert Maximum(left, right) == max(a, b)


@given(integers)
def test_division_by_zero_yields_zero(a):
    assert FloorDiv(integer(a), integer(0)) == 0
    assert Mod(integer(a), integer(0)) == 0


@given(integers, st.integers(1, 2**40))
def test_ceil_div_counts_the_blocks_that_cover(a, b):
    blocks = int(ceil_div(integer(a), b))
    assert (blocks - 1) * b < a <= blocks * b


@given(
    st.fixed_dictionaries(dict.fromkeys((*NAMES, ""), small)),
    st.integers(1, 9),
    st.fixed_dictionaries(dict.fromkeys(NAMES, small)),
)
def test_a_floor_quotient_is_that_of_python(coefficients, divisor, values):
    dividend = sum((symbol(name) * coefficients[name] for name in NAMES), integer(coefficients[""]))
    values = {symbol(name): value for name, value in values.items()}
    quotient = floor_quotient(dividend, divisor)
    assert evaluate(quotient, values) == evaluate(dividend, values) // divisor


def test_addends_of_a_floor_quotient_that_the_divisor_divides_are_outside_of_the_division():
    x, y = symbol("x"), symbol("y")
    assert floor_quotient(6 * x - 3 * y + 7, 3) == 2 * x - y + 2
    assert floor_quotient(4 * x + 2 * y + 5, 4) == x + FloorDiv(2 * y + 5, integer(4))


@given(nested, st.fixed_dictionaries(dict.fromkeys(NAMES, small)), small, small)
def test_an_expression_with_a_slope_rises_or_falls_everywhere(tree, values, a, b):
    expr = to_sympy(tree)
    growth = slope(expr, symbol("x"))
    if growth is not None:
        at_low, at_high = (
            evaluate(expr, {symbol(name): value for name, value in {**values, "x": x}.items()}) for x in sorted((a, b))
        )
        assert at_low <= at_high if growth > 0 else at_low >= at_high if growth < 0 else at_low == at_high


def test_floor_divisions_have_a_slope_and_those_of_two_directions_have_none():
    x, y = symbol("x"), symbol("y")
    assert slope(FloorDiv(2 * x + 5, integer(3)) + x - y, x) == sympy.Rational(5, 3)
    assert slope(x - 2 * FloorDiv(x, integer(2)), x) is None
    assert slope(x * y, x) is None
    assert slope(y, x) == 0


@given(nested, st.fixed_dictionaries(dict.fromkeys(NAMES, small)))
def test_an_expression_evaluates_to_what_python_computes(tree, values):
    result = evaluate(to_sympy(tree), {symbol(name): value for name, value in values.items()})
    assert result == to_python(tree, values)


@given(nested, st.fixed_dictionaries(dict.fromkeys(NAMES, st.tuples(small, small))), st.data())
def test_bounds_hold_every_value(tree, ends, data):
    ranges = {name: (min(pair), max(pair)) for name, pair in ends.items()}
    values = {name: data.draw(st.integers(*ranges[name]), label=name) for name in NAMES}
    low, high = bounds(to_sympy(tree), {symbol(name): ends for name, ends in ranges.items()})
    assert low <= to_python(tree, values) <= high


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x + 2*y - z", (-5, 27)),
        ("x*y", (-20, 40)),
        ("x**2", (0, 16)),
        ("x**3", (-8, 64)),
        ("3 - x", (-1, 5)),
    ],
)
def test_bounds_of_sums_and_products_are_reached(expression, expected):
    ranges = {symbol("x"): (-2, 4), symbol("y"): (0, 10), symbol("z"): (-3, 3)}
    assert bounds(sympy.sympify(expression, locals={n: symbol(n) for n in NAMES}), ranges) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (FloorDiv(symbol("x"), integer(3)), (-1, 1)),
        (Mod(symbol("x"), integer(3)), (0, 2)),
        (Mod(symbol("y"), integer(16)), (0, 10)),  # never wraps: the remainder is the dividend
        (Mod(symbol("y"), symbol("y")), (0, 9)),
        (BitXor(symbol("y"), integer(4)), (0, 15)),
        (Minimum(symbol("x"), symbol("y")), (-2, 4)),
        (Maximum(symbol("x"), symbol("y")), (0, 10)),
        (Choice(symbol("x"), symbol("y"), symbol("y") + 1, symbol("x") * 10), (-20, 40)),
        (Choice(symbol("x"), integer(5), symbol("y"), symbol("x")), (0, 10)),  # x is always less
        (Choice(symbol("x"), integer(-2), symbol("y"), symbol("x")), (-2, 4)),  # and never
    ],
    ids=str,
)
def test_bounds_of_functions_are_as_tight_as_their_arguments_allow(expression, expected):
    assert bounds(expression, {symbol("x"): (-2, 4), symbol("y"): (0, 10)}) == expected


def test_division_and_remainder_by_one_vanish():
    x = symbol("x")
    assert FloorDiv(x, integer(1)) == x
    assert Mod(x, integer(1)) == 0
    assert FloorDiv(integer(0), x) == 0
    assert ceil_div(x, 1) == x


def test_a_choice_between_known_numbers_is_what_is_chosen():
    x, y = symbol("x"), symbol("y")
    assert Choice(integer(2), integer(3), x, y) == x
    assert Choice(integer(3), integer(3), x, y) == y
    assert Choice(x, y, x, x) == x
    assert evaluate(Choice(x, y, 10 * x, y), {x: 1, y: 2}) == 10


@pytest.mark.parametrize("function", [FloorDiv, Mod, BitXor, Minimum, Maximum])
def test_functions_of_symbols_stay_as_they_were_written(function):
    x, y = symbol("x"), symbol("y")
    result = function(33 * x + y, integer(32))
    assert result.args == (33 * x + y, integer(32))
    assert result.is_integer


def test_equal_names_are_one_symbol():
    assert symbol("k") is symbol("k")
    assert symbol("k") - symbol("k") == 0


def test_a_fraction_is_no_integer_expression():
    with pytest.raises(TypeError, match="not an integer expression"):
        bounds(symbol("x") ** -1, {symbol("x"): (1, 2)})


def test_an_expression_with_an_open_symbol_has_no_value():
    with pytest.raises(TypeError):
        evaluate(symbol("x") + 1, {})


# Named sizes

BM, BN = symbol("BM"), symbol("BN")
NAMED = {BM: 128, BN: 64}


@given(st.data())
def test_an_expression_of_a_size_has_its_value(data):
    size = data.draw(st.sampled_from([Size(128, BM), Size(64, BN)]))
    for _ in range(data.draw(st.integers(0, 4))):
        operand = data.draw(st.one_of(st.integers(1, 9), st.sampled_from([Size(128, BM), Size(64, BN)])))
        operator = data.draw(st.sampled_from(["+", "-", "*", "//"]))
        size = {"+": size + operand, "-": size - operand, "*": size * operand, "//": size // operand}[operator]
        assert isinstance(size, Size)
        assert integer(size).xreplace({name: integer(value) for name, value in NAMED.items()}) == int(size)


def test_a_size_is_named_where_it_becomes_an_expression():
    size = Size(128, BM)
    assert integer(size) == BM
    assert integer(4 * (size - 1)) == 4 * (BM - 1)
    assert integer(int(size)) == 128
    assert symbol("x") * size == 128 * symbol("x")
    assert FloorDiv(symbol("x"), size) == FloorDiv(symbol("x"), integer(128))


def test_a_size_is_an_integer_to_everything_else():
    size = Size(128, BM)
    assert (size, f"{size}", size % 100, range(size)[-1]) == (128, "128", 28, 127)
    assert {128: "there"}[size] == "there"
    copy = pickle.loads(pickle.dumps(size))
    assert (int(copy), integer(copy)) == (128, BM)
