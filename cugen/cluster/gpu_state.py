"""State of a GPU from NVML, the library of `nvidia-smi`. Runs on GPU workers."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from cugen.tune.devices import DeviceState

_LIBRARY = "libnvidia-ml.so.1"
_SM_CLOCK, _MEMORY_CLOCK = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_MAX_PROCESSES = 64
_DRIVER_LENGTH = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
# nvmlClocksThrottleReason*: those that say that a GPU gets too hot or too little power. The power cap is not among
# them: GEMMs reach it on sound GPUs, and a GPU that it slows more than others is left out by its times.
_THROTTLED = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of the third version."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("bytes", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def gpu_state(uuid: str, own_processes: int) -> DeviceState:
    """The state of a GPU; what the driver doesn't say is unknown. `own_processes`: timing processes of this worker."""
    device = ctypes.c_void_p()
    if not _said("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(device)):
        return DeviceState()
    driver, reasons = ctypes.create_string_buffer(_DRIVER_LENGTH), ctypes.c_ulonglong()
    knows_driver = _said("nvmlSystemGetDriverVersion", driver, ctypes.c_uint(_DRIVER_LENGTH))
    knows_reasons = _said("nvmlDeviceGetCurrentClocksThrottleReasons", device, ctypes.byref(reasons))
    return DeviceState(
        driver.value.decode(errors="replace") if knows_driver else "",
        _clock(device, _SM_CLOCK),
        _clock(device, _MEMORY_CLOCK),
        throttled(reasons.value) if knows_reasons else "",
        max(0, _processes(device) - own_processes),
    )


def throttled(reasons: int) -> str:
    """Why clocks are held back, by the bits of NVML; empty if they aren't."""
    return ", ".join(text for bit, text in _THROTTLED.items() if reasons & bit)


def _clock(device: ctypes.c_void_p, kind: int) -> int:
    mhz = ctypes.c_uint()
    return mhz.value if _said("nvmlDeviceGetClockInfo", device, ctypes.c_int(kind), ctypes.byref(mhz)) else 0


def _processes(device: ctypes.c_void_p) -> int:
    """Processes that compute on a GPU; 0 if the driver doesn't say."""
    count, processes = ctypes.c_uint(_MAX_PROCESSES), (_Process * _MAX_PROCESSES)()
    known = _said("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), processes)
    return count.value if known else 0


def _said(function: str, *arguments: Any) -> bool:
    """Calls a function of NVML; whether it answered."""
    called = getattr(_library(), function, None)
    return called is not None and called(*arguments) == 0


@functools.cache
def _library() -> Any:
    """The library, initialised; None without it."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        return None if library.nvmlInit_v2() else library
    except (OSError, AttributeError):
        return None
