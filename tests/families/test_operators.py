"""The common operators for every type and every class of shapes, against the reference."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify


@pytest.mark.sampled(10)
def test_an_operator_equals_its_reference(operator_case):
    kernel = generate(operator_case.spec(), analysis=False)
    for sizes in operator_case.sizes():
        run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), params=sizes)
        assert run.verification.passed, "\n".join([f"at {sizes}:", *run.verification.messages, kernel.source])
