"""Types follow NumPy's promotion, narrow floats compute in float32, and literals take the other operand's type."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.spec.expressions import Cast, Const, Expr, Op, Reduce, Select, walk
from cugen.spec.types import DTYPES

Compute = Callable[..., Any]
COMMON = [name for name in DTYPES if not name.startswith(("float8", "bfloat"))]
NUMBERS = [name for name in COMMON if name != "bool"]


def computed(name: str) -> str:
    return "float32" if name == "float16" else name


def type_of(compute: Compute, expression: str, **arrays: str) -> str:
    """The type of an expression, from a temporary that it is assigned to."""
    result = compute(f"t = {expression}\ny = cast(t, float32)", y="; float32", **arrays)
    assert result.codes == [], [diagnostic.message for diagnostic in result.diagnostics]
    return str(result.spec.array("t").dtype)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
@pytest.mark.parametrize("operator", ["+", "/", "//", "%"])
def test_operators_promote_as_numpy_does(compute: Compute, a: str, b: str, operator: str) -> None:
    function = {"+": np.add, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder}[operator]
    expected = function(np.ones(1, a), np.ones(1, b)).dtype.name
    assert type_of(compute, f"a {operator} b", a=f"; {a}", b=f"; {b}") == computed(expected)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("literal", "python"), [("2", 2), ("2.0", 2.0)])
def test_literals_are_weak_as_in_numpy(compute: Compute, dtype: str, literal: str, python: float) -> None:
    expected = (np.ones(1, dtype) * python).dtype.name
    assert type_of(compute, f"a * {literal}", a=f"; {dtype}") == computed(expected)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_functions_of_integers_give_numpys_float(compute: Compute, dtype: str) -> None:
    assert type_of(compute, "sqrt(a)", a=f"; {dtype}") == computed(np.sqrt(np.ones(1, dtype)).dtype.name)


def test_bool_in_arithmetic_is_an_int32(compute: Compute) -> None:
    assert type_of(compute, "m + m", m="; bool") == "int32"
    assert type_of(compute, "m * 2", m="; bool") == "int32"
    assert type_of(compute, "sum(m[k], k)", m="8; bool") == "int32"
    assert type_of(compute, "m & m", m="; bool") == "bool"
    assert type_of(compute, "a * m", a="; int8", m="; bool") == "int32"


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [("2", "int64"), ("2.0", "float32"), ("1 / 2", "float32"), ("sqrt(2)", "float32"), ("pi", "float32")],
)
def test_a_literal_alone_has_the_default_type(compute: Compute, expression: str, dtype: str) -> None:
    assert type_of(compute, expression) == dtype
    wide = "float64" if dtype == "float32" else dtype
    assert type_of(compute, expression, accumulate="float64") == wide


def test_bfloat16_with_float16_gives_float32(compute: Compute) -> None:
    assert type_of(compute, "a + b", a="; float16", b="; bfloat16") == "float32"
    # The sum promotes as float16: an int8 operand keeps it, an int16 operand gives float32.
    assert type_of(compute, "(a + a) * c", a="; float16", c="; int8") == "float32"
    assert type_of(compute, "a + c", a="; float32", c="; int32") == "float64"


def test_a_literal_takes_the_type_of_the_array_it_is_stored_into(compute: Compute) -> None:
    assert compute("y = 0.1", y="; float64").value == Const(0.1, DTYPES["float64"])


def test_a_cast_of_a_literal_to_double_keeps_its_digits(compute: Compute) -> None:
    assert compute("y = cast(0.1, float64)", y="; float64").value == Const(0.1, DTYPES["float64"])


def test_a_cast_to_a_narrow_float_rounds(compute: Compute) -> None:
    value = compute("y = cast(x, float16) * 2", x="; float32", y="; float32").value
    assert any(isinstance(part, Cast) and part.to == DTYPES["float16"] for part in walk(value))


def leaves(expr: Expr) -> set[str]:
    (total,) = [part for part in walk(expr) if isinstance(part, Reduce)]
    (product,) = [part for part in walk(total.body) if isinstance(part, Op)]
    return {str(arg.dtype) for arg in product.args} | {str(total.dtype)}


@pytest.mark.parametrize(
    ("a", "b", "accumulate", "inside"),
    [
        ("int8", "int8", {}, {"int32"}),
        ("int8", "uint8", {}, {"int32"}),
        ("int16", "int16", {"accumulate": "int64"}, {"int64"}),
        ("float16", "float16", {}, {"float32"}),
        ("float32", "float32", {"accumulate": "float64"}, {"float64"}),
        ("float32", "float32", {}, {"float32"}),
        ("int8", "float32", {}, {"float32"}),
        ("int64", "int64", {}, {"int64"}),
    ],
)
def test_products_in_a_sum_are_as_wide_as_the_sum(
    compute: Compute, a: str, b: str, accumulate: dict[str, str], inside: set[str]
) -> None:
    target = "int64" if "int" in a and "int" in b else "float32"
    result = compute("y = sum(a[k] * b[k], k)", a=f"8; {a}", b=f"8; {b}", y=f"; {target}", **accumulate)
    assert leaves(result.value) == inside


def test_elementwise_integers_wrap_at_their_own_width(compute: Compute) -> None:
    assert type_of(compute, "a * a", a="; int8") == "int8"
    assert type_of(compute, "max(a[k] * a[k], k)", a="8; int8") == "int8"


def test_conditions_and_casts_inside_a_sum_keep_their_own_types(compute: Compute) -> None:
    value = compute("y = sum(where(a[k] + a[k] > 3, 1, 0), k)", a="8; int8", y="; int64").value
    (addition,) = [part for part in walk(value) if isinstance(part, Op) and part.name == "add"]
    assert str(addition.dtype) == "int8"


def test_a_weak_integer_is_compared_exactly(compute: Compute) -> None:
    value = compute("y[i] = cast(u[i] == i, int32)", u="1000; uint8", y="1000; int32").value
    (comparison,) = [part for part in walk(value) if isinstance(part, Op) and part.name == "eq"]
    assert {str(arg.dtype) for arg in comparison.args} == {"int64"}
    assert compute("y = cast(u > 300, int32)", u="; uint8", y="; int32").codes == []


LARGE, SMALL = 2**64 - 3, 5


@pytest.mark.parametrize(
    ("comparison", "large", "small"),
    [
        ("u[i] < -1", False, False),
        ("u[i] != -3", True, True),
        ("-1 <= u[i]", True, True),
        ("u[i] == i - 3", False, False),
        ("u[i] > i", True, True),
        ("i - 9 < u[i]", True, True),
        ("u[i] <= 2 * i + 7", False, True),
        ("u[i] != i + 5", True, False),
        ("u[i] >= K", True, True),
        ("s[i] < 9223372036854775808", True, True),
        ("18446744073709551613 == s[i]", False, False),
        ("18446744073709551613 == u[i]", True, False),
        ("s[i] > 100000000000000000000", False, False),
    ],
)
def test_64_bit_integers_are_compared_exactly_with_what_their_type_does_not_hold(
    compute: Compute, comparison: str, large: bool, small: bool
) -> None:
    (name,) = set(re.findall(r"\b[us]\b", comparison))
    dtype = {"u": "uint64", "s": "int64"}[name]
    spec = compute(f"y[i] = {comparison}", params="{K: -3}", y="1; bool", **{name: f"1; {dtype}"}).spec
    for value, expected in ((LARGE, large), (SMALL, small)):
        (result,) = evaluate(spec, {name: np.array([value], np.uint64).view(dtype)}).values()
        assert result.value.tolist() == [expected]


def test_a_literal_that_does_not_fit_is_rejected(compute: Compute) -> None:
    assert compute("y = u + 300", u="; uint8", y="; int32").codes == ["CG1210"]
    assert compute("y = u - -1", u="; uint8", y="; int32").codes == ["CG1210"]
    assert compute("y = 40000000000000000000", y="; int64").codes == ["CG1210"]


def test_storing_a_float_into_integers_needs_a_cast_and_narrowing_floats_does_not(compute: Compute) -> None:
    assert compute("y = x", x="; float32", y="; int32").codes == ["CG1209"]
    assert compute("y = cast(x, int32)", x="; float32", y="; int32").codes == []
    assert compute("y = x", x="; float64", y="; float16").codes == []
    assert compute("y = x", x="; int64", y="; int8").codes == []
    assert compute("y = x", x="; int32", y="; bool").codes == ["CG1209"]


def test_only_the_chosen_branch_of_where_is_evaluated(compute: Compute) -> None:
    assert isinstance(compute("y = where(x > 0, sqrt(x), 0)", x="; float32", y="; float32").value, Select)
    assert isinstance(compute("y = sqrt(x) if x > 0 else 0", x="; float32", y="; float32").value, Select)


def test_chained_comparisons_are_a_conjunction(compute: Compute) -> None:
    value = compute("y = cast(0 < n < 4, int32)", params="{n: 3}", y="; int32").value
    assert [part.name for part in walk(value) if isinstance(part, Op)] == ["and", "lt", "lt"]


def test_literals_are_folded_in_double(compute: Compute) -> None:
    value = compute("y = x * (1 / 3)", x="; float32", y="; float32").value
    assert Const(1 / 3, DTYPES["float32"]) in list(walk(value))


@pytest.mark.parametrize("text", ["x & 1", "~x", "1 << x", "i ** -1"])
def test_operators_reject_types_that_they_do_not_take(compute: Compute, text: str) -> None:
    assert compute(f"y = {text}", x="; float32", i="; int32", y="; int32").codes[0] == "CG1208"


def test_a_caret_between_floats_is_explained_how_to_write_a_power(compute: Compute) -> None:
    resolved = compute("y = x ^ 2", x="; float32", y="; float32")
    assert resolved.codes == ["CG1208"]
    assert "`x ** y`" in resolved.diagnostics[0].help


def test_a_cast_of_a_literal_beyond_int64_keeps_it(compute: Compute) -> None:
    """The offset basis of a 64-bit FNV hash."""
    value = compute("y = cast(14695981039346656037, uint64) ^ x", x="; uint64", y="; uint64")
    assert value.codes == []
    assert compute("y = cast(18446744073709551616, uint64)", y="; uint64").codes == ["CG1210"]
