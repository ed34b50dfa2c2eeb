"""The list of operators: each is planned and compiled at full size, and right at small ones, odd and 1 among them."""

from __future__ import annotations

import json
import zlib
from random import Random
from typing import Any

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compilers
from tests.benchmarks import benchmark
from tests.fuzz.checks import compile_faults, plan_faults

OPERATORS = benchmark("operators.operator_cases").operators()
OLDER_TARGETS = ("sm_75", "sm_86")
MAX_ADDED = 6  # to the least value of a size, if an operator has many
MAX_ADDED_OF_FEW = 40


def small_sizes(operator: Any) -> dict[str, int]:
    """Sizes near the least ones, drawn from the operator's name."""
    random = Random(zlib.crc32(operator.name.encode()))
    limit = MAX_ADDED if len(operator.sizes) > 3 else MAX_ADDED_OF_FEW
    return {name: operator.min_sizes.get(name, 1) + random.randint(1, limit) for name in operator.sizes}


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(text)
    return generate(spec, remarks="none")


def check_at(operator: Any, sizes: dict[str, int]) -> None:
    kernel = kernel_of(operator.spec(sizes))
    verification = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification
    assert verification.messages == ()
    assert verification.passed


def test_there_are_operators_of_every_class_each_with_pytorchs_function():
    assert len(OPERATORS) > 200
    assert len({operator.group for operator in OPERATORS}) > 10
    for operator in OPERATORS:
        compile(operator.source(), operator.name, "exec")
        assert all(name in operator.peer for name in operator.inputs)


def test_the_page_is_current_and_its_figures_are_of_operators_that_the_list_has():
    page = benchmark("operators.operators_page")
    figures = json.loads(page.RESULTS.read_text())
    assert page.part(figures) in page.PAGE.read_text(), "run benchmarks/operators/operators_page.py"
    names = {operator.name for operator in OPERATORS}
    assert [row["name"] for row in figures["cases"] if row["name"] not in names] == []


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.case().ascii_name)
def test_at_full_size_it_is_planned_within_seconds_and_compiles(operator):
    text = operator.spec(more="target: sm_90a")
    assert list(plan_faults(text, {})) == []
    if compilers():
        assert list(compile_faults(kernel_of(text))) == []


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no CUDA compiler on this machine")
@pytest.mark.parametrize("target", OLDER_TARGETS)
@pytest.mark.parametrize("operator", OPERATORS[::10], ids=lambda operator: operator.case().ascii_name)
def test_older_devices_have_it_too(operator, target):
    assert list(compile_faults(kernel_of(operator.spec(more=f"target: {target}")))) == []


@pytest.mark.sampled(268)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.case().ascii_name)
def test_at_small_sizes_its_results_are_those_of_numpy(operator):
    check_at(operator, small_sizes(operator))


@pytest.mark.sampled(268)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.case().ascii_name)
def test_at_the_least_sizes_its_results_are_those_of_numpy(operator):
    check_at(operator, {name: operator.min_sizes.get(name, 1) for name in operator.sizes})
