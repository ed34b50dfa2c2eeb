// matmul_tile_variants_launch: the largest of these variants, per block, that fits the current device
//
// matmul_tile_variants__32: 1024 threads and 8192 bytes of shared memory per block
// matmul_tile_variants__16: 256 threads and 2048 bytes of shared memory per block
// matmul_tile_variants__8: 64 threads and 512 bytes of shared memory per block
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#include "matmul_tile_variants__8.h"
#include "matmul_tile_variants__16.h"
#include "matmul_tile_variants__32.h"

#ifdef __cplusplus
#include <string>

// Index of the first of these variants that matches the sizes and fits the device. Where there is none, returns
// cudaErrorInvalidValue or cudaErrorInvalidConfiguration, with the reason in `reason`.
inline cudaError_t matmul_tile_variants_variant(int* variant, std::string* reason)
{
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    int threads = 0;
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device);
    int shared = 0;
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlock, device);
    if (status != cudaSuccess)
        return status;

    if (threads >= 1024 && shared >= 8192) {
        *variant = 0;
        return cudaSuccess;
    }
    if (threads >= 256 && shared >= 2048) {
        *variant = 1;
        return cudaSuccess;
    }
    if (threads >= 64 && shared >= 512) {
        *variant = 2;
        return cudaSuccess;
    }
    if (reason != nullptr)
        *reason = std::string("`matmul_tile_variants__8` needs 64 threads and 512 bytes of shared ")
            + "memory per block; the device allows " + std::to_string(threads) + " threads and "
            + std::to_string(shared) + " bytes of shared memory";
    return cudaErrorInvalidConfiguration;
}

// Launches asynchronously on `stream`. All pointers are device pointers.
inline cudaError_t matmul_tile_variants_launch(const float* A, const float* B, float* C, cudaStream_t stream,
    std::string* reason = nullptr)
{
    int variant = 0;
    const cudaError_t status = matmul_tile_variants_variant(&variant, reason);
    if (status != cudaSuccess)
        return status;
    switch (variant) {
    case 0:
        return ::matmul_tile_variants__32_launch(A, B, C, stream);
    case 1:
        return ::matmul_tile_variants__16_launch(A, B, C, stream);
    default:
        return ::matmul_tile_variants__8_launch(A, B, C, stream);
    }
}

#ifndef CUGEN_C_ONLY
#include "matmul_tile_variants.hpp"
#endif
#endif

// Input f66d0f8cea665d2d, text 5ef8dd5ead1cfeeb.
