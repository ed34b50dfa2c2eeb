"""Float64 is reported where promotion makes it, and not where a type of the spec asks for it."""

from __future__ import annotations

import re

import pytest

from cugen.analysis.arithmetic.float64 import Unrequested, integer_operands, operand_types, unrequested
from cugen.spec.expressions import Read
from cugen.spec.load import load_text

ARRAYS = {
    "u8": "uint8",
    "u16": "uint16",
    "i32": "int32",
    "f32": "float32",
    "f16": "float16",
    "f64": "float64",
    "out": "float32",
    "exact": "float64",
}


def unrequested_in(statement: str, more: str = "") -> tuple[Unrequested, ...]:
    """What is computed in float64, unrequested, in a spec with this statement."""
    names = set(re.findall(r"\w+", statement))
    lines = ["cugen: 1", "kernel: drawn", "params: {N: 300}", more, "arrays:"]
    lines += [f"  {name}: {{shape: [N], dtype: {dtype}}}" for name, dtype in ARRAYS.items() if name in names]
    (spec,) = load_text("\n".join([*lines, f"compute: {statement}"]))
    return unrequested(spec)


@pytest.mark.parametrize(
    ("statement", "operands", "operations"),
    [
        ("out[i] = u8[i] * 0.299", {"u8"}, 1),
        ("out[i] = i32[i] * f32[i]", {"i32"}, 1),
        ("out[i] = 0.3 * u8[i] + 0.6 * u16[i]", {"u8", "u16"}, 3),
        ("out[i] = i32[i] / 2", {"i32"}, 1),
        ("out[i] = i32[i] / u8[i]", {"i32"}, 1),
        ("out[i] = sqrt(i32[i]) + f32[i]", {"i32"}, 2),
        ("out[i] = f32[i] if i32[i] < 0.5 else 0", {"i32"}, 1),
        ("out[i] = sum(i32[k] * f32[k], k) * f32[i]", {"i32"}, 2),
        ("out[i] = i32[i] * f16[i]", {"i32"}, 1),
        ("out[i] = f32[i] if f32[i] > 0 else 0.01 * i32[i]", {"i32"}, 2),
    ],
)
def test_float64_that_promotion_makes_is_found_with_the_operands_to_cast(
    statement: str, operands: set[str], operations: int
) -> None:
    (each,) = unrequested_in(statement)
    cast = {operand for source in each.sources for operand in integer_operands(source)}
    assert {operand.array for operand in cast if isinstance(operand, Read)} == operands
    assert each.operations == operations
    cured = statement
    for name in operands:
        cured = re.sub(rf"{name}\[(\w)\]", rf"cast({name}[\1], float32)", cured)
    assert unrequested_in(cured) == ()


@pytest.mark.parametrize(
    "statement",
    [
        "out[i] = u8[i] * f32[i]",
        "out[i] = 0.5 * f16[i]",
        "out[i] = f32[i] * (f32[i] > 0)",
        "out[i] = (i + 0.5) * f32[i] / N",
        "out[i] = f64[i] * 0.5",
        "out[i] = f64[i] + i32[i] / 3",
        "out[i] = cast(i32[i], float64) * f32[i]",
        "out[i] = sqrt(u8[i])",
        "exact[i] = i32[i] / 3",
        "exact[i] = sum(i32[k] * f32[k], k) + i",
        "out[i] = sum(cast(u8[k], float64), k)",
    ],
)
def test_float64_that_a_type_asks_for_is_not_found(statement: str) -> None:
    assert unrequested_in(statement) == ()


def test_float64_of_accumulate_is_asked_for() -> None:
    statement = "out[i] = sum(f32[k] * f32[i], k) + mean(f32[k], k)"
    assert unrequested_in(statement, "accumulate: float64") == ()


def test_a_comparison_or_a_subscript_beside_float64_does_not_hide_what_is_in_it() -> None:
    (each,) = unrequested_in("exact[i] = f64[i] if i32[i] * f32[i] > 1 else 0")
    assert [dtype.name for dtype in operand_types(each.sources[0])] == ["int32", "float32"]


TEMPORARY = """\
cugen: 1
kernel: thirds
params: {N: 8}
arrays:
  n: {shape: [N], dtype: int32}
  y: {shape: [N], dtype: TYPE}
compute:
  - t[i] = n[i] / 3
  - y[i] = t[i] + 1
"""


def test_a_temporary_is_to_be_float64_where_its_reader_is() -> None:
    (wanted,), (unwanted,) = (load_text(TEMPORARY.replace("TYPE", dtype)) for dtype in ("float64", "float32"))
    assert unrequested(wanted) == ()
    assert [each.statement.target for each in unrequested(unwanted)] == ["t"]
