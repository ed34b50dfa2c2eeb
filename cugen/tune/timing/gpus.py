"""GPUs of this machine, identified by UUIDs for `CUDA_VISIBLE_DEVICES`. Listing them creates no CUDA context."""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass

from cugen.runtime.libcuda import driver


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU. `uuid` is empty on machines with one GPU, which need no `CUDA_VISIBLE_DEVICES`."""

    name: str
    capability: str
    uuid: str = ""


def gpus() -> tuple[Gpu, ...]:
    """All visible GPUs. Raises RunError (CG5011) if there is none."""
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
