"""Stores that don't make up the elements of an output are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.kernel import Kernel, generate
from cugen.plan.symbols import integer
from cugen.spec.load import load_text

from .stores import store_faults

SPEC = """
cugen: 1
kernel: added
params: {N: 4096}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] OPERATOR x[i]
schedule: {family: map, block: {i: 128}}
"""


def with_blocks(operator: str, blocks: int) -> Kernel:
    """A kernel that is launched with another number of blocks than it needs, which is 32."""
    kernel = generate(load_text(SPEC.replace("OPERATOR", operator))[0], analysis=False)
    (launch,) = kernel.plan.kernels
    grid = (integer(blocks), *launch.grid[1:])
    return replace(kernel, plan=replace(kernel.plan, kernels=(replace(launch, grid=grid),)))


@pytest.mark.parametrize("operator", ["=", "+="])
def test_a_store_of_each_element_is_no_fault(operator: str) -> None:
    assert list(store_faults(with_blocks(operator, 32), {})) == []


@pytest.mark.parametrize("operator", ["=", "+="])
def test_elements_that_no_thread_stores_are_found(operator: str) -> None:
    assert list(store_faults(with_blocks(operator, 31), {})) == ["y has 4096 elements and 3968 stores"]


def test_elements_that_two_threads_add_to_are_found() -> None:
    assert list(store_faults(with_blocks("+=", 33), {})) == ["y has 4096 elements and 4224 stores"]
