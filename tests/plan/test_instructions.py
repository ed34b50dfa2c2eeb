"""Instructions of operations, and issue slots of types."""

from __future__ import annotations

import pytest

from cugen.machine import device, target
from cugen.plan.lowering.instructions import is_product, issue_slots, operation_instructions
from cugen.spec.expressions import Const, Op, Read
from cugen.spec.types import FLOAT32, FLOAT64, INT32, INT64

X = Read("x", (), FLOAT32)


def operation(name: str, *args: Const) -> Op:
    return Op(name, (X, *args), FLOAT32)


@pytest.mark.parametrize(
    ("exponent", "instructions", "ends_in_a_multiplication"),
    [(1, 0, False), (2, 1, True), (3, 2, True), (0.5, 14, False), (1.5, 15, True), (-1, 14, False), (2.3, 70, False)],
)
def test_a_literal_power_is_multiplications_a_root_and_a_division(
    exponent: float, instructions: int, ends_in_a_multiplication: bool
) -> None:
    power = operation("pow", Const(exponent, FLOAT32))
    assert operation_instructions(power, target("sm_90")) == instructions
    assert is_product(power) == ends_in_a_multiplication


def test_modifiers_of_operands_are_no_instructions() -> None:
    assert [operation_instructions(operation(name), target("sm_90")) for name in ("neg", "abs", "exp")] == [0, 0, 8]


@pytest.mark.parametrize(("name", "instructions"), [("sm_75", 3), ("sm_80", 1)])
def test_an_extremum_that_propagates_nan_is_one_instruction_where_the_target_has_it(
    name: str, instructions: int
) -> None:
    assert operation_instructions(operation("maximum", X), target(name)) == instructions


def test_issue_slots_follow_published_rates() -> None:
    h200 = device("H200")
    assert issue_slots(FLOAT32, h200) == 1
    assert issue_slots(FLOAT64, h200) == pytest.approx(2, rel=0.01)
    assert issue_slots(INT32, h200) < issue_slots(INT64, h200)
