"""The two interfaces of CUDA that launchers are written for, by the names that they give to the same things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Api:
    """`limits` maps the parts of a demand (cugen.abi.demand.WORDS) to the attributes of a device."""

    header: str
    suffix: str  # of the files' stems
    outcome: str  # the template that puts a status into words
    status_type: str
    stream_type: str
    success: str
    invalid: str  # a call that can't be made
    too_large: str  # a launch that the device has no room for
    device_type: str
    current_device: str
    device_attribute: str
    limits: Mapping[str, str]


RUNTIME = Api(
    "cuda_runtime_api.h",
    "",
    "outcome_runtime.h.j2",
    "cudaError_t",
    "cudaStream_t",
    "cudaSuccess",
    "cudaErrorInvalidValue",
    "cudaErrorInvalidConfiguration",
    "int",
    "cudaGetDevice",
    "cudaDeviceGetAttribute",
    {
        "threads": "cudaDevAttrMaxThreadsPerBlock",
        "static": "cudaDevAttrMaxSharedMemoryPerBlock",
        "dynamic": "cudaDevAttrMaxSharedMemoryPerBlockOptin",
    },
)
DRIVER = Api(
    "cuda.h",
    "_embed",
    "outcome_driver.h.j2",
    "CUresult",
    "CUstream",
    "CUDA_SUCCESS",
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUdevice",
    "cuCtxGetDevice",
    "cuDeviceGetAttribute",
    {
        "threads": "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
        "static": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK",
        "dynamic": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    },
)
