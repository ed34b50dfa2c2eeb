// gemm_wgmma_no_producer_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_wgmma_no_producer.yaml (hash 89c072e6ca9b638a) for
// sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_wgmma_no_producer.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_wgmma_no_producer_launch(cugen::Span<const __nv_bfloat16, 2> A,
    cugen::Span<const __nv_bfloat16, 2> B, cugen::Span<__nv_bfloat16, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {248, 512}, {512, 1}, 16);
    check.array("B", B, {256, 512}, {512, 1}, 16);
    check.array("C", C, {248, 256}, {256, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_wgmma_no_producer_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
