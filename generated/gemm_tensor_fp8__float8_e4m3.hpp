// gemm_tensor_fp8__float8_e4m3_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_tensor_fp8.yaml (hash 3811108bd53f5d26) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_tensor_fp8__float8_e4m3.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_tensor_fp8__float8_e4m3_launch(cugen::Span<const __nv_fp8_e4m3, 2> A,
    cugen::Span<const __nv_fp8_e4m3, 2> B, cugen::Span<__nv_bfloat16, 2> C, float scale, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {48, 160}, {160, 1}, 16);
    check.array("B", B, {80, 160}, {160, 1}, 16);
    check.array("C", C, {48, 80}, {80, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_tensor_fp8__float8_e4m3_launch(A.data, B.data, C.data, scale, stream),
        cudaGetErrorString);
}
