// gemm_tensor_f16_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_tensor_f16.yaml (hash 463cd9479cec57a5) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_tensor_f16.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_tensor_f16_launch(cugen::Span<const __half, 2> A, cugen::Span<const __half, 2> B,
    cugen::Span<const float, 1> bias, cugen::Span<__half, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {96, 72}, {72, 1}, 16);
    check.array("B", B, {96, 136}, {136, 1}, 16);
    check.array("bias", bias, {136}, {1}, 16);
    check.array("C", C, {72, 136}, {136, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    check.disjoint("bias", bias, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_tensor_f16_launch(A.data, B.data, bias.data, C.data, stream), cudaGetErrorString);
}
