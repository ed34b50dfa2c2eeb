// matmul_tile_variants_launch: of these variants the one that takes least on the current device, by
// what its resident blocks can move
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
#include <algorithm>
#include <string>

// A variant at the sizes of a call: whether it fits the device, the blocks of its grid, and
// the bytes that a block moves and has in flight.
struct matmul_tile_variants_candidate {
    int variant;
    bool fits;
    double blocks;
    double moved;
    double in_flight;
    cudaError_t (*blocks_per_sm)(int* blocks);
};

// Sets the variant to the candidate that fits and takes least, of equal ones to the first: bytes
// that move over those in flight on an SM, up to what saturates the bandwidth.
// Returns cudaErrorInvalidConfiguration where none fits.
template <int count>
cudaError_t matmul_tile_variants_fastest(const matmul_tile_variants_candidate (&candidates)[count], int sms,
    int* variant)
{
    const matmul_tile_variants_candidate* best = nullptr;
    double least = 0.0;
    for (const matmul_tile_variants_candidate& candidate : candidates) {
        if (!candidate.fits)
            continue;
        int blocks_per_sm = 0;
        const cudaError_t status = candidate.blocks_per_sm(&blocks_per_sm);
        if (status != cudaSuccess)
            return status;
        const double resident = std::min(candidate.blocks, double(blocks_per_sm) * sms);
        const double in_flight = std::min(resident * candidate.in_flight / sms, 49152.0);
        const double time = candidate.blocks * candidate.moved / in_flight;
        if (best == nullptr || time < least) {
            best = &candidate;
            least = time;
        }
    }
    if (best == nullptr)
        return cudaErrorInvalidConfiguration;
    *variant = best->variant;
    return cudaSuccess;
}

// Index of the variant that a call takes. Where there is none, returns
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
    int sms = 0;
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess)
        return status;

    const matmul_tile_variants_candidate candidates[] = {
        {0, threads >= 1024 && shared >= 8192, double(9), 14968.9, 8192, ::matmul_tile_variants__32_blocks_per_sm},
        {1, threads >= 256 && shared >= 2048, double(30), 8597.33, 2048, ::matmul_tile_variants__16_blocks_per_sm},
        {2, threads >= 64 && shared >= 512, double(99), 5760.65, 512, ::matmul_tile_variants__8_blocks_per_sm},
    };
    status = matmul_tile_variants_fastest(candidates, sms, variant);
    if (status != cudaErrorInvalidConfiguration)
        return status;
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

// Input e6819843f3aafc94, text 4290a23adc268a3e.
