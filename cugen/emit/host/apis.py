"""Names of the CUDA runtime and driver APIs that launchers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Api:
    """One API. `limits` maps the resources of a demand (cugen.abi.demand.UNITS) to device attributes."""

    header: str
    suffix: str  # of file stems
    describe: str  # function that describes a status
    status_type: str
    stream_type: str
    success: str
    invalid: str  # status of an invalid call
    too_large: str  # status of a launch beyond the device's limits
    device_type: str
    current_device: str
    device_attribute: str
    limits: Mapping[str, str]
    sms: str  # the attribute


RUNTIME = Api(
    "cuda_runtime_api.h",
    "",
    "cudaGetErrorString",
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
    "cudaDevAttrMultiProcessorCount",
)
DRIVER = Api(
    "cuda.h",
    "_embed",
    "cuGetErrorString",
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
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
)
