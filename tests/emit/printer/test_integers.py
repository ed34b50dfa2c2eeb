"""Subscripts and bounds in C: the same values as the expressions, in 32 bits wherever those are enough.

C text is evaluated by a small interpreter with C's types, promotions and overloads, which refuses what C leaves
undefined; one test has a real compiler evaluate some hundred texts too, so that the interpreter is believed.
"""

from __future__ import annotations

import random
import re

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from cugen.emit.environment import environment
from cugen.emit.printer.integers import IntegerPrinter
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comparison, Guard
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Maximum, Minimum, Mod, bounds, evaluate, integer, symbol
from cugen.spec.types import FLOAT32

INT = (-(2**31), 2**31 - 1)
LONG = (-(2**63), 2**63 - 1)
KIND_NAMES = ("int", "unsigned int", "long long")
INT_KIND, UNSIGNED_KIND, LONG_KIND = range(3)  # in operations, the lower converts to the higher


class Undefined(ArithmeticError):
    """C says nothing, or the compiler refuses: an overflow, an ambiguous call, a lost half."""


class C:
    """Evaluates a C expression; values are pairs of a number and its kind."""

    TOKEN = re.compile(r"\s*(\d+(?:LL)?|[A-Za-z_][\w.]*|\((?:long long|int)\)|<=|>=|==|!=|&&|\|\||.)")
    BINARY = (("||",), ("&&",), ("^",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))

    def __init__(self, values, functions=()):
        self.values, self.functions = values, dict.fromkeys((*functions, *_overloads("min"), *_overloads("max")))

    def value(self, text):
        self.tokens = self.TOKEN.findall(text)
        result, _ = self.binary(0)
        assert not self.tokens, f"left over: {self.tokens}"
        return result

    def binary(self, level):
        if level == len(self.BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.tokens and self.tokens[0] in self.BINARY[level]:
            operator = self.tokens.pop(0)
            left = self.apply(operator, left, self.binary(level + 1))
        return left

    def apply(self, operator, left, right):
        kind = max(left[1], right[1])
        (a, _), (b, _) = (checked(value, kind) for value, _ in (left, right))
        match operator:
            case "+":
                return checked(a + b, kind)
            case "-":
                return checked(a - b, kind)
            case "*":
                return checked(a * b, kind)
            case "/" | "%":
                if b == 0:
                    raise Undefined("division by zero")
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return checked(quotient if operator == "/" else a - quotient * b, kind)
            case "^":
                return checked(a ^ b, kind)
        compared = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}
        compared |= {"&&": bool(a and b), "||": bool(a or b)}
        return int(compared[operator]), INT_KIND

    def unary(self):
        token = self.tokens.pop(0)
        if token == "-":
            value, kind = self.unary()
            return checked(-value, kind)
        if token in ("(long long)", "(int)"):
            return checked(self.unary()[0], LONG_KIND if token == "(long long)" else INT_KIND)
        if token == "(":
            result = self.binary(0)
            assert self.tokens.pop(0) == ")"
            return result
        if token[0].isdigit():
            value = int(token.removesuffix("LL"))
            return value, LONG_KIND if token.endswith("LL") or value > INT[1] else INT_KIND
        if self.tokens and self.tokens[0] == "(":
            self.tokens.pop(0)
            first = self.binary(0)
            assert self.tokens.pop(0) == ","
            second = self.binary(0)
            assert self.tokens.pop(0) == ")"
            return self.call(token, first, second)
        return self.values[token]

    def call(self, name, first, second):
        kinds = [kind or "int" for function, kind in self.functions if function == name]
        wanted = [KIND_NAMES[kind] for _, kind in (first, second)]
        if name in ("min", "max") and LONG_KIND not in (first[1], second[1]):  # CUDA overloads these for mixed signs
            kind = max(first[1], second[1])
        elif wanted[0] == wanted[1] and wanted[0] in kinds:
            kind = first[1]
        elif len(kinds) == 1:
            kind = KIND_NAMES.index(kinds[0])
        else:
            raise Undefined(f"ambiguous call of {name} with {wanted}")
        a, b = (converted(value, kind) for value, _ in (first, second))
        table = {"min": min, "max": max, "floor_div": lambda a, b: a // b, "floor_mod": lambda a, b: a % b}
        table["ceil_div"] = lambda a, b: -(-a // b)
        if name.startswith(("ceil", "floor")) and (b <= 0 or (name == "ceil_div" and a < 0)):
            raise Undefined(f"{name} by {b}")
        return checked(table[name](a, b), kind)


def _overloads(name):
    return ((name, "int"), (name, "long long"))


def checked(value, kind):
    if kind == UNSIGNED_KIND:
        return value % 2**32, kind
    low, high = LONG if kind == LONG_KIND else INT
    if not low <= value <= high:
        raise Undefined(f"{value} in {KIND_NAMES[kind]}")
    return value, kind


def converted(value, kind):
    """The value of an argument or initializer of that kind; an unsigned one keeps its bits."""
    return (value + 2**31) % 2**32 - 2**31 if kind == INT_KIND and 0 <= value < 2**32 else checked(value, kind)[0]


NAMES = ("i", "j", "N", "blockIdx.x", "threadIdx.x", "k0")
limits = st.sampled_from((0, 1, 7, 31, 255, 1000, 65535, 10**6, 2**30, 2**31 - 1, 2**33, 10**11))


def ends(limit, offset):
    return (0, limit) if offset == 0 else (-offset, limit)


ranges = st.fixed_dictionaries(
    {
        name: st.builds(ends, limits, st.sampled_from((0, 0, 1, 5)))
        if name in ("i", "j")
        else st.builds(
            lambda limit: (0, limit), limits.filter(lambda limit: limit <= INT[1]) if "Idx" in name else limits
        )
        for name in NAMES
    }
)


def build(operator, a, b):
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return FloorDiv(a, b)
        case "%":
            return Mod(a, b)
        case "^":
            return BitXor(Maximum(a, integer(0)), Maximum(b, integer(0)))
        case "min":
            return Minimum(a, b)
        case "max":
            return Maximum(a, b)
    return a**2


leaves = st.one_of(st.sampled_from(NAMES).map(symbol), st.integers(-20, 300).map(integer))
positive = st.one_of(
    st.integers(1, 5000).map(integer), st.sampled_from([symbol("N") + 1, Maximum(symbol("N"), integer(1))])
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(build, st.sampled_from(("+", "-", "*", "+", "min", "max", "^", "square")), inner, inner),
        st.builds(build, st.sampled_from(("//", "%")), inner, positive),
    ),
    max_leaves=6,
)


def bound(bounds_by_name):
    return {symbol(name): pair for name, pair in bounds_by_name.items()}


def printer_for(bounds_by_name):
    return IntegerPrinter(bound(bounds_by_name), frozenset({"N"}))


def values_in(bounds_by_name, data):
    """Ends are where things go wrong."""
    return {
        name: data.draw(st.one_of(st.sampled_from((low, high)), st.integers(low, high)), label=name)
        for name, (low, high) in bounds_by_name.items()
    }


def typed(values, bounds_by_name):
    """Values as C sees them: a name is a long long where its range needs one, thread and block indices are unsigned."""
    kinds = {
        name: LONG_KIND if low < INT[0] or high > INT[1] else UNSIGNED_KIND if "Idx" in name else INT_KIND
        for name, (low, high) in bounds_by_name.items()
    }
    return {name: (value, kinds[name]) for name, value in values.items()}


def fits_long(expr, bounds_by_name):
    """Whether no part of the expression leaves 64 bits, which nothing that is printed may do."""
    parts = [expr, *expr.args] if expr.args else [expr]
    return all(
        LONG[0] // 4 <= low and high <= LONG[1] // 4
        for part in sympy.preorder_traversal(expr)
        for low, high in (bounds(part, bound(bounds_by_name)),)
    ) and bool(parts)


@given(expressions, ranges, st.data())
def test_the_text_has_the_value_of_the_expression(expr, bounds_by_name, data):
    if not fits_long(expr, bounds_by_name):
        return
    printer = printer_for(bounds_by_name)
    text = printer.print(expr)
    values = values_in(bounds_by_name, data)
    expected = evaluate(expr, {symbol(name): value for name, value in values.items()})
    kind = LONG_KIND if printer.is_wide(expr) else INT_KIND
    assert converted(C(typed(values, bounds_by_name), printer.functions).value(text), kind) == expected, text


@given(expressions, ranges, st.data())
def test_a_text_requested_wide_is_a_long_long(expr, bounds_by_name, data):
    if not fits_long(expr, bounds_by_name):
        return
    printer = printer_for(bounds_by_name)
    text = printer.print(expr, wide=True)
    values = values_in(bounds_by_name, data)
    evaluator = C(typed(values, bounds_by_name), printer.functions)
    evaluator.tokens = evaluator.TOKEN.findall(text)
    value, kind = evaluator.binary(0)
    assert kind == LONG_KIND, text
    assert value == evaluate(expr, {symbol(name): value for name, value in values.items()})


@given(expressions, expressions, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), ranges, st.data())
def test_a_comparison_holds_where_the_expressions_say(left, right, operator, bounds_by_name, data):
    if not fits_long(left, bounds_by_name) or not fits_long(right, bounds_by_name):
        return
    printer = printer_for(bounds_by_name)
    guard = Guard((Comparison(left, operator, right),))
    holds, fails = printer.guard(guard), printer.negated(guard)
    values = values_in(bounds_by_name, data)
    env = {symbol(name): value for name, value in values.items()}
    a, b = evaluate(left, env), evaluate(right, env)
    expected = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[operator]
    evaluator = C(typed(values, bounds_by_name), printer.functions)
    assert evaluator.value(holds) == expected
    assert evaluator.value(fails) == (not expected)


@given(expressions, ranges, st.data())
def test_a_definition_has_the_value_of_the_expression_where_that_fits_32_bits(expr, bounds_by_name, data):
    if not fits_long(expr, bounds_by_name):
        return
    printer = printer_for(bounds_by_name)
    text = printer.definition(expr)
    values = values_in(bounds_by_name, data)
    expected = evaluate(expr, {symbol(name): value for name, value in values.items()})
    if INT[0] <= expected <= INT[1]:
        value = converted(C(typed(values, bounds_by_name), printer.functions).value(text), LONG_KIND)
        assert (value - expected) % 2**32 == 0, text


shapes = st.lists(st.integers(1, 3000), min_size=1, max_size=3)


@given(shapes, st.data())
def test_the_offset_of_an_element_is_the_same_in_c(extents, data):
    """Dense, column-major and strided arrays, whose offsets may need 64 bits though no subscript does."""
    strides = data.draw(
        st.one_of(
            st.just([int(sympy.prod(extents[d + 1 :])) for d in range(len(extents))]),
            st.just([int(sympy.prod(extents[:d])) for d in range(len(extents))]),
            st.lists(st.integers(1, 10**7), min_size=len(extents), max_size=len(extents)),
        ),
        label="strides",
    )
    names = ("i", "j", "k0")[: len(extents)]
    bounds_by_name = {name: (0, extent - 1) for name, extent in zip(names, extents, strict=True)}
    array = Array("A", "A", FLOAT32, tuple(map(integer, extents)), tuple(map(integer, strides)), "global")
    access = Access(array, tuple(map(symbol, names)), "load")
    printer = printer_for(bounds_by_name)
    text = printer.subscripts(access)
    values = {name: data.draw(st.integers(low, high), label=name) for name, (low, high) in bounds_by_name.items()}
    expected = sum(values[name] * stride for name, stride in zip(names, strides, strict=True))
    assert C(typed(values, bounds_by_name), printer.functions).value(text[1:-1]) == expected
    highest = sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))
    assert ("long long" in text or "LL" in text) == (highest > INT[1])


# How it reads

ROW, COLUMN, STEP = symbol("row"), symbol("col"), symbol("k")
M, N, TX = symbol("M"), symbol("N"), symbol("threadIdx.x")
BLOCK = symbol("blockIdx.x")
SMALL = {"row": (0, 999), "col": (0, 999), "k": (0, 99), "M": (1000, 1000), "N": (1000, 1000)}
SMALL |= {"threadIdx.x": (0, 15), "blockIdx.x": (0, 62), "k0": (0, 96), "tx": (0, 15), "ty": (0, 15)}


@pytest.fixture
def small():
    return IntegerPrinter(bound(SMALL), frozenset({"M", "N"}))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (BLOCK * 16 + TX, "blockIdx.x * 16 + threadIdx.x"),
        (symbol("tx") + symbol("k0"), "k0 + tx"),
        (STEP + 1, "k + 1"),
        (STEP - 1, "k - 1"),
        (-STEP + N, "N - k"),
        (N - 1 - STEP, "N - k - 1"),
        (2 * STEP + ROW, "row + 2 * k"),
        (N * ROW, "N * row"),
        ((ROW + 1) * N, "N * (row + 1)"),
        (FloorDiv(N + 15, integer(16)), "(N + 15) / 16"),
        (Mod(STEP + 1, integer(4)), "(k + 1) % 4"),
        (FloorDiv(STEP, integer(4)) * 4, "4 * (k / 4)"),
        (FloorDiv(STEP - 1, integer(4)), "floor_div(k - 1, 4)"),
        (Mod(STEP - 1, N), "floor_mod(k - 1, N)"),
        (BitXor(STEP, Mod(ROW, integer(8))), "k ^ (row % 8)"),
        (Minimum(STEP + 1, N), "min(k + 1, N)"),
        (Maximum(STEP - 1, integer(0)), "max(k - 1, 0)"),
        (Choice(STEP, integer(3), ROW + 1, 2 * N), "k < 3 ? row + 1 : 2 * N"),
        (4 * Choice(STEP, N, ROW, integer(0)), "4 * (k < N ? row : 0)"),
        (STEP**2, "k * k"),
        (integer(-5), "(-5)"),
        (-STEP, "-k"),
    ],
    ids=str,
)
def test_expressions_read_as_people_write_them(small, expr, text):
    assert small.print(expr) == text


def test_a_thread_index_is_signed_where_a_compared_value_may_be_negative(small):
    halo = symbol("threadIdx.x") - 2
    assert small.print(Maximum(halo, integer(0))) == "max((int)threadIdx.x - 2, 0)"
    assert small.comparison(Comparison(halo, ">=", integer(0))) == "(int)threadIdx.x - 2 >= 0"
    assert small.comparison(Comparison(symbol("threadIdx.x"), "<", M)) == "threadIdx.x < M"


def test_a_sum_that_leaves_32_bits_on_the_way_makes_both_sides_of_a_maximum_long():
    printer = IntegerPrinter({ROW: (0, 2**31 - 1), STEP: (0, 2)}, frozenset())
    assert printer.print(Maximum(ROW + STEP - 1, integer(0))) == "max((long long)row + k - 1, 0LL)"


def test_an_index_that_was_declared_long_makes_both_sides_long_whatever_it_holds_now():
    printer = IntegerPrinter({ROW: (0, 9)}, frozenset(), long_names={"row"})
    assert printer.print(Maximum(ROW - 1, integer(0))) == "max(row - 1, 0LL)"
    assert printer.print(ROW, wide=True) == "row"


BLOCK, LARGE = symbol("blockIdx.x"), (0, 2**31 - 1)
PARAMS = {M: LARGE, N: LARGE, BLOCK: LARGE, TX: (0, 31), ROW: LARGE, STEP: (0, 7)}
ROUNDED_UP = FloorDiv(N + 63, integer(64))


@pytest.mark.parametrize(
    ("value", "wide", "text"),
    [
        (FloorDiv(BLOCK, ROUNDED_UP) * 64 + TX, False, "blockIdx.x / ceil_div(N, 64) * 64 + threadIdx.x"),
        (FloorDiv(BLOCK, ROUNDED_UP) * 64, True, "(long long)(blockIdx.x / ceil_div(N, 64)) * 64"),
        (ROW + STEP, False, "row + k"),
        (ROW + STEP - 1, False, "(long long)row + k - 1"),
        (FloorDiv(ROW + STEP, integer(4)), False, "((long long)row + k) / 4"),
    ],
    ids=["without signs", "a quotient in 32 bits", "no negative term", "a negative term", "a quotient of 64 bits"],
)
def test_the_definition_of_an_index_takes_64_bits_where_its_value_needs_them(value, wide, text):
    assert IntegerPrinter(PARAMS, frozenset({"M", "N"})).definition(value, wide=wide) == text


def test_a_constant_goes_to_the_side_of_a_comparison_where_32_bits_suffice():
    printer = IntegerPrinter(PARAMS, frozenset({"M", "N"}))
    assert printer.comparison(Comparison(ROW + 5, "<=", M)) == "row <= M - 5"
    assert printer.comparison(Comparison(ROW + STEP, "<", M)) == "(long long)row + k < M"


def array(shape, strides, **more):
    return Array("A", "A", FLOAT32, tuple(shape), tuple(strides), more.pop("space", "global"), **more)


@pytest.mark.parametrize(
    ("made", "subscripts", "text"),
    [
        (array((M, N), (N, integer(1))), (ROW, COLUMN), "[row * N + col]"),
        (array((M, N), (N, integer(1))), (ROW + 1, COLUMN - 1), "[(row + 1) * N + col - 1]"),
        (array((M, N), (integer(1), M)), (ROW, COLUMN), "[col * M + row]"),
        (array((M, N), (N, integer(1))), (integer(0), COLUMN), "[col]"),
        (array((M, N), (integer(1024), integer(1))), (ROW, COLUMN), "[row * 1024 + col]"),
        (array((integer(5), M, N), (M * N, N, integer(1))), (STEP, ROW, COLUMN), "[(k * M + row) * N + col]"),
        (array((), ()), (), "[0]"),
        (array((M, integer(3), integer(3)), (integer(9), integer(3), integer(1))), (ROW, 0, 0), "[row * 9]"),
        (
            array((M, integer(3), integer(3)), (integer(9), integer(3), integer(1))),
            (ROW, 2, STEP),
            "[(row * 3 + 2) * 3 + k]",
        ),
        (array((integer(3), integer(3), N), (3 * N, N, integer(1))), (2, 1, COLUMN), "[7 * N + col]"),
        (array((integer(3), integer(3), N), (3 * N, N, integer(1))), (1, 0, COLUMN), "[3 * N + col]"),
        (array((M, N), (N, integer(1)), flat=False), (ROW, COLUMN), "[row][col]"),
        (array((M, integer(32)), (integer(32), integer(1)), flat=False, swizzle=32, space="shared"), (ROW, STEP), None),
    ],
)
def test_subscripts_read_as_people_write_them(small, made, subscripts, text):
    actual = small.subscripts(Access(made, tuple(map(sympy.sympify, subscripts)), "load"))
    assert actual == (text or "[row][k ^ (row % 32)]")


def test_a_guard_joins_its_terms_and_fails_when_one_does(small):
    guard = Guard((Comparison(ROW, "<", M), Comparison(COLUMN, ">=", integer(1))))
    assert small.guard(guard) == "row < M && col >= 1"
    assert small.negated(guard) == "row >= M || col < 1"


def test_what_is_no_integer_expression_is_refused(small):
    with pytest.raises(TypeError, match="not an integer expression"):
        small.print(ROW ** sympy.Rational(1, 2))


def test_helpers_are_collected_with_the_width_that_they_are_called_in():
    wide = IntegerPrinter({symbol("i"): (-1, 2**40), symbol("j"): (-1, 100)}, frozenset())
    wide.print(FloorDiv(symbol("i"), integer(3)))
    wide.print(Mod(symbol("j"), integer(3)))
    assert list(wide.functions) == [("floor_div", "long long"), ("floor_mod", "int")]


# The interpreter above, against a compiler


def test_a_compiler_agrees(batch):
    """Random expressions in one program, each function's sums checked for overflow by the sanitizer."""
    chooser = random.Random(20240229)
    cases = []
    printed, wanted = [], []
    functions = {}
    while len(cases) < 250:
        bounds_by_name = {
            name: (0, chooser.choice((31, 1000, 65535, 2**30, 2**31 - 1, 2**33))) for name in ("i", "j", "N")
        }
        bounds_by_name["i"] = (-chooser.choice((0, 5)), bounds_by_name["i"][1])
        expr = _random(chooser, 3)
        if not fits_long(expr, bounds_by_name):
            continue
        printer = IntegerPrinter(bound(bounds_by_name), frozenset({"N"}))
        text = printer.print(expr)
        functions |= printer.functions
        values = {
            name: chooser.choice((low, high, chooser.randint(low, high)))
            for name, (low, high) in bounds_by_name.items()
        }
        wanted.append(evaluate(expr, {symbol(name): value for name, value in values.items()}))
        parameters = ", ".join(
            f"{KIND_NAMES[kind]} {name}" for name, (_, kind) in typed(values, bounds_by_name).items()
        )
        cases.append(f"static long long f{len(cases)}({parameters}) {{ return {text}; }}")
        arguments = ", ".join(f"{value}LL" for value in values.values())
        printed.append(f'    printf("%lld\\n", f{len(cases) - 1}({arguments}));')
    env = environment()
    helpers = [env.get_template(f"functions/{name}.cu.j2").render(T=kind) for name, kind in functions]
    source = "\n".join(["#include <cstdio>", *helpers, *cases, "int main() {", *printed, "}"])
    assert [int(line) for line in batch(source)] == wanted


def _random(chooser, depth):
    if depth == 0 or chooser.random() < 0.2:
        return chooser.choice((symbol("i"), symbol("j"), symbol("N"), integer(chooser.randint(-9, 99))))
    operator = chooser.choice(("+", "-", "*", "//", "%", "^", "min", "max"))
    right = integer(chooser.randint(1, 40)) if operator in ("//", "%") else _random(chooser, depth - 1)
    return build(operator, _random(chooser, depth - 1), right)
