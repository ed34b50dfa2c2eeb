"""A choice is a select where a bound of its sides shows it; other choices and some functions may branch."""

from __future__ import annotations

import pytest

import cugen
from cugen.analysis.launches.facts import BranchFacts, Facts
from cugen.spec.load import load_text


def facts_of(compute: str, dtype: str = "float32", target: str = "sm_90") -> Facts:
    arrays = "".join(f"  {name}: {{shape: [N], dtype: {dtype}}}\n" for name in "xwy" if f"{name}[" in f"y[] {compute}")
    (spec,) = load_text(
        f"cugen: 1\nkernel: k\ntarget: {target}\nparams: {{N: 4096}}\narrays:\n{arrays}compute: |\n  y[i] = {compute}\n"
    )
    (launch,) = cugen.analyze(spec).kernels
    return launch.facts


def open_branches(actual: Facts) -> list[BranchFacts]:
    return [branch for branch in actual.branches if branch.parting is None]


@pytest.mark.parametrize(
    "compute",
    [
        "x[i] if x[i] > 0 else 0.1 * x[i] + w[i]",
        "x[i] + w[i] if i % 2 == 0 else x[i] - w[i]",
        "x[i] if w[i] > 1 and x[i] < 5 and x[i] > 2 else w[i]",
        "exp(x[i]) + (x[i] if w[i] > 0 else 1)",
        "x[i] / 4 if i > 7 else x[i]",
    ],
)
def test_a_choice_between_few_instructions_is_a_select(compute):
    actual = facts_of(compute)
    assert not open_branches(actual)
    assert actual.choices >= 1


@pytest.mark.parametrize(
    "compute",
    [
        "exp(x[i] * w[i]) if x[i] > 0 else x[i] + w[i]",
        "((((x[i] + 1) * w[i] + 2) * w[i] + 3) * w[i] + 4) if x[i] > 0 else w[i] + x[i]",
        "0.5 if x[i] > 0 else 1.5 if x[i] > 1 else w[i] + x[i]",
        "tanh(x[i]) if w[i] + x[i] > 0 else 1",
    ],
)
def test_a_costly_or_nested_choice_may_branch(compute):
    actual = facts_of(compute)
    (branch,) = open_branches(actual)
    assert (branch.kind, branch.is_assumed) == ("choice", True)
    assert "compilers may branch" in branch.reason
    assert actual.choices == 0


@pytest.mark.slow
def test_a_chain_of_32_costly_choices_is_one_assumed_branch():
    chain = "x[i] + w[i]"
    for case in range(31):
        chain = f"exp(x[i] * {case + 1}) * w[i] if i % 32 == {case} else {chain}"
    (branch,) = open_branches(facts_of(chain))
    assert branch.is_assumed


def test_the_right_operand_of_a_conjunction_is_conditional_too():
    (branch,) = open_branches(facts_of("x[i] * w[i] if x[i] > 0 and exp(w[i] * x[i]) > 2 else 3"))
    assert branch.is_assumed


@pytest.mark.parametrize(
    ("compute", "dtype", "name"),
    [
        ("x[i] / w[i]", "float32", "div of float32"),
        ("sqrt(x[i])", "float32", "sqrt of float32"),
        ("sin(x[i])", "float32", "sin of float32"),
        ("exp(x[i])", "float64", "exp of float64"),
        ("x[i] // w[i]", "int32", "floordiv of int32"),
    ],
)
def test_a_function_whose_code_branches_is_unknown(compute, dtype, name):
    (branch,) = open_branches(facts_of(compute, dtype))
    assert (branch.kind, branch.name, branch.is_assumed) == ("function", name, False)


@pytest.mark.parametrize(
    ("compute", "dtype"),
    [("exp(x[i]) + tanh(w[i])", "float32"), ("x[i] // 3 + w[i] % 5", "int32"), ("x[i] / 8 + w[i] * 3", "float64")],
)
def test_functions_of_straight_code_are_no_branches(compute, dtype):
    assert not open_branches(facts_of(compute, dtype))


@pytest.mark.parametrize(("target", "kinds"), [("sm_75", ["conversion"]), ("sm_90", [])])
def test_float8_is_converted_by_branching_code_before_it_has_instructions(target, kinds):
    actual = facts_of("x[i] * w[i]", "float8_e4m3", target)
    assert [branch.kind for branch in open_branches(actual)] == kinds


def test_a_division_of_indices_in_64_bits_is_a_branching_function():
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {M: dynamic, N: {range: [1, 1000]}, P: {range: [1, 2000000000]}}\narrays:\n"
        "  x: {shape: [M], dtype: float32, boundary: zero}\n  y: {shape: [P], dtype: float32}\n"
        "compute: y[i] = x[3 * i // N]\nschedule: {family: direct}\n"
    )
    (launch,) = cugen.analyze(spec, params={"M": 70, "N": 70, "P": 100}).kernels
    assert "64-bit division of indices" in [branch.name for branch in launch.facts.branches]


def test_a_choice_by_what_a_warp_shares_does_not_diverge():
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {M: 64, N: 4096}\nscalars: {s: {dtype: float32}}\narrays:\n"
        "  x: {shape: [N], dtype: float32}\n  y: {shape: [N], dtype: float32}\n"
        "compute: y[i] = exp(x[i]) * x[i] if s > 0 else tanh(x[i])\n"
    )
    (launch,) = cugen.analyze(spec).kernels
    assert not [branch for branch in launch.facts.branches if branch.kind == "choice"]
