"""Every common operator for every type and every class of shapes, on the GPU."""

from __future__ import annotations

from cugen.kernel import generate
from cugen.runtime.verify import verify


def test_an_operator_on_the_gpu_equals_its_reference(operator_case, device):
    kernel = generate(operator_case.spec(), analysis=False)
    for sizes in operator_case.sizes():
        run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=sizes)
        assert run.verification.passed, "\n".join([f"at {sizes}:", *run.verification.messages, kernel.source])
