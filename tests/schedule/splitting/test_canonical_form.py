"""An operator needs no fallback where it is spelt in another way."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cugen.families.registry import families
from cugen.kernel import generate
from cugen.spec.load import load_text
from tests.benchmarks import benchmark

FALLBACKS = {family.name for family in families() if family.fallback}
STATEMENT = re.compile(r"(?P<output>\w+)(?P<subscripts>\[[^=]*\]) = (?P<value>.*)")


def last_statement(operator: Any) -> re.Match[str] | None:
    return STATEMENT.fullmatch(operator.compute.splitlines()[-1].strip())


def changeable_input(operator: Any) -> str | None:
    """The last input of floats that has no boundary."""
    inputs = [name for name in operator.inputs if re.fullmatch(r"\[.+\] \| b?float\d\d", operator.arrays[name])]
    return inputs[-1] if inputs else None


# With a single result, or one of integers, an activation is another operator.
OPERATORS = [
    operator
    for operator in benchmark("operators.operator_cases").operators()
    if (last := last_statement(operator)) and "float32" in operator.arrays[last["output"]]
]


def with_value(operator: Any, form: str) -> str:
    """The spec with a function of the last statement's value."""
    last = last_statement(operator)
    others = operator.compute.splitlines()[:-1]
    value = f"{last['output']}{last['subscripts']} = {form.format(last['value'])}"
    return replace(operator, compute="\n".join([*others, value])).spec()


def activated_value(operator: Any) -> str:
    return with_value(operator, "silu({})")


def result_under_a_mask(operator: Any) -> str:
    last = last_statement(operator)
    mask = operator.arrays[last["output"]].replace("float32", "uint8")
    masked = replace(operator, arrays={**operator.arrays, "mask": mask})
    return with_value(masked, f"where(mask{last['subscripts']} > 0, {{}}, 0)")


def activation_in_a_statement(operator: Any) -> str:
    output, subscripts = last_statement(operator).group("output", "subscripts")
    first = re.sub(rf"\b{output}\b", "result", operator.compute)
    return replace(operator, compute=f"{first}\n{output}{subscripts} = silu(result{subscripts})").spec()


def function_of_an_input(operator: Any) -> str:
    name = changeable_input(operator)
    dimensions = operator.arrays[name].partition("]")[0].count(",") + 1
    subscripts = ", ".join(f"at{dimension}" for dimension in range(dimensions))
    others = re.sub(rf"\b{name}\[", "changed[", operator.compute)
    return replace(operator, compute=f"changed[{subscripts}] = 2 * {name}[{subscripts}] + 1\n{others}").spec()


def families_of(text: str) -> set[str]:
    (spec,) = load_text(text)
    return {launch.family for launch in generate(spec, analysis=False).plan.kernels}


@pytest.mark.sampled(868)
@pytest.mark.parametrize(
    ("spelt", "operator"),
    [
        pytest.param(spelt, operator, id=f"{spelt.__name__}-{operator.kernel}"[:70])
        for spelt in (activated_value, result_under_a_mask, activation_in_a_statement, function_of_an_input)
        for operator in OPERATORS
        if spelt != function_of_an_input or changeable_input(operator)
    ],
)
def test_an_operator_that_is_spelt_in_another_way_needs_no_fallback(spelt: Callable[[Any], str], operator: Any) -> None:
    assert families_of(spelt(operator)) & FALLBACKS <= families_of(operator.spec())
