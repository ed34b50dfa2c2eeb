"""No kernel of the gallery reads a local, or an element of an array in registers, before it gives it a value."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel
from cugen.plan.registers.assignment import unassigned_reads


@pytest.mark.sampled(120)
def test_the_gallery_reads_no_register_without_a_value(kernel: Kernel) -> None:
    for launch in kernel.plan.kernels:
        assert unassigned_reads(launch) == ()
