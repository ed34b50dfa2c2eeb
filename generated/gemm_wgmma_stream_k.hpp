// gemm_wgmma_stream_k_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_wgmma_stream_k.yaml (hash 317823f903cccdf5) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_wgmma_stream_k.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_wgmma_stream_k_launch(cugen::Span<const __half, 2> A,
    cugen::Span<const __half, 2> B, cugen::Span<__half, 2> C, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {120, 640}, {640, 1}, 16);
    check.array("B", B, {640, 160}, {160, 1}, 16);
    check.array("C", C, {120, 160}, {160, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_wgmma_stream_k_launch(A.data, B.data, C.data, workspace, stream), cudaGetErrorString);
}
