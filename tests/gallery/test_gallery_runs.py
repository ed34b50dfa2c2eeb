"""Every spec of the gallery compiles for GPUs without a warning, and gives the right numbers on the CPU device."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import pytest

from cugen.cli.dynamic import dynamic_values
from cugen.kernel import Kernel
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.toolchain.cuda import compile_cubin

TARGETS = ("sm_90", "sm_100", "sm_120")  # the gallery's own target, and newer ones; `test_targets.py` has the rest


def check(kernel: Kernel, params: Mapping[str, int], device: CpuDevice) -> None:
    run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=params)
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.sampled(40)
def test_each_dynamic_param_has_a_default_that_a_run_without_options_takes(kernel: Kernel) -> None:
    args = argparse.Namespace(settings=[])
    assert {value.origin for value in dynamic_values(kernel.spec, args)} <= {"default"}


@pytest.mark.sampled(110)
def test_a_run_on_the_cpu_device_is_right(kernel: Kernel, dynamic_params: dict[str, int]) -> None:
    check(kernel, dynamic_params, CpuDevice())


@pytest.mark.slow
def test_a_run_with_shuffled_lanes_is_right(kernel: Kernel, dynamic_params: dict[str, int]) -> None:
    check(kernel, dynamic_params, CpuDevice(shuffle=1))


@pytest.mark.slow
def test_a_sanitised_run_finds_nothing(kernel: Kernel, dynamic_params: dict[str, int]) -> None:
    check(kernel, dynamic_params, CpuDevice(sanitize=True, shuffle=2, limit_seconds=900))


@pytest.mark.slow
def test_no_two_threads_race_for_shared_memory(kernel: Kernel, dynamic_params: dict[str, int]) -> None:
    check(kernel, dynamic_params, CpuDevice(races=True, uninitialised=True, limit_seconds=900))


@pytest.mark.sampled(392)
@pytest.mark.parametrize("target", TARGETS)
def test_the_source_compiles_without_a_warning(kernel: Kernel, target: str) -> None:
    is_specific = kernel.spec.target == "sm_90a"  # whose code runs on no other GPU
    cubin = compile_cubin(kernel.source, kernel.name, kernel.spec.target if is_specific else target)
    assert [str(warning) for warning in cubin.warnings] == []
    assert sorted(cubin.kernels) == sorted(launch.kernel for launch in kernel.manifest.launches)
