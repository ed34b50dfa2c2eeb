"""The state of a GPU from NVML, in whose place the tests build a library with the same functions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cugen.cluster import gpu_state as module
from cugen.cluster.gpu_state import gpu_state, throttled
from cugen.tune.devices import DeviceState

NVML = r"""
#include <string.h>
struct process { unsigned pid; unsigned long long bytes; unsigned instance, compute_instance; };
static int known;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) { *device = &known; return strcmp(uuid, "GPU-1") != 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "580.65.06", length); return 0; }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1980 : 3201;
    return device != &known || (kind != 1 && kind != 2);
}
#ifndef OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) {
    *bits = 0x8;
    return device != &known;
}
#endif
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes) {
    if (*count < 3) return 7;
    for (unsigned n = 0; n < 3; ++n) processes[n].compute_instance = n;
    *count = 3;
    return device != &known;
}
"""


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A function that puts a library in the place of the driver's."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("NO C COMPILER, NOT TESTED")

    def build(*flags: str) -> None:
        source, library = tmp_path / "nvml.c", tmp_path / "libnvml.so"
        source.write_text(NVML)
        subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", library, source], check=True)
        monkeypatch.setattr(module, "_LIBRARY", str(library))
        module._library.cache_clear()

    yield build
    module._library.cache_clear()


def test_the_driver_says_the_state(nvml: Callable[..., None]) -> None:
    nvml()
    assert gpu_state("GPU-1", 1) == DeviceState("580.65.06", 1980, 3201, "hardware slowdown", 2)
    assert gpu_state("GPU-1", 4) == DeviceState("580.65.06", 1980, 3201, "hardware slowdown", 0)
    assert gpu_state("GPU-2", 1) == DeviceState()


def test_what_a_driver_does_not_say_is_unknown(nvml: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    nvml("-DOLD")
    assert gpu_state("GPU-1", 1) == DeviceState("580.65.06", 1980, 3201, "", 2)
    monkeypatch.setattr(module, "_LIBRARY", "libnone.so")
    module._library.cache_clear()
    assert gpu_state("GPU-1", 1) == DeviceState()


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (0x00, ""),
        (0x01, ""),  # idle
        (0x04, ""),  # power cap
        (0x24, "software thermal slowdown"),
        (0xC8, "hardware slowdown, hardware thermal slowdown, power brake"),
    ],
)
def test_clocks_that_are_held_back_have_a_reason(reasons: int, said: str) -> None:
    assert throttled(reasons) == said
