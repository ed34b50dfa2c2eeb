"""What the plain target of a GPU with instructions of its own leaves aside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.schedule.specific_targets import unused_target
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec, Tuned

WGMMA = "sm_90a would multiply by wgmma: `--target sm_90a`"


def product(dtype: str = "bfloat16", target: str = "sm_90", schedule: str = "") -> Spec:
    (spec,) = load_text(f"""
cugen: 1
kernel: product
target: {target}
params: {{M: 512, N: 512, K: 512}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: [K, N], dtype: {dtype}, layout: column}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{{schedule}}}
""")
    return spec


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(product(), WGMMA, id="bfloat16"),
        pytest.param(product(target="sm_90a"), "", id="has it already"),
        pytest.param(product(target="sm_80"), "", id="another GPU"),
        pytest.param(product("float64"), "", id="no such instruction"),
        pytest.param(product(schedule="family: gemm"), "", id="another family is asked for"),
        pytest.param(product(schedule="thread: {m: 3}"), "", id="no plan for it"),
    ],
)
def test_a_plain_target_that_leaves_wgmma_aside_is_told_which_one_has_it(spec: Spec, text: str) -> None:
    assert unused_target(spec) == text


def test_a_schedule_of_a_lock_file_belongs_to_the_target_that_it_was_tuned_for() -> None:
    spec = product()
    tuned = Tuned("cugen.lock", "NVIDIA H200", "0.1.0", "5 µs", spec.schedules)
    assert unused_target(replace(spec, schedules=(("C", Schedule("gemm")),), tuned=tuned)) == WGMMA
