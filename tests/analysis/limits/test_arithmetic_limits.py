"""Warnings about arithmetic say what wraps or is float64, for which input, and the cast to write."""

from __future__ import annotations

import re

import pytest

from cugen.analysis.limits.arithmetic_limits import arithmetic_findings
from cugen.spec.diagnostics import Diagnostic
from cugen.spec.load import load_text

GREY = """\
cugen: 1
kernel: grey
params: {N: 300}
arrays:
  r: {shape: [N], dtype: uint8}
  g: {shape: [N], dtype: uint8}
  y: {shape: [N], dtype: uint8}
compute:
  - STATEMENT
"""


def diagnostics(text: str) -> list[Diagnostic]:
    (spec,) = load_text(text)
    return [finding.diagnostic for finding in arithmetic_findings(spec, "grey.yaml")]


def grey(statement: str) -> list[Diagnostic]:
    return diagnostics(GREY.replace("STATEMENT", statement))


def cured(statement: str, help: str) -> str:
    """The statement with the casts that the help says to write."""
    for cast in re.findall(r"`(cast\(.*?, \w+\))`", help):
        operand = cast.removeprefix("cast(").rpartition(",")[0]
        statement = statement.replace(operand, cast)
    return statement


def test_a_weighted_sum_of_bytes_names_all_that_wraps_and_that_its_high_byte_is_0() -> None:
    (finding,) = grey("y[i] = (77 * r[i] + 179 * g[i]) >> 8")
    assert finding.message == "`77 * r[i]` wraps in uint8: it is 19,635 for r[150] = 255"
    assert finding.notes == (
        "so does `179 * g[i]`, 45,645 for g[150] = 255",
        "so does `77 * r[i] + 179 * g[i]`, 510 for r[150] = 123 and g[150] = 133",
        "`(77 * r[i] + 179 * g[i]) >> 8` is always 0",
    )
    assert finding.help == "write `cast(r[i], int32)` and `cast(g[i], int32)`, so that it is computed in int32"
    assert (finding.code, finding.severity, finding.span.column) == ("CG2302", "warning", 13)


def test_a_power_that_wraps_names_its_base() -> None:
    (finding,) = grey("y[i] = (r[i] ** 2 + g[i] // 2) >> 8")
    assert finding.message == "`r[i] ** 2` wraps in uint8: it is 65,025 for r[150] = 255"
    assert finding.help == "write `cast(r[i], int32)`, so that it is computed in int32"
    assert grey("y[i] = (r[i] % 2) ** g[i]") == []


def test_a_limit_above_the_type_never_limits() -> None:
    (finding,) = grey("y[i] = minimum(r[i] + g[i], 255)")
    assert "`minimum(r[i] + g[i], 255)` never limits it: uint8 has no values beyond 255" in finding.notes
    assert finding.help == "write `cast(r[i], int32)`, so that it is computed in int32"


def test_what_wraps_in_a_store_is_to_be_limited() -> None:
    (finding,) = grey("y[i] = cast(r[i], int32) + g[i]")
    assert finding.message.startswith("`cast(r[i], int32) + g[i]` wraps in uint8 of `y`: it is 510 for")
    assert finding.help == "limit it, `clamp(…, 0, 255)`, or write `cast(…, uint8)` if it is meant to wrap"


@pytest.mark.parametrize(
    "statement",
    [
        "y[i] = (77 * r[i] + 179 * g[i]) >> 8",
        "y[i] = minimum(r[i] + g[i], 255)",
        "y[i] = clamp(2 * r[i] - g[i], 0, 255)",
        "y[i] = abs(r[i] - g[i])",
        "y[i] = (r[i] * g[i] + 127) // 255",
    ],
)
def test_the_cast_of_the_help_is_the_cure(statement: str) -> None:
    (finding,) = grey(statement)
    assert grey(cured(statement, finding.help)) == []


@pytest.mark.parametrize("value", ["r[i] + g[i]", "2 * r[i] - g[i]", "r[i] % 10 - g[i]"])
def test_a_cast_to_the_type_that_wraps_is_meant(value: str) -> None:
    assert grey(f"y[i] = {value}")
    assert grey(f"y[i] = cast({value}, uint8)") == []


def test_an_addition_to_an_array_is_to_be_written_with_its_old_value() -> None:
    (finding,) = grey("y[i] += minimum(r[i], g[i])")
    assert finding.help.startswith("write `y[i] = cast(y[i], int32) + …` in place of `+=`, and limit it, ")
    assert diagnostics(GREY.replace("STATEMENT", "y[i] = clamp(cast(y[i], int32) + minimum(r[i], g[i]), 0, 255)")) == []


def test_a_sum_that_is_too_large_for_its_array_too_is_to_be_cast_and_limited() -> None:
    (finding,) = grey("y[i] = r[i] + g[i]")
    assert finding.help == (
        "write `cast(r[i], int32)`, so that it is computed in int32, and limit it, `clamp(…, 0, 255)`, "
        "or write `cast(…, uint8)` if it is meant to wrap"
    )
    assert grey("y[i] = clamp(cast(r[i], int32) + g[i], 0, 255)") == []


@pytest.mark.parametrize("call", ["cast( r[i] + g[i] , uint8)", "cast((r[i] + g[i]), uint8)"])
def test_a_cast_that_wraps_is_meant_however_it_is_written(call: str) -> None:
    assert grey(f"y[i] = {call}") == []
    assert grey(f"|\n      y[i] = {call}".replace("(r[i]", "(\n        r[i]")) == []


def test_a_cast_that_wraps_is_meant_inside_of_an_expression_of_its_type() -> None:
    assert grey("y[i] = where(r[i] > 3, cast(r[i] + g[i], uint8), 0)") == []
    assert grey("y[i] = cast(r[i] + g[i], uint8) >> 1") == []
    (finding,) = grey("y[i] = cast(r[i] + g[i], uint8) * 2")
    assert finding.message.startswith("`cast(r[i] + g[i], uint8) * 2` wraps in uint8: it is 510")


@pytest.mark.parametrize("dtype", ["int32", "uint16", "float32"])
def test_a_cast_to_a_type_that_would_hold_it_does_not_excuse_what_wrapped_before(dtype: str) -> None:
    (finding,) = diagnostics(
        GREY.replace("y: {shape: [N], dtype: uint8}", f"y: {{shape: [N], dtype: {dtype}}}").replace(
            "STATEMENT", f"y[i] = cast(r[i] + g[i], {dtype})"
        )
    )
    assert finding.message.startswith("`r[i] + g[i]` wraps in uint8: it is 510")


def test_a_cast_does_not_excuse_what_is_then_shifted() -> None:
    (finding,) = grey("y[i] = cast((r[i] + g[i]) >> 1, uint8)")
    assert finding.message.startswith("`r[i] + g[i]` wraps in uint8: it is 510")


FLOAT = """\
cugen: 1
kernel: scaled
params: {N: 300}
arrays:
  r: {shape: [N], dtype: uint8}
  n: {shape: [N], dtype: int32}
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 0.299 * r[i] + n[i] * x[i]
CHECK
"""


def test_unrequested_float64_names_its_types_and_the_casts() -> None:
    (finding,) = diagnostics(FLOAT.replace("CHECK", ""))
    assert finding.message == "`0.299 * r[i] + n[i] * x[i]` is computed in float64, for which no type of the spec asks"
    assert finding.notes == (
        "`0.299 * r[i]` makes float64 of uint8",
        "`n[i] * x[i]` makes float64 of int32 and float32",
    )
    assert finding.help.startswith("write `cast(r[i], float32)` and `cast(n[i], float32)`, or")
    assert finding.severity == "warning"
    assert diagnostics(cured(FLOAT.replace("CHECK", ""), finding.help.partition(", or")[0])) == []


@pytest.mark.parametrize(("dtype", "is_found"), [("float64", False), ("float32", True), ("int16", True)])
def test_only_a_cast_to_float64_asks_for_it(dtype: str, is_found: bool) -> None:
    text = FLOAT.replace("CHECK", "").replace("0.299 * r[i] + n[i] * x[i]", f"r[i] + x[i] + cast(n[i] * x[i], {dtype})")
    assert any("`n[i] * x[i]` is computed in float64" in finding.message for finding in diagnostics(text)) == is_found


def test_a_cast_to_float64_asks_for_what_is_computed_with_it() -> None:
    text = FLOAT.replace("CHECK", "").replace("0.299 * r[i] + n[i] * x[i]", "r[i] + (cast(n[i] * x[i], float64) + 1)")
    assert diagnostics(text) == []


@pytest.mark.parametrize(("limit", "severities"), [(0, ["error"]), (2, ["error"]), (3, [])])
def test_the_limit_is_on_the_operations_in_float64(limit: int, severities: list[str]) -> None:
    results = diagnostics(FLOAT.replace("CHECK", f"check: {{doubles: {limit}}}"))
    assert [finding.severity for finding in results] == severities


def test_a_mean_of_integers_names_what_it_is_of() -> None:
    text = FLOAT.replace("CHECK", "").replace("0.299 * r[i] + n[i] * x[i]", "r[i] + x[i] - mean(n[k], k)")
    (finding,) = diagnostics(text)
    assert finding.help.startswith("write `cast(n[k], float32)`, or")
    assert diagnostics(cured(text, finding.help.partition(", or")[0])) == []
