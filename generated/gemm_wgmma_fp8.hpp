// gemm_wgmma_fp8_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_wgmma_fp8.yaml (hash 866e1b6caf7fdd69) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_wgmma_fp8.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_wgmma_fp8_launch(cugen::Span<const __nv_fp8_e4m3, 2> A,
    cugen::Span<const __nv_fp8_e4m3, 2> B, cugen::Span<__nv_bfloat16, 2> C, float scale, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {256, 512}, {512, 1}, 16);
    check.array("B", B, {192, 512}, {512, 1}, 16);
    check.array("C", C, {256, 192}, {192, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_wgmma_fp8_launch(A.data, B.data, C.data, scale, stream), cudaGetErrorString);
}
