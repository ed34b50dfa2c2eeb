"""Literals read back as the numbers that they stand for, and types have C's names."""

from __future__ import annotations

import math
import re
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.emit.printer.ctypes import c_name, constant_literal, header_of, literal, narrowed, widened
from cugen.spec.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT32, UINT64

C_LITERAL = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?f?")


def nearest_single(exact):
    """The float32 nearest to a fraction, as a C compiler finds it from the decimal digits: rounded once."""
    guess = np.float32(float(exact))
    with np.errstate(over="ignore"):
        around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    finite = [c for c in around if np.isfinite(c)]
    return float(min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1)))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_bit_for_bit(value):
    text = literal(value, FLOAT32)
    assert C_LITERAL.fullmatch(text)
    assert text.endswith("f")
    assert "." in text or "e" in text  # 1f is no number in C
    digits = text.removesuffix("f")
    read = nearest_single(Fraction(digits))
    assert struct.pack("f", math.copysign(read, float(digits))) == struct.pack("f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_bit_for_bit(value):
    text = literal(value, FLOAT64)
    assert C_LITERAL.fullmatch(text)
    assert "." in text or "e" in text
    assert struct.pack("d", float(text)) == struct.pack("d", value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_no_shorter_decimal_would_do(value):
    digits = re.sub(r"e.*|[-.f]", "", literal(value, FLOAT32)).strip("0")
    if len(digits) > 1:
        shorter = f"{value:.{len(digits) - 2}e}"
        assert struct.pack("f", nearest_single(Fraction(shorter))) != struct.pack("f", value)


@given(st.sampled_from([t for t in DTYPES.values() if t.is_integer]), st.data())
def test_an_integer_is_a_literal_of_its_type(dtype, data):
    value = data.draw(st.integers(dtype.lowest, dtype.highest))
    text = literal(value, dtype)
    assert text.removeprefix("-").startswith(("(", *"0123456789"))
    number = re.sub(r"[A-Z]+", "", text)
    left, _, right = number.strip("()").rpartition(" - ") if number.startswith("(") else ("", "", number)
    assert int(left or 0) - int(right) == value if left else int(right) == value
    assert text.strip("()").split(" ")[0].lstrip("-0123456789") == {"int64": "LL", "uint64": "ULL", "uint32": "U"}.get(
        dtype.name, ""
    )


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1, FLOAT32, "1.0f"),
        (0.1, FLOAT32, "0.1f"),
        (1e-5, FLOAT32, "1e-05f"),
        (1e10, FLOAT64, "10000000000.0"),
        (-0.0, FLOAT32, "-0.0f"),
        (3.4028234663852886e38, FLOAT32, "3.4028235e+38f"),
        (1e39, FLOAT32, "CUDART_INF_F"),
        (-math.inf, FLOAT32, "-CUDART_INF_F"),
        (math.inf, FLOAT64, "CUDART_INF"),
        (math.nan, FLOAT64, "CUDART_NAN"),
        (True, BOOL, "true"),
        (0, BOOL, "false"),
        (-5, INT8, "-5"),
        (2**63, UINT64, "9223372036854775808ULL"),
        (7, UINT32, "7U"),
        (7, INT64, "7LL"),
        # The number alone would be a long, its minus sign applied to it.
        (-(2**31), INT32, "(-2147483647 - 1)"),
        (-(2**63), INT64, "(-9223372036854775807LL - 1)"),
    ],
)
def test_spellings(value, dtype, text):
    assert literal(value, dtype) == text


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "1.0f / 0.0f"), (-math.inf, "-1.0f / 0.0f"), (math.nan, "0.0f / 0.0f"), (2, "2.0f")]
)
def test_a_variable_at_file_scope_begins_with_a_constant_expression(value, text):
    assert constant_literal(value, FLOAT32) == text


def test_compilers_read_the_literals_as_python_does(batch):
    """Extremes and a spread of values, through a real compiler."""
    rng = np.random.default_rng(20240229)
    singles = rng.integers(0, 2**32, 400, dtype=np.uint32).view(np.float32)
    singles = [float(x) for x in singles[np.isfinite(singles)]]
    doubles = rng.integers(0, 2**64, 400, dtype=np.uint64).view(np.float64)
    doubles = [float(x) for x in doubles[np.isfinite(doubles)]]
    cases = [(x, FLOAT32) for x in (*singles, 1e-45, 1.17549435e-38, 3.4028234663852886e38, math.inf, 0.1)]
    cases += [(x, FLOAT64) for x in (*doubles, 5e-324, 1.7976931348623157e308, -math.inf, 0.1)]
    cases += [(t.lowest, t) for t in DTYPES.values() if t.is_integer]
    cases += [(t.highest, t) for t in DTYPES.values() if t.is_integer]
    lines = [f"    show<{c_name(dtype)}>({literal(value, dtype)});" for value, dtype in cases]
    lines += [f"    show<{c_name(dtype)}>({constant_literal(value, dtype)});" for value, dtype in cases]
    show = (
        "template <class T> static void show(T x)\n"
        '{ unsigned long long bits = 0; memcpy(&bits, &x, sizeof x); printf("%llx\\n", bits); }'
    )
    headers = "#include <cstdio>\n#include <cstring>\n#include <math_constants.h>"
    lines_printed = batch("\n".join([headers, show, "int main() {", *lines, "}"]))
    expected = [np.dtype(dtype.name).type(value).tobytes() for value, dtype in cases]
    assert [int(bits, 16) for bits in lines_printed] == [int.from_bytes(bits, "little") for bits in expected] * 2


def test_every_type_has_a_name_and_narrow_floats_have_headers():
    assert len({c_name(t) for t in DTYPES.values()}) == len(DTYPES)
    assert [name for name, t in DTYPES.items() if header_of(t)] == [
        "float16",
        "bfloat16",
        "float8_e4m3",
        "float8_e5m2",
    ]


def test_only_narrow_floats_are_converted_between_memory_and_registers():
    for dtype in DTYPES.values():
        plain = dtype.compute == dtype
        assert (widened("x", dtype) == "x") == plain
        assert (narrowed("x", dtype) == "x") == plain
