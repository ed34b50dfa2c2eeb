"""Variants: combinations, substitution and names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cugen.spec.load import load_text

Diagnose = Callable[..., Any]

MATRIX = """\
cugen: 1
kernel: scale
doc: costs $5 and takes $dtype
arrays:
  x: {shape: [8], dtype: $dtype, memory: {space: shared, pad: $pad}}
  y: {shape: ["${n}6"], dtype: "$dtype"}
indices: {i: 8}
compute: |
  y[i] = $n * x[i]
  y[i + 8] = cast(x[i], ${dtype})
schedule: {block: {i: $n}, fast: $fast}
variants:
  dtype: [float32, float64]
  n: [1]
  pad: [0, 1]
  fast: [true]
"""


def test_each_combination_is_a_kernel_and_the_last_variant_changes_fastest() -> None:
    specs = load_text(MATRIX)
    assert [s.kernel for s in specs] == [
        "scale__float32__1__0__true",
        "scale__float32__1__1__true",
        "scale__float64__1__0__true",
        "scale__float64__1__1__true",
    ]
    assert specs[1].variant == (("dtype", "float32"), ("n", 1), ("pad", 1), ("fast", True))
    assert [s.array("x").dtype.name for s in specs] == ["float32", "float32", "float64", "float64"]
    assert [s.array("x").memory.pad for s in specs] == [0, 1, 0, 1]
    assert specs[0].schedules[0][1].tunables == (("fast", True),)
    assert specs[0].doc == "costs $5 and takes float32"
    assert len({s.hash for s in specs}) == 4


def test_a_value_that_is_the_whole_scalar_keeps_its_type_also_in_quotes(diagnose: Diagnose) -> None:
    assert diagnose(MATRIX.replace("pad: $pad", 'pad: "$pad"')) == ()
    assert diagnose(MATRIX.replace("pad: $pad", 'pad: "${pad}"')) == ()


def test_a_key_may_be_a_variant(diagnose: Diagnose) -> None:
    text = MATRIX.replace("{block: {i: $n}, fast: $fast}", "{block: {$index: 8}, fast: $fast}")
    assert diagnose(text + "  index: [i]\n") == ()
    assert {d.code for d in diagnose(text + "  index: [k]\n")} == {"CG1041"}


def test_an_error_after_a_value_points_at_its_column(diagnose: Diagnose) -> None:
    text = MATRIX.replace("$n * x[i]\n", "$n * zz[i]\n")
    (diagnostic,) = diagnose(text)
    assert (
        text.splitlines()[diagnostic.span.line - 1][diagnostic.span.column - 1 : diagnostic.span.end_column - 1] == "zz"
    )
    assert diagnostic.notes[-1] == "in the variant dtype = float32, n = 1, pad = 0, fast = True"


def test_a_diagnostic_of_one_variant_only_says_in_which(diagnose: Diagnose) -> None:
    (diagnostic,) = diagnose(MATRIX.replace("pad: [0, 1]", "pad: [0, 2000]"))
    assert diagnostic.code == "CG1029"
    assert diagnostic.notes == ("in the variant dtype = float32, n = 1, pad = 2000, fast = True",)


@pytest.mark.parametrize(
    ("variants", "codes"),
    [
        ("{dtype: float32}", ["CG1044"]),
        ("{dtype: []}", ["CG1044"]),
        ("[dtype]", ["CG1015"]),
        ("{dtype: [[float32]]}", ["CG1015"]),
        ("{dtype: [~]}", ["CG1015"]),
        ("{dtype: [float32, 0.5]}", ["CG1045"]),
        ("{dtype: [float32, -1]}", ["CG1045"]),
        ("{dtype: [a__b]}", ["CG1045"]),
        ("{dtype: ['']}", ["CG1045"]),
        ("{dtype: [ä]}", ["CG1045"]),
        ("{nan: [1]}", ["CG1017"]),
        ("{dtype: [float32, float32]}", ["CG1048"]),
        ("{dtyp: [float32]}", ["CG1047"]),
        ("{}", ["CG1047"]),
    ],
)
def test_variants_that_are_rejected(diagnose: Diagnose, spec_text: Any, variants: str, codes: list[str]) -> None:
    text = spec_text(variants=variants).replace("x: {shape: [8], dtype: float32", "x: {shape: [8], dtype: $dtype")
    assert [d.code for d in diagnose(text)] == codes


@pytest.mark.parametrize(
    ("counts", "refused"),
    [pytest.param((32, 32), False, marks=pytest.mark.slow), ((32, 33), True), ((11, 10, 10), True)],
)
def test_there_are_at_most_1024_combinations(
    diagnose: Diagnose, spec_text: Any, counts: tuple[int, ...], refused: bool
) -> None:
    axes = ", ".join(f"v{n}: {list(range(count))}" for n, count in enumerate(counts))
    text = spec_text(variants=f"{{{axes}}}", kernel="main")
    assert ("CG1046" in {d.code for d in diagnose(text)}) == refused


def test_a_long_document_with_many_combinations_is_rejected(diagnose: Diagnose, spec_text: Any) -> None:
    values = f", values: {[0] * 5000}"
    text = spec_text(x=values, variants=f"{{a: {list(range(1000))}}}").replace("[8]", "[5000]")
    assert [d.code for d in diagnose(text)] == ["CG1046"]


def test_a_name_with_its_values_is_not_too_long(diagnose: Diagnose, spec_text: Any) -> None:
    assert [d.code for d in diagnose(spec_text(kernel="k" * 95, variants="{a: [longer]}"))] == ["CG1016"]
