// gemm_wgmma_multicast_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_wgmma_multicast.yaml (hash 772d9b02def43cf4) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_wgmma_multicast.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_wgmma_multicast_launch(cugen::Span<const __half, 2> A,
    cugen::Span<const __half, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {248, 256}, {256, 1}, 16);
    check.array("B", B, {128, 256}, {256, 1}, 16);
    check.array("C", C, {248, 128}, {128, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_wgmma_multicast_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
