// gemm_tensor_bf16_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_tensor_bf16.yaml (hash 2e493dfef3d29d7a) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_tensor_bf16.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_tensor_bf16_launch(cugen::Span<const __nv_bfloat16, 2> A,
    cugen::Span<const __nv_bfloat16, 2> B, cugen::Span<__nv_bfloat16, 2> C, cudaStream_t stream)
{
    const long long M = A.extents[0];
    cugen::Checks check;
    check.equal("M", M, "dimension 0 of `A`", C.extents[0], "dimension 0 of `C`");
    check.param("M", M, 1, 65536, 1);
    check.array("A", A, {M, 80}, {80, 1}, 16, "[M, 80]");
    check.array("B", B, {96, 80}, {80, 1}, 16);
    check.array("C", C, {M, 96}, {96, 1}, 8, "[M, 96]");
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_tensor_bf16_launch(A.data, B.data, C.data, static_cast<int>(M), stream),
        cudaGetErrorString);
}
