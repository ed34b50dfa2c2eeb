"""The estimate of a thread's registers against the compiler's, for every kernel of the gallery."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel
from cugen.machine import target
from cugen.machine.occupancy import max_registers, occupancy
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.registers.estimate import registers
from cugen.toolchain import nvrtc
from cugen.toolchain.cuda import compile_cubin, compilers

MAX_RATIO = 2.0  # between estimate and compiler, of kernels with many registers
MANY = 64


@pytest.mark.sampled(7)
@pytest.mark.whole
def test_the_gallery_needs_no_more_registers_than_its_launches_allow(kernel: Kernel) -> None:
    for launch in kernel.plan.kernels:
        limit = max_registers(target(kernel.spec.target), launch.threads, max(launch.minimum_blocks, 1))
        assert registers(launch, kernel.plan.context) <= limit


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no CUDA compiler on this machine")
def test_the_estimate_is_near_what_the_compiler_needs(kernel: Kernel) -> None:
    cubin = compile_cubin(kernel.source, kernel.name, compiled_for(kernel))
    for launch in kernel.plan.kernels:
        compiled = cubin.kernels[launch.name]
        estimate = registers(launch, kernel.plan.context)
        assert compiled.spill_stores == 0
        if compiled.registers > max(MANY, MAX_RATIO * estimate):
            # free registers are taken too, such as for loads in flight: fewer must do
            assert spills(kernel, launch, int(MAX_RATIO * estimate)) == 0
        elif estimate > MANY:
            assert estimate <= MAX_RATIO * compiled.registers


def compiled_for(kernel: Kernel) -> str:
    """The kernel's target, or the oldest that the compiler has and whose GPUs run the same code."""
    oldest = f"sm_{min(nvrtc.require().targets)}"
    return max(kernel.spec.target, oldest, key=lambda name: target(name).capability)


def spills(kernel: Kernel, launch: PlannedKernel, registers: int) -> int:
    """The bytes that a compiler spills with so many registers, by a launch bound that allows no more."""
    blocks = occupancy(kernel.spec.target, launch.threads, registers).blocks_per_sm
    bound = f"__launch_bounds__({launch.threads})"
    assert bound in kernel.source
    source = kernel.source.replace(bound, f"__launch_bounds__({launch.threads}, {blocks})")
    compiled = compile_cubin(source, kernel.name, kernel.spec.target).kernels[launch.name]
    assert compiled.registers <= max_registers(kernel.spec.target, launch.threads, blocks)
    return compiled.spill_stores + compiled.spill_loads
