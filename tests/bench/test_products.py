"""The list of products: every shape is there once, and is what a user would write."""

from __future__ import annotations

import pytest

from cugen.bench.translation.dialects import Torch
from cugen.bench.translation.translate import translate
from cugen.runtime.inputs import known_params
from cugen.spec.load import load_text
from tests.benchmarks import benchmark

CASES = benchmark("gemm.products_cases").cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.ascii_name)
def test_pytorch_has_a_product_for_every_case(case):
    (spec,) = load_text(case.spec)
    assert "torch.matmul(" in translate(spec, known_params(spec, {}), {}, Torch()).source


def test_every_case_is_held_against_cublas_at_its_best():
    assert all(any(called.name == "cublasLt" for called in case.called) for case in CASES)


def test_every_case_has_a_kernel_of_its_own_since_a_lock_keeps_one_state_of_each():
    names = [load_text(case.spec)[0].kernel for case in CASES]
    assert len(set(names)) == len(names)
    assert {"product_4096", "product_1000_777_513", "product_f64_4096", "products_8_of_128"} <= set(names)


def test_goals_name_a_peer_that_there_is():
    assert {goal.against for case in CASES for goal in case.goals} == {"cublas"}
