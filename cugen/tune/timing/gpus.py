"""The GPUs of this machine, told apart by what `CUDA_VISIBLE_DEVICES` takes. No context is made on any."""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass

from cugen.runtime.libcuda import driver


@dataclass(frozen=True, slots=True)
class Gpu:
    """`uuid` is empty where there is only one, which a process sees without being told."""

    name: str
    capability: str
    uuid: str = ""


def gpus() -> tuple[Gpu, ...]:
    """All that can be seen. RunError (CG5011) where there are none."""
    cuda = driver()
    count = ctypes.c_int()
    cuda.call("cuDeviceGetCount", ctypes.byref(count))
    devices = []
    for ordinal in range(count.value):
        raw = ctypes.create_string_buffer(16)
        cuda.call("cuDeviceGetUuid_v2", raw, ordinal)
        name = f"GPU-{uuid.UUID(bytes=raw.raw)}" if count.value > 1 else ""
        devices.append(Gpu(cuda.limits(ordinal).device, cuda.capability(ordinal), name))
    return tuple(devices)
