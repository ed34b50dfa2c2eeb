// matmul_tile_variants_launch: the largest of these variants that the current device allows, per block
//
// matmul_tile_variants__32: 1024 threads and 8192 bytes of shared memory per block
// matmul_tile_variants__16: 256 threads and 2048 bytes of shared memory per block
// matmul_tile_variants__8: 64 threads and 512 bytes of shared memory per block
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "matmul_tile_variants__8.h"
#include "matmul_tile_variants__16.h"
#include "matmul_tile_variants__32.h"

// Launches on `stream` and returns without waiting. All pointers are to device memory. Where the device allows none of
// the variants, cudaErrorInvalidConfiguration is returned, and `reason` says what the smallest lacks.
inline cudaError_t matmul_tile_variants_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream,
    std::string* reason = nullptr)
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

    if (threads >= 1024 && shared >= 8192)
        return ::matmul_tile_variants__32_launch(A, B, C, stream);
    if (threads >= 256 && shared >= 2048)
        return ::matmul_tile_variants__16_launch(A, B, C, stream);
    if (threads >= 64 && shared >= 512)
        return ::matmul_tile_variants__8_launch(A, B, C, stream);

    if (reason != nullptr)
        *reason = "matmul_tile_variants__8 needs 64 threads and 512 bytes of shared memory per block"
            "; the device allows "
            + std::to_string(threads) + " threads and "
            + std::to_string(shared) + " bytes of shared memory";
    return cudaErrorInvalidConfiguration;
}

// Input c51115e7ca40d725, text 4cd5c2c4a0174017.
